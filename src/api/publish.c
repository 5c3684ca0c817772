/* Publish: a batch of rows of a publisher, stored once (docs/reference/publishers.md).
 *
 * Order of the checks: the lengths and the names of all rows, then the checks of decide_publish_begin(). Either refuses
 * the whole batch. Then, for each row: whether it is known; its queue, or the queue of its receipt handle; then the
 * checks of SendMessage. A fault found there is the result of that row. */
#include "api/access.h"
#include "api/growth.h"
#include "api/publisher.h"
#include "api/reach.h"
#include "api/receipt.h"
#include "api/send.h"
#include "api/state.h"
#include "core/publishers/decide_publish.h"

/* How many bytes of a refused row's message are kept for a repeat of the batch. */
#define REASON_SIZE_MAX 300

/* --- reading the batch -------------------------------------------------------------------------------------------- */

/* The fields of a row that are checked before its turn comes. */
struct row {
    yyjson_val *object;
    yyjson_val *id;
    yyjson_val *uid;
    struct bytes group;
    bool is_ack;
};

struct batch_of_rows {
    struct publish_command command;
    struct row *rows;
};

static bool is_named(yyjson_val *key, const char *name, size_t size)
{
    return yyjson_get_len(key) == size && memcmp(yyjson_get_str(key), name, size) == 0;
}

/* Goes through the members once: a thousand rows are read before the first is decided. */
static struct row read_row_members(yyjson_val *object)
{
    struct row row = {.object = object};
    size_t index, count;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, index, count, key, value)
    {
        if (is_named(key, "Id", 2))
            row.id = value;
        else if (is_named(key, "Uid", 3))
            row.uid = value;
        else if (is_named(key, "MessageGroupId", 14))
            row.group = params_bytes(value);
        else if (is_named(key, "ReceiptHandle", 13))
            row.is_ack = true;
    }
    return row;
}

/* Reads the usual forms at once. Other values are read again, to find the error message. */
static enum error read_name(struct call *call, const struct row *row, uint8_t name[PUBLISHER_ROW_SIZE])
{
    struct params params = {.object = row->object, .failure = call->failure};
    if (!yyjson_is_obj(row->object))
        return call_fail(call, ERROR_SERIALIZATION, "It is not an object.");
    uint64_t id = yyjson_get_uint(row->id);
    enum error error = OK;
    if (id == 0 || id > INT64_MAX)
        error = publisher_read_number(&params, "Id", 1, &id);
    if (error == OK && !identity_from_text(params_bytes(row->uid), name + sizeof(id)))
        error = publisher_read_uuid(&params, "Uid", name + sizeof(id));
    if (error == OK)
        bytes_put_u64(name, id);
    return error;
}

static enum error fail_row(struct call *call, size_t index, enum error error)
{
    struct failure row = *call->failure;
    return call_fail(call, error, "Rows[%zu]: %s", index, row.text);
}

static enum error read_rows(struct call *call, yyjson_val *list, struct batch_of_rows *batch)
{
    size_t index, count = yyjson_arr_size(list);
    if (count == 0)
        return call_fail(call, ERROR_EMPTY_BATCH_REQUEST, "Rows must hold at least one row.");
    if (count > PUBLISHER_ROWS_MAX)
        return call_fail(call, ERROR_TOO_MANY_ENTRIES, "Rows holds %zu rows; a Publish takes at most %u.", count,
                         PUBLISHER_ROWS_MAX);
    uint8_t *names = arena_allocate(call->arena, count * PUBLISHER_ROW_SIZE);
    batch->rows = arena_allocate(call->arena, count * sizeof(*batch->rows));
    yyjson_val *item;
    yyjson_arr_foreach(list, index, count, item)
    {
        batch->rows[index] = read_row_members(item);
        enum error error = read_name(call, &batch->rows[index], names + index * PUBLISHER_ROW_SIZE);
        if (error != OK)
            return fail_row(call, index, error);
    }
    batch->command.rows = bytes_make(names, count * PUBLISHER_ROW_SIZE);
    return OK;
}

/* One of two words; absent: the first. */
static enum error read_choice(struct call *call, const char *name, const char *first, const char *second,
                              const char *reason, bool *is_second)
{
    struct bytes text = {NULL, 0};
    enum error error = params_text(&call->params, name, &text);
    *is_second = bytes_equal(text, bytes_from_string(second));
    if (error == OK && text.ptr != NULL && !*is_second && !bytes_equal(text, bytes_from_string(first)))
        return params_invalid(&call->params, name, text, reason);
    return error;
}

static enum error read_batch(struct call *call, struct batch_of_rows *batch)
{
    struct publisher_claim claim;
    yyjson_val *list = NULL;
    struct publish_command *command = &batch->command;
    *command = (struct publish_command){.size_max = namespace_decision_size_max(call->ns)};
    enum error error = publisher_claim_read(call, &claim);
    if (error == OK)
        error = publisher_read_number(&call->params, "Batch", 1, &command->batch);
    if (error == OK)
        error = publisher_read_number(&call->params, "ConfirmedBatch", 0, &command->confirmed_batch);
    if (error == OK && command->confirmed_batch >= command->batch)
        error = call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                          "ConfirmedBatch is %llu and must be below Batch, which is %llu.",
                          (unsigned long long)command->confirmed_batch, (unsigned long long)command->batch);
    if (error == OK)
        error = read_choice(call, "Order", "group", "strict", "It must be group or strict.", &command->is_strict);
    if (error == OK)
        error = read_choice(call, "Refused", "park", "block", "It must be park or block.", &command->blocks_refused);
    if (error == OK)
        error = params_list(&call->params, "Rows", &list);
    if (error != OK)
        return error;
    memcpy(command->publisher, claim.publisher, PUBLISHER_ID_SIZE);
    memcpy(command->owner, claim.owner, PUBLISHER_ID_SIZE);
    command->epoch = claim.epoch;
    return read_rows(call, list, batch);
}

/* --- faults of the batch ------------------------------------------------------------------------------------------ */

static enum error fail_fenced(struct call *call, const struct publish_command *command,
                              const struct publisher *publisher)
{
    if (publisher == NULL)
        return call_fail(call, ERROR_PUBLISHER_FENCED, "This publisher was never opened; call OpenPublisher first.");
    char owner[IDENTITY_TEXT_SIZE];
    identity_to_text(publisher->owner, owner);
    return call_fail(call, ERROR_PUBLISHER_FENCED,
                     "The publisher belongs to owner %.*s with epoch %llu; this Publish comes from another one, with "
                     "epoch %llu.",
                     IDENTITY_TEXT_SIZE, owner, (unsigned long long)publisher->epoch,
                     (unsigned long long)command->epoch);
}

static enum error explain(struct call *call, const struct publish_command *command, enum error error)
{
    const struct publisher *publisher = decide_find_publisher(call->core, command->publisher);
    switch (error) {
    case ERROR_PUBLISHER_FENCED:
        return fail_fenced(call, command, publisher);
    case ERROR_PUBLISHER_BATCH_OUT_OF_ORDER:
        return call_fail(
            call, error,
            "Batch is %llu; the last one was %llu, so it must be that one again or %llu. Nothing was done.",
            (unsigned long long)command->batch, (unsigned long long)publisher->batch,
            (unsigned long long)publisher->batch + 1);
    case ERROR_PUBLISHER_BATCH_CONFLICT:
        return call_fail(call, error, "Batch %llu has been published with other rows. Nothing was done.",
                         (unsigned long long)command->batch);
    case ERROR_PUBLISHER_IS_FULL:
        return call_fail(
            call, error,
            "With this batch, more than %u rows might be unconfirmed; there are %u. Delete them from their "
            "source and say so with ConfirmedBatch. Nothing was done.",
            PUBLISHER_UNCONFIRMED_MAX, publisher->unconfirmed_count);
    default:
        return call_fail(call, error, "One record takes %llu bytes, too few for so many rows. Publish fewer at once.",
                         (unsigned long long)command->size_max);
    }
}

/* --- one row ------------------------------------------------------------------------------------------------------ */

/* The call's failure becomes the row's result. The publisher keeps it until its next batch. If memory for kept things
 * is full, only the code is kept. A Publish itself is not refused then, because its other rows may end something. */
static void note_fault(struct call *call, struct publication *publication, enum row_fate fate, enum error error)
{
    const struct error_row *row = error_row(error);
    struct failure cut;
    failure_set(&cut, error, "%.*s", REASON_SIZE_MAX, call->failure->text[0] != '\0' ? call->failure->text : row->text);
    if (growth_check(call, GROWTH_LITTLE) != OK)
        cut.text[0] = '\0';
    decide_publish_fault(call->core, publication, fate, bytes_from_string(row->query), bytes_from_string(cut.text));
}

static void publish_message(struct call *call, struct publication *publication, const struct row *row,
                            const struct params *params)
{
    struct queue *queue;
    struct send_parameters send;
    struct send_result result;
    struct bytes url;
    enum error error = params_required_text(params, "QueueUrl", &url);
    if (error != OK) {
        note_fault(call, publication, ROW_REFUSED, error);
        return;
    }
    error = call_find_queue(call, params, &queue);
    if (error != OK) {
        note_fault(call, publication, ROW_BLOCKED, error);
        return;
    }
    /* Refused row by row: rows that end messages must go on while memory is full, whether in this batch or in the
     * next. */
    error = growth_check(call, GROWTH_NEW);
    if (error != OK) {
        call->failure->text[0] = '\0'; /* the general text would be kept for each of a thousand rows */
        note_fault(call, publication, ROW_BLOCKED, error);
        return;
    }
    /* If the row needs a deduplication id and has none, its uid is the id. */
    error = send_read(call, params, queue, SEND_IN_ENTRY, params_bytes(row->uid), &send);
    if (error == OK) {
        struct send_command command = send_command_of(call, &send);
        error = decide_publish_send(call->core, publication, &command, &result);
        if (error != OK)
            error = send_fail(call, &send, error, &result);
    }
    if (error != OK)
        note_fault(call, publication, ROW_REFUSED, error);
}

/* May the caller delete messages of the queue? */
static enum error check_delete(struct call *call, const struct queue *queue)
{
    enum error error = access_check_right(call, RIGHT_READ);
    if (error != OK || reach_queue_id(call, queue->id))
        return error;
    return call_fail(call, ERROR_ACCESS_DENIED,
                     "Access is denied: the credential %.*s does not cover the queue of this receipt handle.",
                     BYTES_FORMAT(call->caller->access_key));
}

static void publish_delete(struct call *call, struct publication *publication, const struct params *row)
{
    struct handle handle;
    struct bytes text = {NULL, 0};
    enum error error = params_required_text(row, "ReceiptHandle", &text);
    if (error == OK && !handle_from_text(call_digest(call), text, &handle))
        error = call_fail_handle(call, text);
    if (error != OK) {
        note_fault(call, publication, ROW_REFUSED, error);
        return;
    }
    struct queue *queue = core_find_queue_by_id(call->core, handle.queue);
    error = queue == NULL ? OK : check_delete(call, queue);
    if (error != OK) {
        note_fault(call, publication, ROW_BLOCKED, error);
        return;
    }
    struct receipt_use use;
    decide_publish_delete(call->core, publication, queue, text, &use);
    if (queue != NULL)
        receipt_note_delete(call, queue, &use);
}

static void publish_rows(struct call *call, struct publication *publication, const struct row *rows)
{
    for (uint32_t i = 0; i < publication->row_count; i++) {
        struct params params = {.object = rows[i].object, .failure = call->failure};
        call->failure->text[0] = '\0';
        if (decide_publish_known(call->core, publication, rows[i].group))
            continue;
        if (rows[i].is_ack)
            publish_delete(call, publication, &params);
        else
            publish_message(call, publication, &rows[i], &params);
    }
}

/* --- the reply ---------------------------------------------------------------------------------------------------- */

static const char *fate_name(enum row_fate fate)
{
    static const char *const names[] = {
        [ROW_DUPLICATE] = "duplicate", [ROW_TOO_OLD] = "too-old", [ROW_REFUSED] = "refused", [ROW_BLOCKED] = "blocked",
        [ROW_STALE] = "stale",         [ROW_PUT_OFF] = "blocked", [ROW_HELD] = "held",
    };
    return names[fate];
}

static void write_row(struct call *call, uint64_t id, const struct row_result *result)
{
    struct writer *reply = call->reply;
    writer_object_begin(reply, NULL);
    writer_number(reply, "Id", id);
    writer_string(reply, "Status", fate_name(result->fate));
    if (result->code.size > 0)
        writer_text(reply, "Code", result->code);
    if (result->text.size > 0)
        writer_text(reply, "Message", result->text);
    if (result->fate == ROW_PUT_OFF) {
        writer_string(reply, "Code", error_row(ERROR_OVER_LIMIT)->query);
        writer_string(reply, "Message",
                      "The rows before it filled a record of the log, or took all the time that a request has. Publish "
                      "it again.");
    }
    writer_object_end(reply);
}

/* In a repeat, the rows without a result were stored before. */
static void write_reply(struct call *call, const struct publish_command *command, struct bytes results, bool is_repeat)
{
    uint32_t count = (uint32_t)(command->rows.size / PUBLISHER_ROW_SIZE), stored = 0;
    struct cursor cursor = cursor_make(results);
    struct row_result result = {.index = count};
    if (results.size > 0)
        row_result_decode(&cursor, count, &result);
    writer_list_begin(call->reply, "Results");
    for (uint32_t i = 0; i < count; i++) {
        uint64_t id = bytes_get_u64(command->rows.ptr + (size_t)i * PUBLISHER_ROW_SIZE);
        if (i < result.index) {
            stored += !is_repeat;
            if (is_repeat)
                write_row(call, id, &(struct row_result){.fate = ROW_DUPLICATE});
            continue;
        }
        write_row(call, id, &result);
        if (cursor.rest.size == 0 || !row_result_decode(&cursor, count, &result))
            result.index = count;
    }
    writer_list_end(call->reply);
    writer_number(call->reply, "Stored", stored);
}

enum error action_publish(struct call *call)
{
    struct batch_of_rows batch;
    struct publication publication;
    bool is_repeat;
    enum error error = read_batch(call, &batch);
    if (error != OK)
        return error;
    error = decide_publish_begin(call->core, &batch.command, &publication, &is_repeat);
    if (error != OK)
        return explain(call, &batch.command, error);
    if (is_repeat) {
        const struct publisher *publisher = decide_find_publisher(call->core, batch.command.publisher);
        write_reply(call, &batch.command, publisher->results_owned, true);
        return OK;
    }
    publish_rows(call, &publication, batch.rows);
    decide_publish_end(call->core, &publication);
    write_reply(call, &batch.command, buffer_bytes(&publication.results), false);
    decide_publish_deinit(&publication);
    return OK;
}
