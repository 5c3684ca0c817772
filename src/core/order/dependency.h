/* Dependencies: "this message after those". A message or a batch for which something waits has an antecedent record. An
 * edge joins it to each message that waits (a dependent). When the antecedent ends, its record keeps the outcome and
 * joins the list of those to be resolved. Logged `resolved` events then tell its dependents in portions. So one end
 * never holds up the server, however many wait (invariants D2, D7, D8).
 *
 * A dependent names its antecedents when it is sent, never later, so the edges of an antecedent are in the order of the
 * dependents' numbers. An edge is removed when its dependent is told, or ends. One kind stays: the antecedent did not
 * succeed, and the dependent's policy is to hold. The edge is marked as told and says why the message is held (D3).
 *
 * The outcome of a message that has ended is derived, not stored: ids contain the message's number, and a number that
 * is neither alive nor among the remembered failures succeeded (D5). An outcome older than the newest forgotten failure
 * is unknown (D4). A batch whose record is deleted leaves an outcome. */
#ifndef TALLY_CORE_ORDER_DEPENDENCY_H
#define TALLY_CORE_ORDER_DEPENDENCY_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/list.h"
#include "core/messages/message_extra.h"
#include "core/order/outcome.h"

struct core;
struct message;

#define DEPENDENCY_PATH_SIZE 512u /* bytes, with a NUL */
#define DEPENDENCY_VISITS_MAX                                                                                          \
    100000u /* how many messages and batches a search for a cycle visits; it may take as many steps to no new one */

/* The numbers are stored in the log. */
enum antecedent_kind { ANTECEDENT_MESSAGE = 1, ANTECEDENT_BATCH = 2 };

struct antecedent {
    uint64_t number;     /* of the message or batch */
    uint32_t first_edge; /* not told yet, in the order in which they came */
    uint32_t last_edge;
    uint32_t untold_count;
    uint32_t first_told; /* edges to messages that this antecedent holds, in no order */
    uint32_t told_count;
    uint8_t kind;    /* enum antecedent_kind */
    uint8_t outcome; /* enum unit_state; outstanding: it has not ended */
    bool is_live;    /* false: a freed slot */
    struct list_link resolving_link;
};

struct edge {
    uint32_t antecedent;
    uint32_t dependent; /* message slot */
    uint32_t prev;      /* of the antecedent: among those not told, or among those told */
    uint32_t next;
    uint32_t dependent_prev; /* of the dependent, ascending by kind and number of the antecedent */
    uint32_t dependent_next;
    bool is_told;
};

struct dependencies {
    struct slab antecedents;
    struct table by_number; /* (kind, number) -> antecedent */
    struct slab edges;
    struct list resolving;          /* antecedents that have ended and still have dependents to tell, oldest first */
    struct outcomes failures;       /* of messages, by number */
    struct outcomes batch_outcomes; /* of batches whose records are deleted, by id */
};

void dependency_init(struct dependencies *dependencies);
void dependency_deinit(struct dependencies *dependencies);

static inline struct antecedent *antecedent_at(const struct dependencies *dependencies, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&dependencies->antecedents, slot);
}

/* May be asked of a freed record. */
POISON_MAY_LOOK static inline bool antecedent_is_used(const struct antecedent *antecedent)
{
    return antecedent->is_live;
}

static inline struct edge *edge_at(const struct dependencies *dependencies, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&dependencies->edges, slot);
}

/* How a batch with a deleted record ended, or NULL. */
const struct outcome *dependency_batch_outcome(const struct core *core, struct bytes id);

/* What the completion of a batch means for its dependents. */
struct batch;
enum unit_state dependency_outcome_of_batch(const struct batch *batch);

/* The antecedent record of a message or batch, or 0. */
uint32_t antecedent_find(const struct dependencies *dependencies, enum antecedent_kind kind, uint64_t number);

/* The same record itself, or NULL. */
static inline const struct antecedent *antecedent_get(const struct dependencies *dependencies,
                                                      enum antecedent_kind kind, uint64_t number)
{
    const uint32_t slot = antecedent_find(dependencies, kind, number);
    return slot == 0 ? NULL : antecedent_at(dependencies, slot);
}

/* --- declaring (dependency_plan.c) -------------------------------------------------------------------------------- */

/* An antecedent of a message, as the `waited` event has it: each once, ascending by kind and number. */
struct antecedent_found {
    enum antecedent_kind kind;
    uint64_t number;
    enum unit_state outcome; /* outstanding: the message waits for it; else it did not succeed and holds the message */
};

/* Bytes of one of them in the event: u8 kind, u64 number, u8 outcome. */
#define WAITED_ENTRY_SIZE 10u

/* The antecedents of a new message, looked up. */
struct dependency_plan {
    struct buffer waits; /* for EVENT_WAITED; deinit it */
    uint32_t count;
    bool is_unmet; /* one of them did not succeed and the policy is to cancel: the message ends at once */
};

struct send_command;
struct send_result;
struct commit_context;

/* Looks up the antecedents of a message. Unless its context says that this was checked, also searches whether it would
 * wait for itself. `batch` is the one that it joins, or NULL. Errors: ERROR_DEPENDENCY_DOES_NOT_EXIST,
 * ERROR_DEPENDENCY_CYCLE, ERROR_DEPENDENCY_TOO_DEEP, with result->failed, result->is_forgotten and result->path. Fills
 * *plan in any case. O(n log n) in the antecedents, and the search. */
enum error dependency_plan(const struct core *core, const struct send_command *command, const struct batch *batch,
                           const struct commit_context *context, struct dependency_plan *plan,
                           struct send_result *result);

/* --- cycles (dependency_cycle.c) ---------------------------------------------------------------------------------- */

/* A new thing: a message, or a batch whose completion message its parent will wait for. */
struct newcomer {
    bool is_batch;
    const struct batch *batch; /* the batch that it joins, which has not completed; NULL: none */
    uint32_t queue;            /* slot; with `group`, the line at whose end the message will be */
    uint32_t group;            /* slot; 0: it is in no line, or alone */
    struct bytes group_id;
    uint32_t type_group;                        /* slot (type_lane.h) */
    uint64_t types_before;                      /* types of messages in that group for which it will wait; 0: none */
    const struct antecedent_found *antecedents; /* its antecedents, ascending by kind and number */
    uint32_t antecedent_count;
    uint32_t *visits; /* counts the messages, batches and useless steps of the search; NULL: not counted */
};

/* Would the new thing wait for itself, through dependencies, batches and the order of FIFO groups (invariant D9)? Walks
 * from its dependents to its antecedents. Nearly always it has no dependents, and nothing is walked.
 * ERROR_DEPENDENCY_CYCLE: `path` then describes the cycle; ERROR_DEPENDENCY_TOO_DEEP after DEPENDENCY_VISITS_MAX. */
enum error dependency_find_cycle(const struct core *core, const struct newcomer *newcomer,
                                 char path[DEPENDENCY_PATH_SIZE]);

/* The same for a child batch of `parent`, whose targets name queues that exist. */
struct batch_spec;
enum error dependency_check_child(const struct core *core, const struct batch *parent, const struct batch_spec *spec,
                                  char path[DEPENDENCY_PATH_SIZE]);

/* A dead letter comes back to a line. Slot of the message nearest to the line's head that waits for it or for a batch
 * of it, or is held because one of them failed, directly or indirectly; 0: none. After DEPENDENCY_VISITS_MAX: the first
 * message of the line that waits for anything, after a held head. */
uint32_t dependency_first_in_line(const struct core *core, const struct message *message, uint32_t line);

/* --- ends --------------------------------------------------------------------------------------------------------- */

/* For apply: a message ended, or was dead-lettered and so failed although it lives on (both before its record is
 * freed); a batch completed; a completed batch lost its id. O(1). */
void dependency_message_ended(struct core *core, uint32_t message, enum unit_state outcome);
void dependency_message_dead_lettered(struct core *core, uint32_t message);
void dependency_batch_completed(struct core *core, uint32_t batch);
void dependency_batch_forgotten(struct core *core, uint32_t batch);

/* A move gave the message in slot `message` the new number `number`. Its dependents, waiting or held, now depend on the
 * new number. The old number is remembered as a failed message. O(k log k) in the number of dependents. */
void dependency_message_moved(struct core *core, uint64_t number, uint32_t message);

/* How many wait for the message with that number, or are held because it failed. O(1). */
uint32_t dependency_count_of(const struct core *core, uint64_t number);

/* Does an ended message have dependents that have not been told? */
bool dependency_is_untold(const struct core *core, uint64_t number);

/* A batch that had completed as failed has succeeded after all: messages that it held go on. */
void dependency_batch_redeemed(struct core *core, uint32_t batch);

/* A waiting message ends: its edges are removed. O(edges of the message). */
void dependency_forget_dependent(struct core *core, uint32_t message);

/* For core_advance(): forgets outcomes older than the window. */
void dependency_advance(struct core *core);

/* The antecedent whose dependents are told next, or NULL; and how many of its next edges have dependents that go on or
 * are held, at most `count_max`. */
struct antecedent *dependency_first_resolving(const struct core *core);
uint32_t dependency_count_tellable(const struct core *core, const struct antecedent *antecedent, uint32_t count_max);
bool dependency_is_resolving(const struct core *core);

/* Tells up to `portion` dependents, in events; true if more must be told. For decide_due() (decide_dependency.c). */
bool dependency_resolve(struct core *core, unsigned portion);

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* An antecedent for which a message waits, or that holds it. */
struct antecedent_view {
    enum antecedent_kind kind;
    uint64_t number; /* of the message or batch */
    /* outstanding: it has not ended; else the message will soon be told, or is held */
    enum unit_state outcome;
    bool is_holding;       /* it did not succeed, and so it holds the message */
    struct bytes batch_id; /* of a batch whose record still exists, until the next decision; else empty */
};

/* The message's antecedents one by one: *edge is 0 at first. False at the end. */
bool dependency_next(const struct core *core, uint32_t message, uint32_t *edge, struct antecedent_view *view);

/* How many antecedents the message waits for or is held by, and whether one holds it. O(them). */
uint32_t dependency_count(const struct core *core, uint32_t message, bool *is_held);

/* --- snapshots (dependency_snapshot.c) ---------------------------------------------------------------------------- */

/* For apply and decode: joins the two after the dependent's edge `prev`, 0 if it has none. Makes the antecedent's
 * record if there is none. */
uint32_t edge_link(struct core *core, const struct antecedent_found *antecedent, uint32_t dependent, uint32_t prev,
                   bool is_told);

/* Does `next` come after `last` in a list that has each once, by kind and number? */
bool antecedent_is_behind(const struct antecedent_found *last, const struct antecedent_found *next);

/* As far as the state knows: can somebody wait for it (outstanding), or can it have ended like that? */
bool antecedent_is_possible(const struct core *core, const struct antecedent_found *antecedent);

struct core_writer;
void dependency_encode(const struct core *core, struct core_writer *writer);
bool dependency_decode(struct core *core, struct cursor *cursor);
void dependency_check(const struct core *core);

#endif
