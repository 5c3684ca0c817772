#include "operation.h"

#include <inttypes.h>
#include <stdio.h>

const char *const operation_batch_states[3] = {"open", "sealed", "completed"};
const char *const operation_unit_states[4] = {"outstanding", "succeeded", "failed", "cancelled"};

const char *operation_target(const struct operation *operation)
{
    switch (operation->kind) {
    case OPERATION_CREATE_QUEUE:
        return "AmazonSQS.CreateQueue";
    case OPERATION_SET_QUEUE:
        return "AmazonSQS.SetQueueAttributes";
    case OPERATION_DELETE_QUEUE:
        return "AmazonSQS.DeleteQueue";
    case OPERATION_PURGE_QUEUE:
        return "AmazonSQS.PurgeQueue";
    case OPERATION_COUNT_QUEUE:
        return "AmazonSQS.GetQueueAttributes";
    case OPERATION_TAG_QUEUE:
        return "AmazonSQS.TagQueue";
    case OPERATION_UNTAG_QUEUE:
        return "AmazonSQS.UntagQueue";
    case OPERATION_LIST_TAGS:
        return "AmazonSQS.ListQueueTags";
    case OPERATION_ADD_PERMISSION:
        return "AmazonSQS.AddPermission";
    case OPERATION_REMOVE_PERMISSION:
        return "AmazonSQS.RemovePermission";
    case OPERATION_SEND:
        return operation->is_many ? "AmazonSQS.SendMessageBatch" : "AmazonSQS.SendMessage";
    case OPERATION_RECEIVE:
        return "AmazonSQS.ReceiveMessage";
    case OPERATION_DELETE:
        return operation->is_many ? "AmazonSQS.DeleteMessageBatch" : "AmazonSQS.DeleteMessage";
    case OPERATION_CHANGE_VISIBILITY:
        return operation->is_many ? "AmazonSQS.ChangeMessageVisibilityBatch" : "AmazonSQS.ChangeMessageVisibility";
    case OPERATION_FAIL:
        return "Tally.FailMessage";
    case OPERATION_RELEASE_GROUP:
        return "Tally.ReleaseGroup";
    case OPERATION_PAUSE:
        if (operation->group == NONE)
            return operation->is_paused ? "Tally.PauseQueue" : "Tally.ResumeQueue";
        return operation->is_paused ? "Tally.PauseGroup" : "Tally.ResumeGroup";
    case OPERATION_COMMIT:
        return "Tally.Commit";
    case OPERATION_OPEN_PUBLISHER:
        return "Tally.OpenPublisher";
    case OPERATION_PUBLISH:
        return "Tally.Publish";
    case OPERATION_EXPLAIN:
        return "Tally.ExplainMessage";
    case OPERATION_LIST_GROUPS:
        return "Tally.ListGroups";
    case OPERATION_PUT_TYPE_ORDER:
        return "Tally.PutTypeOrder";
    case OPERATION_DELETE_TYPE_ORDER:
        return "Tally.DeleteTypeOrder";
    case OPERATION_START_MOVE:
        return "AmazonSQS.StartMessageMoveTask";
    case OPERATION_DELETE_SOME:
        return "Tally.DeleteMessages";
    case OPERATION_REPLACE:
        return "Tally.ReplaceMessage";
    case OPERATION_CANCEL_MOVE:
        return "AmazonSQS.CancelMessageMoveTask";
    case OPERATION_LIST_MOVES:
        return "AmazonSQS.ListMessageMoveTasks";
    case OPERATION_CREATE_BATCH:
        return "Tally.CreateBatch";
    case OPERATION_ADD_UNITS:
        return "Tally.AddUnits";
    case OPERATION_COMPLETE_UNITS:
        return "Tally.CompleteUnits";
    case OPERATION_XOR_UNITS:
        return "Tally.XorUnits";
    case OPERATION_SEAL_BATCH:
        return "Tally.SealBatch";
    case OPERATION_CANCEL_BATCH:
        return "Tally.CancelBatch";
    case OPERATION_DESCRIBE_BATCH:
        return "Tally.DescribeBatch";
    case OPERATION_LIST_UNITS:
        return "Tally.ListUnits";
    case OPERATION_LIST_BATCHES:
        return "Tally.ListBatches";
    case OPERATION_DELETE_BATCH:
    case OPERATION_KIND_COUNT:
        break;
    }
    return "Tally.DeleteBatch";
}

void operation_write_body(uint32_t tag, uint32_t size, struct buffer *out)
{
    size_t start = out->size;
    buffer_append_format(out, "m%" PRIu32 ":", tag);
    while (out->size - start < size)
        buffer_append_u8(out, (uint8_t)('a' + (tag + out->size - start) % 26));
}

void operation_write_target_body(int batch, unsigned event, struct buffer *out)
{
    buffer_append_format(out, "event %u of b%d", event, batch);
}

void operation_write_key(int key, struct buffer *out)
{
    buffer_append_format(out, key < 1000 ? "%d" : "k%d", key);
}

bool operation_is_fifo(int queue)
{
    return queue >= FIRST_FIFO_QUEUE && queue <= LAST_FIFO_QUEUE;
}

void operation_write_queue(int queue, struct buffer *out)
{
    buffer_append_format(out, operation_is_fifo(queue) ? "q%d.fifo" : "q%d", queue);
}

static void write_queue_url(int queue, struct buffer *out)
{
    buffer_append_format(out, "\"QueueUrl\":\"http://sim/000000000000/");
    operation_write_queue(queue, out);
    buffer_append_format(out, "\"");
}

static void write_backoff(const struct queue_traits *traits, struct buffer *out)
{
    if (traits->has_backoff)
        buffer_append_format(out,
                             ",\"Tally.Backoff\":\"{\\\"min\\\":%d,\\\"max\\\":%d,\\\"factor\\\":%d,"
                             "\\\"jitter\\\":0.%02d}\"",
                             traits->backoff_min_s, traits->backoff_max_s, traits->backoff_factor,
                             traits->backoff_jitter);
    else
        buffer_append_format(out, ",\"Tally.Backoff\":\"\"");
}

/* Those that SetQueueAttributes may change. */
static void write_changeable_traits(const struct queue_traits *traits, struct buffer *out)
{
    static const char *const policies[] = {"skip", "hold", "cancel-rest"};
    if (traits->is_fifo)
        buffer_append_format(out, ",\"Tally.StrictOrder\":\"%s\",\"Tally.OnGroupFailure\":\"%s\"",
                             traits->is_strict ? "true" : "false", policies[traits->on_failure]);
    else
        buffer_append_format(out, ",\"Tally.GroupConcurrency\":\"%d\",\"Tally.StaleReceipts\":\"%s\"",
                             traits->concurrency, traits->refuses_stale ? "refuse" : "accept");
    if (traits->window_s != NONE)
        buffer_append_format(out, ",\"Tally.DeduplicationWindow\":\"%d\"",
                             traits->window_s == WINDOW_EVER ? -1 : traits->window_s);
    write_backoff(traits, out);
}

static void write_rates(const struct queue_traits *traits, struct buffer *out)
{
    if (traits->queue_rate_ms == 0 && traits->group_rate_ms == 0)
        return;
    buffer_append_format(out, ",\"Tally.RateLimit\":\"{");
    if (traits->queue_rate_ms > 0)
        buffer_append_format(out, "\\\"queue\\\":{\\\"rate\\\":%g,\\\"burst\\\":%d}%s", 1000.0 / traits->queue_rate_ms,
                             traits->queue_burst, traits->group_rate_ms > 0 ? "," : "");
    if (traits->group_rate_ms > 0)
        buffer_append_format(out, "\\\"group\\\":{\\\"rate\\\":%g,\\\"burst\\\":%d}", 1000.0 / traits->group_rate_ms,
                             traits->group_burst);
    buffer_append_format(out, "}\"");
}

static void write_traits(const struct queue_traits *traits, struct buffer *out)
{
    if (traits->is_fifo)
        buffer_append_format(out,
                             ",\"FifoQueue\":\"true\",\"ContentBasedDeduplication\":\"%s\","
                             "\"DeduplicationScope\":\"%s\"",
                             traits->is_content_based ? "true" : "false",
                             traits->is_scope_group ? "messageGroup" : "queue");
    if (traits->is_at_most_once)
        buffer_append_format(out, ",\"Tally.DeliveryMode\":\"at-most-once\"");
    write_changeable_traits(traits, out);
    write_rates(traits, out);
}

static void write_attributes(const struct queue_numbers *numbers, const struct queue_traits *traits, bool is_new,
                             struct buffer *out)
{
    buffer_append_format(out,
                         "\"Attributes\":{\"DelaySeconds\":\"%d\",\"VisibilityTimeout\":\"%d\","
                         "\"MessageRetentionPeriod\":\"%d\"",
                         numbers->delay_s, numbers->visibility_s, numbers->retention_s);
    if (numbers->dead_letters != NONE)
        buffer_append_format(
            out,
            ",\"RedrivePolicy\":\"{\\\"deadLetterTargetArn\\\":\\\"arn:aws:sqs:sim:000000000000:q%d%s\\\","
            "\\\"maxReceiveCount\\\":%d}\"",
            numbers->dead_letters, operation_is_fifo(numbers->dead_letters) ? ".fifo" : "", numbers->receive_max);
    if (traits != NULL && is_new)
        write_traits(traits, out);
    else if (traits != NULL)
        write_changeable_traits(traits, out);
    buffer_append_format(out, "}");
}

/* *before: what stands before the next attribute. */
static void write_message_attribute(const char **before, const char *name, const char *prefix, int value,
                                    struct buffer *out)
{
    buffer_append_format(out, "%s\"%s\":{\"DataType\":\"String\",\"StringValue\":\"%s%d\"}", *before, name, prefix,
                         value);
    *before = ",";
}

static void write_after(const struct entry *entry, const char **before, struct buffer *out)
{
    static const char *const policies[] = {"cancel", "run", "hold"};
    buffer_append_format(out, "%s\"Tally.After\":{\"DataType\":\"String\",\"StringValue\":\"", *before);
    for (unsigned i = 0; i < entry->after_count; i++) {
        const struct after *after = &entry->after[i];
        buffer_append_format(out, "%s", i > 0 ? "," : "");
        if (after->kind == AFTER_MESSAGE)
            buffer_append_format(out, "message:%s", after->id);
        else if (after->kind == AFTER_BATCH)
            buffer_append_format(out, "batch:b%d", after->name);
        else
            buffer_append_format(out, "dedup:q%d%s/d%d", after->queue, operation_is_fifo(after->queue) ? ".fifo" : "",
                                 after->name);
    }
    buffer_append_format(out, "\"},\"Tally.AfterFailure\":{\"DataType\":\"String\",\"StringValue\":\"%s\"}",
                         policies[entry->after_failure]);
    *before = ",";
}

static void write_send(const struct entry *entry, struct buffer *out)
{
    buffer_append_format(out, "\"MessageBody\":\"");
    operation_write_body(entry->tag, entry->size, out);
    buffer_append_format(out, "\"");
    if (entry->delay_s != NONE)
        buffer_append_format(out, ",\"DelaySeconds\":%d", entry->delay_s);
    if (entry->group != NONE)
        buffer_append_format(out, ",\"MessageGroupId\":\"g%d\"", entry->group);
    if (entry->dedup != NONE)
        buffer_append_format(out, ",\"MessageDeduplicationId\":\"d%d\"", entry->dedup);
    const char *before = ",\"MessageAttributes\":{";
    if (entry->batch != NONE)
        write_message_attribute(&before, "Tally.Batch", "b", entry->batch, out);
    if (entry->priority != NONE)
        write_message_attribute(&before, "Tally.Priority", "", entry->priority, out);
    if (entry->producer != NONE) {
        write_message_attribute(&before, "Tally.Producer", "p", entry->producer, out);
        write_message_attribute(&before, "Tally.Sequence", "", entry->sequence, out);
    }
    if (entry->type != NONE)
        write_message_attribute(&before, "Tally.Type", "t", entry->type, out);
    if (entry->after_count > 0)
        write_after(entry, &before, out);
    if (before[1] == '\0')
        buffer_append_format(out, "}");
}

static void write_entry(const struct operation *operation, const struct entry *entry, char (*handles)[HANDLE_SIZE],
                        struct buffer *out)
{
    if (operation->kind == OPERATION_SEND) {
        write_send(entry, out);
        return;
    }
    buffer_append_format(out, "\"ReceiptHandle\":\"%s\"", handles[entry->handle]);
    if (operation->kind == OPERATION_CHANGE_VISIBILITY)
        buffer_append_format(out, ",\"VisibilityTimeout\":%d", entry->timeout_s);
}

static void write_entries(const struct operation *operation, char (*handles)[HANDLE_SIZE], struct buffer *out)
{
    write_queue_url(operation->queue, out);
    if (!operation->is_many) {
        buffer_append_format(out, ",");
        write_entry(operation, &operation->entries[0], handles, out);
        return;
    }
    buffer_append_format(out, ",\"Entries\":[");
    for (unsigned i = 0; i < operation->count; i++) {
        buffer_append_format(out, "%s{\"Id\":\"e%u\",", i > 0 ? "," : "", i);
        write_entry(operation, &operation->entries[i], handles, out);
        buffer_append_format(out, "}");
    }
    buffer_append_format(out, "]");
}

static void write_receive(const struct operation *operation, struct buffer *out)
{
    write_queue_url(operation->queue, out);
    buffer_append_format(out,
                         ",\"MaxNumberOfMessages\":%u,\"WaitTimeSeconds\":%d,\"MessageAttributeNames\":[\"All\","
                         "\"Tally.*\"],"
                         "\"MessageSystemAttributeNames\":[\"All\"]",
                         operation->receive_max, operation->wait_s);
    if (operation->timeout_s != NONE)
        buffer_append_format(out, ",\"VisibilityTimeout\":%d", operation->timeout_s);
    if (operation->attempt != NONE)
        buffer_append_format(out, ",\"ReceiveRequestAttemptId\":\"a%d\"", operation->attempt);
}

static void write_create_batch(const struct operation *operation, struct buffer *out)
{
    static const char *const members[TARGETS] = {"OnComplete", "OnSuccess", "OnFirstFailure"};
    buffer_append_format(out, ",\"Tracking\":\"%s\",\"ExpiresAfterSeconds\":%d,\"RetentionSeconds\":%d",
                         operation->is_xor ? "xor" : "exact", operation->expires_s, operation->retention_s);
    if (operation->total != NONE)
        buffer_append_format(out, ",\"Total\":%d", operation->total);
    if (operation->parent != NONE)
        buffer_append_format(out, ",\"Parent\":\"b%d\"", operation->parent);
    for (unsigned i = 0; i < TARGETS; i++) {
        if (operation->targets[i] == NONE)
            continue;
        buffer_append_format(out, ",\"%s\":{", members[i]);
        write_queue_url(operation->targets[i], out);
        if (operation->target_groups[i] != NONE)
            buffer_append_format(out, ",\"MessageGroupId\":\"g%d\"", operation->target_groups[i]);
        if (operation->has_body[i]) {
            buffer_append_format(out, ",\"MessageBody\":\"");
            operation_write_target_body(operation->batch, i + 1, out);
            buffer_append_format(out, "\"");
        }
        buffer_append_format(out, "}");
    }
}

static void write_units(const struct operation *operation, struct buffer *out)
{
    if (operation->kind == OPERATION_ADD_UNITS && operation->counted != NONE) {
        buffer_append_format(out, ",\"Count\":%d", operation->counted);
        return;
    }
    buffer_append_format(out, ",\"Units\":[");
    for (unsigned i = 0; i < operation->count; i++) {
        bool is_report = operation->kind == OPERATION_COMPLETE_UNITS;
        buffer_append_format(out, "%s%s\"", i > 0 ? "," : "", is_report ? "{\"Unit\":" : "");
        operation_write_key(operation->keys[i], out);
        buffer_append_format(out, "\"");
        if (!is_report)
            continue;
        buffer_append_format(out, ",\"Status\":\"%s\"", operation->is_failed[i] ? "failed" : "succeeded");
        if (operation->detail != NONE)
            buffer_append_format(out, ",\"Detail\":\"detail %d\"", operation->detail);
        buffer_append_format(out, "}");
    }
    buffer_append_format(out, "]");
}

static void write_of_batch(const struct operation *operation, struct buffer *out)
{
    buffer_append_format(out, "\"BatchId\":\"b%d\"", operation->batch);
    if (operation->kind == OPERATION_LIST_UNITS && operation->only != NONE)
        buffer_append_format(out, ",\"State\":\"%s\"", operation_unit_states[operation->only]);
    if (operation->kind == OPERATION_CREATE_BATCH)
        write_create_batch(operation, out);
    if (operation->kind == OPERATION_ADD_UNITS || operation->kind == OPERATION_COMPLETE_UNITS)
        write_units(operation, out);
    if (operation->kind == OPERATION_XOR_UNITS)
        buffer_append_format(
            out, ",\"Value\":\"%016" PRIx64 "\",\"Registered\":%d,\"Finished\":%d,\"RequestToken\":\"t%" PRIu32 "\"",
            operation->value, operation->registered, operation->finished, operation->token);
}

static void write_group(const struct operation *operation, struct buffer *out)
{
    static const char *const actions[] = {"retry", "skip", "cancel-rest"};
    write_queue_url(operation->queue, out);
    if (operation->group != NONE)
        buffer_append_format(out, ",\"MessageGroupId\":\"g%d\"", operation->group);
    if (operation->kind == OPERATION_RELEASE_GROUP)
        buffer_append_format(out, ",\"Action\":\"%s\"", actions[operation->action]);
}

static void write_handles(const char *name, const struct entry *entries, unsigned count, char (*handles)[HANDLE_SIZE],
                          struct buffer *out)
{
    buffer_append_format(out, "],\"%s\":[", name);
    for (unsigned i = 0; i < count; i++) {
        buffer_append_format(out, "%s{", i > 0 ? "," : "");
        write_queue_url(entries[i].queue, out);
        buffer_append_format(out, ",\"ReceiptHandle\":\"%s\"}", handles[entries[i].handle]);
    }
}

/* What a Commit makes and adds. */
static void write_growth(const struct operation *operation, struct buffer *out)
{
    if (operation->has_child) {
        buffer_append_format(out, ",\"CreateBatches\":[{\"BatchId\":\"b%d\"", operation->batch);
        write_create_batch(operation, out);
        buffer_append_format(out, "}]");
    }
    if (operation->added_batch == NONE)
        return;
    buffer_append_format(out, ",\"AddUnits\":[{\"BatchId\":\"b%d\",\"Units\":[", operation->added_batch);
    for (unsigned i = 0; i < operation->added_count; i++) {
        buffer_append_format(out, "%s\"", i > 0 ? "," : "");
        operation_write_key(operation->added_keys[i], out);
        buffer_append_format(out, "\"");
    }
    buffer_append_format(out, "]}]");
}

static void write_commit(const struct operation *operation, char (*handles)[HANDLE_SIZE], struct buffer *out)
{
    buffer_append_format(out, "\"Sends\":[");
    for (unsigned i = 0; i < operation->count; i++) {
        buffer_append_format(out, "%s{", i > 0 ? "," : "");
        write_queue_url(operation->entries[i].queue, out);
        buffer_append_format(out, ",");
        write_send(&operation->entries[i], out);
        buffer_append_format(out, "}");
    }
    const struct entry *deletes = &operation->entries[operation->count];
    write_handles("Deletes", deletes, operation->delete_count, handles, out);
    write_handles("Holds", deletes + operation->delete_count, operation->hold_count, handles, out);
    buffer_append_format(out, "],\"Units\":[");
    for (unsigned i = 0; i < operation->unit_count; i++) {
        buffer_append_format(out, "%s{\"BatchId\":\"b%d\",\"Unit\":\"", i > 0 ? "," : "", operation->unit_batches[i]);
        operation_write_key(operation->keys[i], out);
        buffer_append_format(out, "\",\"Status\":\"%s\"}", operation->is_failed[i] ? "failed" : "succeeded");
    }
    buffer_append_format(out, "]");
    write_growth(operation, out);
}

void operation_write_uid(int uid, char text[ROW_UUID_SIZE])
{
    snprintf(text, ROW_UUID_SIZE, "00000000-0000-4000-8000-%012d", uid);
}

void operation_write_owner(int owner, char text[ROW_UUID_SIZE])
{
    snprintf(text, ROW_UUID_SIZE, "aaaaaaaa-0000-4000-8000-%012d", owner);
}

static void write_claim(const struct operation *operation, struct buffer *out)
{
    char owner[ROW_UUID_SIZE];
    operation_write_owner(operation->owner, owner);
    buffer_append_format(out, "\"Publisher\":\"5eed5eed-0000-4000-8000-%012d\",\"Epoch\":%d,\"Owner\":\"%s\"",
                         operation->publisher, operation->epoch, owner);
}

static void write_row(const struct entry *entry, char (*handles)[HANDLE_SIZE], struct buffer *out)
{
    char uid[ROW_UUID_SIZE];
    operation_write_uid(entry->row_uid, uid);
    buffer_append_format(out, "{\"Id\":%d,\"Uid\":\"%s\",", entry->row_id, uid);
    if (entry->is_ack) {
        buffer_append_format(out, "\"ReceiptHandle\":\"%s\"}", handles[entry->handle]);
        return;
    }
    write_queue_url(entry->queue, out);
    buffer_append_format(out, ",");
    write_send(entry, out);
    buffer_append_format(out, "}");
}

static void write_publish(const struct operation *operation, char (*handles)[HANDLE_SIZE], struct buffer *out)
{
    write_claim(operation, out);
    buffer_append_format(out, ",\"Batch\":%d,\"ConfirmedBatch\":%d,\"Order\":\"%s\",\"Refused\":\"%s\",\"Rows\":[",
                         operation->publish_batch, operation->confirmed_batch,
                         operation->is_strict ? "strict" : "group", operation->blocks_refused ? "block" : "park");
    for (unsigned i = 0; i < operation->count; i++) {
        buffer_append_format(out, "%s", i > 0 ? "," : "");
        write_row(&operation->entries[i], handles, out);
    }
    buffer_append_format(out, "]");
}

static void write_fail(const struct operation *operation, char (*handles)[HANDLE_SIZE], struct buffer *out)
{
    write_entries(operation, handles, out);
    if (operation->reason != NONE)
        buffer_append_format(out, ",\"Reason\":\"reason %d\"", operation->reason);
    if (operation->is_final)
        buffer_append_format(out, ",\"Final\":true");
    if (operation->retry_after_s != NONE)
        buffer_append_format(out, ",\"RetryAfterSeconds\":%d", operation->retry_after_s);
    if (operation->attempts_max != NONE)
        buffer_append_format(out, ",\"MaxAttempts\":%d", operation->attempts_max);
    if (operation->bury_in == NONE)
        return;
    buffer_append_format(out, ",\"DeadLetterQueueUrl\":\"http://sim/000000000000/");
    operation_write_queue(operation->bury_in, out);
    buffer_append_format(out, "\"");
}

static void write_type_order(const struct operation *operation, struct buffer *out)
{
    buffer_append_format(out, "\"Name\":\"o%d\"", operation->order);
    if (operation->kind == OPERATION_DELETE_TYPE_ORDER)
        return;
    buffer_append_format(out, ",\"Types\":[");
    for (unsigned i = 0; i < operation->count; i++)
        buffer_append_format(out, "%s\"t%d\"", i > 0 ? "," : "", operation->keys[i]);
    buffer_append_format(out, "]");
    if (operation->order_retention_s > 0)
        buffer_append_format(out, ",\"Require\":true,\"RetentionSeconds\":%d", operation->order_retention_s);
}

static void write_tags(const struct operation *operation, struct buffer *out)
{
    bool is_tag = operation->kind == OPERATION_TAG_QUEUE, is_first = true;
    buffer_append_format(out, is_tag ? ",\"Tags\":{" : ",\"TagKeys\":[");
    for (unsigned i = 0; i < TAGS; i++) {
        if (operation->tags[i] == 0)
            continue;
        buffer_append_format(out, "%s\"t%u\"", is_first ? "" : ",", i);
        if (is_tag)
            buffer_append_format(out, ":\"v%d\"", operation->tags[i]);
        is_first = false;
    }
    buffer_append_format(out, is_tag ? "}" : "]");
}

void operation_write_arn(int queue, struct buffer *out)
{
    buffer_append_format(out, "arn:aws:sqs:sim:000000000000:");
    operation_write_queue(queue, out);
}

/* What tasks of both kinds have. */
static void write_task(const struct operation *operation, struct buffer *out)
{
    if (operation->move_rate != 0)
        buffer_append_format(out, ",\"MaxNumberOfMessagesPerSecond\":%d", operation->move_rate);
    if (operation->move_max != 0)
        buffer_append_format(out, ",\"MaxMessages\":%d", operation->move_max);
    if (operation->move_group != NONE)
        buffer_append_format(out, ",\"MessageGroupId\":\"g%d\"", operation->move_group);
}

static void write_move(const struct operation *operation, struct buffer *out)
{
    if (operation->kind == OPERATION_CANCEL_MOVE) {
        buffer_append_format(out, "\"TaskHandle\":\"%s\"", operation->task);
        return;
    }
    buffer_append_format(out, "\"SourceArn\":\"");
    operation_write_arn(operation->queue, out);
    buffer_append_format(out, "\"");
    if (operation->kind == OPERATION_LIST_MOVES) {
        buffer_append_format(out, ",\"MaxResults\":10");
        return;
    }
    if (operation->destination != NONE) {
        buffer_append_format(out, ",\"DestinationArn\":\"");
        operation_write_arn(operation->destination, out);
        buffer_append_format(out, "\"");
    }
    write_task(operation, out);
}

static void write_delete_some(const struct operation *operation, struct buffer *out)
{
    write_queue_url(operation->queue, out);
    for (unsigned i = 0; i < operation->count; i++)
        buffer_append_format(out, "%s\"%s\"", i > 0 ? "," : ",\"MessageIds\":[", operation->ids[i]);
    buffer_append_format(out, operation->count > 0 ? "]" : "");
    write_task(operation, out);
}

static void write_replace(const struct operation *operation, struct buffer *out)
{
    write_queue_url(operation->queue, out);
    buffer_append_format(out, ",\"MessageId\":\"%s\",\"MessageBody\":\"", operation->id);
    operation_write_body(operation->entries[0].tag, operation->entries[0].size, out);
    buffer_append_format(out, "\"");
}

void operation_write(const struct operation *operation, char (*handles)[HANDLE_SIZE], struct buffer *out)
{
    buffer_append_format(out, "{");
    switch (operation->kind) {
    case OPERATION_CREATE_QUEUE:
        buffer_append_format(out, "\"QueueName\":\"");
        operation_write_queue(operation->queue, out);
        buffer_append_format(out, "\",");
        write_attributes(&operation->numbers, &operation->traits, true, out);
        break;
    case OPERATION_SET_QUEUE:
        write_queue_url(operation->queue, out);
        buffer_append_format(out, ",");
        write_attributes(&operation->numbers, operation->has_traits ? &operation->traits : NULL, false, out);
        break;
    case OPERATION_DELETE_QUEUE:
    case OPERATION_PURGE_QUEUE:
    case OPERATION_LIST_TAGS:
        write_queue_url(operation->queue, out);
        break;
    case OPERATION_TAG_QUEUE:
    case OPERATION_UNTAG_QUEUE:
        write_queue_url(operation->queue, out);
        write_tags(operation, out);
        break;
    case OPERATION_ADD_PERMISSION:
    case OPERATION_REMOVE_PERMISSION:
        write_queue_url(operation->queue, out);
        buffer_append_format(out, ",\"Label\":\"l%d\"", operation->label);
        if (operation->kind == OPERATION_ADD_PERMISSION)
            buffer_append_format(out, ",\"AWSAccountIds\":[\"111111111111\"],\"Actions\":[\"SendMessage\"]");
        break;
    case OPERATION_COUNT_QUEUE:
        write_queue_url(operation->queue, out);
        buffer_append_format(out, ",\"AttributeNames\":[\"All\"]");
        break;
    case OPERATION_SEND:
    case OPERATION_DELETE:
    case OPERATION_CHANGE_VISIBILITY:
        write_entries(operation, handles, out);
        break;
    case OPERATION_RECEIVE:
        write_receive(operation, out);
        break;
    case OPERATION_FAIL:
        write_fail(operation, handles, out);
        break;
    case OPERATION_COMMIT:
        write_commit(operation, handles, out);
        break;
    case OPERATION_OPEN_PUBLISHER:
        write_claim(operation, out);
        break;
    case OPERATION_PUBLISH:
        write_publish(operation, handles, out);
        break;
    case OPERATION_EXPLAIN:
        write_queue_url(operation->queue, out);
        buffer_append_format(out, ",\"MessageId\":\"%s\"", operation->id);
        break;
    case OPERATION_LIST_GROUPS:
        write_queue_url(operation->queue, out);
        buffer_append_format(out, ",\"State\":\"held\"");
        break;
    case OPERATION_PUT_TYPE_ORDER:
    case OPERATION_DELETE_TYPE_ORDER:
        write_type_order(operation, out);
        break;
    case OPERATION_START_MOVE:
    case OPERATION_CANCEL_MOVE:
    case OPERATION_LIST_MOVES:
        write_move(operation, out);
        break;
    case OPERATION_DELETE_SOME:
        write_delete_some(operation, out);
        break;
    case OPERATION_REPLACE:
        write_replace(operation, out);
        break;
    case OPERATION_RELEASE_GROUP:
    case OPERATION_PAUSE:
        write_group(operation, out);
        break;
    case OPERATION_LIST_BATCHES:
        if (operation->only != NONE)
            buffer_append_format(out, "\"State\":\"%s\"", operation_batch_states[operation->only]);
        break;
    default:
        write_of_batch(operation, out);
        break;
    }
    buffer_append_format(out, "}");
}
