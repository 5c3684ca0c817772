/* The api of a namespace: a request becomes a command, the core's answer becomes a reply. One table of actions
 * (actions.c), a row each.
 *
 * Requests come from the front (front.h), which has what all namespaces share, and replies go back through it. Here is
 * what the front remembers of one namespace: who waits, what was counted. Never blocks. One thread: the loop's. */
#ifndef TALLY_API_API_H
#define TALLY_API_API_H

#include "api/firings.h"
#include "api/front.h"
#include "base/heap.h"
#include "base/slab.h"
#include "engine/namespace.h"

/* A namespace that the front serves. Whoever serves it embeds this, beside what else there is to know of it, and so
 * finds that by exchange->api. The members are private to src/api. */
struct api {
    struct front *front; /* borrowed, as is the namespace */
    struct namespace *ns;
    struct firings firings;
    struct slab waiters;       /* who waits (wait.h) */
    struct heap deadlines;     /* of those that have one */
    uint64_t waiter_number;    /* of the newest */
    uint32_t receives_waiting; /* how many of them are receives, FeedTickets, and what goes on in portions */
    uint32_t feeds_waiting;
    uint32_t portions_waiting;
    struct list woken_readers;   /* pools whose feed has grown and somebody waits */
    struct list in_portions;     /* CountTickets and ProposeMatches, in turn */
    uint64_t *call_counts_owned; /* by action: [2 * i] good, [2 * i + 1] failed */
    uint64_t damaged_count;      /* contents that could not be read back */
    uint64_t stale_count;        /* receipt handles that were not the newest of their message */
    /* Deleted names and when, for AWS's 60-second rule; only with enforce_delete_interval. */
    struct deleted_name *deleted_owned;
    size_t deleted_count;
    bool is_withdrawn; /* the front has it no more */
};

/* From now on the front serves this namespace, whose name no other one has. `api` stays where it is until
 * api_deinit(), before which all its exchanges have come back and none waits. */
void api_init(struct api *api, struct front *front, struct namespace *ns);
void api_deinit(struct api *api);

/* From now on the front serves this namespace no more: no request reaches it, and those that waited end as at
 * api_release_waiting(), and nothing falls due. Exchanges come back as before. api_deinit() follows. */
void api_withdraw(struct api *api);
bool api_is_withdrawn(const struct api *api);

struct namespace *api_namespace(const struct api *api);

/* The client of an exchange has gone: forget it, waiting (before it takes a message) or finished (before it is
 * taken). */
void api_abandon(struct exchange *exchange);

/* Answers every waiting receive with no messages; at a clean stop. */
void api_release_waiting(struct api *api);

/* The frame that a finished exchange waits for is durable: may its reply leave? True: it does, and the leases that it
 * gives begin anew if more than a tenth of them is over. False: exchange->hold_sequence is a later frame now. Needed
 * where exchange_gives_lease(). */
bool api_reply_may_leave(struct api *api, struct exchange *exchange, uint64_t now_ms);

/* When the api next has something to do by itself, in log time; UINT64_MAX: never. */
uint64_t api_due_ms(const struct api *api);

/* Is there a receive or a feed that could be answered if the budget of replies were not spent? Ticks to find out. */
bool api_waits_for_memory(struct api *api, uint64_t now_ms);

/* Does what has fallen due: visibility timeouts, delays, expiries, deadlines of batches
 * and of long polls, schedules. */
void api_tick(struct api *api, uint64_t now_ms);

/* Does something not go as it should that an operator can mend? True, with what it is in
 * *failure, once for each such thing. */
bool api_take_warning(struct api *api, struct failure *failure);

/* Might a receive or a feed that waits be answered, now or when there is memory for it? */
bool api_has_news(const struct api *api);

/* Has a request left something that its sender expects to see with the reply? Then api_tick() before
 * namespace_flush(), so that it is in the same frame or the next. */
bool api_is_settling(const struct api *api);

#endif
