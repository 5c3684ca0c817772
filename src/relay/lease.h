/* A lease: it decides which of the relays of a source may work. A relay that has lost it without noticing is kept out
 * by the fence (epoch, owner), which sink and source check (P9, P10, P11).
 *
 * All functions block, for at most a few seconds. Only the keeper's thread calls them, but for interrupt(). A lease has
 * a connection of its own, so that no slow call delays a beat. */
#ifndef TALLY_RELAY_LEASE_H
#define TALLY_RELAY_LEASE_H

#include "relay/row.h"
#include "relay/step.h"
#include <string.h>

/* The identity of a relay while it owns the source. */
struct term {
    struct uid source_id; /* under which a Tally queue remembers the source's rows */
    uint64_t epoch;
    struct uid owner; /* fresh for each attempt to take over */
};

static inline bool term_equal(const struct term *a, const struct term *b)
{
    return a->epoch == b->epoch && memcmp(&a->owner, &b->owner, sizeof(a->owner)) == 0;
}

/* What a stand-by sees. If the lease was given up, the owner is all zeros; if nobody has had it yet, the epoch is 0. */
struct lease_view {
    struct term term; /* of the owner */
    uint64_t beat;    /* rises while the owner lives */
};

struct lease;

struct lease_ops {
    /* Waits for a sign that the owner of the last peek() is gone, at most `wait_ms`: *is_free says whether there was
     * one. No sign is no proof that it lives: the beat decides (P18: never holds back VACUUM for longer than that). */
    enum step (*wait)(struct lease *lease, unsigned wait_ms, bool *is_free, struct fault *fault);
    enum step (*peek)(struct lease *lease, struct lease_view *view, struct fault *fault);
    /* Takes over from what was seen, unless somebody was faster or the beat has moved: *is_mine. The new epoch is above
     * that of the view and above `epoch_min`. `term` is then the caller's own. */
    enum step (*take_over)(struct lease *lease, const struct lease_view *view, uint64_t epoch_min, struct term *term,
                           bool *is_mine, struct fault *fault);
    /* STEP_FENCED: it is not the owner any more. */
    enum step (*beat)(struct lease *lease, const struct term *term, struct fault *fault);
    /* The owner gives up the lease: the next one need not wait, because it sees an owner of all zeros. The lease may be
     * unreachable. */
    void (*give_up)(struct lease *lease, const struct term *term);
    /* Ends the call in progress, and those after it, as if no answer came. Any thread. NULL: no call takes long. */
    void (*interrupt)(struct lease *lease);
    void (*close)(struct lease *lease);
};

/* The common part of each kind of lease. */
struct lease {
    const struct lease_ops *ops;
};

#endif
