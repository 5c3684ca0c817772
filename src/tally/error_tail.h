/* The standard error of a command: handed on to ours as it comes, and its last line kept, which says most often why the
 * command failed.
 *
 * A thread reads the pipe until nobody holds its other end, which may be after the command's own end: what it leaves
 * running can go on writing. */
#ifndef TALLY_TALLY_ERROR_TAIL_H
#define TALLY_TALLY_ERROR_TAIL_H

#include <stddef.h>

#define ERROR_TAIL_SIZE 512 /* characters of a line that are kept, with a NUL; of a longer one the beginning */

struct error_tail;

/* Makes the pipe; *file is the end to give to the command, which the caller closes when it has started. NULL if there is no
 * room for a pipe or thread; then *file is -1, so that the command inherits ours. */
struct error_tail *error_tail_create(int *file);

/* Copies the last line that was written until now and is not empty, as text that a message may hold: control characters and
 * what is not UTF-8 become "?". "" if there was none. After the command's end, before error_tail_release(). */
void error_tail_line(struct error_tail *tail, char line[ERROR_TAIL_SIZE]);

/* Gives the tail up; NULL is allowed. It goes when nobody writes any more. */
void error_tail_release(struct error_tail *tail);

#endif
