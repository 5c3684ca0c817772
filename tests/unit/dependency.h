/* Words in which tests speak of dependencies to a core without a log: queues, sends that wait, ends, and what frames
 * did. */
#ifndef TALLY_TESTS_UNIT_DEPENDENCY_H
#define TALLY_TESTS_UNIT_DEPENDENCY_H

#include "support/core_bytes.h"
#include "support/core_rig.h"

#include "core/batches/decide_batch.h"
#include "core/decide_namespace.h"
#include "core/messages/decide_message.h"
#include "core/messages/decide_receive.h"
#include "core/messages/decide_send.h"
#include "core/queues/decide_queue.h"
#include "core/snapshot.h"
#include "core/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define DAY_MS UINT64_C(86400000)
#define PORTION 500u

/* --- a small vocabulary ------------------------------------------------------------------------------------------- */

static inline void make_queue(struct core_rig *rig, const char *name, bool is_fifo, const char *dead_letters)
{
    struct queue_settings settings = core_rig_settings();
    char arn[120];
    settings.is_fifo = is_fifo;
    settings.retention_s = 1209600;
    settings.deduplication_window_s = 300;
    if (dead_letters != NULL) {
        snprintf(arn, sizeof(arn), "arn:aws:sqs:us-east-1:000000000000:%s", dead_letters);
        settings.dead_letter_arn = bytes_from_string(arn);
        settings.receive_count_max = 1;
    }
    core_rig_begin(rig);
    decide_create_queue(rig->core, bytes_from_string(name), &settings);
    core_rig_end(rig);
}

struct after {
    struct antecedent_name names[4];
    char texts[4][IDENTITY_TEXT_SIZE];
    uint32_t count;
};

static inline void after_message(const struct core_rig *rig, struct after *after, uint64_t number)
{
    uint8_t id[MESSAGE_ID_SIZE];
    identity_message(core_digest(rig->core), number, id);
    identity_to_text(id, after->texts[after->count]);
    after->names[after->count] = (struct antecedent_name){
        .kind = NAMED_MESSAGE, .text = bytes_make(after->texts[after->count], IDENTITY_TEXT_SIZE)};
    after->count++;
}

static inline void after_batch(struct after *after, const char *id)
{
    after->names[after->count++] = (struct antecedent_name){.kind = NAMED_BATCH, .text = bytes_from_string(id)};
}

/* In a frame that is open. The result is that of the newest send; the type is that of the next ones. */
static struct send_result newest;
static struct bytes send_type;

static inline enum error send(struct core_rig *rig, const char *queue, const char *group, const char *batch,
                              const struct after *after, enum after_failure policy)
{
    const struct send_command command = {
        .queue = core_find_queue(rig->core, bytes_from_string(queue)),
        .content = {.body = BYTES("body"), .group = bytes_from_string(group), .sender = core_name(rig->core)},
        .batch_id = bytes_from_string(batch),
        .type = send_type,
        .priority = PRIORITY_DEFAULT,
        .antecedents = after == NULL ? NULL : after->names,
        .antecedent_count = after == NULL ? 0 : after->count,
        .after_failure = policy,
    };
    return decide_send(rig->core, &command, &newest);
}

static inline uint64_t send_plain(struct core_rig *rig, const char *queue)
{
    assert_int_equal(send(rig, queue, "", "", NULL, AFTER_FAILURE_CANCEL), OK);
    return newest.number;
}

/* The same in a frame of its own. */
static inline enum error send_alone(struct core_rig *rig, const char *queue, const char *group, const char *batch,
                                    const struct after *after, enum after_failure policy)
{
    core_rig_begin(rig);
    enum error error = send(rig, queue, group, batch, after, policy);
    core_rig_end(rig);
    return error;
}

static inline void create_batch(struct core_rig *rig, const char *id, const char *parent, const char *target,
                                const char *group, enum error expected, char *path)
{
    struct create_batch_command command = {.id = bytes_from_string(id),
                                           .parent_id = bytes_from_string(parent),
                                           .spec = {.expires_after_s = 31536000, .retention_s = 86400},
                                           .path = path};
    if (target != NULL)
        command.spec.targets[BATCH_EVENT_COMPLETE - 1] = (struct batch_target){
            .queue = core_find_queue(rig->core, bytes_from_string(target))->id, .group = bytes_from_string(group)};
    const struct batch *batch;
    core_rig_begin(rig);
    assert_int_equal(decide_create_batch(rig->core, &command, &batch), expected);
    core_rig_end(rig);
}

static inline unsigned receive(struct core_rig *rig, const char *queue, struct received_message messages[RECEIVE_MAX])
{
    unsigned count;
    struct queue *at = core_find_queue(rig->core, bytes_from_string(queue));
    assert_int_equal(decide_receive(rig->core, at, RECEIVE_MAX, 30000, 120000, messages, &count), OK);
    return count;
}

static inline void delete (struct core_rig *rig, const struct received_message *message)
{
    char text[HANDLE_TEXT_SIZE];
    handle_to_text(core_digest(rig->core), &message->handle, text);
    struct queue *queue = core_find_queue_by_id(rig->core, message->handle.queue);
    assert_int_equal(decide_delete(rig->core, queue, bytes_make(text, sizeof(text)), NULL), OK);
}

static inline void fail_for_good(struct core_rig *rig, const struct received_message *message)
{
    char text[HANDLE_TEXT_SIZE];
    struct failure_result result;
    handle_to_text(core_digest(rig->core), &message->handle, text);
    struct queue *queue = core_find_queue_by_id(rig->core, message->handle.queue);
    assert_int_equal(decide_fail(rig->core, queue, bytes_make(text, sizeof(text)),
                                 &(struct failed_attempt){.reason = BYTES("no"), .is_final = true}, &result),
                     OK);
}

/* Edges told and messages ended in the rig's newest frame. */
struct frame_facts {
    unsigned resolved_events;
    unsigned told;
    unsigned ended;
};

static inline struct frame_facts read_frame(const struct core_rig *rig)
{
    struct frame_facts facts = {0};
    struct bytes rest = buffer_bytes(&rig->frame);
    struct event event;
    while (rest.size > 0) {
        assert_true(event_decode(&rest, &event));
        facts.resolved_events += event.kind == EVENT_RESOLVED;
        facts.told += event.kind == EVENT_RESOLVED ? event.resolved.count : 0;
        facts.ended += event.kind == EVENT_ENDED;
    }
    return facts;
}

/* Frames until nothing is due; returns how many had events. Adds up in *sum what they did. */
static inline unsigned settle(struct core_rig *rig, struct frame_facts *sum)
{
    struct frame_facts ignored = {0};
    sum = sum == NULL ? &ignored : sum;
    for (unsigned frames = 0;; frames++) {
        core_rig_begin(rig);
        bool is_more = decide_due(rig->core);
        core_rig_end(rig);
        struct frame_facts facts = read_frame(rig);
        assert_true(facts.told + facts.ended <= PORTION);
        sum->resolved_events += facts.resolved_events;
        sum->told += facts.told;
        sum->ended += facts.ended;
        if (!is_more)
            return frames + (rig->frame.size > 0);
    }
}

static inline void expect_same(const struct core *core, const struct core *other)
{
    struct buffer a, b;
    buffer_init(&a);
    buffer_init(&b);
    core_rig_encode(core, &a);
    core_rig_encode(other, &b);
    assert_true(bytes_equal(buffer_bytes(&a), buffer_bytes(&b)));
    buffer_deinit(&a);
    buffer_deinit(&b);
}

/* The state stands its checks; a replay and a snapshot give the same. */
static inline void judge(const struct core_rig *rig)
{
    core_check(rig->core);
    struct core *replayed = core_rig_replay(rig);
    core_check(replayed);
    expect_same(replayed, rig->core);
    core_destroy(replayed);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig->core, &encoded);
    struct core *decoded = core_create();
    assert_true(core_bytes_decode(decoded, buffer_bytes(&encoded)));
    core_check(decoded);
    expect_same(decoded, rig->core);
    core_destroy(decoded);
    buffer_deinit(&encoded);
}

static inline const struct message *find(const struct core_rig *rig, uint64_t number)
{
    uint32_t slot = core_find_message(rig->core, number);
    return slot == 0 ? NULL : core_message(rig->core, slot);
}

static inline bool is_waiting(const struct core_rig *rig, uint64_t number)
{
    return find(rig, number) != NULL && find(rig, number)->state == MESSAGE_WAITING;
}

static inline bool is_held(const struct core_rig *rig, uint64_t number)
{
    return is_waiting(rig, number) && core_extra_of(rig->core, find(rig, number))->is_held;
}

#endif
