/* Judges Commit: several things in one step. */
#include "judge.h"

#include <stdio.h>
#include <string.h>

static struct operation report_of(const struct operation *operation, unsigned unit)
{
    struct operation report = {
        .kind = OPERATION_COMPLETE_UNITS, .batch = operation->unit_batches[unit], .count = 1, .detail = NONE};
    report.keys[0] = operation->keys[unit];
    report.is_failed[0] = operation->is_failed[unit];
    return report;
}

static const struct entry *deletes_of(const struct operation *operation)
{
    return &operation->entries[operation->count];
}

/* Do all of its queues and batches exist? */
static enum error check_names(const struct model *model, const struct operation *operation)
{
    for (unsigned i = 0; operation->has_child && i < TARGETS; i++)
        if (operation->targets[i] != NONE && model_find_queue(model, operation->targets[i]) == NONE)
            return ERROR_QUEUE_DOES_NOT_EXIST;
    bool is_made = operation->has_child && operation->added_batch == operation->batch;
    if (operation->added_batch != NONE && !is_made && model_find_batch(model, operation->added_batch) == NONE)
        return ERROR_BATCH_DOES_NOT_EXIST;
    for (unsigned i = 0; i < operation->count; i++)
        if (model_find_queue(model, operation->entries[i].queue) == NONE)
            return ERROR_QUEUE_DOES_NOT_EXIST;
    for (unsigned i = 0; i < operation->unit_count; i++)
        if (model_find_batch(model, operation->unit_batches[i]) == NONE)
            return ERROR_BATCH_DOES_NOT_EXIST;
    for (unsigned i = 0; i < operation->delete_count + operation->hold_count; i++)
        if (model_find_queue(model, deletes_of(operation)[i].queue) == NONE)
            return ERROR_QUEUE_DOES_NOT_EXIST;
    return OK;
}

/* Each handle names a message that is held, each another one; those of Holds are in flight. */
static enum error check_handles(struct oracle *oracle, const struct operation *operation)
{
    struct model *model = &oracle->model;
    const struct entry *entries = deletes_of(operation);
    for (unsigned i = 0; i < operation->delete_count + operation->hold_count; i++) {
        struct handle_of of = oracle->handle_of[entries[i].handle];
        if (!model_is_held_by(model, entries[i].queue, of.queue, of.message, entries[i].handle))
            return ERROR_RECEIPT_HANDLE_IS_INVALID;
        const struct model_message *message = &model->messages[of.message];
        if (i >= operation->delete_count && !(message->is_leased && message->visible_at > model->now))
            return ERROR_RECEIPT_HANDLE_IS_INVALID;
        for (unsigned k = 0; k < i; k++)
            if (oracle->handle_of[entries[k].handle].message == of.message)
                return ERROR_INVALID_PARAMETER_VALUE;
    }
    return OK;
}

/* What is wrong with a Commit before any of it is decided. */
static enum error check_commit(struct oracle *oracle, const struct operation *operation)
{
    if (operation->count + operation->unit_count + operation->delete_count == 0 && !operation->has_child &&
        operation->added_batch == NONE)
        return ERROR_EMPTY_BATCH_REQUEST;
    enum error error = check_names(&oracle->model, operation);
    return error == OK ? check_handles(oracle, operation) : error;
}

/* The batches of which the Commit names an outstanding unit may grow while it is judged. */
static void let_grow(struct oracle *oracle, const struct operation *operation)
{
    struct model *model = &oracle->model;
    for (unsigned i = 0; i < operation->delete_count + operation->hold_count; i++) {
        int batch = model_batch_of_message(model, oracle->handle_of[deletes_of(operation)[i].handle].message);
        if (batch != NONE)
            model->batches[batch].is_growing = true;
    }
    for (unsigned i = 0; i < operation->unit_count; i++) {
        int batch = model_batch_of_key(model, model_find_batch(model, operation->unit_batches[i]), operation->keys[i]);
        if (batch != NONE)
            model->batches[batch].is_growing = true;
    }
}

static void let_rest(struct model *model)
{
    for (int i = 0; i < model->batch_count; i++)
        model->batches[i].is_growing = false;
}

/* What a Commit has done so far. */
struct committed {
    int child;    /* the batch that it makes */
    int added_to; /* AddUnits */
    int added;
    int sent[ENTRIES_MAX];
    bool is_duplicate[ENTRIES_MAX];
    bool is_recorded[KEYS_MAX];
    int states_before[KEYS_MAX];
    int batches[KEYS_MAX];
};

static enum error add_all(struct model *model, const struct operation *operation, struct committed *committed)
{
    enum error error = operation->has_child ? model_create_batch(model, operation, &committed->child) : OK;
    if (error == OK && operation->added_batch != NONE) {
        struct operation addition = {.kind = OPERATION_ADD_UNITS, .count = operation->added_count, .counted = NONE};
        memcpy(addition.keys, operation->added_keys, sizeof(addition.keys));
        committed->added_to = model_find_batch(model, operation->added_batch);
        error = model_add_units(model, committed->added_to, &addition, &committed->added);
    }
    for (unsigned i = 0; i < operation->count && error == OK; i++)
        error = model_send(model, operation->entries[i].queue, &operation->entries[i], &committed->sent[i],
                           &committed->is_duplicate[i]);
    return error;
}

static enum error commit(struct oracle *oracle, const struct operation *operation, struct committed *committed)
{
    struct model *model = &oracle->model;
    enum error error = check_commit(oracle, operation);
    for (unsigned i = 0; i < operation->unit_count && error == OK; i++) {
        committed->batches[i] = model_find_batch(model, operation->unit_batches[i]);
        committed->states_before[i] = model->batches[committed->batches[i]].state;
    }
    if (error != OK)
        return error;
    let_grow(oracle, operation);
    error = add_all(model, operation, committed);
    let_rest(model);
    for (unsigned i = 0; i < operation->unit_count && error == OK; i++) {
        struct operation report = report_of(operation, i);
        error = model_complete_units(model, committed->batches[i], &report, &committed->is_recorded[i]);
    }
    for (unsigned i = 0; i < operation->delete_count && error == OK; i++) {
        const struct entry *entry = &deletes_of(operation)[i];
        struct handle_of of = oracle->handle_of[entry->handle];
        error = model_delete(model, entry->queue, of.queue, of.message, entry->handle);
    }
    return error;
}

static void expect_committed(const struct reply_view *view, const struct committed *committed)
{
    const struct model *model = &view->oracle->model;
    const struct operation *operation = view->operation;
    yyjson_val *made = yyjson_arr_get_first(yyjson_obj_get(view->root, "CreateBatches"));
    yyjson_val *added = yyjson_arr_get_first(yyjson_obj_get(view->root, "AddUnits"));
    if (operation->has_child)
        expect_text(view, made, "State", operation_batch_states[model->batches[committed->child].state]);
    if (operation->added_batch != NONE) {
        expect_number(view, added, "Added", committed->added);
        expect_number(view, added, "Total", model_counts(&model->batches[committed->added_to]).total);
    }
    for (unsigned i = 0; i < operation->count; i++)
        expect_sent(view, yyjson_arr_get(yyjson_obj_get(view->root, "Sends"), i), committed->sent[i],
                    committed->is_duplicate[i]);
    for (unsigned i = 0; i < operation->unit_count; i++) {
        const struct model_batch *batch = &model->batches[committed->batches[i]];
        yyjson_val *item = yyjson_arr_get(yyjson_obj_get(view->root, "Units"), i);
        bool is_completed = committed->states_before[i] != MODEL_COMPLETED && batch->state == MODEL_COMPLETED;
        bool is_first = true;
        for (unsigned k = 0; k < i; k++)
            is_first = is_first && committed->batches[k] != committed->batches[i];
        expect_boolean(view, item, "Recorded", committed->is_recorded[i]);
        expect_boolean(view, item, "Completed", is_completed);
        char name[16];
        snprintf(name, sizeof(name), "%d", batch->name);
        if (is_completed && is_first)
            teach(view->lesson, FACT_COMPLETED, committed->batches[i], name);
    }
    for (unsigned i = 0; i < operation->delete_count; i++) {
        int message = view->oracle->handle_of[operation->entries[operation->count + i].handle].message;
        teach(view->lesson, FACT_ENDED, message, model->messages[message].id);
    }
}

/* All of it or nothing. The server may refuse what it can't look through: sends and batches that might wait for one
 * another, and what may need more room than a frame has. */
void judge_commit(const struct reply_view *view)
{
    struct oracle *oracle = view->oracle;
    struct committed committed = {0};
    model_copy(oracle->scratch_owned, &oracle->model);
    enum error error = commit(oracle, view->operation, &committed);
    unsigned joining = view->operation->count + view->operation->has_child + (view->operation->added_batch != NONE);
    bool is_refused =
        (view->error == ERROR_UNSUPPORTED_OPERATION && joining > 1 && error != ERROR_UNSUPPORTED_OPERATION) ||
        (view->error == ERROR_OVER_LIMIT && error == OK);
    /* Of what takes more units together than a batch has left, the server says so of the first that is too many; one
     * after the other, the batch would be sealed by then. */
    if (error == ERROR_BATCH_SEALED && view->error == ERROR_BATCH_TOTAL_EXCEEDED && joining > 1)
        error = ERROR_BATCH_TOTAL_EXCEEDED;
    if (error != OK || is_refused)
        model_copy(&oracle->model, oracle->scratch_owned);
    if (is_refused)
        return;
    expect_error(view, error);
    if (error == OK)
        expect_committed(view, &committed);
}
