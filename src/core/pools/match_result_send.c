/* The messages that a pool sends: makes their bodies, and sends them. */
#include "core/pools/match_result.h"

#include "core/identity.h"
#include "core/messages/attribute.h"

#include "base/quote.h"

/* --- bodies ------------------------------------------------------------------------------------------------------- */

/* The part of a ticket that the consumer sees; `name` is the member for its id. */
static void append_ticket(struct buffer *out, struct bytes name, const struct ticket *ticket)
{
    const struct ticket_content *content = &ticket->content;
    buffer_append_bytes(out, name);
    quote_append(out, ticket->key_owned);
    buffer_append_bytes(out, BYTES(",\"attributes\":"));
    buffer_append_bytes(out, content->attributes.size > 0 ? content->attributes : BYTES("{}"));
    buffer_append_bytes(out, BYTES(",\"body\":"));
    if (content->has_body)
        quote_append(out, content->body);
    else
        buffer_append_bytes(out, BYTES("null"));
}

static void append_wait(const struct core *core, struct buffer *out, const struct ticket *ticket)
{
    ASSERT(ticket->entry.offered_at_ms <= core->now_ms);
    buffer_append_bytes(out, BYTES(",\"waitedMs\":"));
    buffer_append_decimal(out, core->now_ms - ticket->entry.offered_at_ms);
    buffer_append_u8(out, '}');
}

static void append_members(const struct core *core, const struct ticket_pool *pool, const struct match_seat *seats,
                           uint32_t count, struct buffer *out)
{
    const struct rules *rules = pool->rules_owned;
    for (uint32_t i = 0; i < count; i++) {
        const struct ticket *ticket = ticket_at(&pool->tickets, seats[i].ticket);
        append_ticket(out, i == 0 ? BYTES("{\"ticket\":") : BYTES(",{\"ticket\":"), ticket);
        if (rules->has_teams) {
            buffer_append_bytes(out, BYTES(",\"team\":"));
            quote_append(out, rules->teams[seats[i].team].name);
        }
        append_wait(core, out, ticket);
    }
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

/* Sends a message with one attribute, and computes that attribute's digest. */
static uint64_t send_with(struct core *core, const struct queue *queue, struct content *content, struct bytes name,
                          struct bytes value)
{
    struct attribute attribute = attribute_text(name, value);
    struct buffer encoded;
    buffer_init(&encoded);
    attribute_encode_all(&attribute, 1, &encoded);
    attribute_md5(&attribute, 1, core->digest_owned, &core->scratch, content->attributes_md5);
    content->attributes = buffer_bytes(&encoded);
    content->sender = core->name_owned;
    uint64_t number = core_send_own(core, queue, content, 0, 0);
    buffer_deinit(&encoded);
    return number;
}

uint64_t match_result_send(struct core *core, const struct ticket_pool *pool, uint64_t match,
                           const struct match_seat *seats, uint32_t count, const struct bytes *body)
{
    const struct queue *queue = core_find_queue_by_id(core, pool->spec.result_queue);
    ASSERT(queue != NULL && count > 0);
    struct content content = {0};
    char id[IDENTITY_TEXT_SIZE];
    identity_match(core->digest_owned, match, content.id);
    identity_to_text(content.id, id);
    struct buffer out;
    buffer_init(&out);
    buffer_append_bytes(&out, BYTES("{\"pool\":"));
    quote_append(&out, pool->name_owned);
    buffer_append_bytes(&out, BYTES(",\"match\":"));
    quote_append(&out, bytes_make(id, sizeof(id)));
    buffer_append_bytes(&out, BYTES(",\"members\":["));
    append_members(core, pool, seats, count, &out);
    buffer_append_u8(&out, ']');
    if (body != NULL) {
        buffer_append_bytes(&out, BYTES(",\"body\":"));
        quote_append(&out, *body);
    }
    buffer_append_u8(&out, '}');
    ASSERT(out.size <= MATCH_RESULT_SIZE_MAX);
    content.body = buffer_bytes(&out);
    uint64_t number = send_with(core, queue, &content, BYTES("Tally.Match"), bytes_make(id, sizeof(id)));
    buffer_deinit(&out);
    return number;
}

void match_result_send_expiry(struct core *core, struct ticket_pool *pool, uint32_t slot)
{
    const struct queue *queue =
        pool->spec.expiry_queue == 0 ? NULL : core_find_queue_by_id(core, pool->spec.expiry_queue);
    if (queue == NULL)
        return;
    const struct ticket *ticket = ticket_at(&pool->tickets, slot);
    ASSERT(ticket->state == TICKET_WAITING);
    struct content content = {0};
    identity_message(core->digest_owned, core->messages.message_number + 1, content.id);
    struct buffer out;
    buffer_init(&out);
    buffer_append_bytes(&out, BYTES("{\"pool\":"));
    quote_append(&out, pool->name_owned);
    append_ticket(&out, BYTES(",\"ticket\":"), ticket);
    append_wait(core, &out, ticket);
    content.body = buffer_bytes(&out);
    send_with(core, queue, &content, BYTES("Tally.Ticket"), ticket->key_owned);
    buffer_deinit(&out);
}
