#include "api/wait.h"

#include "api/access.h"
#include "api/reach.h"
#include "api/reply.h"
#include "api/state.h"
#include "base/memory.h"
#include <stdlib.h>

/* Of one turn: bytes of replies to feeds, after which the others are answered in the next; and tickets that a count
 * looks at. */
#define SERVED_SIZE_MAX ((size_t)8 * 1024 * 1024)
#define COUNT_PORTION 4096u

/* --- readers and waiters ------------------------------------------------------------------------------------------ */

static struct waiter *waiter_of(struct list_link *link)
{
    return CONTAINER_OF(link, struct waiter, link);
}

/* NULL: nobody has read its feed. */
static struct pool_readers *readers_find(const struct api *api, const struct ticket_pool *pool)
{
    const uint32_t slot = number_map_find(&api->pool_readers_by_id, pool->id);
    return slot == 0 ? NULL : slab_at(&api->pool_readers, slot);
}

static struct pool_readers *readers_add(struct api *api, const struct ticket_pool *pool)
{
    const uint32_t slot = slab_allocate(&api->pool_readers);
    struct pool_readers *readers = slab_at(&api->pool_readers, slot);
    *readers = (struct pool_readers){.slot = slot, .pool = pool->id};
    list_init(&readers->waiters);
    number_map_insert(&api->pool_readers_by_id, pool->id, slot);
    return readers;
}

struct pool_readers *pool_readers_of(struct api *api, const struct ticket_pool *pool)
{
    struct pool_readers *readers = readers_find(api, pool);
    return readers != NULL ? readers : readers_add(api, pool);
}

static void readers_free(struct api *api, struct pool_readers *readers)
{
    ASSERT(list_is_empty(&readers->waiters));
    if (list_is_linked(&readers->woken_link))
        list_remove(&readers->woken_link);
    number_map_remove(&api->pool_readers_by_id, readers->pool);
    free(readers->callers_owned);
    slab_free(&api->pool_readers, readers->slot);
}

void wait_pool_init(struct api *api)
{
    slab_init(&api->pool_readers, sizeof(struct pool_readers));
    number_map_init(&api->pool_readers_by_id);
    list_init(&api->woken_readers);
}

void wait_pool_deinit(struct api *api)
{
    const struct core *core = namespace_core(api->ns);
    for (uint32_t i = 0; i < ticket_pool_count(core); i++) {
        struct pool_readers *readers = readers_find(api, ticket_pool_at(core, i));
        if (readers != NULL)
            readers_free(api, readers);
    }
    ASSERT(api->pool_readers.used == 0);
    number_map_deinit(&api->pool_readers_by_id);
    slab_deinit(&api->pool_readers);
}

/* Proposals keep their whole tree, which may be large, and the reply as far as it is written, for some turns of the
 * loop. Both count like a reply: those whose replies may be large wait for them, and they wait for none of those. */
static void count_proposals(struct api *api, struct waiter *waiter)
{
    const struct exchange *exchange = waiter->exchange;
    if (api->front->replies == NULL)
        return;
    reply_budget_subtract(api->front->replies, waiter->counted);
    waiter->counted = arena_size(&exchange->arena) + exchange->reply.body.capacity;
    reply_budget_add(api->front->replies, waiter->counted);
}

void wait_pool_feed(struct call *call, struct ticket_pool *pool, const struct feed_command *command,
                    uint64_t deadline_ms)
{
    struct waiter *waiter = wait_begin(call, &wait_for_feed, 0);
    waiter->pool = (struct waiting_for_pool){.pool = pool, .feed = *command};
    exchange_rest(call->exchange);
    list_append(&pool_readers_of(call->api, pool)->waiters, &waiter->link);
    wait_set_deadline(call->api, waiter, deadline_ms);
}

void wait_pool_count(struct call *call, struct ticket_pool *pool, const struct ticket_count *count)
{
    struct waiter *waiter = wait_begin(call, &wait_for_count, 0);
    waiter->pool = (struct waiting_for_pool){.pool = pool, .count = *count};
    exchange_rest(call->exchange);
    list_append(&call->api->in_portions, &waiter->link);
}

void wait_pool_propose(struct call *call, struct ticket_pool *pool, const struct proposals *proposals)
{
    struct waiter *waiter = wait_begin(call, &wait_for_proposals, 0);
    waiter->pool = (struct waiting_for_pool){.pool = pool, .proposals = *proposals};
    waiter->pool.proposals.writer = *call->reply;
    call->exchange->request = (struct request){0}; /* its tree has copies of all texts */
    count_proposals(call->api, waiter);
    list_append(&call->api->in_portions, &waiter->link);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static enum error check(struct call *call, const struct waiter *waiter)
{
    enum error error = access_check_action(call);
    return error == OK ? pool_call_check(call, waiter->pool.pool->name_owned, waiter->pool.pool) : error;
}

static void write_answer(struct call *call, const struct waiter *waiter)
{
    if (waiter->kind == &wait_for_count)
        ticket_count_write(call, &waiter->pool.count);
    else
        feed_write(call, waiter->pool.pool, &waiter->pool.feed);
}

/* Returns the reply's size. */
static size_t answer(struct api *api, struct waiter *waiter, uint64_t now_ms)
{
    struct exchange *exchange = waiter->exchange;
    struct failure failure;
    failure_init(&failure);
    struct reply_draft draft;
    struct call call = call_resume(api, exchange, &draft, &failure, now_ms);
    enum error error = check(&call, waiter);
    if (error != OK) {
        wait_refuse(api, waiter, error, &failure);
        return 0;
    }
    write_answer(&call, waiter);
    reply_end(exchange, &draft, false);
    size_t size = exchange->reply.body.size;
    wait_finish(api, waiter);
    return size;
}

/* --- feeds -------------------------------------------------------------------------------------------------------- */

bool wait_pool_has_news(const struct api *api)
{
    if (!list_is_empty(&api->woken_readers))
        return true;
    return api->feeds_waiting > 0 && ticket_pool_has_fed(namespace_core(api->ns));
}

bool wait_pool_has_portions(const struct api *api)
{
    return !list_is_empty(&api->in_portions);
}

static void wake_readers(struct api *api, struct core *core)
{
    for (struct ticket_pool *pool; (pool = ticket_pool_take_fed(core)) != NULL;) {
        struct pool_readers *readers = readers_find(api, pool);
        if (readers != NULL && !list_is_empty(&readers->waiters) && !list_is_linked(&readers->woken_link))
            list_append(&api->woken_readers, &readers->woken_link);
    }
}

/* Answers whoever has something to be told, in order of arrival. False: there is no more room in *left. */
static bool serve_readers(struct api *api, struct pool_readers *readers, uint64_t now_ms, size_t *left)
{
    struct list_link *next;
    for (struct list_link *link = list_first(&readers->waiters); link != NULL; link = next) {
        next = list_next(&readers->waiters, link);
        struct waiter *waiter = waiter_of(link);
        if (!feed_has_answer(waiter->pool.pool, &waiter->pool.feed))
            continue;
        if (*left == 0 || front_must_wait(api->front))
            return false;
        size_t size = answer(api, waiter, now_ms);
        *left -= size < *left ? size : *left;
    }
    return true;
}

static void serve_feeds(struct api *api, struct core *core, uint64_t now_ms)
{
    size_t left = SERVED_SIZE_MAX;
    if (api->feeds_waiting > 0)
        wake_readers(api, core);
    while (!list_is_empty(&api->woken_readers)) {
        struct pool_readers *readers = CONTAINER_OF(list_first(&api->woken_readers), struct pool_readers, woken_link);
        if (!serve_readers(api, readers, now_ms, &left))
            return;
        list_remove(&readers->woken_link);
    }
}

/* --- counts, proposals -------------------------------------------------------------------------------------------- */

bool ticket_count_portion(const struct ticket_pool *pool, struct ticket_count *count)
{
    uint32_t end = pool_slot_end(pool); /* lower than in the last portion, if the pool was empty in between */
    if (count->slot >= end)
        return true;
    uint32_t portion_end = end - count->slot > COUNT_PORTION ? count->slot + COUNT_PORTION : end;
    for (; count->slot < portion_end; count->slot++) {
        const struct ticket *ticket = ticket_at(&pool->tickets, count->slot);
        if (!ticket_is_waiting(ticket) || !facts_meet(count->filter_owned, ticket->entry.facts, NULL))
            continue;
        count->tickets++;
        count->weight += ticket->entry.weight;
    }
    return count->slot == end;
}

void ticket_count_write(struct call *call, const struct ticket_count *count)
{
    writer_number(call->reply, "Tickets", count->tickets);
    writer_number(call->reply, "Weight", count->weight);
}

/* The results are written as they come, so the reply goes on where it was left. True: that was all. */
static bool judge_portion(struct api *api, struct waiter *waiter, uint64_t now_ms)
{
    struct exchange *exchange = waiter->exchange;
    struct failure failure;
    failure_init(&failure);
    struct reply_draft draft = {.writer = waiter->pool.proposals.writer};
    struct call call = call_go_on(api, exchange, &draft, &failure, now_ms);
    enum error error = check(&call, waiter);
    if (error != OK) {
        wait_refuse(api, waiter, error, &failure);
        return true;
    }
    if (!proposals_go_on(&call, waiter->pool.pool, &waiter->pool.proposals)) {
        waiter->pool.proposals.writer = draft.writer;
        count_proposals(api, waiter);
        return false;
    }
    reply_end(exchange, &draft, false);
    wait_finish(api, waiter);
    return true;
}

static bool count_portion(struct api *api, struct waiter *waiter, uint64_t now_ms)
{
    bool is_whole = ticket_count_portion(waiter->pool.pool, &waiter->pool.count);
    if (is_whole)
        answer(api, waiter, now_ms);
    return is_whole;
}

/* One portion of the first; the others' turn comes then. */
static void serve_portion(struct api *api, uint64_t now_ms)
{
    if (list_is_empty(&api->in_portions))
        return;
    struct waiter *waiter = waiter_of(list_first(&api->in_portions));
    if (waiter->kind == &wait_for_count ? count_portion(api, waiter, now_ms) : judge_portion(api, waiter, now_ms))
        return;
    list_remove(&waiter->link);
    list_append(&api->in_portions, &waiter->link);
}

void wait_pool_serve(struct api *api, uint64_t now_ms)
{
    if (!wait_pool_has_news(api) && !wait_pool_has_portions(api))
        return;
    serve_feeds(api, namespace_begin(api->ns, now_ms), now_ms);
    serve_portion(api, now_ms);
}

/* --- the kinds ---------------------------------------------------------------------------------------------------- */

/* Where memory for replies is spent, without events, from where it stands. */
static void feed_expire(struct api *api, struct waiter *waiter, uint64_t now_ms)
{
    if (front_must_wait(api->front))
        waiter->pool.feed.results_max = 0;
    answer(api, waiter, now_ms);
}

static void feed_give_up(struct api *api, struct waiter *waiter)
{
    const uint64_t now_ms = namespace_time(api->ns);
    feed_note_caller(api, waiter->pool.pool, &waiter->pool.feed, now_ms, now_ms); /* it waits no more */
}

const struct wait_kind wait_for_feed = {
    .has_deadline = true,
    .count_offset = offsetof(struct api, feeds_waiting),
    .check = check,
    .expire = feed_expire,
    .give_up = feed_give_up,
};

static void count_leave(struct api *api, struct waiter *waiter)
{
    (void)api;
    facts_destroy(waiter->pool.count.filter_owned);
}

const struct wait_kind wait_for_count = {
    .count_offset = offsetof(struct api, portions_waiting),
    .check = check,
    .leave = count_leave,
};

static void proposals_leave(struct api *api, struct waiter *waiter)
{
    if (waiter->counted > 0)
        reply_budget_subtract(api->front->replies, waiter->counted);
}

const struct wait_kind wait_for_proposals = {
    .keeps_exchange = true,
    .count_offset = offsetof(struct api, portions_waiting),
    .check = check,
    .leave = proposals_leave,
};

/* --- the end of a pool -------------------------------------------------------------------------------------------- */

struct pool_readers *wait_pool_take_all(struct api *api, const struct ticket_pool *pool)
{
    struct pool_readers *readers = pool_readers_of(api, pool);
    struct list_link *next;
    for (struct list_link *link = list_first(&api->in_portions); link != NULL; link = next) {
        next = list_next(&api->in_portions, link);
        if (waiter_of(link)->pool.pool != pool)
            continue;
        list_remove(link);
        list_append(&readers->waiters, link);
    }
    for (struct list_link *link = list_first(&readers->waiters); link != NULL;
         link = list_next(&readers->waiters, link))
        waiter_of(link)->pool.pool = NULL;
    return readers;
}

void wait_pool_deleted(struct api *api, struct pool_readers *readers)
{
    while (!list_is_empty(&readers->waiters)) {
        struct waiter *waiter = waiter_of(list_first(&readers->waiters));
        reply_fail(waiter->exchange, ERROR_POOL_DOES_NOT_EXIST, NULL);
        wait_finish(api, waiter);
    }
    readers_free(api, readers);
}
