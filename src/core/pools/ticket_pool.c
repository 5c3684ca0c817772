#include "core/pools/ticket_pool.h"

#include "core/apply.h"
#include "core/pools/match_result.h"

#include "base/accounted.h"
#include <stdlib.h>

/* Tickets and matches of a deleted pool that are freed in one go. */
#define LEAVING_PORTION 4096u

static struct ticket_pool *pool_of(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->pools.items, slot);
}

void ticket_pool_init_all(struct core *core)
{
    slab_init(&core->pools.items, sizeof(struct ticket_pool));
    table_init(&core->pools.by_id);
    name_index_init(&core->pools.order, &core->pools.items, offsetof(struct ticket_pool, name_owned));
    heap_init(&core->pools.timers, &core->pools.items, offsetof(struct ticket_pool, due_index),
              offsetof(struct ticket_pool, order));
    list_init(&core->pools.fed);
    list_init(&core->pools.leaving);
}

/* --- what a pool says --------------------------------------------------------------------------------------------- */

void pool_spec_encode(const struct pool_spec *spec, struct buffer *out)
{
    buffer_append_u32(out, spec->result_queue);
    buffer_append_u32(out, spec->expiry_queue);
    buffer_append_u8(out, (uint8_t)spec->matcher);
    buffer_append_u8(out, spec->verifies);
    buffer_append_u32(out, spec->retention_s);
    buffer_append_u64(out, spec->window_ms);
    buffer_append_u64(out, spec->ttl_ms);
    buffer_append_u64(out, spec->confirm_ms);
    buffer_append_u64(out, spec->results_max);
    buffer_append_sized(out, spec->rules);
}

bool pool_spec_decode(struct bytes encoded, struct pool_spec *spec)
{
    struct cursor cursor = cursor_make(encoded);
    struct pool_spec decoded = {.result_queue = cursor_u32(&cursor), .expiry_queue = 0};
    decoded.expiry_queue = cursor_u32(&cursor);
    uint8_t matcher = cursor_u8(&cursor);
    uint8_t verifies = cursor_u8(&cursor);
    decoded.matcher = (enum matcher_kind)matcher;
    decoded.verifies = verifies == 1;
    decoded.retention_s = cursor_u32(&cursor);
    decoded.window_ms = cursor_u64(&cursor);
    decoded.ttl_ms = cursor_u64(&cursor);
    decoded.confirm_ms = cursor_u64(&cursor);
    decoded.results_max = cursor_u64(&cursor);
    decoded.rules = cursor_sized(&cursor);
    if (!cursor_is_done(&cursor) || matcher < MATCHER_BUILT_IN || matcher > MATCHER_BOTH || verifies > 1 ||
        decoded.rules.size > RULES_TEXT_SIZE_MAX)
        return false;
    *spec = decoded;
    return true;
}

static bool is_standard_queue(const struct core *core, uint32_t id)
{
    const struct queue *queue = core_find_queue_by_id(core, id);
    return queue != NULL && !queue->settings.is_fifo;
}

bool ticket_pool_has_queues(const struct core *core, const struct pool_spec *spec)
{
    return is_standard_queue(core, spec->result_queue) &&
           (spec->expiry_queue == 0 || is_standard_queue(core, spec->expiry_queue));
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

uint32_t ticket_pool_count(const struct core *core)
{
    return core->pools.order.count;
}

struct ticket_pool *ticket_pool_at(const struct core *core, uint32_t index)
{
    return pool_of(core, name_index_at(&core->pools.order, index));
}

uint32_t ticket_pool_index(const struct core *core, struct bytes name)
{
    return name_index_place(&core->pools.order, name);
}

struct ticket_pool *ticket_pool_find(const struct core *core, struct bytes name)
{
    uint32_t slot = name_index_find(&core->pools.order, name);
    return slot == 0 ? NULL : pool_of(core, slot);
}

static uint32_t find_slot(const struct core *core, uint32_t id)
{
    for (struct table_probe probe = table_probe_start(&core->pools.by_id, table_hash_u64(id));
         table_probe_next(&core->pools.by_id, &probe);)
        if (pool_of(core, probe.slot)->id == id)
            return probe.slot;
    return 0;
}

struct ticket_pool *ticket_pool_find_by_id(const struct core *core, uint32_t id)
{
    uint32_t slot = find_slot(core, id);
    return slot == 0 ? NULL : pool_of(core, slot);
}

/* --- matcher and timers ------------------------------------------------------------------------------------------- */

/* The matcher is empty: it will be filled with the tickets that are there. */
static void begin_filling(struct ticket_pool *pool)
{
    pool->index_next = pool->counts.waiting > 0 ? 1 : 0;
}

void ticket_pool_wake(struct ticket_pool *pool)
{
    if (pool->is_awake)
        return;
    pool->is_awake = true;
    begin_filling(pool);
}

bool ticket_pool_may_match(const struct core *core, const struct ticket_pool *pool)
{
    return pool->spec.matcher != MATCHER_EXTERNAL && match_result_has_room(core, pool);
}

uint32_t ticket_pool_seed_count(const struct ticket_pool *pool)
{
    return pool->spec.matcher == MATCHER_EXTERNAL ? 0 : matcher_seed_count(&pool->matcher);
}

static uint64_t earlier(uint64_t a_ms, uint64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

/* When the pool next has something to do; 0: at once. */
static uint64_t due_ms(const struct core *core, const struct ticket_pool *pool)
{
    uint64_t due_ms = earlier(heap_top_key(&pool->expiries), ticket_pool_forget_due_ms(core, pool));
    if (!pool->is_awake)
        return pool->counts.waiting > 0 ? 0 : due_ms;
    bool may_match = ticket_pool_may_match(core, pool);
    if (pool->index_next != 0 || (may_match && matcher_has_work(&pool->matcher, core->now_ms)))
        return 0;
    /* Where no match can be made, tickets still take their steps, but the end of a window must not wake the pool again
     * and again. */
    return earlier(due_ms, may_match ? matcher_due_ms(&pool->matcher) : heap_top_key(&pool->matcher.steps));
}

void ticket_pool_set_timer(struct core *core, struct ticket_pool *pool)
{
    uint64_t at_ms = due_ms(core, pool);
    heap_set(&core->pools.timers, at_ms, find_slot(core, pool->id));
}

uint64_t ticket_pool_due_ms(const struct core *core)
{
    return list_is_empty(&core->pools.leaving) ? heap_top_key(&core->pools.timers) : 0;
}

void ticket_pool_feed(struct core *core, struct ticket_pool *pool, const struct feed_event *event)
{
    feed_add(&pool->feed, event);
    if (!list_is_linked(&pool->feed_link))
        list_append(&core->pools.fed, &pool->feed_link);
}

bool ticket_pool_has_fed(const struct core *core)
{
    return !list_is_empty(&core->pools.fed);
}

struct ticket_pool *ticket_pool_take_fed(struct core *core)
{
    struct list_link *link = list_first(&core->pools.fed);
    if (link == NULL)
        return NULL;
    list_remove(link);
    return CONTAINER_OF(link, struct ticket_pool, feed_link);
}

/* --- putting ------------------------------------------------------------------------------------------------------ */

static void count_target(struct core *core, uint32_t queue_id, bool is_added)
{
    if (queue_id == 0)
        return;
    struct queue *queue = core_find_queue_by_id(core, queue_id);
    ASSERT(queue != NULL && (is_added || queue->target_count > 0));
    queue->target_count += is_added ? 1 : UINT32_MAX;
}

static void count_targets(struct core *core, const struct pool_spec *spec, bool is_added)
{
    count_target(core, spec->result_queue, is_added);
    count_target(core, spec->expiry_queue, is_added);
}

/* Takes a copy of the spec, which can be decoded, in place of what it has. */
static void adopt_spec(struct core *core, struct ticket_pool *pool, struct bytes encoded)
{
    if (pool->spec_encoded_owned.ptr != NULL)
        count_targets(core, &pool->spec, false);
    accounted_replace(&pool->spec_encoded_owned, encoded);
    bool is_good = pool_spec_decode(pool->spec_encoded_owned, &pool->spec);
    ASSERT(is_good);
    count_targets(core, &pool->spec, true);
}

struct ticket_pool *ticket_pool_add(struct core *core, uint32_t id, struct bytes name, struct bytes spec,
                                    struct rules *rules)
{
    uint32_t slot = slab_allocate(&core->pools.items);
    struct ticket_pool *pool = pool_of(core, slot);
    pool->id = id;
    pool->order = id;
    pool->name_owned = accounted_duplicate(name);
    pool->digest = core->digest_owned;
    pool->rules_version = 1;
    pool->rules_owned = rules;
    slab_init(&pool->tickets, sizeof(struct ticket));
    slab_init(&pool->sets, sizeof(struct exclusive_set));
    table_init(&pool->ticket_by_key);
    table_init(&pool->ticket_by_number);
    table_init(&pool->set_by_name);
    heap_init(&pool->expiries, &pool->tickets, offsetof(struct ticket, expiry_index),
              offsetof(struct ticket, entry.number));
    feed_init(&pool->feed);
    adopt_spec(core, pool, spec);
    matcher_init(&pool->matcher, rules, &pool->tickets, offsetof(struct ticket, entry), pool->spec.window_ms);
    table_insert(&core->pools.by_id, table_hash_u64(id), slot);
    name_index_insert(&core->pools.order, slot);
    return pool;
}

/* Gives it another spec, with rules that the tickets can live on under. False: they can't. */
static bool change(struct core *core, struct ticket_pool *pool, struct bytes spec, struct rules *rules)
{
    if (!rules_extend(rules, pool->rules_owned))
        return false;
    bool has_other_rules = !bytes_equal(rules->text_owned, pool->rules_owned->text_owned);
    enum matcher_kind kind = pool->spec.matcher;
    uint64_t window_ms = pool->spec.window_ms;
    adopt_spec(core, pool, spec);
    if (!has_other_rules && pool->spec.matcher == kind && pool->spec.window_ms == window_ms) {
        rules_destroy(rules); /* nothing that a ticket could look for has changed (M19) */
        return true;
    }
    matcher_reset(&pool->matcher, rules, pool->spec.window_ms);
    rules_destroy(pool->rules_owned);
    pool->rules_owned = rules;
    if (pool->is_awake)
        begin_filling(pool);
    if (!has_other_rules)
        return true;
    pool->rules_version++;
    ticket_pool_feed(core, pool, &(struct feed_event){.kind = FEED_RULES, .version = pool->rules_version});
    return true;
}

/* Matchers outside read the feed, from its first event on. */
void ticket_pool_begin_feed(struct ticket_pool *pool)
{
    if (pool->spec.matcher != MATCHER_BUILT_IN)
        feed_begin(&pool->feed);
}

/* Is it a new one that there may be, or one that is there, under its own name? */
static bool put_fits(const struct core *core, const struct event_pool_put *put, const struct ticket_pool *pool)
{
    if (pool != NULL)
        return bytes_equal(pool->name_owned, put->name);
    return put->pool == core->pools.pool_id + 1 && put->name.size > 0 && put->name.size <= TICKET_POOL_NAME_SIZE_MAX &&
           core->pools.order.count < TICKET_POOLS_MAX && ticket_pool_find(core, put->name) == NULL;
}

bool apply_pool_put(struct core *core, const struct event_pool_put *put)
{
    struct pool_spec spec;
    struct failure ignored;
    struct ticket_pool *pool = ticket_pool_find_by_id(core, put->pool);
    if (!put_fits(core, put, pool) || !pool_spec_decode(put->spec, &spec) || !ticket_pool_has_queues(core, &spec))
        return false;
    struct rules *rules = rules_create(spec.rules, &ignored);
    if (rules == NULL)
        return false;
    if (pool == NULL) {
        core->pools.pool_id = put->pool;
        pool = ticket_pool_add(core, put->pool, put->name, put->spec, rules);
        feed_go_to(&pool->feed, core->pools.feed_number,
                   true); /* who knew another pool of that name must hear of it (M15) */
    } else if (!change(core, pool, put->spec, rules)) {
        rules_destroy(rules);
        return false;
    }
    ticket_pool_begin_feed(pool);
    ticket_pool_set_timer(core, pool);
    return true;
}

/* --- going -------------------------------------------------------------------------------------------------------- */

/* Frees a portion of the tickets, matches and sets of a pool that goes, and, behind the last one, the pool. */
static void free_portion(struct core *core, struct ticket_pool *pool, unsigned portion)
{
    for (; portion > 0 && pool->index_next < pool->tickets.slot_end; portion--, pool->index_next++)
        if (ticket_is_used(ticket_at(&pool->tickets, pool->index_next)))
            ticket_free(ticket_at(&pool->tickets, pool->index_next));
    if (pool->index_next < pool->tickets.slot_end || !made_match_give_back(core, pool, &portion) ||
        !exclusive_set_give_back(pool, &portion))
        return;
    list_remove(&pool->feed_link);
    slab_deinit(&pool->tickets);
    table_deinit(&pool->ticket_by_key);
    table_deinit(&pool->ticket_by_number);
    heap_deinit(&pool->expiries);
    feed_deinit(&pool->feed);
    accounted_free(pool->waits_owned);
    slab_free(&core->pools.items, (uint32_t)pool->order); /* where leave() put its slot */
}

/* Takes the pool out of reach; its memory is given back later. */
static void leave(struct core *core, struct ticket_pool *pool)
{
    uint32_t slot = find_slot(core, pool->id);
    ASSERT(core->pools.ticket_count >= pool->tickets.used);
    core->pools.ticket_count -= pool->tickets.used;
    made_match_forget_all(core, pool);
    heap_set(&core->pools.timers, HEAP_NEVER, slot);
    name_index_remove(&core->pools.order, slot);
    table_remove(&core->pools.by_id, table_hash_u64(pool->id), slot);
    count_targets(core, &pool->spec, false);
    matcher_deinit(&pool->matcher);
    rules_destroy(pool->rules_owned);
    accounted_free((void *)pool->name_owned.ptr);
    accounted_free((void *)pool->spec_encoded_owned.ptr);
    if (list_is_linked(&pool->feed_link))
        list_remove(&pool->feed_link);
    list_append(&core->pools.leaving, &pool->feed_link);
    pool->order = slot;
    pool->index_next = 1;
}

bool ticket_pool_drain(struct core *core)
{
    struct list_link *link = list_first(&core->pools.leaving);
    if (link != NULL)
        free_portion(core, CONTAINER_OF(link, struct ticket_pool, feed_link), LEAVING_PORTION);
    return !list_is_empty(&core->pools.leaving);
}

bool apply_pool_deleted(struct core *core, const struct event_pool_deleted *deleted)
{
    struct ticket_pool *pool = ticket_pool_find_by_id(core, deleted->pool);
    if (pool == NULL)
        return false;
    if (core->pools.feed_number <= pool->feed.last)
        core->pools.feed_number = pool->feed.last + 1;
    leave(core, pool);
    while (core->frame.events == NULL && ticket_pool_drain(core)) /* nobody waits for a replay's next event */
        ;
    return true;
}

bool apply_tickets_forgotten(struct core *core, const struct event_tickets_forgotten *forgotten)
{
    struct ticket_pool *pool = ticket_pool_find_by_id(core, forgotten->pool);
    if (pool == NULL || forgotten->tickets > pool->ended_count || forgotten->matches > pool->settled_count)
        return false;
    for (uint32_t i = 0; i < forgotten->tickets; i++)
        ticket_forget_oldest(core, pool);
    for (uint32_t i = 0; i < forgotten->matches; i++)
        made_match_forget(core, pool);
    ticket_pool_set_timer(core, pool);
    return true;
}

void ticket_pool_deinit_all(struct core *core)
{
    while (core->pools.order.count > 0)
        leave(core, ticket_pool_at(core, core->pools.order.count - 1));
    while (ticket_pool_drain(core))
        ;
    name_index_deinit(&core->pools.order);
    heap_deinit(&core->pools.timers);
    table_deinit(&core->pools.by_id);
    slab_deinit(&core->pools.items);
}
