/* The front: where every request enters. It owns what the process has once, for all namespaces: the table of actions,
 * the credentials, the signer, the calendar, the options, the budgets, and the list of the served namespaces.
 * front_submit() finds the namespace of a request. From there on, only that namespace handles it (api.h).
 *
 * Knows HTTP only as far as struct request does; knows nothing of connections. Never blocks. One thread: the loop's.
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

struct backup_control;
struct front;
struct server_facts;
struct slow_times;

struct front_options {
    const char *region; /* for ARNs; borrowed */
    /* scheme and authority for queue URLs; NULL: the connection's and the Host header; borrowed */
    const char *public_url;
    bool enforce_purge_interval; /* AWS's 60-second rules after PurgeQueue and DeleteQueue */
    bool enforce_delete_interval;
    uint64_t memory_max; /* how many bytes the state of all namespaces may take (memory_limit.h); 0: no limit */
    const struct relay_control *relays;   /* who runs them; NULL: nobody, they are only kept; borrowed */
    const struct backup_control *backups; /* who makes them; NULL: nobody; borrowed */
    /* Namespaces that other nodes may serve. NULL: there are none. Else, of one that is not served here: is it such a
     * one? And what to say to who asks for it: who serves it. The name is empty for "the first one". */
    bool (*is_elsewhere)(void *context, struct bytes name);
    void (*explain_absence)(void *context, struct bytes name, char *text, size_t size);
    void *absence_context;
    const char *zones_folder;   /* of the time-zone data; NULL: the system's; borrowed */
    const char *metrics_queues; /* patterns (auth/patterns.h) of queues with metrics of their own; NULL: see scrape.h */
    bool keeps_history;         /* for GetSeries (trends.h) */
    /* Tells the operator what somebody did who needs the right admin for it, or was refused. NULL: nobody is told. */
    void (*audit)(void *context, const char *text);
    void *audit_context;
    /* Fills what there is to say of the process (server_facts.h); may use the arena. NULL: there is nothing. */
    void (*describe)(void *context, struct arena *arena, struct server_facts *facts);
    void *describe_context;
};

struct front *front_create(const struct front_options *options);

/* Takes over what may change while it serves: memory_max, metrics_queues and the two intervals. The former
 * metrics_queues must stay as long as the front: metrics that are being made have it. */
void front_adjust(struct front *front, const struct front_options *options);

/* No namespace is served any more (api_deinit). */
void front_destroy(struct front *front);

/* What the state of all namespaces takes of memory, and what it may (memory_limit.h); 0: there is no limit. O(1). */
struct front_memory {
    uint64_t used;
    uint64_t max;
};
struct front_memory front_memory(const struct front *front);

/* Something that the server did or met and that concerns all namespaces, for FeedEvents: as api_note_event() takes it.
 * The newest are kept for namespaces whose events somebody reads. Afterwards api_has_news() of each namespace where
 * somebody waits for it. O(namespaces). */
void front_notice(struct front *front, uint64_t now_ms, const char *action, const char *text);

/* The request of this finished exchange, which an action has answered, took the server long: it is among the newest of
 * which DescribeServer tells. `text` becomes a sentence about it. */
void front_note_slow(struct front *front, const struct exchange *exchange, uint64_t now_ms, size_t request_size,
                     const struct slow_times *times, char *text, size_t text_size);

/* The served namespaces (api_init), in the order in which they came; borrowed. By name: found in O(1), or NULL. */
size_t front_count(const struct front *front);
struct api *front_at(const struct front *front, size_t index);
struct api *front_find(const struct front *front, struct bytes name);

/* From now on requests must be signed with one of these credentials, and have its rights. NULL, as at the start:
 * everybody may do everything, except for what access.h says about a GET. Borrowed until they are replaced or the front
 * is destroyed. Waiting requests are checked against them at once: those that would be refused now end with that
 * refusal. The former credentials must still exist while this runs. */
void front_set_credentials(struct front *front, const struct credentials *credentials);
bool front_has_credentials(const struct front *front);

/* Besides those, or without any: credentials of parts of the server itself, which nobody else knows. A waiting request
 * keeps its credential if the new set has it, too; so these are replaced in the same way. */
void front_set_inner_credentials(struct front *front, const struct credentials *credentials);

/* Counts each finished reply in `replies`: its exchange_reply_memory(). Whoever takes the exchange subtracts it again.
 * While the budget is spent, waiting receives and feeds go on waiting. Counts waiting requests in `waits`. A request
 * that would keep much waits only if there is room. Borrowed. If one is NULL, as at the start, nothing is counted, and
 * all may wait. */
void front_set_budgets(struct front *front, struct reply_budget *replies, struct wait_budget *waits);

/* Is the reply short in any case (action.h)? The request need not have been submitted. For AWS Query this is known only
 * if Action is the first field, as SDKs write it; otherwise the answer is no. */
bool front_reply_is_short(const struct front *front, const struct request *request);

/* May its action look at thousands of things (REPLY_WALK in action.h)? No where that is not known. */
bool front_walks(const struct front *front, const struct request *request);

/* May it wait for what is not there yet, a message or an event? Yes where that is not known. */
bool front_may_wait(const struct front *front, const struct request *request);

/* Takes a whole request. It comes back through front_take_finished(), at once or, for
 * a long poll, later. Then exchange->api is the namespace that has answered it. NULL: it was refused before its
 * namespace was known, and there is nothing to wait for. `now_ms` is log time (clock.h of the server): it never goes
 * back. False: it is about a namespace that is not served here, front_absent(), and nothing was done for it; it may be
 * passed on, or refused with front_refuse_absent(). Its caller is known by then, and has signed it. */
bool front_submit(struct front *front, struct exchange *exchange, uint64_t now_ms);
struct bytes front_absent(const struct front *front); /* valid until the next call of front_submit() */
void front_refuse_absent(struct front *front, struct exchange *exchange);

/* Finishes an exchange with an error that the server found before the request was complete (too large, not HTTP). It
 * comes back like one that front_submit() refuses. */
void front_refuse(struct front *front, struct exchange *exchange, enum error error, const char *text);

/* A reply that another node has written. */
struct foreign_reply {
    int status;
    struct bytes content_type;
    struct bytes query_error; /* x-amzn-query-error; empty: none */
    struct bytes request_id;  /* x-amzn-RequestId; likewise */
    struct buffer *body;      /* is taken, and left empty */
};

/* Finishes an exchange that front_submit() has not seen with that reply. It comes back like one that is refused. */
void front_answer(struct front *front, struct exchange *exchange, const struct foreign_reply *reply);

/* Every action with the right that it needs, as members of a JSON object: "Tally.PauseQueue":"admin",... */
void front_actions_write(struct buffer *text);

/* The next finished exchange, or NULL. */
struct exchange *front_take_finished(struct front *front);

/* So long this finished exchange took, which an action has answered, whoever measured it: for /metrics. */
void front_note_duration(struct front *front, const struct exchange *exchange, uint64_t duration_us);

/* Metrics in Prometheus text format: of each namespace queues, messages by state, batches, log, actions by name and
 * result. All at once; the arena is reset meanwhile. */
void front_metrics_write(const struct front *front, struct arena *arena, struct buffer *text);

/* The same as the reply of an exchange, in portions (scrape.h). What stands in the reply's body comes first. A request
 * may name the queues: ?queue=PATTERN. It comes back through front_take_finished(), at once or later. */
void front_scrape(struct front *front, struct exchange *exchange, uint64_t now_ms);
bool front_has_scrapes(const struct front *front);
void front_scrape_step(struct front *front, uint64_t now_ms);

/* Its client has gone, before front_take_finished(). */
void front_abandon_scrape(struct front *front, struct exchange *exchange);

/* Is this what metrics_queues may be? */
#define METRICS_PATTERNS_MAX 100u
bool metrics_are_patterns(struct bytes list);

#endif
