/* The standard error of a command: handed on to ours as it comes, and its last line kept, which says most often why the
 * command failed.
 *
 * A thread reads the pipe until nobody holds its other end, which may be after the command's own end: what it leaves
 * running can go on writing. Where nobody reads our standard error, the command waits, as it would if it had ours. When
 * it has ended, nobody waits: a standard error that takes nothing for a second loses what is left. */
#ifndef TALLY_WORKER_ERROR_TAIL_H
#define TALLY_WORKER_ERROR_TAIL_H

#include <stddef.h>

#define ERROR_TAIL_SIZE 512 /* characters of a line that are kept, with a NUL; of a longer one the beginning */

struct error_tail;

/* Makes the pipe; *file is the end to give to the command, which the caller closes when it has started. NULL if there
 * is no room for a pipe or thread; then *file is -1, so that the command inherits ours. */
struct error_tail *error_tail_create(int *file);

/* After the command's end: waits a second at most until what was written before this call is handed on. Copies the last
 * line of it that is not empty, as text that a message may hold: control characters and what is not UTF-8 become "?".
 * "" if there was none. Gives the tail up, which goes when nobody writes any more; NULL is allowed, and has no line. */
void error_tail_finish(struct error_tail *tail, char line[ERROR_TAIL_SIZE]);

#endif
