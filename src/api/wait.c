#include "api/wait.h"

#include "api/access.h"
#include "api/reply.h"
#include "api/state.h"
#include "base/memory.h"
#include <stdlib.h>

static_assert(EXCHANGE_SIZE + EXCHANGE_WAITING_BODY_MAX + sizeof(struct waiter) + sizeof(struct heap_entry) <=
                  WAIT_SIZE,
              "what waits takes what is counted for it");

static struct waiter *waiter_at(const struct api *api, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&api->waiters, slot);
}

/* How many wait so. */
static uint32_t *count_of(struct api *api, const struct wait_kind *kind)
{
    return (uint32_t *)(void *)((char *)api + kind->count_offset);
}

void wait_init(struct api *api)
{
    slab_init(&api->waiters, sizeof(struct waiter));
    heap_init(&api->deadlines, &api->waiters, offsetof(struct waiter, deadline_index), offsetof(struct waiter, number));
    list_init(&api->in_portions);
}

void wait_deinit(struct api *api)
{
    ASSERT(api->waiters.used == 0);
    heap_deinit(&api->deadlines);
    slab_deinit(&api->waiters);
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

struct waiter *wait_begin(struct call *call, const struct wait_kind *kind, size_t kept_size)
{
    struct api *api = call->api;
    const uint32_t slot = slab_allocate(&api->waiters);
    struct waiter *waiter = waiter_at(api, slot);
    waiter->kind = kind;
    waiter->exchange = call->exchange;
    waiter->number = ++api->waiter_number;
    waiter->slot = slot;
    waiter->kept_size = kept_size;
    ++*count_of(api, kind);
    if (api->front->waits != NULL)
        wait_budget_add(api->front->waits, kept_size);
    call->exchange->waiter_slot = slot;
    call->exchange->state = EXCHANGE_WAITING;
    call->is_waiting = true;
    return waiter;
}

void wait_set_deadline(struct api *api, struct waiter *waiter, uint64_t deadline_ms)
{
    ASSERT(waiter->kind->has_deadline);
    heap_push(&api->deadlines, deadline_ms, waiter->slot);
}

static void waiter_remove(struct api *api, struct waiter *waiter)
{
    const struct wait_kind *kind = waiter->kind;
    list_remove(&waiter->link);
    if (kind->has_deadline)
        heap_remove(&api->deadlines, waiter->slot);
    if (kind->leave != NULL)
        kind->leave(api, waiter);
    if (api->front->waits != NULL)
        wait_budget_subtract(api->front->waits, waiter->kept_size);
    --*count_of(api, kind);
    waiter->exchange->waiter_slot = 0;
    slab_free(&api->waiters, waiter->slot);
}

void wait_finish(struct api *api, struct waiter *waiter)
{
    struct exchange *exchange = waiter->exchange;
    waiter_remove(api, waiter);
    api_finish(api, exchange);
}

static void give_up(struct api *api, struct waiter *waiter)
{
    if (waiter->kind->give_up != NULL)
        waiter->kind->give_up(api, waiter);
}

void wait_refuse(struct api *api, struct waiter *waiter, enum error error, const struct failure *failure)
{
    give_up(api, waiter);
    reply_fail(waiter->exchange, error, failure);
    wait_finish(api, waiter);
}

void wait_abandon(struct api *api, struct exchange *exchange)
{
    struct waiter *waiter = waiter_at(api, exchange->waiter_slot);
    give_up(api, waiter);
    waiter_remove(api, waiter);
    exchange->state = EXCHANGE_NEW;
}

bool wait_has_deadline(const struct exchange *exchange)
{
    return waiter_at(exchange->api, exchange->waiter_slot)->kind->has_deadline;
}

/* --- time, and the end -------------------------------------------------------------------------------------------- */

uint64_t wait_deadline_ms(const struct api *api)
{
    return heap_top_key(&api->deadlines);
}

static void expire_first(struct api *api, uint64_t now_ms)
{
    struct waiter *waiter = waiter_at(api, heap_top(&api->deadlines).slot);
    waiter->kind->expire(api, waiter, now_ms);
}

void wait_expire(struct api *api, uint64_t now_ms)
{
    while (wait_deadline_ms(api) <= now_ms && api->deadlines.count > 0)
        expire_first(api, now_ms);
}

void wait_release_all(struct api *api)
{
    while (api->deadlines.count > 0)
        expire_first(api, namespace_time(api->ns));
    while (!list_is_empty(&api->in_portions)) {
        struct waiter *waiter = CONTAINER_OF(list_first(&api->in_portions), struct waiter, link);
        reply_fail(waiter->exchange, ERROR_SERVICE_UNAVAILABLE, NULL);
        wait_finish(api, waiter);
    }
}

/* --- may they still? ---------------------------------------------------------------------------------------------- */

void wait_check(struct api *api, struct waiter *waiter, enum error error, struct failure *failure)
{
    struct exchange *exchange = waiter->exchange;
    if (error == OK) {
        struct reply_draft draft; /* nothing is written */
        struct call call = call_go_on(api, exchange, &draft, failure, namespace_time(api->ns));
        error = waiter->kind->check(&call, waiter);
    }
    if (error != OK)
        wait_refuse(api, waiter, error, failure);
    else if (!waiter->kind->keeps_exchange)
        exchange_rest(exchange);
}

/* All that waits; the caller frees them. */
static struct waiter **list_waiters(const struct api *api, size_t *count)
{
    struct waiter **waiters = memory_allocate((api->waiters.used + 1) * sizeof(struct waiter *));
    *count = 0;
    for (uint32_t i = 0; i < api->deadlines.count; i++)
        waiters[(*count)++] = waiter_at(api, api->deadlines.entries_owned[i].slot);
    for (struct list_link *link = list_first(&api->in_portions); link != NULL;
         link = list_next(&api->in_portions, link))
        waiters[(*count)++] = CONTAINER_OF(link, struct waiter, link);
    return waiters;
}

void wait_renew(struct api *api)
{
    size_t count;
    struct waiter **waiters = list_waiters(api, &count);
    for (size_t i = 0; i < count; i++) {
        struct failure failure;
        failure_init(&failure);
        const enum error error = access_renew(api->front, waiters[i]->exchange, &failure);
        wait_check(api, waiters[i], error, &failure);
    }
    free(waiters);
}
