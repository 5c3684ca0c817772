#include "tallyd/message_format.h"

#include "base/assert.h"
#include "base/quote.h"
#include "base/shown.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define TIME_SIZE 32u

bool message_form_find(const char *name, enum message_form *form)
{
    static const char *const names[] = {[MESSAGE_PLAIN] = "plain", [MESSAGE_TEXT] = "text", [MESSAGE_JSON] = "json"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *form = (enum message_form)i;
        return true;
    }
    return false;
}

/* Source: systemd.exec(5), $JOURNAL_STREAM: "DEVICE:INODE" of the stream. */
bool message_is_for_journal(int descriptor)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat status;
    return stream != NULL && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(descriptor, &status) == 0 &&
           status.st_dev == device && status.st_ino == inode;
}

static const char *level_name(enum message_level level)
{
    static const char *const names[] = {
        [MESSAGE_ERROR] = "error", [MESSAGE_WARNING] = "warning", [MESSAGE_NOTICE] = "notice", [MESSAGE_INFO] = "info"};
    return names[level];
}

static void format_time(uint64_t at_ms, char text[TIME_SIZE])
{
    const time_t at_s = (time_t)(at_ms / 1000);
    struct tm parts;
    (void)gmtime_r(&at_s, &parts);
    const size_t size = strftime(text, TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(text + size, TIME_SIZE - size, ".%03uZ", (unsigned)(at_ms % 1000));
}

/* Who speaks need not be said where each line has a form of its own. */
static const char *without_name(const char *text)
{
    static const char name[] = "tallyd: ";
    return strncmp(text, name, sizeof(name) - 1) == 0 ? text + sizeof(name) - 1 : text;
}

/* Behind what stands in the line already; leaves `room` bytes. */
static size_t append_text(char *line, size_t size, const char *text, size_t room)
{
    for (struct bytes rest = bytes_from_string(text); rest.size > 0;) {
        const struct bytes character = shown_take(&rest);
        if (size + room + character.size > MESSAGE_LINE_SIZE)
            break;
        memcpy(line + size, character.ptr, character.size);
        size += character.size;
    }
    return size;
}

/* The beginning of the text that fits between quotes into so many bytes, appended with them. */
static void append_quoted(struct buffer *out, const char *text, size_t room)
{
    struct buffer clean;
    buffer_init(&clean);
    for (struct bytes rest = bytes_from_string(text); rest.size > 0;) {
        const struct bytes character = shown_take(&rest);
        const size_t taken = quote_size(character);
        if (taken > room)
            break;
        buffer_append_bytes(&clean, character);
        room -= taken;
    }
    quote_append(out, buffer_bytes(&clean));
    buffer_deinit(&clean);
}

static size_t format_json(enum message_level level, const char *stamp, const char *text, char *line)
{
    struct buffer out;
    buffer_init(&out);
    buffer_append_format(&out, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":", stamp, level_name(level));
    append_quoted(&out, without_name(text), MESSAGE_LINE_SIZE - out.size - sizeof("\"\"}"));
    buffer_append_format(&out, "}\n");
    const size_t size = out.size;
    ASSERT(size <= MESSAGE_LINE_SIZE);
    memcpy(line, out.data_owned, size);
    buffer_deinit(&out);
    return size;
}

size_t message_format_line(const struct message_format *format, enum message_level level, uint64_t at_ms,
                           const char *text, char line[static MESSAGE_LINE_SIZE])
{
    char stamp[TIME_SIZE], prefix[TIME_SIZE + 16] = "";
    format_time(at_ms, stamp);
    if (format->form == MESSAGE_JSON)
        return format_json(level, stamp, text, line);
    if (format->is_for_journal)
        (void)snprintf(prefix, sizeof(prefix), "<%d>", (int)level);
    size_t size = append_text(line, 0, prefix, 1);
    if (format->form == MESSAGE_TEXT) {
        (void)snprintf(prefix, sizeof(prefix), "%s %s ", stamp, level_name(level));
        size = append_text(line, size, prefix, 1);
        text = without_name(text);
    }
    size = append_text(line, size, text, 1);
    line[size++] = '\n';
    return size;
}
