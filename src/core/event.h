/* Events: physical facts in the past tense, the only things the log holds and the only things that change the state.
 *
 * An event says what happened, never what was asked. So a later version of the program replays an old log to the same
 * state. Times that an event does not carry are the core's time: that of its frame, or of the newest time_passed in it.
 * Adding an event is a row here and an apply function (apply.c); a kind or a field is never reused or reordered.
 *
 * On disk an event is u8 kind, u32 size, then its fields in the order of the list, little-endian; TEXT is u32 size and
 * the bytes. docs/internals/formats/events.md shows them. */
#ifndef TALLY_CORE_EVENT_H
#define TALLY_CORE_EVENT_H

#include "base/buffer.h"

#define EVENT_HEADER_SIZE 5u
#define MESSAGE_ID_SIZE 16
#define CORE_KEY_SIZE 16

/* X(KIND, kind, number on disk) */
#define EVENT_LIST(X)                                                                                                  \
    X(FOUNDED, founded, 1)                                                                                             \
    X(RESTARTED, restarted, 2)                                                                                         \
    X(TIME_PASSED, time_passed, 3)                                                                                     \
    X(RESTORED, restored, 4)                                                                                           \
    X(QUEUE_CREATED, queue_created, 10)                                                                                \
    X(QUEUE_SET, queue_set, 11)                                                                                        \
    X(QUEUE_PURGED, queue_purged, 12)                                                                                  \
    X(QUEUE_DELETED, queue_deleted, 13)                                                                                \
    X(QUEUE_PAUSED, queue_paused, 14)                                                                                  \
    X(QUEUE_TAGGED, queue_tagged, 15)                                                                                  \
    X(QUEUE_UNTAGGED, queue_untagged, 16)                                                                              \
    X(SENT, sent, 20)                                                                                                  \
    X(RECEIVED, received, 21)                                                                                          \
    X(VISIBILITY_CHANGED, visibility_changed, 22)                                                                      \
    X(ENDED, ended, 23)                                                                                                \
    X(DEAD_LETTERED, dead_lettered, 24)                                                                                \
    X(SENT_IN_GROUP, sent_in_group, 25)                                                                                \
    X(FAILED, failed, 26)                                                                                              \
    X(CONTENT_MOVED, content_moved, 27)                                                                                \
    X(LEASE_RENEWED, lease_renewed, 28)                                                                                \
    X(REPLACED, replaced, 29)                                                                                          \
    X(BATCH_CREATED, batch_created, 30)                                                                                \
    X(UNITS_COUNTED, units_counted, 31)                                                                                \
    X(UNITS_ADDED, units_added, 32)                                                                                    \
    X(UNIT_ENDED, unit_ended, 33)                                                                                      \
    X(XOR_APPLIED, xor_applied, 34)                                                                                    \
    X(BATCH_SEALED, batch_sealed, 35)                                                                                  \
    X(BATCH_FIRED, batch_fired, 36)                                                                                    \
    X(BATCH_DELETED, batch_deleted, 37)                                                                                \
    X(BATCH_GROWN, batch_grown, 38)                                                                                    \
    X(GROUP_HELD, group_held, 40)                                                                                      \
    X(GROUP_RELEASED, group_released, 41)                                                                              \
    X(GROUP_CANCELLED, group_cancelled, 42)                                                                            \
    X(GROUP_PAUSED, group_paused, 43)                                                                                  \
    X(DEDUPLICATED, deduplicated, 50)                                                                                  \
    X(PRODUCED, produced, 51)                                                                                          \
    X(ATTEMPTED, attempted, 52)                                                                                        \
    X(WAITED, waited, 60)                                                                                              \
    X(RESOLVED, resolved, 61)                                                                                          \
    X(TYPE_ORDER_PUT, type_order_put, 65)                                                                              \
    X(TYPE_ORDER_DELETED, type_order_deleted, 66)                                                                      \
    X(TYPED, typed, 67)                                                                                                \
    X(SCHEDULE_PUT, schedule_put, 70)                                                                                  \
    X(SCHEDULE_FIRED, schedule_fired, 71)                                                                              \
    X(SCHEDULE_DELETED, schedule_deleted, 72)                                                                          \
    X(MOVE_STARTED, move_started, 75)                                                                                  \
    X(MESSAGE_MOVED, message_moved, 76)                                                                                \
    X(MOVE_ENDED, move_ended, 77)                                                                                      \
    X(SELECTION_STARTED, selection_started, 78)                                                                        \
    X(SELECTION_LOOKED, selection_looked, 79)                                                                          \
    X(PUBLISHER_OPENED, publisher_opened, 80)                                                                          \
    X(PUBLISHED, published, 81)                                                                                        \
    X(PUBLISHER_BOUND, publisher_bound, 82)                                                                            \
    X(RELAY_PUT, relay_put, 85)                                                                                        \
    X(RELAY_PAUSED, relay_paused, 86)                                                                                  \
    X(RELAY_DELETED, relay_deleted, 87)                                                                                \
    X(POOL_PUT, pool_put, 90)                                                                                          \
    X(POOL_DELETED, pool_deleted, 91)                                                                                  \
    X(TICKET_OFFERED, ticket_offered, 92)                                                                              \
    X(TICKET_UPDATED, ticket_updated, 93)                                                                              \
    X(TICKETS_WIDENED, tickets_widened, 94)                                                                            \
    X(TICKET_ENDED, ticket_ended, 95)                                                                                  \
    X(MATCHED, matched, 96)                                                                                            \
    X(CONFIRMED, confirmed, 97)                                                                                        \
    X(MATCH_MADE, match_made, 98)                                                                                      \
    X(MATCH_UNDONE, match_undone, 99)                                                                                  \
    X(TICKETS_FORGOTTEN, tickets_forgotten, 100)                                                                       \
    X(HOLD_RENEWED, hold_renewed, 101)

/* A new namespace: its name, the key of its receipt handles and message ids, the size of its log's segments. */
#define EVENT_FIELDS_founded(U8, U32, U64, RAW, TEXT) TEXT(name) RAW(key, CORE_KEY_SIZE) U64(segment_size)

/* At resumed_at_ms a new owner took over, or the owner went on, whose log had been out of reach. From then on, each
 * lease in flight lasts at least its own timeout or grace_ms, whichever is shorter. Its worker could not send a
 * heartbeat while nobody served (invariant R11). The frame of this event has the time of what was decided before it, so
 * no lease ends before this event could extend it. */
#define EVENT_FIELDS_restarted(U8, U32, U64, RAW, TEXT) U64(epoch) U64(resumed_at_ms) U32(grace_ms)

/* Only time passes, to time_ms: delays and leases that were over by then stay over. The rest of the frame happens at
 * that time or later. Older logs hold only the time of the frame itself. */
#define EVENT_FIELDS_time_passed(U8, U32, U64, RAW, TEXT) U64(time_ms)

/* At restored_at_ms this log was made from a backup, whose state was that of until_ms. What happened after that is not
 * in it, but clients may know of it. So every number that a client may have seen grows by `step`, and none is given out
 * again: those of messages, deliveries, batches, tasks, tickets, matches and feeds, and the epochs of publishers. */
#define EVENT_FIELDS_restored(U8, U32, U64, RAW, TEXT) U64(step) U64(until_ms) U64(restored_at_ms)

/* Queue ids are never reused. `settings` is an encoded struct queue_settings (queue.h). */
#define EVENT_FIELDS_queue_created(U8, U32, U64, RAW, TEXT) U32(queue) TEXT(name) TEXT(settings)
#define EVENT_FIELDS_queue_set(U8, U32, U64, RAW, TEXT) U32(queue) TEXT(settings)

/* The queue's messages are out of reach at once; `ended` events follow in portions. */
#define EVENT_FIELDS_queue_purged(U8, U32, U64, RAW, TEXT) U32(queue)
#define EVENT_FIELDS_queue_deleted(U8, U32, U64, RAW, TEXT) U32(queue)

/* Deliveries stopped (1) or go on (0). */
#define EVENT_FIELDS_queue_paused(U8, U32, U64, RAW, TEXT) U32(queue) U8(is_paused)

/* The queue gets these tags, besides those under other keys; or loses those of `keys`, a run of u32 size + bytes.
 * `tags` as in tags.h. */
#define EVENT_FIELDS_queue_tagged(U8, U32, U64, RAW, TEXT) U32(queue) TEXT(tags)
#define EVENT_FIELDS_queue_untagged(U8, U32, U64, RAW, TEXT) U32(queue) TEXT(keys)

/* A message was accepted. visible_at_ms 0: at once. batch 0: none; else the message is that batch's unit number `unit`,
 * or, where `completes` is not 0, the message of that batch event (enum batch_event). `content` is an encoded struct
 * content: the index keeps its position, not its bytes. */
#define EVENT_FIELDS_sent(U8, U32, U64, RAW, TEXT)                                                                     \
    U64(number) U32(queue) U64(visible_at_ms) U64(batch) U32(unit) U8(completes) TEXT(content)

/* From the start of the event's fields to the content's bytes. */
#define EVENT_SENT_CONTENT_OFFSET (8u + 4u + 8u + 8u + 4u + 1u + 4u)

/* A message of a group was accepted. Like `sent`, with its position: after all others of `group` in its queue. An empty
 * group: a message that competes alone. */
#define EVENT_FIELDS_sent_in_group(U8, U32, U64, RAW, TEXT)                                                            \
    U64(number) U32(queue) U64(visible_at_ms) U64(batch) U32(unit) U8(completes) U8(priority) TEXT(group) TEXT(content)

/* From the start of that event's fields to the content's bytes, less the group's. */
#define EVENT_SENT_IN_GROUP_CONTENT_OFFSET (8u + 4u + 8u + 8u + 4u + 1u + 1u + 4u + 4u)

/* The attempt that held the message ended on purpose; it is visible again at visible_at_ms, 0: at once. With is_final 1
 * it has no attempt left, whatever its queue allows. */
#define EVENT_FIELDS_failed(U8, U32, U64, RAW, TEXT) U64(number) U64(visible_at_ms) U8(is_final) TEXT(reason)

/* A receiver took the message; `delivery` is the number of this delivery in the namespace. */
#define EVENT_FIELDS_received(U8, U32, U64, RAW, TEXT) U64(number) U64(delivery) U32(timeout_ms)

/* The newest lease of a message now lasts timeout_ms from now on; 0: the message is visible again. */
#define EVENT_FIELDS_visibility_changed(U8, U32, U64, RAW, TEXT) U64(number) U32(timeout_ms)

/* The newest lease of a message, which is not over, lasts until visible_at_ms, because the reply with it had to wait
 * for the disk. Its timeout stays the one that was asked for. */
#define EVENT_FIELDS_lease_renewed(U8, U32, U64, RAW, TEXT) U64(number) U64(visible_at_ms)

/* A message is over; `reason` is enum end_reason. Its unit, if any, ends by an event of its own in the same frame. */
#define EVENT_FIELDS_ended(U8, U32, U64, RAW, TEXT) U64(number) U8(reason)

/* The content of a live message is now here, byte for byte the same; nothing else about the message changes. */
#define EVENT_FIELDS_content_moved(U8, U32, U64, RAW, TEXT) U64(number) TEXT(content)

/* From the start of that event's fields to the content's bytes. */
#define EVENT_CONTENT_MOVED_CONTENT_OFFSET (8u + 4u)

/* Message `number` was replaced by a changed copy, number `successor`, which takes over its unit, its group and what
 * waits for it. The fields are as in message_moved; `queue` is its own, or of a dead letter the one where it failed. */
#define EVENT_FIELDS_replaced(U8, U32, U64, RAW, TEXT)                                                                 \
    U64(number) U64(successor) U32(queue) U64(visible_at_ms) U64(sequence) TEXT(content)

/* From the start of that event's fields to the content's bytes. */
#define EVENT_REPLACED_CONTENT_OFFSET (8u + 8u + 4u + 8u + 8u + 4u)

/* A message without attempts left went to another queue. It keeps number, id, age and receive count. */
#define EVENT_FIELDS_dead_lettered(U8, U32, U64, RAW, TEXT) U64(number) U32(queue)

/* `spec` is an encoded struct batch_spec (batch.h). parent 0: none; else this batch is its unit parent_unit. */
#define EVENT_FIELDS_batch_created(U8, U32, U64, RAW, TEXT) U64(batch) U64(parent) U32(parent_unit) TEXT(id) TEXT(spec)

/* External units "0" to "count-1" are now units of the batch, besides its other ones. */
#define EVENT_FIELDS_units_counted(U8, U32, U64, RAW, TEXT) U64(batch) U32(count)

/* New external units; `keys` is a run of u32 size + bytes, all of them new. */
#define EVENT_FIELDS_units_added(U8, U32, U64, RAW, TEXT) U64(batch) U32(count) TEXT(keys)

/* A unit ended; outcome is enum unit_state. An exact ledger finds it by `unit`; an xor ledger takes `xor_id` out of its
 * value. */
#define EVENT_FIELDS_unit_ended(U8, U32, U64, RAW, TEXT) U64(batch) U32(unit) U64(xor_id) U8(outcome) TEXT(detail)

/* A value from outside was xored in, once for each token; `check` tells a repeat from another use of the token. */
#define EVENT_FIELDS_xor_applied(U8, U32, U64, RAW, TEXT)                                                              \
    U64(batch) U64(value) U32(registered) U32(finished) U64(check) TEXT(token)

#define EVENT_FIELDS_batch_sealed(U8, U32, U64, RAW, TEXT) U64(batch)

/* An event of the batch fell due (enum batch_event), once. For completion `status` (enum batch_status) says how it
 * ended. A success with a status came after completion: failed units were redriven and have succeeded. */
#define EVENT_FIELDS_batch_fired(U8, U32, U64, RAW, TEXT) U64(batch) U8(event) U8(status)

#define EVENT_FIELDS_batch_deleted(U8, U32, U64, RAW, TEXT) U64(batch)

/* A unit of the batch that has not ended lets that many more units join, sealed or not. Their events come next in the
 * frame, and they are added to a Total. */
#define EVENT_FIELDS_batch_grown(U8, U32, U64, RAW, TEXT) U64(batch) U32(count)

/* A group of a queue waits for an operator: its head has no attempts left, for `reason`, and stays. */
#define EVENT_FIELDS_group_held(U8, U32, U64, RAW, TEXT) U32(queue) TEXT(group) TEXT(reason)

/* The held group goes on. With is_retry 1 its head counts its attempts from 0 again. */
#define EVENT_FIELDS_group_released(U8, U32, U64, RAW, TEXT) U32(queue) TEXT(group) U8(is_retry)

/* All messages of the group up to this sequence number are out of reach; `ended` events follow in portions. */
#define EVENT_FIELDS_group_cancelled(U8, U32, U64, RAW, TEXT) U32(queue) TEXT(group) U64(sequence)

#define EVENT_FIELDS_group_paused(U8, U32, U64, RAW, TEXT) U32(queue) TEXT(group) U8(is_paused)

/* The deduplication id of message `number`, until expires_at_ms (UINT64_MAX: for ever). `group` is empty where the
 * queue's scope is the queue. */
#define EVENT_FIELDS_deduplicated(U8, U32, U64, RAW, TEXT)                                                             \
    U32(queue) TEXT(group) TEXT(id) U64(number) U64(expires_at_ms)

/* Message `number` is the producer's `sequence` in this queue, its newest. */
#define EVENT_FIELDS_produced(U8, U32, U64, RAW, TEXT) U32(queue) TEXT(producer) U64(sequence) U64(number)

/* A receive gave these deliveries, a run of u64 message number + u64 delivery, under an attempt id. */
#define EVENT_FIELDS_attempted(U8, U32, U64, RAW, TEXT) U32(queue) TEXT(attempt) U64(expires_at_ms) TEXT(deliveries)

/* The newest message waits for these, given by kind and number: a run of u8 kind (enum antecedent_kind) + u64 number +
 * u8 outcome (enum unit_state). An outcome other than outstanding is a failure that holds the message. policy is enum
 * after_failure. */
#define EVENT_FIELDS_waited(U8, U32, U64, RAW, TEXT) U64(number) U8(policy) U32(count) TEXT(antecedents)

/* This antecedent has ended, the first of those to be resolved. Its next `count` dependents were told: they no longer
 * wait for it. If it did not succeed and that is their policy, they are held. */
#define EVENT_FIELDS_resolved(U8, U32, U64, RAW, TEXT) U8(kind) U64(number) U32(count)

/* `types` is a run of u32 size + bytes, in the order in which they must come. */
#define EVENT_FIELDS_type_order_put(U8, U32, U64, RAW, TEXT) TEXT(name) TEXT(types) U8(is_required) U32(retention_s)
#define EVENT_FIELDS_type_order_deleted(U8, U32, U64, RAW, TEXT) TEXT(name)

/* The type of a message that type orders concern. */
#define EVENT_FIELDS_typed(U8, U32, U64, RAW, TEXT) U64(number) TEXT(type)

/* `spec` is an encoded struct schedule_spec (schedule.h). next_at_ms UINT64_MAX: never. `number` is that of the
 * message, which stands in the same frame; 0: the firing was missed and left out. */
#define EVENT_FIELDS_schedule_put(U8, U32, U64, RAW, TEXT) TEXT(name) TEXT(spec) U64(next_at_ms)
#define EVENT_FIELDS_schedule_fired(U8, U32, U64, RAW, TEXT) TEXT(name) U64(due_at_ms) U64(next_at_ms) U64(number)
#define EVENT_FIELDS_schedule_deleted(U8, U32, U64, RAW, TEXT) TEXT(name)

/* A move task began. Queues are given by id; destination 0: each message returns to its source. rate 0: no limit. It
 * moves `to_move` messages at most. */
#define EVENT_FIELDS_move_started(U8, U32, U64, RAW, TEXT) U64(task) U32(source) U32(destination) U32(rate) U64(to_move)

/* A task moved message `number` to another queue. There it is a new message, number `successor`, visible at
 * visible_at_ms (0: at once). It goes to the end of its group or, if sequence is not 0, to that position. */
#define EVENT_FIELDS_message_moved(U8, U32, U64, RAW, TEXT)                                                            \
    U64(task) U64(number) U64(successor) U32(queue) U64(visible_at_ms) U64(sequence)

/* status is enum move_status, failure enum move_failure. */
#define EVENT_FIELDS_move_ended(U8, U32, U64, RAW, TEXT) U64(task) U32(source) U8(status) U8(failure)

/* A task began that is for some messages of its queue only. act is enum selection_act; the rest is as in move_started,
 * or a filter (selection.h). `numbers`, unless empty, is a run of u64, rising: it is for these. */
/* clang-format off */
#define EVENT_FIELDS_selection_started(U8, U32, U64, RAW, TEXT)                                                        \
    U64(task) U32(source) U32(destination) U32(rate) U64(to_move) U8(act) U64(sent_after_ms) U64(sent_before_ms)       \
    TEXT(group) TEXT(reason) TEXT(numbers)
/* clang-format on */

/* Such a task has looked at `looked` more messages, and is now behind this place. `deleted` of them were ended by it,
 * right before in the same frame; `refused` had to stay. `refusals`, a run of u64 number + u8 enum refusal_reason, has
 * the first of those. */
#define EVENT_FIELDS_selection_looked(U8, U32, U64, RAW, TEXT)                                                         \
    U64(task)                                                                                                          \
    U32(source) U64(counted_from_ms) U64(number) U64(arrival) U32(looked) U32(deleted) U32(refused) TEXT(refusals)

/* A publisher has a new owner, who holds this epoch; its batches must come with both. It may be new. */
#define EVENT_FIELDS_publisher_opened(U8, U32, U64, RAW, TEXT) RAW(publisher, 16) RAW(owner, 16) U64(epoch)

/* A row of the publisher names this queue for the first time. Queue 0: the publisher is new, and `claim` says who may
 * open it until then (publisher.h). */
#define EVENT_FIELDS_publisher_bound(U8, U32, U64, RAW, TEXT) RAW(publisher, 16) U32(queue) U64(claim)

/* A batch of `row_count` rows was decided; its effects come before it, in the same frame. Rows of the batches up to
 * confirmed_batch have left their source. The digest is that of all its rows. `rows` are those that are known from now
 * on, each u64 id, uid 16; `results` as in publisher.h. */
#define EVENT_FIELDS_published(U8, U32, U64, RAW, TEXT)                                                                \
    RAW(publisher, 16)                                                                                                 \
    RAW(owner, 16)                                                                                                     \
    U64(epoch)                                                                                                         \
    U64(batch) U64(confirmed_batch) U64(digest_low) U64(digest_high) U32(row_count) TEXT(rows) TEXT(results)

/* A relay is to run. `spec` has its settings (relay_record.h). */
#define EVENT_FIELDS_relay_put(U8, U32, U64, RAW, TEXT) TEXT(name) TEXT(spec)
#define EVENT_FIELDS_relay_paused(U8, U32, U64, RAW, TEXT) TEXT(name) U8(is_paused)
#define EVENT_FIELDS_relay_deleted(U8, U32, U64, RAW, TEXT) TEXT(name)

/* A pool was created, if `pool` is above every id given out, or changed. `spec` is an encoded struct pool_spec
 * (ticket_pool.h). If it changes the rules, the rules' version increases by one. Ids are never reused. */
#define EVENT_FIELDS_pool_put(U8, U32, U64, RAW, TEXT) U32(pool) TEXT(name) TEXT(spec)

/* With all its tickets and matches. */
#define EVENT_FIELDS_pool_deleted(U8, U32, U64, RAW, TEXT) U32(pool)

/* A ticket came, and waits. `digest` covers the whole offer, ttl_s included, and identifies a repeat. expires_at_ms
 * UINT64_MAX: never. `set`: its exclusive set, or empty. `facts` as in match/facts.h, `attributes` is JSON. */
/* clang-format off */
#define EVENT_FIELDS_ticket_offered(U8, U32, U64, RAW, TEXT)                                                           \
    U32(pool) U64(number) U64(digest_low) U64(digest_high) U64(expires_at_ms) U32(ttl_s) U32(weight) U8(priority)      \
    U8(has_body) TEXT(key) TEXT(set) TEXT(facts) TEXT(attributes) TEXT(body)
/* clang-format on */

/* A waiting ticket has new contents: its version increases by one. */
#define EVENT_FIELDS_ticket_updated(U8, U32, U64, RAW, TEXT) U32(pool) U64(number) TEXT(facts) TEXT(attributes)

/* Waiting tickets took their next steps: a run of u64 number + u8 level. Versions stay. */
#define EVENT_FIELDS_tickets_widened(U8, U32, U64, RAW, TEXT) U32(pool) U32(count) TEXT(tickets)

/* A waiting ticket ended; `reason` is enum ticket_end. */
#define EVENT_FIELDS_ticket_ended(U8, U32, U64, RAW, TEXT) U32(pool) U64(number) U8(reason)

/* A match. `members` is a run of u64 number + u32 version + u8 team: waiting tickets at these versions; `siblings` a
 * run of u64 number: the waiting tickets that share an exclusive set with one of them. message: the number of the
 * result message, which comes right before this in the same frame. Then members are retired and siblings cancelled.
 * message 0: the members are held until confirm_by_ms, the siblings stay. `proposal` is empty for the built-in
 * matcher's own. `body` is kept for a held one's result. */
/* clang-format off */
#define EVENT_FIELDS_matched(U8, U32, U64, RAW, TEXT)                                                                  \
    U32(pool) U64(match) U64(message) U64(confirm_by_ms) U64(digest_low) U64(digest_high) U32(count) U8(has_body)      \
    TEXT(proposal) TEXT(members) TEXT(siblings) TEXT(body)
/* clang-format on */

/* A member of a held match confirmed it; `member` is its index. */
#define EVENT_FIELDS_confirmed(U8, U32, U64, RAW, TEXT) U64(match) U32(member)

/* All members of a held match confirmed it: it counts as matched now. */
#define EVENT_FIELDS_match_made(U8, U32, U64, RAW, TEXT) U64(match) U64(message) TEXT(siblings)

/* The members of a match wait again, with their age and a higher version. Those in `leavers`, a run of u64 number, are
 * cancelled instead. `reason` is enum match_undoing. A result message, if there was one, was ended right before, in the
 * same frame. */
#define EVENT_FIELDS_match_undone(U8, U32, U64, RAW, TEXT) U64(match) U8(reason) TEXT(leavers)

/* A held match waits for its confirmations until confirm_by_ms, later than before, because nobody could know of it
 * until now. */
#define EVENT_FIELDS_hold_renewed(U8, U32, U64, RAW, TEXT) U64(match) U64(confirm_by_ms)

/* The oldest `count` tickets and matches that were over are forgotten. */
#define EVENT_FIELDS_tickets_forgotten(U8, U32, U64, RAW, TEXT) U32(pool) U32(tickets) U32(matches)

#define EVENT_STRUCT_U8(name) uint8_t name;
#define EVENT_STRUCT_U32(name) uint32_t name;
#define EVENT_STRUCT_U64(name) uint64_t name;
#define EVENT_STRUCT_RAW(name, size) uint8_t name[size];
#define EVENT_STRUCT_TEXT(name) struct bytes name;
#define EVENT_STRUCT(KIND, kind, number)                                                                               \
    struct event_##kind {                                                                                              \
        EVENT_FIELDS_##kind(EVENT_STRUCT_U8, EVENT_STRUCT_U32, EVENT_STRUCT_U64, EVENT_STRUCT_RAW, EVENT_STRUCT_TEXT)  \
    };
EVENT_LIST(EVENT_STRUCT)
#undef EVENT_STRUCT

enum event_kind {
#define EVENT_ENUM(KIND, kind, number) EVENT_##KIND = number,
    EVENT_LIST(EVENT_ENUM)
#undef EVENT_ENUM
};

struct event {
    enum event_kind kind;
    union {
#define EVENT_MEMBER(KIND, kind, number) struct event_##kind kind;
        EVENT_LIST(EVENT_MEMBER)
#undef EVENT_MEMBER
    };
};

/* Appends the event. Views in it are copied. */
void event_encode(const struct event *event, struct buffer *out);

/* Takes one event off the front of `source`; its views point into `source`. False, with nothing changed, if it does not
 * begin with a whole, known event. */
bool event_decode(struct bytes *source, struct event *event);

/* Name of a kind for people; NULL if there is no such kind. */
const char *event_kind_name(unsigned kind);

#endif
