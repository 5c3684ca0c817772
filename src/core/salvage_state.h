/* The data of a salvage beside the core. Private to src/core. */
#ifndef TALLY_CORE_SALVAGE_STATE_H
#define TALLY_CORE_SALVAGE_STATE_H

#include "core/salvage.h"
#include "core/state.h"

/* Message numbers of which nothing was read. */
struct number_range {
    uint64_t first;
    uint64_t last;
};

/* A moved message has a new number in the log. Here it keeps the old one, because the move did not fit. */
struct renamed {
    uint64_t successor;
    uint64_t number;
};

struct core_salvage {
    struct core *core;
    void (*report)(void *context, const struct core_finding *finding);
    void *context;
    uint64_t queues_known_until; /* position; see core_salvage_know_queues() */
    struct salvage_numbers known;
    uint32_t gap_count;
    bool is_number_open;     /* no event has named a message's number since the last gap */
    uint64_t message_number; /* the newest before that gap */
    uint64_t batch_number;   /* the newest at the last gap */
    uint32_t *heard_owned;   /* by message slot: how many gaps there were when an event last named it */
    uint32_t heard_count;
    struct number_range *ranges_owned;
    size_t range_count;
    struct number_map ended;                /* messages of those ranges that have ended */
    struct number_map renamed_by_successor; /* index in `renamed`, plus 1 */
    struct renamed *renamed_owned;
    uint32_t renamed_count;
    struct number_map orphan_by_number;   /* index in `orphans`, plus 1 */
    struct salvage_orphan *orphans_owned; /* number 0: it has ended */
    size_t orphan_count;
    struct number_map doubtful; /* batches that lack something, whatever the gaps say */
};

/* Makes room for an event after a gap: may change the state and the event. */
void salvage_bridge(struct core_salvage *salvage, struct event *event);

/* The state may differ from the one in which the event was decided. Does the event leave it valid? For the few events
 * whose apply function relies on that. */
bool salvage_is_safe(const struct core *core, const struct event *event);

/* The queue with that id, made if no queue ever had it. NULL: it existed, and is deleted. */
struct queue *salvage_need_queue(struct core_salvage *salvage, uint32_t id);

/* For a queue with unknown settings: SQS's defaults, but with the longest retention. */
struct queue_settings salvage_queue_settings(void);

void salvage_report(const struct core_salvage *salvage, enum core_loss kind, uint64_t number, struct bytes name);
/* The number that a message has here. */
uint64_t salvage_number(const struct core_salvage *salvage, uint64_t number);

/* Nothing was read of messages with numbers up to this one. */
void salvage_skip_messages(struct core_salvage *salvage, uint64_t last);

void salvage_doubt_batch(struct core_salvage *salvage, uint64_t number);

#endif
