/* The namespaces that this node has or follows, as ownership.c moves them on, and what ownership_view.c says of them.
 * The loop's. */
#ifndef TALLY_TALLYD_OWNERSHIP_STATE_H
#define TALLY_TALLYD_OWNERSHIP_STATE_H

#include "tallyd/belonging.h"
#include "tallyd/ownership.h"

#include <uv.h>

struct ownership {
    struct ownership_options options;
    const char *node; /* this one's name */
    struct belonging belonging;
    struct holding **holdings_owned; /* by name */
    size_t count;
    size_t capacity;
    struct holding **awake_owned; /* of them: those about which something may have to be done */
    size_t awake_count;
    size_t awake_capacity;
    size_t opened;          /* those that are not absent */
    size_t reserved;        /* so many of the opened have descriptors */
    struct holding *leader; /* without a cluster; NULL: each is taken by itself */
    atomic_bool leads;      /* this node has the leader's log */
    bool takes_descriptors;
    bool has_begun;
    bool has_new;    /* what is wanted has changed */
    bool has_served; /* any, since the start */
    bool is_ready;   /* it serves what it is for; until it serves nothing */
    bool is_halted;  /* nothing is followed any more */
    void (*stopped)(void *context);
    uint64_t gone_since_ms; /* on the way to `stopped`: the last one was given up; 0: not yet */
    uint64_t taken_ms;      /* likewise: all of them have other owners */
    uint64_t reported_ms;   /* when a line about a silent PostgreSQL was written; 0: none yet; likewise the next two */
    uint64_t stalled_ms;    /* about those that wait for it */
    uint64_t resumed_ms;    /* about those that go on */
    uv_timer_t look;
    uv_async_t woken; /* a thread has ended */
};

/* The place of the name, or the place for it. */
size_t ownership_place_of(const struct ownership *ownership, struct bytes name);

/* NULL: there is none of that name. */
struct holding *ownership_find_holding(const struct ownership *ownership, struct bytes name);

/* Of a request: an empty name is that of the first one (front.h). NULL: there is none of that name. */
struct holding *ownership_find_asked(const struct ownership *ownership, struct bytes name);

/* Not of those that are absent. */
size_t ownership_count_in(const struct ownership *ownership, enum holding_state state);

bool ownership_is_in_cluster(const struct ownership *ownership);

/* Does it serve nothing of what it is for? Where namespaces rest, none may be asked for. */
bool ownership_serves_nothing(const struct ownership *ownership);

/* Where a request about it is sent that is not served here; as ownership_find(). */
enum forward_owner ownership_find_node(const struct ownership *ownership, const struct holding *holding,
                                       struct forward_target *target);

/* Is it known of each that it does not serve which node has it, unless nobody need have it? */
bool ownership_others_have_owners(const struct ownership *ownership);

#endif
