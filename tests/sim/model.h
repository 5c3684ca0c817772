/* What queues, messages and batches must do, said again in the plainest way: arrays, and loops over all of them.
 * Written from the protocol, not from src/core, and fast only where that costs nothing.
 *
 * A model is a value: copying it (model_copy) is how the oracle goes back to what a crash left. It knows nothing of
 * JSON, of frames or of crashes. Each function that a request leads to returns the error that the server must answer
 * with. */
#ifndef TALLY_TESTS_SIM_MODEL_H
#define TALLY_TESTS_SIM_MODEL_H

#include "base/error.h"
#include "operation.h"

#define MODEL_QUEUES_MAX 48
#define MODEL_MESSAGES_MAX 1800
#define MODEL_BATCHES_MAX 72
#define MODEL_UNITS_MAX 128
#define MODEL_TOKENS_MAX 24
#define MODEL_ID_SIZE MESSAGE_ID_TEXT_SIZE
#define MODEL_EDGES_MAX 1200
#define MODEL_ATTEMPTS_MAX 300
#define MODEL_GROUPS_MAX 400
#define MODEL_MEMORIES_MAX 900
#define MODEL_PRODUCTIONS_MAX 900
#define MODEL_TASKS_MAX 300
#define MODEL_ROWS_MAX 600
#define TASKS_REMEMBERED 10
#define NO_GROUP NONE
#define OWN_GROUP (-2) /* a tenant of its own */
#define PRIORITY_USUAL 4

struct model_queue {
    bool exists; /* false: deleted */
    int name;
    struct queue_numbers numbers;
    struct queue_traits traits;
    bool is_paused;
    double tokens; /* of its rate, at tokens_at */
    uint64_t tokens_at;
    int tags[TAGS]; /* values; 0: it has none of that key */
    bool has_label[LABELS];
};

/* A group that was held, paused or limited once. */
struct model_group {
    int queue;
    int name;
    bool is_paused;
    int held; /* the message at its head that holds it up, or NONE */
    double tokens;
    uint64_t tokens_at;
};

/* A deduplication id that is a duplicate until then; and what a producer sent. */
struct model_memory {
    int queue;
    int scope; /* a group, or NO_GROUP */
    int id;
    int message;
    uint64_t until;
};
struct model_production {
    int queue;
    int producer;
    int sequence;
    int message;
};

/* A move task. */
struct model_task {
    int queue;       /* the source */
    int destination; /* or NONE */
    int rate;        /* messages a second; 0: no limit */
    enum { TASK_RUNNING = 1, TASK_COMPLETED, TASK_CANCELLED, TASK_FAILED } status;
    enum { TASK_NO_FAILURE, TASK_NO_QUEUE, TASK_NO_ORIGIN } failure;
    enum { TASK_MOVES_ALL, TASK_MOVES_SOME, TASK_DELETES } kind; /* the first: what can be delivered */
    int group;             /* of some: only messages of this group, that were sent before it began; or NO_GROUP */
    unsigned chosen_count; /* of some: these, if there are any */
    int chosen[IDS_MAX];   /* messages */
    uint64_t newest;       /* of some, by the group: no message with a higher number */
    int to_move;
    int moved;
    uint64_t started_at;
    uint64_t next_us; /* when the next message would be moved, were each moved in time */
    char handle[TASK_HANDLE_SIZE];
};

/* What becomes of a row. Done: its uid is known from then on. */
enum row_is {
    ROW_IS_STORED,
    ROW_IS_DUPLICATE,
    ROW_IS_TOO_OLD,
    ROW_IS_REFUSED,
    ROW_IS_BLOCKED,
    ROW_IS_STALE,
    ROW_IS_HELD,
    ROW_IS_PUT_OFF,
};
struct row_outcome {
    enum row_is fate;
    enum error error; /* refused, blocked */
    bool is_done;
};

/* A publisher, with its last batch. */
struct model_publisher {
    int epoch; /* 0: it was never opened */
    int owner;
    int batch;
    unsigned count;
    int ids[ENTRIES_MAX];
    int uids[ENTRIES_MAX];
    struct row_outcome outcomes[ENTRIES_MAX];
};

/* A row that is or was known. */
struct model_row {
    int publisher;
    int id;
    int uid;
    int batch;
    uint64_t confirmed_at; /* 0: it was not */
};

/* What a receive gave under an attempt id. */
struct model_attempt {
    int queue;
    int name;
    uint64_t until;
    unsigned count;
    int messages[ENTRIES_MAX];
    uint32_t receive_counts[ENTRIES_MAX];
};

/* A message waits for another, or for a batch. */
struct model_edge {
    int dependent; /* NONE: this place is free */
    bool is_batch;
    bool is_told; /* it has ended badly, which holds the dependent up */
    int antecedent;
};
struct model_waits {
    unsigned count;
    struct model_edge edges[AFTERS_MAX];
    bool is_unmet; /* it has failed before, and so will the message */
};

struct model_type_order {
    int count; /* 0: there is none */
    int types[TYPES];
    int retention_s; /* of a success that is required; 0: none is */
};

/* That a message of a type succeeded in a group. */
struct model_success {
    uint64_t at;
    uint64_t until;
    unsigned epoch; /* of the type then */
};
#define SUCCESS_GROUPS 8

struct model_counts {
    int total, succeeded, failed, cancelled, remaining;
};

struct model_message {
    bool is_alive;
    bool is_condemned;  /* purged: out of reach, ends at the next tick */
    bool is_moved;      /* dead-lettered */
    bool is_leased;     /* received at least once since it last waited; in flight while visible_at is to come */
    unsigned completes; /* 0, or the event of `batch` whose message it is */
    int queue;          /* index of a model_queue */
    int origin;         /* the queue it was dead-lettered from, or NONE */
    int batch;          /* record, or NONE */
    int unit;
    int handle; /* the newest, or NONE */
    uint32_t tag;
    uint32_t body_size;
    uint32_t receive_count;
    uint32_t spared_count; /* of those, not charged as attempts */
    int group;             /* a name, NO_GROUP or OWN_GROUP */
    int priority;
    bool is_fenced;    /* its newest handle is dead */
    bool is_final;     /* failed for good */
    bool is_changed;   /* its newest lease: an attempt id no longer repeats it */
    bool is_cancelled; /* with the rest of its group */
    int reason;        /* of its newest failure, or NONE */
    uint64_t number;   /* the server's; 0: not seen yet */
    /* its number in its group's line; one that was redriven may have that of another, and stands behind it */
    uint64_t line;
    uint64_t said_sequence; /* SequenceNumber in the reply to its send; 0: none */
    int type;               /* or NONE */
    bool is_typed;          /* an order named its type when it was accepted */
    unsigned wanted;        /* types of which none had succeeded that should have, when it was accepted, as bits */
    unsigned missing;       /* those of them of which none has succeeded since */
    unsigned befores;       /* the types that came before it then, as bits */
    int wait_count;         /* edges */
    int after_failure;
    int fate;              /* enum fate, once it has ended */
    uint64_t counted_from; /* retention counts from here */
    uint64_t timeout_ms;   /* of the newest lease */
    uint64_t lease;        /* its number; another one each time that somebody takes the message or changes its lease */
    uint64_t sent_at;
    uint64_t visible_at;
    uint64_t received_at;
    uint64_t order;         /* of acceptance: its number, or more than any number while that has not been seen */
    bool is_of_tick;        /* something else may have happened at the same time, in an order that nobody promises */
    char id[MODEL_ID_SIZE]; /* "": not seen yet */
    int said_status;        /* of the batch when its event fired, and what was counted then */
    struct model_counts said;
};

enum unit_of { UNIT_OF_KEY, UNIT_OF_MESSAGE, UNIT_OF_CHILD };
enum fate { FATE_OUTSTANDING, FATE_SUCCEEDED, FATE_FAILED, FATE_CANCELLED };

struct model_unit {
    enum unit_of kind;
    int key; /* key, message index or batch record */
    enum fate fate;
    int detail; /* of the report that ended it, or NONE */
};

struct model_token {
    uint32_t token;
    uint64_t value;
    int registered;
    int finished;
};

enum { MODEL_OPEN, MODEL_SEALED, MODEL_COMPLETED };
enum { STATUS_NONE, STATUS_SUCCEEDED, STATUS_FAILED, STATUS_CANCELLED, STATUS_EXPIRED };
enum { EVENT_COMPLETE_ = 1, EVENT_SUCCESS_ = 2, EVENT_FAILURE_ = 3 };

struct model_batch {
    bool is_record;  /* false: forgotten */
    bool is_deleted; /* its name is free, the record waits until nothing refers to it */
    int name;
    bool is_xor;
    int total;
    int expires_s;
    int retention_s;
    int targets[TARGETS]; /* queue index, or NONE */
    int target_groups[TARGETS];
    bool has_body[TARGETS];
    int parent; /* record, or NONE */
    int parent_unit;
    int state;
    int status;
    unsigned fired; /* bit event */
    bool is_late;   /* success came after completion */
    uint64_t created_at;
    uint64_t sealed_at;
    uint64_t completed_at;
    uint64_t unpinned_at;
    bool is_growing; /* while a Commit is judged that names an outstanding unit of it: more may join, sealed or not */
    int grown;       /* units that joined so, which come on top of the total */
    int unit_count;  /* exact */
    struct model_unit units[MODEL_UNITS_MAX];
    uint64_t xor_value; /* of XorUnits; the ids of messages and children are random and cancel out one by one: */
    int xor_inside;     /* how many of those are in */
    int xor_registered;
    int xor_finished;
    int xor_failed;
    int token_count;
    struct model_token tokens[MODEL_TOKENS_MAX];
};

struct model {
    uint64_t now;
    uint64_t order;
    uint64_t token; /* the highest Tally.FencingToken given out */
    uint64_t lease; /* the newest number of a lease */
    bool is_in_tick;
    int queue_count;
    int group_count;
    int memory_count;
    int edge_count;
    int attempt_count;
    struct model_type_order type_orders[TYPE_ORDERS];
    unsigned epoch;
    unsigned type_epochs[TYPES]; /* another one each time that an order comes to name the type */
    struct model_success successes[SUCCESS_GROUPS][TYPES];
    struct model_publisher publishers[PUBLISHERS];
    int production_count;
    int row_count;
    int task_count;
    int message_count;
    int batch_count;
    struct model_queue queues[MODEL_QUEUES_MAX];
    struct model_group groups[MODEL_GROUPS_MAX];
    struct model_edge edges[MODEL_EDGES_MAX];
    struct model_attempt attempts[MODEL_ATTEMPTS_MAX];
    struct model_memory memories[MODEL_MEMORIES_MAX];
    struct model_production productions[MODEL_PRODUCTIONS_MAX];
    struct model_row rows[MODEL_ROWS_MAX];
    struct model_task tasks[MODEL_TASKS_MAX];
    struct model_batch batches[MODEL_BATCHES_MAX];
    struct model_message messages[MODEL_MESSAGES_MAX];
};

void model_copy(struct model *to, const struct model *from);

/* Index of the queue, the batch record of a name; or NONE. */
int model_find_queue(const struct model *model, int name);
int model_find_batch(const struct model *model, int name);

enum error model_create_queue(struct model *model, int name, const struct queue_numbers *numbers,
                              const struct queue_traits *traits);
enum error model_set_queue(struct model *model, int name, const struct queue_numbers *numbers,
                           const struct queue_traits *traits);
enum error model_delete_queue(struct model *model, int name);
enum error model_purge_queue(struct model *model, int name);
enum error model_tag_queue(struct model *model, const struct operation *operation);
enum error model_permit(struct model *model, const struct operation *operation);

struct queue_counts {
    unsigned visible, in_flight, delayed;
};
struct queue_counts model_count_queue(const struct model *model, int queue);

/* *sent: index of the message; that of the first one where it is a duplicate, or NONE where nobody remembers that. */
enum error model_send(struct model *model, int queue_name, const struct entry *entry, int *sent, bool *is_duplicate);

/* A receive, step by step. The model does not say which group comes next: it says of each message that the server took
 * whether that was allowed, and at the end whether something was left that should have been taken. */
struct model_receive {
    int queue;
    unsigned max;
    uint64_t timeout_ms;
    unsigned in_flight_max;
    unsigned count;
    int known_count; /* messages there were when it began */
    int taken[ENTRIES_MAX];
};

/* Works out how many there is room for. ERROR_OVER_LIMIT. */
enum error model_receive_begin(const struct model *model, struct model_receive *receive);
/* NULL, or why the message could not be taken next. */
const char *model_take(struct model *model, struct model_receive *receive, int message);
/* A message out of attempts, or cancelled, was put out of the way by a receive. NULL, or why it should not have
 * been. */
const char *model_put_aside(struct model *model, int message);
/* A message that the receive should have taken or put aside, or NONE. */
int model_left(struct model *model, const struct model_receive *receive);
void model_receive_end(struct model *model, const struct model_receive *receive);

/* `handle` is one of message `message` in queue `queue`, and the newest if the model says so. Where a standard queue
 * does not refuse them, older ones do what the newest would. `queue` is the one that the handle is of. */
enum error model_delete(struct model *model, int queue_name, int queue, int message, int handle);
enum error model_change_visibility(struct model *model, int queue_name, int queue, int message, int handle,
                                   uint64_t timeout_ms);

/* The lease of a held message lasts longer, because the reply that gives it is held. NULL, or why it can't. */
const char *model_renew(struct model *model, int message, uint64_t visible_at);

/* seen_visible_at: when the server says the message comes back, which is a matter of chance where there is jitter. */
enum error model_fail(struct model *model, const struct operation *operation, int queue, int message,
                      uint64_t seen_visible_at);
enum error model_release_group(struct model *model, const struct operation *operation);
enum error model_pause(struct model *model, const struct operation *operation);

/* The group of a queue, made if it is not there. */
struct model_group *model_group(struct model *model, int queue, int name);
bool model_is_held(const struct model *model, const struct model_group *group);

enum error model_create_batch(struct model *model, const struct operation *operation, int *batch);
enum error model_add_units(struct model *model, int batch, const struct operation *operation, int *added);
enum error model_complete_units(struct model *model, int batch, const struct operation *operation, bool *recorded);
enum error model_xor_units(struct model *model, int batch, const struct operation *operation);
/* The batch of which this message, or the unit under this key, is an outstanding unit; or NONE. */
int model_batch_of_message(const struct model *model, int message);
int model_batch_of_key(const struct model *model, int batch, int key);
void model_seal(struct model *model, int batch);
void model_cancel(struct model *model, int batch);
enum error model_delete_batch(struct model *model, int batch);

struct model_counts model_counts(const struct model_batch *batch);
bool model_xor_is_zero(const struct model_batch *batch);

/* Move tasks (model_move.c). */
enum error model_start_move(struct model *model, const struct operation *operation, int *task);
enum error model_cancel_move(struct model *model, const char *handle, int *task);
/* The newest-th task of a queue that is remembered, or NONE. */
int model_task_of(const struct model *model, int queue, int newest);
/* A task moved a message to `to`, where it has this number, place in line (0: at the end) and id: a message of its own.
 * Or a task ended what can't be moved because it is dead; or the task of a queue ended. NULL, or why that should not
 * have been. */
const char *model_redrive(struct model *model, int message, int to, uint64_t number, uint64_t line, const char *id);
const char *model_end_by_task(struct model *model, int message);
/* DeleteMessages; and its task has deleted a message. */
enum error model_start_delete(struct model *model, const struct operation *operation, int *task);
const char *model_delete_by_task(struct model *model, int message);
/* ReplaceMessage. *is_uncertain: the server may refuse it as well, as something else may have to happen before. Then
 * message `old` was replaced: the arguments are as those of model_redrive(). */
enum error model_may_replace(struct model *model, const struct operation *operation, int *old, bool *is_uncertain);
const char *model_replace(struct model *model, int old, const struct entry *entry, int to, uint64_t number,
                          uint64_t line, const char *id);
const char *model_end_task(struct model *model, int queue, unsigned status, unsigned failure);
/* A task that should have moved something by now, or ended; or NONE. */
int model_find_late_task(const struct model *model);

/* What falls due: retention of messages, deadlines and retention of batches, what purges and cancels left. */
void model_tick(struct model *model);

/* About how many bytes of events a tick at `now` would log. */
uint64_t model_due_bytes(const struct model *model, uint64_t now);

/* A new owner takes over at `resumed_at`; the log's newest time is `last_ms`. */
void model_restart(struct model *model, uint64_t last_ms, uint64_t resumed_at);

/* Time passes: leases end, and with one in a strict line those behind it. */
void model_advance(struct model *model, uint64_t now);
/* Would that change more than the time? */
bool model_has_lapse(const struct model *model, uint64_t now);

/* Gives again what a receive under this attempt id gave, leased anew. *count 0: there is no such attempt.
 * ERROR_INVALID_PARAMETER_VALUE: something has happened to one of the messages. */
enum error model_receive_again(struct model *model, int queue, int attempt, uint64_t timeout_ms, int *messages,
                               unsigned *count);
void model_remember_attempt(struct model *model, int queue, int attempt, const int *messages, unsigned count);

/* What ExplainMessage says of a message, asked for in this queue; NULL: a matter of rounding. *has_reason: and why. */
const char *model_explain(struct model *model, int queue, int message, bool *has_reason);

/* Is it the newest handle of a live message that a Commit may delete? */
bool model_is_held_by(struct model *model, int queue_name, int queue, int message, int handle);

/* Would model_delete() end the message? */
bool model_is_deletable_by(struct model *model, int queue_name, int queue, int message, int handle);

/* Makes the operation's owner the publisher's, if it may be: true if it is. */
bool model_open_publisher(struct model *model, const struct operation *operation);

/* Is the batch to be decided, or the last one again? */
enum error model_begin_publish(const struct model *model, const struct operation *operation, bool *is_repeat);

/* What becomes of row `index` of a batch before its send or ack is looked at, by what became of those before it;
 * ROW_IS_STORED: that is to be tried. */
enum row_is model_row_without_trying(const struct model *model, const struct operation *operation,
                                     const struct row_outcome *outcomes, unsigned index);

/* The send that a row is: on a FIFO queue its uid is its deduplication id if it has none. */
struct entry model_entry_of_row(const struct model *model, const struct entry *row);

/* All rows have been decided. */
void model_end_publish(struct model *model, const struct operation *operation, const struct row_outcome *outcomes);

/* Rows that are known now. */
unsigned model_count_rows(const struct model *model);

enum error model_put_type_order(struct model *model, const struct operation *operation);
enum error model_delete_type_order(struct model *model, const struct operation *operation);

/* Deduplication ids whose windows are not over. */
unsigned model_count_ids(const struct model *model);

/* For the files of the model. */
const char *model_why_not_moved(struct model *model, const struct model_message *message);
void model_reopen(struct model *model, const struct model_message *message);
int model_find_id(const struct model *model, int queue, int id);
enum error model_plan_waits(struct model *model, const struct entry *entry, struct model_waits *waits);
void model_wait(struct model *model, int message, const struct model_waits *waits, int policy);
void model_forget_waits(struct model *model, int message);
void model_tell_all(struct model *model);
bool model_is_stuck(const struct model *model, int message); /* held by something that has failed */
bool model_would_wait_for_itself(const struct model *model, const struct entry *entry, int queue, int batch,
                                 const struct model_waits *waits);
bool model_child_would_wait_for_itself(const struct model *model, int parent, int queue, int group);

/* In one group: does the first stand before the second? */
static inline bool model_stands_before(const struct model_message *one, const struct model_message *other)
{
    return one->line < other->line || (one->line == other->line && one->number < other->number);
}

/* Would a dead letter that comes back wait for itself, did it stand in its group of that queue behind what is up to
 * `line`? */
bool model_would_wait_behind_itself(const struct model *model, int redriven, int queue, uint64_t line);
unsigned model_types_before(const struct model *model, int type);
void model_type(struct model *model, struct model_message *message, int type);
void model_count_success(struct model *model, const struct model_message *message);
bool model_comes_before(const struct model *model, const struct model_message *one, const struct model_message *other);
bool model_is_held_by_type(const struct model *model, const struct model_message *message);
bool model_is_waiting(const struct model *model, const struct model_message *message);
bool model_find_duplicate(struct model *model, int queue, const struct entry *entry, int *first);
void model_remember(struct model *model, int queue, const struct entry *entry, int message);
void model_forget_ids(struct model *model, int queue);
void model_end(struct model *model, struct model_message *message, enum fate fate);
void model_finish(struct model *model, struct model_message *message, enum fate fate);
void model_condemn(struct model *model, int queue);
uint64_t model_next_place(struct model *model);

/* Is the message out of reach for every receive? */
bool model_is_dead(const struct model *model, const struct model_message *message);
bool model_is_deliverable(const struct model *model, const struct model_message *message);

#endif
