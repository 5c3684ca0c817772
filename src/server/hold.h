/* Replies that are finished but may not be seen yet: nobody is ever shown what a crash could take back.
 *
 * Ordered by the frame each waits for. Decisions are made in the order of frames, so a new one belongs at the end, and
 * releasing is taking from the front. */
#ifndef TALLY_SERVER_HOLD_H
#define TALLY_SERVER_HOLD_H

#include "server/turn.h"

struct hold {
    struct list turns;
    size_t count;
};

void hold_init(struct hold *hold);

/* Holds a finished turn until `exchange.hold_sequence` is durable. O(1). */
void hold_add(struct hold *hold, struct turn *turn);

/* The next turn whose frame is durable, no longer held, and TURN_IN_API as before; NULL if there is none. */
struct turn *hold_take(struct hold *hold, uint64_t durable_sequence);

/* Forgets a held turn whose client has gone. */
void hold_remove(struct turn *turn);

#endif
