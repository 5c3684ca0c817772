/* What the api remembers between requests. Private to src/api. */
#ifndef TALLY_API_STATE_H
#define TALLY_API_STATE_H

#include "api/action.h"
#include "api/firings.h"
#include "auth/sigv4.h"
#include "base/heap.h"
#include "base/table.h"

struct api {
    struct namespace *ns;
    struct api *const *family; /* borrowed; with this one among them */
    size_t family_count;       /* 0: it is alone */
    struct api_options options;
    const struct credentials *credentials;       /* NULL: nobody is asked who he is */
    const struct credentials *inner_credentials; /* the server's own; NULL: none */
    struct reply_budget *replies;                /* NULL: not counted; borrowed, as is the next */
    struct wait_budget *waits;                   /* NULL: not counted */
    struct sigv4 *sigv4_owned;
    struct calendar *calendar_owned;
    struct firings firings;
    struct table action_by_target; /* index in actions, plus 1 */
    struct pool waiters;
    struct heap waiter_deadlines;
    uint64_t waiter_number;     /* of the next, also of those of pools */
    struct pool pool_waiters;   /* who waits for something of a pool (pool_wait.h) */
    struct heap feed_deadlines; /* FeedTickets among them */
    struct list woken_desks;    /* pools whose feed has grown and somebody waits */
    struct list in_portions;    /* CountTickets and ProposeMatches among them, in turn */
    struct list finished;       /* exchanges whose replies are complete */
    struct buffer scratch;
    uint64_t *call_counts_owned; /* by action: [2 * i] good, [2 * i + 1] failed */
    uint64_t refused_count;      /* requests refused before an action saw them */
    uint64_t damaged_count;      /* contents that could not be read back */
    uint64_t stale_count;        /* receipt handles that were not the newest of their message */
    /* Deleted names and when, for AWS's 60-second rule; only with enforce_delete_interval. */
    struct deleted_name *deleted_owned;
    size_t deleted_count;
};

struct deleted_name {
    char name[QUEUE_NAME_SIZE_MAX];
    size_t size;
    uint64_t at_ms;
};

/* Puts a complete exchange among the finished. */
void api_finish(struct api *api, struct exchange *exchange);

/* What a large request made of the scratch must not stay behind it, for each namespace has one. */
#define SCRATCH_KEPT_MAX ((size_t)256 * 1024)
static inline void api_trim_scratch(struct api *api)
{
    if (api->scratch.capacity > SCRATCH_KEPT_MAX)
        buffer_deinit(&api->scratch);
}

/* Is so much memory in replies that none may be made but for who is being answered already? */
static inline bool api_must_wait(const struct api *api)
{
    return api->replies != NULL && reply_budget_is_spent(api->replies);
}

/* Finds the action that the call's exchange asks for and reads its parameters, in the form that the exchange says
 * (decode.c). *action is NULL where the error came before it was known. Errors: ERROR_NOT_FOUND (a Query request
 * without an action, not described), ERROR_UNKNOWN_OPERATION, ERROR_SERIALIZATION. */
enum error decode_request(struct call *call, const struct action **action);

/* --- waiting receives (wait.c) ------------------------------------------------------------------------------------ */

/* A receive that found nothing and waits. */
struct waiter {
    uint64_t number;
    struct exchange *exchange;
    struct queue *queue;         /* NULL: it is being deleted */
    struct list_link queue_link; /* among the waiters of its queue, in order of arrival */
    uint32_t deadline_index;
    struct receive_command command; /* what it has of the request stands in `kept_owned` */
    uint8_t *kept_owned;            /* NULL: it has nothing */
    size_t kept_size;
};

/* May a receive wait that would keep what this command has of its request? Then it waits until `deadline_ms`, and the
 * rest of its request is gone with this call. */
bool wait_has_room(const struct call *call, const struct receive_command *command);
void wait_begin(struct call *call, struct queue *queue, const struct receive_command *command, uint64_t deadline_ms);
void wait_abandon(struct api *api, struct exchange *exchange);

/* Answers waiting receives of queues that became deliverable; a bounded amount (more is due when the core has ready
 * queues left). */
void wait_serve(struct api *api, uint64_t now_ms);

/* Answers those whose time is over, with no messages. */
void wait_expire(struct api *api, uint64_t now_ms);
void wait_release_all(struct api *api);

/* Ends at once those that would be refused now, with that refusal: of all queues, since `owner` has other credentials;
 * of one queue, since its policy is another. O(those that wait). */
void wait_renew(struct api *api, const struct api *owner);
void wait_check_again(struct api *api, struct queue *queue);

/* Takes the waiting receives off a queue that is about to go, NULL if there are none; and when it has gone, answers
 * them with ERROR_QUEUE_DOES_NOT_EXIST. */
struct list *wait_take_all(struct queue *queue);
void wait_queue_deleted(struct api *api, struct list *waiters);

#endif
