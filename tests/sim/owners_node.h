/* A node: a process that follows the log of one namespace, takes it over, serves clients, and begins again when it has
 * lost it, as tallyd does. The namespace, the log and the disk over PostgreSQL are the real ones. */
#ifndef TALLY_TESTS_SIM_OWNERS_NODE_H
#define TALLY_TESTS_SIM_OWNERS_NODE_H

#include "engine/namespace.h"
#include "owners_fiber.h"
#include "owners_judge.h"
#include "postgres/session.h"

enum node_state { NODE_DOWN, NODE_STANDS_BY, NODE_SERVES, NODE_STALLS, NODE_PAUSES };

enum request_state { REQUEST_WAITS, REQUEST_HELD, REQUEST_ANSWERED, REQUEST_REFUSED, REQUEST_BROKEN };

/* A request of a client, which frees it when it does not wait any more. */
struct node_request {
    enum request_kind kind;
    uint64_t number; /* the judge's */
    uint32_t tag;
    uint32_t body_size;
    enum request_state state;
    uint64_t sequence; /* of the frame that its reply waits for */
    struct fiber *client;
    struct node_request *next;
};

struct node_settings {
    struct namespace_options namespace_options;
    uint32_t lease_ms;
};

struct node {
    int index;
    char name[8];
    struct process process;
    const struct node_settings *settings;
    struct pg_options options;
    struct disk *folder; /* of the cache */
    struct fiber *fiber;
    enum node_state state;
    struct flushers *flushers;
    struct disk *disk;
    struct namespace *ns;
    uint64_t log_ms, log_read_ms; /* the time of the log, and when that was, by this node's clock */
    uint64_t first;               /* of this owner's frames */
    uint64_t proved_at;           /* as the network saw it */
    uint64_t served;              /* how often it has become the owner */
    uint64_t resumed;             /* how often it went on as it was, after it could not answer for a while */
    struct node_request *waiting; /* oldest first */
    struct node_request *held;
};

void node_init(struct node *node, int index, const struct node_settings *settings, struct disk *folder);

/* The process begins, and is killed. */
void node_start(struct node *node);
void node_kill(struct node *node);

/* A request arrives. The node sets its state, and wakes its client, when it is over. */
void node_ask(struct node *node, struct node_request *request);

#endif
