/* The api of a namespace: a request becomes a command, the core's answer becomes a reply. One table of actions
 * (actions.c), a row each.
 *
 * Requests come from the front (front.h), which owns what all namespaces share. Replies go back through it. This is
 * what the front remembers of one namespace: the waiting requests and the counts. Never blocks. One thread: the
 * loop's. */
#ifndef TALLY_API_API_H
#define TALLY_API_API_H

#include "api/firings.h"
#include "api/front.h"
#include "api/trends.h"
#include "base/heap.h"
#include "base/number_map.h"
#include "base/slab.h"
#include "engine/namespace.h"

/* A namespace that the front serves. Whoever serves it embeds this in a larger struct, and finds that one by
 * exchange->api. The members are private to src/api. */
struct api {
    struct front *front; /* borrowed, as is the namespace */
    struct namespace *ns;
    struct firings firings;
    struct trends trends;
    struct slab waiters;       /* who waits (wait.h) */
    struct heap deadlines;     /* of those that have one */
    uint64_t waiter_number;    /* of the newest */
    uint32_t receives_waiting; /* how many of them are receives, FeedTickets, and requests that go on in portions */
    uint32_t feeds_waiting;
    uint32_t portions_waiting;
    struct slab queue_waiters; /* of each queue for which receives wait (wait_receive.c) */
    struct number_map queue_waiters_by_id;
    struct slab pool_readers; /* of each pool whose feed somebody has read (wait_pool.h) */
    struct number_map pool_readers_by_id;
    struct list woken_readers;       /* pools whose feed has grown while somebody waits for it */
    struct list in_portions;         /* CountTickets and ProposeMatches, in turn */
    struct list event_waiters;       /* FeedEvents, in order of arrival */
    struct activity *activity_owned; /* what was done lately (activity.h); NULL: nobody has noted or read anything */
    uint64_t since_ms;               /* since when it is served; log time */
    uint32_t recovery_ms;            /* how long it took to read its log */
    uint32_t events_waiting;         /* how many FeedEvents wait */
    uint64_t *call_counts_owned;     /* by action: [2 * i] good, [2 * i + 1] failed */
    uint64_t damaged_count;          /* contents that could not be read back */
    uint64_t stale_count;            /* receipt handles that were not the newest of their message */
    /* The names of deleted queues, and when they were deleted, for AWS's 60-second rule. Only with
     * enforce_delete_interval. */
    struct deleted_name *deleted_owned;
    size_t deleted_count;
    bool has_event_news; /* something was noted for which a FeedEvents waits */
    bool is_taken_over;  /* from another owner, or one that was here before */
    bool is_withdrawn;   /* the front has it no more */
};

/* From now on the front serves this namespace. No other one has its name. `api` stays at its address until
 * api_deinit(). Before that, all its exchanges have come back and none waits. */
void api_init(struct api *api, struct front *front, struct namespace *ns);
void api_deinit(struct api *api);

/* From now on the front serves this namespace no more: no request reaches it, and those that waited end as at
 * api_release_waiting(), and nothing falls due. Exchanges come back as before. api_deinit() follows. */
void api_withdraw(struct api *api);
bool api_is_withdrawn(const struct api *api);

struct namespace *api_namespace(const struct api *api);

/* Does the exchange wait for what is not there yet, a message or an event? One that goes on in portions does not. */
bool api_is_waiting(const struct exchange *exchange);

/* The client of an exchange has gone. Forgets the exchange: a waiting one before it takes a message, a finished one
 * before it is taken. */
void api_abandon(struct exchange *exchange);

/* Answers every waiting receive with no messages. For a clean stop. */
void api_release_waiting(struct api *api);

/* The frame for which a finished exchange waits is durable. May its reply leave? True: yes. Its leases begin anew if
 * more than a tenth of them is over. False: exchange->hold_sequence now names a later frame. Needed if
 * exchange_gives_lease(). */
bool api_reply_may_leave(struct api *api, struct exchange *exchange, uint64_t now_ms);

/* When the api has something to do again by itself, in log time; UINT64_MAX: never. */
uint64_t api_due_ms(const struct api *api);

/* Is there a receive or a feed that could be answered if the budget of replies were not spent? It ticks to find out. */
bool api_waits_for_memory(struct api *api, uint64_t now_ms);

/* Does what has fallen due: visibility timeouts, delays, expiries, deadlines of batches
 * and of long polls, schedules. */
void api_tick(struct api *api, uint64_t now_ms);

/* How many contents could not be read back since the namespace is served. */
static inline uint64_t api_damaged_count(const struct api *api)
{
    return api->damaged_count;
}

/* For FeedEvents: how the namespace came to be served, just now and at `now_ms`; and something that the server did with
 * it or met in it, as a word for programs (static) and a sentence for people. Times are log time. */
void api_note_start(struct api *api, uint64_t now_ms, uint64_t recovery_ms, bool is_taken_over);
void api_note_event(struct api *api, uint64_t now_ms, const char *action, const char *text);

/* Does something go wrong that an operator can mend? True: *failure says what it is, once for each such fault. */
bool api_take_warning(struct api *api, struct failure *failure);

/* Does a request wait in it: a long poll, or one that goes on in portions? */
bool api_is_awaited(const struct api *api);

/* Could a receive or a feed that waits be answered, now or when memory for it is free? */
bool api_has_news(const struct api *api);

/* Has a request left work that its sender expects to be done with the reply? If so, call api_tick() before
 * namespace_flush(), so that the work is in the same frame or the next one. */
bool api_is_settling(const struct api *api);

#endif
