#include "relay/publish_body.h"

#include "base/quote.h"
#include "relay/lease.h"
#include <stdio.h>

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void append_literal(struct buffer *body, const char *text)
{
    buffer_append(body, text, strlen(text));
}

/* A member with a text, behind another one. False if that is no UTF-8, in which the whole request would be refused. */
static bool append_member(struct buffer *body, const char *name, struct bytes text, char reason[ROW_REASON_SIZE])
{
    if (!quote_is_utf8(text)) {
        snprintf(reason, ROW_REASON_SIZE, "%s is no UTF-8", name);
        return false;
    }
    append_literal(body, ",\"");
    append_literal(body, name);
    append_literal(body, "\":");
    quote_append(body, text);
    return true;
}

/* The row's uid is not among them here: the queue adds it. */
static bool append_attributes(struct buffer *body, const struct row *row, char reason[ROW_REASON_SIZE])
{
    if (row->attributes.size == 0 || bytes_equal(row->attributes, BYTES("{}")))
        return true;
    append_literal(body, ",\"MessageAttributes\":");
    return row_write_attributes(row, ROW_ATTRIBUTES_ALL, body, reason);
}

static bool append_send(struct buffer *body, const struct row *row, const char *own_queue, const char *uid,
                        char reason[ROW_REASON_SIZE])
{
    struct bytes queue = row->queue;
    if (queue.size == 0 && own_queue == NULL) {
        snprintf(reason, ROW_REASON_SIZE, "the row names no queue, and the relay's sink has none of its own");
        return false;
    }
    if (queue.size == 0)
        queue = bytes_from_string(own_queue);
    struct bytes group = row->group, deduplication_id = row->deduplication_id;
    if (group.ptr == NULL && bytes_ends_with(queue, BYTES(".fifo")))
        group = bytes_make(uid, UID_TEXT_SIZE - 1); /* a FIFO queue wants one: the row is alone in its own */
    if (!append_member(body, "QueueUrl", queue, reason) || !append_member(body, "MessageBody", row->body, reason) ||
        (group.ptr != NULL && !append_member(body, "MessageGroupId", group, reason)) ||
        (deduplication_id.ptr != NULL && !append_member(body, "MessageDeduplicationId", deduplication_id, reason)))
        return false;
    if (row->delay_s > 0)
        buffer_append_format(body, ",\"DelaySeconds\":%u", row->delay_s);
    return append_attributes(body, row, reason);
}

bool publish_body_add(struct buffer *body, const struct row *row, const char *queue, char reason[ROW_REASON_SIZE])
{
    size_t start = body->size;
    char uid[UID_TEXT_SIZE];
    uid_to_text(&row->uid, uid);
    if (body->data_owned[start - 1] != '[')
        buffer_append_u8(body, ',');
    append_literal(body, "{\"Id\":");
    buffer_append_decimal(body, row->id);
    append_literal(body, ",\"Uid\":\"");
    buffer_append(body, uid, UID_TEXT_SIZE - 1);
    buffer_append_u8(body, '"');
    bool is_sound = row->kind == ROW_ACK ? append_member(body, "ReceiptHandle", row->body, reason)
                                         : append_send(body, row, queue, uid, reason);
    buffer_append_u8(body, '}');
    if (!is_sound)
        buffer_truncate(body, start);
    return is_sound;
}

void publish_body_begin(struct buffer *body, const struct publish_head *head)
{
    char publisher[UID_TEXT_SIZE], owner[UID_TEXT_SIZE];
    uid_to_text(&head->term->source_id, publisher);
    uid_to_text(&head->term->owner, owner);
    buffer_truncate(body, 0);
    buffer_append_format(body,
                         "{\"Publisher\":\"%s\",\"Epoch\":%llu,\"Owner\":\"%s\",\"Batch\":%llu,\"ConfirmedBatch\":%llu",
                         publisher, (unsigned long long)head->term->epoch, owner, (unsigned long long)head->batch,
                         (unsigned long long)head->confirmed_batch);
    buffer_append_format(body, ",\"Order\":\"%s\",\"Refused\":\"%s\",\"Rows\":[", head->is_strict ? "strict" : "group",
                         head->blocks_group ? "block" : "park");
}

void publish_body_end(struct buffer *body)
{
    append_literal(body, "]}");
}
