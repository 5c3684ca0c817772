/* What a program says before it aborts. */
#ifndef TALLY_BASE_LAST_WORDS_H
#define TALLY_BASE_LAST_WORDS_H

/* Prints on standard error, newline and all, and waits at most a second for a reader: a program that must end does not
 * wait longer. */
__attribute__((format(printf, 1, 2), cold)) void last_words_say(const char *format, ...);

#endif
