/* Finished replies that nobody may see yet: a client must never see what a crash could take back.
 *
 * Ordered by the frame each waits for. Decisions are made in the order of frames. So a new reply goes to the end, and
 * releasing takes from the front. */
#ifndef TALLY_SERVER_HELD_REPLIES_H
#define TALLY_SERVER_HELD_REPLIES_H

#include "server/pending_request.h"

struct held_replies {
    struct list pending;
    size_t count;
};

void held_replies_init(struct held_replies *held);

/* Holds a finished request until `exchange.hold_sequence` is durable. O(1). */
void held_replies_add(struct held_replies *held, struct pending_request *pending);

/* The next request whose frame is durable. It is no longer held, and PENDING_IN_API as before; NULL if there is
 * none. */
struct pending_request *held_replies_take(struct held_replies *held, uint64_t durable_sequence);

/* Forgets a held request whose client has gone. */
void held_replies_remove(struct pending_request *pending);

#endif
