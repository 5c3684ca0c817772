/* Dependencies: "this message after those". A message or a batch that something waits for has an antecedent record; an edge
 * joins it to each message that waits (a dependent). When the antecedent ends, its record takes the outcome and stands in the
 * list of those to be resolved; its edges are then told in portions by logged `resolved` events, so that one end never holds
 * up the server however many wait (invariants D2, D7, D8).
 *
 * The outcome of a message that has ended is derived, not stored: ids contain the message's number, and a number that is
 * neither alive nor among the remembered failures succeeded (D5). What is older than the oldest failure forgotten is unknown
 * (D4). Batches leave a small record. */
#ifndef TALLY_CORE_DEPENDENCY_H
#define TALLY_CORE_DEPENDENCY_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/table.h"
#include "core/ledger.h"
#include "core/place.h"

struct core;
struct core_writer;

/* The numbers stand in the log. */
enum antecedent_kind { ANTECEDENT_MESSAGE = 1, ANTECEDENT_BATCH = 2 };

struct dependencies {
    struct pool antecedents;
    struct table by_number; /* (kind, number) -> antecedent */
    struct pool edges;
    struct list resolving; /* antecedents that have ended and still have edges, oldest first */
    struct pool failures;  /* messages that ended badly, by number */
    struct table failure_by_number;
    uint32_t oldest_failure;
    uint32_t newest_failure;
    uint64_t forgotten_number; /* outcomes of messages up to this number are forgotten */
    struct pool batch_outcomes;
    struct table batch_outcome_by_id;
    uint32_t oldest_batch_outcome;
    uint32_t newest_batch_outcome;
};

void dependency_init(struct dependencies *dependencies);
void dependency_deinit(struct dependencies *dependencies);

/* What a new message is to wait for, looked up. */
struct dependency_plan {
    struct buffer waits; /* for EVENT_WAITED; deinit it */
    uint32_t count;
    bool is_unmet; /* one of them did not succeed and the policy is to cancel: the message ends at once */
};

struct batch;
struct send_command;
struct send_result;

/* Looks up the antecedents of a message, and whether it would wait for itself; `batch` is the one that it joins, or NULL.
 * Errors: ERROR_DEPENDENCY_DOES_NOT_EXIST, ERROR_DEPENDENCY_CYCLE, ERROR_DEPENDENCY_TOO_DEEP, with result->failed and
 * result->path. Fills *plan in any case. */
enum error dependency_plan(const struct core *core, const struct send_command *command, const struct batch *batch,
                           struct dependency_plan *plan, struct send_result *result);

/* For apply: a message ended or was dead-lettered (called while its record still stands), a batch completed, a batch's record
 * is about to go. `outcome` is enum unit_state. */
void dependency_message_ended(struct core *core, uint32_t message, enum unit_state outcome);
void dependency_batch_completed(struct core *core, uint32_t batch);
void dependency_batch_forgotten(struct core *core, uint32_t batch);

/* A message that waits ends: its edges go. */
void dependency_forget_dependent(struct core *core, uint32_t message);

/* Tells up to `portion` dependents, in events; true if more are to be told. For decide_due(). */
bool dependency_resolve(struct core *core, unsigned portion);
bool dependency_is_resolving(const struct core *core);

void dependency_encode(const struct core *core, struct core_writer *writer);
bool dependency_decode(struct core *core, struct cursor *cursor);
void dependency_check(const struct core *core);

#endif
