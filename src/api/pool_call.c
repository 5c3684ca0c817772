#include "api/pool_call.h"

#include "api/reach.h"
#include "api/text.h"
#include "auth/json_tree.h"
#include "base/table.h"

/* --- pools -------------------------------------------------------------------------------------------------------- */

enum error pool_call_name(struct call *call, struct bytes *name)
{
    enum error error = params_required_text(&call->params, "PoolName", name);
    if (error != OK)
        return error;
    bool is_good = name->size <= TICKET_POOL_NAME_SIZE_MAX;
    for (size_t i = 0; is_good && i < name->size; i++)
        is_good = name->ptr[i] == '.' || text_is_word(bytes_make(name->ptr + i, 1), 1);
    return is_good ? OK
                   : params_invalid(&call->params, "PoolName", *name,
                                    "It must be 1 to 80 letters, digits, hyphens, underscores and dots.");
}

enum error pool_call_find(struct call *call, struct ticket_pool **pool)
{
    struct bytes name;
    enum error error = pool_call_name(call, &name);
    if (error != OK)
        return error;
    *pool = ticket_pool_find(call->core, name);
    return pool_call_check(call, name, *pool);
}

enum error pool_call_check(struct call *call, struct bytes name, const struct ticket_pool *pool)
{
    if (pool != NULL && reach_pool(call, pool))
        return OK;
    return call_fail(call, ERROR_POOL_DOES_NOT_EXIST, "There is no pool '%.*s'%s.", BYTES_FORMAT(name),
                     reach_words(call));
}

void pool_write_warnings(struct call *call, const struct ticket_pool *pool)
{
    struct buffer *text = call_scratch(call);
    buffer_truncate(text, 0);
    if (pool->spec.matcher == MATCHER_EXTERNAL || !rules_warning(pool->rules_owned, text))
        return;
    writer_list_begin(call->reply, "Warnings");
    writer_text(call->reply, NULL, buffer_bytes(text));
    writer_list_end(call->reply);
}

void pool_write_rules(struct call *call, const struct ticket_pool *pool)
{
    static const struct {
        const char *member;
        const char *name;
    } rows[] = {{"attrs", "Attributes"}, {"rules", "Rules"}, {"size", "Size"}, {"teams", "Teams"}, {"pick", "Pick"}};
    yyjson_val *root = params_parse_text(pool->spec.rules, call->arena);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        yyjson_val *value = yyjson_obj_get(root, rows[i].member);
        if (value != NULL)
            writer_json(call->reply, rows[i].name, json_tree_compact_value(value, call->arena));
    }
}

/* A match must fit the result message, and each member takes at least 1. */
size_t pool_ticket_size_max(const struct ticket_pool *pool)
{
    uint32_t weight = pool->rules_owned->weight;
    size_t share = weight == 0 ? TICKET_SIZE_MAX : TICKET_GROUP_SIZE_MAX / weight;
    return share < TICKET_SIZE_MAX ? share : TICKET_SIZE_MAX;
}

/* --- tickets ------------------------------------------------------------------------------------------------------ */

bool pool_call_is_id(struct bytes id)
{
    return text_is_identifier(id, TICKET_KEY_SIZE_MAX);
}

enum error pool_call_ticket(struct call *call, const struct ticket_pool *pool, uint32_t *ticket)
{
    struct bytes id;
    enum error error = params_required_text(&call->params, "TicketId", &id);
    if (error != OK)
        return error;
    *ticket = ticket_find(pool, id);
    return *ticket != 0 ? OK
                        : call_fail(call, ERROR_TICKET_DOES_NOT_EXIST, "Pool '%.*s' knows no ticket '%.*s'.",
                                    BYTES_FORMAT(pool->name_owned), BYTES_FORMAT(text_shown(id)));
}

enum error pool_call_parts(struct call *call, uint32_t *parts)
{
    int64_t number = POOL_PARTS_MAX;
    enum error error =
        params_integer_in(&call->params, "Parts", 1, POOL_PARTS_MAX, "It must be from 1 to 64.", &number);
    *parts = (uint32_t)number;
    return error;
}

const char *pool_ticket_status(const struct ticket *ticket)
{
    static const char *const names[] = {
        [TICKET_WAITING] = "waiting",     [TICKET_HELD] = "held",       [TICKET_MATCHED] = "matched",
        [TICKET_CANCELLED] = "cancelled", [TICKET_EXPIRED] = "expired",
    };
    return names[ticket->state];
}

void pool_write_match_id(struct call *call, uint64_t match)
{
    uint8_t id[MESSAGE_ID_SIZE];
    char text[IDENTITY_TEXT_SIZE];
    identity_match(call_digest(call), match, id);
    identity_to_text(id, text);
    writer_text(call->reply, "MatchId", bytes_make(text, sizeof(text)));
}

void pool_write_match_of(struct call *call, const struct ticket *ticket)
{
    if ((ticket->state == TICKET_HELD || ticket->state == TICKET_MATCHED) && ticket->match != 0)
        pool_write_match_id(call, ticket->match);
}

enum error pool_call_match(struct call *call, uint64_t *match)
{
    struct bytes text;
    uint8_t id[MESSAGE_ID_SIZE];
    enum error error = params_required_text(&call->params, "MatchId", &text);
    if (error == OK)
        *match = identity_from_text(text, id) ? identity_match_number(call_digest(call), id) : 0;
    return error;
}

/* --- what a ticket says ------------------------------------------------------------------------------------------- */

static yyjson_mut_val *number_value(yyjson_mut_doc *doc, double number)
{
    bool is_whole = number > -9e15 && number < 9e15 && number == (double)(int64_t)number;
    return is_whole ? yyjson_mut_sint(doc, (int64_t)number) : yyjson_mut_real(doc, number);
}

static yyjson_mut_val *need_value(yyjson_mut_doc *doc, const struct need *need, const struct need_value *value)
{
    if (need->type == ATTRIBUTE_NUMBER)
        return number_value(doc, value->number);
    return yyjson_mut_strn(doc, (const char *)value->text.bytes.ptr, value->text.bytes.size);
}

static void add_values(yyjson_mut_doc *doc, yyjson_mut_val *clauses, const char *name, const struct need *need,
                       const struct need_values *values)
{
    yyjson_mut_val *list = yyjson_mut_arr(doc);
    for (uint32_t i = 0; i < values->count; i++)
        yyjson_mut_arr_append(list, need_value(doc, need, &values->items[i]));
    yyjson_mut_obj_add_val(doc, clauses, name, list);
}

static yyjson_mut_val *need_clauses(yyjson_mut_doc *doc, const struct need *need)
{
    yyjson_mut_val *clauses = yyjson_mut_obj(doc);
    if ((need->clauses & NEED_EQUAL) != 0)
        yyjson_mut_obj_add_val(doc, clauses, "eq", need_value(doc, need, &need->equal.items[0]));
    if ((need->clauses & NEED_IN) != 0)
        add_values(doc, clauses, "in", need, &need->in);
    if ((need->clauses & NEED_NOT) != 0)
        add_values(doc, clauses, "not", need, &need->not );
    if ((need->clauses & NEED_MIN) != 0)
        yyjson_mut_obj_add_val(doc, clauses, "min", number_value(doc, need->min));
    if ((need->clauses & NEED_MAX) != 0)
        yyjson_mut_obj_add_val(doc, clauses, "max", number_value(doc, need->max));
    if ((need->clauses & NEED_ANY) != 0)
        add_values(doc, clauses, "any", need, &need->any);
    if ((need->clauses & NEED_ALL) != 0)
        add_values(doc, clauses, "all", need, &need->all);
    return clauses;
}

struct bytes pool_need_text(struct call *call, const struct ticket_pool *pool, const struct ticket *ticket)
{
    const struct facts *facts = ticket->entry.facts;
    if (facts == NULL || facts->need_count == 0)
        return BYTES("");
    yyjson_mut_doc *doc = json_tree_create(call->arena);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    for (uint32_t i = 0; i < facts->need_count; i++) {
        const struct need *need = &facts->needs[i];
        struct bytes name = pool->rules_owned->attributes[need->attribute].name;
        yyjson_mut_obj_add(root, yyjson_mut_strn(doc, (const char *)name.ptr, name.size), need_clauses(doc, need));
    }
    return json_tree_write(doc, call->arena);
}

void pool_write_facts(struct call *call, const struct ticket_pool *pool, const struct ticket *ticket)
{
    struct bytes attributes = ticket->content.attributes;
    struct bytes need = pool_need_text(call, pool, ticket);
    writer_json(call->reply, "Attributes", attributes.size > 0 ? attributes : BYTES("{}"));
    if (need.size > 0)
        writer_json(call->reply, "Need", need);
}

void pool_write_ticket(struct call *call, const struct ticket_pool *pool, const struct ticket *ticket, uint32_t parts)
{
    const struct entry *entry = &ticket->entry;
    struct writer *writer = call->reply;
    writer_text(writer, "TicketId", ticket->key_owned);
    writer_number(writer, "Version", ticket->version);
    writer_number(writer, "Part", table_hash_u64(entry->number) % parts);
    pool_write_facts(call, pool, ticket);
    writer_number(writer, "Weight", entry->weight);
    writer_number(writer, "Priority", entry->priority);
    if (ticket->set != 0) {
        const struct exclusive_set *set = slab_at(&pool->sets, ticket->set);
        writer_text(writer, "ExclusiveSet", set->name_owned);
    }
    writer_time(writer, "OfferedAt", entry->offered_at_ms);
    if (entry->expires_at_ms != UINT64_MAX)
        writer_time(writer, "ExpiresAt", entry->expires_at_ms);
    writer_number(writer, "Level", ticket_level(pool, ticket));
}
