#include "api/peek.h"

#include "api/access.h"
#include "api/holder_view.h"
#include "api/reach.h"
#include "api/why.h"
#include "core/state.h"

#define PREVIEW_SIZE 256u
#define PAGE_READ_MAX ((size_t)16 << 20)
#define PAGE_WAITS_MAX 10u

static const char *const state_names[] = {
    [CONDITION_READY] = "ready",     [CONDITION_DELAYED] = "delayed", [CONDITION_IN_FLIGHT] = "in-flight",
    [CONDITION_BLOCKED] = "blocked", [CONDITION_HELD] = "held",       [CONDITION_ENDED] = "ended",
    [CONDITION_UNKNOWN] = "unknown",
};

const char *peek_state_name(enum message_condition condition)
{
    return state_names[condition];
}

bool peek_state_find(struct bytes name, enum message_condition *condition)
{
    for (size_t i = 0; i < ARRAY_LENGTH(state_names); i++) {
        if (bytes_equal(name, bytes_from_string(state_names[i]))) {
            *condition = (enum message_condition)i;
            return true;
        }
    }
    return false;
}

enum error peek_read_body(struct call *call, enum peek_body *body)
{
    static const char *const names[] = {[PEEK_NO_BODY] = "none", [PEEK_PREVIEW] = "preview", [PEEK_WHOLE] = "full"};
    struct bytes text = {NULL, 0};
    const enum error error = params_text(&call->params, "Body", &text);
    if (error != OK || text.ptr == NULL)
        return error;
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        if (bytes_equal(text, bytes_from_string(names[i]))) {
            *body = (enum peek_body)i;
            return OK;
        }
    }
    return params_invalid(&call->params, "Body", text, "It must be none, preview or full.");
}

/* --- places ------------------------------------------------------------------------------------------------------- */

void peek_place_to_numbers(struct message_place place, uint64_t numbers[PEEK_PLACE_NUMBERS])
{
    numbers[0] = place.counted_from_ms;
    numbers[1] = place.number;
    numbers[2] = place.arrival;
}

bool peek_place_from_numbers(const uint64_t numbers[PEEK_PLACE_NUMBERS], struct message_place *place)
{
    *place = (struct message_place){.counted_from_ms = numbers[0], .number = numbers[1], .arrival = numbers[2]};
    return place->number != UINT64_MAX && place->arrival <= UINT64_MAX - MESSAGE_WALK_VISITS_MAX;
}

/* --- its content -------------------------------------------------------------------------------------------------- */

static void write_content(struct call *call, const struct content *content, enum peek_body body)
{
    struct writer *reply = call->reply;
    writer_number(reply, "BodySize", content->body.size);
    if (content->deduplication.size > 0)
        writer_text(reply, "MessageDeduplicationId", content->deduplication);
    if (body == PEEK_PREVIEW)
        writer_text(reply, "Body", bytes_cut_text(content->body, PREVIEW_SIZE));
    if (body != PEEK_WHOLE)
        return;
    writer_text(reply, "Body", content->body);
    writer_text(reply, "SenderId", content->sender);
    if (content->trace.size > 0)
        writer_text(reply, "AWSTraceHeader", content->trace);
    attributes_write_all(content->attributes, content->attributes_md5, reply);
}

/* --- what the index knows ----------------------------------------------------------------------------------------- */

static void write_times(struct call *call, const struct message *message)
{
    struct writer *reply = call->reply;
    writer_time(reply, "SentAt", message->sent_at_ms);
    writer_number(reply, "ReceiveCount", message->receive_count);
    if (message->first_received_after_ms > 0)
        writer_time(reply, "FirstReceivedAt", message->sent_at_ms + message->first_received_after_ms - 1);
    if (message->receive_count > 0)
        writer_time(reply, "LastReceivedAt", message->sent_at_ms + message->received_after_ms);
}

static void write_place(struct call *call, const struct message *message)
{
    struct writer *reply = call->reply;
    const struct message_extra *extra = core_extra_of(call->core, message);
    const uint32_t group = core_group_of(call->core, message);
    if (group != 0 && core_group(call->core, group)->id_owned.size > 0)
        writer_text(reply, "MessageGroupId", core_group(call->core, group)->id_owned);
    if (extra != NULL && extra->reason_owned.size > 0)
        writer_text(reply, "FailureReason", extra->reason_owned);
    if (message->batch != 0 && reach_batch(call, core_batch(call->core, message->batch)))
        writer_text(reply, "BatchId", core_batch(call->core, message->batch)->id_owned);
    if (message->origin != 0 && access_covers(call, core_queue(call->core, message->origin)->name_owned))
        writer_text(reply, "DeadLetterQueueSource", core_queue(call->core, message->origin)->name_owned);
}

/* Does its id stand only in its content? So does that of a match; every other follows from the number. */
static bool has_own_id(const struct message *message)
{
    return message->is_result || message->is_redriven;
}

static void write_id(struct call *call, const struct message *message, const struct content *content)
{
    uint8_t id[MESSAGE_ID_SIZE];
    char text[IDENTITY_TEXT_SIZE];
    if (content == NULL)
        explain_message_id(call->core, message->number, id);
    else
        content_id(content, message->number, message_is_renamed(message), call_digest(call), id);
    identity_to_text(id, text);
    writer_text(call->reply, "MessageId", bytes_make(text, sizeof(text)));
}

static bool needs_content(const struct message *message, enum peek_body body)
{
    return body != PEEK_NO_BODY || has_own_id(message);
}

size_t peek_size(const struct call *call, uint32_t slot, enum peek_body body)
{
    const struct message *message = core_message(call->core, slot);
    return needs_content(message, body) ? message->content_size : 0;
}

bool peek_page_is_full(const struct call *call, uint32_t slot, enum peek_body body, size_t begin)
{
    const size_t whole_size = body == PEEK_WHOLE ? peek_size(call, slot, body) : 0;
    return call->reply->out->size - begin + whole_size > PEEK_PAGE_MAX;
}

bool peek_may_read(struct call *call, uint32_t slot, struct peek_reads *reads)
{
    const struct message *message = core_message(call->core, slot);
    reads->count++;
    reads->size += message->content_size;
    reads->waits += !namespace_is_resident(call->ns, message->position, message->content_size);
    return reads->count == 1 || (reads->size <= PEEK_READ_MAX && reads->waits <= PEEK_WAITS_MAX);
}

bool peek_may_write(struct call *call, uint32_t slot, enum peek_body body, struct peek_reads *reads)
{
    return peek_size(call, slot, body) == 0 || peek_may_read(call, slot, reads);
}

bool peek_read(struct call *call, uint32_t slot, struct content *content)
{
    const struct message *message = core_message(call->core, slot);
    const uint8_t *bytes = namespace_read(call->ns, message->position, message->content_size);
    return bytes != NULL && content_decode(bytes_make(bytes, message->content_size), content);
}

void peek_write_id(struct call *call, uint32_t slot)
{
    const struct message *message = core_message(call->core, slot);
    struct content content;
    const bool is_read = has_own_id(message) && peek_read(call, slot, &content);
    write_id(call, message, is_read ? &content : NULL);
}

void peek_write(struct call *call, const struct queue *queue, uint32_t slot, enum peek_body body, unsigned whys_max,
                struct explanation *explanation)
{
    const struct message *message = core_message(call->core, slot);
    const bool is_needed = needs_content(message, body);
    struct content content;
    const bool is_read = is_needed && peek_read(call, slot, &content);
    explain_slot(call->core, queue, slot, explanation);
    write_id(call, message, is_read ? &content : NULL);
    writer_string(call->reply, "State", state_names[explanation->condition]);
    write_times(call, message);
    write_place(call, message);
    if (explanation->condition == CONDITION_IN_FLIGHT)
        holder_view_write(call, slot);
    if (is_read && body != PEEK_NO_BODY)
        write_content(call, &content, body);
    if (is_needed && !is_read)
        writer_boolean(call->reply, "IsDamaged", true);
    writer_list_begin(call->reply, "Why");
    why_write_each(call, explanation, whys_max);
    writer_list_end(call->reply);
}
