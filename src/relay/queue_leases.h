/* The messages that a relay has received and not settled: its rows in hand, in the order of their receipt.
 *
 * A thread of its own, with a connection of its own, renews their visibility timeouts as long as the worker is active,
 * whatever it waits for. If the worker has not used its rows for longer than any call of a sink takes (the relay is
 * paused, or hangs), their timeouts run out and others get them. */
#ifndef TALLY_RELAY_QUEUE_LEASES_H
#define TALLY_RELAY_QUEUE_LEASES_H

#include "relay/queue_access.h"
#include <pthread.h>

struct leased_row {
    struct row row; /* what it points to stands behind this struct; `handle` and `body` have a NUL behind them */
    struct uid message_id;
    uint64_t read_ms;       /* when, for what row.age_ms has become since */
    uint64_t held_until_ms; /* monotonic: until then nobody else can have been given the message */
    char *handle_owned;     /* the newest: a message that was lost and came back has another one */
};

struct leased_rows {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool is_started; /* the thread runs */
    bool is_ending;
    struct queue_access *access_owned; /* of the thread */
    unsigned visibility_s;
    unsigned idle_ms; /* after this time without use the rows are left to others */
    uint64_t used_ms; /* when the worker last looked, monotonic */
    struct leased_row **items_owned;
    size_t count, capacity;
    size_t size; /* of all bodies and attributes */
};

/* False: `fault` says why. Call leased_rows_deinit() in any case. */
bool leased_rows_init(struct leased_rows *leases, const struct relay_spec *spec, unsigned visibility_s,
                      struct fault *fault);
/* Ends the thread; rows still in hand come back to the queue by their visibility timeouts, unless they were given back
 * before. */
void leased_rows_deinit(struct leased_rows *leases);

/* The worker uses its rows now. Drops the rows whose leases have run out. */
void leased_rows_use(struct leased_rows *leases);

/* Copies a message of a receive that was sent at asked_ms. A message that is in hand already only gets its new handle:
 * this relay itself received it before, and knows what happened then. False: in hand is one with the same MessageId and
 * another body; this is one more row then. */
bool leased_rows_take(struct leased_rows *leases, const struct row *row, const struct uid *message_id,
                      uint64_t asked_ms);

/* The handles of the rows that are still this relay's alone, into an array with room for all rows; returns how many. A
 * row whose visibility timeout may be over is left out: its old handle would end the lease of another receiver.
 * Borrowed as long as the rows. */
size_t leased_rows_list_held(struct leased_rows *leases, const char **handles);

/* NULL: it is not in hand. Borrowed until it is dropped. */
struct leased_row *leased_rows_find(const struct leased_rows *leases, uint64_t id, const struct uid *uid);
void leased_rows_drop(struct leased_rows *leases, struct leased_row *item);

#endif
