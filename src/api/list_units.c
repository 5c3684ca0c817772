/* ListUnits: the units of an exact ledger, their keys, and how they ended. */
#include "api/action.h"

#include <stdio.h>

/* How many units one call looks at. If a filter fits few, a page may hold fewer than MaxResults, or none. */
#define VISITED_MAX 100000u
#define ANY_STATE UINT32_MAX

static const char *const state_names[] = {
    [UNIT_OUTSTANDING] = "outstanding",
    [UNIT_SUCCEEDED] = "succeeded",
    [UNIT_FAILED] = "failed",
    [UNIT_CANCELLED] = "cancelled",
};

/* Units that were outstanding when a batch was cancelled count as cancelled. */
static enum unit_state state_of(const struct batch *batch, uint32_t unit)
{
    enum unit_state state = ledger_state(&batch->ledger, unit);
    return state == UNIT_OUTSTANDING && batch->is_cancelled ? UNIT_CANCELLED : state;
}

static enum error read_state(struct call *call, uint32_t *state)
{
    struct bytes text = {NULL, 0};
    enum error error = params_text(&call->params, "State", &text);
    *state = ANY_STATE;
    if (error != OK || text.ptr == NULL)
        return error;
    for (uint32_t known = 0; known < ARRAY_LENGTH(state_names); known++)
        if (bytes_equal(text, bytes_from_string(state_names[known])))
            *state = known;
    if (*state == ANY_STATE)
        return params_invalid(&call->params, "State", text, "It must be outstanding, succeeded, failed or cancelled.");
    return OK;
}

static void write_unit(struct call *call, const struct batch *batch, uint32_t unit)
{
    struct writer *writer = call->reply;
    struct bytes key = {NULL, 0};
    uint64_t number = 0;
    char text[IDENTITY_TEXT_SIZE];
    writer_object_begin(writer, NULL);
    switch (ledger_name(&batch->ledger, unit, &key, &number)) {
    case UNIT_COUNTED:
        writer_text(writer, "Unit",
                    bytes_make(text, (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)number)));
        break;
    case UNIT_KEYED:
        writer_text(writer, "Unit", key);
        break;
    case UNIT_CHILD:
        writer_text(writer, "Unit", key);
        writer_text(writer, "BatchId", key);
        break;
    case UNIT_MESSAGE: {
        uint8_t id[MESSAGE_ID_SIZE];
        identity_message(call_digest(call), number, id);
        identity_to_text(id, text);
        writer_text(writer, "Unit", bytes_make(text, sizeof(text)));
        writer_text(writer, "MessageId", bytes_make(text, sizeof(text)));
        break;
    }
    }
    writer_string(writer, "State", state_names[state_of(batch, unit)]);
    struct bytes detail = ledger_detail(&batch->ledger, unit);
    if (detail.size > 0)
        writer_text(writer, "Detail", detail);
    writer_object_end(writer);
}

/* Units in order of registration. */
enum error action_list_units(struct call *call)
{
    const struct batch *batch;
    uint32_t state;
    uint64_t from = 0;
    int64_t results_max;
    enum error error = call_batch(call, &batch);
    if (error == OK)
        error = read_state(call, &state);
    if (error == OK)
        error = call_page(call, &from, &results_max);
    if (error != OK)
        return error;
    if (batch->spec.tracking == BATCH_XOR)
        return call_fail(call, ERROR_UNSUPPORTED_OPERATION,
                         "Batch '%.*s' has Tracking xor, which does not remember its units.",
                         BYTES_FORMAT(batch->id_owned));
    uint64_t unit = from;
    uint64_t end = from + VISITED_MAX < batch->ledger.count ? from + VISITED_MAX : batch->ledger.count;
    int64_t count = 0;
    writer_list_begin(call->reply, "Units");
    for (; unit < end && count < results_max; unit++) {
        if (state != ANY_STATE && state_of(batch, (uint32_t)unit) != state)
            continue;
        write_unit(call, batch, (uint32_t)unit);
        count++;
    }
    writer_list_end(call->reply);
    if (unit < batch->ledger.count)
        call_write_token(call, &unit, 1);
    return OK;
}
