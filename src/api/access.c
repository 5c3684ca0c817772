#include "api/access.h"

#include "api/reach.h"
#include "api/state.h"
#include "api/text.h"
#include "auth/head.h"
#include "auth/policy.h"

enum error access_identify(struct call *call)
{
    const struct front *front = call->front;
    if (front->credentials == NULL)
        return OK;
    const struct request *request = &call->exchange->request;
    struct signed_request bytes_signed = {
        .method = request->method,
        .path = request->path,
        .query = request->query,
        .head = request->head,
        .body = request->body,
    };
    enum error error = sigv4_verify(front->sigv4_owned, front->credentials, &bytes_signed, request->wall_s,
                                    &call->caller, call->failure);
    if (error == ERROR_UNKNOWN_ACCESS_KEY && front->inner_credentials != NULL)
        error = sigv4_verify(front->sigv4_owned, front->inner_credentials, &bytes_signed, request->wall_s,
                             &call->caller, call->failure);
    return error;
}

/* The credential of the server's own that has the key and secret of the given one, or NULL. */
static const struct credential *find_inner(const struct front *front, const struct credential *then)
{
    if (then == NULL || front->inner_credentials == NULL)
        return NULL;
    const struct credential *now = credentials_find(front->inner_credentials, then->access_key);
    return now != NULL && bytes_equal(now->secret, then->secret) ? now : NULL;
}

bool access_is_inner(const struct call *call)
{
    return call->caller != NULL && find_inner(call->front, call->caller) == call->caller;
}

enum error access_renew(const struct front *front, struct exchange *exchange, struct failure *failure)
{
    const struct credential *then = exchange->caller;
    exchange->caller = find_inner(front, then);
    exchange->credentials_number = front->credentials_number;
    if (exchange->caller != NULL || front->credentials == NULL)
        return OK;
    if (then == NULL)
        return failure_set(failure, ERROR_ACCESS_DENIED, NULL);
    const struct credential *now = credentials_find(front->credentials, then->access_key);
    if (now == NULL || (now->token.size > 0 && !bytes_equal(now->token, then->token)))
        return failure_set(failure, ERROR_UNKNOWN_ACCESS_KEY, NULL);
    if (!bytes_equal(now->secret, then->secret))
        return failure_set(failure, ERROR_INVALID_SIGNATURE, NULL);
    exchange->caller = now;
    return OK;
}

static bool is_owner(const struct call *call)
{
    return bytes_equal(call->caller->namespace_name, core_name(call->core));
}

enum error access_check_right(struct call *call, enum right right)
{
    const struct credential *caller = call->caller;
    if (caller == NULL || (caller->rights & right) != 0)
        return OK;
    return call_fail(call, ERROR_ACCESS_DENIED,
                     "Access is denied: the credential %.*s lacks the right '%s', which %s needs.",
                     BYTES_FORMAT(caller->access_key), right_name(right), call->exchange->action);
}

/* Does the request carry a signature, right or wrong, and no sign of a browser? All browsers send Accept-Language, and
 * no page can remove it; a page can remove Referer. */
static bool is_signed_by_program(const struct request *request)
{
    static const struct bytes mark = BYTES("X-Amz-Signature=");
    struct head head;
    head_init(&head);
    head_read(&head, request->head);
    bool is_signed = head_find(&head, 0, BYTES("authorization")) < head.count ||
                     memmem(request->query.ptr, request->query.size, mark.ptr, mark.size) != NULL;
    bool is_of_browser = head_find(&head, 0, BYTES("accept-language")) < head.count ||
                         head_find(&head, 0, BYTES("referer")) < head.count;
    head_deinit(&head);
    return is_signed && !is_of_browser;
}

/* Any page can make a browser send a GET, and an old browser does not say that a page was behind it. Clients like
 * Celery's sign their GETs even if nobody checks the signature. A page could write a signature into a URL, but its
 * browser gives itself away. */
static enum error check_method(struct call *call)
{
    const struct request *request = &call->exchange->request;
    bool is_get = bytes_equal(request->method, BYTES("GET"));
    if (!is_get || call->action->growth == GROWTH_READS || is_signed_by_program(request))
        return OK;
    return call_fail(
        call, ERROR_ACCESS_DENIED,
        "Access is denied: %s came with GET, and it does more than read. Any web page can have a browser send "
        "a GET, so without credentials only a program may do this with one, and must sign it. Use POST.",
        call->exchange->action);
}

enum error access_check_action(struct call *call)
{
    const struct credential *caller = call->caller;
    reach_note(call, REACH_NAMESPACE);
    if (caller == NULL)
        return check_method(call);
    if (!is_owner(call) && call->action->shared_as == NULL)
        return call_fail(
            call, ERROR_ACCESS_DENIED,
            "Access is denied: %s is for credentials of namespace %.*s only; %.*s is one of namespace %.*s.",
            call->exchange->action, BYTES_FORMAT(core_name(call->core)), BYTES_FORMAT(caller->access_key),
            BYTES_FORMAT(caller->namespace_name));
    enum error error = access_check_right(call, call->action->rights);
    if (error != OK || call->action->reach != REACH_NAMESPACE)
        return error;
    return reach_check_namespace(call, call->exchange->action);
}

enum error access_check_owner(struct call *call, const char *what)
{
    if (call->caller == NULL || is_owner(call))
        return OK;
    return call_fail(call, ERROR_ACCESS_DENIED, "Access is denied: %s is for credentials of namespace %.*s only.", what,
                     BYTES_FORMAT(core_name(call->core)));
}

bool access_covers(const struct call *call, struct bytes queue_name)
{
    return call->caller == NULL || credential_covers(call->caller, queue_name);
}

/* Does the queue's own policy allow the caller's namespace? */
static bool is_shared(const struct call *call, const struct queue *queue)
{
    return policy_allows(queue->settings.policy, call->caller->namespace_name,
                         bytes_from_string(call->action->shared_as), call_queue_arn(call, queue->name_owned),
                         call->arena);
}

enum error access_check_queue(struct call *call, struct bytes name, const struct queue *queue)
{
    const struct credential *caller = call->caller;
    reach_note(call, REACH_QUEUE);
    if (call->queue_asked.size == 0)
        call->queue_asked = name;
    if (caller == NULL)
        return OK;
    if (name.size > 0 && !access_covers(call, name))
        return call_fail(call, ERROR_ACCESS_DENIED,
                         "Access is denied: the credential %.*s does not cover the queue '%.*s'.",
                         BYTES_FORMAT(caller->access_key), BYTES_FORMAT(text_shown(name)));
    if (is_owner(call) || (queue != NULL && is_shared(call, queue)))
        return OK;
    return call_fail(
        call, ERROR_ACCESS_DENIED,
        "Access is denied: namespace %.*s has no queue '%.*s', and no policy of a queue of that name lets it "
        "call %s.",
        BYTES_FORMAT(caller->namespace_name), BYTES_FORMAT(text_shown(name)), call->exchange->action);
}

enum error access_check_again(struct call *call, const struct queue *queue)
{
    enum error error = access_check_action(call);
    return error == OK ? access_check_queue(call, queue->name_owned, queue) : error;
}
