/* What a snapshot may say, field by field: the last value that is read, and the first one that is refused. Each case
 * changes one field of a live state and writes that down. */
#include "core/batches/decide_batch.h"
#include "core/decide_namespace.h"
#include "core/messages/decide_receive.h"
#include "core/messages/decide_send.h"
#include "core/queues/decide_queue.h"
#include "core/state.h"
#include "support/core_rig.h"

#include "snapshot_bounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LEASE_MS 30000u

static struct queue *make_queue(struct core_rig *rig, struct bytes name)
{
    struct queue_settings settings = core_rig_settings();
    struct queue *queue = decide_create_queue(core_rig_begin(rig), name, &settings);
    core_rig_end(rig);
    return queue;
}

static struct batch *make_batch(struct core_rig *rig, struct bytes id, const struct create_batch_command *asked)
{
    const struct batch *batch;
    struct create_batch_command command = *asked;
    command.id = id;
    command.spec.expires_after_s = command.spec.retention_s = 9;
    assert_int_equal(decide_create_batch(core_rig_begin(rig), &command, &batch), OK);
    core_rig_end(rig);
    return core_batch(rig->core, core_find_batch_by_number(rig->core, batch->number));
}

static void add_units(struct core_rig *rig, const struct batch *batch, uint32_t count)
{
    uint32_t added;
    assert_int_equal(decide_add_units(core_rig_begin(rig), batch, &(struct add_units_command){.count = count}, &added),
                     OK);
    core_rig_end(rig);
}

static void complete(struct core_rig *rig, const struct batch *batch, struct bytes key, enum unit_state outcome)
{
    struct unit_report report = {.key = key, .outcome = outcome};
    uint32_t unknown;
    bool is_completed;
    struct core *core = core_rig_begin(rig);
    decide_seal_batch(core, batch, &is_completed);
    assert_int_equal(decide_complete_units(core, batch, &report, 1, UINT64_MAX, &unknown, &is_completed), OK);
    core_rig_end(rig);
}

static struct message *send(struct core_rig *rig, struct queue *queue, struct bytes batch, struct bytes group)
{
    const struct send_command command = {.queue = queue,
                                         .content = {.body = BYTES("b"), .sender = BYTES("s"), .group = group},
                                         .batch_id = batch,
                                         .priority = PRIORITY_DEFAULT};
    struct send_result result;
    assert_int_equal(decide_send(core_rig_begin(rig), &command, &result), OK);
    core_rig_end(rig);
    return core_message(rig->core, core_find_message(rig->core, result.number));
}

static void receive(struct core_rig *rig, struct queue *queue)
{
    struct received_message messages[RECEIVE_MAX];
    unsigned count;
    assert_int_equal(decide_receive(core_rig_begin(rig), queue, 1, LEASE_MS, UINT32_MAX, messages, &count), OK);
    assert_int_equal(count, 1);
    core_rig_end(rig);
}

static void the_namespace_has_a_name_segments_and_possible_numbers(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct core *core = rig.core;
    const struct bytes name = core->name_owned;
    expect_read(&rig, "as it is");
    core->name_owned = BYTES("");
    expect_refused(&rig, "no name");
    core->name_owned = BYTES("x");
    expect_read(&rig, "a short name");
    core->name_owned = name;
    core->segment_size = 0;
    expect_refused(&rig, "segments of no size");
    core->segment_size = 64 << 10;
    core->messages.message_number = IDENTITY_NUMBER_MAX;
    expect_read(&rig, "the last number of a message");
    core->messages.message_number++;
    expect_refused(&rig, "a number that no message id has");
    core_rig_deinit(&rig);
}

static void queues_have_ids_names_and_lists_of_their_own(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct core *core = rig.core;
    struct queue *first = make_queue(&rig, BYTES("a")), *second = make_queue(&rig, BYTES("b"));
    static const char letters[QUEUE_NAME_SIZE_MAX + 1] = "a name that ends in NULs";
    const struct bytes name = second->name_owned;
    expect_read(&rig, "as it is");
    core->queues.queue_id = second->id - 1;
    expect_refused(&rig, "an id that was not given out");
    core->queues.queue_id = second->id;
    second->name_owned = first->name_owned;
    expect_refused(&rig, "two queues of one name");
    second->name_owned = BYTES("");
    expect_refused(&rig, "no name");
    second->name_owned = bytes_make(letters, QUEUE_NAME_SIZE_MAX);
    expect_read(&rig, "the longest name");
    second->name_owned = bytes_make(letters, QUEUE_NAME_SIZE_MAX + 1);
    expect_refused(&rig, "a name that is too long");
    second->name_owned = name;
    core->message_lists.message_list_number--;
    expect_refused(&rig, "a message list that was not given out");
    core->message_lists.message_list_number++;
    first->tags_owned = BYTES("no tags");
    expect_refused(&rig, "tags that are none");
    first->tags_owned = (struct bytes){0};
    core_rig_deinit(&rig);
}

/* The record of a queue's tags is read under the id of another queue. */
static void tags_belong_to_one_queue_that_there_is(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue *tagged[] = {make_queue(&rig, BYTES("a")), make_queue(&rig, BYTES("b"))};
    for (unsigned i = 0; i < 2; i++) {
        struct buffer tags;
        buffer_init(&tags);
        buffer_append_sized(&tags, BYTES("key"));
        buffer_append_sized(&tags, i == 0 ? BYTES("one") : BYTES("other"));
        assert_int_equal(decide_tag_queue(core_rig_begin(&rig), tagged[i], buffer_bytes(&tags)), OK);
        core_rig_end(&rig);
        buffer_deinit(&tags);
    }
    expect_read(&rig, "as it is");
    struct buffer encoded, record;
    buffer_init(&encoded);
    buffer_init(&record);
    core_rig_encode(rig.core, &encoded);
    buffer_append_u32(&record, tagged[1]->id);
    buffer_append_sized(&record, tagged[1]->tags_owned);
    uint8_t *found = memmem(encoded.data_owned, encoded.size, record.data_owned, record.size);
    assert_non_null(found);
    const uint32_t ids[] = {tagged[1]->id, tagged[0]->id, tagged[1]->id + 1};
    for (unsigned i = 0; i < ARRAY_LENGTH(ids); i++) {
        buffer_truncate(&record, 0);
        buffer_append_u32(&record, ids[i]);
        memcpy(found, record.data_owned, record.size);
        struct core *core = core_create();
        assert_int_equal(core_bytes_decode(core, buffer_bytes(&encoded)), i == 0);
        core_destroy(core);
    }
    buffer_deinit(&record);
    buffer_deinit(&encoded);
    core_rig_deinit(&rig);
}

static void a_batch_has_a_number_and_an_id(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct core *core = rig.core;
    struct batch *first = make_batch(&rig, BYTES("a"), &(struct create_batch_command){0});
    struct batch *second = make_batch(&rig, BYTES("b"), &(struct create_batch_command){0});
    static const char letters[BATCH_ID_SIZE_MAX + 1] = "an id that ends in NULs";
    const struct bytes id = second->id_owned;
    expect_read(&rig, "as it is");
    first->number = second->number;
    expect_refused(&rig, "two batches of one number");
    first->number = 0;
    expect_refused(&rig, "a batch without a number");
    first->number = second->number - 1;
    core->batches.batch_number = second->number - 1;
    expect_refused(&rig, "a number that was not given out");
    core->batches.batch_number = second->number;
    second->id_owned = first->id_owned;
    expect_refused(&rig, "two batches of one id");
    second->id_owned = BYTES("");
    expect_refused(&rig, "no id");
    second->id_owned = bytes_make(letters, BATCH_ID_SIZE_MAX);
    expect_read(&rig, "the longest id");
    second->id_owned = bytes_make(letters, BATCH_ID_SIZE_MAX + 1);
    expect_refused(&rig, "an id that is too long");
    second->id_owned = id;
    second->is_deleted = true;
    expect_refused(&rig, "a batch that was deleted before it completed");
    second->is_deleted = false;
    second->state = 0;
    expect_refused(&rig, "no state");
    second->state = BATCH_COMPLETED + 1;
    expect_refused(&rig, "a state that there is not");
    second->state = BATCH_IS_SEALED;
    second->sealed_at_ms = core->now_ms;
    expect_refused(&rig, "a batch that should have completed");
    second->state = BATCH_OPEN;
    core_rig_deinit(&rig);
}

/* In a batch that is open, sealed or completed: fields that go together. */
static void the_fields_of_a_batch_agree(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct batch *batch = make_batch(&rig, BYTES("a"), &(struct create_batch_command){0});
    add_units(&rig, batch, 1);
    expect_read(&rig, "open");
    batch->status = BATCH_FAILED;
    expect_refused(&rig, "open, with a status");
    batch->status = BATCH_NO_STATUS;
    batch->completed_at_ms = 1;
    expect_refused(&rig, "open, with a time of completion");
    batch->completed_at_ms = 0;
    batch->fired = BATCH_EVENT_BIT(BATCH_EVENT_COMPLETE);
    expect_refused(&rig, "open, with completion told");
    batch->fired = BATCH_EVENT_BIT(BATCH_EVENT_SUCCESS);
    expect_refused(&rig, "open, with success told");
    batch->fired = BATCH_SUCCESS_WAS_LATE;
    expect_refused(&rig, "open, with a late success");
    batch->fired = BATCH_EVENT_BIT(BATCH_EVENT_FIRST_FAILURE);
    expect_read(&rig, "open, with a failure told");
    batch->fired = 0;
    batch->state = BATCH_IS_SEALED;
    expect_refused(&rig, "sealed, without a time");
    batch->sealed_at_ms = 1;
    expect_read(&rig, "sealed");
    batch->state = BATCH_OPEN;
    batch->sealed_at_ms = 0;
    complete(&rig, batch, BYTES("0"), UNIT_SUCCEEDED);
    expect_read(&rig, "completed");
    batch->status = BATCH_NO_STATUS;
    expect_refused(&rig, "completed, without a status");
    batch->status = BATCH_FAILED;
    expect_refused(&rig, "failed, with success told");
    const unsigned fired = batch->fired;
    batch->fired = BATCH_EVENT_BIT(BATCH_EVENT_COMPLETE);
    expect_refused(&rig, "failed, with all units succeeded and no late success");
    batch->status = BATCH_EXPIRED;
    expect_read(&rig, "expired");
    batch->status = BATCH_EXPIRED + 1;
    expect_refused(&rig, "a status that there is not");
    batch->status = BATCH_SUCCEEDED;
    batch->fired |= BATCH_SUCCESS_WAS_LATE;
    expect_refused(&rig, "a late success that was not told");
    batch->fired = fired | BATCH_SUCCESS_WAS_LATE;
    expect_read(&rig, "a late success");
    batch->fired = BATCH_EVENT_BIT(BATCH_EVENT_SUCCESS);
    expect_refused(&rig, "completed, with no completion told");
    batch->fired = fired;
    const uint64_t completed_at_ms = batch->completed_at_ms;
    batch->completed_at_ms = 0;
    expect_refused(&rig, "completed, without a time");
    batch->completed_at_ms = completed_at_ms;
    batch->is_deleted = true;
    expect_refused(&rig, "deleted, though nothing refers to it");
    batch->is_deleted = false;
    expect_read(&rig, "as it was");
    core_rig_deinit(&rig);
}

/* A batch sends its messages to queues that are there, and they are among its queues. */
static void the_targets_of_a_batch_exist(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue *queue = make_queue(&rig, BYTES("q"));
    struct batch *batch =
        make_batch(&rig, BYTES("a"), &(struct create_batch_command){.spec.targets[0].queue = queue->id});
    expect_read(&rig, "as it is");
    const struct queue_set queues = batch->queues;
    batch->queues = (struct queue_set){0};
    expect_refused(&rig, "the target is not among the queues of the batch");
    batch->queues = queues;
    const struct bytes spec = batch->spec_encoded_owned;
    struct batch_spec other = batch->spec;
    other.targets[0].queue = queue->id + 1;
    struct buffer encoded;
    buffer_init(&encoded);
    batch_spec_encode(&other, &encoded);
    batch->spec_encoded_owned = buffer_bytes(&encoded);
    expect_refused(&rig, "the target does not exist");
    batch->spec_encoded_owned = spec;
    buffer_deinit(&encoded);
    bool is_completed;
    decide_seal_batch(core_rig_begin(&rig), batch, &is_completed);
    assert_true(is_completed);
    assert_int_equal(decide_delete_queue(rig.core, queue), OK);
    core_rig_end(&rig);
    expect_read(&rig, "the target of a batch that has completed was deleted");
    core_rig_deinit(&rig);
}

static void a_child_is_a_unit_of_its_parent(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct batch *parent = make_batch(&rig, BYTES("a"), &(struct create_batch_command){0});
    add_units(&rig, parent, 1);
    struct batch *child = make_batch(&rig, BYTES("b"), &(struct create_batch_command){.parent_id = BYTES("a")});
    parent = core_batch(rig.core, child->parent);
    expect_read(&rig, "as it is");
    const uint32_t unit = child->parent_unit, slot = child->parent;
    child->parent_unit = 0;
    expect_refused(&rig, "a unit that is no child");
    child->parent_unit = parent->ledger.count;
    expect_refused(&rig, "a unit that there is not");
    child->parent_unit = unit;
    child->parent = core_find_batch_by_number(rig.core, child->number);
    expect_refused(&rig, "a batch that is its own parent");
    child->parent = slot;
    core_rig_deinit(&rig);
}

/* Of batches in batches there are no more than BATCH_DEPTH_MAX, one in another. */
static void batches_nest_as_deep_as_they_may(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    char id[2] = "A";
    struct bytes parent = BYTES("");
    char parent_id[2] = "";
    for (unsigned depth = 0; depth < BATCH_DEPTH_MAX; depth++) {
        id[0] = (char)('A' + depth);
        make_batch(&rig, bytes_make(id, 1), &(struct create_batch_command){.parent_id = parent});
        parent_id[0] = id[0];
        parent = bytes_make(parent_id, 1);
    }
    expect_read(&rig, "as deep as they may");
    const struct batch *batch;
    const struct create_batch_command deeper = {
        .id = BYTES("deeper"), .parent_id = parent, .spec = {.expires_after_s = 9, .retention_s = 9}};
    assert_int_equal(decide_create_batch(core_rig_begin(&rig), &deeper, &batch), ERROR_OVER_LIMIT);
    core_rig_end(&rig);
    core_rig_deinit(&rig);
}

static void a_message_has_a_number_a_time_and_what_it_names(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct core *core = rig.core;
    struct queue *queue = make_queue(&rig, BYTES("q"));
    send(&rig, queue, BYTES(""), BYTES(""));
    send(&rig, queue, BYTES(""), BYTES(""));
    struct message *first = core_message(core, core_find_message(core, 1));
    struct message *second = core_message(core, core_find_message(core, 2));
    const struct message saved = *second;
    expect_read(&rig, "as it is");
    second->number = 3;
    expect_refused(&rig, "a number that was not given out");
    second->number = first->number;
    expect_refused(&rig, "two messages of one number");
    first->number = 0;
    expect_refused(&rig, "no number");
    first->number = 2;
    second->number = 1;
    expect_refused(&rig, "younger ones first");
    first->number = 1;
    second->number = 2;
    second->sent_at_ms = core->now_ms + 1;
    expect_refused(&rig, "sent in the future");
    second->sent_at_ms = first->sent_at_ms - 1;
    expect_refused(&rig, "sent before the one in front of it");
    *second = saved;
    second->completes = BATCH_EVENT_COMPLETE;
    expect_refused(&rig, "the message of a batch that there is not");
    *second = saved;
    second->state = 0;
    expect_refused(&rig, "no state");
    second->state = MESSAGE_WAITING + 1;
    expect_refused(&rig, "a state that there is not");
    second->state = MESSAGE_WAITING;
    expect_refused(&rig, "it waits for nothing");
    second->state = MESSAGE_DELAYED;
    second->visible_at_ms = core->now_ms;
    expect_refused(&rig, "a delay that is over");
    second->visible_at_ms = core->now_ms + 1;
    expect_read(&rig, "a delay of a millisecond");
    *second = saved;
    core_rig_deinit(&rig);
}

static void a_message_in_flight_was_delivered(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct core *core = rig.core;
    struct queue *queue = make_queue(&rig, BYTES("q"));
    send(&rig, queue, BYTES(""), BYTES(""));
    receive(&rig, queue);
    struct message *message = core_message(core, core_find_message(core, 1));
    const struct message saved = *message;
    expect_read(&rig, "as it is");
    message->visible_at_ms = core->now_ms;
    expect_refused(&rig, "a lease that is over");
    message->visible_at_ms = core->now_ms + 1;
    expect_read(&rig, "a lease of a millisecond");
    *message = saved;
    message->delivery = core->messages.delivery_number + 1;
    expect_refused(&rig, "a delivery that was not given out");
    message->delivery = 0;
    expect_refused(&rig, "received, and never delivered");
    message->receive_count = 0;
    expect_refused(&rig, "in flight, and never delivered");
    message->delivery = saved.delivery;
    expect_refused(&rig, "delivered, and never received");
    *message = saved;
    message->state = MESSAGE_RETURNED;
    expect_read(&rig, "returned");
    *message = saved;
    core_rig_deinit(&rig);
}

static void a_unit_is_in_the_ledger_of_its_batch(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct core *core = rig.core;
    struct queue *queue = make_queue(&rig, BYTES("q"));
    make_batch(&rig, BYTES("exact"), &(struct create_batch_command){0});
    make_batch(&rig, BYTES("xor"), &(struct create_batch_command){.spec.tracking = BATCH_XOR});
    send(&rig, queue, BYTES("exact"), BYTES(""));
    send(&rig, queue, BYTES("xor"), BYTES(""));
    struct message *exact = core_message(core, core_find_message(core, 1));
    struct message * xor = core_message(core, core_find_message(core, 2));
    expect_read(&rig, "as it is");
    exact->unit = 1;
    expect_refused(&rig, "a unit behind the last");
    exact->completes = BATCH_EVENT_FIRST_FAILURE;
    expect_read(&rig, "the message of a batch, which is no unit of it");
    exact->completes = BATCH_EVENT_COUNT + 1;
    expect_refused(&rig, "an event that no batch has");
    exact->completes = 0;
    exact->unit = 0;
    xor->unit = 1;
    expect_read(&rig, "in a batch that tracks by xor, units have no numbers");
    core_rig_deinit(&rig);
}

static void what_orders_a_message_is_possible(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct core *core = rig.core;
    struct queue *queue = make_queue(&rig, BYTES("q"));
    struct message *message = send(&rig, queue, BYTES(""), BYTES("g"));
    receive(&rig, queue);
    struct message_extra *extra = core_extra_of(core, message);
    const struct message_extra saved = *extra;
    static const char reason[FAILURE_REASON_SIZE_MAX + 1] = "a reason that ends in NULs";
    expect_read(&rig, "as it is");
    extra->spared_count = message->receive_count;
    expect_read(&rig, "every receive was spared");
    extra->spared_count++;
    expect_refused(&rig, "more receives were spared than there were");
    *extra = saved;
    extra->counted_from_ms = core->now_ms;
    expect_read(&rig, "counted from now");
    extra->counted_from_ms++;
    expect_refused(&rig, "counted from the future");
    *extra = saved;
    extra->wait_count = 1;
    expect_refused(&rig, "in flight, while it waits");
    *extra = saved;
    extra->priority = PRIORITY_MAX + 1;
    expect_refused(&rig, "a priority that there is not");
    *extra = saved;
    extra->after_failure = AFTER_FAILURE_HOLD;
    expect_read(&rig, "held after a failure");
    extra->after_failure++;
    expect_refused(&rig, "a policy that there is not");
    *extra = saved;
    extra->reason_owned = bytes_make(reason, FAILURE_REASON_SIZE_MAX);
    expect_read(&rig, "the longest reason");
    extra->reason_owned.size++;
    expect_refused(&rig, "a reason that is too long");
    *extra = saved;
    extra->sequence = core->messages.message_number + 1;
    expect_refused(&rig, "a sequence number that was not given out");
    *extra = saved;
    core_rig_deinit(&rig);
}

/* What a cancelled batch holds is ended in portions: those that are left when the snapshot is written, too. */
static void a_cancelled_batch_ends_its_messages_after_a_restart(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue *queue = make_queue(&rig, BYTES("q"));
    struct batch *batch = make_batch(&rig, BYTES("a"), &(struct create_batch_command){0});
    send(&rig, queue, BYTES("a"), BYTES(""));
    send(&rig, queue, BYTES(""), BYTES(""));
    decide_cancel_batch(core_rig_begin(&rig), batch);
    core_rig_end(&rig);
    assert_int_equal(rig.core->messages.items.used, 2);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    struct core *decoded = core_create();
    assert_true(core_bytes_decode(decoded, buffer_bytes(&encoded)));
    core_destroy(rig.core);
    rig.core = decoded;
    (void)decide_due(core_rig_begin(&rig));
    core_rig_end(&rig);
    assert_int_equal(rig.core->messages.items.used, 1);
    assert_int_equal(core_find_message(rig.core, 1), 0);
    buffer_deinit(&encoded);
    core_rig_deinit(&rig);
}

static void a_token_is_known_after_a_restart_and_stands_there_once(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct batch *batch = make_batch(&rig, BYTES("a"), &(struct create_batch_command){.spec.tracking = BATCH_XOR});
    struct xor_command command = {.value = 1, .registered = 1, .token = BYTES("t")};
    bool is_zero, is_completed;
    assert_int_equal(decide_xor_units(core_rig_begin(&rig), batch, &command, &is_zero, &is_completed), OK);
    command.token = BYTES("u");
    assert_int_equal(decide_xor_units(rig.core, batch, &command, &is_zero, &is_completed), OK);
    core_rig_end(&rig);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    struct core *decoded = core_create();
    assert_true(core_bytes_decode(decoded, buffer_bytes(&encoded)));
    const struct batch *read = core_find_batch(decoded, BYTES("a"));
    assert_int_equal(read->token_count, 2);
    assert_int_equal(read->tokens_owned[1].check, batch->tokens_owned[1].check);
    assert_int_equal(batch_find_token(read, BYTES("t")), 0);
    assert_int_equal(batch_find_token(read, BYTES("u")), 1);
    core_destroy(decoded);
    const struct bytes token = batch->tokens_owned[1].token_owned;
    batch->tokens_owned[1].token_owned = batch->tokens_owned[0].token_owned;
    expect_refused(&rig, "a token twice");
    batch->tokens_owned[1].token_owned = token;
    buffer_deinit(&encoded);
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_namespace_has_a_name_segments_and_possible_numbers),
        cmocka_unit_test(queues_have_ids_names_and_lists_of_their_own),
        cmocka_unit_test(tags_belong_to_one_queue_that_there_is),
        cmocka_unit_test(a_batch_has_a_number_and_an_id),
        cmocka_unit_test(the_fields_of_a_batch_agree),
        cmocka_unit_test(the_targets_of_a_batch_exist),
        cmocka_unit_test(a_child_is_a_unit_of_its_parent),
        cmocka_unit_test(batches_nest_as_deep_as_they_may),
        cmocka_unit_test(a_message_has_a_number_a_time_and_what_it_names),
        cmocka_unit_test(a_message_in_flight_was_delivered),
        cmocka_unit_test(a_unit_is_in_the_ledger_of_its_batch),
        cmocka_unit_test(what_orders_a_message_is_possible),
        cmocka_unit_test(a_token_is_known_after_a_restart_and_stands_there_once),
        cmocka_unit_test(a_cancelled_batch_ends_its_messages_after_a_restart),
    };
    return cmocka_run_group_tests_name("core snapshot bounds", tests, NULL, NULL);
}
