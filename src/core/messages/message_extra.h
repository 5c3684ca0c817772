/* A message extra: additional data of a message that is ordered, waits, or has failed. Plain messages have none. */
#ifndef TALLY_CORE_MESSAGES_MESSAGE_EXTRA_H
#define TALLY_CORE_MESSAGES_MESSAGE_EXTRA_H

#include "base/assert.h"
#include "base/bytes.h"
#include "base/slab.h"
#include <stdbool.h>
#include <stdint.h>

#define PRIORITY_MAX 9u
#define PRIORITY_DEFAULT 4u
#define FAILURE_REASON_SIZE_MAX 1024u /* bytes */

/* What happens to a message when an antecedent does not succeed. The numbers are stored in the log. */
enum after_failure {
    AFTER_FAILURE_CANCEL = 0, /* it ends as failed */
    AFTER_FAILURE_RUN = 1,
    AFTER_FAILURE_HOLD = 2,
};

struct message_extra {
    uint64_t sequence;         /* in its group: the SequenceNumber */
    uint64_t counted_from_ms;  /* retention counts from here, for a message that was moved into a FIFO queue; 0: from
                                * the send */
    struct bytes reason_owned; /* of the newest failed attempt, or empty */
    uint32_t message;          /* slot; 0: a free record */
    uint32_t group;            /* slot; 0: none */
    uint32_t prev;             /* in the group's line: message slots */
    uint32_t next;
    uint32_t spared_count; /* deliveries that do not count as attempts */
    uint32_t wait_count;   /* how many things it waits for: its edges, plus 1 while a type order holds it back */
    uint32_t first_edge;   /* to its antecedents (dependency.h); 0: none */
    uint32_t antecedent;   /* record of its dependents (dependency.h); 0: none */
    uint32_t typed;        /* its record among type orders (type_order.h); 0: none */
    uint8_t priority;
    uint8_t after_failure; /* enum after_failure */
    bool is_fenced;        /* its newest handle was taken away */
    bool is_final;         /* it failed for good: no attempt is left */
    bool is_changed;       /* its newest lease was changed: an attempt id no longer repeats it */
    bool is_held;          /* an antecedent failed and the policy is to hold */
};

static inline struct message_extra *message_extra_at(const struct slab *extras, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(extras, slot);
}

/* May be asked of a freed record. */
POISON_MAY_LOOK static inline bool message_extra_is_used(const struct message_extra *extra)
{
    return extra->message != 0;
}

#endif
