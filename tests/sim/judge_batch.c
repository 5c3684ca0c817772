/* Judges the actions on batches. */
#include "judge.h"

#include "fail.h"
#include <stdio.h>

static void expect_batch(const struct reply_view *view, yyjson_val *object, int record)
{
    struct oracle *oracle = view->oracle;
    const struct model_batch *batch = &oracle->model.batches[record];
    struct model_counts counts = model_counts(batch);
    char name[16];
    snprintf(name, sizeof(name), "b%d", batch->name);
    expect_text(view, object, "BatchId", name);
    expect_text(view, object, "State", operation_batch_states[batch->state]);
    if (batch->state == MODEL_COMPLETED)
        expect_text(view, object, "Status", reply_status_names[batch->status]);
    expect_number(view, object, "Total", counts.total);
    expect_number(view, object, "Succeeded", counts.succeeded);
    expect_number(view, object, "Failed", counts.failed);
    expect_number(view, object, "Cancelled", counts.cancelled);
    expect_number(view, object, "Remaining", counts.remaining);
    expect_time(view, object, "CreatedAt", batch->created_at);
    expect_time(view, object, "SealedAt", batch->sealed_at);
    expect_time(view, object, "CompletedAt", batch->completed_at);
    bool has_message = batch->state == MODEL_COMPLETED && batch->targets[EVENT_COMPLETE_ - 1] != NONE;
    if (has_message)
        check_completion_id(oracle, record, EVENT_COMPLETE_, text_in(view, object, "CompletionMessageId"));
}

/* Did this request complete the batch, and does the reply say so? */
static void expect_completed(const struct reply_view *view, int record, int state_before)
{
    const struct model_batch *batch = &view->oracle->model.batches[record];
    bool is_completed = state_before != MODEL_COMPLETED && batch->state == MODEL_COMPLETED;
    expect_boolean(view, view->root, "Completed", is_completed);
    char name[16];
    snprintf(name, sizeof(name), "%d", batch->name);
    if (is_completed)
        teach(view->lesson, FACT_COMPLETED, record, name);
}

void judge_create_batch(const struct reply_view *view)
{
    int record = NONE;
    enum error error = model_create_batch(&view->oracle->model, view->operation, &record);
    expect_error(view, error);
    if (error == OK)
        expect_text(view, view->root, "State", operation_batch_states[view->oracle->model.batches[record].state]);
}

static void judge_add_units(const struct reply_view *view, int record)
{
    int added = 0;
    enum error error = model_add_units(&view->oracle->model, record, view->operation, &added);
    expect_error(view, error);
    if (error != OK)
        return;
    expect_number(view, view->root, "Added", added);
    expect_number(view, view->root, "Total", model_counts(&view->oracle->model.batches[record]).total);
}

static void judge_complete_units(const struct reply_view *view, int record)
{
    struct model_batch *batch = &view->oracle->model.batches[record];
    int state_before = batch->state;
    bool recorded[KEYS_MAX] = {false};
    if (view->error == ERROR_OVER_LIMIT)
        return; /* a small frame may have no room for the messages of a long chain; nothing was recorded */
    enum error error = model_complete_units(&view->oracle->model, record, view->operation, recorded);
    expect_error(view, error);
    if (error != OK)
        return;
    for (unsigned i = 0; i < view->operation->count; i++)
        expect_boolean(view, yyjson_arr_get(yyjson_obj_get(view->root, "Results"), i), "Recorded", recorded[i]);
    expect_number(view, view->root, "Remaining", model_counts(batch).remaining);
    expect_completed(view, record, state_before);
}

static void judge_xor_units(const struct reply_view *view, int record)
{
    struct model_batch *batch = &view->oracle->model.batches[record];
    int state_before = batch->state;
    enum error error = model_xor_units(&view->oracle->model, record, view->operation);
    expect_error(view, error);
    if (error != OK)
        return;
    expect_boolean(view, view->root, "Zero", model_xor_is_zero(batch));
    expect_completed(view, record, state_before);
}

static void judge_seal(const struct reply_view *view, int record)
{
    struct model_batch *batch = &view->oracle->model.batches[record];
    int state_before = batch->state;
    model_seal(&view->oracle->model, record);
    expect_error(view, OK);
    expect_text(view, view->root, "State", operation_batch_states[batch->state]);
    expect_number(view, view->root, "Remaining", model_counts(batch).remaining);
    expect_completed(view, record, state_before);
}

static enum fate fate_of(const struct model_batch *batch, int unit)
{
    enum fate fate = batch->units[unit].fate;
    return fate == FATE_OUTSTANDING && batch->status == STATUS_CANCELLED ? FATE_CANCELLED : fate;
}

static void expect_unit(const struct reply_view *view, yyjson_val *item, const struct model_batch *batch, int unit)
{
    const struct model *model = &view->oracle->model;
    const struct model_unit *expected = &batch->units[unit];
    struct buffer name;
    buffer_init(&name);
    switch (expected->kind) {
    case UNIT_OF_KEY:
        operation_write_key(expected->key, &name);
        break;
    case UNIT_OF_MESSAGE:
        buffer_append_format(&name, "%s", model->messages[expected->key].id);
        break;
    case UNIT_OF_CHILD:
        buffer_append_format(&name, "b%d", model->batches[expected->key].name);
        break;
    }
    buffer_append_u8(&name, 0);
    expect_text(view, item, "Unit", (const char *)name.data_owned);
    expect_text(view, item, "State", operation_unit_states[fate_of(batch, unit)]);
    buffer_truncate(&name, 0);
    buffer_append_format(&name, "detail %d", expected->detail);
    buffer_append_u8(&name, 0);
    if (expected->detail != NONE)
        expect_text(view, item, "Detail", (const char *)name.data_owned);
    buffer_deinit(&name);
}

static void judge_list_units(const struct reply_view *view, int record)
{
    const struct model_batch *batch = &view->oracle->model.batches[record];
    expect_error(view, batch->is_xor ? ERROR_UNSUPPORTED_OPERATION : OK);
    if (batch->is_xor)
        return;
    yyjson_val *units = yyjson_obj_get(view->root, "Units");
    size_t index = 0;
    for (int i = 0; i < batch->unit_count; i++) {
        if (view->operation->only != NONE && (int)fate_of(batch, i) != view->operation->only)
            continue;
        yyjson_val *item = yyjson_arr_get(units, index++);
        if (item == NULL)
            fail("ListUnits of b%d leaves out unit %d", batch->name, i);
        expect_unit(view, item, batch, i);
    }
    if (index != yyjson_arr_size(units))
        fail("ListUnits of b%d gives %zu units; it should give %zu", batch->name, yyjson_arr_size(units), index);
}

void judge_list_batches(const struct reply_view *view)
{
    const struct model *model = &view->oracle->model;
    yyjson_val *batches = yyjson_obj_get(view->root, "Batches");
    size_t index = 0;
    expect_error(view, OK);
    for (int i = 0; i < model->batch_count; i++) {
        const struct model_batch *batch = &model->batches[i];
        bool is_listed = batch->is_record && !batch->is_deleted &&
                         (view->operation->only == NONE || view->operation->only == batch->state);
        yyjson_val *item = is_listed ? yyjson_arr_get(batches, index++) : NULL;
        if (is_listed && item == NULL)
            fail("ListBatches does not list b%d", batch->name);
        if (is_listed)
            expect_batch(view, item, i);
    }
    if (index != yyjson_arr_size(batches))
        fail("ListBatches lists %zu batches; there are %zu", yyjson_arr_size(batches), index);
}

void judge_of_batch(const struct reply_view *view)
{
    int record = model_find_batch(&view->oracle->model, view->operation->batch);
    if (record == NONE) {
        expect_error(view, ERROR_BATCH_DOES_NOT_EXIST);
        return;
    }
    switch (view->operation->kind) {
    case OPERATION_ADD_UNITS:
        judge_add_units(view, record);
        break;
    case OPERATION_COMPLETE_UNITS:
        judge_complete_units(view, record);
        break;
    case OPERATION_XOR_UNITS:
        judge_xor_units(view, record);
        break;
    case OPERATION_SEAL_BATCH:
        judge_seal(view, record);
        break;
    case OPERATION_LIST_UNITS:
        judge_list_units(view, record);
        break;
    case OPERATION_DELETE_BATCH:
        expect_error(view, model_delete_batch(&view->oracle->model, record));
        break;
    case OPERATION_CANCEL_BATCH:
        model_cancel(&view->oracle->model, record);
        expect_error(view, OK);
        expect_batch(view, view->root, record);
        break;
    default:
        expect_error(view, OK);
        expect_batch(view, view->root, record);
        break;
    }
}
