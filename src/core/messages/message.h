/* The index entry of a message: the data that must be in memory while the message lives. Its content stays in the log.
 *
 * It has 96 bytes, plus 5 to 6 in the map of numbers where most messages are, plus 16 while a timer runs. The limit is
 * 128 for a waiting message. Entries are linked by slots of a slab, which have half the size of pointers. */
#ifndef TALLY_CORE_MESSAGES_MESSAGE_H
#define TALLY_CORE_MESSAGES_MESSAGE_H

#include "base/assert.h"
#include "base/slab.h"
#include "core/batches/ledger.h"
#include <stdbool.h>
#include <stdint.h>

enum message_state {
    MESSAGE_FRESH = 1, /* deliverable, never received: found through the message list's cursor */
    MESSAGE_RETURNED,  /* deliverable again, after a delay, or moved here: in the message list's heap `returned` */
    MESSAGE_DELAYED,   /* after its send or during a back-off, until visible_at_ms: in the timers */
    MESSAGE_IN_FLIGHT, /* held by a receiver until visible_at_ms: in the timers */
    MESSAGE_WAITING,   /* for antecedents or by a type order (message_extra.h): in no list */
};

/* Why a message ended. The numbers are stored in the log. */
enum end_reason {
    END_DELETED = 1,   /* by its holder: its unit succeeded */
    END_EXPIRED = 2,   /* retention is over: failed */
    END_PURGED = 3,    /* with its queue's content or its queue: failed */
    END_CANCELLED = 4, /* with its batch, or with the rest of its group */
    END_FAILED = 5,    /* no attempts left or failed for good, and there is no dead-letter queue: failed */
    END_TAKEN = 6,     /* by the receive that delivered it, at most once: succeeded */
    END_UNMET = 7,     /* an antecedent did not succeed: failed */
    END_PUT_BACK = 8,  /* the result message of a match that was put back */
};

struct message {
    uint64_t number;        /* in the namespace, from 1, ascending in order of acceptance */
    uint64_t position;      /* of its content in the log */
    uint64_t visible_at_ms; /* while delayed or in flight; after a lease has timed out, the time of that */
    uint64_t sent_at_ms;
    uint64_t delivery;     /* number of its newest delivery: the fencing token; 0 before the first */
    uint32_t content_size; /* bytes */
    uint32_t message_list;
    uint32_t prev; /* in the message list's list of arrivals; 0 for a moved message */
    uint32_t next;
    uint32_t heap_index; /* in the timers or in the message list's heap `returned` */
    uint32_t batch;      /* slot; 0: none */
    uint32_t unit;       /* its number in the batch */
    uint32_t origin;     /* slot of the queue from which it was dead-lettered; 0: none */
    uint32_t receive_count;
    uint32_t timeout_ms;              /* length of the newest lease, for the grace after a restart */
    uint32_t first_received_after_ms; /* after sent_at_ms, plus 1; 0: never received */
    uint32_t received_after_ms;       /* newest receive, after sent_at_ms: the 12-hour rule counts from it */
    uint8_t state;                    /* enum message_state; 0: a free slot */
    uint8_t completes;                /* 0, or the batch event (enum batch_event) whose message it is */
    bool is_moved : 1;    /* dead-lettered to this queue: ordered by age in `moved`, not in the list of arrivals */
    bool is_result : 1;   /* the result message of a match (made_match.h) */
    bool is_redriven : 1; /* a move task or ReplaceMessage made it: its content may have the MessageId of before */
    bool is_grouped;      /* its extra names a group: it is found through the group, not through the message list */
    uint32_t extra;       /* slot (message_extra.h); 0: none, a plain message */
};

static_assert(sizeof(struct message) == 96, "the bar for the index is 128 bytes a message");

static inline struct message *message_at(const struct slab *messages, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(messages, slot);
}

/* Is it a message, and not a free slot? May be asked of a freed record. */
POISON_MAY_LOOK static inline bool message_is_used(const struct message *message)
{
    return message->state != 0;
}

/* What the end of a message means for its unit and its dependents. */
static inline enum unit_state end_outcome(enum end_reason reason)
{
    switch (reason) {
    case END_DELETED:
    case END_TAKEN:
        return UNIT_SUCCEEDED;
    case END_CANCELLED:
    case END_PUT_BACK:
        return UNIT_CANCELLED;
    case END_EXPIRED:
    case END_PURGED:
    case END_FAILED:
    case END_UNMET:
        break;
    }
    return UNIT_FAILED;
}

/* Does a message in that state count as delayed: not yet deliverable, and held by nobody? */
static inline bool message_state_is_delayed(unsigned state)
{
    return state == MESSAGE_DELAYED || state == MESSAGE_WAITING;
}

/* Is its MessageId made from its number, although its content names the message before a move? */
static inline bool message_is_renamed(const struct message *message)
{
    return message->is_redriven && message->completes == 0;
}

static inline bool message_is_deliverable(const struct message *message)
{
    return message->state == MESSAGE_FRESH || message->state == MESSAGE_RETURNED;
}

#endif
