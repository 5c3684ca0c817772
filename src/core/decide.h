/* Decisions: each checks a command against the state and, if it stands, yields the events that make it so.
 *
 * Only between core_frame_open() and core_frame_close(). On an error nothing has changed, unless the comment says
 * otherwise. Ranges and forms of what a client sent are the api's to check before; here are the checks that need the
 * state. Views in commands are borrowed for the call; views in results are borrowed until the next decision. */
#ifndef TALLY_CORE_DECIDE_H
#define TALLY_CORE_DECIDE_H

#include "core/core.h"
#include "core/dependency.h"
#include "core/identity.h"
#include "core/move.h"
#include "core/publisher.h"
#include "core/relay_record.h"
#include "core/schedule.h"
#include "core/shelf.h"
#include "core/ticket_pool.h"
#include "core/type_order.h"

/* --- the namespace itself ----------------------------------------------------------------------------------------- */

/* The first event of a new log. */
void decide_found(struct core *core, struct bytes name, const uint8_t key[CORE_KEY_SIZE], uint64_t segment_size);

/* A lease that a restart interrupts lasts this much longer at most (docs/guarantees.md, section 2). */
#define RESTART_GRACE_MS 30000u

/* The first event of each owner; in a frame of its own whose time is that of the last frame. O(leases). */
void decide_restart(struct core *core, uint64_t epoch, uint64_t resumed_at_ms);

/* Before a reply is given: what time has done by itself may show in it, so it is logged, if no event of this frame or a
 * later one has done that yet. Else a crash could take back what somebody was told, the end of a lease for one. */
void decide_time_passed(struct core *core);

/* Lets time pass to now_ms, not before the core's, inside the open frame: what follows is decided then. */
void decide_pass_time(struct core *core, uint64_t now_ms);

/* Decides what has fallen due: messages whose retention is over, deadlines and retention of batches, and a
 * portion of what purges and cancels left to end; all but schedules (decide_fire_schedule()). Does a bounded
 * amount; true if more is due now. */
bool decide_due(struct core *core);

/* --- queues ------------------------------------------------------------------------------------------------------- */

/* A queue under a name that no queue has. */
struct queue *decide_create_queue(struct core *core, struct bytes name, const struct queue_settings *settings);
void decide_set_queue(struct core *core, struct queue *queue, const struct queue_settings *settings);

/* Gives the queue tags (tags.h), in place of those it has under the same keys. ERROR_OVER_LIMIT: it would have more
 * than TAGS_MAX. */
enum error decide_tag_queue(struct core *core, struct queue *queue, struct bytes tags);

/* Takes those tags from it that have one of `keys` (a run of u32 size and the bytes); keys of no tag are passed
 * over. */
void decide_untag_queue(struct core *core, struct queue *queue, struct bytes keys);

/* Whatever the queue holds ends: units of it as failed. O(1); the messages are ended in portions by decide_due(). */
void decide_purge_queue(struct core *core, struct queue *queue);

/* ERROR_QUEUE_IN_USE while a batch that has not completed has it as a target, or a schedule. */
enum error decide_delete_queue(struct core *core, struct queue *queue);

/* --- messages ----------------------------------------------------------------------------------------------------- */

/* One thing that a message is to wait for, as its sender names it. */
struct antecedent_name {
    enum antecedent_name_kind { NAMED_MESSAGE, NAMED_BATCH, NAMED_DEDUPLICATION } kind;
    struct bytes text;  /* MessageId, BatchId, MessageDeduplicationId */
    struct bytes queue; /* NAMED_DEDUPLICATION: the queue's name */
};

struct send_command {
    struct queue *queue;
    struct content content; /* all but the id */
    uint32_t delay_ms;
    uint8_t priority;
    struct bytes batch_id;                     /* Tally.Batch; empty: none */
    bool is_growth;                            /* an outstanding unit of the batch lets it join: decide_commit() */
    struct bytes type;                         /* Tally.Type; empty: none */
    struct bytes producer;                     /* Tally.Producer; empty: none */
    uint64_t sequence;                         /* Tally.Sequence, with a producer */
    const struct antecedent_name *antecedents; /* Tally.After */
    uint32_t antecedent_count;
    enum after_failure after_failure;
};

struct send_result {
    uint64_t number; /* 0: a duplicate whose first message is no longer remembered */
    uint8_t id[MESSAGE_ID_SIZE];
    bool is_duplicate;      /* nothing happened: number and id are the first one's */
    bool is_produced;       /* … because of its producer's numbers, and nothing else */
    bool was_passed_over;   /* is_produced: no message ever had that number */
    uint64_t sequence_last; /* is_produced: the highest that the producer has used */
    uint32_t failed;        /* on an error of a dependency: which antecedent */
    bool is_forgotten; /* ERROR_DEPENDENCY_DOES_NOT_EXIST: it was a message, but its outcome is no longer remembered */
    uint32_t visits;   /* what the search for a cycle took, if there was one */
    char path[DEPENDENCY_PATH_SIZE]; /* ERROR_DEPENDENCY_CYCLE: in words, NUL-terminated */
};

/* Accepts a message and, in the same record, makes it a unit of its batch (B19), which seals at its Total.
 * `content.group` and `content.deduplication` say its group and its deduplication id. A duplicate is recognised before
 * anything else. Errors, in order: ERROR_BATCH_DOES_NOT_EXIST, ERROR_BATCH_SEALED, ERROR_BATCH_TOTAL_EXCEEDED;
 * ERROR_DEPENDENCY_DOES_NOT_EXIST, ERROR_DEPENDENCY_CYCLE, ERROR_DEPENDENCY_TOO_DEEP. */
enum error decide_send(struct core *core, const struct send_command *command, struct send_result *result);

/* A send's turn among those that are accepted together. */
struct send_turn {
    uint64_t units;    /* that its batch must have room for: its own, and those of earlier ones */
    uint32_t failures; /* of earlier ones that may end at once: for each the oldest failure may be forgotten */
    bool is_checked;   /* no cycle is searched for */
    const struct create_batch_command *made; /* its batch is not there yet: the same Commit makes it; else NULL */
};

/* For Commit: the same checks, with nothing done, as they will be when its turn comes. And the send of what was
 * checked, once others have been accepted since, or can close no cycle: none is searched for. */
enum error decide_check_send(const struct core *core, const struct send_command *command, const struct send_turn *turn,
                             struct send_result *result);
enum error decide_send_checked(struct core *core, const struct send_command *command, struct send_result *result);

#define RECEIVE_MAX 10u

/* Texts are copies, for a receive may end its messages, and with them the queue that they come from;
 * borrowed until the next receive. */
struct received_message {
    struct handle handle;
    uint64_t position; /* of the content */
    uint32_t content_size;
    uint32_t receive_count;
    uint64_t sent_at_ms;
    uint64_t first_received_at_ms;
    struct bytes origin; /* name of the queue that it failed in; empty: it was not dead-lettered */
    bool is_renamed; /* its MessageId is that of its number; its content names the message that it was before a move */
    uint64_t sequence;   /* in its group; 0: it has none */
    struct bytes reason; /* of its newest failed attempt, or empty */
};

/* Takes up to `count_max` deliverable messages and leases them for timeout_ms: those without a group oldest first,
 * groups in the order of their rings, of a FIFO group the run from its head. A message out of attempts goes to the
 * dead-letter queue instead, or what its group's policy says happens. From an at-most-once queue the messages end here.
 * *count may be 0. ERROR_OVER_LIMIT when in_flight_max messages of a standard queue are in flight already; a FIFO queue
 * then gives nothing. */
enum error decide_receive(struct core *core, struct queue *queue, unsigned count_max, uint32_t timeout_ms,
                          uint32_t in_flight_max, struct received_message messages[RECEIVE_MAX], unsigned *count);

/* Gives the messages of an earlier receive again, under the same handles, leased anew, if each of them is still held
 * under that attempt's delivery; ERROR_INVALID_PARAMETER_VALUE if one is not; *count 0 if the attempt id is unknown. */
enum error decide_receive_again(struct core *core, struct queue *queue, struct bytes attempt, uint32_t timeout_ms,
                                struct received_message messages[RECEIVE_MAX], unsigned *count);

/* Remembers what a receive gave under an attempt id, for ATTEMPT_WINDOW_MS; where very many are remembered for less, or
 * not at all (deduplication_attempt_window_ms). */
void decide_remember_attempt(struct core *core, const struct queue *queue, struct bytes attempt,
                             const struct received_message *messages, unsigned count);

/* What a receipt handle was when somebody came with it, whatever that led to. */
struct receipt_use {
    bool is_gone;     /* there was nothing to do: its message has ended, or as each function says */
    bool is_stale;    /* the message is there, and the handle is not its newest, or was taken away by a failure */
    bool is_late;     /* the message is there, and the handle's visibility timeout is over */
    uint64_t late_ms; /* by so much; if the message was delivered again since, by that much at least */
};

/* Ends the message, its unit as succeeded. One that has ended is no error. A handle that is not the newest ends it on a
 * queue that accepts such handles. Errors: ERROR_RECEIPT_HANDLE_IS_INVALID: not a handle of this queue, or, where *use
 * is_stale, one that is not the newest; ERROR_INVALID_PARAMETER_VALUE: on a FIFO queue, its visibility timeout is over.
 * use may be NULL. */
enum error decide_delete(struct core *core, struct queue *queue, struct bytes handle, struct receipt_use *use);

/* The number of the live message of this queue of which it is the newest handle, or 0. For Commit. use may be NULL. */
uint64_t decide_held_message(const struct core *core, const struct queue *queue, struct bytes handle,
                             struct receipt_use *use);

/* The number of the message that decide_delete() would end, or 0. */
uint64_t decide_deletable_message(const struct core *core, const struct queue *queue, struct bytes handle,
                                  struct receipt_use *use);

/* The message is visible at now + timeout_ms (0: at once), whoever has it: on a queue that accepts handles that are not
 * the newest, they change the lease of the newest. Errors, in order: ERROR_RECEIPT_HANDLE_IS_INVALID as
 * decide_delete(); ERROR_INVALID_PARAMETER_VALUE with *use is_gone: the message has ended, waits for its back-off or,
 * on a FIFO queue, is not held any more; the same without: in total more than 12 hours since the receive. *given is
 * the lease as it is now; message 0: it is none. Source: SQS API reference, ChangeMessageVisibility. */
enum error decide_change_visibility(struct core *core, struct queue *queue, struct bytes handle, uint32_t timeout_ms,
                                    struct given_lease *given, struct receipt_use *use);

/* The lease lasts until visible_at_ms at least, and `lease` says until when. What was asked for stays
 * the message's timeout. False, with nothing changed: it is over, or somebody has shortened it since it
 * was given. O(log messages). */
bool decide_renew_lease(struct core *core, struct given_lease *lease, uint64_t visible_at_ms);

/* What is said of an attempt that failed; zeroed: what follows is as the queue says. */
struct failed_attempt {
    struct bytes reason; /* may be empty */
    bool is_final;
    bool has_wait; /* it waits wait_ms before the next one, whatever the queue's back-off */
    uint32_t wait_ms;
    struct backoff backoff; /* where the queue has none and has_wait is false */
    uint32_t attempts_max;  /* this many attempts are all, or fewer where the queue says so; 0: as the queue says */
    const struct queue *dead_letters; /* of the queue's type, not itself: instead of the queue's own target */
};

enum failure_outcome {
    FAILURE_IGNORED, /* the message had ended, or was in another queue, before */
    FAILURE_RETURNED,
    FAILURE_DEAD_LETTERED,
    FAILURE_DROPPED,
    FAILURE_HELD, /* with its group, or until it is the first of that */
};

struct failure_result {
    struct receipt_use use; /* of its handle; also after an error */
    enum failure_outcome outcome;
    uint32_t attempt;                 /* that has failed, from 1; 0 where it was ignored */
    uint32_t attempts_max;            /* how many there are at most; 0: any number */
    uint64_t wait_ms;                 /* from now on, before the next one */
    const struct queue *dead_letters; /* where it is now, if it was dead-lettered; else NULL */
};

/* Ends the attempt that holds the message: it is visible again after a back-off; if final or out of attempts, it is
 * dead-lettered, dropped, or its group is held. Nothing is done (use.is_gone) if the message has ended
 * (FAILURE_IGNORED) or, on a standard queue, if this attempt was failed before and `attempt` does not give the message
 * up either (FAILURE_RETURNED, and how it waits now). Errors, whatever the queue accepts:
 * ERROR_RECEIPT_HANDLE_IS_INVALID: not a handle of this queue, or not the newest; ERROR_INVALID_PARAMETER_VALUE: its
 * visibility timeout is over; ERROR_UNSUPPORTED_OPERATION: it names a dead-letter queue, and is given up only behind
 * others of its group. */
enum error decide_fail(struct core *core, struct queue *queue, struct bytes handle,
                       const struct failed_attempt *attempt, struct failure_result *result);

/* --- groups ------------------------------------------------------------------------------------------------------- */

void decide_pause_queue(struct core *core, struct queue *queue, bool is_paused);
void decide_pause_group(struct core *core, struct queue *queue, struct bytes group, bool is_paused);

enum group_release { RELEASE_RETRY, RELEASE_SKIP, RELEASE_CANCEL_REST };

/* Lets a held group go on. ERROR_GROUP_NOT_HELD. */
enum error decide_release_group(struct core *core, struct queue *queue, struct bytes group, enum group_release action);

/* --- type orders -------------------------------------------------------------------------------------------------- */

struct type_order_command {
    struct bytes name;
    struct type_list types;
    uint32_t retention_s; /* of Require; 0: the order does not require anything */
};

/* Puts an order under its name, in place of the one that had it; with the same list nothing happens. Errors, in order:
 * ERROR_OVER_LIMIT: more than TYPES_MAX types or TYPE_ORDERS_MAX orders; ERROR_TYPE_ORDER_CONFLICT, with what it
 * contradicts appended to `conflict`, in words. */
enum error decide_put_type_order(struct core *core, const struct type_order_command *command, struct buffer *conflict);

/* ERROR_TYPE_ORDER_DOES_NOT_EXIST. */
enum error decide_delete_type_order(struct core *core, struct bytes name);

/* --- schedules ---------------------------------------------------------------------------------------------------- */

/* Puts a schedule under its name, in place of the one that had it. `next_at_ms` is the first time after now that the
 * spec names; SCHEDULE_NEVER: there is none. The spec's queue exists, and the group is given if that is a FIFO queue.
 * ERROR_OVER_LIMIT: there are SCHEDULES_MAX. */
enum error decide_put_schedule(struct core *core, struct bytes name, const struct schedule_spec *spec,
                               uint64_t next_at_ms, const struct schedule **schedule);

/* A paused schedule is not due; what it would have done meanwhile is not made up for. `next_at_ms` as above. */
void decide_pause_schedule(struct core *core, const struct schedule *schedule);
void decide_resume_schedule(struct core *core, const struct schedule *schedule, uint64_t next_at_ms);

/* Fires a schedule that is due. `next_at_ms` is the first time that its spec names after
 * what schedule_next_due() said. */
void decide_fire_schedule(struct core *core, const struct schedule *schedule, uint64_t next_at_ms);

void decide_delete_schedule(struct core *core, const struct schedule *schedule);

/* --- contents ----------------------------------------------------------------------------------------------------- */

/* The content that the message has (core_has_content()) stands in the open frame from now on. `content`: its bytes.
 * O(log segments). */
void decide_move_content(struct core *core, const struct live_content *found, struct bytes content);

/* --- move tasks --------------------------------------------------------------------------------------------------- */

/* Begins to move what can be delivered from `source` to `destination`, another queue of the same kind; NULL: each
 * message to the queue that it failed in. rate: messages a second; 0: no limit. No task of the source is running. The
 * messages are moved by decide_due(). O(1). */
const struct move_task *decide_start_move(struct core *core, struct queue *source, const struct queue *destination,
                                          uint32_t rate);

/* Ends a running task; what it has moved stays moved. */
void decide_cancel_move(struct core *core, const struct move_task *task);

/* --- relays ------------------------------------------------------------------------------------------------------- */

/* A relay of a name that none has. `spec` as in relay_record.h. ERROR_OVER_LIMIT: there are RELAY_RECORDS_MAX. */
enum error decide_put_relay(struct core *core, struct bytes name, struct bytes spec,
                            const struct relay_record **record);
void decide_pause_relay(struct core *core, const struct relay_record *record, bool is_paused);
void decide_delete_relay(struct core *core, const struct relay_record *record);

/* --- batches ------------------------------------------------------------------------------------------------------ */

/* The id for a batch whose creator gave none: that of the batch which is created next. */
void decide_next_batch_id(const struct core *core, uint8_t id[MESSAGE_ID_SIZE]);

struct create_batch_command {
    struct bytes id;
    struct bytes parent_id; /* empty: none */
    struct batch_spec spec; /* targets name queues that exist */
    bool is_growth;         /* an outstanding unit of the parent lets it join: decide_commit() */
    char *path; /* result, of DEPENDENCY_PATH_SIZE: ERROR_DEPENDENCY_CYCLE in words; NULL: nobody reads it */
};

/* Creates the batch, or finds the one that was created with the same arguments. Errors, in order:
 * ERROR_BATCH_ALREADY_EXISTS; ERROR_BATCH_DOES_NOT_EXIST, ERROR_BATCH_SEALED, ERROR_BATCH_TOTAL_EXCEEDED (of the
 * parent); ERROR_OVER_LIMIT: nested more than BATCH_DEPTH_MAX deep; ERROR_DEPENDENCY_CYCLE, ERROR_DEPENDENCY_TOO_DEEP:
 * the parent would wait for itself. */
enum error decide_create_batch(struct core *core, const struct create_batch_command *command,
                               const struct batch **batch);

/* For Commit: the same checks, with nothing done but in core->scratch. The parent will have `children` more by its
 * turn. *known: the batch that was created with the same arguments before, or NULL. And the creation of what was
 * checked. */
enum error decide_check_create_batch(struct core *core, const struct create_batch_command *command, uint32_t children,
                                     const struct batch **known);
const struct batch *decide_create_checked_batch(struct core *core, const struct create_batch_command *command);

/* Registers external units. Either `keys` (distinct or not; those already there add nothing) or, with key_count 0, the
 * keys "0" to "count-1". Errors, in order: ERROR_UNSUPPORTED_OPERATION (xor ledger), ERROR_BATCH_SEALED,
 * ERROR_BATCH_TOTAL_EXCEEDED, ERROR_OVER_LIMIT (LEDGER_UNITS_MAX). All or nothing. */
struct add_units_command {
    const struct bytes *keys;
    uint32_t key_count;
    uint32_t count;
    bool is_growth; /* an outstanding unit of the batch lets them join: decide_commit() */
};
enum error decide_add_units(struct core *core, const struct batch *batch, const struct add_units_command *command,
                            uint32_t *added);

/* For Commit: the same checks, with nothing done but in core->scratch. The batch will have `children` more by its
 * turn. And those of the first units of a batch that the same Commit makes by this spec. */
enum error decide_check_add_units(struct core *core, const struct batch *batch, const struct add_units_command *command,
                                  uint32_t children, uint32_t *added);
enum error decide_check_first_units(struct core *core, const struct batch_spec *spec,
                                    const struct add_units_command *command, uint32_t *added);

struct unit_report {
    struct bytes key;
    enum unit_state outcome; /* UNIT_SUCCEEDED or UNIT_FAILED */
    struct bytes detail;
    bool is_recorded; /* result: this report ended the unit */
};

/* Ends external units. On an error nothing was recorded: ERROR_UNSUPPORTED_OPERATION (xor ledger);
 * ERROR_UNIT_DOES_NOT_EXIST with the index of the first unknown key in *unknown; ERROR_OVER_LIMIT: the events may need
 * more than `size_max` bytes. *is_completed: this very call completed the batch. */
enum error decide_complete_units(struct core *core, const struct batch *batch, struct unit_report *reports,
                                 uint32_t report_count, uint64_t size_max, uint32_t *unknown, bool *is_completed);

struct xor_command {
    uint64_t value;
    uint32_t registered;
    uint32_t finished;
    struct bytes token;
};

/* Xors a value into the ledger, once for each token. Errors, in order: ERROR_UNSUPPORTED_OPERATION (exact ledger);
 * ERROR_INVALID_PARAMETER_VALUE: the token was used with other values, or more units would have finished than were
 * registered; ERROR_BATCH_SEALED: registers units in a sealed batch; ERROR_BATCH_TOTAL_EXCEEDED. */
enum error decide_xor_units(struct core *core, const struct batch *batch, const struct xor_command *command,
                            bool *is_zero, bool *is_completed);

/* Seals an open batch, which completes it if no unit is outstanding; on a sealed one nothing happens (B8). */
void decide_seal_batch(struct core *core, const struct batch *batch, bool *is_completed);

/* Cancels what is outstanding and completes the batch, if it has not completed. */
void decide_cancel_batch(struct core *core, const struct batch *batch);

/* ERROR_BATCH_NOT_COMPLETED. The id is free at once; the record goes when nothing refers to it. */
enum error decide_delete_batch(struct core *core, const struct batch *batch);

/* --- several at once ---------------------------------------------------------------------------------------------- */

#define COMMIT_SENDS_MAX 10u
#define COMMIT_UNITS_MAX 100u
#define COMMIT_DELETES_MAX 10u
#define COMMIT_HOLDS_MAX 10u
#define COMMIT_CHILDREN_MAX 10u
#define COMMIT_ADDITIONS_MAX 10u

struct commit_send {
    struct send_command command;
    struct send_result result;
};

struct commit_unit {
    const struct batch *batch;
    struct unit_report report;
    bool is_completed; /* result: this commit completed the batch */
};

/* A message that is deleted, or held: its lease stays. */
struct commit_message {
    struct queue *queue;
    struct bytes handle;
    struct receipt_use use; /* result; also of the entry that stood in the way */
};

/* A batch to be made, with the id that it is given. */
struct commit_child {
    struct create_batch_command command;
    bool is_new; /* result: it was not there before */
};

struct commit_addition {
    struct bytes batch_id; /* of a batch that is there, or that this commit makes */
    struct add_units_command command;
    uint32_t added; /* result */
};

struct commit_command {
    struct commit_send *sends;
    struct commit_unit *units;
    struct commit_message *deletes;
    struct commit_message *holds;
    struct commit_child *children;
    struct commit_addition *additions;
    uint32_t send_count;
    uint32_t unit_count;
    uint32_t delete_count;
    uint32_t hold_count;
    uint32_t child_count;
    uint32_t addition_count;
    uint64_t size_max; /* bytes of events that the frame has room for */
};

enum commit_part {
    COMMIT_WHOLE,
    COMMIT_SENDS,
    COMMIT_UNITS,
    COMMIT_DELETES,
    COMMIT_HOLDS,
    COMMIT_CHILDREN,
    COMMIT_ADDITIONS,
};

/* What stood in the way: an entry, or the whole. */
struct commit_fault {
    enum commit_part part;
    uint32_t index;
    uint64_t size; /* COMMIT_WHOLE: what it needs */
};

/* Makes batches, adds units, sends, counts and consumes, in this order, in one frame: all of it or, on an error,
 * nothing. A duplicate among the sends is none the worse. Where a delete, a hold or a report of a unit names an
 * outstanding unit of a batch, others may join that batch though it is sealed, and they come on top of its Total.
 *
 * Errors, in order: ERROR_RECEIPT_HANDLE_IS_INVALID: not the newest handle of a live message, or, of a hold, one whose
 * lease is over; ERROR_INVALID_PARAMETER_VALUE: two deletes or holds of one message; of the batches those of
 * decide_create_batch(), ERROR_INVALID_PARAMETER_VALUE: two of one id; of the additions ERROR_BATCH_DOES_NOT_EXIST,
 * those of decide_add_units(), ERROR_INVALID_PARAMETER_VALUE: two for one batch; of the sends, those of decide_send(),
 * and ERROR_UNSUPPORTED_OPERATION: with something else of this commit it might wait for itself; of the units, those of
 * decide_complete_units(); ERROR_OVER_LIMIT: needs more than size_max. O(entries^2 + batches they are in). */
enum error decide_commit(struct core *core, struct commit_command *command, struct commit_fault *fault);

/* --- publishers --------------------------------------------------------------------------------------------------- */

/* Makes `owner` the publisher's owner under `epoch` (1 to 2^63 - 1) and creates it if there is none. *is_accepted: they
 * are the ones it knows now: the epoch was above the one known, or they were known before. ERROR_OVER_LIMIT: it would
 * be new, and there are PUBLISHERS_MAX. O(1). */
enum error decide_open_publisher(struct core *core, const uint8_t id[PUBLISHER_ID_SIZE], uint64_t epoch,
                                 const uint8_t owner[PUBLISHER_ID_SIZE], bool *is_accepted);

/* Says of a publisher that was just made who may open it until a row of it names a queue: a hash, not 0. */
void decide_claim_publisher(struct core *core, const uint8_t id[PUBLISHER_ID_SIZE], uint64_t claim);

/* The publisher of this id, or NULL. Borrowed until the next decision. */
const struct publisher *decide_find_publisher(const struct core *core, const uint8_t id[PUBLISHER_ID_SIZE]);

struct publish_command {
    uint8_t publisher[PUBLISHER_ID_SIZE];
    uint8_t owner[PUBLISHER_ID_SIZE];
    uint64_t epoch;
    uint64_t batch;           /* at least 1 */
    uint64_t confirmed_batch; /* below that */
    struct bytes rows;        /* each u64 id (1 to 2^63 - 1), uid: 1 to PUBLISHER_ROWS_MAX of them */
    bool is_strict;           /* behind a row that stays behind, all rows do, not only those of its group */
    bool blocks_refused;      /* a row that is refused stays behind, as one that is blocked does */
    uint64_t size_max;        /* bytes of events that the frame has room for */
};

#define PUBLICATION_PLACES 2048u

static_assert(PUBLICATION_PLACES >= 2 * PUBLISHER_ROWS_MAX, "a place is found soon, and one is always free");

/* A batch between its beginning and its end. */
struct publication {
    const struct publish_command *command;
    struct digest_tag digest;
    uint32_t publisher;                  /* slot */
    uint32_t row_count;                  /* of the batch */
    uint32_t next;                       /* index of the row that is decided next */
    bool is_full;                        /* there is no room for more, or it took too long: the rest is put off */
    uint64_t visits;                     /* that the searches for cycles took */
    size_t frame_size;                   /* before it began */
    bool has_left;                       /* a row has stayed behind */
    struct bytes group;                  /* of the row that is decided next */
    struct table left;                   /* groups that have: 1 + index in left_groups, by hash */
    struct buffer left_groups;           /* struct bytes */
    uint64_t hash;                       /* of the uid of the row that is decided next */
    uint16_t stored[PUBLICATION_PLACES]; /* rows that are known from now on: 1 + index, in an open table by that hash */
    struct buffer rows;                  /* those, as in an event */
    struct buffer results;               /* of the others; see publisher.h */
};

/* Begins a batch. Then each row is decided, in order, by one of the next four; then decide_publish_end(). All in one
 * frame: no row's fault is the batch's. With *is_repeat, the batch is the last one again: there is nothing to decide,
 * and the publisher has its results. Errors, in order: ERROR_PUBLISHER_FENCED: epoch and owner are not those that it
 * knows; ERROR_PUBLISHER_BATCH_OUT_OF_ORDER: neither the last batch nor the next; ERROR_PUBLISHER_BATCH_CONFLICT: the
 * last one, with other rows; ERROR_PUBLISHER_IS_FULL: with this batch, more rows might be unconfirmed than there may
 * be; ERROR_OVER_LIMIT: size_max is too little for so many rows. */
enum error decide_publish_begin(struct core *core, const struct publish_command *command,
                                struct publication *publication, bool *is_repeat);

/* Has the row been stored before, is it too old to say, does it stand behind one of its group that stays behind, or is
 * no room left? Then that is its result, and the next row's turn. `group` is the row's, or empty; borrowed until
 * decide_publish_end(). O(1). */
bool decide_publish_known(const struct core *core, struct publication *publication, struct bytes group);

/* Sends the row's message. On an error of decide_send() it is still this row's turn: it is decide_publish_fault()'s. */
enum error decide_publish_send(struct core *core, struct publication *publication, const struct send_command *command,
                               struct send_result *result);

/* Ends the message as decide_delete() would; where that would do nothing, the row is stale. `queue` is that of the
 * handle; NULL: it is gone. */
void decide_publish_delete(struct core *core, struct publication *publication, struct queue *queue, struct bytes handle,
                           struct receipt_use *use);

/* The row was refused or is blocked. */
void decide_publish_fault(struct core *core, struct publication *publication, enum row_fate fate, struct bytes code,
                          struct bytes text);

/* The batch is the last one now. The publication's results can be read until decide_publish_deinit(). */
void decide_publish_end(struct core *core, struct publication *publication);
void decide_publish_deinit(struct publication *publication);

/* --- pools of tickets (docs/protocol.md, "Pools") ----------------------------------------------------------------- */

/* Creates the pool of that name, or gives it another spec, whose rules (valid: rules_create() took them) extend the old
 * ones'. Its queues exist. ERROR_OVER_LIMIT: there are TICKET_POOLS_MAX. */
enum error decide_put_pool(struct core *core, struct bytes name, const struct pool_spec *spec,
                           struct ticket_pool **pool);
void decide_delete_pool(struct core *core, struct ticket_pool *pool);

struct offer_command {
    struct bytes key;
    struct bytes set; /* exclusive set, or empty */
    struct ticket_content content;
    uint32_t weight;
    uint32_t ttl_s;  /* 0: none */
    uint64_t ttl_ms; /* the pool's where ttl_s was not given; UINT64_MAX: none */
    uint8_t priority;
    bool has_zero_ttl; /* ttl_s was given, as 0: another offer than one that leaves it to the pool */
};

/* Offers a ticket, or finds the one that was offered under this key (*is_known; whatever its state is now).
 * ERROR_INVALID_PARAMETER_VALUE: it was offered with other content; ERROR_OVER_LIMIT: its exclusive set has
 * EXCLUSIVE_SET_TICKETS_MAX. The looking is done by decide_match(). O(log waiting). */
enum error decide_offer(struct core *core, struct ticket_pool *pool, const struct offer_command *command,
                        uint32_t *ticket, bool *is_known);

/* Lets the built-in matcher look, for at most that many steps (match/matcher.h), and makes the matches it finds; stops
 * where the frame is ample. Nothing is done before the matcher knows all tickets that wait, after a start or a change
 * of the rules: decide_due() looks then. */
void decide_match(struct core *core, struct ticket_pool *pool, uint32_t steps);

/* What a ticket was found to be: DONE, or what stood in the way. */
enum ticket_outcome {
    TICKET_DONE,
    TICKET_IS_STALE,     /* `version` is not its version */
    TICKET_IS_TAKEN,     /* held or matched */
    TICKET_IS_CANCELLED, /* before */
    TICKET_IS_EXPIRED,
};

/* Gives a waiting ticket other facts and attributes. version 0: whatever it is now. */
enum ticket_outcome decide_update_ticket(struct core *core, struct ticket_pool *pool, uint32_t ticket, uint32_t version,
                                         struct bytes facts, struct bytes attributes);

/* Cancels it: TICKET_DONE, or TICKET_IS_CANCELLED, TICKET_IS_TAKEN, TICKET_IS_EXPIRED. */
enum ticket_outcome decide_cancel_ticket(struct core *core, struct ticket_pool *pool, uint32_t ticket);

struct proposed_member {
    struct bytes key;
    uint32_t version;
};

struct proposal_command {
    struct bytes proposal; /* ProposalId */
    const struct proposed_member *members;
    uint32_t member_count;  /* 1 to RULES_WEIGHT_MAX */
    uint32_t rules_version; /* 0: not checked */
    struct bytes body;
    bool has_body;
};

enum proposal_status {
    PROPOSAL_MATCHED,
    PROPOSAL_KEY_REUSED,
    PROPOSAL_INVALID,
    PROPOSAL_CONFLICT,
    PROPOSAL_STALE,
    PROPOSAL_BY_RULES, /* Verify: invalid, too, but the rule is known */
    PROPOSAL_RESULT_FULL,
};

enum member_fault {
    MEMBER_IS_GOOD,
    MEMBER_MATCHED,
    MEMBER_HELD,
    MEMBER_CANCELLED,
    MEMBER_EXPIRED,
    MEMBER_STALE,
    MEMBER_EXCLUSIVE,
    MEMBER_UNKNOWN,
    MEMBER_TWICE
};

/* Of the check that Verify asks for, in steps (match/matcher.h): some 50 ms. 19,900 pairs, as 200 members have, may
 * take 50 each. */
#define PROPOSAL_STEPS_MAX 1000000u

struct proposal_result {
    enum proposal_status status;
    uint64_t match;       /* PROPOSAL_MATCHED: its number */
    bool is_stale_rules;  /* PROPOSAL_STALE: the rules are newer, not a member */
    bool is_wrong_weight; /* PROPOSAL_INVALID: the sum, or no division into teams */
    bool is_too_large;    /* PROPOSAL_INVALID: the members say more than TICKET_GROUP_SIZE_MAX together */
    /* PROPOSAL_BY_RULES; PROPOSAL_INVALID with PAIR_DEAR, which is beyond PROPOSAL_STEPS_MAX; the work of any */
    struct pair_check check;
    uint8_t faults[RULES_WEIGHT_MAX];   /* enum member_fault, by member */
    uint32_t tickets[RULES_WEIGHT_MAX]; /* slots, by member; 0: unknown */
};

/* The commit check, in the order of docs/protocol.md; on PROPOSAL_MATCHED the match is made (or held), else nothing has
 * changed. O(members + for Verify members^2), PROPOSAL_STEPS_MAX at most. */
void decide_propose(struct core *core, struct ticket_pool *pool, const struct proposal_command *command,
                    struct proposal_result *result);

enum match_outcome { MATCH_DONE, MATCH_WAITS, MATCH_WAS_MADE, MATCH_IS_UNDONE, MATCH_IS_ACKED, MATCH_IS_UNKNOWN };

/* Puts the match back: MATCH_DONE (also if it was before), MATCH_IS_ACKED, MATCH_IS_UNKNOWN. `match` is its number. */
enum match_outcome decide_put_back(struct core *core, struct ticket_pool *pool, uint64_t match);

/* A member of a held match says yes or no. MATCH_WAITS: for others; MATCH_WAS_MADE: by this yes; MATCH_IS_UNDONE: by
 * this no; MATCH_DONE: it had been decided before (too late); MATCH_IS_UNKNOWN: no such match, or no such member. A
 * repeated yes waits. */
enum match_outcome decide_confirm(struct core *core, struct ticket_pool *pool, uint64_t match, struct bytes key,
                                  bool accepts);

/* Undoes held matches whose time is over, at most `portion` of them: those who did not answer are cancelled. */
void decide_end_holds(struct core *core, unsigned portion);

/* The record that holds the match is durable, so those who are to confirm it may hear of it. If more than a tenth of
 * their time is over, it begins anew at now_ms. */
void decide_show_hold(struct core *core, uint64_t match, uint64_t now_ms);

#endif
