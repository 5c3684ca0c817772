/* When a PostgreSQL that can't be reached is tried again, by all connections that a process wants to it: after
 * PG_GATE_PAUSE_MS, and then after pauses that double up to PG_GATE_PAUSE_MAX_MS, however many logs wait for it. When a
 * try succeeds, all go; but those that only follow a log let those who are to serve one go first, for
 * PG_GATE_WAY_MS: a server that has just come back is busy with making connections. Any thread. */
#ifndef TALLY_POSTGRES_GATE_H
#define TALLY_POSTGRES_GATE_H

#include "base/error.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PG_GATE_PAUSE_MS 20u
#define PG_GATE_PAUSE_MAX_MS 160u
#define PG_GATE_WAY_MS 700u

/* Of several hosts: the one that is tried first. */
struct pg_host {
    uint32_t number : 31;    /* in the connection string, modulo how many there are */
    uint32_t has_passed : 1; /* the one before was passed over */
};

struct pg_gate {
    /* Where a new connection begins. All of the process learn from each other: otherwise one that waits less than the
     * first host is silent would be made anew, and begin with that host, again and again. */
    _Atomic struct pg_host first;

    pthread_mutex_t mutex; /* of the rest */
    pthread_cond_t opens;
    uint32_t pause_ms; /* 0: it was reached, or not tried yet */
    uint64_t next_ms;  /* while there is a pause: of pg_now_ms() */
    uint64_t back_ms;  /* when it was reached again; 0: it always was */
    bool is_left_open; /* by pg_gate_leave_open() */
    char why[512];     /* the newest try failed */
};

void pg_gate_init(struct pg_gate *gate);
void pg_gate_deinit(struct pg_gate *gate);

/* Waits until the caller may try, which it then does. ERROR_SERVICE_UNAVAILABLE: not before `until_ms`; `failure` has
 * what the newest try said. */
enum error pg_gate_pass(struct pg_gate *gate, bool gives_way, uint64_t until_ms, struct failure *failure);

/* How a try ended; NULL: the server was reached. */
void pg_gate_note(struct pg_gate *gate, const char *why);

/* When the server was reached again after it had been out of reach; 0: it always was. */
uint64_t pg_gate_back_ms(struct pg_gate *gate);

/* The process ends: from here on nobody waits. */
void pg_gate_leave_open(struct pg_gate *gate);

#endif
