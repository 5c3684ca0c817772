/* One request's turn on its connection: an exchange, and its place among the others. Replies leave a connection in the
 * order of its requests, whatever order they are finished and become durable in. */
#ifndef TALLY_SERVER_TURN_H
#define TALLY_SERVER_TURN_H

#include "api/exchange.h"

struct clock;
struct connection;
struct hold;

enum turn_state {
    TURN_IN_API, /* being decided, or waiting for messages; the api has it */
    TURN_HELD,   /* finished, waiting for its frame to become durable */
    TURN_READY,  /* may be written as soon as it is the first of its connection, and turn_leaves() lets it */
};

struct turn {
    struct exchange exchange;
    struct connection *connection;
    struct list_link connection_link; /* among its connection's turns */
    struct list_link hold_link;       /* while TURN_HELD, as is the next */
    struct hold *hold;                /* while TURN_HELD */
    enum turn_state state;
    bool is_head; /* HEAD: the reply's body is counted, not sent */
    bool is_http_1_0;
    bool is_last;           /* the connection closes behind it */
    struct turn *free_next; /* in the pool */
};

/* Turns not in use, so that a warm server allocates none, and blocks for the arenas of all: a turn
 * without content holds none. */
struct turn_pool {
    struct turn *free_owned; /* newest first: its memory is still in the processor's cache */
    size_t free_count;
    size_t bodies_size; /* memory that the free ones keep for their next replies */
    struct arena_stock blocks;
};

void turn_pool_init(struct turn_pool *pool);
void turn_pool_deinit(struct turn_pool *pool);

struct turn *turn_take(struct turn_pool *pool, struct connection *connection);

/* All replies before it have left, or leave with it: may the reply of a turn that is TURN_READY leave, too? True: the
 * leases that it gives have begun. False: it is TURN_HELD, because what it gives has to be made durable first. Asked
 * no earlier: a lease would run while its reply stands behind another one. */
bool turn_leaves(struct turn *turn, const struct clock *clock);

/* Of a turn that is in no list and not with the api. */
void turn_give_back(struct turn_pool *pool, struct turn *turn);

#endif
