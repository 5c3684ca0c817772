#include "api/front.h"

#include "api/access.h"
#include "api/reply.h"
#include "api/state.h"
#include "api/wait.h"
#include "base/memory.h"
#include "engine/calendar.h"
#include <stdlib.h>

/* --- life --------------------------------------------------------------------------------------------------------- */

struct front *front_create(const struct front_options *options)
{
    struct front *front = memory_allocate_zeroed(sizeof(*front));
    front->options = *options;
    table_init(&front->action_by_target);
    for (size_t i = 0; i < action_count; i++)
        table_insert(&front->action_by_target, bytes_hash(bytes_from_string(actions[i].target)), (uint32_t)i + 1);
    table_init(&front->served_by_name);
    list_init(&front->finished);
    list_init(&front->scrapes);
    front->durations_owned = memory_allocate_zeroed(action_count * sizeof(*front->durations_owned));
    front->sigv4_owned = sigv4_create("sqs");
    front->calendar_owned = calendar_create(options->zones_folder);
    buffer_init(&front->scratch);
    return front;
}

void front_adjust(struct front *front, const struct front_options *options)
{
    front->options.memory_max = options->memory_max;
    front->options.metrics_queues = options->metrics_queues;
    front->options.enforce_purge_interval = options->enforce_purge_interval;
    front->options.enforce_delete_interval = options->enforce_delete_interval;
}

void front_destroy(struct front *front)
{
    ASSERT(front->served_count == 0 && list_is_empty(&front->scrapes));
    table_deinit(&front->action_by_target);
    table_deinit(&front->served_by_name);
    buffer_deinit(&front->scratch);
    sigv4_destroy(front->sigv4_owned);
    calendar_destroy(front->calendar_owned);
    free(front->served_owned);
    free(front->durations_owned);
    free(front->notices_owned);
    free(front->slow_requests.ring_owned);
    free(front);
}

/* --- what all share ----------------------------------------------------------------------------------------------- */

void front_set_credentials(struct front *front, const struct credentials *credentials)
{
    front->credentials = credentials;
    front->credentials_number++;
    for (size_t i = 0; i < front->served_count; i++)
        wait_renew(front->served_owned[i]);
}

bool front_has_credentials(const struct front *front)
{
    return front->credentials != NULL;
}

void front_set_inner_credentials(struct front *front, const struct credentials *credentials)
{
    front->inner_credentials = credentials;
    front->credentials_number++;
    for (size_t i = 0; i < front->served_count; i++)
        wait_renew(front->served_owned[i]);
}

void front_set_budgets(struct front *front, struct reply_budget *replies, struct wait_budget *waits)
{
    front->replies = replies;
    front->waits = waits;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

struct exchange *front_take_finished(struct front *front)
{
    struct list_link *link = list_first(&front->finished);
    if (link == NULL)
        return NULL;
    list_remove(link);
    return CONTAINER_OF(link, struct exchange, api_link);
}

void front_refuse(struct front *front, struct exchange *exchange, enum error error, const char *text)
{
    struct failure failure;
    failure_set(&failure, error, "%s", text == NULL ? "" : text);
    exchange->api = NULL;
    reply_fail(exchange, error, &failure);
    front_finish(front, exchange, 0);
    front->refused_count++;
}

void front_answer(struct front *front, struct exchange *exchange, const struct foreign_reply *reply)
{
    exchange->api = NULL;
    reply_take_foreign(exchange, reply);
    front_finish(front, exchange, 0);
}

void front_note_duration(struct front *front, const struct exchange *exchange, uint64_t duration_us)
{
    ASSERT(exchange->row != NULL);
    histogram_add(&front->durations_owned[exchange->row - actions], duration_us);
}

/* May another node serve it? Then it is the one that front_absent() tells. */
static bool note_absent(struct front *front, struct bytes name)
{
    if (front->options.is_elsewhere == NULL || name.size > sizeof(front->absent) ||
        !front->options.is_elsewhere(front->options.absence_context, name))
        return false;
    memcpy(front->absent, name.ptr, name.size);
    front->absent_size = name.size;
    return true;
}

/* The namespace that the request names: the account in its queue's URL, or its queue's owner. A request that names
 * none, or one that there is not, goes to the caller's namespace; without a caller, to the first one. NULL: that is not
 * served here. */
static struct api *find_owner(const struct call *call)
{
    struct front *front = call->front;
    if (front->options.is_elsewhere == NULL && front->served_count < 2)
        return front_at(front, 0);
    const struct bytes url = call_url(call);
    const struct bytes owner = params_bytes(yyjson_obj_get(call->params.object, "QueueOwnerAWSAccountId"));
    const struct bytes named = url.size > 0 ? call_account_of_url(url) : owner;
    struct api *found = front_find(front, named);
    if (found != NULL || (named.size > 0 && note_absent(front, named)))
        return found;
    if (call->caller != NULL)
        found = front_find(front, call->caller->namespace_name);
    if (found != NULL || (call->caller != NULL && note_absent(front, call->caller->namespace_name)))
        return found;
    return front->served_count > 0 || !note_absent(front, BYTES("")) ? front_at(front, 0) : NULL;
}

/* Who counts a request that can't be read: the namespace that it names if it is served here, or the first one. */
static struct api *find_refuser(const struct call *call)
{
    struct api *api = find_owner(call);
    return api != NULL ? api : front_at(call->front, 0);
}

struct bytes front_absent(const struct front *front)
{
    return bytes_make(front->absent, front->absent_size);
}

/* Another node serves, or none: SDKs try again. */
void front_refuse_absent(struct front *front, struct exchange *exchange)
{
    char text[1024] = "";
    ASSERT(front->options.explain_absence != NULL);
    front->options.explain_absence(front->options.absence_context, front_absent(front), text, sizeof(text));
    front_refuse(front, exchange, ERROR_SERVICE_UNAVAILABLE, text);
}

bool front_submit(struct front *front, struct exchange *exchange, uint64_t now_ms)
{
    struct failure failure;
    failure_init(&failure);
    struct call call = {
        .front = front,
        .exchange = exchange,
        .arena = &exchange->arena,
        .failure = &failure,
        .now_ms = now_ms,
    };
    exchange_note_form(exchange);
    enum error error = access_identify(&call);
    exchange->caller = call.caller;
    exchange->credentials_number = front->credentials_number;
    if (error == OK)
        error = decode_request(&call);
    if (call.action == NULL || (error != OK && front->served_count == 0)) {
        front_refuse(front, exchange, error, failure.text);
        return true;
    }
    struct api *api = error == OK ? find_owner(&call) : find_refuser(&call);
    if (api != NULL)
        api_run(api, &call, error);
    else if (access_is_inner(&call)) /* nobody else knows its credential */
        front_refuse_absent(front, exchange);
    return api != NULL || exchange->state == EXCHANGE_FINISHED;
}

void front_actions_write(struct buffer *text)
{
    for (size_t i = 0; i < action_count; i++)
        buffer_append_format(text, "%s\"%s\":\"%s\"", i > 0 ? "," : "", actions[i].target,
                             right_name(actions[i].rights));
}
