#include "api/audit.h"

#include "api/state.h"
#include "api/text.h"

/* The parameters that say what a request is about, beside its queue. The first that is there counts. */
static void find_target(const struct call *call, struct activity_note *note)
{
    static const struct {
        const char *name;
        bool is_of_queue;
    } parameters[] = {{"MessageGroupId", true}, {"RelayName", false}, {"PoolName", false}, {"Name", true},
                      {"Label", true},          {"BatchId", false},   {"MessageId", true}, {"BackupId", false}};
    for (size_t i = 0; i < ARRAY_LENGTH(parameters) && note->target.size == 0; i++) {
        note->target = text_shown(params_bytes(yyjson_obj_get(call->params.object, parameters[i].name)));
        note->is_of_queue = parameters[i].is_of_queue;
    }
}

/* Refused early, a request has asked for no queue yet, but may name one. */
static struct bytes queue_of(const struct call *call)
{
    if (call->queue_asked.size > 0)
        return text_shown(call->queue_asked);
    struct bytes url = params_bytes(yyjson_obj_get(call->params.object, "QueueUrl"));
    if (url.size == 0)
        url = params_bytes(yyjson_obj_get(call->params.object, "QueueName"));
    const uint8_t *slash = url.size == 0 ? NULL : memrchr(url.ptr, '/', url.size);
    return text_shown(slash == NULL ? url : bytes_skip(url, (size_t)(slash - url.ptr) + 1));
}

static void tell_operator(const struct call *call, const struct activity_note *note)
{
    const struct front_options *options = &call->front->options;
    if (options->audit == NULL)
        return;
    const bool has_key = note->access_key.size > 0, has_address = note->address.size > 0;
    const struct bytes words = audit_words(note, true, call->arena);
    const struct bytes line = arena_format(call->arena, "audit: %.*s%s%.*s%s%.*s", BYTES_FORMAT(note->access_key),
                                           has_key && has_address ? " from " : "", BYTES_FORMAT(note->address),
                                           has_key || has_address ? ": " : "", BYTES_FORMAT(words));
    options->audit(options->audit_context, (const char *)line.ptr);
}

void audit_call(const struct call *call, enum error error, bool has_changed)
{
    if (call->action->rights != RIGHT_ADMIN || (error == OK && !has_changed && !call->has_acted))
        return;
    struct activity_note note = {
        .kind = ACTIVITY_AUDIT,
        .result = error,
        .action = call->exchange->action,
        .access_key = call->caller == NULL ? bytes_make(NULL, 0) : call->caller->access_key,
        .address = call->exchange->request.address,
        .queue = queue_of(call),
        .text = error == OK ? bytes_make(NULL, 0) : bytes_from_string(call->failure->text),
    };
    find_target(call, &note);
    activity_add(call->api, call->now_ms, &note);
    tell_operator(call, &note);
}

struct bytes audit_target(const struct activity_note *note, bool is_whole)
{
    const bool may_be_known = is_whole || (note->result == OK && note->is_of_queue);
    return note->target.size > 0 && may_be_known ? note->target : note->queue;
}

struct bytes audit_words(const struct activity_note *note, bool is_whole, struct arena *arena)
{
    const struct bytes target = audit_target(note, is_whole);
    const bool has_both = note->queue.size > 0 && !bytes_equal(target, note->queue);
    const struct bytes queue = has_both ? note->queue : BYTES("");
    const struct error_row *row = note->result == OK ? NULL : error_row(note->result);
    const struct bytes what =
        arena_format(arena, "%s%s%.*s%s%.*s: %s", note->action, target.size > 0 ? " " : "", BYTES_FORMAT(target),
                     has_both ? " of queue " : "", BYTES_FORMAT(queue), row == NULL ? "OK" : row->name);
    if (row == NULL || !is_whole)
        return what;
    const struct bytes why = note->text.size > 0 ? note->text : bytes_from_string(row->text);
    return arena_format(arena, "%.*s: %.*s", BYTES_FORMAT(what), BYTES_FORMAT(why));
}
