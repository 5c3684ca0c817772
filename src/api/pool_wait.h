/* Who waits for something of a pool: FeedTickets for its next event, CountTickets and ProposeMatches for their next
 * portion. Private to src/api. */
#ifndef TALLY_API_POOL_WAIT_H
#define TALLY_API_POOL_WAIT_H

#include "api/action.h"
#include "api/pool_call.h"

/* The callers of FeedTickets who share a pool's seeds out by the same number of parts. */
struct part_callers {
    uint32_t parts;                    /* 0: nobody's */
    uint64_t used_at_ms;               /* of the newest of them */
    uint64_t until_ms[POOL_PARTS_MAX]; /* until when the caller of each part counts as being there; 0: it never was */
};

#define PART_CALLERS_MAX 4u

/* What the api knows of a pool, behind its `waiters`: made when somebody first reads the feed, freed with the pool. */
struct pool_desk {
    struct list waiters;         /* FeedTickets, in order of arrival */
    struct list_link woken_link; /* in api->woken_desks: the feed has grown, and some wait */
    struct part_callers callers[PART_CALLERS_MAX];
};

struct feed_command {
    uint64_t from;
    int64_t results_max;
    uint32_t part;
    uint32_t parts;
    bool has_part;
};

/* A CountTickets with a filter, on its way through the slots. */
struct ticket_count {
    struct facts *filter_owned; /* its needs are the filter */
    uint32_t slot;              /* the next */
    uint64_t tickets;
    uint64_t weight;
};

/* A ProposeMatches that has judged some of its proposals. What it wrote stands in the exchange's reply, what it was
 * asked in its arena. */
struct proposals {
    yyjson_val *next;
    size_t left;          /* from `next` on */
    struct writer writer; /* of the reply, while it waits */
};

enum pool_wait_kind { WAITS_FOR_FEED, WAITS_FOR_COUNT, WAITS_FOR_PROPOSALS };

struct pool_waiter {
    uint64_t number;
    struct exchange *exchange;
    struct ticket_pool *pool; /* NULL: it is being deleted */
    struct list_link link;    /* among the waiters of its desk, or in api->in_portions */
    uint32_t deadline_index;  /* of feeds */
    enum pool_wait_kind kind;
    struct feed_command feed;
    struct ticket_count count;
    struct proposals proposals;
    size_t counted; /* of proposals: what the budget of replies holds for them */
};

struct pool_desk *pool_desk_of(struct ticket_pool *pool);

/* Looks at the next 4,096 slots; true when it has seen them all. */
bool ticket_count_portion(const struct ticket_pool *pool, struct ticket_count *count);
void ticket_count_write(struct call *call, const struct ticket_count *count);

/* Judges proposals until they have taken a turn's share; true when none is left, and their results are written
 * (propose_matches.c). */
bool proposals_go_on(struct call *call, struct ticket_pool *pool, struct proposals *proposals);

/* Lets the exchange wait: until deadline_ms for the feed to grow; or for the next portion of a count, whose filter is
 * then owned here; or for the next proposals, with the reply as far as it is written. */
void pool_wait_feed(struct call *call, struct ticket_pool *pool, const struct feed_command *command,
                    uint64_t deadline_ms);
void pool_wait_count(struct call *call, struct ticket_pool *pool, const struct ticket_count *count);
void pool_wait_propose(struct call *call, struct ticket_pool *pool, const struct proposals *proposals);

void pool_wait_init(struct api *api);
/* No exchange waits any more. */
void pool_wait_deinit(struct api *api);

/* Is there a feed that somebody waits for and that grew; something that goes on in portions; and when does the next
 * wait end? */
bool pool_wait_has_news(const struct api *api);
bool pool_wait_has_portions(const struct api *api);
uint64_t pool_wait_deadline_ms(const struct api *api);

/* Answers whoever waits for a feed that grew, all of them in order of arrival, and counts or judges a portion: a
 * bounded amount. */
void pool_wait_serve(struct api *api, uint64_t now_ms);
/* Answers those whose time is over, with no events. */
void pool_wait_expire(struct api *api, uint64_t now_ms);
void pool_wait_release_all(struct api *api);

/* Ends at once what would be refused now that the credentials are others, with that refusal. */
void pool_wait_renew(struct api *api);

void pool_wait_abandon(struct api *api, struct exchange *exchange);

/* Takes what waits off a pool that is about to go; and when it has gone, answers it with ERROR_POOL_DOES_NOT_EXIST. */
struct pool_desk *pool_wait_take_all(struct api *api, struct ticket_pool *pool);
void pool_wait_deleted(struct api *api, struct pool_desk *desk);

/* Writes the members of a FeedTickets reply, as things are now (feed_tickets.c). */
void feed_write(struct call *call, struct ticket_pool *pool, const struct feed_command *command);
/* Who asks for a part is there until a lease is over that begins at until_ms: now, or when its wait ends at the
 * latest. */
void feed_note_caller(struct ticket_pool *pool, const struct feed_command *command, uint64_t now_ms, uint64_t until_ms);
bool feed_has_answer(const struct ticket_pool *pool, const struct feed_command *command);

#endif
