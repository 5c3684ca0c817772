/* XorUnits: what starts and ends in an xor ledger, once for each token. */
#include "api/action.h"
#include "api/text.h"

#define VALUE_DIGITS 16u

static enum error read_value(struct call *call, uint64_t *value)
{
    struct bytes text = {NULL, 0};
    uint8_t bytes[VALUE_DIGITS / 2];
    enum error error = params_required_text(&call->params, "Value", &text);
    if (error != OK)
        return error;
    if (text.size != VALUE_DIGITS || !bytes_from_hex(text, bytes, sizeof(bytes)))
        return params_invalid(&call->params, "Value", text, "It must be 16 hexadecimal digits.");
    *value = 0;
    for (unsigned i = 0; i < sizeof(bytes); i++)
        *value = *value << 8 | bytes[i];
    return OK;
}

static enum error read_command(struct call *call, struct xor_command *command)
{
    int64_t registered = 0, finished = 0;
    *command = (struct xor_command){0};
    enum error error = read_value(call, &command->value);
    if (error == OK)
        error = params_required_text(&call->params, "RequestToken", &command->token);
    if (error == OK && !text_is_identifier(command->token, BATCH_TOKEN_SIZE_MAX))
        error = params_invalid(&call->params, "RequestToken", command->token,
                               "It can only include ASCII letters, digits and punctuation, 1 to 128 of them.");
    if (error == OK)
        error = params_integer_in(&call->params, "Registered", 0, LEDGER_UNITS_MAX, "It must be from 0 to 100000000.",
                                  &registered);
    if (error == OK)
        error = params_integer_in(&call->params, "Finished", 0, LEDGER_UNITS_MAX, "It must be from 0 to 100000000.",
                                  &finished);
    command->registered = (uint32_t)registered;
    command->finished = (uint32_t)finished;
    return error;
}

static enum error explain(struct call *call, const struct batch *batch, const struct xor_command *command,
                          enum error error)
{
    switch (error) {
    case ERROR_UNSUPPORTED_OPERATION:
        return call_fail(call, error, "Batch '%.*s' has Tracking exact; use AddUnits and CompleteUnits.",
                         BYTES_FORMAT(batch->id_owned));
    case ERROR_BATCH_SEALED:
        return call_fail(call, error, "Batch '%.*s' is %s; no units can be registered.", BYTES_FORMAT(batch->id_owned),
                         batch_state_name(batch->state));
    case ERROR_BATCH_TOTAL_EXCEEDED:
        return call_fail(call, error, "Batch '%.*s' would have more units than its Total, %u.",
                         BYTES_FORMAT(batch->id_owned), batch->spec.total);
    case ERROR_INVALID_PARAMETER_VALUE:
        if (batch_find_token(batch, command->token) != UINT32_MAX)
            return call_fail(call, error,
                             "RequestToken %.*s was used before with other values; a new request needs a new token.",
                             BYTES_FORMAT(command->token));
        return call_fail(call, error, "Finished: more units would have finished than were registered (%llu).",
                         (unsigned long long)(batch->xor_registered + command->registered));
    default:
        return call_fail(call, error, "Batch '%.*s' would have more than %u units.", BYTES_FORMAT(batch->id_owned),
                         LEDGER_UNITS_MAX);
    }
}

enum error action_xor_units(struct call *call)
{
    const struct batch *batch;
    struct xor_command command;
    enum error error = call_batch(call, &batch);
    if (error == OK)
        error = read_command(call, &command);
    if (error != OK)
        return error;
    bool is_zero, is_completed;
    error = decide_xor_units(call->core, batch, &command, &is_zero, &is_completed);
    if (error != OK)
        return explain(call, batch, &command, error);
    writer_boolean(call->reply, "Zero", is_zero);
    writer_boolean(call->reply, "Completed", is_completed);
    return OK;
}
