/* CreatePool, UpdatePool, ListPools and DeletePool. */
#include "api/pool_call.h"
#include "api/pool_spec.h"
#include "api/reach.h"
#include "api/wait.h"
#include "core/pools/decide_ticket.h"

/* --- life --------------------------------------------------------------------------------------------------------- */

static void write_brief(struct call *call, const struct ticket_pool *pool)
{
    writer_text(call->reply, "PoolName", pool->name_owned);
    writer_number(call->reply, "RulesVersion", pool->rules_version);
    pool_write_warnings(call, pool);
}

static enum error put(struct call *call, struct bytes name, const struct pool_spec *spec, struct ticket_pool **pool)
{
    enum error error = decide_put_pool(call->core, name, spec, pool);
    if (error != OK)
        return call_fail(call, error, "There are %u pools, as many as there can be.", TICKET_POOLS_MAX);
    return OK;
}

enum error action_create_pool(struct call *call)
{
    struct bytes name;
    struct pool_spec spec;
    enum error error = pool_call_name(call, &name);
    if (error != OK)
        return error;
    struct ticket_pool *pool = ticket_pool_find(call->core, name);
    error = pool_spec_read(call, NULL, &spec);
    if (error != OK)
        return error;
    if (pool != NULL && !pool_spec_equal(call, &pool->spec, &spec))
        return call_fail(call, ERROR_POOL_ALREADY_EXISTS,
                         "There is a pool '%.*s' with other arguments: change it with UpdatePool, or choose another "
                         "name.",
                         BYTES_FORMAT(name));
    error = pool == NULL ? put(call, name, &spec, &pool) : OK;
    if (error == OK)
        write_brief(call, pool);
    return error;
}

enum error action_update_pool(struct call *call)
{
    struct ticket_pool *pool;
    struct pool_spec spec;
    enum error error = pool_call_find(call, &pool);
    if (error == OK)
        error = pool_spec_read(call, pool, &spec);
    if (error == OK && !pool_spec_equal(call, &pool->spec, &spec))
        error = put(call, arena_copy(call->arena, pool->name_owned), &spec, &pool);
    if (error == OK)
        write_brief(call, pool);
    return error;
}

enum error action_delete_pool(struct call *call)
{
    struct ticket_pool *pool;
    enum error error = pool_call_find(call, &pool);
    if (error != OK)
        return error;
    struct pool_readers *readers = wait_pool_take_all(call->api, pool);
    decide_delete_pool(call->core, pool);
    /* Answered only now, so that these replies wait until the deletion is durable (invariant R9). */
    wait_pool_deleted(call->api, readers);
    return OK;
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static void write_item(struct call *call, const struct ticket_pool *pool)
{
    writer_object_begin(call->reply, NULL);
    writer_text(call->reply, "PoolName", pool->name_owned);
    writer_number(call->reply, "Waiting", pool->counts.waiting);
    writer_number(call->reply, "RulesVersion", pool->rules_version);
    writer_object_end(call->reply);
}

/* Pools in order of name. */
enum error action_list_pools(struct call *call)
{
    struct bytes prefix = {NULL, 0};
    int64_t results_max, count = 0;
    bool is_paged;
    enum error error = params_text(&call->params, "Prefix", &prefix);
    struct bytes from = prefix;
    if (error == OK)
        error = call_page_by_name(call, &from, &results_max, &is_paged);
    if (error != OK)
        return error;
    const struct ticket_pool *next = NULL;
    writer_list_begin(call->reply, "Pools");
    for (uint32_t i = ticket_pool_index(call->core, from); i < ticket_pool_count(call->core); i++) {
        const struct ticket_pool *pool = ticket_pool_at(call->core, i);
        if (!bytes_starts_with(pool->name_owned, prefix))
            break;
        if (!reach_pool(call, pool))
            continue;
        if (count++ == results_max) {
            next = pool;
            break;
        }
        write_item(call, pool);
    }
    writer_list_end(call->reply);
    if (next != NULL)
        call_seal_token(call, next->name_owned);
    return OK;
}
