/* The api: a request becomes a command, the core's answer becomes a reply. One table of actions (actions.c), a row
 * each.
 *
 * Knows HTTP only as far as struct request goes; knows nothing of connections. Never blocks. One thread: the loop's.
 *
 * The server's loop is:
 *     api_submit() for each request read; api_tick() when api_due_ms() has come
 *     while ((exchange = api_take_finished(api))) queue its reply behind exchange->hold_sequence
 *     api_flush() before it sleeps; when woken: show the replies held for frames up to namespace_durable(),
 *     if api_let_go() lets them go */
#ifndef TALLY_API_API_H
#define TALLY_API_API_H

#include "api/exchange.h"
#include "api/relay_desk.h"
#include "api/reply_budget.h"
#include "api/wait_budget.h"
#include "auth/credentials.h"
#include "engine/namespace.h"

struct api;

struct api_options {
    const char *region; /* for ARNs; borrowed */
    const char
        *public_url; /* scheme and authority for queue URLs; NULL: the connection's and the Host header; borrowed */
    bool enforce_purge_interval; /* AWS's 60-second rules after PurgeQueue and DeleteQueue */
    bool enforce_delete_interval;
    uint64_t memory_max;             /* bytes that the state of all namespaces may take (memory_limit.h); 0: no limit */
    const struct relay_desk *relays; /* who runs them; NULL: nobody, they are kept only; borrowed */
    const char *zones_folder;        /* of the time-zone data; NULL: the system's; borrowed */
};

struct api *api_create(struct namespace *ns, const struct api_options *options);
void api_destroy(struct api *api);

/* An api answers for one namespace. Where a server has several, they are a family: a request submitted to any member is
 * answered by the one whose namespace it names, and comes back from that one (exchange->api). `members` is borrowed,
 * the same for all. */
void api_set_family(struct api *api, struct api *const *members, size_t count);

struct namespace *api_namespace(const struct api *api);

/* From now on requests that are submitted to this api, whichever member of its family they are about, must be signed
 * by one of these credentials, and may do what it may. NULL, as at the start: everybody may do everything, but for
 * what access.h says of a GET. Borrowed until they are replaced or the api is destroyed. Requests that wait are held
 * against them at once: those that would be refused now end with that refusal. The credentials before them must still
 * be there while this runs. */
void api_set_credentials(struct api *api, const struct credentials *credentials);
bool api_has_credentials(const struct api *api);

/* Besides those, and whether or not there are any: credentials of parts of the server itself, which nobody else
 * knows. */
void api_set_inner_credentials(struct api *api, const struct credentials *credentials);

/* Counts replies in `budget` as they are made: exchange_reply_memory() of each that is finished, which whoever takes
 * the exchange subtracts again. While the budget is spent, receives and feeds that wait go on waiting. Borrowed; the
 * same for all members of a family. Without it nothing is counted. */
void api_set_reply_budget(struct api *api, struct reply_budget *budget);

/* Counts requests that wait in `budget`, and lets those that would keep much wait only where there is room. Borrowed;
 * the same for all members of a family. Without it nothing is counted, and all may wait. */
void api_set_wait_budget(struct api *api, struct wait_budget *budget);

/* Is the reply to it short, whatever is kept (action.h)? The request need not have been submitted. Of AWS Query, where
 * Action is the first field, as SDKs write it; otherwise it is not told, and the answer is no. */
bool api_reply_is_short(const struct api *api, const struct request *request);

/* Takes a whole request. It comes back through api_take_finished(), at once or, for a long poll, later. `now_ms` is log
 * time (clock.h of the server): it never goes back. */
void api_submit(struct api *api, struct exchange *exchange, uint64_t now_ms);

/* Finishes an exchange with an error that the server found before the api could see the request (too large, no
 * HTTP). */
void api_refuse(struct api *api, struct exchange *exchange, enum error error, const char *text);

/* The client of an exchange has gone: forget it, waiting (before it takes a message) or finished (before it is
 * taken). */
void api_abandon(struct api *api, struct exchange *exchange);

/* Answers every waiting receive with no messages; at a clean stop. */
void api_release_waiting(struct api *api);

/* The next finished exchange, or NULL. */
struct exchange *api_take_finished(struct api *api);

/* The frame that a finished exchange waits for is durable: may its reply leave? True: it does, and the leases that it
 * gives begin anew if more than a tenth of them is over. False: exchange->hold_sequence is a later frame now. Needed
 * where exchange_gives_lease(). */
bool api_let_go(struct api *api, struct exchange *exchange, uint64_t now_ms);

/* When the api next has something to do by itself, in log time; UINT64_MAX: never. */
uint64_t api_due_ms(const struct api *api);

/* Is there a receive or a feed that could be answered if the budget of replies were not spent? Ticks to find out. */
bool api_waits_for_memory(struct api *api, uint64_t now_ms);

/* Does what has fallen due: visibility timeouts, delays, expiries, deadlines of batches
 * and of long polls, schedules. */
void api_tick(struct api *api, uint64_t now_ms);

/* Does something not go as it should that an operator can mend? True, with what it is in
 * *failure, once for each such thing. */
bool api_take_trouble(struct api *api, struct failure *failure);

/* Has a request left something that its sender expects to see with the reply? Then api_tick() before api_flush(), so
 * that it is in the same frame or the next. */
bool api_is_settling(const struct api *api);

/* Hands the open frame to the log if it carries events and the log is idle; and would it now? */
void api_flush(struct api *api);
bool api_can_flush(const struct api *api);

/* Metrics in Prometheus text format of all members of a family: queues, messages by state, batches, log, actions by
 * name and result. */
void api_metrics_write(struct api *const *members, size_t count, struct arena *arena, struct buffer *text);

#endif
