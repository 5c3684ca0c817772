/* What several actions use: going on after a wait, finding queues and batches by their names, URLs and ARNs. */
#include "api/access.h"
#include "api/reach.h"
#include "api/reply.h"
#include "api/state.h"

#include "api/text.h"
#include <stdarg.h>
#include <stdio.h>

#define GROUP_SIZE_MAX 128u
#define REGION_SIZE_MAX 64u
#define NAMESPACES_SHOWN_MAX 8u

struct call call_resume(struct api *api, struct exchange *exchange, struct reply_draft *draft, struct failure *failure,
                        uint64_t now_ms)
{
    reply_begin(exchange, draft);
    return call_go_on(api, exchange, draft, failure, now_ms);
}

struct call call_go_on(struct api *api, struct exchange *exchange, struct reply_draft *draft, struct failure *failure,
                       uint64_t now_ms)
{
    return (struct call){
        .front = api->front,
        .api = api,
        .exchange = exchange,
        .ns = api->ns,
        .core = namespace_begin(api->ns, now_ms),
        .arena = &exchange->arena,
        .action = exchange->row,
        .caller = exchange->caller,
        .failure = failure,
        .reply = &draft->writer,
        .now_ms = now_ms,
    };
}

const struct front_options *call_options(const struct call *call)
{
    return &call->front->options;
}

struct digest *call_digest(const struct call *call)
{
    return core_digest(call->core);
}

struct buffer *call_scratch(const struct call *call)
{
    return &call->front->scratch;
}

enum error call_fail(struct call *call, enum error error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    failure_set_list(call->failure, error, format, arguments);
    va_end(arguments);
    return error;
}

/* Takes the last segment off a path; the rest stays in *path. */
static struct bytes take_last_segment(struct bytes *path)
{
    size_t start = path->size;
    while (start > 0 && path->ptr[start - 1] != '/')
        start--;
    struct bytes segment = bytes_skip(*path, start);
    path->size = start > 0 ? start - 1 : 0;
    return segment;
}

/* Some clients end a URL with a slash. It means nothing. */
static struct bytes without_slash(struct bytes url)
{
    if (url.size > 0 && url.ptr[url.size - 1] == '/')
        url.size--;
    return url;
}

struct bytes call_account_of_url(struct bytes url)
{
    url = without_slash(url);
    (void)take_last_segment(&url);
    return take_last_segment(&url);
}

struct bytes call_url(const struct call *call)
{
    struct bytes path = call->exchange->request.path;
    yyjson_val *url = yyjson_obj_get(call->params.object, "QueueUrl");
    bool has_url = url != NULL && !yyjson_is_null(url);
    const bool names_none = bytes_equal(path, BYTES("/")) || bytes_equal(path, BYTES(RECEIVED_PATH));
    return has_url || names_none ? params_bytes(url) : path;
}

/* The queue's name in a queue URL, read from its path: scheme://host/namespace/name, the older /queue/name and
 * /queue/region/namespace/name, or a bare name. Empty if the URL is of another form or names another namespace. */
static struct bytes name_of_url(const struct core *core, struct bytes url)
{
    struct bytes path = without_slash(url);
    size_t size = path.size;
    struct bytes name = take_last_segment(&path);
    if (name.size == size)
        return name;
    struct bytes account = take_last_segment(&path);
    bool is_ours = bytes_equal(account, core_name(core)) || bytes_equal(account, BYTES("queue"));
    return is_ours ? name : bytes_make(NULL, 0);
}

/* The namespaces whose queues the caller may name. Without credentials: all that are served. */
static struct bytes served_namespaces(const struct call *call)
{
    struct bytes names = core_name(call->core);
    if (call->caller != NULL)
        return call->caller->namespace_name;
    for (size_t i = 0; i < front_count(call->front) && i < NAMESPACES_SHOWN_MAX; i++) {
        struct bytes name = core_name(namespace_core(front_at(call->front, i)->ns));
        names = i == 0 ? name : arena_format(call->arena, "%.*s, %.*s", BYTES_FORMAT(names), BYTES_FORMAT(name));
    }
    return names;
}

enum error call_fail_namespace(struct call *call, struct bytes account)
{
    return call_fail(
        call, ERROR_QUEUE_DOES_NOT_EXIST, "The specified queue does not exist. Its account is '%.*s', and %s: %.*s.",
        BYTES_FORMAT(text_shown(account)),
        call->caller == NULL ? "this server has these namespaces" : "the credential's namespace is another",
        BYTES_FORMAT(served_namespaces(call)));
}

enum error call_fail_name(struct call *call, struct bytes name)
{
    return call_fail(call, ERROR_QUEUE_DOES_NOT_EXIST,
                     "The specified queue does not exist. Namespace %.*s has no queue '%.*s'.",
                     BYTES_FORMAT(core_name(call->core)), BYTES_FORMAT(text_shown(name)));
}

/* Describes what is wrong with a QueueUrl that finds no queue. */
static enum error fail_url(struct call *call, struct bytes url, struct bytes name)
{
    static const struct bytes mark = BYTES("://");
    if (name.size > 0)
        return call_fail_name(call, name);
    if (url.size == 0)
        return call_fail(call, ERROR_QUEUE_DOES_NOT_EXIST,
                         "The specified queue does not exist. The request names none: QueueUrl is missing or empty.");
    const uint8_t *scheme_end = memmem(url.ptr, url.size, mark.ptr, mark.size);
    struct bytes path = scheme_end == NULL ? url : bytes_skip(url, (size_t)(scheme_end - url.ptr) + mark.size);
    const uint8_t *host_end = memchr(path.ptr, '/', path.size);
    path = host_end == NULL ? BYTES("") : bytes_skip(path, (size_t)(host_end - path.ptr));
    struct bytes account = call_account_of_url(path);
    if (account.size > 0)
        return call_fail_namespace(call, account);
    return call_fail(call, ERROR_QUEUE_DOES_NOT_EXIST,
                     "The specified queue does not exist. '%.*s' is neither a queue's name nor its URL, which ends in "
                     "/%.*s/NAME.",
                     BYTES_FORMAT(text_shown(url)), BYTES_FORMAT(core_name(call->core)));
}

enum error call_fail_handle(struct call *call, struct bytes handle)
{
    return call_fail(call, ERROR_RECEIPT_HANDLE_IS_INVALID,
                     "The input receipt handle \"%.*s\" is not a valid receipt handle.",
                     (int)(handle.size < 100 ? handle.size : 100), (const char *)handle.ptr);
}

enum error call_find_queue(struct call *call, const struct params *params, struct queue **queue)
{
    struct bytes url = {NULL, 0};
    enum error error = params_text(params, "QueueUrl", &url);
    return error == OK ? call_find_queue_at(call, url, queue) : error;
}

enum error call_find_queue_at(struct call *call, struct bytes url, struct queue **queue)
{
    struct bytes name = name_of_url(call->core, url);
    *queue = name.size == 0 ? NULL : core_find_queue(call->core, name);
    enum error error = access_check_queue(call, name, *queue);
    if (error != OK)
        return error;
    return *queue == NULL ? fail_url(call, url, name) : OK;
}

enum error call_queue(struct call *call, struct queue **queue)
{
    if (call->queue != NULL) {
        *queue = call->queue; /* it still exists: no request can run after its queue was removed */
        return OK;
    }
    struct bytes url = {NULL, 0};
    enum error error = params_text(&call->params, "QueueUrl", &url);
    if (error == OK)
        error = call_find_queue_at(call, url.ptr != NULL ? url : call_url(call), queue);
    if (error == OK) {
        call->queue = *queue;
        call->exchange->queue_id = (*queue)->id;
    }
    return error;
}

enum error call_optional_queue(struct call *call, struct queue **queue)
{
    struct bytes url = {NULL, 0};
    const enum error error = params_text(&call->params, "QueueUrl", &url);
    *queue = NULL;
    return error != OK || (url.ptr == NULL && call_url(call).size == 0) ? error : call_queue(call, queue);
}

enum error call_batch(struct call *call, const struct batch **batch)
{
    return call_find_batch(call, &call->params, batch);
}

enum error call_find_batch(struct call *call, const struct params *params, const struct batch **batch)
{
    struct bytes id = {NULL, 0};
    enum error error = params_required_text(params, "BatchId", &id);
    if (error != OK)
        return error;
    *batch = core_find_batch(call->core, id);
    if (*batch != NULL && reach_batch(call, *batch))
        return OK;
    return call_fail(call, ERROR_BATCH_DOES_NOT_EXIST, "There is no batch '%.*s'%s.",
                     (int)(id.size < BATCH_ID_SIZE_MAX ? id.size : BATCH_ID_SIZE_MAX), (const char *)id.ptr,
                     reach_words(call));
}

struct bytes call_closed_words(struct call *call, struct bytes batch_id)
{
    const struct batch *batch = core_find_batch(call->core, batch_id);
    if (batch == NULL || batch->state != BATCH_COMPLETED)
        return BYTES(
            "is sealed: no more units can join it. Only a unit of it that has not ended can add some, by a Commit "
            "that names it.");
    return arena_format(call->arena, "has completed (%s): nothing can join it any more.",
                        batch_status_name(batch->status));
}

enum error call_check_group(const struct params *params, struct bytes group)
{
    if (group.ptr == NULL || text_is_identifier(group, GROUP_SIZE_MAX))
        return OK;
    return params_invalid(
        params, "MessageGroupId", group,
        "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.");
}

enum error call_group(struct call *call, struct bytes *group)
{
    enum error error = params_text(&call->params, "MessageGroupId", group);
    if (error == OK && group->ptr == NULL)
        return call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain the parameter MessageGroupId.");
    return error == OK ? call_check_group(&call->params, *group) : error;
}

struct bytes call_queue_url(const struct call *call, const struct queue *queue)
{
    const char *public_url = call_options(call)->public_url;
    struct bytes host = call->exchange->request.host;
    struct bytes account = core_name(call->core);
    if (public_url != NULL)
        return arena_format(call->arena, "%s/%.*s/%.*s", public_url, BYTES_FORMAT(account),
                            BYTES_FORMAT(queue->name_owned));
    return arena_format(call->arena, "%s://%.*s/%.*s/%.*s", call->exchange->request.is_https ? "https" : "http",
                        BYTES_FORMAT(host), BYTES_FORMAT(account), BYTES_FORMAT(queue->name_owned));
}

struct bytes call_queue_arn(const struct call *call, struct bytes queue_name)
{
    return arena_format(call->arena, "arn:aws:sqs:%s:%.*s:%.*s", call_options(call)->region,
                        BYTES_FORMAT(core_name(call->core)), BYTES_FORMAT(queue_name));
}

bool call_arn_names(const struct call *call, struct bytes arn, struct bytes queue_name)
{
    struct bytes end =
        arena_format(call->arena, ":%.*s:%.*s", BYTES_FORMAT(core_name(call->core)), BYTES_FORMAT(queue_name));
    struct bytes start = BYTES("arn:aws:sqs:");
    if (arn.size < start.size + end.size || !bytes_starts_with(arn, start) || !bytes_ends_with(arn, end))
        return false;
    return text_is_word(bytes_make(arn.ptr + start.size, arn.size - start.size - end.size), REGION_SIZE_MAX);
}

struct bytes call_sequence_number(const struct call *call, uint64_t number)
{
    return arena_format(call->arena, "%020llu", (unsigned long long)number);
}
