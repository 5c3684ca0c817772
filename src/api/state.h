/* What the front and the apis of its namespaces remember between requests. Private to src/api. */
#ifndef TALLY_API_STATE_H
#define TALLY_API_STATE_H

#include "api/action.h"
#include "api/slow_requests.h"
#include "auth/sigv4.h"
#include "base/table.h"

/* How many notices are kept, and how much of each. */
#define FRONT_NOTICES_MAX 100u
#define FRONT_NOTICE_SIZE 240u

struct front_notice {
    uint64_t at_ms;
    const char *action;
    char text[FRONT_NOTICE_SIZE];
};

struct front {
    struct front_options options;
    struct table action_by_target; /* index in actions, plus 1 */
    struct sigv4 *sigv4_owned;
    struct calendar *calendar_owned;
    const struct credentials *credentials;       /* NULL: nobody is identified */
    const struct credentials *inner_credentials; /* the server's own; NULL: none */
    struct reply_budget *replies;                /* NULL: not counted; borrowed, like the next */
    struct wait_budget *waits;                   /* NULL: not counted */
    struct api **served_owned;                   /* the namespaces, in the order in which they came */
    size_t served_count;
    size_t served_capacity;
    struct table served_by_name;      /* place in served_owned, plus 1 */
    uint64_t version;                 /* of that list: another one with each change */
    size_t trend_queues;              /* with a series (trends.h) */
    struct list scrapes;              /* who asks for metrics; the first one's are being made (scrape.h) */
    char absent[NAMESPACE_NAME_SIZE]; /* front_absent() */
    size_t absent_size;
    struct list finished;        /* exchanges whose replies are complete */
    uint32_t credentials_number; /* how often credentials were set */
    struct slow_requests slow_requests;
    struct front_notice *notices_owned; /* a ring; NULL: there was none yet */
    uint64_t notice_count;              /* that there ever were */
    struct buffer scratch;
    uint64_t refused_count;            /* requests that were refused before an action saw them */
    struct histogram *durations_owned; /* by action, in microseconds; of all namespaces */
};

struct deleted_name {
    char name[QUEUE_NAME_SIZE_MAX];
    size_t size;
    uint64_t at_ms;
};

/* Puts a complete exchange among the finished. */
void api_finish(struct api *api, struct exchange *exchange);

/* What the front does with a request once it knows its namespace. `call` has everything else, and `error` is what was
 * found so far. */
void api_run(struct api *api, struct call *call, enum error error);

/* Adds a namespace to the served ones; removes it. */
void front_add(struct front *front, struct api *api);
void front_remove(struct front *front, struct api *api);

/* Ends a request whose reply is complete: front_take_finished() returns it. The reply is held until frame
 * `hold_sequence` is durable; 0: it is not held. */
void front_finish(struct front *front, struct exchange *exchange, uint64_t hold_sequence);

/* Scratch memory that a large request needed must not stay afterwards. */
#define SCRATCH_KEPT_MAX ((size_t)256 * 1024)
static inline void front_trim_scratch(struct front *front)
{
    if (front->scratch.capacity > SCRATCH_KEPT_MAX)
        buffer_deinit(&front->scratch);
}

/* Do replies take so much memory that only requests that are being answered may make one? */
static inline bool front_must_wait(const struct front *front)
{
    return front->replies != NULL && reply_budget_is_spent(front->replies);
}

/* Finds the action of the call's exchange and reads its parameters, in the form of the exchange (decode.c).
 * call->action is NULL if the error came before the action was known. Errors: ERROR_NOT_FOUND (a Query request without
 * an action, not described), ERROR_UNKNOWN_OPERATION, ERROR_SERIALIZATION. */
enum error decode_request(struct call *call);

#endif
