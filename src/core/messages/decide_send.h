/* Decisions (docs/internals/architecture.md, "Decide and apply"). Accepting a message. */
#ifndef TALLY_CORE_MESSAGES_DECIDE_SEND_H
#define TALLY_CORE_MESSAGES_DECIDE_SEND_H

#include "core/batches/decide_batch.h"
#include "core/core.h"
#include "core/identity.h"
#include "core/order/dependency.h"

/* An antecedent of a message, as its sender names it. */
struct antecedent_name {
    enum antecedent_name_kind { NAMED_MESSAGE, NAMED_BATCH, NAMED_DEDUPLICATION } kind;
    struct bytes text;  /* MessageId, BatchId, MessageDeduplicationId */
    struct bytes queue; /* NAMED_DEDUPLICATION: the queue's name */
};

struct send_command {
    struct queue *queue;
    struct content content; /* all but the id */
    /* Of a message that comes from elsewhere: by this it is known, for UID_WINDOW_MS whatever its queue's window is,
     * and its deduplication id is only kept. No deduplication id looks like it. Empty: none. */
    struct bytes moved_id;
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

/* By what a repeat of a send is recognised, and for how long. window_ms 0: by nothing. */
struct send_identity {
    struct bytes group; /* in which the id is unique; empty: in the queue */
    struct bytes id;
    uint64_t window_ms; /* WINDOW_EVER_MS: for ever */
};

struct send_identity send_identity_of(const struct send_command *command);

struct send_result {
    uint64_t number; /* 0: a duplicate whose first message is no longer remembered */
    uint8_t id[MESSAGE_ID_SIZE];
    bool is_duplicate;      /* nothing was done: number and id are those of the first one */
    bool is_produced;       /* … only because of its producer's numbers */
    bool was_passed_over;   /* is_produced: no message ever had that number */
    uint64_t sequence_last; /* is_produced: the highest number that the producer has used */
    uint32_t failed;        /* on an error of a dependency: which antecedent */
    bool is_forgotten;      /* ERROR_DEPENDENCY_DOES_NOT_EXIST: the message existed, but its outcome is no longer
                        * remembered */
    uint32_t visits;        /* the work of the search for a cycle, if there was one */
    char path[DEPENDENCY_PATH_SIZE]; /* ERROR_DEPENDENCY_CYCLE: in words, NUL-terminated */
};

/* Accepts a message and, in the same record, makes it a unit of its batch (B19), which seals at its Total.
 * `content.group` and `content.deduplication` have its group and its deduplication id. Duplicates are recognised before
 * any other check. Errors, in order: ERROR_BATCH_DOES_NOT_EXIST, ERROR_BATCH_SEALED, ERROR_BATCH_TOTAL_EXCEEDED;
 * ERROR_DEPENDENCY_DOES_NOT_EXIST, ERROR_DEPENDENCY_CYCLE, ERROR_DEPENDENCY_TOO_DEEP. */
enum error decide_send(struct core *core, const struct send_command *command, struct send_result *result);

/* What a send must know about the other sends in its Commit. */
struct commit_context {
    uint64_t units;    /* how many units its batch must have room for: its own, and those of earlier sends */
    uint32_t failures; /* how many earlier sends may end at once: each may push out the oldest remembered failure */
    bool is_checked;   /* no cycle is searched for */
    const struct create_batch_command *made; /* the same Commit makes its batch, which does not exist yet; else NULL */
};

/* For Commit: makes the same checks in the state that will hold in its turn, and changes nothing. The other function
 * sends what was checked, after other sends were accepted. It searches for no cycle, because none is possible. */
enum error decide_check_send(const struct core *core, const struct send_command *command,
                             const struct commit_context *context, struct send_result *result);
enum error decide_send_checked(struct core *core, const struct send_command *command, struct send_result *result);

#endif
