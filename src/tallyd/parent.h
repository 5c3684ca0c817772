/* exit-with-stdin: the daemon ends when its standard input does.
 *
 * Whoever starts it holds the other end of a pipe and never writes to it. The kernel closes that end however that
 * process ends, SIGKILL too. prctl(PR_SET_PDEATHSIG) would not do: it follows the thread that started the daemon, not
 * the process, and test runners start it from threads that end early; and it comes too late for a parent that has died
 * before the call. */
#ifndef TALLY_TALLYD_PARENT_H
#define TALLY_TALLYD_PARENT_H

#include "base/error.h"

#include <stdbool.h>
#include <uv.h>

struct parent {
    uv_poll_t poll;
    bool is_watched;
    void (*gone)(void *context);
    void *context;
};

/* Is standard input a pipe or a socket? ERROR_INVALID_PARAMETER_VALUE. */
enum error parent_check(struct failure *failure);

/* Calls `gone` once, from the loop, when standard input has ended; what is written to it is thrown away. Does not keep
 * the loop alive. */
void parent_watch(struct parent *parent, uv_loop_t *loop, void (*gone)(void *context), void *context);

/* No call comes any more. The loop must run once more. */
void parent_close(struct parent *parent);

#endif
