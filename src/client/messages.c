/* Typed calls for messages: send, receive, delete, fail, change visibility, explain. */
#include "base/memory.h"
#include "client/client.h"
#include "client/outgoing.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Sending ----------------------------------------------------------------------------------------------------- */

enum tally_status tally_send_one(struct tally_client *client, const char *queue, const struct tally_outgoing *message,
                                 struct tally_sent *sent)
{
    struct json_body body;
    struct tally_reply reply;
    struct tally_sent result = {.is_sent = false};
    enum tally_status status;

    if (message->body == NULL)
        return client_refuse(client, "a message needs a body");
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    outgoing_add(&body, body.root, message);
    status = json_body_call(&body, client, "AmazonSQS.SendMessage", &reply);
    if (status != TALLY_OK)
        return status;
    outgoing_read_sent(json_root(&reply), &result);
    tally_reply_deinit(&reply);
    if (result.id[0] == '\0' && !result.is_duplicate)
        return client_garbled(client, "SendMessage");
    *sent = result;
    return TALLY_OK;
}

enum tally_status tally_send(struct tally_client *client, const char *queue, const struct tally_outgoing *message,
                             char id[TALLY_MESSAGE_ID_SIZE])
{
    struct tally_sent sent;
    enum tally_status status = tally_send_one(client, queue, message, &sent);
    if (status == TALLY_OK && id != NULL)
        memcpy(id, sent.id, TALLY_MESSAGE_ID_SIZE);
    return status;
}

/* The message that an entry of the answer speaks of: its Id is the index. NULL if that is out of range. */
static struct tally_sent *find_sent(yyjson_val *entry, struct tally_sent *sent, size_t count)
{
    uint64_t index = json_number(entry, "Id");
    return index < count ? &sent[index] : NULL;
}

static bool read_sent(yyjson_val *root, struct tally_sent *sent, size_t count)
{
    size_t i, max, seen = 0;
    yyjson_val *entry;

    yyjson_arr_foreach(yyjson_obj_get(root, "Successful"), i, max, entry)
    {
        struct tally_sent *one = find_sent(entry, sent, count);
        if (one == NULL)
            return false;
        outgoing_read_sent(entry, one);
        seen++;
    }
    yyjson_arr_foreach(yyjson_obj_get(root, "Failed"), i, max, entry)
    {
        struct tally_sent *one = find_sent(entry, sent, count);
        if (one == NULL)
            return false;
        json_copy(entry, "Code", one->code, sizeof one->code);
        json_copy(entry, "Message", one->message, sizeof one->message);
        seen++;
    }
    return seen == count;
}

enum tally_status tally_send_batch(struct tally_client *client, const char *queue,
                                   const struct tally_outgoing *messages, size_t count, struct tally_sent *sent)
{
    struct tally_sent results[TALLY_SEND_BATCH_MAX];
    struct json_body body;
    struct tally_reply reply;
    enum tally_status status;
    yyjson_mut_val *entries;

    if (count < 1 || count > TALLY_SEND_BATCH_MAX)
        return client_refuse(client, "one request takes 1 to 10 messages");
    for (size_t i = 0; i < count; i++)
        if (messages[i].body == NULL)
            return client_refuse(client, "a message needs a body");
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    entries = json_add_array(&body, body.root, "Entries");
    for (size_t i = 0; i < count; i++) {
        yyjson_mut_val *entry = json_append_object(&body, entries);
        char id[8];
        snprintf(id, sizeof id, "%zu", i);
        yyjson_mut_obj_add_strcpy(body.doc_owned, entry, "Id", id);
        outgoing_add(&body, entry, &messages[i]);
    }
    status = json_body_call(&body, client, "AmazonSQS.SendMessageBatch", &reply);
    if (status != TALLY_OK)
        return status;
    memset(results, 0, sizeof results);
    if (read_sent(json_root(&reply), results, count))
        memcpy(sent, results, count * sizeof *sent);
    else
        status = client_garbled(client, "SendMessageBatch");
    tally_reply_deinit(&reply);
    return status;
}

/* ---- Receiving --------------------------------------------------------------------------------------------------- */

#define FENCING_TOKEN "Tally.FencingToken"
#define FAILURE_REASON "Tally.FailureReason"

/* All but what the receive adds, which are fields of the message: so they can be sent on as they came. How many there
 * are. */
static size_t read_attributes(yyjson_val *map, struct tally_attribute *attributes)
{
    size_t i, max, count = 0;
    yyjson_val *name, *value;
    yyjson_obj_foreach(map, i, max, name, value)
    {
        const char *text = json_text(value, "StringValue");
        if (yyjson_equals_str(name, FENCING_TOKEN) || yyjson_equals_str(name, FAILURE_REASON))
            continue;
        attributes[count++] = (struct tally_attribute){
            .name = yyjson_get_str(name),
            .type = json_text(value, "DataType"),
            .value = text == NULL ? json_text(value, "BinaryValue") : text,
        };
    }
    return count;
}

static bool read_message(yyjson_val *value, struct tally_message *message, struct tally_attribute **attributes)
{
    yyjson_val *system = yyjson_obj_get(value, "Attributes");
    yyjson_val *map = yyjson_obj_get(value, "MessageAttributes");
    yyjson_val *body = yyjson_obj_get(value, "Body");

    *message = (struct tally_message){
        .id = json_text(value, "MessageId"),
        .body = yyjson_get_str(body),
        .body_size = yyjson_get_len(body),
        .receipt_handle = json_text(value, "ReceiptHandle"),
        .attributes = *attributes,
        .attribute_count = read_attributes(map, *attributes),
        .receive_count = json_number(system, "ApproximateReceiveCount"),
        .sent_at_ms = json_number(system, "SentTimestamp"),
        .fencing_token = json_number(yyjson_obj_get(map, FENCING_TOKEN), "StringValue"),
        .failure_reason = json_text(yyjson_obj_get(map, FAILURE_REASON), "StringValue"),
        .group_id = json_text(system, "MessageGroupId"),
        .sequence_number = json_text(system, "SequenceNumber"),
        .deduplication_id = json_text(system, "MessageDeduplicationId"),
        .dead_letter_source = json_text(system, "DeadLetterQueueSourceArn"),
    };
    *attributes += message->attribute_count;
    return message->id != NULL && message->body != NULL && message->receipt_handle != NULL;
}

/* Builds the messages over the reply, in one allocation: the messages, then all their attributes. */
static bool read_messages(struct tally_reply *reply, struct tally_messages *messages)
{
    yyjson_val *list = yyjson_obj_get(json_root(reply), "Messages");
    size_t count = yyjson_arr_size(list), attribute_count = 0;
    struct tally_messages made = {.count = count};
    struct tally_attribute *attributes;
    size_t i, max;
    yyjson_val *value;
    bool is_whole = true;

    yyjson_arr_foreach(list, i, max, value)
    {
        attribute_count += yyjson_obj_size(yyjson_obj_get(value, "MessageAttributes"));
    }
    if (count > 0) {
        size_t size = count * sizeof *made.items_owned + attribute_count * sizeof *attributes;
        made.items_owned = memory_allocate_zeroed(size);
        attributes = (struct tally_attribute *)(made.items_owned + count);
        yyjson_arr_foreach(list, i, max, value)
        {
            is_whole = read_message(value, &made.items_owned[i], &attributes) && is_whole;
        }
    }
    made.reply_owned = *reply;
    if (is_whole)
        *messages = made;
    else
        tally_messages_deinit(&made);
    return is_whole;
}

/* Other servers than Tally may give their answers no id. But each says in JSON that it has no message. */
static bool is_received(yyjson_val *root)
{
    yyjson_val *list = yyjson_obj_get(root, "Messages");
    return yyjson_is_obj(root) && (yyjson_is_arr(list) || yyjson_is_null(list) || yyjson_obj_size(root) == 0);
}

enum tally_status tally_receive(struct tally_client *client, const char *queue,
                                const struct tally_receive_options *options, struct tally_messages *messages)
{
    static const struct tally_receive_options none;
    const struct tally_receive_options *given = options == NULL ? &none : options;
    struct json_body body;
    struct tally_reply reply;
    enum tally_status status;
    yyjson_mut_val *names;

    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    if (given->max > 0)
        json_add_number(&body, body.root, "MaxNumberOfMessages", given->max);
    if (given->has_wait)
        json_add_number(&body, body.root, "WaitTimeSeconds", given->wait_s);
    if (given->has_visibility)
        json_add_number(&body, body.root, "VisibilityTimeout", given->visibility_s);
    json_add_text(&body, body.root, "ReceiveRequestAttemptId", given->attempt_id);
    yyjson_mut_arr_add_str(body.doc_owned, json_add_array(&body, body.root, "MessageSystemAttributeNames"), "All");
    /* Amazon SQS takes a filter that finds nothing here, but no system attribute that it does not know. */
    names = json_add_array(&body, body.root, "MessageAttributeNames");
    yyjson_mut_arr_add_str(body.doc_owned, names, "All");
    yyjson_mut_arr_add_str(body.doc_owned, names, "Tally.*");
    status = json_body_call(&body, client, "AmazonSQS.ReceiveMessage", &reply);
    if (status != TALLY_OK)
        return status;
    if (!is_received(json_root(&reply))) {
        const struct bytes text = bytes_make(reply.body_owned, reply.body_size);
        status = client->numbers_answers
                     ? client_garbled(client, "ReceiveMessage")
                     : client_fail_stranger(client, "AmazonSQS.ReceiveMessage", reply.http_status, text);
        tally_reply_deinit(&reply);
        return status;
    }
    return read_messages(&reply, messages) ? TALLY_OK : client_garbled(client, "ReceiveMessage");
}

void tally_messages_deinit(struct tally_messages *messages)
{
    free(messages->items_owned);
    tally_reply_deinit(&messages->reply_owned);
    *messages = (struct tally_messages){.count = 0};
}

const char *tally_message_attribute(const struct tally_message *message, const char *name)
{
    for (size_t i = 0; i < message->attribute_count; i++)
        if (strcmp(message->attributes[i].name, name) == 0)
            return message->attributes[i].value;
    return NULL;
}

/* ---- Ending and extending ---------------------------------------------------------------------------------------- */

enum tally_status tally_delete(struct tally_client *client, const char *queue, const char *receipt_handle)
{
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    json_add_text(&body, body.root, "ReceiptHandle", receipt_handle);
    return json_body_call(&body, client, "AmazonSQS.DeleteMessage", NULL);
}

enum tally_status tally_change_visibility(struct tally_client *client, const char *queue, const char *receipt_handle,
                                          unsigned visibility_s)
{
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    json_add_text(&body, body.root, "ReceiptHandle", receipt_handle);
    json_add_number(&body, body.root, "VisibilityTimeout", visibility_s);
    return json_body_call(&body, client, "AmazonSQS.ChangeMessageVisibility", NULL);
}

static void read_failed(yyjson_val *answer, struct tally_failed *failed)
{
    *failed = (struct tally_failed){
        .attempt = json_number(answer, "Attempt"),
        .attempts_max = json_number(answer, "MaxAttempts"),
        .retry_after_s = json_real(answer, "RetryAfterSeconds"),
    };
    json_copy(answer, "Outcome", failed->outcome, sizeof failed->outcome);
    json_copy(answer, "QueueName", failed->queue, sizeof failed->queue);
}

enum tally_status tally_fail_attempt(struct tally_client *client, const char *queue, const char *receipt_handle,
                                     const struct tally_failure *failure, struct tally_failed *failed)
{
    struct json_body body;
    struct tally_reply reply;
    enum tally_status status;

    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    json_add_text(&body, body.root, "ReceiptHandle", receipt_handle);
    json_add_text(&body, body.root, "Reason", failure->reason);
    if (failure->is_final)
        yyjson_mut_obj_add_bool(body.doc_owned, body.root, "Final", true);
    if (failure->has_retry_after)
        json_add_number(&body, body.root, "RetryAfterSeconds", failure->retry_after_s);
    if (failure->attempts_max > 0)
        json_add_number(&body, body.root, "MaxAttempts", failure->attempts_max);
    json_add_text(&body, body.root, "DeadLetterQueueUrl", failure->dead_letter_queue);
    json_add_object(&body, body.root, "Backoff"); /* where the queue has none: one that fails at once must not spin */
    status = json_body_call(&body, client, "Tally.FailMessage", &reply);
    if (status != TALLY_OK)
        return status;
    if (failed != NULL)
        read_failed(json_root(&reply), failed);
    tally_reply_deinit(&reply);
    return TALLY_OK;
}

enum tally_status tally_fail(struct tally_client *client, const char *queue, const char *receipt_handle,
                             const char *reason, bool is_final)
{
    const struct tally_failure failure = {.reason = reason, .is_final = is_final};
    return tally_fail_attempt(client, queue, receipt_handle, &failure, NULL);
}
