#include "api/api.h"

#include "api/access.h"
#include "api/activity.h"
#include "api/audit.h"
#include "api/disk_limit.h"
#include "api/firings.h"
#include "api/growth.h"
#include "api/reply.h"
#include "api/state.h"
#include "api/wait.h"
#include "base/memory.h"
#include "core/decide_namespace.h"
#include "engine/calendar.h"
#include "engine/grant.h"
#include <stdlib.h>

/* --- life --------------------------------------------------------------------------------------------------------- */

void api_init(struct api *api, struct front *front, struct namespace *ns)
{
    *api = (struct api){
        .front = front,
        .ns = ns,
        .since_ms = namespace_time(ns),
        .call_counts_owned = memory_allocate_zeroed(action_count * 2 * sizeof(*api->call_counts_owned)),
    };
    trends_init(&api->trends, front->options.keeps_history);
    wait_init(api);
    wait_receive_init(api);
    wait_pool_init(api);
    events_init(api);
    front_add(front, api);
}

void api_withdraw(struct api *api)
{
    ASSERT(!api->is_withdrawn);
    front_remove(api->front, api);
    api->is_withdrawn = true;
    api_release_waiting(api);
}

void api_deinit(struct api *api)
{
    if (!api->is_withdrawn)
        front_remove(api->front, api);
    wait_pool_deinit(api);
    wait_receive_deinit(api);
    wait_deinit(api);
    trends_deinit(api);
    activity_deinit(api);
    free(api->call_counts_owned);
    free(api->deleted_owned);
}

bool api_is_withdrawn(const struct api *api)
{
    return api->is_withdrawn;
}

struct namespace *api_namespace(const struct api *api)
{
    return api->ns;
}

/* --- replies ------------------------------------------------------------------------------------------------------ */

bool api_reply_may_leave(struct api *api, struct exchange *exchange, uint64_t now_ms)
{
    ASSERT(exchange->state == EXCHANGE_FINISHED && !list_is_linked(&exchange->api_link));
    return !exchange_gives_lease(exchange) ||
           grant_may_leave(exchange->grant_owned, api->ns, now_ms, &exchange->hold_sequence);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* Runs the action. Leaves the reply complete, or the exchange waiting. */
static enum error run_action(struct call *call, const struct action *action)
{
    struct reply_draft draft;
    reply_begin(call->exchange, &draft);
    call->reply = &draft.writer;
    enum error error = action->run(call);
    /* The row says what the action is about. Nothing of that may be changed or told before the caller's reach was
     * checked. */
    ASSERT(error != OK || action->reach == REACH_EACH || (call->reached & 1u << action->reach) != 0);
    if (error == OK && !call->is_waiting)
        reply_end(call->exchange, &draft, action->reply_length == REPLY_EMPTY && !call->is_dry_run);
    return error;
}

void api_run(struct api *api, struct call *call, enum error error)
{
    struct exchange *exchange = call->exchange;
    const struct action *action = call->action;
    exchange->api = call->api = api;
    call->ns = api->ns;
    call->core = namespace_begin(api->ns, call->now_ms);
    trends_note(api, &api->trends, call->core, call->now_ms);
    if (error == OK)
        error = access_check_action(call);
    if (error == OK)
        error = disk_limit_check_action(call);
    if (error == OK)
        error = growth_check(call, action->growth);
    const uint64_t end = namespace_end(api->ns);
    if (error == OK)
        error = run_action(call, action);
    audit_call(call, error, namespace_end(api->ns) != end);
    api->call_counts_owned[2 * (size_t)(action - actions) + (error != OK)]++;
    const bool is_spent = disk_limit_is_spent(api);
    if (!is_spent)
        decide_time_passed(call->core);
    if (error != OK)
        reply_fail(exchange, error, call->failure);
    if (!call->is_waiting)
        api_finish(api, exchange);
    if (!front_must_wait(api->front) && !is_spent)
        wait_receive_serve(api, call->now_ms);
}

bool api_is_waiting(const struct exchange *exchange)
{
    return exchange->state == EXCHANGE_WAITING && wait_has_deadline(exchange);
}

void api_abandon(struct exchange *exchange)
{
    if (exchange->state == EXCHANGE_WAITING)
        wait_abandon(exchange->api, exchange);
    else
        list_remove(&exchange->api_link);
}

void api_release_waiting(struct api *api)
{
    wait_release_all(api);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

bool api_has_news(const struct api *api)
{
    return (core_has_ready_queue(namespace_core(api->ns)) && api->receives_waiting > 0) || wait_pool_has_news(api) ||
           activity_has_news(api);
}

bool api_is_awaited(const struct api *api)
{
    return api->waiters.used > 0 || api->portions_waiting > 0;
}

bool api_waits_for_memory(struct api *api, uint64_t now_ms)
{
    if (!front_must_wait(api->front) || !api_has_news(api))
        return false;
    api_tick(api, now_ms); /* what stays waits for nothing else */
    return api_has_news(api);
}

uint64_t api_due_ms(const struct api *api)
{
    const struct core *core = namespace_core(api->ns);
    if (api->is_withdrawn)
        return UINT64_MAX;
    if (disk_limit_is_spent(api))
        return activity_has_news(api) && !front_must_wait(api->front)
                   ? 0
                   : wait_deadline_ms(api); /* all others wait for room, and are tried again when there is some */
    if (wait_pool_has_portions(api) || (api_has_news(api) && !front_must_wait(api->front)))
        return 0;
    uint64_t core_ms = core_due_ms(core);
    uint64_t waiter_ms = wait_deadline_ms(api);
    return core_ms < waiter_ms ? core_ms : waiter_ms;
}

void api_tick(struct api *api, uint64_t now_ms)
{
    if (api->is_withdrawn)
        return;
    struct core *core = namespace_begin(api->ns, now_ms);
    trends_note(api, &api->trends, core, now_ms);
    const bool is_spent = disk_limit_is_spent(api);
    if (!is_spent) {
        decide_due(core);
        firings_do_due(api, core);
        wait_receive_serve(api, now_ms);
        wait_pool_serve(api, now_ms);
    }
    events_serve(api, now_ms);
    wait_expire(api, now_ms);
}

bool api_is_settling(const struct api *api)
{
    /* Those who wait for a feed are told once a turn what all requests of that turn did. */
    return !api->is_withdrawn &&
           (core_is_settling(namespace_core(api->ns)) || wait_pool_has_news(api) || activity_has_news(api));
}
