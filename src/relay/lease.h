/* A lease: which of the relays of a source may work. It decides who tries; what keeps a relay out that has lost it
 * without noticing is the fence, (epoch, owner), which sink and source check (P9, P10, P11).
 *
 * Everything here blocks, for at most a few seconds. One thread at a time, the keeper's; a lease has a connection of
 * its own, so that nothing that is slow elsewhere delays a beat. */
#ifndef TALLY_RELAY_LEASE_H
#define TALLY_RELAY_LEASE_H

#include "relay/row.h"
#include "relay/step.h"
#include <string.h>

/* Who a relay is while it owns the source. */
struct term {
    struct uid source_id; /* under which a Tally queue remembers the source's rows */
    uint64_t epoch;
    struct uid owner; /* fresh for each attempt to take over */
};

static inline bool term_equal(const struct term *a, const struct term *b)
{
    return a->epoch == b->epoch && memcmp(&a->owner, &b->owner, sizeof(a->owner)) == 0;
}

/* What a stand-by sees. A lease that was given up has the owner that is all zero, one that nobody had yet has epoch
 * 0. */
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
    /* The owner leaves: the next waits no longer, because it sees an owner that is all zero. May be unreachable. */
    void (*give_up)(struct lease *lease, const struct term *term);
    void (*close)(struct lease *lease);
};

/* The head of each kind of lease. */
struct lease {
    const struct lease_ops *ops;
};

#endif
