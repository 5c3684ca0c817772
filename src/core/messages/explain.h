/* Why a message is not delivered, as fields: what it waits for, since when, who holds it (invariant O13). Only reads;
 * the api makes the words. */
#ifndef TALLY_CORE_MESSAGES_EXPLAIN_H
#define TALLY_CORE_MESSAGES_EXPLAIN_H

#include "core/batches/ledger.h"
#include "core/event.h"
#include "core/messages/message.h"

struct core;
struct queue;

enum message_condition {
    CONDITION_READY,
    CONDITION_DELAYED,
    CONDITION_IN_FLIGHT,
    CONDITION_BLOCKED,
    CONDITION_HELD,
    CONDITION_ENDED,
    CONDITION_UNKNOWN,
};

/* Each with its members of struct why. */
enum why_code {
    WHY_IN_FLIGHT,    /* since, until, delivery */
    WHY_DELAYED,      /* since, until: by its send */
    WHY_BACK_OFF,     /* count: how many deliveries failed; until; reason: of the newest failed attempt */
    WHY_RETURNED,     /* count, reason: the same, for a message that waits for nothing of that kind */
    WHY_GROUP_HEAD,   /* number; head_state, and of a head in flight since, until, delivery, of a delayed one until */
    WHY_GROUP_HELD,   /* since; text: the reason */
    WHY_GROUP_PAUSED, /* */
    WHY_GROUP_CONCURRENCY, /* count: in flight; limit */
    WHY_GROUP_RATE,        /* until */
    WHY_QUEUE_PAUSED,      /* */
    WHY_QUEUE_RATE,        /* until */
    WHY_MESSAGE,           /* number: an antecedent that has not ended; since: when it was sent */
    WHY_BATCH,             /* text: its id; count: outstanding units; since */
    WHY_ANTECEDENT_FAILED, /* number of a message, or text: the id of a batch; outcome; since: when that
                            * ended; the message is held because of it */
    WHY_TYPE,              /* text: the type; number: of the message of that type that must end first; since */
    WHY_TYPE_REQUIRED,     /* text: the type of which a message must have succeeded; since */
    WHY_OUT_OF_ATTEMPTS,   /* count: attempts; limit */
    WHY_FAILED_FOR_GOOD,   /* text: the reason */
    WHY_OTHER_QUEUE,       /* text: the queue's name, which it was moved to; count, reason: as WHY_BACK_OFF */
    WHY_CANCELLED,         /* it was purged or cancelled, and its record will soon be gone */
    WHY_OUTCOME,           /* outcome; since: when, if that is remembered */
};

struct why {
    enum why_code code;
    enum message_state head_state;
    enum unit_state outcome;
    uint64_t number; /* of another message */
    uint64_t since_ms;
    uint64_t until_ms;
    uint64_t delivery;
    uint64_t count;
    uint64_t limit;
    struct bytes text;   /* both until the next decision */
    struct bytes reason; /* of the newest failed attempt; may be empty */
};

#define WHYS_MAX 100u

struct explanation {
    enum message_condition condition;
    bool is_received; /* it was delivered, as far as is known */
    bool is_gone;     /* it has ended, and its queue is unknown */
    unsigned count;   /* of whys; the nearest cause first */
    struct why whys[WHYS_MAX];
};

/* Explains the message with that MessageId, which was sent to or is in the queue; without a queue (NULL), wherever it
 * is. O(what it waits for). */
void explain_message(const struct core *core, const struct queue *queue, const uint8_t id[MESSAGE_ID_SIZE],
                     struct explanation *explanation);

/* The same for a message that lives, by its slot. */
void explain_slot(const struct core *core, const struct queue *queue, uint32_t message,
                  struct explanation *explanation);

/* Only its condition. O(1). */
enum message_condition explain_condition(const struct core *core, const struct queue *queue, uint32_t message);

/* Who has the message, since when, until when, as a reason with that code. For a message in flight. */
struct why explain_lease(const struct message *message, enum why_code code);

/* The slot of the message with that MessageId, and the queue that it is in; 0: it is in none, or in one that was purged
 * or deleted. */
uint32_t explain_find(const struct core *core, const uint8_t id[MESSAGE_ID_SIZE], struct queue **queue);

/* The number of the message with that MessageId, alive or not; 0: none has it, or only a batch's completion message. */
uint64_t explain_find_number(const struct core *core, const uint8_t id[MESSAGE_ID_SIZE]);

/* The MessageId of message `number`, alive or not. */
void explain_message_id(const struct core *core, uint64_t number, uint8_t id[MESSAGE_ID_SIZE]);

#endif
