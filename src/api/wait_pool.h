/* What waits for something of a pool (wait.h): FeedTickets for its next event, CountTickets and ProposeMatches for
 * their next portion. Private to src/api. */
#ifndef TALLY_API_WAIT_POOL_H
#define TALLY_API_WAIT_POOL_H

#include "api/action.h"
#include "api/pool_call.h"

/* The callers of FeedTickets who share a pool's seeds out by the same number of parts. */
struct part_callers {
    uint32_t parts;                    /* 0: nobody's */
    uint64_t used_at_ms;               /* of the newest of them */
    uint64_t until_ms[POOL_PARTS_MAX]; /* until when the caller of each part counts as being there; 0: it never was */
};

#define PART_CALLERS_MAX 4u

/* Who reads a pool's feed: made when somebody first does, freed with the pool. */
struct pool_readers {
    uint32_t slot;                      /* in api->pool_readers */
    uint32_t pool;                      /* its id, under which it is found */
    struct list waiters;                /* FeedTickets, in order of arrival */
    struct list_link woken_link;        /* in api->woken_readers: the feed has grown, and some wait */
    struct part_callers *callers_owned; /* PART_CALLERS_MAX of them; NULL: nobody has asked for a part yet */
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

struct pool_readers *pool_readers_of(struct api *api, const struct ticket_pool *pool);

/* Looks at the next 4,096 slots; true when it has seen them all. */
bool ticket_count_portion(const struct ticket_pool *pool, struct ticket_count *count);
void ticket_count_write(struct call *call, const struct ticket_count *count);

/* Judges proposals until they have taken a turn's share; true when none is left, and their results are written
 * (propose_matches.c). */
bool proposals_go_on(struct call *call, struct ticket_pool *pool, struct proposals *proposals);

/* Lets the exchange wait: until deadline_ms for the feed to grow; or for the next portion of a count, whose filter is
 * then owned here; or for the next proposals, with the reply as far as it is written. */
void wait_pool_feed(struct call *call, struct ticket_pool *pool, const struct feed_command *command,
                    uint64_t deadline_ms);
void wait_pool_count(struct call *call, struct ticket_pool *pool, const struct ticket_count *count);
void wait_pool_propose(struct call *call, struct ticket_pool *pool, const struct proposals *proposals);

/* The second frees the readers of all pools. */
void wait_pool_init(struct api *api);
void wait_pool_deinit(struct api *api);

/* Is there a feed that somebody waits for and that grew; and something that goes on in portions? */
bool wait_pool_has_news(const struct api *api);
bool wait_pool_has_portions(const struct api *api);

/* Answers whoever waits for a feed that grew, all of them in order of arrival, and counts or judges a portion: a
 * bounded amount. */
void wait_pool_serve(struct api *api, uint64_t now_ms);

/* Takes what waits off a pool that is about to go; and when it has gone, answers it with ERROR_POOL_DOES_NOT_EXIST. */
struct pool_readers *wait_pool_take_all(struct api *api, const struct ticket_pool *pool);
void wait_pool_deleted(struct api *api, struct pool_readers *readers);

/* Writes the members of a FeedTickets reply, as things are now (feed_tickets.c). */
void feed_write(struct call *call, struct ticket_pool *pool, const struct feed_command *command);
/* Who asks for a part is there until a lease is over that begins at until_ms: now, or when its wait ends at the
 * latest. */
void feed_note_caller(struct api *api, const struct ticket_pool *pool, const struct feed_command *command,
                      uint64_t now_ms, uint64_t until_ms);
bool feed_has_answer(const struct ticket_pool *pool, const struct feed_command *command);

#endif
