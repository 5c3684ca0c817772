/* The core: the state machine. Pure: time, randomness, disks and sockets are arguments or don't exist here.
 *
 * The one way in for changes is decide (decide.h): it checks a command against the state and yields events; each event
 * is encoded into the open frame and applied (apply.c) at once, so that the next decision sees it. On replay the same
 * events are applied from the log. The state is therefore a function of the log and of nothing else.
 *
 * core_frame_open() first lets time pass to that of the frame: messages whose delay or visibility timeout is over
 * become deliverable, without an event. In a frame that stays open time goes on by an event (decide_pass_time). What
 * time creates, ends or moves is decided by decide_due() and logged. */
#ifndef TALLY_CORE_CORE_H
#define TALLY_CORE_CORE_H

#include "base/error.h"
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
 * the next one. `frame` is borrowed until core_frame_close(). */
void core_frame_open(struct core *core, struct buffer *frame, uint64_t position, uint64_t now_ms, size_t ample_size);
void core_frame_close(struct core *core);

/* Applies the events of a frame that the log gave back. False when an event can't be decoded or does not fit the state:
 * the log is damaged or from a newer version; `failure` says which event. */
bool core_replay(struct core *core, struct bytes payload, uint64_t position, uint64_t time_ms, struct failure *failure);

/* When core_frame_open() or decide_due() next has something to do, or a schedule is to be fired; 0: at
 * once; UINT64_MAX: never. O(1). */
uint64_t core_due_ms(const struct core *core);

/* Is something left, for decide_due(), that whoever caused it expects to see at once: dependents to be told of an end,
 * the rest of a cancelled group? O(1). */
bool core_is_settling(const struct core *core);

/* Queues that became deliverable since the last call, one by one; NULL when there are no more. */
struct queue *core_take_ready_queue(struct core *core);

/* Puts a queue back among them, for a receive that stopped before it had looked at every message; and asks if any is
 * there. */
void core_notice_queue(struct core *core, struct queue *queue);
bool core_has_ready_queue(const struct core *core);

/* Would a receive find something now, or at least put something out of the way? Amortised O(1). */
bool core_has_deliverable(struct core *core, const struct queue *queue);

/* Reading. Pointers are borrowed until the next decision. */
uint64_t core_now_ms(const struct core *core);
struct bytes core_name(const struct core *core);
struct digest *core_digest(const struct core *core);
struct queue *core_find_queue(const struct core *core, struct bytes name);
struct queue *core_find_queue_by_id(const struct core *core, uint32_t id);
const struct message_list *core_message_list(const struct core *core, const struct queue *queue);
/* Since when the retention of the queue's oldest message counts; UINT64_MAX: there is no message. O(1). */
uint64_t core_oldest_since_ms(const struct core *core, const struct queue *queue);
const struct batch *core_find_batch(const struct core *core, struct bytes id);
/* Id of the queue that message `number` is in; 0: it has ended, or its queue is gone. O(1). */
uint32_t core_queue_of_message(const struct core *core, uint64_t number);

/* Queues in order of name: how many there are, and the i-th; the index of the first whose name is not below `name`. */
size_t core_queue_count(const struct core *core);
struct queue *core_queue_by_name(const struct core *core, size_t index);
size_t core_queue_index(const struct core *core, struct bytes name);

/* Batches in order of creation: the first whose number is not below `number`, or NULL. O(log batches). */
const struct batch *core_next_batch(const struct core *core, uint64_t number);

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
    uint64_t reused_ids;     /* rows under an id that another row had, since the namespace was founded */
};
struct core_metrics core_metrics(const struct core *core);

/* How many messages, deduplication ids, published rows and the like the index has: what a snapshot's size goes by.
 * O(1). */
uint64_t core_index_count(const struct core *core);

/* Of the newest owner: rises with every start. */
uint64_t core_epoch(const struct core *core);

uint64_t core_segment_size(const struct core *core);

/* The lowest ordinal from `ordinal` on of a segment that a live message has its content in, or UINT64_MAX. */
uint64_t core_next_needed_segment(const struct core *core, uint64_t ordinal);

/* How much of each segment is alive. Borrowed until the next decision. */
const struct extents *core_extents(const struct core *core);

/* A live message's content and where it stands in the log. */
struct live_content {
    uint64_t number; /* of the message */
    uint64_t position;
    uint32_t size; /* bytes */
};

/* Looks at up to *visits slots of the index, from *slot on, for a message whose content stands in one of these segments
 * (`ordinals`, rising). True if there is one; *slot is then behind it. *visits: how many are left. *slot is 0 when the
 * last one has been looked at; begin with 1. A message that comes or moves while somebody walks may be passed over.
 * O(visits). */
bool core_find_content(const struct core *core, const uint64_t *ordinals, size_t count, uint32_t *slot,
                       unsigned *visits, struct live_content *found);

/* Does the message still have that content in that place? */
bool core_has_content(const struct core *core, const struct live_content *content);

/* The whole state, canonically: equal states encode to equal bytes. `sink` gets it in pieces. */
void core_encode(const struct core *core, void (*sink)(void *context, struct bytes piece), void *context);
/* Fills a fresh core. False if `encoded` is none; the core must then be destroyed. As it goes on, `release` is told
 * that the bytes before `end` will not be looked at again, so that their memory can be taken back there and then; NULL:
 * they stay as they are. */
bool core_decode(struct core *core, struct bytes encoded, void (*release)(void *context, const uint8_t *end),
                 void *context);

/* Asserts every invariant by walking the whole state. */
void core_check(const struct core *core);

/* The matches that the open frame holds for confirmations, one after the other: the number, 0 behind the last. *next is
 * 0 at first. Whoever asks says decide_show_hold() when that frame is durable; until then none of them times out. */
uint64_t core_take_new_hold(struct core *core, size_t *next);

/* A lease that a delivery was given, until visible_at_ms. */
struct granted_lease {
    uint64_t message;
    uint64_t delivery;
    uint64_t visible_at_ms;
};

#endif
