/* libtally: a client for Tally, the durable queue server. It speaks the JSON form of the Amazon SQS protocol, so
 * everything that is not marked as Tally's own works against Amazon SQS too.
 *
 *     struct tally_client *client;
 *     struct tally_error error;
 *     if (tally_client_create(NULL, &client, &error) != TALLY_OK)
 *         die(error.message);
 *     if (tally_send(client, "orders", &(struct tally_outgoing){.body = "hello"}, NULL) != TALLY_OK)
 *         die(tally_client_error(client)->message);
 *     tally_client_destroy(client);
 *
 * Build with: cc program.c $(pkg-config --cflags --libs libtally)
 *
 * What holds for every function here
 * - Threads: a client belongs to one thread at a time; different threads use different clients. Only
 *   tally_client_interrupt() may be called from any thread.
 * - Errors: a function that can fail returns enum tally_status and leaves code, message and HTTP status in the client
 *   (tally_client_error()). Results that come back by pointer are untouched on failure.
 * - Strings are UTF-8 with a closing NUL, borrowed for the call. What a function hands out is owned by the caller and
 *   ends with the _deinit of its struct, unless its comment says otherwise. Structs given by pointer may be
 *   zero-initialised: a member that is NULL or 0 means what its comment says.
 * - Queues: `queue` is a queue's URL or its bare name. Tally takes either, Amazon SQS the URL only.
 * - Cost: one HTTP request on a connection that is kept open, unless the comment says otherwise.
 * - Retries: a connection refused and an answer 503 are always tried again. A connection lost on the way and other 5xx
 *   are tried again where doing it twice does what doing it once does; see tally_call(). Pauses double from 50 ms to
 *   2 s with jitter; tally_options.attempts_max bounds their number.
 * - Versions: a program that was built with one libtally.so.0 runs with each later one, without being built again.
 *   What a struct gets later takes of its `reserved`, which is 0: leave it so in what you fill in. A function that is
 *   added has a symbol version of its own: a program that needs it doesn't start with an older library. What breaks
 *   this rule makes it libtally.so.1. docs/reference/libtally.md says what is compared, and how.
 * - Sources: the SQS API reference, and docs/reference for Tally's own actions. */
#ifndef TALLY_TALLY_H
#define TALLY_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tally_client;
struct yyjson_doc; /* include <yyjson.h> to look inside; where no package has it, it is installed with this header */
struct yyjson_val;

#define TALLY_ENDPOINT_DEFAULT "http://127.0.0.1:9324"

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

enum tally_status {
    TALLY_OK = 0,
    TALLY_REFUSED,     /* the server answered with an error; `code` names it */
    TALLY_UNREACHABLE, /* no whole answer came; see is_outcome_unknown */
    TALLY_GARBLED,     /* an answer came that is not what the protocol says: something else listens there */
    TALLY_INTERRUPTED, /* tally_client_interrupt() */
    TALLY_INVALID,     /* an argument can't be sent as it is; nothing was sent */
};

struct tally_error {
    enum tally_status status;
    int http_status;         /* 0: there was no answer */
    bool is_outcome_unknown; /* the request was sent and may have been carried out, but no answer came */
    char code[96];           /* "QueueDoesNotExist"; for what went wrong on this side "Unreachable", "Garbled", … */
    char message[1024];      /* for people, in one line */
    uint64_t reserved[4];
};

/* ---- Client ------------------------------------------------------------------------------------------------------ */

struct tally_options {
    const char *endpoint;      /* NULL: TALLY_ENDPOINT, else http://127.0.0.1:9324. http://, https:// or unix:/PATH */
    const char *region;        /* NULL: AWS_REGION, else AWS_DEFAULT_REGION, else us-east-1 */
    const char *access_key_id; /* NULL: AWS_ACCESS_KEY_ID. Neither: requests are not signed */
    const char *secret_access_key; /* NULL: AWS_SECRET_ACCESS_KEY */
    const char *session_token;     /* NULL: AWS_SESSION_TOKEN, else none */
    unsigned attempts_max;         /* how often one call is tried, the first time included; 0: 6 */
    unsigned timeout_ms;           /* for one try, long poll included; 0: 60,000 */
    bool repeats_sends; /* repeat sends too when the answer was lost: at least once instead of at most once */
    /* PEM: who is trusted to vouch for an https:// server. NULL: TALLY_CA_FILE, else the system's */
    const char *ca_file;
    /* What this client calls itself, 1 to 128 characters of printable ASCII: whoever asks Tally who has a message that
     * it received is told so (X-Tally-Worker). NULL: nothing */
    const char *worker;
    uint64_t reserved[8];
};

/* The most characters of such a name. */
#define TALLY_WORKER_SIZE_MAX 128

/* Makes a client; connects to nothing yet. Copies what `options` points to; NULL: all defaults. Requests are signed
 * with AWS Signature Version 4 (service sqs) when both keys are known. Errors, in order: TALLY_INVALID if the endpoint
 * is no http://, https:// or unix: address, if only one of the keys is known, or if `worker` can't be sent. The caller
 * ends the client with tally_client_destroy(). `error` may be NULL. Any thread. */
enum tally_status tally_client_create(const struct tally_options *options, struct tally_client **client,
                                      struct tally_error *error);

/* Closes the connection and frees the client; NULL is allowed. Replies taken from it stay valid. */
void tally_client_destroy(struct tally_client *client);

/* What the last call on this client came to. Borrowed until the next call. */
const struct tally_error *tally_client_error(const struct tally_client *client);

/* The endpoint in use, without a slash at its end. Borrowed for the life of the client. */
const char *tally_client_endpoint(const struct tally_client *client);

/* Ends the call in progress, and any later one at once, with TALLY_INTERRUPTED, until tally_client_resume(). What the
 * call asked for may still be carried out by the server. Any thread; not from a signal handler. */
void tally_client_interrupt(struct tally_client *client);

/* Takes an interrupt back. The client's own thread. */
void tally_client_resume(struct tally_client *client);

/* ---- Any action -------------------------------------------------------------------------------------------------- */

struct tally_reply {
    int http_status;
    char *body_owned;              /* as it came, with a closing NUL; "" where the action answers nothing */
    size_t body_size;              /* bytes, without the NUL */
    struct yyjson_doc *json_owned; /* the body parsed; NULL where it is empty */
    uint64_t reserved[2];
};

/* Calls any action. `target` is the value of X-Amz-Target ("AmazonSQS.SendMessage", "Tally.CreateBatch"); `body` is a
 * JSON object, NULL for {}. `reply` may be NULL; otherwise the caller ends it with tally_reply_deinit().
 * Repeated after a lost answer are the actions that are known to be idempotent: of SQS all but sends, PurgeQueue,
 * AddPermission, RemovePermission and the move tasks, and sends too whose messages all have a MessageDeduplicationId or
 * a Tally.Producer; of Tally's all but Commit, ReleaseGroup, DeletePool, UpdateTicket, ConfirmMatch and a CreateBatch
 * that names no BatchId. Note that after such a repeat CompleteUnits and SealBatch answer `Completed` false although
 * this client's request may have been the one that completed the batch, and FailMessage may answer that the handle is
 * spent although it was this client that failed it.
 * Errors: every status but TALLY_INVALID. TALLY_GARBLED is also an answer without x-amzn-RequestId, once the server has
 * given that to this client. */
enum tally_status tally_call(struct tally_client *client, const char *target, const char *body,
                             struct tally_reply *reply);

/* Frees what a reply owns and zeroes it; a zeroed one is allowed. */
void tally_reply_deinit(struct tally_reply *reply);

/* ---- Queues ------------------------------------------------------------------------------------------------------ */

struct tally_pair {
    const char *name;
    const char *value;
};

/* Creates a queue, or finds one that exists with the same values of the given attributes (with none: always). `url`,
 * unless NULL, receives its URL; the caller frees it with free(). Errors: TALLY_REFUSED with QueueNameExists,
 * QueueDeletedRecently (Amazon SQS; Tally where it is told to keep that rule), InvalidAttributeName,
 * InvalidAttributeValue, InvalidParameterValueException. */
enum tally_status tally_queue_create(struct tally_client *client, const char *name, const struct tally_pair *attributes,
                                     size_t attribute_count, char **url);

/* The URL of a queue by name; the caller frees it with free(). Errors: TALLY_REFUSED with QueueDoesNotExist. */
enum tally_status tally_queue_url(struct tally_client *client, const char *name, char **url);

/* Deletes a queue and what it holds. Errors: TALLY_REFUSED with QueueDoesNotExist, and with QueueInUse while a batch
 * will send its completion message there. */
enum tally_status tally_queue_delete(struct tally_client *client, const char *queue);

/* Deletes what a queue holds now and keeps the queue. Errors: TALLY_REFUSED with QueueDoesNotExist, and with
 * PurgeQueueInProgress for 60 s after another purge (Amazon SQS; Tally where it is told to keep that rule). */
enum tally_status tally_queue_purge(struct tally_client *client, const char *queue);

struct tally_queue_counts {
    uint64_t visible;
    uint64_t in_flight;
    uint64_t delayed;
    uint64_t reserved[5];
};

/* Stops deliveries from a queue, and lets them go on. Sends are taken meanwhile, and messages in flight may be
 * finished. Idempotent, durable. Errors: TALLY_REFUSED with QueueDoesNotExist. Tally's own: PauseQueue, ResumeQueue. */
enum tally_status tally_queue_pause(struct tally_client *client, const char *queue);
enum tally_status tally_queue_resume(struct tally_client *client, const char *queue);

/* How many messages a queue holds. Exact on Tally, approximate on Amazon SQS. Errors: TALLY_REFUSED with
 * QueueDoesNotExist. */
enum tally_status tally_queue_count(struct tally_client *client, const char *queue, struct tally_queue_counts *counts);

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

struct tally_attribute {
    const char *name;
    const char *type;  /* "String", "Number" or "Binary", with an optional ".label"; NULL: "String" */
    const char *value; /* text; of a Binary, base64 */
};

struct tally_outgoing {
    const char *body; /* 1 byte to 1 MiB of UTF-8 */
    /* at most 10; on Tally, traceparent, tracestate and baggage (the context of a trace) are not counted */
    const struct tally_attribute *attributes;
    size_t attribute_count;
    const char *batch_id; /* Tally: makes the message a unit of this batch (attribute Tally.Batch); NULL: none */
    const char *group_id; /* MessageGroupId; NULL: none */
    const char *deduplication_id; /* MessageDeduplicationId; NULL: none */
    bool has_delay;               /* false: the queue's own delay */
    unsigned delay_s;             /* 0 to 900 */
    /* Tally's own, each sent as one of the message's attributes, which with `attributes` and batch_id are at most
     * 10: */
    /* name of a numbered producer, with `sequence` (Tally.Producer, Tally.Sequence); NULL: none */
    const char *producer;
    uint64_t sequence; /* 0 to 2^63 - 1; not above the producer's last one to this queue: a duplicate */
    bool has_priority; /* false: 4 */
    unsigned priority; /* 0 to 9, 9 first; between groups, never inside a FIFO group (Tally.Priority) */
    const char *type;  /* for type orders (Tally.Type); NULL: none */
    const char *after; /* deliver it only when these have ended well: a list with commas of message:<MessageId>,
                           * batch:<BatchId>, dedup:<queue name>/<MessageDeduplicationId> (Tally.After); NULL: none */
    /* when one of them has not: "cancel", "run" or "hold" (Tally.AfterFailure); NULL: cancel */
    const char *after_failure;
    uint64_t reserved[8];
};

#define TALLY_MESSAGE_ID_SIZE 101 /* characters of a message id with its NUL */

/* Sends a message; when it returns TALLY_OK the message is durable. `id`, unless NULL, receives its message id; of a
 * duplicate the first message's, or "" where a numbered producer's message is too old to be known, or there was none of
 * that number. With a deduplication id or a producer a lost answer is asked for again, because the server knows the
 * repeat (with a DeduplicationWindow of 0 on the queue it would not: then give no id). Otherwise nothing is repeated
 * unless tally_options.repeats_sends says so. Errors, in order: TALLY_INVALID if something is not UTF-8 or the body is
 * NULL; TALLY_UNREACHABLE, where is_outcome_unknown says that the message may be in the queue all the same;
 * TALLY_REFUSED with QueueDoesNotExist, InvalidMessageContents, InvalidParameterValueException (size, delay,
 * attributes), MissingRequiredParameterException (a FIFO queue without a group), BatchDoesNotExist, BatchSealed,
 * BatchTotalExceeded, DependencyDoesNotExist, DependencyCycle, DependencyTooDeep. */
enum tally_status tally_send(struct tally_client *client, const char *queue, const struct tally_outgoing *message,
                             char id[TALLY_MESSAGE_ID_SIZE]);

#define TALLY_SEND_BATCH_MAX 10
#define TALLY_SEQUENCE_NUMBER_SIZE 40 /* characters of a SequenceNumber with its NUL */

struct tally_sent {
    bool is_sent;
    char id[TALLY_MESSAGE_ID_SIZE];                   /* if sent */
    char code[96];                                    /* if not sent: the error's code … */
    char message[256];                                /* … and text */
    char sequence_number[TALLY_SEQUENCE_NUMBER_SIZE]; /* SequenceNumber, decimal digits: the place in the queue's order;
                                                       * "": not a FIFO queue */
    bool is_duplicate; /* Tally: it was there; nothing was sent, and id and sequence_number are the first one's */
    /* Of a duplicate because of its producer's numbers, 0 and false of any other: */
    uint64_t last_sequence; /* the highest number that the producer has used in this queue */
    bool was_passed_over;   /* no message ever had this number, and none can have it any more: id is "" */
    uint64_t reserved[4];
};

/* tally_send(), and everything that the server says of it; sent->is_sent is true when it returns TALLY_OK. */
enum tally_status tally_send_one(struct tally_client *client, const char *queue, const struct tally_outgoing *message,
                                 struct tally_sent *sent);

/* Sends 1 to 10 messages in one request, stored in their order; together they may have 1 MiB. Each may succeed or fail
 * by itself: sent[i] says so, and TALLY_OK means only that the request as a whole was taken.
 * Errors: as tally_send() for faults of the whole request; TALLY_INVALID also if `count` is out of range. */
enum tally_status tally_send_batch(struct tally_client *client, const char *queue,
                                   const struct tally_outgoing *messages, size_t count, struct tally_sent *sent);

struct tally_receive_options {
    unsigned max;          /* messages, 1 to 10; 0: 1 */
    bool has_wait;         /* false: the queue's own waiting time */
    unsigned wait_s;       /* how long to wait for a first message: 0 to 20 */
    bool has_visibility;   /* false: the queue's own visibility timeout */
    unsigned visibility_s; /* how long the messages are hidden from others: 0 to 43,200 */
    /* ReceiveRequestAttemptId, FIFO queues only: the same one again within 5 minutes gives the same messages under the
     * same handles, if they are still held; NULL: none */
    const char *attempt_id;
    uint64_t reserved[4];
};

struct tally_message {
    const char *id;
    const char *body;
    size_t body_size; /* bytes, without the NUL */
    const char *receipt_handle;
    const struct tally_attribute *attributes; /* as the sender set them, in the order of the answer */
    size_t attribute_count;
    uint64_t receive_count; /* this one included */
    uint64_t sent_at_ms;    /* since the epoch; 0 where the server did not say */
    uint64_t fencing_token; /* Tally: grows with every delivery in the namespace; 0: the server did not say. Hand it to
                             * whatever you write to, and let that refuse one below the highest it has seen */
    const char *failure_reason;  /* Tally: why the newest failed attempt failed; NULL: none has, or it gave no reason */
    const char *group_id;        /* MessageGroupId; NULL: none */
    const char *sequence_number; /* SequenceNumber, decimal digits; NULL: not a FIFO queue */
    const char *deduplication_id; /* MessageDeduplicationId; NULL: none */
    /* DeadLetterQueueSourceArn: the queue that it was given up in; NULL: it is no dead letter */
    const char *dead_letter_source;
    uint64_t reserved[8];
};

struct tally_messages {
    struct tally_message *items_owned; /* NULL: none */
    size_t count;
    struct tally_reply reply_owned; /* what the strings of the items point into */
    uint64_t reserved[2];
};

/* How a worker makes an effect happen once, though messages are delivered at least once: in one transaction of the
 * store,
 *     INSERT INTO inbox (message_id) VALUES (id)      -- there already: it has happened, change nothing and delete
 *     UPDATE account SET …, token = fencing_token     -- no row: another worker has gone on; roll back, do not delete
 *      WHERE id = … AND token < fencing_token
 * and tally_delete() behind its commit. The token is for what one group of a FIFO queue writes to.
 * docs/explanation/guarantees.md says why; examples/exactly-once runs it. */

/* Receives messages: each is hidden from other receivers until its visibility timeout has passed; delete it when the
 * work is done. TALLY_OK with count 0 means that none came in time. The caller ends `messages` with
 * tally_messages_deinit(). `options` may be NULL. Errors: TALLY_REFUSED with QueueDoesNotExist, OverLimit,
 * InvalidParameterValueException. */
enum tally_status tally_receive(struct tally_client *client, const char *queue,
                                const struct tally_receive_options *options, struct tally_messages *messages);

/* Frees what a receive handed out and zeroes it; a zeroed one is allowed. */
void tally_messages_deinit(struct tally_messages *messages);

/* The value of a message's attribute, or NULL. Borrowed as long as the message. */
const char *tally_message_attribute(const struct tally_message *message, const char *name);

/* Deletes a message that was received: its work is done, and a batch it belongs to counts it as succeeded. Idempotent.
 * A handle that is not the newest of its message deletes it on a standard queue too, unless the queue's
 * Tally.StaleReceipts is refuse. On a FIFO queue it does not, and a handle ends with its lease, too. Errors:
 * TALLY_REFUSED with QueueDoesNotExist, ReceiptHandleIsInvalid (none of this queue; not the newest, and refused),
 * InvalidParameterValueException (a FIFO queue's message whose lease is over). */
enum tally_status tally_delete(struct tally_client *client, const char *queue, const char *receipt_handle);

/* Hides a received message for `visibility_s` more seconds from now (0: gives it back at once): the heartbeat of a
 * worker. 0 to 43,200, and not beyond 12 hours after the receive. With a handle that is not the newest it is the lease
 * of whoever has the message now, where tally_delete() would delete; while a failed attempt backs off it is refused.
 * Errors: TALLY_REFUSED with QueueDoesNotExist, ReceiptHandleIsInvalid, InvalidParameterValueException. */
enum tally_status tally_change_visibility(struct tally_client *client, const char *queue, const char *receipt_handle,
                                          unsigned visibility_s);

/* What is said of an attempt that failed; all zeros: its queue's Tally.Backoff says when the message comes again (where
 * it has none, after 1 s, 2 s, 4 s and so on up to 15 minutes, less or more by a fifth), its RedrivePolicy how
 * often. */
struct tally_failure {
    const char *reason; /* at most 1,024 bytes; kept with the message. NULL: none */
    bool is_final;      /* give the message up */
    bool has_retry_after;
    unsigned retry_after_s; /* it comes again so much later, whatever its queue says: 0 to 43,200 */
    unsigned attempts_max;  /* give it up at this one, or earlier if its queue says so: 1 to 1,000; 0: as that says */
    const char *dead_letter_queue; /* where it goes when it is given up; NULL: as its queue says */
    uint64_t reserved[4];
};

/* What that led to. */
struct tally_failed {
    char outcome[16]; /* "returned", "dead-lettered", "dropped", "held" (with its group), or "ignored": it had ended */
    uint64_t attempt; /* that failed, from 1; 0: not told */
    uint64_t attempts_max; /* how many there are; 0: any number */
    double retry_after_s;  /* "returned": when it comes again */
    char queue[81];        /* "dead-lettered": where it is, if the caller may know; "" */
    uint64_t reserved[4];
};

/* Ends this attempt now, in failure. Given up, a message goes to the dead-letter queue (dropped where there is none),
 * or its group does what the queue's Tally.OnGroupFailure says. `failed` may be NULL. A message that has ended is no
 * error ("ignored"), nor, on a standard queue, the same call once more ("returned"). Errors: TALLY_REFUSED with
 * QueueDoesNotExist, ReceiptHandleIsInvalid (none of this queue, or not the newest), InvalidParameterValueException
 * (its lease is over; a number or reason out of range; a dead-letter queue that does not fit). Tally's own:
 * FailMessage. */
enum tally_status tally_fail_attempt(struct tally_client *client, const char *queue, const char *receipt_handle,
                                     const struct tally_failure *failure, struct tally_failed *failed);

/* The same with a reason (NULL: none) and `is_final` alone. */
enum tally_status tally_fail(struct tally_client *client, const char *queue, const char *receipt_handle,
                             const char *reason, bool is_final);

/* Why a message is not delivered, or where it is. */
struct tally_explanation {
    char state[16];             /* "ready", "delayed", "in-flight", "blocked", "held", "ended" or "unknown" */
    const char **reasons_owned; /* for people, one sentence each, the nearest cause first; NULL: none */
    size_t reason_count;
    struct tally_reply reply_owned; /* what the reasons point into; its `Why` has the same in fields */
    uint64_t reserved[2];
};

/* Explains a message. The caller ends `explanation` with tally_explanation_deinit(). One that the server does not
 * know is "unknown", which is no error. Errors: TALLY_REFUSED with QueueDoesNotExist, InvalidParameterValueException.
 * Tally's own: ExplainMessage. */
enum tally_status tally_explain(struct tally_client *client, const char *queue, const char *message_id,
                                struct tally_explanation *explanation);

/* Frees what an explanation owns and zeroes it; a zeroed one is allowed. */
void tally_explanation_deinit(struct tally_explanation *explanation);

/* ---- Groups: Tally's own ----------------------------------------------------------------------------------------- */

struct tally_group {
    const char *id;              /* MessageGroupId */
    const char *state;           /* "held", "busy", "ready" or "paused" */
    const char *reason;          /* for people, in a sentence: why it is not ready; NULL: it is, or nothing is known */
    const char *head_message_id; /* the message whose turn it is; NULL: it has none */
    uint64_t messages;           /* that have not ended, those in flight included */
    uint64_t in_flight;
    double since;   /* seconds since the epoch; 0: not known */
    bool is_paused; /* also beside "held" */
    uint64_t reserved[4];
};

struct tally_groups {
    struct tally_group *items_owned; /* NULL: none */
    size_t count;
    const char *next_token;         /* for the next page; NULL: this was the last */
    struct tally_reply reply_owned; /* what the strings point into */
    uint64_t reserved[2];
};

/* A page of at most 1,000 groups of a queue. `state`: only those in this state; NULL: all. `token`: next_token of the
 * page before; NULL: the first page. The caller ends `groups` with tally_groups_deinit(). Errors: TALLY_REFUSED with
 * QueueDoesNotExist, InvalidParameterValueException. ListGroups. */
enum tally_status tally_groups(struct tally_client *client, const char *queue, const char *state, const char *token,
                               struct tally_groups *groups);

/* Frees what a page owns and zeroes it; a zeroed one is allowed. */
void tally_groups_deinit(struct tally_groups *groups);

enum tally_release {
    TALLY_RELEASE_RETRY,       /* the head gets a fresh set of attempts */
    TALLY_RELEASE_SKIP,        /* the head goes to the dead-letter queue, or is dropped where there is none */
    TALLY_RELEASE_CANCEL_REST, /* the same, and what stands behind it now is cancelled */
};

/* Lets a held group go on. Not repeated after a lost answer: GroupNotHeld then may mean that it was released.
 * Errors: TALLY_REFUSED with QueueDoesNotExist, GroupNotHeld. ReleaseGroup. */
enum tally_status tally_group_release(struct tally_client *client, const char *queue, const char *group_id,
                                      enum tally_release action);

/* Stops deliveries from one group, and lets them go on; as tally_queue_pause(). A group need not exist to be paused.
 * Errors: TALLY_REFUSED with QueueDoesNotExist, InvalidParameterValueException. PauseGroup, ResumeGroup. */
enum tally_status tally_group_pause(struct tally_client *client, const char *queue, const char *group_id);
enum tally_status tally_group_resume(struct tally_client *client, const char *queue, const char *group_id);

/* ---- Commit: Tally's own ----------------------------------------------------------------------------------------- */

#define TALLY_COMMIT_DELETES_MAX 10
#define TALLY_COMMIT_SENDS_MAX 10
#define TALLY_COMMIT_UNITS_MAX 100
#define TALLY_COMMIT_HOLDS_MAX 10
#define TALLY_COMMIT_ADDITIONS_MAX 10

/* A message to delete; or, among the holds, one whose lease must be live, and stays. */
struct tally_commit_delete {
    const char *queue;
    const char *receipt_handle;
};

struct tally_commit_send {
    const char *queue;
    struct tally_outgoing message;
    uint64_t reserved[2];
};

struct tally_commit_unit {
    const char *batch_id;
    const char *key;
    bool is_failed;     /* false: succeeded */
    const char *detail; /* kept with the unit; NULL: none */
    uint64_t reserved[2];
};

/* External units that a batch gets: as tally_batch_add(), or with `keys` NULL as tally_batch_add_count(). */
struct tally_commit_addition {
    const char *batch_id;
    const char *const *keys;
    size_t count;
    uint64_t reserved[2];
};

struct tally_commit {
    const struct tally_commit_delete *deletes;
    size_t delete_count; /* 0 to 10 */
    const struct tally_commit_send *sends;
    size_t send_count; /* 0 to 10 */
    const struct tally_commit_unit *units;
    size_t unit_count; /* 0 to 100 */
    const struct tally_commit_delete *holds;
    size_t hold_count; /* 0 to 10 */
    const struct tally_commit_addition *additions;
    size_t addition_count; /* 0 to 10 */
    uint64_t reserved[8];
};

struct tally_committed_unit {
    bool is_recorded;  /* false: the unit had ended before */
    bool is_completed; /* this commit completed its batch */
    uint64_t reserved[2];
};

/* Deletes, sends and counts in one record: all of it or nothing. So a worker that turns a message into others can
 * neither lose nor repeat them: if its delete counts, its sends do. Where a delete, a hold or a unit names a unit of a
 * batch that has not ended, sends and additions may join that batch though it is sealed. `sent` and `ended`, unless
 * NULL, have as many places as there are sends and units and receive what became of each; a duplicate, or a unit that
 * had ended before, is no error. Not repeated after a lost answer (TALLY_UNREACHABLE, is_outcome_unknown): if nothing
 * was done, the message to delete comes back by its visibility timeout, and the work is done again from there. Errors:
 * TALLY_INVALID if a count is out of range or a body NULL; TALLY_REFUSED with the errors of tally_send() and
 * tally_batch_complete(), and with ReceiptHandleIsInvalid (not the newest handle of a message that is there: another
 * worker has it, or it has ended). Whatever the server refuses, nothing was done. Commit. */
enum tally_status tally_commit(struct tally_client *client, const struct tally_commit *commit, struct tally_sent *sent,
                               struct tally_committed_unit *ended);

/* ---- Batches: Tally's own ---------------------------------------------------------------------------------------- */

/* A message that a batch sends when something happens to it. */
struct tally_target {
    const char *queue;
    /* NULL: {"batch", "status", "total", "succeeded", "failed", "cancelled", "createdAt", "completedAt"} */
    const char *body;
    const char *group_id; /* NULL: none */
    uint64_t reserved[4];
};

struct tally_batch_options {
    const char *id;       /* NULL: a random one */
    const char *tracking; /* "exact" or "xor"; NULL: exact */
    const char *parent;   /* batch id; NULL: none */
    bool has_total;
    uint64_t total;                         /* the batch seals itself when it has so many units */
    const struct tally_target *on_complete; /* each NULL: none */
    const struct tally_target *on_success;
    const struct tally_target *on_first_failure;
    uint64_t expires_after_s; /* 0: 14 days */
    bool has_retention;
    uint64_t retention_s; /* how long it is remembered after its completion */
    uint64_t reserved[8];
};

#define TALLY_BATCH_ID_SIZE 129 /* characters of a batch id with its NUL */

/* Creates a batch; the same id with the same options again finds it. `id`, unless NULL, receives its id.
 * Errors: TALLY_REFUSED with BatchAlreadyExists (same id, other options), BatchDoesNotExist or BatchSealed (the
 * parent), QueueDoesNotExist (a target's), InvalidParameterValueException. */
enum tally_status tally_batch_create(struct tally_client *client, const struct tally_batch_options *options,
                                     char id[TALLY_BATCH_ID_SIZE]);

struct tally_added {
    uint64_t added; /* units that were new */
    uint64_t total; /* units of the batch now */
    uint64_t reserved[2];
};

/* Registers external units by key. A key that the batch has already adds nothing. Sends 1,000 keys a request; when a
 * later request fails, the earlier ones hold, and calling again is harmless. `added` may be NULL.
 * Errors: TALLY_REFUSED with BatchDoesNotExist, BatchSealed, BatchTotalExceeded. BatchSealed may also mean that the
 * batch had its Total by a try of this very call whose answer was lost: tally_batch_describe() tells. O(count). */
enum tally_status tally_batch_add(struct tally_client *client, const char *batch_id, const char *const *keys,
                                  size_t count, struct tally_added *added);

/* Registers the units "0" to "count - 1". Errors and repeats as tally_batch_add(). */
enum tally_status tally_batch_add_count(struct tally_client *client, const char *batch_id, uint64_t count,
                                        struct tally_added *added);

struct tally_unit_end {
    const char *key;
    bool is_failed;     /* false: succeeded */
    const char *detail; /* kept with the unit; NULL: none */
};

struct tally_completed {
    uint64_t remaining; /* units that have not ended */
    bool is_completed;  /* this request completed the batch; see tally_call() for repeats */
    uint64_t reserved[2];
};

/* Ends external units. A unit that had ended before keeps its outcome: recorded[i] is false for it; `recorded` (of
 * `count` places) and `completed` may be NULL. Sends 1,000 units a request, as tally_batch_add() does.
 * Errors: TALLY_REFUSED with BatchDoesNotExist, UnitDoesNotExist (of that request nothing is recorded). O(count). */
enum tally_status tally_batch_complete(struct tally_client *client, const char *batch_id,
                                       const struct tally_unit_end *ends, size_t count, bool *recorded,
                                       struct tally_completed *completed);

/* Says that no more units will come: the batch completes when all have ended. Idempotent. `completed` may be NULL.
 * Errors: TALLY_REFUSED with BatchDoesNotExist. */
enum tally_status tally_batch_seal(struct tally_client *client, const char *batch_id,
                                   struct tally_completed *completed);

/* Cancels the units that have not ended and completes the batch with status `cancelled`. Idempotent.
 * Errors: TALLY_REFUSED with BatchDoesNotExist. */
enum tally_status tally_batch_cancel(struct tally_client *client, const char *batch_id);

/* Forgets a completed batch. Errors: TALLY_REFUSED with BatchDoesNotExist, BatchNotCompleted. */
enum tally_status tally_batch_delete(struct tally_client *client, const char *batch_id);

struct tally_batch {
    char id[TALLY_BATCH_ID_SIZE];
    char state[16];  /* "open", "sealed" or "completed" */
    char status[16]; /* "succeeded", "failed", "cancelled" or "expired"; "" until it has completed */
    uint64_t total;
    uint64_t succeeded;
    uint64_t failed;
    uint64_t cancelled;
    uint64_t remaining;
    double created_at; /* seconds since the epoch; the others 0 until it has happened */
    double sealed_at;
    double completed_at;
    char completion_message_id[TALLY_MESSAGE_ID_SIZE]; /* "" where there is none */
    uint64_t reserved[8];
};

/* What a batch is at now. Errors: TALLY_REFUSED with BatchDoesNotExist. */
enum tally_status tally_batch_describe(struct tally_client *client, const char *batch_id, struct tally_batch *batch);

struct tally_unit {
    const char *key;
    const char *state;      /* "outstanding", "succeeded", "failed" or "cancelled" */
    const char *message_id; /* NULL: an external unit */
    const char *detail;     /* NULL: none */
    uint64_t reserved[4];
};

struct tally_units {
    struct tally_unit *items_owned; /* NULL: none */
    size_t count;
    const char *next_token;         /* for the next page; NULL: this was the last */
    struct tally_reply reply_owned; /* what the strings point into */
    uint64_t reserved[2];
};

/* A page of at most 1,000 units of a batch. `state`: only those in this state; NULL: all. `token`: next_token of the
 * page before; NULL: the first page. The caller ends `units` with tally_units_deinit().
 * Errors: TALLY_REFUSED with BatchDoesNotExist, InvalidParameterValueException. */
enum tally_status tally_batch_units(struct tally_client *client, const char *batch_id, const char *state,
                                    const char *token, struct tally_units *units);

/* Frees what a page owns and zeroes it; a zeroed one is allowed. */
void tally_units_deinit(struct tally_units *units);

/* ---- Pools: Tally's own ------------------------------------------------------------------------------------------ */

#define TALLY_MATCH_ID_SIZE 37 /* characters of a match id with its NUL */

/* A ticket to be offered to a pool. */
struct tally_ticket {
    const char *id;
    const char *attributes; /* JSON object; NULL: none */
    const char *need;       /* JSON object; NULL: none */
    unsigned weight;        /* 0: 1 */
    unsigned priority;      /* 0 to 9, 9 first */
    bool has_ttl;
    uint64_t ttl_s;            /* 0: none; else the pool's, if it is not given */
    const char *exclusive_set; /* NULL: none */
    const char *body;          /* NULL: none */
    uint64_t reserved[6];
};

struct tally_offered {
    char status[16]; /* "waiting", "matched", "held", "cancelled", "expired", "invalid", "key-reused" */
    char match_id[TALLY_MATCH_ID_SIZE]; /* "": none */
    uint64_t version;
    bool was_offered; /* it had been before: nothing was done */
    char why[400];    /* of "invalid" */
    uint64_t reserved[4];
};

/* Offers tickets, 1,000 a request; `offered`, of `count` places, may be NULL. Doing it again is harmless, so after an
 * error the whole call may be repeated. Errors: TALLY_INVALID where attributes or need are no JSON; TALLY_REFUSED with
 * PoolDoesNotExist. */
enum tally_status tally_pool_offer(struct tally_client *client, const char *pool, const struct tally_ticket *tickets,
                                   size_t count, struct tally_offered *offered);

struct tally_member {
    const char *ticket; /* id */
    uint64_t version;
};

struct tally_proposal {
    const char *id; /* of this attempt: the same again is answered the same */
    const struct tally_member *members;
    size_t member_count;
    uint64_t rules_version; /* 0: not checked */
    const char *body;       /* goes into the match's message; NULL: none */
    uint64_t reserved[4];
};

struct tally_proposed {
    char status[16]; /* "matched", "conflict", "stale", "invalid", "key-reused", "result-full" */
    char match_id[TALLY_MATCH_ID_SIZE];
    char why[400];
    uint64_t reserved[4];
};

/* Proposes matches, 100 a request, each by itself; `proposed` has `count` places. A status is no error of the call.
 * Errors: TALLY_REFUSED with PoolDoesNotExist. */
enum tally_status tally_pool_propose(struct tally_client *client, const char *pool,
                                     const struct tally_proposal *proposals, size_t count,
                                     struct tally_proposed *proposed);

/* Something that happened to a ticket; of tally_pool_tickets() a ticket that waits. */
struct tally_feed_event {
    uint64_t sequence;
    const char *type;        /* "offer", "retire", "widen" or "rules" */
    const char *ticket;      /* id; NULL of "rules" */
    uint64_t version;        /* of "offer" */
    unsigned level;          /* of "offer" and "widen" */
    const char *reason;      /* of "retire": "match", "cancel", "ttl", "hold"; else NULL */
    const char *match_id;    /* of "retire"; NULL: none */
    struct yyjson_val *json; /* the whole event, for <yyjson.h> */
    uint64_t reserved[4];
};

struct tally_feed {
    struct tally_feed_event *items_owned;
    size_t count;
    uint64_t next; /* what to read from the next time */
    /* the feed doesn't reach back so far: read all of tally_pool_tickets(), then go on at `next` */
    bool must_read_tickets;
    const char *next_token;         /* of tally_pool_tickets(): for the next page; NULL: this was the last */
    struct tally_reply reply_owned; /* what the strings point into */
    uint64_t reserved[4];
};

/* A `from` that no feed comes to: the answer only says where it stands, as `next`, and that the tickets must be
 * read. */
#define TALLY_FEED_NOW ((uint64_t)INT64_MAX)

/* What happened in a pool from event number `from` on (0: from the first there was), waiting up to `wait_s` seconds (0
 * to 20) for something. The caller ends it with tally_feed_deinit(). Errors: TALLY_REFUSED with PoolDoesNotExist. */
enum tally_status tally_pool_feed(struct tally_client *client, const char *pool, uint64_t from, unsigned wait_s,
                                  struct tally_feed *feed);

/* A page of the tickets that wait. `token`: next_token of the page before; NULL: the first page. The rest as
 * tally_pool_feed(). */
enum tally_status tally_pool_tickets(struct tally_client *client, const char *pool, const char *token,
                                     struct tally_feed *tickets);

/* Frees what an answer owns and zeroes it; a zeroed one is allowed. */
void tally_feed_deinit(struct tally_feed *feed);

#ifdef __cplusplus
}
#endif

#endif
