/* Decisions about pools of tickets and about tickets. */
#include "core/pools/decide_ticket.h"
#include "core/state.h"

enum error decide_put_pool(struct core *core, struct bytes name, const struct pool_spec *spec,
                           struct ticket_pool **pool)
{
    ASSERT(name.size > 0 && name.size <= TICKET_POOL_NAME_SIZE_MAX);
    ASSERT(ticket_pool_has_queues(core, spec));
    struct ticket_pool *found = ticket_pool_find(core, name);
    if (found == NULL && core->pools.order.count == TICKET_POOLS_MAX)
        return ERROR_OVER_LIMIT;
    struct buffer encoded;
    buffer_init(&encoded);
    pool_spec_encode(spec, &encoded);
    if (found == NULL || !bytes_equal(found->spec_encoded_owned, buffer_bytes(&encoded)))
        core_emit(core, &(struct event){.kind = EVENT_POOL_PUT,
                                        .pool_put = {.pool = found == NULL ? core->pools.pool_id + 1 : found->id,
                                                     .name = name,
                                                     .spec = buffer_bytes(&encoded)}});
    buffer_deinit(&encoded);
    *pool = ticket_pool_find(core, name);
    ticket_pool_wake(*pool);
    ticket_pool_set_timer(core, *pool);
    return OK;
}

void decide_delete_pool(struct core *core, struct ticket_pool *pool)
{
    core_emit(core, &(struct event){.kind = EVENT_POOL_DELETED, .pool_deleted = {.pool = pool->id}});
}

/* A digest of the whole offer except the key; the facts stand for Attributes and Need, in any order. */
static struct digest_tag digest_of(const struct core *core, const struct offer_command *command)
{
    uint8_t numbers[4 + 4 + 1 + 1 + 4 + 4];
    bytes_put_u32(numbers, command->weight);
    bytes_put_u32(numbers + 4, command->ttl_s);
    numbers[8] = command->priority;
    numbers[9] = (uint8_t)(command->content.has_body | command->has_zero_ttl << 1);
    bytes_put_u32(numbers + 10, (uint32_t)command->set.size);
    bytes_put_u32(numbers + 14, (uint32_t)command->content.facts.size);
    const struct bytes parts[] = {bytes_make(numbers, sizeof(numbers)), command->set, command->content.facts,
                                  command->content.body};
    return digest_keyed_wide(core->digest_owned, parts, ARRAY_LENGTH(parts));
}

static void emit_offer(struct core *core, const struct ticket_pool *pool, const struct offer_command *command,
                       struct digest_tag digest)
{
    const struct ticket_content *content = &command->content;
    core_emit(core,
              &(struct event){
                  .kind = EVENT_TICKET_OFFERED,
                  .ticket_offered = {.pool = pool->id,
                                     .number = core->pools.ticket_number + 1,
                                     .digest_low = digest.low,
                                     .digest_high = digest.high,
                                     .expires_at_ms =
                                         command->ttl_ms == UINT64_MAX ? UINT64_MAX : core->now_ms + command->ttl_ms,
                                     .ttl_s = command->ttl_s,
                                     .weight = command->weight,
                                     .priority = command->priority,
                                     .has_body = content->has_body,
                                     .key = command->key,
                                     .set = command->set,
                                     .facts = content->facts,
                                     .attributes = content->attributes,
                                     .body = content->body},
              });
}

enum error decide_offer(struct core *core, struct ticket_pool *pool, const struct offer_command *command,
                        uint32_t *ticket, bool *is_known)
{
    ASSERT(command->key.size > 0 && command->key.size <= TICKET_KEY_SIZE_MAX && command->ttl_ms > 0);
    ASSERT(command->weight > 0 && command->weight <= RULES_WEIGHT_MAX && command->priority <= ENTRY_PRIORITY_MAX);
    ASSERT(!command->has_zero_ttl || (command->ttl_s == 0 && command->ttl_ms == UINT64_MAX));
    ASSERT(command->content.has_body || command->content.body.size == 0);
    ASSERT(command->set.size <= EXCLUSIVE_SET_NAME_SIZE_MAX);
    struct digest_tag digest = digest_of(core, command);
    uint32_t known = ticket_find(pool, command->key);
    if (known != 0 && !digest_tag_equal(ticket_at(&pool->tickets, known)->offer, digest))
        return ERROR_INVALID_PARAMETER_VALUE;
    if (known == 0 && command->set.size > 0 && exclusive_set_is_full(pool, command->set))
        return ERROR_OVER_LIMIT;
    ticket_pool_wake(pool);
    if (known == 0)
        emit_offer(core, pool, command, digest);
    else
        pool->tally.already_offered++;
    *ticket = known != 0 ? known : ticket_find(pool, command->key);
    *is_known = known != 0;
    return OK;
}

/* The state of a ticket, for a caller that wants to change it. */
static enum ticket_outcome outcome_of(const struct ticket *ticket)
{
    switch ((enum ticket_state)ticket->state) {
    case TICKET_WAITING:
        return TICKET_DONE;
    case TICKET_HELD:
    case TICKET_MATCHED:
        return TICKET_IS_TAKEN;
    case TICKET_CANCELLED:
        return TICKET_IS_CANCELLED;
    case TICKET_EXPIRED:
        break;
    }
    return TICKET_IS_EXPIRED;
}

enum ticket_outcome decide_update_ticket(struct core *core, struct ticket_pool *pool, uint32_t slot, uint32_t version,
                                         struct bytes facts, struct bytes attributes)
{
    const struct ticket *ticket = ticket_at(&pool->tickets, slot);
    enum ticket_outcome outcome = outcome_of(ticket);
    if (outcome != TICKET_DONE)
        return outcome;
    if (version != 0 && version != ticket->version)
        return TICKET_IS_STALE;
    core_emit(core, &(struct event){.kind = EVENT_TICKET_UPDATED,
                                    .ticket_updated = {.pool = pool->id,
                                                       .number = ticket->entry.number,
                                                       .facts = facts,
                                                       .attributes = attributes}});
    return TICKET_DONE;
}

enum ticket_outcome decide_cancel_ticket(struct core *core, struct ticket_pool *pool, uint32_t slot)
{
    const struct ticket *ticket = ticket_at(&pool->tickets, slot);
    enum ticket_outcome outcome = outcome_of(ticket);
    if (outcome == TICKET_DONE)
        core_emit(core, &(struct event){.kind = EVENT_TICKET_ENDED,
                                        .ticket_ended = {.pool = pool->id,
                                                         .number = ticket->entry.number,
                                                         .reason = TICKET_END_CANCELLED}});
    return outcome;
}
