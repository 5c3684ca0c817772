/* What a delivered message must be: body, attributes, ids, numbers. */
#include "judge.h"

#include "fail.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SequenceNumber: rising in its queue, and the same whenever it is said (O2). */
void expect_sequence(const struct reply_view *view, yyjson_val *object, int index)
{
    struct model *model = &view->oracle->model;
    struct model_message *message = &model->messages[index];
    if (!model->queues[message->queue].traits.is_fifo && message->said_sequence == 0)
        return;
    uint64_t said = strtoull(text_in(view, object, "SequenceNumber"), NULL, 10);
    if (message->said_sequence == 0)
        for (int i = 0; i < model->message_count; i++)
            if (model->messages[i].queue == message->queue && model->messages[i].said_sequence >= said)
                fail("SequenceNumber %" PRIu64 " of message %s is not above that of an earlier one", said, message->id);
    if (message->said_sequence != 0 && message->said_sequence != said)
        fail("SequenceNumber of message %s is %" PRIu64 "; it was %" PRIu64, message->id, said, message->said_sequence);
    message->said_sequence = said;
}

static const char *attribute_of(yyjson_val *message, const char *name)
{
    yyjson_val *attributes = yyjson_obj_get(message, "MessageAttributes");
    return yyjson_get_str(yyjson_obj_get(yyjson_obj_get(attributes, name), "StringValue"));
}

enum likeness likeness(const struct oracle *oracle, int index, yyjson_val *item)
{
    const struct model *model = &oracle->model;
    const struct model_message *message = &model->messages[index];
    const char *id = yyjson_get_str(yyjson_obj_get(item, "MessageId"));
    if (id == NULL)
        fail("a received message has no MessageId");
    if (message->completes == 0)
        return strcmp(message->id, id) == 0 ? LIKE_SURE : LIKE_NONE;
    const char *batch_name = attribute_of(item, "Tally.Batch.Completed"),
               *event = attribute_of(item, "Tally.Batch.Event");
    int name = model->batches[message->batch].name;
    if (batch_name == NULL || event == NULL || strcmp(reply_event_names[message->completes], event) != 0 ||
        name != atoi(batch_name + 1))
        return LIKE_NONE;
    bool is_known_batch = oracle->completion_names[message->batch] == name;
    const char *known = is_known_batch ? oracle->completion_ids[message->batch][message->completes - 1] : "";
    return known[0] == '\0' ? LIKE_PERHAPS : strcmp(known, id) == 0 ? LIKE_SURE : LIKE_NONE;
}

/* A completion message's id is a function of batch and event, whatever crashes lie between two deliveries (B16). */
void check_completion_id(struct oracle *oracle, int record, unsigned event, const char *id)
{
    int name = oracle->model.batches[record].name;
    if (oracle->completion_names[record] != name) {
        oracle->completion_names[record] = name;
        memset(oracle->completion_ids[record], 0, sizeof(oracle->completion_ids[record]));
    }
    char *known = oracle->completion_ids[record][event - 1];
    if (known[0] == '\0')
        snprintf(known, MODEL_ID_SIZE, "%s", id);
    if (strcmp(known, id) != 0)
        fail("the %s message of b%d has the MessageId %s; before it was %s", reply_event_names[event], name, id, known);
}

static void check_summary(const struct reply_view *view, const struct model_message *message, const char *body)
{
    yyjson_doc *doc = yyjson_read(body, strlen(body), 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    char name[16];
    snprintf(name, sizeof(name), "b%d", view->oracle->model.batches[message->batch].name);
    expect_text(view, root, "batch", name);
    expect_text(view, root, "status", reply_status_names[message->said_status]);
    /* Of several units that fail in one turn of the clock, nobody knows which was the first. */
    if (message->completes != EVENT_FAILURE_ || !message->is_of_tick) {
        expect_number(view, root, "total", message->said.total);
        expect_number(view, root, "succeeded", message->said.succeeded);
        expect_number(view, root, "failed", message->said.failed);
        expect_number(view, root, "cancelled", message->said.cancelled);
    }
    yyjson_doc_free(doc);
}

static void check_body(const struct reply_view *view, const struct model_message *message, const char *body)
{
    struct buffer expected;
    buffer_init(&expected);
    const struct model_batch *batch = message->batch == NONE ? NULL : &view->oracle->model.batches[message->batch];
    if (message->completes == 0)
        operation_write_body(message->tag, message->body_size, &expected);
    else if (batch->has_body[message->completes - 1])
        operation_write_target_body(batch->name, message->completes, &expected);
    else
        check_summary(view, message, body);
    if (expected.size > 0 && !bytes_equal(buffer_bytes(&expected), bytes_from_string(body)))
        fail("the body of message %s has changed: %.60s", message->id, body);
    buffer_deinit(&expected);
}

/* The fencing token grows with every delivery (R4); the reason is that of the newest failure. */
static void check_attempt(const struct reply_view *view, yyjson_val *item, const struct model_message *message)
{
    struct model *model = &view->oracle->model;
    const char *token = attribute_of(item, "Tally.FencingToken"), *reason = attribute_of(item, "Tally.FailureReason");
    char expected[32];
    if (token == NULL || strtoull(token, NULL, 10) <= model->token)
        fail("message %s: Tally.FencingToken is %s; it should be above %" PRIu64, message->id, token, model->token);
    model->token = strtoull(token, NULL, 10);
    snprintf(expected, sizeof(expected), "reason %d", message->reason);
    if ((message->reason == NONE) != (reason == NULL) || (reason != NULL && strcmp(reason, expected) != 0))
        fail("message %s: Tally.FailureReason is %s; it should be %s", message->id, reason,
             message->reason == NONE ? "absent" : expected);
}

void check_delivered(const struct reply_view *view, int index, yyjson_val *item)
{
    const struct model *model = &view->oracle->model;
    const struct model_message *message = &model->messages[index];
    yyjson_val *attributes = yyjson_obj_get(item, "Attributes");
    char expected[80];
    check_body(view, message, text_in(view, item, "Body"));
    snprintf(expected, sizeof(expected), "%" PRIu32, message->receive_count);
    expect_text(view, attributes, "ApproximateReceiveCount", expected);
    snprintf(expected, sizeof(expected), "%" PRIu64, message->sent_at);
    expect_text(view, attributes, "SentTimestamp", expected);
    if (message->group >= 0) {
        snprintf(expected, sizeof(expected), "g%d", message->group);
        expect_text(view, attributes, "MessageGroupId", expected);
    }
    if (message->group >= 0 && !message->is_moved && model->queues[message->queue].traits.is_fifo &&
        message->completes == 0)
        expect_sequence(view, attributes, index);
    check_attempt(view, item, message);
    if ((yyjson_obj_get(attributes, "DeadLetterQueueSourceArn") != NULL) != (message->origin != NONE))
        fail("message %s: DeadLetterQueueSourceArn is there and should not be, or the other way round", message->id);
    if (message->origin != NONE) {
        int origin = model->queues[message->origin].name;
        snprintf(expected, sizeof(expected), "arn:aws:sqs:sim:000000000000:q%d%s", origin,
                 operation_is_fifo(origin) ? ".fifo" : "");
        expect_text(view, attributes, "DeadLetterQueueSourceArn", expected);
    }
}

void take_handle(const struct reply_view *view, int index, const char *text)
{
    struct oracle *oracle = view->oracle;
    if (oracle->handle_count == HANDLES_MAX)
        fail("the simulator's table of handles is full");
    int handle = oracle->handle_count++;
    if (strlen(text) >= HANDLE_SIZE)
        fail("the receipt handle %s is too long", text);
    snprintf(oracle->handles[handle], HANDLE_SIZE, "%s", text);
    oracle->handle_of[handle] = (struct handle_of){oracle->model.messages[index].queue, index};
    oracle->model.messages[index].handle = handle;
    view->lesson->handles[view->lesson->handle_count++] = handle;
}
