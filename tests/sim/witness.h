/* What the server decided where it had a choice, read from the events that a call has left in the open frame: which
 * message it took next of several groups, what it put aside meanwhile, which number a message got. The oracle follows
 * these choices, and its model says of each whether it was allowed. */
#ifndef TALLY_TESTS_SIM_WITNESS_H
#define TALLY_TESTS_SIM_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#define SIGHTS_MAX 4096

struct core;

struct sight {
    enum {
        SIGHT_SENT,
        SIGHT_TAKEN,
        SIGHT_MOVED,
        SIGHT_ENDED,
        SIGHT_HELD,
        SIGHT_FAILED,
        SIGHT_LET_GO,
        SIGHT_REDRIVEN,
        SIGHT_REPLACED,
        SIGHT_PURGED, /* ended by a purge, or by a task that deletes */
        SIGHT_MOVE_ENDED,
        SIGHT_RENEWED
    } kind;
    bool is_known;      /* the model has it */
    uint64_t number;    /* of the message */
    uint64_t line;      /* sent, moved: its number in its group's line; 0: it has none. The oracle works it out */
    uint64_t batch;     /* sent: number of the batch of whose event it is the message; else 0 */
    unsigned completes; /* sent: that event */
    /* moved, held, redriven, replaced, move ended (the source): the place of the queue in the order of creation, from
     * 0 */
    int queue;
    int group;           /* held, sent: or -1 */
    uint64_t visible_at; /* failed, renewed */
    uint64_t successor;  /* redriven, replaced: the message's new number; `line` its place, as the server says */
    char id[40];         /* redriven, replaced, sent: and the MessageId that goes with it; the oracle works it out */
    unsigned status;     /* move ended: as in the event */
    unsigned failure;
};

struct witness {
    unsigned count;
    unsigned next; /* the oracle's, of sights not looked at */
    uint64_t frame_base;
    uint64_t frame_size;
    uint64_t message_number; /* the newest; one that is moved into a group takes one too */
    struct sight sights[SIGHTS_MAX];
};

/* A call is about to be made; a frame is open. */
void witness_begin(struct witness *witness, const struct core *core);

/* Notes what the call has done since then, or since the last look. */
void witness_observe(struct witness *witness, const struct core *core);

/* The frame was closed on purpose in the middle of a call, all of it having been looked at. */
void witness_turn(struct witness *witness, const struct core *core);

/* What only messages and what waits for them have: with none of them there is nothing of it either. */
uint64_t witness_leftovers(const struct core *core);

/* Has time done something that no event says yet? */
bool witness_has_time_acted(const struct core *core);

#endif
