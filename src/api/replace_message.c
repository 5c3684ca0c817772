/* ReplaceMessage: a changed copy of a message is sent, and the message ends, in one record. */
#include "api/access.h"
#include "api/reach.h"
#include "api/text.h"
#include "api/why.h"
#include "core/messages/content.h"
#include "core/messages/decide_replace.h"
#include "core/messages/explain.h"
#include "core/state.h"

/* What the copy has: what the request says, else what the message had. */
struct copy {
    struct content content;
    struct attributes attributes;
};

/* Names that begin so are the server's own, and stay what they were. */
static bool is_own(struct bytes name)
{
    return bytes_starts_with(name, BYTES("Tally."));
}

/* --- the message -------------------------------------------------------------------------------------------------- */

static enum error find_message(struct call *call, const struct queue *queue, uint32_t *slot)
{
    struct bytes text = {NULL, 0};
    struct queue *found = NULL;
    uint8_t id[MESSAGE_ID_SIZE];
    const enum error error = params_required_text(&call->params, "MessageId", &text);
    if (error != OK)
        return error;
    *slot = identity_from_text(text, id) ? explain_find(call->core, id, &found) : 0;
    if (*slot != 0 && found == queue)
        return OK;
    return params_invalid(&call->params, "MessageId", text, "The queue has no such message.");
}

static enum error fail_refused(struct call *call, enum replace_refusal refusal)
{
    static const char *const reasons[] = {
        [REPLACE_IN_FLIGHT] = "it is in flight, or hidden by who received it: somebody may be at work on it",
        [REPLACE_WAITING] = "it waits for others (Tally.After, a type order), and its copy would not",
        [REPLACE_TYPED] = "type orders have counted it (Tally.Type)",
        [REPLACE_RESULT] = "it is the result of a match",
        [REPLACE_NO_QUEUE] = "it is a dead letter, and the queue where it failed does not exist",
        [REPLACE_EARLY] = "those who wait for it are just being told that it failed; try again",
        [REPLACE_AWAITED] = "more than 10,000 messages wait for it",
        [REPLACE_ENDED] = "it was cancelled",
    };
    return call_fail(call, ERROR_UNSUPPORTED_OPERATION, "The message can't be replaced: %s.", reasons[refusal]);
}

/* Who does not cover the queue where a dead letter failed learns neither its name nor whether it exists. */
static enum error check(struct call *call, uint32_t slot, const struct queue **target)
{
    *target = NULL;
    const enum replace_refusal refusal = decide_check_replace(call->core, slot, target);
    const bool is_hidden = refusal == REPLACE_NO_QUEUE ? reach_is_confined(call)
                                                       : *target != NULL && !access_covers(call, (*target)->name_owned);
    if (is_hidden)
        return call_fail(
            call, ERROR_ACCESS_DENIED,
            "Access is denied: the message is a dead letter, and the queue where it failed does not exist, "
            "or the credential %.*s does not cover it.",
            BYTES_FORMAT(call->caller->access_key));
    return refusal == REPLACE_IS_POSSIBLE ? OK : fail_refused(call, refusal);
}

/* --- its copy ----------------------------------------------------------------------------------------------------- */

static void add(struct attributes *attributes, const struct attribute *attribute)
{
    attributes->items[attributes->count++] = *attribute;
    attributes->size += attribute->name.size + attribute->type.size + attribute->value.size;
}

/* Adds the attributes that the message had, or only those that are the server's. */
static void add_old(struct attributes *attributes, struct bytes encoded, bool only_own)
{
    struct cursor cursor = cursor_make(encoded);
    const unsigned count = encoded.size == 0 ? 0 : cursor_u16(&cursor);
    for (unsigned i = 0; i < count && attributes->count < ARRAY_LENGTH(attributes->items); i++) {
        const struct attribute attribute = attribute_decode(&cursor);
        if (!cursor.is_failed && (!only_own || is_own(attribute.name)))
            add(attributes, &attribute);
    }
}

static enum error check_given(struct call *call, const struct attributes *attributes)
{
    for (uint32_t i = 0; i < attributes->count; i++)
        if (is_own(attributes->items[i].name))
            return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                             "Message attribute '%.*s' can't be replaced: those that begin with Tally. stay as they "
                             "are.",
                             BYTES_FORMAT(attributes->items[i].name));
    return OK;
}

static enum error read_attributes(struct call *call, struct bytes before, struct attributes *attributes)
{
    yyjson_val *given = yyjson_obj_get(call->params.object, "MessageAttributes");
    const bool is_given = given != NULL && !yyjson_is_null(given);
    *attributes = (struct attributes){.count = 0};
    if (!is_given) {
        add_old(attributes, before, false);
        return OK;
    }
    enum error error = attributes_parse(&call->params, "MessageAttributes", call->arena, attributes);
    if (error == OK)
        error = check_given(call, attributes);
    if (error != OK)
        return error;
    add_old(attributes, before, true);
    const unsigned counted = attributes_count_limited(attributes);
    if (counted > ATTRIBUTES_MAX)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "The message would have %u attributes, with those that begin with Tally.; at most %u are "
                         "taken.",
                         counted, ATTRIBUTES_MAX);
    attributes_sort(attributes);
    return OK;
}

static enum error read_body(struct call *call, const struct queue *target, struct copy *copy)
{
    struct bytes body = {NULL, 0};
    const enum error error = params_text(&call->params, "MessageBody", &body);
    if (error != OK)
        return error;
    if (body.ptr != NULL && body.size == 0)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "MessageBody is empty; leave it out to keep what the message has.");
    if (body.ptr != NULL && !text_is_allowed(body))
        return call_fail(call, ERROR_INVALID_MESSAGE_CONTENTS, "%s", error_row(ERROR_INVALID_MESSAGE_CONTENTS)->text);
    if (body.ptr != NULL)
        copy->content.body = body;
    if (copy->content.body.size + copy->attributes.size > target->settings.message_size_max)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "One or more parameters are invalid. Reason: Message must be shorter than %u bytes.",
                         target->settings.message_size_max);
    return OK;
}

static void encode_attributes(struct call *call, struct copy *copy)
{
    struct buffer encoded;
    buffer_init(&encoded);
    if (copy->attributes.count > 0)
        attributes_encode(&copy->attributes, &encoded);
    copy->content.attributes = arena_copy(call->arena, buffer_bytes(&encoded));
    buffer_deinit(&encoded);
    attributes_md5(&copy->attributes, call_digest(call), call_scratch(call), copy->content.attributes_md5);
}

/* Its views point into the request and the arena. */
static enum error read_copy(struct call *call, uint32_t slot, const struct queue *target, struct copy *copy)
{
    const struct message *message = core_message(call->core, slot);
    const uint8_t *bytes = namespace_read(call->ns, message->position, message->content_size);
    if (bytes == NULL ||
        !content_decode(arena_copy(call->arena, bytes_make(bytes, message->content_size)), &copy->content))
        return call_fail(call, ERROR_UNSUPPORTED_OPERATION,
                         "The message can't be replaced: the log can't be read where its content is.");
    enum error error = read_attributes(call, copy->content.attributes, &copy->attributes);
    if (error == OK)
        error = read_body(call, target, copy);
    if (error == OK)
        encode_attributes(call, copy);
    return error;
}

/* --- the action --------------------------------------------------------------------------------------------------- */

static bool says_what_changes(const struct call *call)
{
    yyjson_val *body = yyjson_obj_get(call->params.object, "MessageBody");
    yyjson_val *attributes = yyjson_obj_get(call->params.object, "MessageAttributes");
    return (body != NULL && !yyjson_is_null(body)) || (attributes != NULL && !yyjson_is_null(attributes));
}

static void write_reply(struct call *call, const struct queue *target, uint32_t slot, const struct copy *copy)
{
    struct writer *reply = call->reply;
    const struct message *message = core_message(call->core, slot);
    writer_text(reply, "MessageId", why_message_id(call, message->number));
    writer_text(reply, "QueueUrl", call_queue_url(call, target));
    writer_hex(reply, "MD5OfMessageBody", bytes_make(copy->content.body_md5, DIGEST_MD5_SIZE));
    if (copy->attributes.count > 0)
        writer_hex(reply, "MD5OfMessageAttributes", bytes_make(copy->content.attributes_md5, DIGEST_MD5_SIZE));
    if (target->settings.is_fifo)
        writer_text(reply, "SequenceNumber", call_sequence_number(call, core_extra_of(call->core, message)->sequence));
}

enum error action_replace_message(struct call *call)
{
    struct queue *queue;
    const struct queue *target = NULL;
    struct copy copy;
    uint32_t slot = 0;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = find_message(call, queue, &slot);
    if (error == OK && !says_what_changes(call))
        error = call_fail(call, ERROR_MISSING_PARAMETER,
                          "The request must say what changes: MessageBody, MessageAttributes, or both.");
    if (error == OK)
        error = check(call, slot, &target);
    if (error == OK)
        error = read_copy(call, slot, target, &copy);
    if (error != OK)
        return error;
    slot = decide_replace(call->core, slot, target, &copy.content);
    write_reply(call, target, slot, &copy);
    return OK;
}
