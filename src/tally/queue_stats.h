/* What the server says of all its queues at once: for commands that look at them together. */
#ifndef TALLY_TALLY_QUEUE_STATS_H
#define TALLY_TALLY_QUEUE_STATS_H

#include "tally/command.h"

#define QUEUE_STATS_NAME_SIZE 81

struct queue_stats {
    char name[QUEUE_STATS_NAME_SIZE];
    char dead_letter_queue[QUEUE_STATS_NAME_SIZE]; /* "": it has none */
    uint64_t visible;
    uint64_t in_flight;
    uint64_t delayed;
    uint64_t blocked; /* of these */
    uint64_t groups;
    uint64_t held_groups;
    uint64_t oldest_s; /* age of its oldest message; and of the oldest one that a receive could have now */
    uint64_t deliverable_s;
    uint64_t waiting_receives;
    double sent; /* a second, over the last minute; so the next three */
    double received;
    double deleted;
    double failed;
    double last_receive_at; /* seconds since the epoch; 0: nobody has asked since the server's start */
    bool has_oldest;
    bool has_deliverable;
    bool knows_held_groups; /* the server tells them */
    bool is_paused;
};

struct queue_stats_list {
    struct queue_stats *items_owned;
    size_t count;
    size_t capacity;
};

/* Reads those of all queues whose names begin so (NULL: all), in the order of their names. Returns the program's
 * status; an error has been told. The caller frees the items, also after an error. */
int queue_stats_read(struct invocation *invocation, const char *prefix, struct queue_stats_list *list);

#endif
