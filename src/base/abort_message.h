/* What a program says before it aborts. */
#ifndef TALLY_BASE_ABORT_MESSAGE_H
#define TALLY_BASE_ABORT_MESSAGE_H

/* Prints on standard error, newline and all, and waits at most a second for a reader: a program that must end does not
 * wait longer. */
__attribute__((format(printf, 1, 2), cold)) void abort_message_write(const char *format, ...);

#endif
