/* The queue that a source drains, as source_queue.c and queue_leases.c call it: one of a Tally over libtally
 * (queue_access_tally.c), or one of any endpoint by the SQS protocol (queue_access_sqs.c). One thread at a time; every
 * call blocks. */
#ifndef TALLY_RELAY_QUEUE_ACCESS_H
#define TALLY_RELAY_QUEUE_ACCESS_H

#include "relay/row.h"
#include "relay/spec.h"

/* A message that was received, as a row. */
struct received {
    struct row row;
    struct uid message_id;
};

/* What the rows point to stands in the arena. */
struct received_messages {
    struct arena arena;
    struct received *items_owned;
    size_t count, capacity;
};

void received_init(struct received_messages *messages);
void received_deinit(struct received_messages *messages);
/* The row and all it points to are copied; its handle has a NUL behind it then. */
void received_append(struct received_messages *messages, const struct row *row, const struct uid *message_id);

struct queue_access;

struct queue_access_ops {
    /* Receives up to `max` messages, at least as many as one request gives, and waits for the first of them. What came
     * is appended, also where a part of it failed. */
    enum step (*receive)(struct queue_access *access, unsigned max, unsigned wait_s, unsigned visibility_s,
                         struct received_messages *messages, struct fault *fault);
    /* Deletes the messages. What is said of a single one is passed over: a handle that holds nothing any more needs no
     * delete, and a message that could not be deleted comes again. */
    enum step (*remove)(struct queue_access *access, const char *const *handles, size_t count, struct fault *fault);
    /* Puts their visibility timeouts off. Where `is_hidden` is not NULL it has a place for each handle, and says of
     * which it was done. */
    enum step (*hide)(struct queue_access *access, const char *const *handles, size_t count, unsigned visibility_s,
                      bool *is_hidden, struct fault *fault);
    /* How many messages wait, and how many of them nobody can receive yet. */
    enum step (*count)(struct queue_access *access, uint64_t *waiting, uint64_t *delayed, struct fault *fault);
    /* Ends the call in progress, and those after it. Any thread. */
    void (*interrupt)(struct queue_access *access);
    void (*close)(struct queue_access *access);
};

/* The common part. */
struct queue_access {
    const struct queue_access_ops *ops;
    char warning[FAULT_TEXT_SIZE]; /* what the queue did lately that it must not do; "": nothing */
    uint64_t warned_ms;            /* monotonic */
};

/* How the spec's source is reached, with so many connections at most. NULL: `fault` says why. Connects when it is
 * called; of the spec nothing is kept. */
struct queue_access *queue_access_create(const struct relay_spec *spec, unsigned connections, struct fault *fault);

struct queue_access *queue_access_tally_create(const struct relay_spec *spec, struct fault *fault);
struct queue_access *queue_access_sqs_create(const struct relay_spec *spec, unsigned connections);

#endif
