/* AddUnits: external units, given by their keys or as a count. */
#include "api/action.h"
#include "api/text.h"

#define KEYS_MAX 100000u

static enum error read_keys(struct call *call, yyjson_val *list, struct add_units_command *command)
{
    size_t count = yyjson_arr_size(list);
    if (count == 0 || count > KEYS_MAX)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Units holds %zu keys; give 1 to %u in one request.",
                         count, KEYS_MAX);
    struct bytes *keys = arena_allocate(call->arena, count * sizeof(*keys));
    size_t index;
    yyjson_val *item;
    yyjson_arr_foreach(list, index, count, item)
    {
        if (!yyjson_is_str(item))
            return call_fail(call, ERROR_SERIALIZATION, "Unit %zu of Units is not a String.", index);
        keys[index] = params_bytes(item);
        if (keys[index].size < 1 || keys[index].size > LEDGER_KEY_SIZE_MAX)
            return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Unit %zu of Units has %zu bytes; a key has 1 to %u.",
                             index, keys[index].size, LEDGER_KEY_SIZE_MAX);
        if (!text_is_allowed(keys[index]))
            return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                             "Unit %zu of Units contains characters that are not allowed.", index);
    }
    command->keys = keys;
    command->key_count = (uint32_t)count;
    return OK;
}

enum error call_read_addition(struct call *call, const struct params *params, struct add_units_command *command)
{
    yyjson_val *list;
    int64_t count = -1;
    *command = (struct add_units_command){0};
    enum error error = params_list(params, "Units", &list);
    if (error == OK)
        error = params_integer_in(params, "Count", 0, LEDGER_UNITS_MAX, "It must be from 0 to 100000000.", &count);
    if (error != OK)
        return error;
    if ((list != NULL) == (count >= 0))
        return call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain either Units or Count.");
    if (list != NULL)
        return read_keys(call, list, command);
    command->count = (uint32_t)count;
    return OK;
}

enum error call_fail_addition(struct call *call, struct bytes batch_id, enum error error)
{
    const struct batch *batch = core_find_batch(call->core, batch_id);
    int size = (int)(batch_id.size < BATCH_ID_SIZE_MAX ? batch_id.size : BATCH_ID_SIZE_MAX);
    const char *id = (const char *)batch_id.ptr;
    switch (error) {
    case ERROR_UNSUPPORTED_OPERATION:
        return call_fail(call, error, "Batch '%.*s' has Tracking xor, which knows no keys; use XorUnits.", size, id);
    case ERROR_BATCH_SEALED:
        return call_fail(call, error, "Batch '%.*s' %.*s", size, id, BYTES_FORMAT(call_closed_words(call, batch_id)));
    case ERROR_BATCH_TOTAL_EXCEEDED:
        if (batch == NULL) /* one that this Commit would make */
            return call_fail(call, error, "Batch '%.*s' would have more units than its Total.", size, id);
        return call_fail(call, error, "Batch '%.*s' would have more units than its Total, %llu; nothing was added.",
                         size, id, (unsigned long long)batch->spec.total + batch->grown);
    default:
        return call_fail(call, error, "Batch '%.*s' would have more than %u units; nothing was added.", size, id,
                         LEDGER_UNITS_MAX);
    }
}

enum error action_add_units(struct call *call)
{
    const struct batch *batch;
    struct add_units_command command;
    enum error error = call_batch(call, &batch);
    if (error == OK)
        error = call_read_addition(call, &call->params, &command);
    if (error != OK)
        return error;
    uint32_t added;
    error = decide_add_units(call->core, batch, &command, &added);
    if (error != OK)
        return call_fail_addition(call, batch->id_owned, error);
    writer_number(call->reply, "Added", added);
    writer_number(call->reply, "Total", batch_counts(batch).total);
    return OK;
}
