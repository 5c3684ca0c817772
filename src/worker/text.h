/* Text for programs: strings with a closing NUL, and paths as UTF-8. */
#ifndef TALLY_WORKER_TEXT_H
#define TALLY_WORKER_TEXT_H

#include "base/arena.h"

/* printf into the arena, with a closing NUL. */
char *text_format(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A path or line, which may be any bytes but NUL, as text that a message may hold: "%", control characters and what is
 * not UTF-8 become %XX. One to one; the same for every run. Memory of the caller, to be freed with free(). */
char *text_escape(const char *raw);

/* Is this a text that text_escape() may have made? */
bool text_is_escaped(const char *text);

/* text_escape() undone, in the arena. The text may have a repetition number, "%*2", which is not part of the line. */
char *text_unescape(struct arena *arena, const char *escaped);

/* How many bytes the UTF-8 character at the beginning of `text` (closed by a NUL) has; 0 if it is none that a message
 * may hold. */
size_t text_character_size(const char *text);

#endif
