/* A selection: the messages of a queue that a task is for, if it is not for all that can be delivered. They are given
 * by their numbers or by a filter (message_walk.h). The task looks at them in order, at each once, and notes the first
 * ones that it had to leave where they are. How far it has come is part of the state, so a restart goes on there.
 *
 * A filter takes no message that was sent, moved by a task, or received after the task began. So one that fails again
 * is not met twice. A dead letter that was in flight when the task began, and comes then, may be taken. */
#ifndef TALLY_CORE_MESSAGES_SELECTION_H
#define TALLY_CORE_MESSAGES_SELECTION_H

#include "base/cursor.h"
#include "core/messages/message_walk.h"

#define SELECTION_NUMBERS_MAX 1000u
#define SELECTION_NUMBER_SIZE 8u /* bytes, in the event */
#define REFUSALS_MAX 100u        /* remembered of a task; more are only counted */
#define REFUSAL_SIZE 9u          /* bytes, in the event */

/* The numbers are stored in the log. */
enum selection_act { SELECTION_MOVES = 1, SELECTION_DELETES = 2 };

/* Why a message stays; stored in the log. */
enum refusal_reason {
    NOT_REFUSED = 0,
    REFUSED_ABSENT = 1, /* it is not in the queue, or not any more */
    REFUSED_IN_FLIGHT = 2,
    REFUSED_DELAYED = 3,
    REFUSED_WAITING = 4, /* for antecedents or by a type order */
    REFUSED_GROUP_HELD = 5,
    REFUSED_GROUP_PAUSED = 6,
    REFUSED_NO_ORIGIN = 7, /* it should go back to where it came from, and came from nowhere */
    REFUSED_NO_QUEUE = 8,  /* the queue that it came from does not exist */
};

struct refusal {
    uint64_t number; /* of the message */
    uint8_t reason;  /* enum refusal_reason */
};

struct selection {
    enum selection_act act;
    struct message_filter filter;   /* its texts are owned; without a condition and a batch */
    uint64_t *numbers_owned;        /* rising; NULL: by the filter, or the task has ended */
    uint32_t number_count;          /* 0: by the filter */
    uint64_t newest;                /* the filter takes no message with a higher number */
    struct message_place place;     /* behind the last message; of a list of numbers, `number` is the last one */
    uint64_t looked;                /* at so many messages */
    uint64_t refused;               /* so many of them stayed, though they were meant */
    struct refusal *refusals_owned; /* of the first ones */
    uint32_t refusal_count;
};

/* Which messages somebody means. */
struct selection_command {
    enum selection_act act;
    struct message_filter filter; /* without a condition and a batch */
    const uint64_t *numbers;      /* rising, of messages that exist or did; NULL: by the filter */
    uint32_t number_count;        /* SELECTION_NUMBERS_MAX at most */
};

struct event_selection_started;
struct event_selection_looked;
struct core_writer;

/* NULL if the event is not possible in a namespace whose newest message has that number. */
struct selection *selection_create(const struct event_selection_started *started, uint64_t newest);
void selection_destroy(struct selection *selection); /* NULL is fine */

/* Why the act can't be done with a message that is in the queue and not out of reach, or NOT_REFUSED. */
enum refusal_reason selection_why_not(const struct core *core, enum selection_act act, uint32_t message);

/* For apply. False, with nothing changed, if the event does not fit. */
bool selection_look(struct selection *selection, const struct event_selection_looked *looked, uint64_t newest);

/* The task is over: the numbers are not needed any more. */
void selection_end(struct selection *selection);

void selection_encode(const struct selection *selection, struct buffer *out);
/* NULL if that can't have been written of a task in a namespace with that newest message, at that time. */
struct selection *selection_decode(struct cursor *cursor, bool is_running, uint64_t newest, uint64_t now_ms);
bool selection_is_sound(const struct selection *selection, bool is_running, uint64_t newest, uint64_t now_ms);

#endif
