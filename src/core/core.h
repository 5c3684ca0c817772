/* The core: the state machine. Pure: time, randomness, disks and sockets are arguments, or are not here at all.
 *
 * Only a decision (decide.h) changes the state: it checks a command against the state and writes events. Each event is
 * encoded into the open frame and applied (apply.c) at once, so the next decision sees it. On replay the same events
 * are applied from the log. So the state is a function of the log and of nothing else.
 *
 * core_frame_open() first advances the time to that of the frame: messages become deliverable when their delay or
 * visibility timeout is over, without an event. In a frame that stays open, an event advances the time
 * (decide_pass_time). What time creates, ends or moves is decided by decide_due() and logged. */
#ifndef TALLY_CORE_CORE_H
#define TALLY_CORE_CORE_H

#include "base/error.h"
#include "base/histogram.h"
#include "core/batches/batch.h"
#include "core/event.h"
#include "core/messages/content.h"
#include "core/messages/extent.h"
#include "core/queues/queue.h"

struct core;

struct core *core_create(void);
void core_destroy(struct core *core);

/* Opens a frame: events go to the end of `frame`, whose next byte lies at `position` in the log. `now_ms` is the
 * frame's time, not before that of the last one. Once the frame has `ample_size` bytes, work that can wait is left for
 * the next frame. `frame` is borrowed until core_frame_close(). */
void core_frame_open(struct core *core, struct buffer *frame, uint64_t position, uint64_t now_ms, size_t ample_size);
void core_frame_close(struct core *core);

/* Applies the events of a frame that was read from the log. False if an event can't be decoded or does not fit the
 * state. Then the log is damaged or from a newer version; `failure` says which event. */
bool core_replay(struct core *core, struct bytes payload, uint64_t position, uint64_t time_ms, struct failure *failure);

/* When core_frame_open() or decide_due() next has something to do, or a schedule must fire; 0: at once; UINT64_MAX:
 * never. O(1). */
uint64_t core_due_ms(const struct core *core);

/* Is work left for decide_due() whose result the client expects at once: dependents of an ended message, the rest of a
 * cancelled group? O(1). */
bool core_is_settling(const struct core *core);

/* True if it holds no message, no waiting ticket, no open batch, no schedule and no relay: only what it remembers, and
 * its queues, pools and orders. O(batches and pools). */
bool core_is_vacant(const struct core *core);

/* Queues that became deliverable since the last call, one by one; NULL when there are no more. */
struct queue *core_take_ready_queue(struct core *core);

/* Puts a queue back among them, for a receive that stopped before it had tried every message; and asks if there is
 * any. */
void core_notice_queue(struct core *core, struct queue *queue);
bool core_has_ready_queue(const struct core *core);

/* Would a receive find something now, or at least remove something that is in the way? Amortised O(1). */
bool core_has_deliverable(const struct core *core, const struct queue *queue);

/* Reading. Pointers are borrowed until the next decision. */
uint64_t core_now_ms(const struct core *core);
struct bytes core_name(const struct core *core);
struct digest *core_digest(const struct core *core);
struct queue *core_find_queue(const struct core *core, struct bytes name);
struct queue *core_find_queue_by_id(const struct core *core, uint32_t id);
const struct message_list *core_message_list(const struct core *core, const struct queue *queue);
/* When the retention of the queue's oldest message began; UINT64_MAX: there is no message. O(1). */
uint64_t core_oldest_since_ms(const struct core *core, const struct queue *queue);
/* The same of its oldest message that a receive could have now; of its groups, those count whose turn is next.
 * Amortised O(1). */
uint64_t core_oldest_deliverable_ms(const struct core *core, const struct queue *queue);
/* The same, as if neither a pause nor a rate of the queue kept anything back. */
uint64_t core_next_deliverable_ms(const struct core *core, const struct queue *queue);
const struct batch *core_find_batch(const struct core *core, struct bytes id);
/* Id of the queue of message `number`; 0: the message has ended, or its queue is gone. O(1). */
uint32_t core_queue_of_message(const struct core *core, uint64_t number);

/* Queues in order of name: their number, and the i-th; the index of the first whose name is not less than `name`. */
size_t core_queue_count(const struct core *core);
struct queue *core_queue_by_name(const struct core *core, size_t index);
size_t core_queue_index(const struct core *core, struct bytes name);

/* Batches in order of creation: the first whose number is not less than `number`, or NULL. O(log batches). */
const struct batch *core_next_batch(const struct core *core, uint64_t number);

/* The oldest batch that has not completed, or NULL; how many there are in a state. Deleted ones that something refers
 * to are completed. O(1). */
const struct batch *core_oldest_batch(const struct core *core);
uint64_t core_batch_count(const struct core *core, enum batch_state state);

struct core_metrics {
    uint64_t messages;
    uint64_t in_flight;
    uint64_t delayed;
    uint64_t batches;
    uint64_t groups;
    uint64_t deduplication_ids; /* some may be over and not yet swept */
    uint64_t producers;
    uint64_t sent; /* since the namespace was founded */
    uint64_t delivered;
    uint64_t publishers;
    uint64_t published_rows; /* remembered; some may be over and not yet swept */
    uint64_t reused_ids;     /* rows whose id another row had, since the namespace was founded */
};
struct core_metrics core_metrics(const struct core *core);

/* --- what is counted for people, and is no part of the state (queue_counters.h; core_counters.c) --- */

/* Counts from 0 on, as of now_ms: what a replay has counted is nobody's business. O(queues). */
void core_restart_counters(struct core *core, uint64_t now_ms);

/* Since when it is counted, and how often it happened in the namespace. */
uint64_t core_counted_since_ms(const struct core *core);
uint64_t core_counted(const struct core *core, enum queue_counter counter);

/* How many a second lately (queue_counters_rate()). */
double core_rate(const struct core *core, const struct queue *queue, enum queue_counter counter);

/* Queues for which a span of their counters has begun since the last call, one by one; NULL: there are no more. */
struct queue *core_take_counted_queue(struct core *core);

/* How long messages waited for their first delivery, and how long it took from the newest one to the delete; ms. */
const struct histogram *core_wait_ms(const struct core *core);
const struct histogram *core_processing_ms(const struct core *core);

/* How many messages, deduplication ids, published rows and the like the index has. The size of a snapshot depends on
 * it. O(1). */
uint64_t core_index_count(const struct core *core);

/* Of the newest owner: rises with every start. */
uint64_t core_epoch(const struct core *core);

uint64_t core_segment_size(const struct core *core);

/* The newest restore from a backup that the log tells of, behind its snapshot. For people: no part of the state. */
struct core_restore {
    uint64_t until_ms;       /* the state is that of this time */
    uint64_t restored_at_ms; /* 0: there was none */
};
struct core_restore core_restore(const struct core *core);

/* The lowest ordinal, from `ordinal` on, of a segment that has the content of a live message; or UINT64_MAX. */
uint64_t core_next_needed_segment(const struct core *core, uint64_t ordinal);

/* How much of each segment is live. Borrowed until the next decision. */
const struct extents *core_extents(const struct core *core);

/* A live message's content and its position in the log. */
struct live_content {
    uint64_t number; /* of the message */
    uint64_t position;
    uint32_t size; /* bytes */
};

/* Visits up to *visits slots of the index, from *slot on, to find a message whose content is in one of these segments
 * (`ordinals`, ascending). True if there is one; *slot is then after it. *visits: how many are left. *slot is 0 after
 * the last slot; begin with 1. The walk may miss a message that is added or moved meanwhile. O(visits). */
bool core_find_content(const struct core *core, const uint64_t *ordinals, size_t count, uint32_t *slot,
                       unsigned *visits, struct live_content *found);

/* Does the message still have that content at that position? */
bool core_has_content(const struct core *core, const struct live_content *content);

/* The whole state, canonically: equal states encode to equal bytes. `sink` gets it in pieces. */
void core_encode(const struct core *core, void (*sink)(void *context, struct bytes piece), void *context);
/* Fills a fresh core. False if `encoded` is not valid; the core must then be destroyed. `release` is called during the
 * work: the bytes before `end` are not read again, so their memory can be freed at once. NULL: it is not called. */
bool core_decode(struct core *core, struct bytes encoded, void (*release)(void *context, const uint8_t *end),
                 void *context);

/* Asserts every invariant by walking the whole state. */
void core_check(const struct core *core);

/* The matches that the open frame holds for confirmations, one by one: the number, 0 after the last. *next is 0 at
 * first. The caller calls decide_show_hold() when that frame is durable; until then none of them times out. */
uint64_t core_take_new_hold(struct core *core, size_t *next);

/* The lease of a delivery, until visible_at_ms. */
struct granted_lease {
    uint64_t message;
    uint64_t delivery;
    uint64_t visible_at_ms;
};

#endif
