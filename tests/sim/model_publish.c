/* Publishers: which rows are known, who may publish, and what becomes of each row of a batch. */
#include "model.h"

#include "base/assert.h"
#include <string.h>

#define CONFIRMED_MS 600000u

/* Ids that a FIFO queue gives rows which have none: apart from those that clients give, and from digests. */
#define ID_OF_ROW 10000000

static bool is_over(const struct model *model, const struct model_row *row)
{
    return row->confirmed_at != 0 && row->confirmed_at + CONFIRMED_MS <= model->now;
}

static bool knows_row(const struct model *model, int publisher, int uid)
{
    for (int i = 0; i < model->row_count; i++)
        if (model->rows[i].publisher == publisher && model->rows[i].uid == uid && !is_over(model, &model->rows[i]))
            return true;
    return false;
}

unsigned model_count_rows(const struct model *model)
{
    unsigned count = 0;
    for (int i = 0; i < model->row_count; i++)
        count += !is_over(model, &model->rows[i]);
    return count;
}

static bool is_forgotten(const struct model *model, int publisher, int id)
{
    for (int i = 0; i < model->row_count; i++)
        if (model->rows[i].publisher == publisher && model->rows[i].id == id && is_over(model, &model->rows[i]))
            return true;
    return false;
}

bool model_open_publisher(struct model *model, const struct operation *operation)
{
    struct model_publisher *publisher = &model->publishers[operation->publisher];
    if (operation->epoch > publisher->epoch) {
        publisher->epoch = operation->epoch;
        publisher->owner = operation->owner;
    }
    return operation->epoch == publisher->epoch && operation->owner == publisher->owner;
}

enum error model_begin_publish(const struct model *model, const struct operation *operation, bool *is_repeat)
{
    const struct model_publisher *publisher = &model->publishers[operation->publisher];
    *is_repeat = operation->publish_batch == publisher->batch;
    if (operation->confirmed_batch >= operation->publish_batch)
        return ERROR_INVALID_PARAMETER_VALUE;
    if (operation->epoch != publisher->epoch || operation->owner != publisher->owner)
        return ERROR_PUBLISHER_FENCED;
    if (!*is_repeat)
        return operation->publish_batch == publisher->batch + 1 ? OK : ERROR_PUBLISHER_BATCH_OUT_OF_ORDER;
    bool is_same = publisher->count == operation->count;
    for (unsigned i = 0; i < operation->count && is_same; i++)
        is_same =
            publisher->ids[i] == operation->entries[i].row_id && publisher->uids[i] == operation->entries[i].row_uid;
    return is_same ? OK : ERROR_PUBLISHER_BATCH_CONFLICT;
}

/* Must the row wait for one before it that stays behind? */
static bool is_behind(const struct operation *operation, const struct row_outcome *outcomes, unsigned index)
{
    for (unsigned i = 0; i < index; i++) {
        bool is_left =
            outcomes[i].fate == ROW_IS_BLOCKED || (outcomes[i].fate == ROW_IS_REFUSED && operation->blocks_refused);
        bool is_of_group =
            operation->entries[index].group != NONE && operation->entries[i].group == operation->entries[index].group;
        if (is_left && (operation->is_strict || is_of_group))
            return true;
    }
    return false;
}

enum row_is model_row_without_trying(const struct model *model, const struct operation *operation,
                                     const struct row_outcome *outcomes, unsigned index)
{
    const struct entry *entry = &operation->entries[index];
    bool is_known = knows_row(model, operation->publisher, entry->row_uid);
    for (unsigned i = 0; i < index; i++)
        is_known = is_known || (operation->entries[i].row_uid == entry->row_uid && outcomes[i].is_done);
    if (is_known)
        return ROW_IS_DUPLICATE;
    if (is_forgotten(model, operation->publisher, entry->row_id))
        return ROW_IS_TOO_OLD;
    return is_behind(operation, outcomes, index) ? ROW_IS_HELD : ROW_IS_STORED;
}

struct entry model_entry_of_row(const struct model *model, const struct entry *row)
{
    struct entry entry = *row;
    int queue = model_find_queue(model, row->queue);
    if (queue != NONE && model->queues[queue].traits.is_fifo && row->dedup == NONE && row->producer == NONE)
        entry.dedup = ID_OF_ROW + row->row_uid;
    return entry;
}

static void confirm(struct model *model, int publisher, int batch)
{
    for (int i = 0; i < model->row_count; i++) {
        struct model_row *row = &model->rows[i];
        if (row->publisher == publisher && row->confirmed_at == 0 && row->batch <= batch)
            row->confirmed_at = model->now;
    }
}

void model_end_publish(struct model *model, const struct operation *operation, const struct row_outcome *outcomes)
{
    struct model_publisher *publisher = &model->publishers[operation->publisher];
    confirm(model, operation->publisher, operation->confirmed_batch);
    publisher->batch = operation->publish_batch;
    publisher->count = operation->count;
    for (unsigned i = 0; i < operation->count; i++) {
        const struct entry *entry = &operation->entries[i];
        publisher->ids[i] = entry->row_id;
        publisher->uids[i] = entry->row_uid;
        publisher->outcomes[i] = outcomes[i];
        if (!outcomes[i].is_done)
            continue;
        ASSERT(model->row_count < MODEL_ROWS_MAX);
        model->rows[model->row_count++] = (struct model_row){.publisher = operation->publisher,
                                                             .id = entry->row_id,
                                                             .uid = entry->row_uid,
                                                             .batch = operation->publish_batch};
    }
}
