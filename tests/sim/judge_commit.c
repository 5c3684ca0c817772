/* Judges Commit: several things in one step. */
#include "judge.h"

#include <stdio.h>

static struct operation report_of(const struct operation *operation, unsigned unit)
{
    struct operation report = {
        .kind = OPERATION_COMPLETE_UNITS, .batch = operation->unit_batches[unit], .count = 1, .detail = NONE};
    report.keys[0] = operation->keys[unit];
    report.is_failed[0] = operation->is_failed[unit];
    return report;
}

/* What is wrong with a Commit before any of it is decided. */
static enum error check_commit(struct oracle *oracle, const struct operation *operation)
{
    struct model *model = &oracle->model;
    const struct entry *deletes = &operation->entries[operation->count];
    if (operation->count + operation->unit_count + operation->delete_count == 0)
        return ERROR_EMPTY_BATCH_REQUEST;
    for (unsigned i = 0; i < operation->count; i++)
        if (model_find_queue(model, operation->entries[i].queue) == NONE)
            return ERROR_QUEUE_DOES_NOT_EXIST;
    for (unsigned i = 0; i < operation->unit_count; i++)
        if (model_find_batch(model, operation->unit_batches[i]) == NONE)
            return ERROR_BATCH_DOES_NOT_EXIST;
    for (unsigned i = 0; i < operation->delete_count; i++)
        if (model_find_queue(model, deletes[i].queue) == NONE)
            return ERROR_QUEUE_DOES_NOT_EXIST;
    for (unsigned i = 0; i < operation->delete_count; i++) {
        struct handle_of of = oracle->handle_of[deletes[i].handle];
        if (!model_is_held_by(model, deletes[i].queue, of.queue, of.message, deletes[i].handle))
            return ERROR_RECEIPT_HANDLE_IS_INVALID;
        for (unsigned k = 0; k < i; k++)
            if (oracle->handle_of[deletes[k].handle].message == of.message)
                return ERROR_INVALID_PARAMETER_VALUE;
    }
    return OK;
}

/* What a Commit has done so far. */
struct committed {
    int sent[ENTRIES_MAX];
    bool is_duplicate[ENTRIES_MAX];
    bool is_recorded[KEYS_MAX];
    int states_before[KEYS_MAX];
    int batches[KEYS_MAX];
};

static enum error commit(struct oracle *oracle, const struct operation *operation, struct committed *committed)
{
    struct model *model = &oracle->model;
    enum error error = check_commit(oracle, operation);
    for (unsigned i = 0; i < operation->unit_count && error == OK; i++) {
        committed->batches[i] = model_find_batch(model, operation->unit_batches[i]);
        committed->states_before[i] = model->batches[committed->batches[i]].state;
    }
    for (unsigned i = 0; i < operation->count && error == OK; i++)
        error = model_send(model, operation->entries[i].queue, &operation->entries[i], &committed->sent[i],
                           &committed->is_duplicate[i]);
    for (unsigned i = 0; i < operation->unit_count && error == OK; i++) {
        struct operation report = report_of(operation, i);
        error = model_complete_units(model, committed->batches[i], &report, &committed->is_recorded[i]);
    }
    for (unsigned i = 0; i < operation->delete_count && error == OK; i++) {
        const struct entry *entry = &operation->entries[operation->count + i];
        struct handle_of of = oracle->handle_of[entry->handle];
        error = model_delete(model, entry->queue, of.queue, of.message, entry->handle);
    }
    return error;
}

static void expect_committed(const struct reply_view *view, const struct committed *committed)
{
    const struct model *model = &view->oracle->model;
    const struct operation *operation = view->operation;
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

/* All of it or nothing. The server may refuse what it can't look through: sends that might wait for one another, and what may
 * need more room than a frame has. */
void judge_commit(const struct reply_view *view)
{
    struct oracle *oracle = view->oracle;
    struct committed committed = {0};
    model_copy(oracle->scratch_owned, &oracle->model);
    enum error error = commit(oracle, view->operation, &committed);
    bool is_refused = (view->error == ERROR_UNSUPPORTED_OPERATION && view->operation->count > 1) ||
                      (view->error == ERROR_OVER_LIMIT && error == OK);
    /* Of sends that take more units together than a batch has left, the server says so of the first that is too many; one after
     * the other, the batch would be sealed by then. */
    if (error == ERROR_BATCH_SEALED && view->error == ERROR_BATCH_TOTAL_EXCEEDED && view->operation->count > 1)
        error = ERROR_BATCH_TOTAL_EXCEEDED;
    if (error != OK || is_refused)
        model_copy(&oracle->model, oracle->scratch_owned);
    if (is_refused)
        return;
    expect_error(view, error);
    if (error == OK)
        expect_committed(view, &committed);
}
