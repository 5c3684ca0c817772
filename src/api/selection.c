#include "api/selection.h"

#include "api/reach.h"
#include "api/why.h"
#include "core/identity.h"
#include "core/messages/explain.h"
#include "core/state.h"
#include <stdlib.h>
#include <strings.h>

#define TIME_S_MAX 253402300799.0 /* the end of the year 9999 */

/* --- reading ------------------------------------------------------------------------------------------------------ */

static int compare_numbers(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Rising, each once. */
static void sort(uint64_t *numbers, uint32_t *count)
{
    uint32_t kept = 0;
    qsort(numbers, *count, sizeof(*numbers), compare_numbers);
    for (uint32_t i = 0; i < *count; i++)
        if (i == 0 || numbers[i] != numbers[i - 1])
            numbers[kept++] = numbers[i];
    *count = kept;
}

/* The number in a MessageId; 0: no message of the namespace has that id. The id of a batch's message can be guessed, so
 * it must not tell whether there is such a batch. */
static uint64_t number_of(const struct call *call, struct bytes text)
{
    uint8_t id[MESSAGE_ID_SIZE];
    const uint64_t number = identity_from_text(text, id) ? explain_find_number(call->core, id) : 0;
    const bool is_secret = number != 0 && identity_message_number(call_digest(call), id) == number;
    if (number > call->core->messages.message_number || (!is_secret && !reach_message(call, number)))
        return 0;
    return number;
}

static enum error read_numbers(struct call *call, yyjson_val *ids, struct selection_command *selection)
{
    size_t index, count;
    yyjson_val *id;
    uint64_t *numbers = arena_allocate(call->arena, (yyjson_arr_size(ids) + 1) * sizeof(*numbers));
    yyjson_arr_foreach(ids, index, count, id)
    {
        numbers[index] = number_of(call, params_bytes(id));
        if (numbers[index] == 0)
            return params_invalid(&call->params, "MessageIds", params_bytes(id),
                                  "It is not the MessageId of a message of this namespace.");
    }
    selection->numbers = numbers;
    selection->number_count = (uint32_t)count;
    sort(numbers, &selection->number_count);
    return OK;
}

static enum error read_ids(struct call *call, struct selection_command *selection)
{
    yyjson_val *ids = NULL;
    const enum error error = params_names(&call->params, "MessageIds", &ids);
    if (error != OK || ids == NULL)
        return error;
    static_assert(PARAMS_NAMES_MAX == SELECTION_NUMBERS_MAX, "one limit for both");
    if (yyjson_arr_size(ids) == 0)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "MessageIds is empty; it must name 1 to %u messages.",
                         SELECTION_NUMBERS_MAX);
    return read_numbers(call, ids, selection);
}

static enum error read_text(struct call *call, const char *name, struct bytes *text)
{
    const enum error error = params_text(&call->params, name, text);
    if (error == OK && text->ptr != NULL && text->size == 0)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "%s is empty; leave it out to mean every message.", name);
    return error;
}

/* Seconds since 1970, with or without a fraction, as replies have them. */
static enum error read_time(struct call *call, const char *name, uint64_t *time_ms)
{
    yyjson_val *value = yyjson_obj_get(call->params.object, name);
    if (value == NULL || yyjson_is_null(value))
        return OK;
    const double seconds = yyjson_get_num(value);
    if (!yyjson_is_num(value) || !(seconds >= 0.001 && seconds <= TIME_S_MAX))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Value for parameter %s is invalid. Reason: It must be a number of seconds since 1970.", name);
    *time_ms = (uint64_t)(seconds * 1000.0 + 0.5);
    return OK;
}

enum error selection_read(struct call *call, enum selection_act act, struct selection_command *selection,
                          bool *is_given)
{
    struct message_filter *filter = &selection->filter;
    *selection = (struct selection_command){.act = act};
    enum error error = read_ids(call, selection);
    if (error == OK)
        error = read_text(call, "Reason", &filter->reason);
    if (error == OK && filter->reason.size > FAILURE_REASON_SIZE_MAX)
        error = call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Reason has %zu bytes; at most %u are taken.",
                          filter->reason.size, FAILURE_REASON_SIZE_MAX);
    if (error == OK)
        error = read_text(call, "MessageGroupId", &filter->group);
    if (error == OK)
        error = call_check_group(&call->params, filter->group);
    if (error == OK)
        error = read_time(call, "SentBefore", &filter->sent_before_ms);
    if (error == OK)
        error = read_time(call, "SentAfter", &filter->sent_after_ms);
    if (error != OK)
        return error;
    const bool has_filter =
        filter->reason.size > 0 || filter->group.size > 0 || filter->sent_before_ms > 0 || filter->sent_after_ms > 0;
    if (has_filter && selection->number_count > 0)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "MessageIds goes with no Reason, MessageGroupId, SentBefore or SentAfter.");
    *is_given = has_filter || selection->number_count > 0;
    return OK;
}

enum error selection_read_max(struct call *call, uint64_t *messages_max)
{
    int64_t value = 0;
    const enum error error =
        params_integer_in(&call->params, "MaxMessages", 1, INT64_MAX, "Must be 1 or more.", &value);
    *messages_max = value == 0 ? UINT64_MAX : (uint64_t)value;
    return error;
}

/* Other members that mean nothing are passed over. This one, spelled wrongly, would end what it should only count; and
 * of two that differ nobody knows which one is meant. */
static enum error check_spelling(struct call *call)
{
    static const char name[] = "DryRun";
    size_t index, count, found = 0;
    yyjson_val *key, *value;
    yyjson_obj_foreach(call->params.object, index, count, key, value)
    {
        if (strcasecmp(yyjson_get_str(key), name) != 0)
            continue;
        if (++found > 1 || strcmp(yyjson_get_str(key), name) != 0)
            return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                             "The request must contain DryRun once at most, and spelled so.");
    }
    return OK;
}

enum error selection_read_dry_run(struct call *call, bool *is_dry_run)
{
    *is_dry_run = false;
    enum error error = check_spelling(call);
    if (error == OK)
        error = params_boolean(&call->params, "DryRun", is_dry_run);
    call->is_dry_run = *is_dry_run;
    return error;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static const char *name_of(unsigned reason)
{
    static const char *const names[] = {
        [REFUSED_ABSENT] = "not-in-queue",
        [REFUSED_IN_FLIGHT] = "in-flight",
        [REFUSED_DELAYED] = "delayed",
        [REFUSED_WAITING] = "waiting",
        [REFUSED_GROUP_HELD] = "group-held",
        [REFUSED_GROUP_PAUSED] = "group-paused",
        [REFUSED_NO_ORIGIN] = "came-from-nowhere",
        [REFUSED_NO_QUEUE] = "no-such-queue",
    };
    return names[reason];
}

void selection_write_refusals(struct call *call, uint64_t refused, const struct refusal *refusals, uint32_t count)
{
    writer_number(call->reply, "Refused", refused);
    writer_list_begin(call->reply, "Refusals");
    for (uint32_t i = 0; i < count; i++) {
        writer_object_begin(call->reply, NULL);
        writer_text(call->reply, "MessageId", why_message_id(call, refusals[i].number));
        writer_string(call->reply, "Reason", name_of(refusals[i].reason));
        writer_object_end(call->reply);
    }
    writer_list_end(call->reply);
}

/* What has to do with queues that the caller may not cover is not told to one who covers some only. */
static void write_others(struct call *call, const struct preview *preview)
{
    if (reach_is_confined(call))
        return;
    writer_number(call->reply, "Batches", preview->batches.count);
    writer_number(call->reply, "Dependents", preview->dependents);
}

void selection_write_moves(struct call *call, const struct preview *preview)
{
    struct writer *reply = call->reply;
    writer_number(reply, "Messages", preview->messages);
    writer_list_begin(reply, "Queues");
    for (uint32_t i = 0; i < preview->queue_count; i++) {
        writer_object_begin(reply, NULL);
        writer_text(reply, "QueueUrl",
                    call_queue_url(call, core_find_queue_by_id(call->core, preview->queue_counts[i].id)));
        writer_number(reply, "Messages", preview->queue_counts[i].messages);
        writer_object_end(reply);
    }
    writer_list_end(reply);
    write_others(call, preview);
    writer_number(reply, "HeldGroups", preview->groups.count);
    selection_write_refusals(call, preview->refused, preview->refusals, preview->refusal_count);
    writer_boolean(reply, "IsComplete", preview->is_complete);
}

void selection_write_ends(struct call *call, const struct preview *preview)
{
    struct writer *reply = call->reply;
    writer_number(reply, "Messages", preview->messages);
    writer_number(reply, "InFlight", preview->in_flight);
    if (preview->dead_lettered > 0)
        writer_number(reply, "DeadLettered", preview->dead_lettered);
    writer_number(reply, "Units", preview->units);
    write_others(call, preview);
    writer_number(reply, "Groups", preview->ending_groups);
    if (preview->refused > 0)
        selection_write_refusals(call, preview->refused, preview->refusals, preview->refusal_count);
    writer_boolean(reply, "IsComplete", preview->is_complete);
}

void selection_preview_purge(struct call *call, const struct queue *queue)
{
    struct preview preview;
    preview_init(&preview, call->core);
    preview_purge(&preview, queue);
    selection_write_ends(call, &preview);
    preview_deinit(&preview);
}
