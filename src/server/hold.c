#include "server/hold.h"

static struct turn *hold_turn(struct list_link *link)
{
    return CONTAINER_OF(link, struct turn, hold_link);
}

void hold_init(struct hold *hold)
{
    list_init(&hold->turns);
    hold->count = 0;
}

void hold_add(struct hold *hold, struct turn *turn)
{
    ASSERT(turn->state == TURN_IN_API && turn->exchange.state == EXCHANGE_FINISHED);
    ASSERT(arena_is_empty(&turn->exchange.arena)); /* so it holds what exchange_reply_memory() says */
    /* A turn that comes with an earlier frame than the one before it waits as long as that one: later than needed is
     * safe. */
    struct list_link *last = hold->turns.head.prev;
    if (last != &hold->turns.head && hold_turn(last)->exchange.hold_sequence > turn->exchange.hold_sequence)
        turn->exchange.hold_sequence = hold_turn(last)->exchange.hold_sequence;
    list_append(&hold->turns, &turn->hold_link);
    turn->state = TURN_HELD;
    turn->hold = hold;
    hold->count++;
}

struct turn *hold_take(struct hold *hold, uint64_t durable_sequence)
{
    struct list_link *link = list_first(&hold->turns);
    if (link == NULL || hold_turn(link)->exchange.hold_sequence > durable_sequence)
        return NULL;
    struct turn *turn = hold_turn(link);
    hold_remove(turn);
    turn->state = TURN_IN_API;
    return turn;
}

void hold_remove(struct turn *turn)
{
    ASSERT(turn->state == TURN_HELD && turn->hold->count > 0);
    list_remove(&turn->hold_link);
    turn->hold->count--;
}
