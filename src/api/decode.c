/* Turns a request into an action and its parameters: the decoders of AWS JSON and of AWS Query. A request with a target
 * that is no form is JSON, whatever its path and method; all others are Query. */
#include "api/query.h"
#include "api/state.h"

#include "api/text.h"

#define SERVICE "AmazonSQS."
#define RECEIVE "ReceiveMessage"
#define LIST_MESSAGES "Tally.ListMessages"
#define ACTION_NAME_SIZE_MAX 64u

/* The action of that target, or NULL. */
static const struct action *find_action(const struct front *front, struct bytes target)
{
    for (struct table_probe probe = table_probe_start(&front->action_by_target, bytes_hash(target));
         table_probe_next(&front->action_by_target, &probe);)
        if (bytes_equal(target, bytes_from_string(actions[probe.slot - 1].target)))
            return &actions[probe.slot - 1];
    return NULL;
}

/* Names the action that was asked for, unless a reply should not repeat its characters. */
static enum error refuse_unknown(struct call *call, struct bytes name)
{
    name = text_shown(name);
    if (call->exchange->form != WIRE_JSON)
        return call_fail(call, ERROR_UNKNOWN_OPERATION, "The action %.*s is not valid for this endpoint.",
                         BYTES_FORMAT(name));
    return call_fail(
        call, ERROR_UNKNOWN_OPERATION,
        "There is no action '%.*s'; X-Amz-Target names the service and the action, like AmazonSQS.SendMessage or "
        "Tally.CreateBatch.",
        BYTES_FORMAT(name));
}

/* At the path of list_received.h nothing else can be asked for. */
static enum error refuse_received(struct call *call)
{
    return call_fail(call, ERROR_UNKNOWN_OPERATION,
                     RECEIVED_PATH " shows the messages of a queue: it takes no other action than ReceiveMessage, and "
                                   "receives none.");
}

static enum error decode_json(struct call *call)
{
    const struct request *request = &call->exchange->request;
    const bool is_received = call->exchange->is_as_received;
    if (is_received && !bytes_equal(request->target, BYTES(SERVICE RECEIVE)))
        return refuse_received(call);
    call->action = find_action(call->front, is_received ? BYTES(LIST_MESSAGES) : request->target);
    if (call->action == NULL)
        return refuse_unknown(call, request->target);
    return params_parse(request->body, call->arena, call->failure, &call->params);
}

/* Is the action one that SQS does not answer on the path of a queue? */
static bool is_of_no_queue(struct bytes name)
{
    return bytes_equal(name, BYTES("CreateQueue")) || bytes_equal(name, BYTES("ListQueues"));
}

/* The fields of the form as parameters. `url` is that of the queue, where none of them is. */
static enum error read_form(struct call *call, const struct form *form, struct bytes name, struct bytes url)
{
    struct buffer *text = call_scratch(call);
    buffer_truncate(text, 0);
    query_to_json(form, name, url, call->arena, text);
    bool is_text = params_parse(buffer_bytes(text), call->arena, call->failure, &call->params) == OK;
    front_trim_scratch(call->front); /* with escapes, a form may become six times as large, and the tree needs memory
                                      * besides */
    if (!is_text)
        return call_fail(call, ERROR_SERIALIZATION, "A field of the request is not valid UTF-8.");
    return OK;
}

static enum error decode_received(struct call *call, const struct form *form)
{
    const struct bytes path = call->exchange->request.path, name = form_find(form, BYTES("Action"));
    if (name.size > 0 && !bytes_equal(name, BYTES(RECEIVE)))
        return refuse_received(call);
    call->action = find_action(call->front, BYTES(LIST_MESSAGES));
    return read_form(call, form, BYTES("ListMessages"), bytes_equal(path, BYTES(RECEIVED_PATH)) ? BYTES("") : path);
}

static enum error decode_query(struct call *call)
{
    const struct request *request = &call->exchange->request;
    struct form form;
    enum error error = form_parse(request->query, request->body, call->arena, call->failure, &form);
    if (error != OK)
        return error;
    if (call->exchange->is_as_received)
        return decode_received(call, &form);
    struct bytes name = form_find(&form, BYTES("Action"));
    if (name.ptr == NULL)
        return ERROR_NOT_FOUND;
    if (text_is_word(name, ACTION_NAME_SIZE_MAX))
        call->action = find_action(call->front, arena_format(call->arena, SERVICE "%.*s", BYTES_FORMAT(name)));
    bool is_on_queue = !bytes_equal(request->path, BYTES("/"));
    if (call->action == NULL || (is_on_queue && is_of_no_queue(name)))
        return refuse_unknown(call, name);
    return read_form(call, &form, name, is_on_queue ? request->path : BYTES(""));
}

/* The Action of a form that begins with it; empty: the form doesn't. */
static struct bytes first_action(struct bytes form)
{
    struct bytes field = BYTES("Action=");
    if (!bytes_starts_with(form, field))
        return BYTES("");
    const uint8_t *name = form.ptr + field.size;
    size_t size = form.size - field.size;
    const uint8_t *end = memchr(name, '&', size < ACTION_NAME_SIZE_MAX ? size : ACTION_NAME_SIZE_MAX);
    return bytes_make(name, end != NULL ? (size_t)(end - name) : size);
}

/* The action asked for. NULL: none is known, or it is not known without reading all of the form. */
static const struct action *peek_action(const struct front *front, const struct request *request)
{
    if (request_is_as_received(request))
        return find_action(front, BYTES(LIST_MESSAGES));
    struct bytes target = request->target;
    char text[sizeof(SERVICE) + ACTION_NAME_SIZE_MAX];
    if (request_form(request) != WIRE_JSON) {
        struct bytes name = first_action(request->query.size > 0 ? request->query : request->body);
        if (!text_is_word(name, ACTION_NAME_SIZE_MAX))
            return NULL;
        int size = snprintf(text, sizeof(text), SERVICE "%.*s", BYTES_FORMAT(name));
        target = bytes_make(text, (size_t)size);
    }
    return find_action(front, target);
}

bool front_reply_is_short(const struct front *front, const struct request *request)
{
    const struct action *action = peek_action(front, request);
    return action != NULL && action->reply_length < REPLY_LONG;
}

bool front_walks(const struct front *front, const struct request *request)
{
    const struct action *action = peek_action(front, request);
    return action != NULL && action->reply_length == REPLY_WALK;
}

bool front_may_wait(const struct front *front, const struct request *request)
{
    const struct action *action = peek_action(front, request);
    return action == NULL || action->reply_length == REPLY_LATER;
}

enum error decode_request(struct call *call)
{
    struct exchange *exchange = call->exchange;
    enum error error = exchange->form == WIRE_JSON ? decode_json(call) : decode_query(call);
    if (call->action != NULL)
        exchange->action = strchr(call->action->target, '.') + 1;
    exchange->row = call->action;
    return error;
}
