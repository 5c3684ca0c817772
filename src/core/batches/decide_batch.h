/* Decisions (docs/internals/architecture.md, "Decide and apply"). Batches and their units. */
#ifndef TALLY_CORE_BATCHES_DECIDE_BATCH_H
#define TALLY_CORE_BATCHES_DECIDE_BATCH_H

#include "core/core.h"
#include "core/identity.h"

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

#endif
