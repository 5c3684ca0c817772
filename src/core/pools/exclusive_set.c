#include "core/pools/exclusive_set.h"

#include "base/accounted.h"
#include "core/digest.h"
#include "core/pools/ticket_pool.h"
#include <stdlib.h>

struct exclusive_set *exclusive_set_at(const struct ticket_pool *pool, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&pool->sets, slot);
}

/* May be asked of a freed record. */
POISON_MAY_LOOK static bool set_is_used(const struct exclusive_set *set)
{
    return set->first != 0;
}

static uint32_t find(const struct ticket_pool *pool, struct bytes name)
{
    for (struct table_probe probe = table_probe_start(&pool->set_by_name, digest_name(pool->digest, name));
         table_probe_next(&pool->set_by_name, &probe);)
        if (bytes_equal(exclusive_set_at(pool, probe.slot)->name_owned, name))
            return probe.slot;
    return 0;
}

static uint32_t add(struct ticket_pool *pool, struct bytes name)
{
    uint32_t slot = slab_allocate(&pool->sets);
    *exclusive_set_at(pool, slot) =
        (struct exclusive_set){.number = ++pool->set_number, .name_owned = accounted_duplicate(name)};
    table_insert(&pool->set_by_name, digest_name(pool->digest, name), slot);
    return slot;
}

bool exclusive_set_is_full(const struct ticket_pool *pool, struct bytes name)
{
    uint32_t found = find(pool, name);
    return found != 0 && exclusive_set_at(pool, found)->count >= EXCLUSIVE_SET_TICKETS_MAX;
}

void exclusive_set_join(struct ticket_pool *pool, uint32_t slot, struct bytes name)
{
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    ASSERT(ticket->set == 0 && name.size > 0 && name.size <= EXCLUSIVE_SET_NAME_SIZE_MAX);
    uint32_t found = find(pool, name);
    ticket->set = found != 0 ? found : add(pool, name);
    struct exclusive_set *set = exclusive_set_at(pool, ticket->set);
    ticket->entry.exclusive_set = set->number;
    ticket->set_prev = set->last;
    ticket->set_next = 0;
    if (set->last == 0)
        set->first = slot;
    else
        ticket_at(&pool->tickets, set->last)->set_next = slot;
    set->last = slot;
    set->count++;
}

static void remove_set(struct ticket_pool *pool, uint32_t slot)
{
    struct exclusive_set *set = exclusive_set_at(pool, slot);
    ASSERT(set->first == 0 && set->last == 0 && set->held == 0);
    table_remove(&pool->set_by_name, digest_name(pool->digest, set->name_owned), slot);
    accounted_free((void *)set->name_owned.ptr);
    slab_free(&pool->sets, slot);
}

void exclusive_set_leave(struct ticket_pool *pool, uint32_t slot)
{
    struct ticket *ticket = ticket_at(&pool->tickets, slot);
    struct exclusive_set *set = exclusive_set_at(pool, ticket->set);
    if (ticket->set_prev == 0)
        set->first = ticket->set_next;
    else
        ticket_at(&pool->tickets, ticket->set_prev)->set_next = ticket->set_next;
    if (ticket->set_next == 0)
        set->last = ticket->set_prev;
    else
        ticket_at(&pool->tickets, ticket->set_next)->set_prev = ticket->set_prev;
    ASSERT(set->count > 0);
    set->count--;
    if (set->first == 0)
        remove_set(pool, ticket->set);
    ticket->set = ticket->set_prev = ticket->set_next = 0;
    ticket->entry.exclusive_set = 0;
}

bool exclusive_set_give_back(struct ticket_pool *pool, unsigned *left)
{
    for (; *left > 0 && pool->sets.slot_end > 1; (*left)--) {
        const struct exclusive_set *set = exclusive_set_at(pool, --pool->sets.slot_end);
        if (set_is_used(set))
            accounted_free((void *)set->name_owned.ptr);
    }
    if (pool->sets.slot_end > 1)
        return false;
    table_deinit(&pool->set_by_name);
    slab_deinit(&pool->sets);
    return true;
}

static void check_set(const struct ticket_pool *pool, uint32_t slot)
{
    const struct exclusive_set *set = exclusive_set_at(pool, slot);
    uint32_t held = 0, prev = 0, count = 0;
    for (uint32_t at = set->first; at != 0; at = ticket_at(&pool->tickets, at)->set_next) {
        const struct ticket *ticket = ticket_at(&pool->tickets, at);
        ASSERT(ticket->set == slot && ticket->entry.exclusive_set == set->number && ticket->set_prev == prev);
        ASSERT(prev == 0 || ticket_at(&pool->tickets, prev)->entry.number < ticket->entry.number);
        ASSERT(!ticket->is_settled);
        held += ticket->state == TICKET_HELD || ticket->state == TICKET_MATCHED;
        prev = at;
        count++;
    }
    ASSERT(count == set->count && prev != 0 && set->last == prev && set->held == held);
    ASSERT(set->number <= pool->set_number && find(pool, set->name_owned) == slot);
}

void exclusive_set_check_all(const struct ticket_pool *pool)
{
    uint32_t count = 0;
    for (uint32_t slot = 1; slot < pool->sets.slot_end; slot++) {
        if (!set_is_used(exclusive_set_at(pool, slot)))
            continue;
        check_set(pool, slot);
        count++;
    }
    ASSERT(count == pool->sets.used && table_count(&pool->set_by_name) == count);
}
