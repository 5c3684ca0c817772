/* Judges OpenPublisher and Publish. */
#include "judge.h"

#include "fail.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const fate_names[] = {
    [ROW_IS_STORED] = "stored",   [ROW_IS_DUPLICATE] = "duplicate", [ROW_IS_TOO_OLD] = "too-old",
    [ROW_IS_REFUSED] = "refused", [ROW_IS_BLOCKED] = "blocked",     [ROW_IS_STALE] = "stale",
    [ROW_IS_HELD] = "held",       [ROW_IS_PUT_OFF] = "blocked",
};

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* Just those that are stored and not confirmed, oldest first. */
static void expect_unconfirmed(const struct reply_view *view)
{
    const struct model *model = &view->oracle->model;
    yyjson_val *items = yyjson_obj_get(view->root, "Unconfirmed");
    size_t count = 0;
    for (int i = 0; i < model->row_count; i++) {
        const struct model_row *row = &model->rows[i];
        if (row->publisher != view->operation->publisher || row->confirmed_at != 0)
            continue;
        yyjson_val *item = yyjson_arr_get(items, count++);
        char uid[ROW_UUID_SIZE];
        if (item == NULL)
            fail("OpenPublisher does not name row %d, which is not confirmed", row->id);
        operation_write_uid(row->uid, uid);
        expect_number(view, item, "Id", row->id);
        expect_text(view, item, "Uid", uid);
    }
    if (yyjson_arr_size(items) != count)
        fail("OpenPublisher names %zu rows; %zu are not confirmed", yyjson_arr_size(items), count);
}

void judge_open_publisher(const struct reply_view *view)
{
    struct model *model = &view->oracle->model;
    bool is_accepted = model_open_publisher(model, view->operation);
    const struct model_publisher *publisher = &model->publishers[view->operation->publisher];
    char owner[ROW_UUID_SIZE];
    expect_error(view, OK);
    operation_write_owner(publisher->owner, owner);
    expect_boolean(view, view->root, "Accepted", is_accepted);
    expect_number(view, view->root, "Epoch", publisher->epoch);
    expect_text(view, view->root, "Owner", owner);
    expect_number(view, view->root, "LastBatch", publisher->batch);
    if (is_accepted)
        expect_unconfirmed(view);
    else if (yyjson_obj_get(view->root, "Unconfirmed") != NULL)
        fail("OpenPublisher names rows to somebody who is not the owner");
}

/* --- publishing --------------------------------------------------------------------------------------------------- */

static struct row_outcome delete_row(const struct reply_view *view, const struct entry *entry)
{
    struct model *model = &view->oracle->model;
    struct handle_of of = view->oracle->handle_of[entry->handle];
    int name = model->queues[of.queue].name;
    if (!model->queues[of.queue].exists || !model_is_deletable_by(model, name, of.queue, of.message, entry->handle))
        return (struct row_outcome){.fate = ROW_IS_STALE};
    enum error error = model_delete(model, name, of.queue, of.message, entry->handle);
    if (error != OK)
        fail("the model can't delete message %s, though it said so", model->messages[of.message].id);
    teach(view->lesson, FACT_ENDED, of.message, model->messages[of.message].id);
    return (struct row_outcome){.fate = ROW_IS_STORED, .is_done = true};
}

/* Does the server say that it has no room on the disk for what the row sends? */
static bool is_short_of_room(const struct reply_view *view, int row_id)
{
    yyjson_val *items = yyjson_obj_get(view->root, "Results");
    for (size_t i = 0; i < yyjson_arr_size(items); i++) {
        yyjson_val *item = yyjson_arr_get(items, i);
        if (number_in(view, item, "Id") == row_id)
            return yyjson_equals_str(yyjson_obj_get(item, "Code"), error_row(ERROR_DISK_IS_FULL)->query);
    }
    return false;
}

static struct row_outcome send_row(const struct reply_view *view, const struct entry *row, int *sent)
{
    struct model *model = &view->oracle->model;
    struct entry entry = model_entry_of_row(model, row);
    bool is_duplicate = false;
    if (model_find_queue(model, entry.queue) == NONE)
        return (struct row_outcome){.fate = ROW_IS_BLOCKED, .error = ERROR_QUEUE_DOES_NOT_EXIST};
    if (is_short_of_room(view, row->row_id))
        return (struct row_outcome){.fate = ROW_IS_BLOCKED, .error = ERROR_DISK_IS_FULL};
    enum error error = model_send(model, entry.queue, &entry, sent, &is_duplicate);
    if (error != OK)
        return (struct row_outcome){.fate = ROW_IS_REFUSED, .error = error};
    if (is_duplicate)
        *sent = NONE;
    return (struct row_outcome){.fate = is_duplicate ? ROW_IS_DUPLICATE : ROW_IS_STORED, .is_done = true};
}

/* How many rows the server put off because the record was full: those at the end, and never all. */
static unsigned count_put_off(const struct reply_view *view)
{
    yyjson_val *items = yyjson_obj_get(view->root, "Results"), *item;
    size_t index, size;
    unsigned count = 0;
    yyjson_arr_foreach(items, index, size, item)
    {
        bool is_put_off = yyjson_equals_str(yyjson_obj_get(item, "Code"), "OverLimit");
        if (count > 0 && !is_put_off)
            fail("Publish puts a row off and stores one behind it");
        count += is_put_off;
    }
    if (count >= view->operation->count)
        fail("Publish puts all its rows off");
    return count;
}

/* The rows' messages have got their numbers by now, and their ids with them; no reply says them. */
static void name_messages(const struct reply_view *view, const int *sent)
{
    struct model *model = &view->oracle->model;
    learn_numbers(view->oracle);
    for (unsigned i = 0; i < view->operation->count; i++) {
        if (sent[i] == NONE)
            continue;
        struct model_message *message = &model->messages[sent[i]];
        if (message->number == 0)
            fail("row %d was published, but no message was accepted", view->operation->entries[i].row_id);
        if (model->queues[message->queue].traits.is_fifo)
            message->said_sequence = message->number;
        teach(view->lesson, FACT_SENT, sent[i], message->id);
    }
}

static void expect_results(const struct reply_view *view, const struct row_outcome *outcomes, bool is_repeat)
{
    const struct operation *operation = view->operation;
    yyjson_val *items = yyjson_obj_get(view->root, "Results");
    size_t index = 0;
    int64_t stored = 0;
    for (unsigned i = 0; i < operation->count; i++) {
        enum row_is fate = outcomes[i].fate;
        if (fate == ROW_IS_STORED && is_repeat)
            fate = ROW_IS_DUPLICATE;
        if (fate == ROW_IS_STORED) {
            stored++;
            continue;
        }
        yyjson_val *item = yyjson_arr_get(items, index++);
        if (item == NULL || number_in(view, item, "Id") != operation->entries[i].row_id)
            fail("Publish should say of row %d that it is %s", operation->entries[i].row_id, fate_names[fate]);
        expect_text(view, item, "Status", fate_names[fate]);
        if (outcomes[i].error != OK)
            expect_text(view, item, "Code", error_row(outcomes[i].error)->query);
    }
    if (yyjson_arr_size(items) != index)
        fail("Publish says something of %zu rows; it should of %zu", yyjson_arr_size(items), index);
    expect_number(view, view->root, "Stored", stored);
}

static void decide_rows(const struct reply_view *view, struct row_outcome *outcomes, int *sent)
{
    const struct operation *operation = view->operation;
    unsigned put_off = count_put_off(view);
    for (unsigned i = 0; i < operation->count; i++) {
        const struct entry *entry = &operation->entries[i];
        sent[i] = NONE;
        outcomes[i] =
            (struct row_outcome){.fate = model_row_without_trying(&view->oracle->model, operation, outcomes, i)};
        if (i >= operation->count - put_off)
            outcomes[i] = (struct row_outcome){.fate = ROW_IS_PUT_OFF, .error = ERROR_OVER_LIMIT};
        else if (outcomes[i].fate == ROW_IS_STORED)
            outcomes[i] = entry->is_ack ? delete_row(view, entry) : send_row(view, entry, &sent[i]);
    }
}

void judge_publish(const struct reply_view *view)
{
    struct model *model = &view->oracle->model;
    bool is_repeat;
    enum error error = model_begin_publish(model, view->operation, &is_repeat);
    expect_error(view, error);
    if (error != OK)
        return;
    if (is_repeat) {
        expect_results(view, model->publishers[view->operation->publisher].outcomes, true);
        return;
    }
    struct row_outcome outcomes[ENTRIES_MAX];
    int sent[ENTRIES_MAX];
    decide_rows(view, outcomes, sent);
    model_end_publish(model, view->operation, outcomes);
    expect_results(view, outcomes, false);
    name_messages(view, sent);
}
