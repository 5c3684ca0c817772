#include "tally/line_reader.h"

#include "tally/command.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define READ_SIZE 65536u

bool line_reader_init(struct line_reader *reader, const char *path)
{
    const bool is_input = strcmp(path, "-") == 0;
    *reader = (struct line_reader){.file = STDIN_FILENO, .name = is_input ? "standard input" : path};
    buffer_init(&reader->text);
    if (!is_input)
        reader->file = open(path, O_RDONLY | O_CLOEXEC);
    if (reader->file < 0)
        complain("can't open %s: %s", path, strerror(errno));
    return reader->file >= 0;
}

void line_reader_deinit(struct line_reader *reader)
{
    if (reader->file > STDIN_FILENO)
        close(reader->file);
    buffer_deinit(&reader->text);
}

/* Moves the rest to the front and reads on. */
static bool read_more(struct line_reader *reader)
{
    struct buffer *text = &reader->text;
    const size_t rest = text->size - reader->begin;
    if (rest > 0)
        memmove(text->data_owned, text->data_owned + reader->begin, rest);
    buffer_truncate(text, rest);
    reader->begin = 0;
    const ssize_t size = read(reader->file, buffer_reserve(text, READ_SIZE), READ_SIZE);
    if (size < 0 && errno != EINTR) {
        complain("can't read %s: %s", reader->name, strerror(errno));
        return false;
    }
    if (size > 0)
        buffer_extend(text, (size_t)size);
    reader->is_at_end = size == 0;
    return true;
}

/* Where the line ends that begins the text that is left; NULL: not yet. `from` is how much was looked at. */
static const uint8_t *find_end(const struct line_reader *reader, size_t from)
{
    const size_t rest = reader->text.size - reader->begin;
    return rest == from ? NULL : memchr(reader->text.data_owned + reader->begin + from, '\n', rest - from);
}

enum line_reader_result line_reader_next(struct line_reader *reader, size_t size_max, struct bytes *line)
{
    const uint8_t *end = find_end(reader, 0);
    while (end == NULL && !reader->is_at_end) {
        const size_t looked_at = reader->text.size - reader->begin;
        if (looked_at > size_max) {
            complain("line %llu of %s is longer than %zu bytes, the most that is taken here",
                     (unsigned long long)reader->line + 1, reader->name, size_max);
            return LINE_FAILED;
        }
        if (!read_more(reader))
            return LINE_FAILED;
        end = find_end(reader, looked_at);
    }
    const uint8_t *begin = reader->text.data_owned + reader->begin;
    if (end == NULL && reader->begin == reader->text.size)
        return LINE_NONE;
    *line = bytes_make(begin, end == NULL ? reader->text.size - reader->begin : (size_t)(end - begin));
    reader->begin += line->size + (end != NULL);
    reader->line++;
    return LINE_READ;
}
