#include "api/api.h"

#include "api/access.h"
#include "api/disk_limit.h"
#include "api/firings.h"
#include "api/growth.h"
#include "api/pool_wait.h"
#include "api/reply.h"
#include "api/state.h"
#include "base/memory.h"
#include "core/decide_namespace.h"
#include "engine/calendar.h"
#include "engine/grant.h"
#include <stdlib.h>

/* --- life --------------------------------------------------------------------------------------------------------- */

struct api *api_create(struct namespace *ns, const struct api_options *options)
{
    struct api *api = memory_allocate_zeroed(sizeof(*api));
    api->ns = ns;
    api->options = *options;
    api->call_counts_owned = memory_allocate_zeroed(action_count * 2 * sizeof(*api->call_counts_owned));
    table_init(&api->action_by_target);
    for (size_t i = 0; i < action_count; i++)
        table_insert(&api->action_by_target, bytes_hash(bytes_from_string(actions[i].target)), (uint32_t)i + 1);
    pool_init(&api->waiters, sizeof(struct waiter));
    heap_init(&api->waiter_deadlines, &api->waiters, offsetof(struct waiter, deadline_index),
              offsetof(struct waiter, number));
    pool_wait_init(api);
    list_init(&api->finished);
    api->sigv4_owned = sigv4_create("sqs");
    api->calendar_owned = calendar_create(options->zones_folder);
    buffer_init(&api->scratch);
    return api;
}

void api_set_family(struct api *api, struct api *const *members, size_t count)
{
    ASSERT(count > 0);
    api->family = members;
    api->family_count = count;
}

struct namespace *api_namespace(const struct api *api)
{
    return api->ns;
}

void api_destroy(struct api *api)
{
    ASSERT(api->waiters.used == 0);
    pool_wait_deinit(api);
    heap_deinit(&api->waiter_deadlines);
    pool_deinit(&api->waiters);
    table_deinit(&api->action_by_target);
    buffer_deinit(&api->scratch);
    sigv4_destroy(api->sigv4_owned);
    calendar_destroy(api->calendar_owned);
    free(api->call_counts_owned);
    free(api->deleted_owned);
    free(api);
}

void api_set_credentials(struct api *api, const struct credentials *credentials)
{
    api->credentials = credentials;
    struct api *alone[] = {api};
    struct api *const *members = api->family_count > 0 ? api->family : alone;
    size_t count = api->family_count > 0 ? api->family_count : 1;
    for (size_t i = 0; i < count; i++) {
        wait_renew(members[i], api);
        pool_wait_renew(members[i], api);
    }
}

bool api_has_credentials(const struct api *api)
{
    return api->credentials != NULL;
}

void api_set_inner_credentials(struct api *api, const struct credentials *credentials)
{
    api->inner_credentials = credentials;
}

void api_set_reply_budget(struct api *api, struct reply_budget *budget)
{
    api->replies = budget;
}

void api_set_wait_budget(struct api *api, struct wait_budget *budget)
{
    api->waits = budget;
}

/* --- replies ------------------------------------------------------------------------------------------------------ */

void api_finish(struct api *api, struct exchange *exchange)
{
    exchange->state = EXCHANGE_FINISHED;
    exchange->hold_sequence = namespace_hold_sequence(api->ns);
    api_trim_scratch(api);
    /* The tree of a large request is many times its size; it need not stay until a slow client has taken its reply. */
    arena_reset(&exchange->arena);
    if (api->replies != NULL)
        exchange_count_reply(exchange, api->replies);
    list_append(&api->finished, &exchange->api_link);
}

struct exchange *api_take_finished(struct api *api)
{
    struct list_link *link = list_first(&api->finished);
    if (link == NULL)
        return NULL;
    list_remove(link);
    return CONTAINER_OF(link, struct exchange, api_link);
}

bool api_let_go(struct api *api, struct exchange *exchange, uint64_t now_ms)
{
    ASSERT(exchange->state == EXCHANGE_FINISHED && !list_is_linked(&exchange->api_link));
    return !exchange_gives_lease(exchange) ||
           grant_let_go(exchange->grant_owned, api->ns, now_ms, &exchange->hold_sequence);
}

void api_refuse(struct api *api, struct exchange *exchange, enum error error, const char *text)
{
    struct failure failure;
    failure_set(&failure, error, "%s", text == NULL ? "" : text);
    exchange->api = api;
    reply_fail(exchange, error, &failure);
    api_finish(api, exchange);
    exchange->hold_sequence = 0;
    api->refused_count++;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* Runs the action. Leaves the reply complete, or the exchange waiting. */
static enum error run_action(struct call *call, const struct action *action)
{
    struct reply_draft draft;
    reply_begin(call->exchange, &draft);
    call->reply = &draft.writer;
    enum error error = action->run(call);
    /* The row says what it is about; nothing may be done to that, or told of it, unless it was asked whether the
     * caller reaches it. */
    ASSERT(error != OK || action->reach == REACH_EACH || (call->reached & 1u << action->reach) != 0);
    if (error == OK && !call->is_waiting)
        reply_end(call->exchange, &draft, action->reply_length == REPLY_EMPTY);
    return error;
}

/* The member of the family for that namespace, or NULL. */
static struct api *find_member(const struct api *api, struct bytes name)
{
    for (size_t i = 0; i < api->family_count; i++)
        if (bytes_equal(name, core_name(namespace_core(api->family[i]->ns))))
            return api->family[i];
    return NULL;
}

/* The member of the family whose namespace the request names: the account of its queue's URL or of its queue's owner.
 * One that names none, or one that is not here, goes to the caller's; where there is none, it stays where it came. */
static struct api *find_owner(const struct call *call)
{
    if (call->api->family_count < 2)
        return call->api;
    struct bytes url = call_url(call);
    struct bytes owner = params_bytes(yyjson_obj_get(call->params.object, "QueueOwnerAWSAccountId"));
    struct api *found = find_member(call->api, url.size > 0 ? call_account_of_url(url) : owner);
    if (found == NULL && call->caller != NULL)
        found = find_member(call->api, call->caller->namespace_name);
    return found != NULL ? found : call->api;
}

void api_submit(struct api *api, struct exchange *exchange, uint64_t now_ms)
{
    struct failure failure;
    failure_init(&failure);
    struct call call = {
        .api = api,
        .exchange = exchange,
        .arena = &exchange->arena,
        .failure = &failure,
        .now_ms = now_ms,
    };
    exchange->form = request_form(&exchange->request);
    exchange->is_own = exchange->form == WIRE_JSON && bytes_starts_with(exchange->request.target, BYTES("Tally."));
    const struct action *action = NULL;
    enum error error = access_identify(&call);
    exchange->caller = call.caller;
    if (error == OK)
        error = decode_request(&call, &action);
    if (action == NULL) {
        api_refuse(api, exchange, error, failure.text);
        return;
    }
    if (error == OK)
        api = find_owner(&call);
    exchange->api = call.api = api;
    call.ns = api->ns;
    call.action = action;
    call.core = namespace_begin(api->ns, now_ms);
    if (error == OK)
        error = access_check_action(&call);
    if (error == OK)
        error = disk_limit_check_action(&call);
    if (error == OK)
        error = growth_check(&call, action->growth);
    if (error == OK)
        error = run_action(&call, action);
    api->call_counts_owned[2 * (size_t)(action - actions) + (error != OK)]++;
    const bool is_spent = disk_limit_is_spent(api);
    if (!is_spent)
        decide_time_passed(call.core);
    if (error != OK)
        reply_fail(exchange, error, &failure);
    if (!call.is_waiting)
        api_finish(api, exchange);
    if (!api_must_wait(api) && !is_spent)
        wait_serve(api, now_ms);
}

void api_abandon(struct api *api, struct exchange *exchange)
{
    if (exchange->state == EXCHANGE_WAITING && exchange->waits_for_pool)
        pool_wait_abandon(api, exchange);
    else if (exchange->state == EXCHANGE_WAITING)
        wait_abandon(api, exchange);
    else
        list_remove(&exchange->api_link);
}

void api_release_waiting(struct api *api)
{
    wait_release_all(api);
    pool_wait_release_all(api);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

/* Might a receive or a feed that waits be answered? */
static bool has_news(const struct api *api)
{
    return (core_has_ready_queue(namespace_core(api->ns)) && api->waiters.used > 0) || pool_wait_has_news(api);
}

bool api_waits_for_memory(struct api *api, uint64_t now_ms)
{
    if (!api_must_wait(api) || !has_news(api))
        return false;
    api_tick(api, now_ms); /* what stays waits for nothing else */
    return has_news(api);
}

/* When somebody who waits has waited long enough. */
static uint64_t deadline_ms(const struct api *api)
{
    uint64_t waiter_ms = heap_top_key(&api->waiter_deadlines);
    uint64_t feed_ms = pool_wait_deadline_ms(api);
    return feed_ms < waiter_ms ? feed_ms : waiter_ms;
}

uint64_t api_due_ms(const struct api *api)
{
    const struct core *core = namespace_core(api->ns);
    if (disk_limit_is_spent(api))
        return deadline_ms(api); /* all else waits for room, and is looked at when there is some */
    if (pool_wait_has_portions(api) || (has_news(api) && !api_must_wait(api)))
        return 0;
    uint64_t core_ms = core_due_ms(core);
    uint64_t waiter_ms = deadline_ms(api);
    return core_ms < waiter_ms ? core_ms : waiter_ms;
}

void api_tick(struct api *api, uint64_t now_ms)
{
    struct core *core = namespace_begin(api->ns, now_ms);
    const bool is_spent = disk_limit_is_spent(api);
    if (!is_spent) {
        decide_due(core);
        firings_do_due(api, core);
        wait_serve(api, now_ms);
    }
    wait_expire(api, now_ms);
    if (!is_spent)
        pool_wait_serve(api, now_ms);
    pool_wait_expire(api, now_ms);
}

bool api_is_settling(const struct api *api)
{
    /* Whoever waits for a feed is told once in a turn of what all requests of that turn did. */
    return core_is_settling(namespace_core(api->ns)) || pool_wait_has_news(api);
}

void api_flush(struct api *api)
{
    struct failure ignored; /* whoever shows replies asks namespace_failure() */
    (void)namespace_flush(api->ns, &ignored);
}

bool api_can_flush(const struct api *api)
{
    return namespace_can_flush(api->ns);
}
