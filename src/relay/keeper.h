/* The keeper: the thread of a relay that stands by for the lease of its source, takes over when the owner is gone,
 * beats while it is the owner, and tells the worker until when it may work. It knows the lease only by struct
 * lease_ops, and nothing of rows.
 *
 * A term ends, and the keeper is a stand-by again (P10), when
 *   - a beat or the worker (keeper_step_down) was told STEP_FENCED,
 *   - no beat got through for as long as the lease is,
 *   - the worker could not work for KEEPER_FAILING_LEASES leases (keeper_report): then it gives the lease up and leaves
 *     it to others for a while, longer each time (P27).
 * A term that is over never comes back: what takes over again has a later epoch. */
#ifndef TALLY_RELAY_KEEPER_H
#define TALLY_RELAY_KEEPER_H

#include "platform/monotonic.h"
#include "relay/lease.h"

/* For how many leases a worker may report that it can't work. */
#define KEEPER_FAILING_LEASES 4u

struct keeper;

enum lease_role {
    ROLE_STARTING, /* the lease was not reached yet */
    ROLE_STANDBY,
    ROLE_OWNER,
    /* The lease can't be reached or does not fit, or another database has the same identity: `fault` says why; it goes
     * on trying. */
    ROLE_FAILED,
};

struct keeper_view {
    enum lease_role role;
    struct term term; /* of an owner */
    /* of an owner, on boottime_ms(): until then nobody else can have taken over by waiting */
    uint64_t valid_until_ms;
    uint64_t takeovers; /* since it started */
    struct fault fault; /* why it failed, or why its last term ended; "" if neither */
};

struct keeper_options {
    struct lease *lease; /* the keeper's from now on: it alone calls it, and closes it at the end */
    unsigned lease_ms;
    /* Unless NULL: called from the keeper's thread after each change of role, and of `fault` while it has failed.
     * May call keeper_read(), but nothing that waits for the keeper. */
    void (*wake)(void *context);
    void *context;
};

struct keeper *keeper_start(const struct keeper_options *options);

/* Asks it to end: at the next opportunity it gives up a lease that it holds, so that the next one takes over at once.
 * The worker must have settled what was in flight. */
void keeper_stop(struct keeper *keeper);
/* The database does not answer: what is asked of the lease from now on fails, and the next owner must wait for it. */
void keeper_interrupt(struct keeper *keeper);
/* Waits for the end, and frees. A lease that takes longer than `wait_ms` is interrupted. */
void keeper_join(struct keeper *keeper, unsigned wait_ms);

/* All functions below: any thread, and they never wait for the lease. */

void keeper_read(struct keeper *keeper, struct keeper_view *view);

/* Is `term` still the keeper's, and its lease not over by the monotonic clock? Asked right before each request that
 * leaves. */
bool keeper_is_valid(struct keeper *keeper, const struct term *term);

/* The worker was told STEP_FENCED in `term`. A sink that knows a later term says which epoch; 0: it did not. Then, and
 * only if nobody else has taken over in the source meanwhile, it is taken over again at once with an epoch above that
 * one; else this is a stand-by. Ignored if `term` is over already. */
void keeper_step_down(struct keeper *keeper, const struct term *term, uint64_t epoch_known);

/* Reports after each attempt whether the worker can work in `term`. True: a row went through, or there was nothing to
 * do. False: source or sink can't be used. No call means no report. */
void keeper_report(struct keeper *keeper, const struct term *term, bool is_working);

/* A paused relay leaves the source to others: it gives up what it holds and takes nothing over until it is resumed. */
void keeper_set_paused(struct keeper *keeper, bool is_paused);

#endif
