#include "tally/input.h"

#include "base/memory.h"
#include "tally/command.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_SIZE 65536

/* `name` is for people. */
static bool read_all(int file, const char *name, struct buffer *buffer, size_t size_max)
{
    ssize_t size;
    do {
        size = read(file, buffer_reserve(buffer, READ_SIZE), READ_SIZE);
        if (size > 0)
            buffer_extend(buffer, (size_t)size);
    } while ((size > 0 && buffer->size <= size_max) || (size < 0 && errno == EINTR));
    if (size < 0) {
        complain("can't read %s: %s", name, strerror(errno));
        return false;
    }
    if (buffer->size > size_max) {
        complain("%s is longer than %zu bytes, the most that is taken here", name, size_max);
        return false;
    }
    if (buffer->size > 0 && memchr(buffer->data_owned, 0, buffer->size) != NULL) {
        complain("%s holds a NUL byte, which a message can't; send such data as base64", name);
        return false;
    }
    *buffer_reserve(buffer, 1) = 0;
    return true;
}

bool input_read(struct buffer *buffer, size_t size_max)
{
    return read_all(STDIN_FILENO, "standard input", buffer, size_max);
}

bool input_read_file(const char *path, struct buffer *buffer, size_t size_max)
{
    if (strcmp(path, "-") == 0)
        return input_read(buffer, size_max);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        complain("can't open %s: %s", path, strerror(errno));
        return false;
    }
    bool is_read = read_all(file, path, buffer, size_max);
    close(file);
    return is_read;
}

void lines_init(struct lines *lines, char *text)
{
    size_t capacity = 0;
    char *rest = text;
    char *line;

    *lines = (struct lines){.count = 0};
    while ((line = strsep(&rest, "\n")) != NULL) {
        size_t size = strlen(line);
        if (size > 0 && line[size - 1] == '\r')
            line[size - 1] = '\0';
        if (*line == '\0')
            continue;
        if (lines->count == capacity) {
            capacity = capacity == 0 ? 64 : capacity * 2;
            lines->items_owned = memory_resize(lines->items_owned, capacity * sizeof *lines->items_owned);
        }
        lines->items_owned[lines->count++] = line;
    }
}

void lines_deinit(struct lines *lines)
{
    free(lines->items_owned);
    *lines = (struct lines){.count = 0};
}
