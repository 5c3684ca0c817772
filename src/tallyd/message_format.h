/* How the lines look that the daemon writes (log-format):
 *
 *   plain   tallyd: the disk: /data is short of room …      what was said, and nothing else
 *   text    2026-11-29T15:47:41.123Z warning the disk: …    with the time and the level
 *   json    {"time":"2026-11-29T15:47:41.123Z","level":"warning","message":"the disk: …"}
 *
 * Where journald reads, plain and text begin with the level's number as it wants it: <4>. */
#ifndef TALLY_TALLYD_MESSAGE_FORMAT_H
#define TALLY_TALLYD_MESSAGE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_LINE_SIZE ((size_t)4096) /* a longer line is cut */

/* The numbers are those of syslog. */
enum message_level { MESSAGE_ERROR = 3, MESSAGE_WARNING = 4, MESSAGE_NOTICE = 5, MESSAGE_INFO = 6 };

enum message_form { MESSAGE_PLAIN, MESSAGE_TEXT, MESSAGE_JSON };

struct message_format {
    enum message_form form;
    bool is_for_journal;
};

/* False: the form has another name. */
bool message_form_find(const char *name, enum message_form *form);

/* Is the descriptor the stream to journald that JOURNAL_STREAM in the environment names? Not so where somebody has
 * redirected it. */
bool message_is_for_journal(int descriptor);

/* Writes the line with its newline, and returns its size. `text` is what was said. A control character in it, such as
 * a newline, becomes a blank; in JSON, what is no UTF-8 a question mark. `at_ms`: wall clock. */
size_t message_format_line(const struct message_format *format, enum message_level level, uint64_t at_ms,
                           const char *text, char line[static MESSAGE_LINE_SIZE]);

#endif
