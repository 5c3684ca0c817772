/* A pending request: an exchange, and its position among those of its connection. Replies leave a connection in the
 * order of its requests, whatever the order in which they are finished and become durable. */
#ifndef TALLY_SERVER_PENDING_REQUEST_H
#define TALLY_SERVER_PENDING_REQUEST_H

#include "api/exchange.h"

struct clock;
struct connection;
struct forwarded;
struct held_replies;

enum pending_state {
    PENDING_IN_API,    /* being decided, or waiting for messages; the api has it */
    PENDING_SCRAPING,  /* the front makes its metrics (front_scrape()) */
    PENDING_FORWARDED, /* another node is asked (forward.h) */
    PENDING_HELD,      /* finished, waiting for its frame to become durable */
    /* may be written as soon as it is the first of its connection and pending_request_may_leave() allows it */
    PENDING_READY,
};

struct pending_request {
    struct exchange exchange;
    struct connection *connection;
    struct list_link connection_link; /* among its connection's requests */
    struct list_link held_link;       /* while PENDING_HELD, like the next */
    struct held_replies *held;        /* while PENDING_HELD */
    struct forwarded *forwarded;      /* while PENDING_FORWARDED */
    uint64_t begun_ns;                /* how long it takes (slow.h), like the next three */
    uint32_t wait_us;
    uint32_t decide_us;
    uint32_t flush_us;
    uint32_t size; /* of the request, in bytes */
    enum pending_state state;
    bool is_head; /* HEAD: the reply's body is counted, not sent */
    bool is_http_1_0;
    bool is_last;                      /* the connection closes behind it */
    struct pending_request *free_next; /* in the cache */
};

/* Requests not in use, so that a warm server allocates none; and blocks for all arenas, because a request without
 * content holds none. */
struct pending_request_cache {
    struct pending_request *free_owned; /* newest first: its memory is still in the processor's cache */
    size_t free_count;
    size_t bodies_size; /* memory that the free ones keep for their next replies */
    struct arena_stock blocks;
};

void pending_request_cache_init(struct pending_request_cache *cache);
void pending_request_cache_deinit(struct pending_request_cache *cache);

struct pending_request *pending_request_take(struct pending_request_cache *cache, struct connection *connection);

/* All replies before it have left, or leave with it. May the reply of this PENDING_READY request leave, too? True: its
 * leases have begun. False: it is PENDING_HELD, because its leases must become durable first. Do not ask earlier: a
 * lease would run while its reply waits for another one. */
bool pending_request_may_leave(struct pending_request *pending, const struct clock *clock);

/* For a request that is in no list and not with the api. */
void pending_request_give_back(struct pending_request_cache *cache, struct pending_request *pending);

#endif
