/* Decisions (docs/architecture.md, "Decide and apply"). Accepting a message. */
#ifndef TALLY_CORE_MESSAGES_DECIDE_SEND_H
#define TALLY_CORE_MESSAGES_DECIDE_SEND_H

#include "core/batches/decide_batch.h"
#include "core/core.h"
#include "core/identity.h"
#include "core/order/dependency.h"

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

/* What a send must know of the others in its Commit. */
struct commit_context {
    uint64_t units;    /* that its batch must have room for: its own, and those of earlier ones */
    uint32_t failures; /* of earlier ones that may end at once: for each the oldest failure may be forgotten */
    bool is_checked;   /* no cycle is searched for */
    const struct create_batch_command *made; /* its batch is not there yet: the same Commit makes it; else NULL */
};

/* For Commit: the same checks, with nothing done, as they will be when its turn comes. And the send of what was
 * checked, once others have been accepted since, or can close no cycle: none is searched for. */
enum error decide_check_send(const struct core *core, const struct send_command *command,
                             const struct commit_context *context, struct send_result *result);
enum error decide_send_checked(struct core *core, const struct send_command *command, struct send_result *result);

#endif
