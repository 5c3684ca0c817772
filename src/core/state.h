/* What the core remembers. Private to src/core. */
#ifndef TALLY_CORE_STATE_H
#define TALLY_CORE_STATE_H

#include "base/assert.h"
#include "core/batch.h"
#include "core/core.h"
#include "core/digest.h"
#include "core/queue.h"
#include "core/shelf.h"

/* How much of a segment of the log is alive. There is one for each segment that a live message has its content in. */
struct extent {
    uint64_t ordinal;
    uint64_t live_count;
    uint64_t live_bytes;
};

/* Batches in order of creation; a dead entry has slot 0 and goes when half of them are dead. */
struct batch_order_entry {
    uint64_t number;
    uint32_t slot;
};

struct core {
    /* identity */
    struct bytes name_owned;
    uint8_t key[CORE_KEY_SIZE];
    struct digest *digest_owned;
    uint64_t segment_size;
    uint64_t epoch;
    uint64_t now_ms;

    /* the newest number of each kind given out */
    uint64_t message_number;
    uint64_t delivery_number;
    uint64_t batch_number;
    uint64_t shelf_number;
    uint32_t queue_id;

    struct pool messages;
    struct pool shelves;
    struct pool queues;
    struct pool batches;
    struct table message_by_number;
    struct table queue_by_id;
    struct table queue_by_name;
    struct table batch_by_id;
    struct table batch_by_number;
    uint32_t *queue_order_owned; /* slots of queues that are not deleted, by name */
    size_t queue_order_count;
    size_t queue_order_capacity;
    struct batch_order_entry *batch_order_owned;
    size_t batch_order_count;
    size_t batch_order_dead;
    size_t batch_order_capacity;

    struct heap timers;    /* messages delayed or in flight, by visible_at_ms */
    struct heap expiries;  /* shelves, by the earliest time a message of theirs may expire */
    struct heap deadlines; /* batches, by batch_deadline_ms() */
    struct list draining_shelves;
    struct list draining_batches;
    struct list ready_queues;

    struct extent *extents_owned; /* rising by ordinal */
    size_t extent_count;
    size_t extent_capacity;

    uint64_t in_flight_count;
    uint64_t delayed_count;

    struct buffer *frame; /* the open frame; NULL: none is open, or replaying */
    uint64_t frame_base;  /* log position of frame's first byte */
    size_t frame_ample_size;
    uint64_t applying_at; /* log position of the fields of the event being applied */
    struct buffer scratch;
};

/* Has the open frame grown so much that work which can wait should wait for the next one? */
static inline bool core_frame_is_ample(const struct core *core)
{
    return core->frame->size >= core->frame_ample_size;
}

/* Encodes the event into the open frame and applies it: the only way a decision changes anything. */
void core_emit(struct core *core, const struct event *event);

/* Applies an event whose fields lie at `position` in the log. False, with nothing changed, if it does not fit the state. */
bool core_apply(struct core *core, const struct event *event, uint64_t position);

/* Lets time pass to now_ms. */
void core_advance(struct core *core, uint64_t now_ms);

uint32_t core_find_message(const struct core *core, uint64_t number);
uint32_t core_find_batch_by_number(const struct core *core, uint64_t number);
uint32_t core_find_queue_slot(const struct core *core, uint32_t id);

static inline struct message *core_message(const struct core *core, uint32_t slot)
{
    return message_at(&core->messages, slot);
}

static inline struct shelf *core_shelf_at(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return pool_at(&core->shelves, slot);
}

static inline struct queue *core_queue(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return pool_at(&core->queues, slot);
}

static inline struct batch *core_batch(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return pool_at(&core->batches, slot);
}

/* Is the message out of reach: purged with its queue, or of a cancelled batch? It then only waits to be ended. */
bool core_message_is_dead(const struct core *core, const struct message *message);

/* Index of the first extent whose ordinal is not below `ordinal`. O(log segments). */
size_t core_extent_place(const struct core *core, uint64_t ordinal);

/* For apply and decode: links records into the tables. */
uint32_t core_add_queue(struct core *core, uint32_t id, struct bytes name);
void core_remove_queue_name(struct core *core, uint32_t slot);
void core_release_queue(struct core *core, uint32_t slot);
uint32_t core_add_shelf(struct core *core, uint64_t number, uint32_t queue);
uint32_t core_add_batch(struct core *core, uint64_t number, struct bytes id, struct bytes spec);
/* Do the queues exist that the batch will send to? */
bool core_has_targets(const struct core *core, const struct batch_spec *spec);
void core_count_targets(struct core *core, const struct batch *batch, bool is_added);
uint32_t core_add_message(struct core *core, uint64_t number, uint64_t position, uint32_t size);
void core_leave_extent(struct core *core, const struct message *message);
void core_place_message(struct core *core, uint32_t slot, uint32_t shelf);
void core_enter_state(struct core *core, uint32_t slot, enum message_state state);
void core_leave_state(struct core *core, uint32_t slot);
void core_expect_expiry(struct core *core, uint32_t shelf);
void core_set_deadline(struct core *core, uint32_t batch);
void core_pin_batch(struct core *core, uint32_t batch);
void core_unpin_batch(struct core *core, uint32_t batch);

#endif
