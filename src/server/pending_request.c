#include "server/pending_request.h"

#include "api/api.h"
#include "base/memory.h"
#include "server/served.h"

#include <stdlib.h>

/* How many unused requests are kept, and how much memory they may keep in sum for their next replies. */
#define PENDING_FREE_MAX 1024u
#define PENDING_BODIES_SIZE_MAX ((size_t)4 * 1024 * 1024)

/* Two allocations, each with the allocator's header and its rounding. */
static_assert(sizeof(struct pending_request) + (size_t)2 * 16 <= EXCHANGE_SIZE, "a turn takes what is counted for it");

void pending_request_cache_init(struct pending_request_cache *cache)
{
    *cache = (struct pending_request_cache){0};
    arena_stock_init(&cache->blocks);
}

static void pending_request_destroy(struct pending_request *pending)
{
    exchange_deinit(&pending->exchange);
    free(pending);
}

void pending_request_cache_deinit(struct pending_request_cache *cache)
{
    while (cache->free_owned != NULL) {
        struct pending_request *pending = cache->free_owned;
        poison_lift(pending, sizeof(*pending));
        cache->free_owned = pending->free_next;
        pending_request_destroy(pending);
    }
    cache->free_count = 0;
    cache->bodies_size = 0;
    arena_stock_deinit(&cache->blocks);
}

struct pending_request *pending_request_take(struct pending_request_cache *cache, struct connection *connection)
{
    struct pending_request *pending = cache->free_owned;
    if (pending != NULL) {
        poison_lift(pending, sizeof(*pending));
        cache->free_owned = pending->free_next;
        cache->free_count--;
        cache->bodies_size -= pending->exchange.reply.body.capacity;
    } else {
        pending = memory_allocate_zeroed(sizeof(*pending));
        exchange_init(&pending->exchange);
        arena_share(&pending->exchange.arena, &cache->blocks);
    }
    pending->connection = connection;
    pending->state = PENDING_IN_API;
    pending->held = NULL;
    pending->is_head = pending->is_http_1_0 = pending->is_last = false;
    pending->wait_us = 0;
    return pending;
}

bool pending_request_may_leave(struct pending_request *pending, const struct clock *clock)
{
    struct exchange *exchange = &pending->exchange;
    ASSERT(pending->state == PENDING_READY);
    if (!exchange_gives_lease(exchange))
        return true;
    struct served *served = served_of(exchange);
    served_note(served);
    if (api_reply_may_leave(&served->api, exchange, clock_now_ms(clock)))
        return true;
    pending->state = PENDING_IN_API;
    held_replies_add(&served->held, pending);
    return false;
}

void pending_request_give_back(struct pending_request_cache *cache, struct pending_request *pending)
{
    ASSERT(!list_is_linked(&pending->connection_link) && !list_is_linked(&pending->held_link));
    if (cache->free_count >= PENDING_FREE_MAX) {
        pending_request_destroy(pending);
        return;
    }
    exchange_reset(&pending->exchange);
    struct buffer *body = &pending->exchange.reply.body;
    if (cache->bodies_size + body->capacity > PENDING_BODIES_SIZE_MAX)
        buffer_deinit(body);
    cache->bodies_size += body->capacity;
    pending->connection = NULL;
    pending->free_next = cache->free_owned;
    poison_put(pending, sizeof(*pending));
    cache->free_owned = pending;
    cache->free_count++;
}
