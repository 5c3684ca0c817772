/* Commit, in one step, all or nothing: it makes batches, adds units, sends, reports units and deletes messages. If it
 * deletes, reports or holds a unit of a sealed batch, other units may still join that batch.
 *
 * Order of the checks: the lists' lengths; each batch; each addition; each send; each unit's batch and report; the
 * queue of each delete and hold. Then decide_commit() checks, receipt handles first. An error of an entry names the
 * entry. */
#include "api/access.h"
#include "api/disk_limit.h"
#include "api/growth.h"
#include "api/receipt.h"
#include "api/send.h"
#include "api/state.h"
#include "core/messages/decide_commit.h"

#define SENDS_SIZE_MAX 1048576u

struct commit {
    struct commit_command command;
    struct send_parameters *sends; /* by command.sends */
};

/* --- faults ------------------------------------------------------------------------------------------------------- */

/* Puts the entry's name before the description of its fault. */
static enum error fail_entry(struct call *call, const char *list, size_t index, enum error error)
{
    struct failure entry = *call->failure;
    return call_fail(call, error, "%s[%zu]: %s", list, index,
                     entry.text[0] != '\0' ? entry.text : error_row(error)->text);
}

static enum error explain_send(struct call *call, const struct commit *commit, uint32_t index, enum error error)
{
    if (error == ERROR_UNSUPPORTED_OPERATION)
        call_fail(
            call, error,
            "it and something else that this Commit sends or makes may wait for each other by way of a batch or a "
            "line: send it by itself.");
    else
        send_fail(call, &commit->sends[index], error, &commit->command.sends[index].result);
    return fail_entry(call, "Sends", index, error);
}

static enum error explain_unit(struct call *call, const struct commit_unit *unit, uint32_t index, enum error error)
{
    int size = (int)(unit->report.key.size < 256 ? unit->report.key.size : 256);
    struct bytes batch = unit->batch->id_owned;
    if (error == ERROR_UNSUPPORTED_OPERATION)
        call_fail(call, error, "batch '%.*s' has Tracking xor, which knows no keys; use XorUnits.",
                  BYTES_FORMAT(batch));
    else
        call_fail(call, error, "batch '%.*s' has no external unit '%.*s'; nothing was done.", BYTES_FORMAT(batch), size,
                  (const char *)unit->report.key.ptr);
    return fail_entry(call, "Units", index, error);
}

static enum error explain_message(struct call *call, const char *list, const struct commit_message *entry,
                                  uint32_t index, enum error error)
{
    struct bytes handle = entry->handle;
    int size = (int)(handle.size < 100 ? handle.size : 100);
    if (error == ERROR_RECEIPT_HANDLE_IS_INVALID)
        call_fail(
            call, error,
            "\"%.*s\" holds no message of this queue: the message was delivered again, its visibility timeout is "
            "over (for Holds, or on a FIFO queue), or it has ended, maybe by this very Commit sent before. Nothing "
            "was done.",
            size, (const char *)handle.ptr);
    else
        call_fail(call, error, "the message of \"%.*s\" is among the Deletes or Holds already.", size,
                  (const char *)handle.ptr);
    return fail_entry(call, list, index, error);
}

static enum error explain_child(struct call *call, const struct create_batch_command *command, uint32_t index,
                                enum error error)
{
    if (error == ERROR_INVALID_PARAMETER_VALUE)
        call_fail(call, error, "batch '%.*s' is among the CreateBatches already.", BYTES_FORMAT(command->id));
    else if (error == ERROR_UNSUPPORTED_OPERATION)
        call_fail(call, error,
                  "it and an earlier batch of this Commit have completion messages that will stand behind messages "
                  "which wait, maybe for each other: create it by itself.");
    else
        call_fail_creation(call, command, error);
    return fail_entry(call, "CreateBatches", index, error);
}

static enum error explain_addition(struct call *call, struct bytes batch_id, uint32_t index, enum error error)
{
    if (error == ERROR_INVALID_PARAMETER_VALUE)
        call_fail(call, error, "batch '%.*s' is among the AddUnits already; put all its units into one entry.",
                  BYTES_FORMAT(batch_id));
    else
        call_fail_addition(call, batch_id, error);
    return fail_entry(call, "AddUnits", index, error);
}

static enum error explain(struct call *call, const struct commit *commit, const struct commit_fault *fault,
                          enum error error)
{
    const struct commit_command *command = &commit->command;
    switch (fault->part) {
    case COMMIT_SENDS:
        return explain_send(call, commit, fault->index, error);
    case COMMIT_UNITS:
        return explain_unit(call, &command->units[fault->index], fault->index, error);
    case COMMIT_DELETES:
        receipt_note_delete(call, command->deletes[fault->index].queue, &command->deletes[fault->index].use);
        return explain_message(call, "Deletes", &command->deletes[fault->index], fault->index, error);
    case COMMIT_HOLDS:
        receipt_note(call, &command->holds[fault->index].use);
        return explain_message(call, "Holds", &command->holds[fault->index], fault->index, error);
    case COMMIT_CHILDREN:
        return explain_child(call, &command->children[fault->index].command, fault->index, error);
    case COMMIT_ADDITIONS:
        return explain_addition(call, command->additions[fault->index].batch_id, fault->index, error);
    case COMMIT_WHOLE:
        break;
    }
    if (disk_limit_check_size(call) != OK)
        return ERROR_DISK_IS_FULL;
    return call_fail(call, error,
                     "With the completion messages that it may make due this Commit takes up to %llu bytes; one record "
                     "takes %llu. Make it smaller.",
                     (unsigned long long)fault->size, (unsigned long long)command->size_max);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* A list of up to `max` objects; *count is 0 if it is absent. */
static enum error read_list(struct call *call, const char *name, uint32_t max, yyjson_val **list, uint32_t *count)
{
    enum error error = params_list(&call->params, name, list);
    if (error != OK)
        return error;
    size_t size = yyjson_arr_size(*list);
    if (size > max)
        return call_fail(call, ERROR_TOO_MANY_ENTRIES, "%s holds %zu entries; a Commit takes at most %u.", name, size,
                         max);
    for (size_t i = 0; i < size; i++)
        if (!yyjson_is_obj(yyjson_arr_get(*list, i)))
            return call_fail(call, ERROR_SERIALIZATION, "%s[%zu] is not an object.", name, i);
    *count = (uint32_t)size;
    return OK;
}

static enum error read_send(struct call *call, const struct params *entry, struct commit_send *send,
                            struct send_parameters *parameters)
{
    struct queue *queue;
    enum error error = call_find_queue(call, entry, &queue);
    if (error == OK)
        error = send_read_moved(call, entry, queue, parameters);
    if (error == OK)
        *send = (struct commit_send){.command = send_command_of(call, parameters)};
    return error;
}

static enum error read_sends(struct call *call, yyjson_val *list, struct commit *commit)
{
    uint32_t count = commit->command.send_count;
    size_t sum = 0;
    commit->sends = arena_allocate(call->arena, count * sizeof(*commit->sends));
    commit->command.sends = arena_allocate(call->arena, count * sizeof(*commit->command.sends));
    for (uint32_t i = 0; i < count; i++) {
        struct params entry = {.object = yyjson_arr_get(list, i), .failure = call->failure};
        enum error error = read_send(call, &entry, &commit->command.sends[i], &commit->sends[i]);
        if (error != OK)
            return fail_entry(call, "Sends", i, error);
        sum += commit->sends[i].given_size;
    }
    if (sum > SENDS_SIZE_MAX)
        return call_fail(call, ERROR_BATCH_REQUEST_TOO_LONG,
                         "The sends of a Commit cannot be longer than %u bytes in sum. You have sent %zu bytes.",
                         SENDS_SIZE_MAX, sum);
    return OK;
}

static enum error read_units(struct call *call, yyjson_val *list, struct commit *commit)
{
    uint32_t count = commit->command.unit_count;
    commit->command.units = arena_allocate(call->arena, count * sizeof(*commit->command.units));
    for (uint32_t i = 0; i < count; i++) {
        struct params entry = {.object = yyjson_arr_get(list, i), .failure = call->failure};
        struct commit_unit *unit = &commit->command.units[i];
        *unit = (struct commit_unit){0};
        enum error error = call_find_batch(call, &entry, &unit->batch);
        if (error == OK)
            error = call_read_report(call, entry.object, i, &unit->report);
        if (error != OK)
            return fail_entry(call, "Units", i, error);
    }
    return OK;
}

static enum error read_messages(struct call *call, const char *name, yyjson_val *list, uint32_t count,
                                struct commit_message **messages)
{
    *messages = arena_allocate(call->arena, count * sizeof(**messages));
    for (uint32_t i = 0; i < count; i++) {
        struct params entry = {.object = yyjson_arr_get(list, i), .failure = call->failure};
        struct commit_message *message = &(*messages)[i];
        *message = (struct commit_message){0};
        enum error error = call_find_queue(call, &entry, &message->queue);
        if (error == OK)
            error = params_required_text(&entry, "ReceiptHandle", &message->handle);
        if (error != OK)
            return fail_entry(call, name, i, error);
    }
    return OK;
}

/* An id that Tally gives would differ each time that the Commit is repeated. */
static enum error read_children(struct call *call, yyjson_val *list, struct commit_command *command)
{
    command->children = arena_allocate(call->arena, command->child_count * sizeof(*command->children));
    for (uint32_t i = 0; i < command->child_count; i++) {
        struct params entry = {.object = yyjson_arr_get(list, i), .failure = call->failure};
        struct bytes id;
        command->children[i] = (struct commit_child){0};
        enum error error = params_required_text(&entry, "BatchId", &id);
        if (error == OK)
            error = call_read_creation(call, &entry, &command->children[i].command);
        if (error != OK)
            return fail_entry(call, "CreateBatches", i, error);
    }
    return OK;
}

/* A batch that this Commit makes is within reach; otherwise read_children() would have refused it. */
static bool makes_batch(const struct commit_command *command, struct bytes id)
{
    for (uint32_t i = 0; i < command->child_count; i++)
        if (bytes_equal(command->children[i].command.id, id))
            return true;
    return false;
}

static enum error read_additions(struct call *call, yyjson_val *list, struct commit_command *command)
{
    command->additions = arena_allocate(call->arena, command->addition_count * sizeof(*command->additions));
    for (uint32_t i = 0; i < command->addition_count; i++) {
        struct params entry = {.object = yyjson_arr_get(list, i), .failure = call->failure};
        struct commit_addition *addition = &command->additions[i];
        const struct batch *batch;
        *addition = (struct commit_addition){0};
        enum error error = params_required_text(&entry, "BatchId", &addition->batch_id);
        if (error == OK && !makes_batch(command, addition->batch_id))
            error = call_find_batch(call, &entry, &batch);
        if (error == OK)
            error = call_read_addition(call, &entry, &addition->command);
        if (error != OK)
            return fail_entry(call, "AddUnits", i, error);
    }
    return OK;
}

/* The lists of the request; NULL if one is absent. */
struct lists {
    yyjson_val *children, *additions, *sends, *units, *deletes, *holds;
};

static enum error read_lists(struct call *call, struct commit_command *command, struct lists *lists)
{
    const struct {
        const char *name;
        uint32_t max;
        yyjson_val **list;
        uint32_t *count;
    } rows[] = {
        {"CreateBatches", COMMIT_CHILDREN_MAX, &lists->children, &command->child_count},
        {"AddUnits", COMMIT_ADDITIONS_MAX, &lists->additions, &command->addition_count},
        {"Sends", COMMIT_SENDS_MAX, &lists->sends, &command->send_count},
        {"Units", COMMIT_UNITS_MAX, &lists->units, &command->unit_count},
        {"Deletes", COMMIT_DELETES_MAX, &lists->deletes, &command->delete_count},
        {"Holds", COMMIT_HOLDS_MAX, &lists->holds, &command->hold_count},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        enum error error = read_list(call, rows[i].name, rows[i].max, rows[i].list, rows[i].count);
        if (error != OK)
            return error;
    }
    return OK;
}

static enum error check_rights(struct call *call, const struct commit_command *command)
{
    const uint32_t written = command->child_count + command->addition_count + command->send_count + command->unit_count;
    if (written + command->delete_count == 0)
        return call_fail(call, ERROR_EMPTY_BATCH_REQUEST,
                         "A Commit needs at least one entry in Sends, Units, Deletes, AddUnits or CreateBatches.");
    enum error error = written > 0 ? access_check_right(call, RIGHT_WRITE) : OK;
    if (error == OK && command->delete_count + command->hold_count > 0)
        error = access_check_right(call, RIGHT_READ);
    return error;
}

static enum error read_commit(struct call *call, struct commit *commit)
{
    struct commit_command *command = &commit->command;
    struct lists lists;
    *commit = (struct commit){.command = {.size_max = namespace_decision_size_max(call->ns)}};
    enum error error = read_lists(call, command, &lists);
    if (error == OK)
        error = check_rights(call, command);
    if (error == OK)
        error = read_children(call, lists.children, command);
    if (error == OK)
        error = read_additions(call, lists.additions, command);
    if (error == OK)
        error = read_sends(call, lists.sends, commit);
    if (error == OK)
        error = read_units(call, lists.units, commit);
    if (error == OK)
        error = read_messages(call, "Deletes", lists.deletes, command->delete_count, &command->deletes);
    return error == OK ? read_messages(call, "Holds", lists.holds, command->hold_count, &command->holds) : error;
}

/* --- the reply ---------------------------------------------------------------------------------------------------- */

static void write_children(struct call *call, const struct commit_command *command)
{
    if (command->child_count == 0)
        return;
    writer_list_begin(call->reply, "CreateBatches");
    for (uint32_t i = 0; i < command->child_count; i++) {
        const struct batch *batch = core_find_batch(call->core, command->children[i].command.id);
        writer_object_begin(call->reply, NULL);
        writer_text(call->reply, "BatchId", batch->id_owned);
        writer_string(call->reply, "State", batch_state_name(batch->state));
        writer_object_end(call->reply);
    }
    writer_list_end(call->reply);
}

static void write_additions(struct call *call, const struct commit_command *command)
{
    if (command->addition_count == 0)
        return;
    writer_list_begin(call->reply, "AddUnits");
    for (uint32_t i = 0; i < command->addition_count; i++) {
        const struct batch *batch = core_find_batch(call->core, command->additions[i].batch_id);
        writer_object_begin(call->reply, NULL);
        writer_text(call->reply, "BatchId", batch->id_owned);
        writer_number(call->reply, "Added", command->additions[i].added);
        writer_number(call->reply, "Total", batch_counts(batch).total);
        writer_object_end(call->reply);
    }
    writer_list_end(call->reply);
}

static void write_sends(struct call *call, const struct commit *commit)
{
    if (commit->command.send_count == 0)
        return;
    writer_list_begin(call->reply, "Sends");
    for (uint32_t i = 0; i < commit->command.send_count; i++) {
        writer_object_begin(call->reply, NULL);
        send_write_reply(call, &commit->sends[i], &commit->command.sends[i].result);
        writer_object_end(call->reply);
    }
    writer_list_end(call->reply);
}

static void write_units(struct call *call, const struct commit_command *command)
{
    if (command->unit_count == 0)
        return;
    writer_list_begin(call->reply, "Units");
    for (uint32_t i = 0; i < command->unit_count; i++) {
        const struct commit_unit *unit = &command->units[i];
        writer_object_begin(call->reply, NULL);
        writer_text(call->reply, "BatchId", unit->batch->id_owned);
        writer_text(call->reply, "Unit", unit->report.key);
        writer_boolean(call->reply, "Recorded", unit->report.is_recorded);
        writer_boolean(call->reply, "Completed", unit->is_completed);
        writer_object_end(call->reply);
    }
    writer_list_end(call->reply);
}

/* The steps of a pipeline end a message for each that they send. They must go on at the limit, or nothing could be
 * worked off. */
static enum growth growth_of(const struct commit_command *command)
{
    if (command->child_count + command->addition_count > 0)
        return GROWTH_NEW;
    if (command->send_count == 0)
        return GROWTH_NONE;
    return command->send_count <= command->delete_count ? GROWTH_LITTLE : GROWTH_NEW;
}

enum error action_commit(struct call *call)
{
    struct commit commit;
    struct commit_fault fault;
    enum error error = read_commit(call, &commit);
    if (error == OK)
        error = growth_check(call, growth_of(&commit.command));
    if (error != OK)
        return error;
    error = decide_commit(call->core, &commit.command, &fault);
    if (error != OK)
        return explain(call, &commit, &fault, error);
    for (uint32_t i = 0; i < commit.command.delete_count; i++)
        receipt_note_delete(call, commit.command.deletes[i].queue, &commit.command.deletes[i].use);
    write_children(call, &commit.command);
    write_additions(call, &commit.command);
    write_sends(call, &commit);
    write_units(call, &commit.command);
    return OK;
}
