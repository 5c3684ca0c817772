#include "server/turn.h"

#include "base/memory.h"

#include <stdlib.h>

/* Turns kept for later: each keeps the memory of its arena and reply. */
#define TURN_FREE_MAX 1024u

void turn_pool_init(struct turn_pool *pool)
{
    *pool = (struct turn_pool){0};
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
}

struct turn *turn_take(struct turn_pool *pool, struct connection *connection)
{
    struct turn *turn = pool->free_owned;
    if (turn != NULL) {
        poison_lift(turn, sizeof(*turn));
        pool->free_owned = turn->free_next;
        pool->free_count--;
    } else {
        turn = memory_allocate_zeroed(sizeof(*turn));
        exchange_init(&turn->exchange);
    }
    turn->connection = connection;
    turn->state = TURN_IN_API;
    turn->is_head = turn->is_http_1_0 = turn->is_last = false;
    return turn;
}

void turn_give_back(struct turn_pool *pool, struct turn *turn)
{
    ASSERT(!list_is_linked(&turn->connection_link) && !list_is_linked(&turn->hold_link));
    if (pool->free_count >= TURN_FREE_MAX) {
        turn_destroy(turn);
        return;
    }
    exchange_reset(&turn->exchange);
    turn->connection = NULL;
    turn->free_next = pool->free_owned;
    poison_put(turn, sizeof(*turn));
    pool->free_owned = turn;
    pool->free_count++;
}
