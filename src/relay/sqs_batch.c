#include "relay/sqs_batch.h"

#include "base/assert.h"
#include "client/json.h"
#include "relay/sqs_answer.h"
#include <stdio.h>
#include <stdlib.h>

/* The group of rows without one in strict order: their order is to hold for the consumer, too. */
#define STRICT_GROUP "outbox"

#define ATTRIBUTES_MAX 10u /* of a message */

void sqs_batch_init(struct sqs_batch *batch, const char *queue_url)
{
    *batch = (struct sqs_batch){.doc_owned = json_document()};
    buffer_init(&batch->scratch);
    yyjson_mut_val *root = yyjson_mut_obj(batch->doc_owned);
    yyjson_mut_doc_set_root(batch->doc_owned, root);
    yyjson_mut_obj_add_strcpy(batch->doc_owned, root, "QueueUrl", queue_url);
    batch->entries = yyjson_mut_obj_add_arr(batch->doc_owned, root, "Entries");
}

void sqs_batch_deinit(struct sqs_batch *batch)
{
    yyjson_mut_doc_free(batch->doc_owned);
    buffer_deinit(&batch->scratch);
}

/* A view as a text that is borrowed. */
static yyjson_mut_val *text_of(struct sqs_batch *batch, struct bytes view)
{
    return yyjson_mut_strn(batch->doc_owned, view.size == 0 ? "" : (const char *)view.ptr, view.size);
}

static void add(struct sqs_batch *batch, yyjson_mut_val *entry, const char *name, yyjson_mut_val *value)
{
    yyjson_mut_obj_add(entry, yyjson_mut_str(batch->doc_owned, name), value);
}

/* The attributes, which stand in `scratch`. NULL: there is no room for the mark among them. */
static yyjson_mut_val *attributes_of(struct sqs_batch *batch, bool is_marked)
{
    const char *text = (const char *)batch->scratch.data_owned;
    if (!is_marked)
        return yyjson_mut_rawncpy(batch->doc_owned, text, batch->scratch.size);
    yyjson_doc *doc = json_read(text, batch->scratch.size);
    yyjson_mut_val *attributes = yyjson_val_mut_copy(batch->doc_owned, yyjson_doc_get_root(doc));
    yyjson_mut_val *mark = yyjson_mut_obj(batch->doc_owned);
    yyjson_doc_free(doc);
    ASSERT(attributes != NULL); /* row_write_attributes() has just written it */
    if (yyjson_mut_obj_size(attributes) >= ATTRIBUTES_MAX && yyjson_mut_obj_get(attributes, SQS_MARK_ATTRIBUTE) == NULL)
        return NULL;
    yyjson_mut_obj_add_str(batch->doc_owned, mark, "DataType", "String");
    yyjson_mut_obj_add_str(batch->doc_owned, mark, "StringValue", "1");
    yyjson_mut_obj_put(attributes, yyjson_mut_str(batch->doc_owned, SQS_MARK_ATTRIBUTE), mark);
    return attributes;
}

/* P16: the same at every attempt, for they are the row's own. */
static void add_fifo(struct sqs_batch *batch, yyjson_mut_val *entry, const struct row *row, bool is_strict)
{
    char uid[UID_TEXT_SIZE];
    uid_to_text(&row->uid, uid);
    yyjson_mut_val *own = yyjson_mut_strcpy(batch->doc_owned, is_strict ? STRICT_GROUP : uid);
    add(batch, entry, "MessageGroupId", row->group.ptr != NULL ? text_of(batch, row->group) : own);
    add(batch, entry, "MessageDeduplicationId",
        row->deduplication_id.ptr != NULL ? text_of(batch, row->deduplication_id)
                                          : yyjson_mut_strcpy(batch->doc_owned, uid));
}

enum sqs_added sqs_batch_add(struct sqs_batch *batch, const struct row *row, struct sqs_form form, size_t size_max,
                             char reason[ROW_REASON_SIZE])
{
    ASSERT(batch->count < SQS_BATCH_MAX);
    buffer_truncate(&batch->scratch, 0);
    if (!row_write_attributes(row, ATTRIBUTES_MAX - form.is_marked, &batch->scratch, reason))
        return SQS_UNUSABLE;
    size_t size = row->body.size + batch->scratch.size;
    if (batch->count > 0 && batch->size + size > size_max)
        return SQS_FULL;
    yyjson_mut_val *attributes = attributes_of(batch, form.is_marked);
    if (attributes == NULL) {
        snprintf(
            reason, ROW_REASON_SIZE,
            "it may be in the queue already, and beside its 10 attributes there is no room for " SQS_MARK_ATTRIBUTE);
        return SQS_UNUSABLE;
    }
    char id[2] = {(char)('0' + batch->count), '\0'};
    yyjson_mut_val *entry = yyjson_mut_arr_add_obj(batch->doc_owned, batch->entries);
    yyjson_mut_obj_add_strcpy(batch->doc_owned, entry, "Id", id);
    add(batch, entry, "MessageBody", text_of(batch, row->body));
    add(batch, entry, "MessageAttributes", attributes);
    if (form.is_fifo)
        add_fifo(batch, entry, row, form.is_strict);
    else if (row->group.ptr != NULL)
        add(batch, entry, "MessageGroupId", text_of(batch, row->group)); /* a tenant, in a standard queue */
    if (row->delay_s > 0)
        yyjson_mut_obj_add_uint(batch->doc_owned, entry, "DelaySeconds", row->delay_s);
    batch->count++;
    batch->size += size;
    return SQS_ADDED;
}

bool sqs_batch_write(const struct sqs_batch *batch, struct buffer *body)
{
    size_t size;
    char *text = json_write(batch->doc_owned, YYJSON_WRITE_NOFLAG, &size);
    if (text == NULL)
        return false;
    buffer_append(body, text, size);
    free(text);
    return true;
}
