/* What the files of worker_attempt.c share: that one (rounds, and which rows are tried), worker_attempt_source.c (steps
 * of the source), worker_attempt_settle.c (what became of the rows). A function that returns a bool says with false
 * that the worker is to return. */
#ifndef TALLY_RELAY_WORKER_ATTEMPT_PARTS_H
#define TALLY_RELAY_WORKER_ATTEMPT_PARTS_H

#include "relay/blocked_keys.h"
#include "relay/intents.h"
#include "relay/worker.h"

/* A sink is left alone as long as it wishes, but no longer than this while something is in doubt or in hand. */
#define WISH_DOUBTED_MS_MAX 30000u

/* What belongs to an attempt and is none of the sink's business. */
struct trial {
    struct row_keys keys;
    uint32_t intent; /* slot; 0: none yet */
};

struct round {
    struct worker *worker;
    struct blocked_keys blocked_keys;
    struct intents intents;
    struct rows rows; /* of the last scan */
    struct attempt *attempts_owned;
    struct trial *trials_owned;
    size_t count;
    struct row_name *names_owned;
    size_t name_capacity;
    uint32_t current;  /* slot of the last intent, while its rows are tried */
    uint32_t finished; /* slot of an intent that the next one may replace; 0: none */
    uint64_t tried_ms; /* when the present attempts began */
    uint64_t scanned_ms;
    unsigned idle_ms;
    bool is_sink_down;
    bool is_blocked_reported;
    struct worker_progress progress;
};

static inline struct row_name row_name_of(const struct row *row)
{
    return (struct row_name){.id = row->id, .uid = row->uid};
}

/* Does the source take notes? A queue needs none: it counts itself how often it gave a message out. */
static inline bool round_has_intents(const struct round *round)
{
    return round->worker->source->ops->note != NULL;
}

/* Room for so many names; borrowed until the next call. */
struct row_name *round_name_room(struct round *round, size_t count);
struct row_keys round_keys_of(const struct round *round, const struct row *row);

/* --- steps of the source, repeated through outages ---------------------------------------------------------------- */

/* Drops the intent that is finished and notes the next one, if there are names. */
bool round_note(struct round *round, uint64_t next, const struct row_name *names, size_t count);
/* What was delivered of it leaves the source in the same step, else it would come back as if it had never been
 * tried. */
bool round_end_intent(struct round *round, uint32_t slot);
/* Ends the intents that have no rows left, but for the one that the next may replace. */
bool round_end_empty_intents(struct round *round);
bool round_park(struct round *round, const struct row *row, const char *reason, bool is_doubted);
/* Settles what is done, reads what is next, and waits until its source keeps that. */
bool round_scan(struct round *round);
/* What an owner before this one has noted is in doubt, since it noted it. */
bool round_recover(struct round *round);

/* --- what became of them ------------------------------------------------------------------------------------------ */

/* The row leaves the round as done (it is in the sink) or parked. */
void round_finish(struct round *round, const struct row *row, uint32_t intent, bool is_done);
/* Does with each attempt what its verdict says, tells the relay, and ends the intent if it can. */
bool round_settle(struct round *round);

#endif
