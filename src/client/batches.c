/* Typed calls for batches. */
#include "base/memory.h"
#include "client/client.h"
#include "client/json.h"
#include <stdio.h>
#include <stdlib.h>

#define KEYS_PER_REQUEST 1000

static void batch_body_init(struct json_body *body, const char *batch_id)
{
    json_body_init(body);
    json_add_text(body, body->root, "BatchId", batch_id);
}

static void add_target(struct json_body *body, const char *name, const struct tally_target *target)
{
    yyjson_mut_val *object;
    if (target == NULL)
        return;
    object = json_add_object(body, body->root, name);
    json_add_text(body, object, "QueueUrl", target->queue);
    json_add_text(body, object, "MessageBody", target->body);
    json_add_text(body, object, "MessageGroupId", target->group_id);
}

enum tally_status tally_batch_create(struct tally_client *client, const struct tally_batch_options *options,
                                     char id[TALLY_BATCH_ID_SIZE])
{
    struct json_body body;
    struct tally_reply reply;
    enum tally_status status;
    char random_id[40];

    /* An id of our own makes the call repeatable after a lost answer. */
    snprintf(random_id, sizeof random_id, "%016llx%016llx", (unsigned long long)client_random(client),
             (unsigned long long)client_random(client));
    batch_body_init(&body, options->id == NULL ? random_id : options->id);
    json_add_text(&body, body.root, "Tracking", options->tracking);
    json_add_text(&body, body.root, "Parent", options->parent);
    if (options->has_total)
        json_add_number(&body, body.root, "Total", options->total);
    if (options->expires_after_s > 0)
        json_add_number(&body, body.root, "ExpiresAfterSeconds", options->expires_after_s);
    if (options->has_retention)
        json_add_number(&body, body.root, "RetentionSeconds", options->retention_s);
    add_target(&body, "OnComplete", options->on_complete);
    add_target(&body, "OnSuccess", options->on_success);
    add_target(&body, "OnFirstFailure", options->on_first_failure);
    status = json_body_call(&body, client, "Tally.CreateBatch", &reply);
    if (status != TALLY_OK)
        return status;
    if (json_text(json_root(&reply), "BatchId") == NULL)
        status = client_garbled(client, "CreateBatch");
    else if (id != NULL)
        json_copy(json_root(&reply), "BatchId", id, TALLY_BATCH_ID_SIZE);
    tally_reply_deinit(&reply);
    return status;
}

/* Ends the body with the call and reads {Added, Total}; `sum->added` grows. */
static enum tally_status call_add(struct json_body *body, struct tally_client *client, struct tally_added *sum)
{
    struct tally_reply reply;
    enum tally_status status = json_body_call(body, client, "Tally.AddUnits", &reply);
    if (status != TALLY_OK)
        return status;
    sum->added += json_number(json_root(&reply), "Added");
    sum->total = json_number(json_root(&reply), "Total");
    tally_reply_deinit(&reply);
    return TALLY_OK;
}

enum tally_status tally_batch_add(struct tally_client *client, const char *batch_id, const char *const *keys,
                                  size_t count, struct tally_added *added)
{
    struct tally_added sum = {.added = 0};
    enum tally_status status = TALLY_OK;

    for (size_t start = 0; start < count && status == TALLY_OK; start += KEYS_PER_REQUEST) {
        struct json_body body;
        yyjson_mut_val *list;
        batch_body_init(&body, batch_id);
        list = json_add_array(&body, body.root, "Units");
        for (size_t i = start; i < count && i < start + KEYS_PER_REQUEST; i++)
            yyjson_mut_arr_add_str(body.doc_owned, list, keys[i]);
        status = call_add(&body, client, &sum);
    }
    if (status == TALLY_OK && added != NULL)
        *added = sum;
    return status;
}

enum tally_status tally_batch_add_count(struct tally_client *client, const char *batch_id, uint64_t count,
                                        struct tally_added *added)
{
    struct tally_added sum = {.added = 0};
    struct json_body body;
    enum tally_status status;

    batch_body_init(&body, batch_id);
    json_add_number(&body, body.root, "Count", count);
    status = call_add(&body, client, &sum);
    if (status == TALLY_OK && added != NULL)
        *added = sum;
    return status;
}

static enum tally_status complete_some(struct tally_client *client, const char *batch_id,
                                       const struct tally_unit_end *ends, size_t count, bool *recorded,
                                       struct tally_completed *completed)
{
    struct json_body body;
    struct tally_reply reply;
    enum tally_status status;
    yyjson_mut_val *list;
    yyjson_val *results, *result;
    size_t i, max;

    batch_body_init(&body, batch_id);
    list = json_add_array(&body, body.root, "Units");
    for (i = 0; i < count; i++) {
        yyjson_mut_val *unit = json_append_object(&body, list);
        json_add_text(&body, unit, "Unit", ends[i].key);
        json_add_text(&body, unit, "Status", ends[i].is_failed ? "failed" : "succeeded");
        json_add_text(&body, unit, "Detail", ends[i].detail);
    }
    status = json_body_call(&body, client, "Tally.CompleteUnits", &reply);
    if (status != TALLY_OK)
        return status;
    results = yyjson_obj_get(json_root(&reply), "Results");
    if (yyjson_arr_size(results) != count) {
        tally_reply_deinit(&reply);
        return client_garbled(client, "CompleteUnits");
    }
    yyjson_arr_foreach(results, i, max, result)
    {
        if (recorded != NULL)
            recorded[i] = json_is_true(result, "Recorded");
    }
    completed->remaining = json_number(json_root(&reply), "Remaining");
    completed->is_completed = completed->is_completed || json_is_true(json_root(&reply), "Completed");
    tally_reply_deinit(&reply);
    return TALLY_OK;
}

enum tally_status tally_batch_complete(struct tally_client *client, const char *batch_id,
                                       const struct tally_unit_end *ends, size_t count, bool *recorded,
                                       struct tally_completed *completed)
{
    struct tally_completed sum = {.remaining = 0};
    enum tally_status status = TALLY_OK;

    for (size_t start = 0; start < count && status == TALLY_OK; start += KEYS_PER_REQUEST) {
        size_t some = count - start < KEYS_PER_REQUEST ? count - start : KEYS_PER_REQUEST;
        status = complete_some(client, batch_id, ends + start, some, recorded == NULL ? NULL : recorded + start, &sum);
    }
    if (status == TALLY_OK && completed != NULL)
        *completed = sum;
    return status;
}

enum tally_status tally_batch_seal(struct tally_client *client, const char *batch_id, struct tally_completed *completed)
{
    struct json_body body;
    struct tally_reply reply;
    enum tally_status status;

    batch_body_init(&body, batch_id);
    status = json_body_call(&body, client, "Tally.SealBatch", &reply);
    if (status != TALLY_OK)
        return status;
    if (completed != NULL) {
        completed->remaining = json_number(json_root(&reply), "Remaining");
        completed->is_completed = json_is_true(json_root(&reply), "Completed");
    }
    tally_reply_deinit(&reply);
    return TALLY_OK;
}

static enum tally_status call_on_batch(struct tally_client *client, const char *target, const char *batch_id)
{
    struct json_body body;
    batch_body_init(&body, batch_id);
    return json_body_call(&body, client, target, NULL);
}

enum tally_status tally_batch_cancel(struct tally_client *client, const char *batch_id)
{
    return call_on_batch(client, "Tally.CancelBatch", batch_id);
}

enum tally_status tally_batch_delete(struct tally_client *client, const char *batch_id)
{
    return call_on_batch(client, "Tally.DeleteBatch", batch_id);
}

enum tally_status tally_batch_describe(struct tally_client *client, const char *batch_id, struct tally_batch *batch)
{
    struct json_body body;
    struct tally_reply reply;
    enum tally_status status;
    yyjson_val *root;

    batch_body_init(&body, batch_id);
    status = json_body_call(&body, client, "Tally.DescribeBatch", &reply);
    if (status != TALLY_OK)
        return status;
    root = json_root(&reply);
    if (json_text(root, "State") == NULL) {
        tally_reply_deinit(&reply);
        return client_garbled(client, "DescribeBatch");
    }
    json_copy(root, "BatchId", batch->id, sizeof batch->id);
    json_copy(root, "State", batch->state, sizeof batch->state);
    json_copy(root, "Status", batch->status, sizeof batch->status);
    json_copy(root, "CompletionMessageId", batch->completion_message_id, sizeof batch->completion_message_id);
    batch->total = json_number(root, "Total");
    batch->succeeded = json_number(root, "Succeeded");
    batch->failed = json_number(root, "Failed");
    batch->cancelled = json_number(root, "Cancelled");
    batch->remaining = json_number(root, "Remaining");
    batch->created_at = json_real(root, "CreatedAt");
    batch->sealed_at = json_real(root, "SealedAt");
    batch->completed_at = json_real(root, "CompletedAt");
    tally_reply_deinit(&reply);
    return TALLY_OK;
}

enum tally_status tally_batch_units(struct tally_client *client, const char *batch_id, const char *state,
                                    const char *token, struct tally_units *units)
{
    struct json_body body;
    struct tally_reply reply;
    struct tally_units made;
    enum tally_status status;
    yyjson_val *list, *value;
    size_t i, max;

    batch_body_init(&body, batch_id);
    json_add_text(&body, body.root, "State", state);
    json_add_text(&body, body.root, "NextToken", token);
    json_add_number(&body, body.root, "MaxResults", 1000);
    status = json_body_call(&body, client, "Tally.ListUnits", &reply);
    if (status != TALLY_OK)
        return status;
    list = yyjson_obj_get(json_root(&reply), "Units");
    made = (struct tally_units){.count = yyjson_arr_size(list)};
    made.next_token = json_text(json_root(&reply), "NextToken");
    if (made.count > 0)
        made.items_owned = memory_allocate_zeroed(made.count * sizeof *made.items_owned);
    made.reply_owned = reply;
    yyjson_arr_foreach(list, i, max, value)
    {
        struct tally_unit *unit = &made.items_owned[i];
        unit->key = json_text(value, "Unit");
        unit->state = json_text(value, "State");
        unit->message_id = json_text(value, "MessageId");
        unit->detail = json_text(value, "Detail");
        if (unit->key == NULL || unit->state == NULL) {
            tally_units_deinit(&made);
            return client_garbled(client, "ListUnits");
        }
    }
    *units = made;
    return TALLY_OK;
}

void tally_units_deinit(struct tally_units *units)
{
    free(units->items_owned);
    tally_reply_deinit(&units->reply_owned);
    *units = (struct tally_units){.count = 0};
}
