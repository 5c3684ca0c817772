/* UpdateTicket, CancelTickets, GetTicket and ListTickets. */
#include "api/pool_call.h"
#include "auth/json_tree.h"
#include "core/pools/decide_ticket.h"

#define CANCELS_MAX 1000u

/* A page shows at most this many bytes, and looks at this many slots. So a pool whose tickets are mostly over delays
 * nobody. */
#define PAGE_SIZE_MAX ((size_t)1024 * 1024)
#define PAGE_SLOTS_MAX 65536u

/* --- update ------------------------------------------------------------------------------------------------------- */

/* The new Attributes and Need: those of the request, else those that the ticket has. */
static enum error read_update(struct call *call, const struct ticket_pool *pool, const struct ticket *ticket,
                              struct ticket_content *content)
{
    yyjson_val *attributes, *need;
    enum error error = params_object(&call->params, "Attributes", &attributes);
    if (error == OK)
        error = params_object(&call->params, "Need", &need);
    if (error == OK && attributes == NULL && need == NULL)
        error = call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain Attributes or Need, or both.");
    if (error != OK)
        return error;
    struct bytes need_text =
        need == NULL ? pool_need_text(call, pool, ticket) : json_tree_compact_value(need, call->arena);
    if (need == NULL && need_text.size > 0)
        need = params_parse_text(need_text, call->arena);
    content->attributes = ticket->content.attributes;
    if (attributes != NULL)
        content->attributes = json_tree_compact_value(attributes, call->arena);
    else if (content->attributes.size > 0)
        attributes = params_parse_text(content->attributes, call->arena);
    const struct ticket_content says = {.attributes = content->attributes, .body = ticket->content.body};
    size_t size = ticket_content_size(&says) + need_text.size;
    if (size > pool_ticket_size_max(pool))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Attributes, Need and Body are %zu bytes of JSON together; the limit of this pool is %zu.",
                         size, pool_ticket_size_max(pool));
    struct buffer *facts = call_scratch(call);
    buffer_truncate(facts, 0);
    error = facts_encode(pool->rules_owned, attributes, need, facts, call->failure);
    content->attributes = arena_copy(call->arena, content->attributes);
    content->facts = buffer_bytes(facts);
    return error;
}

static const char *outcome_name(enum ticket_outcome outcome)
{
    static const char *const names[] = {
        [TICKET_DONE] = "waiting",           [TICKET_IS_STALE] = "stale",     [TICKET_IS_TAKEN] = "too-late",
        [TICKET_IS_CANCELLED] = "cancelled", [TICKET_IS_EXPIRED] = "expired",
    };
    return names[outcome];
}

enum error action_update_ticket(struct call *call)
{
    struct ticket_pool *pool;
    uint32_t slot;
    int64_t version = 0;
    struct ticket_content content = {0};
    enum error error = pool_call_find(call, &pool);
    if (error == OK)
        error = pool_call_ticket(call, pool, &slot);
    if (error == OK)
        error =
            params_integer_in(&call->params, "Version", 0, UINT32_MAX, "It must be from 0 to 4294967295.", &version);
    const struct ticket *ticket = error == OK ? ticket_at(&pool->tickets, slot) : NULL;
    if (error == OK)
        error = read_update(call, pool, ticket, &content);
    if (error != OK)
        return error;
    enum ticket_outcome outcome =
        decide_update_ticket(call->core, pool, slot, (uint32_t)version, content.facts, content.attributes);
    writer_text(call->reply, "TicketId", ticket->key_owned);
    writer_string(call->reply, "Status", outcome_name(outcome));
    writer_number(call->reply, "Version", ticket->version);
    pool_write_match_of(call, ticket);
    return OK;
}

/* --- cancel ------------------------------------------------------------------------------------------------------- */

static void cancel(struct call *call, struct ticket_pool *pool, struct bytes id)
{
    uint32_t slot = ticket_find(pool, id);
    call->core = namespace_begin(call->ns, call->now_ms);
    enum ticket_outcome outcome = slot == 0 ? TICKET_DONE : decide_cancel_ticket(call->core, pool, slot);
    writer_object_begin(call->reply, NULL);
    writer_text(call->reply, "TicketId", id);
    if (slot == 0)
        writer_string(call->reply, "Status", "unknown");
    else
        writer_string(call->reply, "Status", outcome == TICKET_DONE ? "cancelled" : outcome_name(outcome));
    if (outcome == TICKET_IS_TAKEN)
        pool_write_match_of(call, ticket_at(&pool->tickets, slot));
    writer_object_end(call->reply);
}

enum error action_cancel_tickets(struct call *call)
{
    struct ticket_pool *pool;
    yyjson_val *ids = NULL;
    enum error error = pool_call_find(call, &pool);
    if (error == OK)
        error = params_names(&call->params, "TicketIds", &ids);
    if (error != OK)
        return error;
    if (yyjson_arr_size(ids) == 0)
        return call_fail(call, ERROR_EMPTY_BATCH_REQUEST, "TicketIds must hold at least one id.");
    static_assert(CANCELS_MAX <= PARAMS_NAMES_MAX, "more would be refused as names");
    size_t index, count;
    yyjson_val *id;
    writer_list_begin(call->reply, "Results");
    yyjson_arr_foreach(ids, index, count, id)
    {
        cancel(call, pool, params_bytes(id));
    }
    writer_list_end(call->reply);
    return OK;
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

enum error action_get_ticket(struct call *call)
{
    struct ticket_pool *pool;
    uint32_t slot;
    enum error error = pool_call_find(call, &pool);
    if (error == OK)
        error = pool_call_ticket(call, pool, &slot);
    if (error != OK)
        return error;
    const struct ticket *ticket = ticket_at(&pool->tickets, slot);
    writer_string(call->reply, "Status", pool_ticket_status(ticket));
    pool_write_match_of(call, ticket);
    if (ticket->content_owned == NULL) {
        /* The ticket is over for good: its attributes are forgotten. */
        writer_text(call->reply, "TicketId", ticket->key_owned);
        writer_number(call->reply, "Version", ticket->version);
        return OK;
    }
    pool_write_ticket(call, pool, ticket, POOL_PARTS_MAX);
    if (ticket->content.has_body)
        writer_text(call->reply, "Body", ticket->content.body);
    return OK;
}

/* A place in the list: the slot and the start of the server, because another start may give other slots. */
static uint64_t position_of_slot(const struct call *call, uint64_t slot)
{
    return core_epoch(call->core) << 32 | slot;
}

/* The slot of a place. For a place from before a start it is the first slot, so that no ticket is left out. */
static uint64_t slot_of_position(const struct call *call, uint64_t position)
{
    uint64_t slot = position & UINT32_MAX;
    return slot > 0 && position_of_slot(call, slot) == position ? slot : 1;
}

/* The pool's id tells apart two pools of one name: the newer one has other tickets than the deleted one. */
static void write_token(struct call *call, const struct ticket_pool *pool, uint64_t slot)
{
    const uint64_t numbers[] = {pool->id, position_of_slot(call, slot)};
    call_write_token(call, numbers, ARRAY_LENGTH(numbers));
}

static enum error read_token(struct call *call, const struct ticket_pool *pool, uint64_t *slot)
{
    uint64_t numbers[2];
    bool is_given;
    const enum error error = call_read_token(call, numbers, ARRAY_LENGTH(numbers), &is_given);
    *slot = 1;
    if (error != OK || !is_given)
        return error;
    if (numbers[0] != pool->id)
        return call_fail_token(call);
    *slot = slot_of_position(call, numbers[1]);
    return OK;
}

/* Waiting tickets by slot: a ticket that waits from the first page to the last appears exactly once. */
enum error action_list_tickets(struct call *call)
{
    struct ticket_pool *pool;
    uint32_t parts;
    uint64_t slot;
    int64_t left;
    bool is_given;
    enum error error = pool_call_find(call, &pool);
    if (error == OK)
        error = pool_call_parts(call, &parts);
    if (error == OK)
        error = call_results_max(call, &left, &is_given);
    if (error == OK)
        error = read_token(call, pool, &slot);
    if (error != OK)
        return error;
    const uint32_t end = pool_slot_end(pool);
    const struct buffer *page = &call->exchange->reply.body;
    const uint64_t look_end = slot + PAGE_SLOTS_MAX < end ? slot + PAGE_SLOTS_MAX : end;
    writer_list_begin(call->reply, "Tickets");
    for (; slot < look_end && left > 0 && page->size < PAGE_SIZE_MAX; slot++) {
        const struct ticket *ticket = ticket_at(&pool->tickets, (uint32_t)slot);
        if (!ticket_is_waiting(ticket))
            continue;
        writer_object_begin(call->reply, NULL);
        pool_write_ticket(call, pool, ticket, parts);
        writer_object_end(call->reply);
        left--;
    }
    writer_list_end(call->reply);
    writer_number(call->reply, "Sequence", pool->feed.last);
    writer_number(call->reply, "RulesVersion", pool->rules_version);
    if (slot < end)
        write_token(call, pool, slot);
    return OK;
}
