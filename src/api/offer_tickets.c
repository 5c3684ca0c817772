/* OfferTickets: many tickets. A fault of one is only its own result. The hot path of pools.
 *
 * Each offer is a decision of its own, so a request of any size fits the log. After a crash, a repeat finds the offers
 * that were made. After all offers the built-in matcher searches. Only then the results are written. */
#include "api/pool_call.h"
#include "api/text.h"
#include "auth/json_tree.h"
#include "core/pools/decide_match.h"
#include "core/pools/decide_ticket.h"

#define TICKETS_MAX 1000u
#define TTL_MAX_S 31536000u

/* How much the matcher may visit before the reply; it does the rest afterwards (decide_due()). */
#define MATCH_BUDGET 16384u

/* The members of an entry; NULL: absent. */
struct entry_members {
    yyjson_val *id, *attributes, *need, *weight, *priority, *ttl, *set, *body;
};

/* What became of an entry. */
struct offered {
    yyjson_val *id;
    uint32_t ticket; /* 0: nothing was done */
    bool is_known;
    bool is_reused; /* the id was already offered with other content */
    struct bytes why;
};

/* --- reading ------------------------------------------------------------------------------------------------------ */

static bool is_named(yyjson_val *key, struct bytes name)
{
    return yyjson_get_len(key) == name.size && memcmp(yyjson_get_str(key), name.ptr, name.size) == 0;
}

/* Goes through the members once: compares lengths first, then bytes. */
static struct entry_members read_entry_members(yyjson_val *object)
{
    struct entry_members members = {0};
    const struct {
        struct bytes name;
        yyjson_val **member;
    } rows[] = {
        {BYTES("TicketId"), &members.id},    {BYTES("Attributes"), &members.attributes},
        {BYTES("Need"), &members.need},      {BYTES("Weight"), &members.weight},
        {BYTES("Body"), &members.body},      {BYTES("Priority"), &members.priority},
        {BYTES("TtlSeconds"), &members.ttl}, {BYTES("ExclusiveSet"), &members.set},
    };
    size_t index, count;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, index, count, key, value)
    {
        for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
            if (is_named(key, rows[i].name) && !yyjson_is_null(value))
                *rows[i].member = value;
    }
    return members;
}

static enum error read_number(struct call *call, yyjson_val *value, const char *name, uint32_t least, uint32_t most,
                              uint32_t *number)
{
    if (value == NULL)
        return OK;
    uint64_t given = yyjson_get_uint(value);
    if (!yyjson_is_uint(value) || given < least || given > most)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "%s must be a whole number from %u to %u.", name, least,
                         most);
    *number = (uint32_t)given;
    return OK;
}

static enum error read_names(struct call *call, const struct entry_members *members, struct offer_command *command)
{
    command->key = params_bytes(members->id);
    command->set = params_bytes(members->set);
    if (!pool_call_is_id(command->key))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "TicketId must be a text of 1 to 128 ASCII letters, digits and punctuation.");
    if (members->set != NULL && !pool_call_is_id(command->set))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "ExclusiveSet must be a text of 1 to 128 ASCII letters, digits and punctuation.");
    return OK;
}

static enum error read_numbers(struct call *call, const struct ticket_pool *pool, const struct entry_members *members,
                               struct offer_command *command)
{
    uint32_t priority = 0;
    command->weight = 1;
    enum error error = read_number(call, members->weight, "Weight", 1, pool->rules_owned->party_max, &command->weight);
    if (error == OK)
        error = read_number(call, members->priority, "Priority", 0, ENTRY_PRIORITY_MAX, &priority);
    if (error == OK)
        error = read_number(call, members->ttl, "TtlSeconds", 0, TTL_MAX_S, &command->ttl_s);
    command->priority = (uint8_t)priority;
    uint64_t ttl_ms = members->ttl == NULL ? pool->spec.ttl_ms : (uint64_t)command->ttl_s * 1000;
    command->ttl_ms = ttl_ms == 0 ? UINT64_MAX : ttl_ms;
    command->has_zero_ttl = members->ttl != NULL && command->ttl_s == 0;
    return error;
}

static enum error read_body(struct call *call, yyjson_val *body, struct ticket_content *content)
{
    content->has_body = body != NULL;
    content->body = params_bytes(body);
    if (body != NULL && !yyjson_is_str(body))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Body must be a text.");
    if (!text_is_allowed(content->body))
        return call_fail(call, ERROR_INVALID_MESSAGE_CONTENTS, "Body: %s",
                         error_row(ERROR_INVALID_MESSAGE_CONTENTS)->text);
    return OK;
}

/* The encoded facts stay in the call's buffer until the next entry. */
static enum error read_facts(struct call *call, const struct ticket_pool *pool, const struct entry_members *members,
                             struct ticket_content *content)
{
    if (members->attributes != NULL && !yyjson_is_obj(members->attributes))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Attributes must be an object.");
    if (members->need != NULL && !yyjson_is_obj(members->need))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Need must be an object.");
    struct buffer *facts = call_scratch(call);
    buffer_truncate(facts, 0);
    enum error error = facts_encode(pool->rules_owned, members->attributes, members->need, facts, call->failure);
    if (error != OK)
        return error;
    content->facts = buffer_bytes(facts);
    if (members->attributes != NULL)
        content->attributes = json_tree_compact_value(members->attributes, call->arena);
    size_t size = ticket_content_size(content);
    if (members->need != NULL)
        size += json_tree_compact_value(members->need, call->arena).size;
    if (size > pool_ticket_size_max(pool))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Attributes, Need and Body are %zu bytes of JSON together; the limit of this pool is %zu.",
                         size, pool_ticket_size_max(pool));
    return OK;
}

static enum error read_ticket(struct call *call, const struct ticket_pool *pool, const struct entry_members *members,
                              struct offer_command *command)
{
    *command = (struct offer_command){.weight = 1};
    enum error error = read_names(call, members, command);
    if (error == OK)
        error = read_numbers(call, pool, members, command);
    if (error == OK)
        error = read_body(call, members->body, &command->content);
    if (error == OK)
        error = read_facts(call, pool, members, &command->content);
    return error;
}

/* --- offering ----------------------------------------------------------------------------------------------------- */

static struct offered offer(struct call *call, struct ticket_pool *pool, yyjson_val *entry)
{
    struct entry_members members = read_entry_members(entry);
    struct offered offered = {.id = members.id};
    struct offer_command command;
    if (read_ticket(call, pool, &members, &command) != OK) {
        offered.why = arena_copy(call->arena, bytes_from_string(call->failure->text));
        return offered;
    }
    call->core = namespace_begin(call->ns, call->now_ms);
    enum error error = decide_offer(call->core, pool, &command, &offered.ticket, &offered.is_known);
    offered.is_reused = error == ERROR_INVALID_PARAMETER_VALUE;
    if (error == ERROR_OVER_LIMIT)
        offered.why = arena_format(call->arena, "Its ExclusiveSet has %u tickets, as many as there can be.",
                                   EXCLUSIVE_SET_TICKETS_MAX);
    return offered;
}

static void write_result(struct call *call, const struct ticket_pool *pool, const struct offered *offered)
{
    struct writer *writer = call->reply;
    writer_object_begin(writer, NULL);
    if (yyjson_is_str(offered->id))
        writer_text(writer, "TicketId", params_bytes(offered->id));
    if (offered->is_reused || offered->ticket == 0) {
        writer_string(writer, "Status", offered->is_reused ? "key-reused" : "invalid");
        writer_boolean(writer, "AlreadyOffered", offered->is_reused);
        writer_text(writer, "Why",
                    offered->is_reused ? BYTES("The TicketId was offered before with other arguments.") : offered->why);
    } else {
        const struct ticket *ticket = ticket_at(&pool->tickets, offered->ticket);
        writer_string(writer, "Status", pool_ticket_status(ticket));
        writer_number(writer, "Version", ticket->version);
        writer_boolean(writer, "AlreadyOffered", offered->is_known);
        pool_write_match_of(call, ticket);
    }
    writer_object_end(writer);
}

static enum error read_entries(struct call *call, yyjson_val **entries)
{
    enum error error = params_list(&call->params, "Tickets", entries);
    size_t count = yyjson_arr_size(*entries);
    if (error == OK && count == 0)
        return call_fail(call, ERROR_EMPTY_BATCH_REQUEST, "Tickets must hold at least one ticket.");
    if (error == OK && count > TICKETS_MAX)
        return call_fail(call, ERROR_TOO_MANY_ENTRIES, "Tickets holds %zu tickets; OfferTickets takes at most %u.",
                         count, TICKETS_MAX);
    size_t index;
    yyjson_val *entry;
    yyjson_arr_foreach(*entries, index, count, entry)
    {
        if (error == OK && !yyjson_is_obj(entry))
            return call_fail(call, ERROR_SERIALIZATION, "Tickets[%zu]: It is not an object.", index);
    }
    return error;
}

enum error action_offer_tickets(struct call *call)
{
    struct ticket_pool *pool;
    yyjson_val *entries = NULL;
    enum error error = pool_call_find(call, &pool);
    if (error == OK)
        error = read_entries(call, &entries);
    if (error != OK)
        return error;
    size_t index, count = yyjson_arr_size(entries);
    struct offered *offered = arena_allocate(call->arena, count * sizeof(*offered));
    yyjson_val *entry;
    yyjson_arr_foreach(entries, index, count, entry)
    {
        offered[index] = offer(call, pool, entry);
    }
    call->core = namespace_begin(call->ns, call->now_ms);
    decide_match(call->core, pool, MATCH_BUDGET);
    writer_list_begin(call->reply, "Results");
    for (index = 0; index < count; index++)
        write_result(call, pool, &offered[index]);
    writer_list_end(call->reply);
    return OK;
}
