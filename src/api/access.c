#include "api/access.h"

#include "api/state.h"
#include "api/text.h"
#include "auth/head.h"
#include "auth/policy.h"

/* Does a page of another site ask? Then the browser that shows it says so in Sec-Fetch-Site, or, if it is an old one, in Origin. */
static bool is_of_another_site(struct bytes lines)
{
    struct head head;
    head_init(&head);
    head_read(&head, lines);
    bool is_other = head_find(&head, 0, BYTES("origin")) < head.count;
    size_t site = head_find(&head, 0, BYTES("sec-fetch-site"));
    if (site < head.count) {
        struct bytes said = head.fields_owned[site].value;
        is_other = !bytes_equal(said, BYTES("none")) && !bytes_equal(said, BYTES("same-origin"));
    }
    head_deinit(&head);
    return is_other;
}

/* A browser sends a form wherever a page says, also to a loopback address, and asks no server before; a request with X-Amz-Target it
 * would ask for, and be refused. A signature no page can make. */
static enum error check_site(struct call *call)
{
    if (call->exchange->form != WIRE_QUERY || !is_of_another_site(call->exchange->request.head))
        return OK;
    return call_fail(call, ERROR_ACCESS_DENIED,
                     "Access is denied: a page of another site sent this (Origin, Sec-Fetch-Site). Without credentials "
                     "forms are taken from programs only.");
}

enum error access_identify(struct call *call)
{
    const struct api *api = call->api;
    if (api->credentials == NULL)
        return check_site(call);
    const struct request *request = &call->exchange->request;
    struct signed_request bytes_signed = {
        .method = request->method,
        .path = request->path,
        .query = request->query,
        .head = request->head,
        .body = request->body,
    };
    enum error error =
        sigv4_verify(api->sigv4_owned, api->credentials, &bytes_signed, request->wall_s, &call->caller, call->failure);
    if (error == ERROR_UNKNOWN_ACCESS_KEY && api->inner_credentials != NULL)
        error = sigv4_verify(api->sigv4_owned, api->inner_credentials, &bytes_signed, request->wall_s, &call->caller,
                             call->failure);
    return error;
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
    const char *name = right == RIGHT_READ ? "read" : right == RIGHT_WRITE ? "write" : "admin";
    return call_fail(call, ERROR_ACCESS_DENIED,
                     "Access is denied: the credential %.*s lacks the right '%s', which %s needs.",
                     BYTES_FORMAT(caller->access_key), name, call->exchange->action);
}

enum error access_check_action(struct call *call)
{
    const struct credential *caller = call->caller;
    if (caller == NULL)
        return OK;
    if (!is_owner(call) && call->action->shared_as == NULL)
        return call_fail(
            call, ERROR_ACCESS_DENIED,
            "Access is denied: %s is for credentials of namespace %.*s only; %.*s is one of namespace %.*s.",
            call->exchange->action, BYTES_FORMAT(core_name(call->core)), BYTES_FORMAT(caller->access_key),
            BYTES_FORMAT(caller->namespace_name));
    return access_check_right(call, call->action->rights);
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

/* Does the queue's own policy let in the caller's namespace? */
static bool is_shared(const struct call *call, const struct queue *queue)
{
    return policy_allows(queue->settings.policy, call->caller->namespace_name,
                         bytes_from_string(call->action->shared_as), call_queue_arn(call, queue->name_owned),
                         call->arena);
}

enum error access_check_queue(struct call *call, struct bytes name, const struct queue *queue)
{
    const struct credential *caller = call->caller;
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
