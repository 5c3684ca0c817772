/* What an action is: a row of the table and a function. Private to src/api.
 *
 * A call reads its parameters, decides with the core, and writes its reply. On an error it fills `failure` and has
 * changed nothing; what it wrote is thrown away. */
#ifndef TALLY_API_ACTION_H
#define TALLY_API_ACTION_H

#include "api/api.h"
#include "api/attributes.h"
#include "api/params.h"
#include "api/writer.h"
#include "auth/credentials.h"
#include "core/batches/decide_batch.h"

struct call {
    struct front *front;
    struct api *api; /* of the namespace; NULL until that is known, like the next two */
    struct exchange *exchange;
    struct namespace *ns;
    struct core *core; /* with a frame open */
    struct arena *arena;
    struct params params;
    struct queue *queue;         /* the queue that call_queue() found, kept for the entries of the request; NULL: not
                                  * yet asked */
    const struct action *action; /* NULL until it is known */
    const struct credential *caller; /* NULL: no credentials are configured, and anybody may ask */
    struct writer *reply;            /* inside the reply's object */
    struct failure *failure;
    uint64_t now_ms;
    unsigned reached;         /* bits of enum reach: which checks of reach were made (reach.h) */
    struct bytes queue_asked; /* the name of the first queue for which access was asked; empty: none yet */
    bool is_waiting;          /* set by a receive that waits: it has no reply yet */
    bool is_dry_run;          /* nothing is changed, and the reply says what would be (selection.h) */
    bool has_acted;           /* it has changed something that is not in the core */
};

/* How an action makes the state grow. This decides whether it is refused when memory or disk is full (growth.h). */
enum growth {
    GROWTH_READS,  /* not at all: it only reads, so any GET may ask for it (access.h) */
    GROWTH_NONE,   /* not at all, or within a bound that holds already: a setting of a queue, a lease */
    GROWTH_ASKED,  /* it depends: the action asks by itself once it knows */
    GROWTH_LITTLE, /* it may take a little more than it frees */
    GROWTH_NEW,    /* it adds something that stays */
};

/* How long its reply may be. This decides whether it waits while memory for replies is scarce (reply_budget.h). */
enum reply_length {
    REPLY_EMPTY, /* the reply has no fields: SQS answers with an empty body */
    REPLY_SHORT, /* a few fields, or a few for each entry of the request */
    /* as long as what is stored; or the action works in portions and keeps its request meanwhile (wait.h) */
    REPLY_LONG,
    REPLY_WALK,  /* the same, and the action may look at thousands of things in one call: few of them begin in a turn */
    REPLY_LATER, /* the same, and the action may wait for what is not there yet */
};

/* What the action is about. It must be within reach of the caller (reach.h); docs/reference/access.md has the rule
 * for callers with queues=. */
enum reach {
    REACH_QUEUE,     /* a queue, by its name */
    REACH_BATCH,     /* a batch */
    REACH_POOL,      /* a pool */
    REACH_SCHEDULE,  /* a schedule */
    REACH_PUBLISHER, /* a publisher; its rows one by one */
    REACH_EACH,      /* a list, of which callers see what they reach; or parts, each with its own check */
    REACH_NAMESPACE, /* the namespace as a whole: refused for callers with queues= */
};

struct action {
    const char *target; /* of X-Amz-Target: service and name */
    enum reply_length reply_length;
    enum error (*run)(struct call *call);
    unsigned rights;       /* of enum right: the caller needs one of them */
    const char *shared_as; /* its name in policies, if a queue's owner may allow it to others; else NULL */
    enum growth growth;
    enum reach reach;
};

/* Every action there is. */
extern const struct action actions[];
extern const size_t action_count;

#define DECLARE_ACTION(name) enum error action_##name(struct call *call);

DECLARE_ACTION(create_queue)
DECLARE_ACTION(get_queue_url)
DECLARE_ACTION(get_series)
DECLARE_ACTION(list_queues)
DECLARE_ACTION(delete_queue)
DECLARE_ACTION(purge_queue)
DECLARE_ACTION(get_queue_attributes)
DECLARE_ACTION(set_queue_attributes)
DECLARE_ACTION(tag_queue)
DECLARE_ACTION(untag_queue)
DECLARE_ACTION(list_queue_tags)
DECLARE_ACTION(add_permission)
DECLARE_ACTION(remove_permission)
DECLARE_ACTION(list_dead_letter_source_queues)
DECLARE_ACTION(send_message)
DECLARE_ACTION(send_message_batch)
DECLARE_ACTION(receive_message)
DECLARE_ACTION(delete_message)
DECLARE_ACTION(delete_message_batch)
DECLARE_ACTION(change_message_visibility)
DECLARE_ACTION(change_message_visibility_batch)
DECLARE_ACTION(start_message_move_task)
DECLARE_ACTION(cancel_message_move_task)
DECLARE_ACTION(list_message_move_tasks)
DECLARE_ACTION(delete_messages)
DECLARE_ACTION(create_batch)
DECLARE_ACTION(add_units)
DECLARE_ACTION(complete_units)
DECLARE_ACTION(xor_units)
DECLARE_ACTION(seal_batch)
DECLARE_ACTION(cancel_batch)
DECLARE_ACTION(describe_batch)
DECLARE_ACTION(list_batches)
DECLARE_ACTION(list_units)
DECLARE_ACTION(delete_batch)
DECLARE_ACTION(commit)
DECLARE_ACTION(open_publisher)
DECLARE_ACTION(publish)
DECLARE_ACTION(put_type_order)
DECLARE_ACTION(list_type_orders)
DECLARE_ACTION(delete_type_order)
DECLARE_ACTION(put_schedule)
DECLARE_ACTION(describe_schedule)
DECLARE_ACTION(list_schedules)
DECLARE_ACTION(pause_schedule)
DECLARE_ACTION(resume_schedule)
DECLARE_ACTION(fire_schedule)
DECLARE_ACTION(delete_schedule)
DECLARE_ACTION(create_relay)
DECLARE_ACTION(describe_relay)
DECLARE_ACTION(list_relays)
DECLARE_ACTION(pause_relay)
DECLARE_ACTION(resume_relay)
DECLARE_ACTION(delete_relay)
DECLARE_ACTION(list_doubts)
DECLARE_ACTION(resolve_doubt)
DECLARE_ACTION(fail_message)
DECLARE_ACTION(pause_queue)
DECLARE_ACTION(resume_queue)
DECLARE_ACTION(pause_group)
DECLARE_ACTION(resume_group)
DECLARE_ACTION(release_group)
DECLARE_ACTION(list_groups)
DECLARE_ACTION(explain_message)
DECLARE_ACTION(list_messages)
DECLARE_ACTION(list_in_flight)
DECLARE_ACTION(list_dependents)
DECLARE_ACTION(list_queue_stats)
DECLARE_ACTION(get_message)
DECLARE_ACTION(release_message)
DECLARE_ACTION(replace_message)
DECLARE_ACTION(find_message)
DECLARE_ACTION(summarize_failures)
DECLARE_ACTION(feed_events)
DECLARE_ACTION(start_backup)
DECLARE_ACTION(describe_backup)
DECLARE_ACTION(delete_backup)
DECLARE_ACTION(describe_server)
DECLARE_ACTION(create_pool)
DECLARE_ACTION(update_pool)
DECLARE_ACTION(describe_pool)
DECLARE_ACTION(list_pools)
DECLARE_ACTION(delete_pool)
DECLARE_ACTION(offer_tickets)
DECLARE_ACTION(update_ticket)
DECLARE_ACTION(cancel_tickets)
DECLARE_ACTION(get_ticket)
DECLARE_ACTION(list_tickets)
DECLARE_ACTION(count_tickets)
DECLARE_ACTION(feed_tickets)
DECLARE_ACTION(propose_matches)
DECLARE_ACTION(put_back_match)
DECLARE_ACTION(confirm_match)
DECLARE_ACTION(explain_ticket)

/* --- waiting (call.c) --------------------------------------------------------------------------------------------- */

struct reply_draft;

/* The call of an exchange that has waited and now goes on. Its reply is begun in `draft`. */
struct call call_resume(struct api *api, struct exchange *exchange, struct reply_draft *draft, struct failure *failure,
                        uint64_t now_ms);
/* The same, if the writer in `draft` has already written some of the reply. */
struct call call_go_on(struct api *api, struct exchange *exchange, struct reply_draft *draft, struct failure *failure,
                       uint64_t now_ms);

/* --- what several actions use (call.c) ---------------------------------------------------------------------------- */

#define LIST_RESULTS_MAX 1000

const struct front_options *call_options(const struct call *call);
struct digest *call_digest(const struct call *call);

/* A buffer for short use. The next user overwrites it. */
struct buffer *call_scratch(const struct call *call);

/* Fails the call, or an entry of it. */
enum error call_fail(struct call *call, enum error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fails it because `handle` is no receipt handle of the queue. */
enum error call_fail_handle(struct call *call, struct bytes handle);

/* The queue named by QueueUrl (or, without one, by the path of the request), by that member of `params`, or by `url`,
 * if the caller may use it. ERROR_ACCESS_DENIED, ERROR_QUEUE_DOES_NOT_EXIST. */
enum error call_queue(struct call *call, struct queue **queue);
enum error call_find_queue(struct call *call, const struct params *params, struct queue **queue);
enum error call_find_queue_at(struct call *call, struct bytes url, struct queue **queue);

/* The queue that the request names, as call_queue(); if it names none, *queue is NULL. */
enum error call_optional_queue(struct call *call, struct queue **queue);

/* Fails the call because the caller has no namespace of that account, or because the namespace has no queue of that
 * name. */
enum error call_fail_namespace(struct call *call, struct bytes account);
enum error call_fail_name(struct call *call, struct bytes name);

/* QueueUrl, or else the path of the request. Empty: neither names a queue. */
struct bytes call_url(const struct call *call);

/* The account part of a queue URL. If the URL has another form, this is whatever stands there. */
struct bytes call_account_of_url(struct bytes url);

/* The batch that BatchId, or a member of that name in `params`, names. ERROR_MISSING_PARAMETER,
 * ERROR_BATCH_DOES_NOT_EXIST. */
enum error call_batch(struct call *call, const struct batch **batch);
enum error call_find_batch(struct call *call, const struct params *params, const struct batch **batch);

/* One report of a unit (complete_units.c): `item` is entry `index` of Units. */
enum error call_read_report(struct call *call, yyjson_val *item, size_t index, struct unit_report *report);

/* Reads the units of AddUnits (add_units.c) from `params`; and describes an error of decide_add_units(). */
enum error call_read_addition(struct call *call, const struct params *params, struct add_units_command *command);
enum error call_fail_addition(struct call *call, struct bytes batch_id, enum error error);

/* Reads CreateBatch (create_batch.c) from `params`, with the checks of reach; and describes an error of
 * decide_create_batch(). Without a BatchId, the batch gets one. */
enum error call_read_creation(struct call *call, const struct params *params, struct create_batch_command *command);
enum error call_fail_creation(struct call *call, const struct create_batch_command *command, enum error error);

/* The member of CreateBatch that has a target: OnComplete, OnSuccess or OnFirstFailure. */
const char *call_target_member(unsigned target);

/* Explains why nothing can join a batch that is not open: its state, and who could add to it. In the call's arena. */
struct bytes call_closed_words(struct call *call, struct bytes batch_id);

/* A MessageGroupId as it was read, if there is one: 1 to 128 letters, digits and punctuation.
 * ERROR_INVALID_PARAMETER_VALUE. */
enum error call_check_group(const struct params *params, struct bytes group);

/* MessageGroupId, which must be there. ERROR_MISSING_PARAMETER, ERROR_INVALID_PARAMETER_VALUE. */
enum error call_group(struct call *call, struct bytes *group);

/* URL and ARN of a queue, in the arena. */
struct bytes call_queue_url(const struct call *call, const struct queue *queue);
struct bytes call_queue_arn(const struct call *call, struct bytes queue_name);

/* Does the ARN name the queue of that name in this namespace? Its region may differ: SDKs that are configured with a
 * region of AWS put it into their ARNs. */
bool call_arn_names(const struct call *call, struct bytes arn, struct bytes queue_name);

/* A SequenceNumber: 20 digits, so that it sorts as text in the order of the numbers. In the arena. */
struct bytes call_sequence_number(const struct call *call, uint64_t number);

/* --- pages of lists (pages.c) ------------------------------------------------------------------------------------- */

/* MaxResults: 1 to 1,000; 1,000 where absent (*is_given false). */
enum error call_results_max(struct call *call, int64_t *results_max, bool *is_given);

/* NextToken, where the next page begins: bytes or numbers of the action's own, sealed. Nobody can read a token, nor
 * make one, so it may hold what the caller must not know. Its size shows the size of `place`: a name in it is one that
 * the caller covers. *is_given: there is a NextToken; else the results don't change. ERROR_INVALID_PARAMETER_VALUE. */
enum error call_open_token(struct call *call, struct bytes *place, bool *is_given);
void call_seal_token(struct call *call, struct bytes place);
enum error call_fail_token(struct call *call);

enum error call_read_token(struct call *call, uint64_t *numbers, size_t count, bool *is_given);
void call_write_token(struct call *call, const uint64_t *numbers, size_t count);

/* The same with the name of a queue besides, as queue_walk_seal_name() and queue_walk_open_name() have it. */
enum error call_read_queue_token(struct call *call, uint64_t *numbers, size_t count, struct bytes *name,
                                 bool *is_given);
void call_write_queue_token(struct call *call, const uint64_t *numbers, size_t count, struct bytes name);

/* MaxResults, and a NextToken of one number. */
enum error call_page(struct call *call, uint64_t *from, int64_t *results_max);

/* The same for lists in order of name. The token is the name of the first item of the next page, so changes between
 * two pages neither repeat nor hide other items. *is_paged: MaxResults was given. */
enum error call_page_by_name(struct call *call, struct bytes *from, int64_t *results_max, bool *is_paged);

/* --- batches of entries (entries.c) ------------------------------------------------------------------------------- */

/* Checks Entries (1 to 10, with distinct ids) and runs `run` for each. A failed entry goes to Failed. The others go to
 * Successful, where `run` writes its fields after the Id. `check`, if not NULL, may refuse the whole request first. */
enum error entries_run(struct call *call, const char *entry_name,
                       enum error (*check)(struct call *call, yyjson_val *entries),
                       enum error (*run)(struct call *call, const struct params *entry));

/* --- waiting receives (wait.c) ------------------------------------------------------------------------------------ */

struct receive_command {
    unsigned count_max;
    uint32_t timeout_ms;
    struct bytes attempt;                /* ReceiveRequestAttemptId, on FIFO queues; empty: none */
    yyjson_val *attribute_names[2];      /* MessageSystemAttributeNames and AttributeNames; NULL: absent */
    yyjson_val *message_attribute_names; /* NULL: absent */
    bool has_waited;
    uint32_t holder; /* if it has: who asks (holder_view.h); 0: nobody knows */
};

/* Takes messages and writes them into the reply; *count says how many. */
enum error receive_now(struct call *call, struct queue *queue, const struct receive_command *command, unsigned *count);

#endif
