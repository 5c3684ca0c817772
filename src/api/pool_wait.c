#include "api/pool_wait.h"

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

/* --- desks and waiters -------------------------------------------------------------------------------------------- */

static struct pool_waiter *waiter_at(const struct api *api, uint32_t slot)
{
    ASSERT(slot != 0);
    return pool_at(&api->pool_waiters, slot);
}

struct pool_desk *pool_desk_of(struct ticket_pool *pool)
{
    if (pool->waiters == NULL) {
        struct pool_desk *desk = memory_allocate_zeroed(sizeof(*desk));
        list_init(&desk->waiters);
        pool->waiters = desk;
    }
    return pool->waiters;
}

static void desk_free(struct pool_desk *desk)
{
    ASSERT(list_is_empty(&desk->waiters));
    if (list_is_linked(&desk->woken_link))
        list_remove(&desk->woken_link);
    free(desk);
}

void pool_wait_init(struct api *api)
{
    pool_init(&api->pool_waiters, sizeof(struct pool_waiter));
    heap_init(&api->feed_deadlines, &api->pool_waiters, offsetof(struct pool_waiter, deadline_index),
              offsetof(struct pool_waiter, number));
    list_init(&api->woken_desks);
    list_init(&api->in_portions);
}

void pool_wait_deinit(struct api *api)
{
    const struct core *core = namespace_core(api->ns);
    ASSERT(api->pool_waiters.used == 0);
    for (uint32_t i = 0; i < ticket_pool_count(core); i++) {
        struct ticket_pool *pool = ticket_pool_at(core, i);
        if (pool->waiters != NULL)
            desk_free(pool->waiters);
        pool->waiters = NULL;
    }
    heap_deinit(&api->feed_deadlines);
    pool_deinit(&api->pool_waiters);
}

static_assert(EXCHANGE_SIZE + EXCHANGE_WAITING_BODY_MAX + sizeof(struct pool_waiter) + sizeof(struct heap_entry) <=
                  WAIT_SIZE,
              "what waits for a pool takes what is counted for it");

static struct pool_waiter *waiter_add(struct call *call, struct ticket_pool *pool)
{
    struct api *api = call->api;
    uint32_t slot = pool_allocate(&api->pool_waiters);
    struct pool_waiter *waiter = waiter_at(api, slot);
    waiter->number = ++api->waiter_number;
    waiter->exchange = call->exchange;
    waiter->pool = pool;
    if (api->front->waits != NULL)
        wait_budget_add(api->front->waits, 0);
    call->exchange->waiter_slot = slot;
    call->exchange->waits_for_pool = true;
    call->exchange->state = EXCHANGE_WAITING;
    call->is_waiting = true;
    return waiter;
}

/* Proposals keep their whole tree, which may be large, and the reply as far as it is written, for some turns of the
 * loop. Both count like a reply: those whose replies may be large wait for them, and they wait for none of those. */
static void waiter_count(struct api *api, struct pool_waiter *waiter)
{
    const struct exchange *exchange = waiter->exchange;
    if (api->front->replies == NULL)
        return;
    reply_budget_subtract(api->front->replies, waiter->counted);
    waiter->counted = arena_size(&exchange->arena) + exchange->reply.body.capacity;
    reply_budget_add(api->front->replies, waiter->counted);
}

void pool_wait_feed(struct call *call, struct ticket_pool *pool, const struct feed_command *command,
                    uint64_t deadline_ms)
{
    struct pool_waiter *waiter = waiter_add(call, pool);
    waiter->feed = *command;
    exchange_rest(call->exchange);
    list_append(&pool_desk_of(pool)->waiters, &waiter->link);
    heap_push(&call->api->feed_deadlines, deadline_ms, call->exchange->waiter_slot);
}

void pool_wait_count(struct call *call, struct ticket_pool *pool, const struct ticket_count *count)
{
    struct pool_waiter *waiter = waiter_add(call, pool);
    waiter->kind = WAITS_FOR_COUNT;
    waiter->count = *count;
    exchange_rest(call->exchange);
    list_append(&call->api->in_portions, &waiter->link);
}

void pool_wait_propose(struct call *call, struct ticket_pool *pool, const struct proposals *proposals)
{
    struct pool_waiter *waiter = waiter_add(call, pool);
    waiter->kind = WAITS_FOR_PROPOSALS;
    waiter->proposals = *proposals;
    waiter->proposals.writer = *call->reply;
    call->exchange->request = (struct request){0}; /* its tree has copies of all texts */
    waiter_count(call->api, waiter);
    list_append(&call->api->in_portions, &waiter->link);
}

static void waiter_remove(struct api *api, uint32_t slot)
{
    struct pool_waiter *waiter = waiter_at(api, slot);
    list_remove(&waiter->link);
    if (waiter->kind == WAITS_FOR_FEED)
        heap_remove(&api->feed_deadlines, slot);
    facts_destroy(waiter->count.filter_owned);
    if (waiter->counted > 0)
        reply_budget_subtract(api->front->replies, waiter->counted);
    if (api->front->waits != NULL)
        wait_budget_subtract(api->front->waits, 0);
    waiter->exchange->waiter_slot = 0;
    waiter->exchange->waits_for_pool = false;
    pool_free(&api->pool_waiters, slot);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* Ends the wait with the reply that stands in the exchange. */
static void waiter_finish(struct api *api, struct pool_waiter *waiter)
{
    struct exchange *exchange = waiter->exchange;
    waiter_remove(api, exchange->waiter_slot);
    api_finish(api, exchange);
}

/* May it go on? What was true when it began may not be now: another file of credentials, other queues of the pool. */
static enum error check_again(struct call *call, const struct ticket_pool *pool)
{
    enum error error = access_check_action(call);
    return error == OK ? pool_call_check(call, pool->name_owned, pool) : error;
}

static void refuse(struct api *api, struct pool_waiter *waiter, enum error error, const struct failure *failure)
{
    const uint64_t now_ms = namespace_time(api->ns);
    if (waiter->kind == WAITS_FOR_FEED)
        feed_note_caller(waiter->pool, &waiter->feed, now_ms, now_ms); /* it waits no more */
    reply_fail(waiter->exchange, error, failure);
    waiter_finish(api, waiter);
}

static void write_answer(struct call *call, const struct pool_waiter *waiter)
{
    if (waiter->kind == WAITS_FOR_COUNT)
        ticket_count_write(call, &waiter->count);
    else
        feed_write(call, waiter->pool, &waiter->feed);
}

/* Returns the reply's size. */
static size_t answer(struct api *api, struct pool_waiter *waiter, uint64_t now_ms)
{
    struct exchange *exchange = waiter->exchange;
    struct failure failure;
    failure_init(&failure);
    struct reply_draft draft;
    struct call call = call_resume(api, exchange, &draft, &failure, now_ms);
    enum error error = check_again(&call, waiter->pool);
    if (error != OK) {
        refuse(api, waiter, error, &failure);
        return 0;
    }
    write_answer(&call, waiter);
    reply_end(exchange, &draft, false);
    size_t size = exchange->reply.body.size;
    waiter_finish(api, waiter);
    return size;
}

/* --- feeds -------------------------------------------------------------------------------------------------------- */

bool pool_wait_has_news(const struct api *api)
{
    if (!list_is_empty(&api->woken_desks))
        return true;
    return api->feed_deadlines.count > 0 && ticket_pool_has_fed(namespace_core(api->ns));
}

bool pool_wait_has_portions(const struct api *api)
{
    return !list_is_empty(&api->in_portions);
}

uint64_t pool_wait_deadline_ms(const struct api *api)
{
    return heap_top_key(&api->feed_deadlines);
}

static void wake_desks(struct api *api, struct core *core)
{
    for (struct ticket_pool *pool; (pool = ticket_pool_take_fed(core)) != NULL;) {
        struct pool_desk *desk = pool->waiters;
        if (desk != NULL && !list_is_empty(&desk->waiters) && !list_is_linked(&desk->woken_link))
            list_append(&api->woken_desks, &desk->woken_link);
    }
}

/* Answers whoever has something to be told, in order of arrival. False: there is no more room in *left. */
static bool serve_desk(struct api *api, struct pool_desk *desk, uint64_t now_ms, size_t *left)
{
    struct list_link *next;
    for (struct list_link *link = list_first(&desk->waiters); link != NULL; link = next) {
        next = list_next(&desk->waiters, link);
        struct pool_waiter *waiter = CONTAINER_OF(link, struct pool_waiter, link);
        if (!feed_has_answer(waiter->pool, &waiter->feed))
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
    if (api->feed_deadlines.count > 0)
        wake_desks(api, core);
    while (!list_is_empty(&api->woken_desks)) {
        struct pool_desk *desk = CONTAINER_OF(list_first(&api->woken_desks), struct pool_desk, woken_link);
        if (!serve_desk(api, desk, now_ms, &left))
            return;
        list_remove(&desk->woken_link);
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
static bool judge_portion(struct api *api, struct pool_waiter *waiter, uint64_t now_ms)
{
    struct exchange *exchange = waiter->exchange;
    struct failure failure;
    failure_init(&failure);
    struct reply_draft draft = {.writer = waiter->proposals.writer};
    struct call call = call_go_on(api, exchange, &draft, &failure, now_ms);
    enum error error = check_again(&call, waiter->pool);
    if (error != OK) {
        refuse(api, waiter, error, &failure);
        return true;
    }
    if (!proposals_go_on(&call, waiter->pool, &waiter->proposals)) {
        waiter->proposals.writer = draft.writer;
        waiter_count(api, waiter);
        return false;
    }
    reply_end(exchange, &draft, false);
    waiter_finish(api, waiter);
    return true;
}

static bool count_portion(struct api *api, struct pool_waiter *waiter, uint64_t now_ms)
{
    bool is_whole = ticket_count_portion(waiter->pool, &waiter->count);
    if (is_whole)
        answer(api, waiter, now_ms);
    return is_whole;
}

/* One portion of the first; the others' turn comes then. */
static void serve_portion(struct api *api, uint64_t now_ms)
{
    if (list_is_empty(&api->in_portions))
        return;
    struct pool_waiter *waiter = CONTAINER_OF(list_first(&api->in_portions), struct pool_waiter, link);
    if (waiter->kind == WAITS_FOR_COUNT ? count_portion(api, waiter, now_ms) : judge_portion(api, waiter, now_ms))
        return;
    list_remove(&waiter->link);
    list_append(&api->in_portions, &waiter->link);
}

/* --- time, and the end -------------------------------------------------------------------------------------------- */

void pool_wait_serve(struct api *api, uint64_t now_ms)
{
    if (!pool_wait_has_news(api) && !pool_wait_has_portions(api))
        return;
    serve_feeds(api, namespace_begin(api->ns, now_ms), now_ms);
    serve_portion(api, now_ms);
}

/* Answers the feed that has to be answered first: where memory for replies is spent, without events, from where it
 * stands. */
static void expire_first(struct api *api, uint64_t now_ms)
{
    struct pool_waiter *waiter = waiter_at(api, heap_top(&api->feed_deadlines).slot);
    if (front_must_wait(api->front))
        waiter->feed.results_max = 0;
    answer(api, waiter, now_ms);
}

void pool_wait_expire(struct api *api, uint64_t now_ms)
{
    while (api->feed_deadlines.count > 0 && heap_top(&api->feed_deadlines).key <= now_ms)
        expire_first(api, now_ms);
}

void pool_wait_release_all(struct api *api)
{
    while (api->feed_deadlines.count > 0)
        expire_first(api, namespace_time(api->ns));
    while (!list_is_empty(&api->in_portions)) {
        struct pool_waiter *waiter = CONTAINER_OF(list_first(&api->in_portions), struct pool_waiter, link);
        reply_fail(waiter->exchange, ERROR_SERVICE_UNAVAILABLE, NULL);
        waiter_finish(api, waiter);
    }
}

/* All exchanges that wait for something of a pool. The caller frees them. */
static struct exchange **list_exchanges(const struct api *api, size_t *count)
{
    struct exchange **exchanges = memory_allocate((api->pool_waiters.used + 1) * sizeof(struct exchange *));
    *count = 0;
    for (uint32_t i = 0; i < api->feed_deadlines.count; i++)
        exchanges[(*count)++] = waiter_at(api, api->feed_deadlines.entries_owned[i].slot)->exchange;
    for (struct list_link *link = list_first(&api->in_portions); link != NULL;
         link = list_next(&api->in_portions, link))
        exchanges[(*count)++] = CONTAINER_OF(link, struct pool_waiter, link)->exchange;
    return exchanges;
}

void pool_wait_renew(struct api *api)
{
    size_t count;
    struct exchange **exchanges = list_exchanges(api, &count);
    for (size_t i = 0; i < count; i++) {
        struct pool_waiter *waiter = waiter_at(api, exchanges[i]->waiter_slot);
        struct failure failure;
        failure_init(&failure);
        struct reply_draft draft = {.writer = waiter->proposals.writer};
        enum error error = access_renew(api->front, exchanges[i], &failure);
        if (error == OK) {
            struct call call = call_go_on(api, exchanges[i], &draft, &failure, namespace_time(api->ns));
            error = check_again(&call, waiter->pool);
        }
        if (error != OK)
            refuse(api, waiter, error, &failure);
    }
    free(exchanges);
}

void pool_wait_abandon(struct api *api, struct exchange *exchange)
{
    const struct pool_waiter *waiter = waiter_at(api, exchange->waiter_slot);
    const uint64_t now_ms = namespace_time(api->ns);
    if (waiter->kind == WAITS_FOR_FEED)
        feed_note_caller(waiter->pool, &waiter->feed, now_ms, now_ms); /* it waits no more */
    waiter_remove(api, exchange->waiter_slot);
    exchange->state = EXCHANGE_NEW;
}

struct pool_desk *pool_wait_take_all(struct api *api, struct ticket_pool *pool)
{
    struct pool_desk *desk = pool_desk_of(pool);
    pool->waiters = NULL;
    struct list_link *next;
    for (struct list_link *link = list_first(&api->in_portions); link != NULL; link = next) {
        next = list_next(&api->in_portions, link);
        if (CONTAINER_OF(link, struct pool_waiter, link)->pool != pool)
            continue;
        list_remove(link);
        list_append(&desk->waiters, link);
    }
    for (struct list_link *link = list_first(&desk->waiters); link != NULL; link = list_next(&desk->waiters, link))
        CONTAINER_OF(link, struct pool_waiter, link)->pool = NULL;
    return desk;
}

void pool_wait_deleted(struct api *api, struct pool_desk *desk)
{
    while (!list_is_empty(&desk->waiters)) {
        struct pool_waiter *waiter = CONTAINER_OF(list_first(&desk->waiters), struct pool_waiter, link);
        reply_fail(waiter->exchange, ERROR_POOL_DOES_NOT_EXIST, NULL);
        waiter_finish(api, waiter);
    }
    desk_free(desk);
}
