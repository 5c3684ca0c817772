/* The front: where every request enters. It has what the process has once, whatever the number of namespaces: the table
 * of actions, the credentials, the signer, the calendar, the options, the budgets, and the one list of the namespaces
 * that are served. front_submit() finds out which namespace a request is about; from there on it is alone with that
 * one (api.h).
 *
 * Knows HTTP only as far as struct request goes; knows nothing of connections. Never blocks. One thread: the loop's.
 *
 * The server's loop is:
 *     front_submit() for each request read; api_tick() of a namespace when its api_due_ms() has come
 *     while ((exchange = front_take_finished(front))) queue its reply behind exchange->hold_sequence of its namespace
 *     namespace_flush() before it sleeps; when woken: show the replies held for frames up to namespace_durable(),
 *     if api_reply_may_leave() lets them go */
#ifndef TALLY_API_FRONT_H
#define TALLY_API_FRONT_H

#include "api/exchange.h"
#include "api/relay_control.h"
#include "api/reply_budget.h"
#include "api/wait_budget.h"
#include "auth/credentials.h"

struct front;

struct front_options {
    const char *region; /* for ARNs; borrowed */
    /* scheme and authority for queue URLs; NULL: the connection's and the Host header; borrowed */
    const char *public_url;
    bool enforce_purge_interval; /* AWS's 60-second rules after PurgeQueue and DeleteQueue */
    bool enforce_delete_interval;
    uint64_t memory_max; /* bytes that the state of all namespaces may take (memory_limit.h); 0: no limit */
    const struct relay_control *relays; /* who runs them; NULL: nobody, they are kept only; borrowed */
    const char *zones_folder;           /* of the time-zone data; NULL: the system's; borrowed */
};

struct front *front_create(const struct front_options *options);

/* No namespace is served any more (api_deinit). */
void front_destroy(struct front *front);

/* The namespaces that are served (api_init), in the order in which they came; borrowed. Found by name in O(1), or
 * NULL. */
size_t front_count(const struct front *front);
struct api *front_at(const struct front *front, size_t index);
struct api *front_find(const struct front *front, struct bytes name);

/* From now on requests must be signed by one of these credentials, and may do what it may. NULL, as at the start:
 * everybody may do everything, but for what access.h says of a GET. Borrowed until they are replaced or the front is
 * destroyed. Requests that wait are held against them at once: those that would be refused now end with that refusal.
 * The credentials before them must still be there while this runs. */
void front_set_credentials(struct front *front, const struct credentials *credentials);
bool front_has_credentials(const struct front *front);

/* Besides those, and whether or not there are any: credentials of parts of the server itself, which nobody else knows.
 * A request that waits keeps its credential if the new ones have it, too; so these are replaced in the same way. */
void front_set_inner_credentials(struct front *front, const struct credentials *credentials);

/* Counts replies in `replies` as they are made: exchange_reply_memory() of each that is finished, which whoever takes
 * the exchange subtracts again. While the budget is spent, receives and feeds that wait go on waiting. Counts requests
 * that wait in `waits`, and lets those that would keep much wait only where there is room. Borrowed. Where one is NULL,
 * as at the start, nothing is counted, and all may wait. */
void front_set_budgets(struct front *front, struct reply_budget *replies, struct wait_budget *waits);

/* Is the reply to it short, whatever is kept (action.h)? The request need not have been submitted. Of AWS Query, where
 * Action is the first field, as SDKs write it; otherwise it is not told, and the answer is no. */
bool front_reply_is_short(const struct front *front, const struct request *request);

/* Takes a whole request. At least one namespace is served. It comes back through front_take_finished(), at once or, for
 * a long poll, later. Then exchange->api is the namespace that has answered it, or NULL: it was refused before anybody
 * knew what it is about, and there is nothing to wait for. `now_ms` is log time (clock.h of the server): it never goes
 * back. */
void front_submit(struct front *front, struct exchange *exchange, uint64_t now_ms);

/* Finishes an exchange with an error that the server found before anybody could see the request (too large, no HTTP).
 * It comes back as one that front_submit() refuses. */
void front_refuse(struct front *front, struct exchange *exchange, enum error error, const char *text);

/* The next finished exchange, or NULL. */
struct exchange *front_take_finished(struct front *front);

/* Metrics in Prometheus text format: of each namespace queues, messages by state, batches, log, actions by name and
 * result. */
void front_metrics_write(const struct front *front, struct arena *arena, struct buffer *text);

#endif
