/* A batch: a ledger of units, and what to send when they are done.
 *
 * Life: open -> sealed -> completed. A sealed batch without an outstanding unit completes in the very record that made
 * it so; cancelling and the deadline complete it at once. Each event of a batch fires at most once (invariant B1).
 *
 * A seal keeps out who is outside. A unit that has not ended may let others join until the batch completes, and it
 * can't complete before that unit has ended. Units that joined so come on top of a Total, which counts the others.
 *
 * A batch record stays while anything refers to it: `pins` counts its live messages (as units, also in a dead-letter
 * queue, and as completion messages) and its child batches. Retention counts from the moment it is completed and
 * unpinned (B17). */
#ifndef TALLY_CORE_BATCHES_BATCH_H
#define TALLY_CORE_BATCHES_BATCH_H

#include "base/error.h"
#include "base/list.h"
#include "core/batches/ledger.h"
#include "core/digest.h"
#include "core/event.h"
#include "core/queues/queue_set.h"

#define BATCH_ID_SIZE_MAX 128u
#define BATCH_DEPTH_MAX 32u
#define BATCH_TOKEN_SIZE_MAX 128u

/* The numbers stand in the log. */
enum batch_event {
    BATCH_EVENT_COMPLETE = 1,
    BATCH_EVENT_SUCCESS = 2,
    BATCH_EVENT_FIRST_FAILURE = 3,
};
#define BATCH_EVENT_COUNT 3
#define BATCH_EVENT_BIT(event) (1u << (event))
#define BATCH_SUCCESS_WAS_LATE                                                                                         \
    (1u << (BATCH_EVENT_COUNT + 1)) /* among the bits of what has fired: it came after completion */

enum batch_state { BATCH_OPEN = 1, BATCH_IS_SEALED, BATCH_COMPLETED };

enum batch_status {
    BATCH_NO_STATUS = 0,
    BATCH_SUCCEEDED = 1,
    BATCH_FAILED = 2,
    BATCH_CANCELLED = 3,
    BATCH_EXPIRED = 4,
};

enum batch_tracking { BATCH_EXACT = 0, BATCH_XOR = 1 };

/* Where a message of the batch goes, and what it says. */
struct batch_target {
    uint32_t queue; /* id; 0: no such target */
    bool has_body;  /* false: the body is made at the event */
    struct bytes body;
    struct bytes group;      /* MessageGroupId, or empty */
    struct bytes attributes; /* encoded by the api, Tally.Batch.Completed among them */
    uint8_t attributes_md5[DIGEST_MD5_SIZE];
};

/* What CreateBatch says; fixed for the life of the batch. */
struct batch_spec {
    bool has_total;
    uint32_t total;
    enum batch_tracking tracking;
    uint32_t expires_after_s;                       /* 1 to 31,536,000 */
    uint32_t retention_s;                           /* 0 to 31,536,000 */
    struct batch_target targets[BATCH_EVENT_COUNT]; /* by event - 1 */
};

/* A token of XorUnits that was used. */
struct batch_token {
    struct bytes token_owned;
    uint64_t check; /* hash of what was asked with it */
};

struct batch {
    uint64_t number; /* never reused */
    struct bytes id_owned;
    struct bytes spec_encoded_owned; /* `spec` points into it */
    struct batch_spec spec;
    enum batch_state state;
    enum batch_status status;
    unsigned fired;    /* BATCH_EVENT_BIT of each event that fired, and BATCH_SUCCESS_WAS_LATE */
    bool is_cancelled; /* outstanding units count as cancelled, messages of it are never delivered again */
    bool is_deleted;   /* has lost its id; waits for its pins */
    uint64_t created_at_ms;
    uint64_t sealed_at_ms; /* 0: not */
    uint64_t completed_at_ms;
    uint64_t unpinned_at_ms; /* since when nothing refers to it */
    uint32_t parent;         /* slot; 0: none */
    uint32_t parent_unit;
    uint32_t depth; /* 0: no parent */
    uint32_t grown; /* units that other units let join */
    uint64_t pins;
    struct queue_set queues; /* those of its targets, those its message units were sent to, and those of its children */
    struct ledger ledger;    /* exact tracking */
    /* xor tracking */
    uint64_t xor_value;
    uint64_t xor_registered;
    uint64_t xor_finished;
    uint64_t xor_failed;
    struct batch_token *tokens_owned;
    uint32_t token_count;
    uint32_t token_capacity;
    struct table by_token; /* token -> index + 1 */
    uint32_t drain_next;   /* after a cancel: references below this one have been looked at */
    struct list_link draining_link;
    struct list_link awaited_link; /* in the queue's list `awaited` */
    struct list_link unfinished_link;
    uint32_t deadline_index; /* in the core's heap of deadlines */
};

/* What is counted, in one form for both kinds of tracking. */
struct batch_counts {
    uint64_t total;
    uint64_t succeeded;
    uint64_t failed;
    uint64_t cancelled;
    uint64_t remaining;
};

void batch_spec_encode(const struct batch_spec *spec, struct buffer *out);
/* Views of *spec point into `encoded`. False, with *spec untouched, if it is none. */
bool batch_spec_decode(struct bytes encoded, struct batch_spec *spec);

/* The digest is borrowed for as long as the batch lives. */
void batch_init(struct batch *batch, const struct digest *digest, uint64_t number, struct bytes id,
                struct bytes spec_encoded);
void batch_deinit(struct batch *batch);

struct batch_counts batch_counts(const struct batch *batch);

/* Are so many units no more than the Total and those that joined from inside? */
bool batch_is_within_total(const struct batch *batch, uint64_t total);

/* Can the batch take `added` more units? is_growth: an outstanding unit of it lets them join. ERROR_BATCH_SEALED (or
 * completed), ERROR_BATCH_TOTAL_EXCEEDED, ERROR_OVER_LIMIT. */
enum error batch_check_room(const struct batch *batch, uint64_t added, bool is_growth);

/* The same of units that an event adds: the seal no longer matters, for a batch_grown stands before those that join
 * behind it. */
bool batch_has_room(const struct batch *batch, uint64_t added);

/* Is the unit one that has not ended, of a batch that has not completed? In an xor ledger, whose units have no state:
 * has the batch not completed? O(1). */
bool batch_unit_is_outstanding(const struct batch *batch, uint32_t unit);

/* The only place where an event of a batch falls due; ending a unit, sealing, cancelling and the deadline ask it.
 * Returns the BATCH_EVENT_BITs that must fire now. */
struct batch_after {
    bool is_cancelled_or_expired;
    bool has_failure; /* a unit failed in this step */
};
unsigned batch_due(const struct batch *batch, const struct batch_after *after);

/* The event whose message the parent of such a batch waits for. */
enum batch_event batch_awaited_event(const struct batch_spec *spec);

/* Is it that message? A late success is not: the parent has heard how the batch ended. */
bool batch_is_awaited(const struct batch *batch, unsigned completes);

/* How the batch ends when its last unit has ended. */
enum batch_status batch_status_of_counts(const struct batch *batch);

/* The token's index in tokens_owned, or UINT32_MAX. */
uint32_t batch_find_token(const struct batch *batch, struct bytes token);
void batch_add_token(struct batch *batch, struct bytes token, uint64_t check);

/* When the batch next needs attention by itself (its deadline or the end of its retention), or UINT64_MAX. */
uint64_t batch_deadline_ms(const struct batch *batch);

/* Are the targets' queues in the batch's set, and is that within its parent's (NULL: it has none)? */
bool batch_queues_are_sound(const struct batch *batch, const struct batch *parent);

/* Words of the protocol. */
const char *batch_state_name(enum batch_state state);
const char *batch_status_name(enum batch_status status);

void batch_check(const struct batch *batch);

#endif
