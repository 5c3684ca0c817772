/* Who waits: receives for a message, FeedTickets for the next event of a pool, FeedEvents for what is done next,
 * CountTickets and ProposeMatches for their next portion. Private to src/api.
 *
 * There is one kind of waiting: each has a waiter, most have a deadline, all are counted, abandoned, renewed and
 * released alike (wait.c). What sets them apart is a struct wait_kind: wait_receive.c has that of receives, wait_pool.c
 * has those of pools, feed_events.c that of FeedEvents. */
#ifndef TALLY_API_WAIT_H
#define TALLY_API_WAIT_H

#include "api/action.h"
#include "api/activity.h"
#include "api/wait_pool.h"

struct queue_waiters;
struct waiter;

struct wait_kind {
    bool has_deadline;   /* else it goes on in portions, in turn with the others */
    bool keeps_exchange; /* what was asked and what was written stay as they are while it waits */
    size_t count_offset; /* of the uint32_t in struct api that says how many wait so */

    /* May it go on? What was true when it began may not be now: other credentials, another policy. */
    enum error (*check)(struct call *call, const struct waiter *waiter);

    /* Its time is over: answers it. */
    void (*expire)(struct api *api, struct waiter *waiter, uint64_t now_ms);

    /* It ends without having been answered: its client has gone, or it is refused. NULL: nothing to do. */
    void (*give_up)(struct api *api, struct waiter *waiter);

    /* It ends: gives back what it has. It is in no list. NULL: nothing to do. */
    void (*leave)(struct api *api, struct waiter *waiter);
};

extern const struct wait_kind wait_for_messages, wait_for_feed, wait_for_events, wait_for_count, wait_for_proposals;

/* A receive that found nothing. */
struct waiting_receive {
    struct queue *queue;            /* NULL: it is being deleted */
    struct receive_command command; /* what it has of the request stands in `kept_owned` */
    uint8_t *kept_owned;            /* NULL: it has nothing */
};

/* Something that goes on when a pool has more for it, or in the next turn. */
struct waiting_for_pool {
    struct ticket_pool *pool; /* NULL: it is being deleted */
    union {
        struct feed_command feed;
        struct ticket_count count;
        struct proposals proposals;
    };
};

struct waiter {
    const struct wait_kind *kind;
    struct exchange *exchange;
    uint64_t number;
    /* Among those of its queue or its pool's readers, in order of arrival, or in api->in_portions. */
    struct list_link link;
    uint32_t slot;
    uint32_t deadline_index;
    size_t kept_size; /* beside WAIT_SIZE: what the budget of waits holds for it */
    size_t counted;   /* of proposals: what the budget of replies holds for them */
    union {
        struct waiting_receive receive;
        struct waiting_for_pool pool;
        struct events_command events;
    };
};

void wait_init(struct api *api);
/* No exchange waits any more. */
void wait_deinit(struct api *api);

/* The exchange of this call waits from now on. The caller puts it into a list, and fills what its kind has. */
struct waiter *wait_begin(struct call *call, const struct wait_kind *kind, size_t kept_size);
void wait_set_deadline(struct api *api, struct waiter *waiter, uint64_t deadline_ms);

/* Ends the wait: with the reply that stands in the exchange, or with a refusal. */
void wait_finish(struct api *api, struct waiter *waiter);
void wait_refuse(struct api *api, struct waiter *waiter, enum error error, const struct failure *failure);

/* May it still wait? If not, it ends with that refusal; `error` is what was found before its kind is asked. */
void wait_check(struct api *api, struct waiter *waiter, enum error error, struct failure *failure);

/* Does a waiting exchange wait for news, not for its next portion? */
bool wait_has_deadline(const struct exchange *exchange);

/* The client of an exchange that waits has gone. */
void wait_abandon(struct api *api, struct exchange *exchange);

/* Answers those whose time is over; all of them; when the next one's is. */
void wait_expire(struct api *api, uint64_t now_ms);
void wait_release_all(struct api *api);
uint64_t wait_deadline_ms(const struct api *api);

/* Ends at once those that would be refused now that the credentials are others, with that refusal. O(those that
 * wait). */
void wait_renew(struct api *api);

/* --- receives (wait_receive.c) ------------------------------------------------------------------------------------ */

void wait_receive_init(struct api *api);
void wait_receive_deinit(struct api *api);

/* How many receives wait for the queue's messages; and is it any? */
uint32_t wait_receive_count(const struct api *api, const struct queue *queue);
bool wait_receive_is_awaited(const struct api *api, const struct queue *queue);

/* May a receive wait that would keep what this command has of its request? Then it waits until `deadline_ms`, and the
 * rest of its request is gone with this call. */
bool wait_receive_has_room(const struct call *call, const struct receive_command *command);
void wait_receive(struct call *call, struct queue *queue, const struct receive_command *command, uint64_t deadline_ms);

/* Answers waiting receives of queues that became deliverable; a bounded amount (more is due when the core has ready
 * queues left). */
void wait_receive_serve(struct api *api, uint64_t now_ms);

/* The queue's policy is another: ends at once those that would be refused now, with that refusal. */
void wait_receive_check_again(struct api *api, struct queue *queue);

/* Takes the waiting receives off a queue that is about to go, NULL if there are none; and when it has gone, answers
 * them with ERROR_QUEUE_DOES_NOT_EXIST. */
struct queue_waiters *wait_receive_take_all(struct api *api, const struct queue *queue);
void wait_receive_deleted(struct api *api, struct queue_waiters *waiters);

#endif
