/* A relay: a source, a sink, and the two threads between them. The keeper waits for the lease and holds it; while it
 * does, the worker moves rows. What a relay does of itself is said in its status; it never logs and never exits. */
#ifndef TALLY_RELAY_RELAY_H
#define TALLY_RELAY_RELAY_H

#include "relay/sink.h"
#include "relay/source.h"
#include "relay/spec.h"

/* A row that has waited for longer raises an alarm, whatever the state says and whoever owns the source (P27). */
#define RELAY_OLD_ROW_MS 60000u

struct relay;

enum relay_state {
    RELAY_STARTING,
    RELAY_STANDBY, /* another one works, or may */
    RELAY_ACTIVE,
    RELAY_PAUSED,
    RELAY_BLOCKED, /* it owns the source and can't go on: `last_error` says why */
    RELAY_FAILED,  /* it can't even stand by: the source can't be reached or does not fit */
    RELAY_STOPPED,
};

struct relay_status {
    enum relay_state state;
    uint64_t epoch;      /* of its term, while it owns the source */
    uint64_t position;   /* the highest id that is done */
    uint64_t delivered;  /* rows since it started */
    uint64_t duplicates; /* of those, known to the sink before */
    uint64_t retries;    /* attempts that are to be repeated */
    uint64_t parked;     /* rows that it parked since it started */
    uint64_t takeovers;
    uint64_t since_ms; /* in this state, on the wall clock */
    /* As of the last look: once a second while it works, each ten seconds while it can't or stands by. */
    struct source_health health;
    uint64_t alarms; /* rises once a minute while the oldest row is too old; health.warning says so */
    char last_error[FAULT_TEXT_SIZE];
    uint64_t last_error_ms; /* on the wall clock; 0: there was none */
};

/* Starts both threads. Copies the spec. `wake`, unless NULL, is called from a thread of the relay when its state
 * changes and at each alarm. */
struct relay_options {
    const struct relay_spec *spec;
    void (*wake)(void *context);
    void *context;
    bool is_paused; /* from the start: as if relay_set_paused() came before anything else */
};

struct relay *relay_start(const struct relay_options *options);

/* For so long a source and a sink may answer when the relay is to end. */
#define RELAY_SETTLE_MS 2000u

/* Asks it to end: what is in flight is settled first. A source or a sink that does not answer within RELAY_SETTLE_MS is
 * given up, as if the relay was killed; but not a sink where a row would be in doubt by that. relay_join() waits and
 * frees. */
void relay_stop(struct relay *relay);
void relay_join(struct relay *relay);

void relay_set_paused(struct relay *relay, bool is_paused);

/* Any thread. */
void relay_get_status(struct relay *relay, struct relay_status *status);

/* Parked rows as of the last look, with all they point to in the arena; any thread. */
void relay_list_parked(struct relay *relay, struct arena *arena, struct parked **parked, size_t *count);

/* Asks for a parked row to be sent or dropped; done soon, by the worker of the relay, whether it owns the source or
 * not. */
void relay_resolve(struct relay *relay, const struct uid *uid, enum resolution resolution);

const char *relay_state_name(enum relay_state state);

#endif
