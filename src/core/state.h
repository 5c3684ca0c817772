/* The state of the core. Private to src/core. */
#ifndef TALLY_CORE_STATE_H
#define TALLY_CORE_STATE_H

#include "base/arena.h"
#include "base/assert.h"
#include "base/histogram.h"
#include "base/name_index.h"
#include "base/number_map.h"
#include "core/batches/batch.h"
#include "core/core.h"
#include "core/deduplication/deduplication.h"
#include "core/digest.h"
#include "core/messages/extent.h"
#include "core/messages/holder.h"
#include "core/messages/message_list.h"
#include "core/messages/move.h"
#include "core/order/dependency.h"
#include "core/order/group.h"
#include "core/order/type_order.h"
#include "core/pools/made_match.h"
#include "core/pools/ticket_pool.h"
#include "core/publishers/publisher.h"
#include "core/publishers/relay_record.h"
#include "core/queues/queue.h"
#include "core/schedules/schedule.h"

struct messages {
    uint64_t message_number; /* the newest number given out; the same holds for delivery_number */
    uint64_t delivery_number;
    uint64_t sent_count; /* accepted messages; message_number also counts moved ones */
    uint64_t in_flight_count;
    uint64_t delayed_count;
    struct slab items;
    struct number_map by_number;
    struct table completions; /* messages of batch events, by their ids; no part of the state */
    struct heap timers;       /* delayed ones and those in flight, by visible_at_ms */
};

struct groups {
    uint64_t group_number; /* the newest given out */
    struct slab items;
    struct table by_id;   /* of its message list */
    struct heap timers;   /* those whose rate bucket is not full, by when it lets a message through or is full */
    struct list draining; /* with cancelled messages to end */
};

struct message_lists {
    uint64_t message_list_number; /* the newest given out */
    struct slab items;
    struct heap expiries; /* by the earliest time at which one of their messages may expire */
    struct list draining;
};

struct queues {
    uint32_t queue_id; /* the newest given out */
    struct slab items;
    struct table by_id;
    struct table by_name;
    struct name_index order; /* of those that are not deleted */
    struct heap timers;      /* those whose rate bucket is empty, by when it lets a message through */
    struct list ready;
};

/* What has happened in the namespace since this process serves it, of all queues together, also of those that are gone.
 * No part of the state (queue_counters.h). */
struct namespace_counters {
    uint64_t since_ms;
    uint64_t counts[QUEUE_COUNTER_COUNT];
    struct histogram wait_ms;       /* from a message's send to its first delivery */
    struct histogram processing_ms; /* from its newest delivery to its delete */
    struct list counted;            /* the queues whose counted_link is linked */
};

/* Batches in order of creation. A dead entry has slot 0; dead entries are removed when they are half of all. */
struct batch_order_entry {
    uint64_t number;
    uint32_t slot;
};

struct batches {
    uint64_t batch_number; /* the newest given out */
    struct slab items;
    struct table by_id;
    struct table by_number;
    struct batch_order_entry *order_owned;
    size_t order_count;
    size_t order_dead;
    size_t order_capacity;
    struct heap deadlines; /* by batch_deadline_ms() */
    struct list draining;
    struct list unfinished;               /* that have not completed, in order of creation */
    uint64_t counts[BATCH_COMPLETED + 1]; /* by state */
};

/* Pools of tickets. */
struct ticket_pools {
    struct slab items;
    struct table by_id;
    struct name_index order;
    uint64_t ticket_count; /* of all pools that are not deleted */
    uint32_t pool_id;      /* the newest number given out */
    uint64_t ticket_number;
    uint64_t feed_number; /* above each number that a deleted pool's feed has used, or would have used next */
    struct heap timers;   /* pools by their next due time */
    uint32_t turn;        /* id of the pool that was served last */
    uint32_t trim_next;   /* no part of the state: the pool whose memory is checked next */
    struct list fed;      /* whose feed has grown since the last request for it */
    struct list leaving;  /* deleted: their memory is freed in portions */
};

/* Matches of tickets. */
struct made_matches {
    uint64_t match_number; /* the newest given out */
    struct slab items;
    struct table by_number;
    struct table by_message;
    struct table by_proposal; /* of its pool */
    struct heap holds;        /* matches that wait for confirmations, by confirm_by_ms */

    /* No part of the state: u64 numbers of the matches that this frame holds, until core_take_new_hold() takes them. */
    struct buffer new_holds;
};

struct open_frame {
    struct buffer *events; /* NULL: none is open, or this is a replay */
    uint64_t base;         /* log position of the first byte of `events` */
    size_t ample_size;
};

struct core {
    /* identity */
    struct bytes name_owned;
    uint8_t key[CORE_KEY_SIZE];
    struct digest *digest_owned;
    uint64_t segment_size;
    uint64_t epoch;
    uint64_t now_ms;

    struct messages messages;
    struct slab extras;
    struct groups groups;
    struct message_lists message_lists;
    struct queues queues;
    struct batches batches;
    struct deduplication deduplication;
    struct dependencies dependencies;
    struct type_orders type_orders;
    struct schedules schedules;
    struct moves moves;
    struct relay_records relays;
    struct publishers publishers;
    struct ticket_pools pools;
    struct made_matches matches;
    struct extents extents;
    struct namespace_counters counters;
    struct holders holders;      /* no part of the state */
    struct core_restore restore; /* no part of the state */

    struct open_frame frame;
    bool has_fired;       /* time changed something that no logged frame shows yet */
    uint64_t applying_at; /* log position of the fields of the event being applied */
    struct buffer scratch;
    struct arena received_texts; /* of the results of the newest receive */
};

/* Has the open frame grown so much that work which can wait should wait for the next one? */
static inline bool core_frame_is_ample(const struct core *core)
{
    return core->frame.events->size >= core->frame.ample_size;
}

static inline struct message *core_message(const struct core *core, uint32_t slot)
{
    return message_at(&core->messages.items, slot);
}

/* The message's extra, or NULL. */
static inline struct message_extra *core_extra_of(const struct core *core, const struct message *message)
{
    return message->extra == 0 ? NULL : message_extra_at(&core->extras, message->extra);
}

/* When retention begins to count. */
static inline uint64_t core_counted_from_ms(const struct core *core, const struct message *message)
{
    const struct message_extra *extra = core_extra_of(core, message);
    return extra == NULL || extra->counted_from_ms == 0 ? message->sent_at_ms : extra->counted_from_ms;
}

/* The slot of its group, or 0. */
static inline uint32_t core_group_of(const struct core *core, const struct message *message)
{
    return message->extra == 0 ? 0 : message_extra_at(&core->extras, message->extra)->group;
}

static inline struct group *core_group(const struct core *core, uint32_t slot)
{
    return group_at(&core->groups.items, slot);
}

static inline struct message_list *core_message_list_at(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->message_lists.items, slot);
}

static inline struct queue *core_queue(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->queues.items, slot);
}

static inline struct batch *core_batch(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->batches.items, slot);
}

/* --- frames, events and time (frame.c, replay.c, advance.c) ------------------------------------------------------- */

/* Encodes the event into the open frame and applies it. A decision changes the state only through this. */
void core_emit(struct core *core, const struct event *event);

/* Emits that a message was accepted, in the right form. A message of a FIFO queue, with a group or with its own
 * priority is in a group; for others the log has fewer fields. */
void core_emit_sent(struct core *core, const struct queue *queue, const struct event_sent_in_group *sent);

/* Sends a message of the server's own, with the id in `content` and the queue's delay; computes the digest of its body.
 * `batch` and `completes` as in the event. Returns its number. The body must not be in core->scratch. */
uint64_t core_send_own(struct core *core, const struct queue *queue, struct content *content, uint64_t batch,
                       uint8_t completes);

/* Applies an event whose fields are at `position` in the log. False, with nothing changed, if it does not fit the
 * state. */
bool core_apply(struct core *core, const struct event *event, uint64_t position);

/* Advances the time to now_ms (advance.c). */
void core_advance(struct core *core, uint64_t now_ms);

/* --- messages (message_index.c, message_state.c) ------------------------------------------------------------------ */

uint32_t core_find_message(const struct core *core, uint64_t number);

/* For apply and decode: makes a message; adds one to a message list; and takes it off, which needs its extra: call it
 * before that is dropped. */
uint32_t core_add_message(struct core *core, uint64_t number, uint64_t position, uint32_t size);
void core_list_message(struct core *core, uint32_t slot, uint32_t message_list);
void core_unlist_message(struct core *core, uint32_t slot);

/* The message of a batch event has an id that says nothing of its number. Writes that id; lets the message be found by
 * it, and no longer, both while its batch is known; finds the live one with that id, or 0. One SHA-256 each. */
void core_completion_id(const struct core *core, uint32_t slot, uint8_t id[MESSAGE_ID_SIZE]);
void core_index_completion(struct core *core, uint32_t slot);
void core_unindex_completion(struct core *core, uint32_t slot);
uint32_t core_find_completion(const struct core *core, const uint8_t id[MESSAGE_ID_SIZE]);

/* Is the message out of reach: purged with its queue, or in a cancelled batch? It then only waits to be ended. */
bool core_message_is_dead(const struct core *core, const struct message *message);

void core_enter_state(struct core *core, uint32_t slot, enum message_state state);
void core_leave_state(struct core *core, uint32_t slot);

/* --- message extras (message_extra.c) ----------------------------------------------------------------------------- */

/* The message's extra, made if it has none. */
struct message_extra *core_give_extra(struct core *core, uint32_t message);

/* Deliveries that count as attempts. */
uint32_t core_attempt_count(const struct core *core, const struct message *message);

/* Adds one thing for which the message waits; and removes one. After the last one the message becomes deliverable. */
void core_wait(struct core *core, uint32_t message);
void core_stop_waiting(struct core *core, uint32_t message);

/* Is each message's count of awaited things right, and is it held exactly if something holds it? O(extras, edges).
 * (dependency_snapshot.c) */
bool core_waits_add_up(const struct core *core);

/* The attempt of the message is over: it is visible at visible_at_ms, or now. A strict queue fences those after it. */
void core_give_back(struct core *core, uint32_t message, uint64_t visible_at_ms);

/* --- queues and message lists (queue_index.c) --------------------------------------------------------------------- */

uint32_t core_find_queue_slot(const struct core *core, uint32_t id);

/* For apply and decode: links records into the tables, and removes them. */
uint32_t core_add_queue(struct core *core, uint32_t id, struct bytes name);
void core_remove_queue_name(struct core *core, uint32_t slot);
void core_release_queue(struct core *core, uint32_t slot);
uint32_t core_add_message_list(struct core *core, uint64_t number, uint32_t queue);

/* Sets a timer for the time when the oldest message of the message list may expire. */
void core_expect_expiry(struct core *core, uint32_t message_list);

/* While the queue's bucket is empty, a timer runs until it lets a message through. */
void core_set_queue_timer(struct core *core, struct queue *queue);

/* Can the queue deliver: is it not paused, and does it have tokens? */
bool core_queue_is_open(const struct core *core, const struct queue *queue);

/* --- counters (core_counters.c) ----------------------------------------------------------------------------------- */

/* The first count of the queue in a span of its counters. */
void core_begin_span(struct core *core, struct queue *queue);

/* Counts for the queue, a slot, if it is not 0, and for all. */
static inline void core_count(struct core *core, uint32_t slot, enum queue_counter counter)
{
    core->counters.counts[counter]++;
    if (slot == 0)
        return;
    struct queue *queue = core_queue(core, slot);
    if (queue->counters.span != queue_span(core->now_ms))
        core_begin_span(core, queue);
    queue->counters.counts[counter]++;
}

/* --- batches (batch_index.c) -------------------------------------------------------------------------------------- */

uint32_t core_find_batch_by_number(const struct core *core, uint64_t number);
uint32_t core_add_batch(struct core *core, uint64_t number, struct bytes id, struct bytes spec);
/* Do the target queues of the batch exist? */
bool core_has_targets(const struct core *core, const struct batch_spec *spec);
/* Adds the batch to the users of its target queues, or removes it. */
void core_count_targets(struct core *core, struct batch *batch, bool is_added);
void core_set_deadline(struct core *core, uint32_t batch);
void core_set_batch_state(struct core *core, struct batch *batch, enum batch_state state);
/* A pinned record stays although it was deleted; the last unpin frees it. */
void core_pin_batch(struct core *core, uint32_t batch);
void core_unpin_batch(struct core *core, uint32_t batch);

/* --- walking (state.c) -------------------------------------------------------------------------------------------- */

/* The slots of a heap, in the scratch buffer. For callers that move entries during a walk, because that reorders the
 * heap. */
struct cursor core_heap_slots(struct core *core, const struct heap *heap);

/* Sorts ids, rising. */
void core_sort_ids(uint32_t *ids, uint32_t count);

#endif
