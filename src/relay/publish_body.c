#include "relay/publish_body.h"

#include "relay/lease.h"
#include <stdio.h>

/* --- texts -------------------------------------------------------------------------------------------------------- */

/* The size of the character that begins at `at`, 0 if it is no UTF-8. Source: RFC 3629, section 4. */
static size_t utf8_size(const uint8_t *at, size_t left)
{
    size_t size = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if (size == 0 || size > left)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool is_overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool is_surrogate = at[0] == 0xed && at[1] >= 0xa0;
    bool is_beyond = at[0] == 0xf4 && at[1] >= 0x90;
    return is_overlong || is_surrogate || is_beyond ? 0 : size;
}

static void append_escape(struct buffer *body, uint8_t character)
{
    char text[8];
    switch (character) {
    case '"':
    case '\\':
        snprintf(text, sizeof text, "\\%c", character);
        break;
    case '\n':
        snprintf(text, sizeof text, "\\n");
        break;
    default:
        snprintf(text, sizeof text, "\\u%04x", character);
    }
    buffer_append(body, text, strlen(text));
}

/* Appends `text` in quotes. False if it is no UTF-8, in which the whole request would be refused. */
static bool append_text(struct buffer *body, struct bytes text)
{
    size_t plain = 0; /* where what was not appended yet begins */
    buffer_append_u8(body, '"');
    for (size_t i = 0; i < text.size;) {
        uint8_t character = text.ptr[i];
        if (character >= 0x80) {
            size_t size = utf8_size(text.ptr + i, text.size - i);
            if (size == 0)
                return false;
            i += size;
        } else if (character < 0x20 || character == '"' || character == '\\') {
            buffer_append(body, text.ptr + plain, i - plain);
            append_escape(body, character);
            plain = ++i;
        } else {
            i++;
        }
    }
    buffer_append_bytes(body, bytes_skip(text, plain));
    buffer_append_u8(body, '"');
    return true;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void append_literal(struct buffer *body, const char *text)
{
    buffer_append(body, text, strlen(text));
}

/* A member with a text, behind another one. */
static bool append_member(struct buffer *body, const char *name, struct bytes text, char reason[ROW_REASON_SIZE])
{
    buffer_append_format(body, ",\"%s\":", name);
    if (append_text(body, text))
        return true;
    snprintf(reason, ROW_REASON_SIZE, "%s is no UTF-8", name);
    return false;
}

static bool append_attributes(struct buffer *body, const struct row *row, const char *uid, char reason[ROW_REASON_SIZE])
{
    append_literal(body, ",\"MessageAttributes\":");
    if (row->attributes.size > 0 && !bytes_equal(row->attributes, BYTES("{}")))
        return row_write_attributes(row, body, reason);
    append_literal(body, "{\"" ROW_UID_ATTRIBUTE "\":{\"DataType\":\"String\",\"StringValue\":\"");
    buffer_append(body, uid, UID_TEXT_SIZE - 1);
    append_literal(body, "\"}}");
    return true;
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
    return append_attributes(body, row, uid, reason);
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
