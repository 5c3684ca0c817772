/* What relay.c and worker.c share: the inside of a relay. */
#ifndef TALLY_RELAY_RELAY_INNER_H
#define TALLY_RELAY_RELAY_INNER_H

#include "relay/keeper.h"
#include "relay/relay.h"

#include <pthread.h>

#define RESOLVE_REQUESTS_MAX 1000u

/* What an operator asked for. */
struct resolve_request {
    struct uid uid;
    enum resolution resolution;
};

struct relay {
    struct relay_spec spec;
    void (*wake)(void *context);
    void *context;
    struct keeper *keeper; /* NULL: the source needs no lease */
    pthread_t thread;      /* the worker's */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* on the monotonic clock */

    /* The worker's thread alone. */
    struct source *source;
    struct sink *sink;
    uint64_t health_due_ms;
    uint64_t health_seldom_ms; /* when one is due of a relay that does not work */
    uint64_t alarm_due_ms;
    unsigned unfit_count;   /* how often in a row the work was restarted because sink and relay did not agree */
    uint64_t intent_number; /* the last one that was given; never again, not even by another worker of the same term */

    /* Under the mutex. */
    bool is_stopping;
    uint64_t stop_asked_ms;
    bool is_delivering; /* the worker is in the sink's deliver() */
    bool is_stopped;
    bool is_paused;
    bool is_keeper_paused;     /* the keeper was told; only the worker's thread changes it */
    bool is_working;           /* a term is open, */
    struct term working_term;  /* this one; the keeper may be in a later one by now */
    struct fault unfit;        /* why it will never work; "": it may */
    struct fault failing;      /* what can't be reached just now; "": nothing */
    struct fault undurable;    /* what all rows wait for before they may leave their source; "": nothing */
    struct fault blocked;      /* what waits while the rest goes on; "": nothing does */
    struct fault keeper_fault; /* as it was when we last looked */
    struct relay_status status;
    struct resolve_request resolve_requests[RESOLVE_REQUESTS_MAX];
    size_t resolve_request_count;
    struct arena parked_arena; /* of the list */
    struct parked *parked;
    size_t parked_count;
};

void relay_lock(struct relay *relay);

/* Computes the state again, unlocks, and wakes those who wait if it has changed. */
void relay_unlock_changed(struct relay *relay);
void relay_unlock(struct relay *relay);

/* The keeper's standing has changed: computes the state again. For the keeper; `context` is the relay. */
void relay_on_keeper(void *context);

/* The wall clock, in ms since 1970. */
uint64_t relay_wall_ms(void);

/* Sleeps until something changes, with the mutex held; at most so long. */
void relay_sleep(struct relay *relay, unsigned wait_ms);

/* With the mutex held. */
void relay_note_error(struct relay *relay, const char *text);

/* What an operator asked for, and the list of parked rows behind it. The worker's thread, with no scan open; without
 * the mutex. */
void relay_run_requests(struct relay *relay);

/* The source's health, if it is time. The same. */
void relay_check_health(struct relay *relay, uint64_t now_ms);

/* The same of a relay that stands by or can't go on, so that whoever watches it hears of rows that nobody fetches.
 * Seldom, since many may stand by for one source, and since the source itself may be what does not answer. A stand-by
 * has its connection ready by that. */
void relay_check_seldom(struct relay *relay, uint64_t now_ms);

#endif
