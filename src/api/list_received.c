#include "api/list_received.h"

#include "api/peek.h"
#include "core/state.h"

/* Deletes refuse it. */
#define NO_HANDLE "Tally/nobody-has-received-it"

/* --- parameters --------------------------------------------------------------------------------------------------- */

static bool is_word(struct bytes text, const char *word)
{
    return text.size == strlen(word) && strncasecmp((const char *)text.ptr, word, text.size) == 0;
}

static enum error read_switch(struct call *call, const char *name, bool *value)
{
    yyjson_val *given = yyjson_obj_get(call->params.object, name);
    struct bytes text = {NULL, 0};
    if (yyjson_is_bool(given)) {
        *value = yyjson_get_bool(given);
        return OK;
    }
    const enum error error = params_text(&call->params, name, &text);
    if (error != OK || text.size == 0)
        return error;
    *value = is_word(text, "true") || is_word(text, "1");
    if (*value || is_word(text, "false") || is_word(text, "0"))
        return OK;
    return params_invalid(&call->params, name, text, "It must be true or false.");
}

enum error list_received_read(struct call *call, struct received_look *look)
{
    *look = (struct received_look){.shows_invisible = false};
    const enum error error = read_switch(call, "ShowInvisible", &look->shows_invisible);
    return error != OK ? error : read_switch(call, "ShowDelayed", &look->shows_delayed);
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

/* A message behind the head of its group waits for what keeps the head. O(1). */
static enum message_condition condition_of(const struct core *core, const struct queue *queue, uint32_t slot)
{
    const enum message_condition condition = explain_condition(core, queue, slot);
    const uint32_t group = condition == CONDITION_BLOCKED ? core_group_of(core, core_message(core, slot)) : 0;
    if (group == 0 || !core_group(core, group)->is_line)
        return condition;
    return explain_condition(core, queue, core_group(core, group)->first);
}

bool list_received_takes(const struct call *call, const struct queue *queue, uint32_t slot, struct received_look *look)
{
    const enum message_condition condition = condition_of(call->core, queue, slot);
    look->is_visible = condition != CONDITION_IN_FLIGHT;
    look->is_delayed = condition == CONDITION_DELAYED;
    return (look->is_visible || look->shows_invisible) && (!look->is_delayed || look->shows_delayed);
}

/* The log can't be read where its content stands. */
static void write_damaged(struct call *call, uint32_t slot)
{
    writer_object_begin(call->reply, NULL);
    peek_write_id(call, slot);
    writer_boolean(call->reply, "IsDamaged", true);
    writer_object_end(call->reply);
}

void list_received_write(struct call *call, const struct queue *queue, uint32_t slot, const struct received_look *look)
{
    const struct received_message message = received_describe(call->core, queue, slot);
    const struct received_view view = {.look = look, .is_fifo = queue->settings.is_fifo, .handle = BYTES(NO_HANDLE)};
    struct content content;
    if (peek_read(call, slot, &content))
        received_view_write(call, &view, &message, &content);
    else
        write_damaged(call, slot);
}
