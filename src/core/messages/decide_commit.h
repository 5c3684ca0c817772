/* Decisions (docs/internals/architecture.md, "Decide and apply"). Several changes at once. */
#ifndef TALLY_CORE_MESSAGES_DECIDE_COMMIT_H
#define TALLY_CORE_MESSAGES_DECIDE_COMMIT_H

#include "core/batches/decide_batch.h"
#include "core/core.h"
#include "core/messages/decide_message.h"
#include "core/messages/decide_send.h"

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

/* A message to delete, or to hold: then its lease stays. */
struct commit_message {
    struct queue *queue;
    struct bytes handle;
    struct receipt_use use; /* result; also for the entry that failed */
};

/* A batch to make, with its id. */
struct commit_child {
    struct create_batch_command command;
    bool is_new; /* result: it did not exist before */
};

struct commit_addition {
    struct bytes batch_id; /* of an existing batch, or of one that this commit makes */
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
    uint64_t size_max; /* how many bytes of events the frame has room for */
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

/* What failed: an entry, or the whole commit. */
struct commit_fault {
    enum commit_part part;
    uint32_t index;
    uint64_t size; /* COMMIT_WHOLE: what it needs */
};

/* Makes batches, adds units, sends, counts and consumes, in this order, in one frame: all of it or, on an error,
 * nothing. A duplicate send is no error. If a delete, a hold or a report names an outstanding unit of a batch, other
 * units may join that batch although it is sealed, and they are added to its Total.
 *
 * Errors, in order: ERROR_RECEIPT_HANDLE_IS_INVALID: not the newest handle of a live message, or, of a hold, one whose
 * lease is over; ERROR_INVALID_PARAMETER_VALUE: two deletes or holds of one message; of the batches those of
 * decide_create_batch(), ERROR_INVALID_PARAMETER_VALUE: two of one id; of the additions ERROR_BATCH_DOES_NOT_EXIST,
 * those of decide_add_units(), ERROR_INVALID_PARAMETER_VALUE: two for one batch; of the sends, those of decide_send(),
 * and ERROR_UNSUPPORTED_OPERATION: with something else of this commit it might wait for itself; of the units, those of
 * decide_complete_units(); ERROR_OVER_LIMIT: needs more than size_max. O(entries^2 + batches they are in). */
enum error decide_commit(struct core *core, struct commit_command *command, struct commit_fault *fault);

#endif
