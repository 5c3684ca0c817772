/* CountTickets: how many tickets wait, or how many of those fit a filter. */
#include "api/wait.h"

#include <stdlib.h>

enum error action_count_tickets(struct call *call)
{
    struct ticket_pool *pool;
    yyjson_val *filter = NULL;
    enum error error = pool_call_find(call, &pool);
    if (error == OK)
        error = params_object(&call->params, "Filter", &filter);
    if (error != OK)
        return error;
    if (filter == NULL) {
        writer_number(call->reply, "Tickets", pool->counts.waiting);
        writer_number(call->reply, "Weight", pool->weight);
        return OK;
    }
    struct buffer *encoded = call_scratch(call);
    buffer_truncate(encoded, 0);
    error = facts_encode(pool->rules_owned, NULL, filter, encoded, call->failure);
    if (error != OK)
        return error;
    struct ticket_count count = {.slot = 1, .filter_owned = facts_create(pool->rules_owned, buffer_bytes(encoded))};
    ASSERT(count.filter_owned != NULL);
    if (!ticket_count_portion(pool, &count)) {
        wait_pool_count(call, pool, &count);
        return OK;
    }
    ticket_count_write(call, &count);
    facts_destroy(count.filter_owned);
    return OK;
}
