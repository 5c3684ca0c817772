/* What the simulated clients want next. They remember the receipt handles they were shown, fresh and stale, and the
 * names of batches; they look at the oracle's model only to keep within the sizes of its arrays. */
#ifndef TALLY_TESTS_SIM_CLIENTS_H
#define TALLY_TESTS_SIM_CLIENTS_H

#include "oracle.h"
#include "random.h"

#define HELD_MAX 192
#define WORK_QUEUES 3       /* q0 to q2 */
#define FIRST_EVENT_QUEUE 3 /* q3 and q4 take completion messages */
#define FIRST_DEAD_QUEUE 5  /* q5 and q6 take dead letters */
#define BRIEF_QUEUE 7       /* comes and goes */
#define FIRST_ORDER_QUEUE 8 /* q8 to q10 are FIFO queues, q11 takes their dead letters */
#define FIFO_DEAD_QUEUE 11
#define TENANT_QUEUE 12 /* a standard queue with groups */
#define ONCE_QUEUE 13   /* delivers at most once, in some seeds */
#define GROUPS 5

struct held {
    int handle;
    int queue;
};

/* A row of an outbox that was published, or was to be. */
struct outbox_row {
    int publisher;
    struct entry entry;
};
#define OUTBOX_MAX 48

struct clients {
    struct random random;
    unsigned weights[OPERATION_KIND_COUNT]; /* of this seed: each seed has its own mixture */
    unsigned weight_sum;
    uint32_t tag;
    int next_batch;
    unsigned held_count;
    struct held held[HELD_MAX]; /* newest last */
    struct queue_traits traits[QUEUE_NAMES];
    unsigned order_percent; /* of what is sent and received concerns q8 and above */
    unsigned dedup_percent, producer_percent, after_percent, type_percent;
    int next_attempt, attempt_queue; /* the newest attempt id, and where */
    int dedup_ids;
    int sequence; /* of the numbered producers */
    unsigned xor_percent, batch_percent, grow_percent, dead_letter_percent, child_percent;
    uint32_t body_max;
    uint64_t xor_salt;
    int next_row;       /* ids and uids of rows */
    unsigned row_count; /* of outbox rows; the newest are kept */
    struct outbox_row rows[OUTBOX_MAX];
    struct operation last_publish[PUBLISHERS]; /* to be sent once more */
};

/* Bodies have up to body_max bytes where a message comes alone. */
void clients_init(struct clients *clients, uint64_t seed, uint32_t body_max);

/* The queues that are there from the beginning: operation `step` of the opening, false when there are no more. */
bool clients_open(struct clients *clients, unsigned step, struct operation *operation);

/* Draws the next operation. */
void clients_draw(struct clients *clients, const struct oracle *oracle, struct operation *operation);

/* A reply was shown. */
void clients_learn(struct clients *clients, const struct operation *operation, const struct lesson *lesson);

#endif
