#include "server/turn.h"

#include "api/api.h"
#include "base/memory.h"
#include "server/served.h"

#include <stdlib.h>

/* Turns kept for later, and what they may keep in sum for their next replies. */
#define TURN_FREE_MAX 1024u
#define TURN_BODIES_SIZE_MAX ((size_t)4 * 1024 * 1024)

/* Two allocations, each with a header of the allocator's and its share of what that rounds up. */
static_assert(sizeof(struct turn) + (size_t)2 * 16 <= EXCHANGE_SIZE, "a turn takes what is counted for it");

void turn_pool_init(struct turn_pool *pool)
{
    *pool = (struct turn_pool){0};
    arena_stock_init(&pool->blocks);
}

static void turn_destroy(struct turn *turn)
{
    exchange_deinit(&turn->exchange);
    free(turn);
}

void turn_pool_deinit(struct turn_pool *pool)
{
    while (pool->free_owned != NULL) {
        struct turn *turn = pool->free_owned;
        poison_lift(turn, sizeof(*turn));
        pool->free_owned = turn->free_next;
        turn_destroy(turn);
    }
    pool->free_count = 0;
    pool->bodies_size = 0;
    arena_stock_deinit(&pool->blocks);
}

struct turn *turn_take(struct turn_pool *pool, struct connection *connection)
{
    struct turn *turn = pool->free_owned;
    if (turn != NULL) {
        poison_lift(turn, sizeof(*turn));
        pool->free_owned = turn->free_next;
        pool->free_count--;
        pool->bodies_size -= turn->exchange.reply.body.capacity;
    } else {
        turn = memory_allocate_zeroed(sizeof(*turn));
        exchange_init(&turn->exchange);
        arena_share(&turn->exchange.arena, &pool->blocks);
    }
    turn->connection = connection;
    turn->state = TURN_IN_API;
    turn->hold = NULL;
    turn->is_head = turn->is_http_1_0 = turn->is_last = false;
    return turn;
}

bool turn_leaves(struct turn *turn, const struct clock *clock)
{
    struct exchange *exchange = &turn->exchange;
    ASSERT(turn->state == TURN_READY);
    if (!exchange_gives_lease(exchange))
        return true;
    struct served *served = served_of(exchange);
    served_note(served);
    if (api_let_go(&served->api, exchange, clock_now_ms(clock)))
        return true;
    turn->state = TURN_IN_API;
    hold_add(&served->hold, turn);
    return false;
}

void turn_give_back(struct turn_pool *pool, struct turn *turn)
{
    ASSERT(!list_is_linked(&turn->connection_link) && !list_is_linked(&turn->hold_link));
    if (pool->free_count >= TURN_FREE_MAX) {
        turn_destroy(turn);
        return;
    }
    exchange_reset(&turn->exchange);
    struct buffer *body = &turn->exchange.reply.body;
    if (pool->bodies_size + body->capacity > TURN_BODIES_SIZE_MAX)
        buffer_deinit(body);
    pool->bodies_size += body->capacity;
    turn->connection = NULL;
    turn->free_next = pool->free_owned;
    poison_put(turn, sizeof(*turn));
    pool->free_owned = turn;
    pool->free_count++;
}
