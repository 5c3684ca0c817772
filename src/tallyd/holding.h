/* A namespace whose log is in PostgreSQL, as this node has it. It goes round in these states:
 *
 *     absent     nothing of it is here; it may be followed again when its pause is over
 *     follows    a thread reads its log, as another node writes it, until this node is the owner
 *     serves     the server has it
 *     stalls     its PostgreSQL has not answered for a lease, so the server has it no more. When that answers, and the
 *                log is still this node's, it is served again as it is
 *     leaves     it is given up: its relays end, then its requests, and its replies leave
 *     closes     a thread closes its log; with that, the log is free for other nodes
 *
 * Each may come to `closes`: from `follows` where that failed, from `serves`, `stalls` and `leaves` where the log was
 * lost. Which step comes when is decided in ownership.c. */
#ifndef TALLY_TALLYD_HOLDING_H
#define TALLY_TALLYD_HOLDING_H

#include "tallyd/namespaces.h"

#include <pthread.h>

enum holding_state {
    HOLDING_ABSENT,
    HOLDING_FOLLOWS,
    HOLDING_SERVES,
    HOLDING_STALLS,
    HOLDING_LEAVES,
    HOLDING_CLOSES,
};

struct belonging;
struct log_server;

struct holding {
    char *name_owned;
    const struct namespaces *namespaces;
    const struct belonging *belonging;     /* borrowed, as is the one before */
    struct opened_namespace *opened_owned; /* NULL while it is absent */
    enum holding_state state;
    bool is_wanted;      /* the credentials name it */
    bool is_awake;       /* it is among those that are looked after (ownership.c) */
    bool is_cold;        /* it is followed because nobody has it, beside those that are followed all the time */
    bool has_told_ready; /* the node that has it was told that this one may have it */
    bool is_led;         /* it is followed until another log is this node's (pg_options.leads) */
    bool is_recalled;    /* it was told to follow no more */
    bool is_waiting;     /* closes: for a thread */
    unsigned tries;      /* how often it was followed */
    unsigned pause_ms;   /* the newest; it grows while this node can't keep the log */
    unsigned keep_ms;    /* how long it stays since it came back at once the last time; 0: it did not */
    uint64_t epoch;      /* of its log when this node served it last */
    struct failure loss; /* by which it was lost last; OK: it was not, or it is served again */

    /* Where it belongs (belonging.h). Outside of a cluster it belongs here. */
    struct log_server
        *server;           /* on which its log is; borrowed; NULL: not in a cluster. Any thread while it is opened */
    uint64_t view_number;  /* of the view that said so (belonging.h) */
    bool has_moved;        /* its log is on another server by now */
    bool is_moving;        /* it is on its way there, and nobody may take it */
    bool is_at_rest;       /* nobody has it, and nobody need have it until it is asked for */
    atomic_bool is_called; /* it is followed because it was asked for at rest; until somebody has it. Any thread */
    bool must_be_followed; /* by this node */
    bool is_own;           /* this node should have it, or nobody says which one should */
    bool must_get_ready;   /* another node has it, and this one should */
    bool must_go;          /* this node has it, another one should, and is ready */

    /* Of pg_now_ms(). */
    uint64_t since_ms; /* when it was wanted first */
    uint64_t pauses_until_ms;
    uint64_t follows_since_ms;
    uint64_t gave_up_ms; /* when this node began to give it up; 0: never */
    uint64_t keeps_until_ms;
    uint64_t rested_ms;              /* when this node left it at rest; 0: never */
    uint64_t active_ms;              /* it serves: when it was asked, or looked into, last */
    uint64_t request_count;          /* of served.h, as of then */
    _Atomic uint64_t asked_ms;       /* when a request came for it that is not served here; 0: never */
    _Atomic uint64_t asked_since_ms; /* the first of those that follow each other closely */

    /* Of the thread, while it follows or closes. */
    bool has_thread;
    pthread_t thread;
    void (*done)(void *context); /* called on it, when it is about to end */
    void *context;
    atomic_bool *leads; /* set when the log is this node's; NULL: nothing is */
    atomic_bool is_done;
    enum error error;
    struct failure failure;
};

/* One that is absent. The rest is borrowed. */
struct holding *holding_create(const struct namespaces *namespaces, const struct belonging *belonging,
                               struct bytes name, void (*done)(void *context), void *context);
void holding_destroy(struct holding *holding);

/* It is absent, and begins to follow. False: the system has no thread; it is still absent, and `failure` says why. */
bool holding_follow(struct holding *holding, const struct pg_options *options, struct failure *failure);

/* It follows, and is to end that. */
void holding_recall(struct holding *holding);

/* Is the log this node's, as far as it knows? */
static inline bool holding_has_log(const struct holding *holding)
{
    return holding->state == HOLDING_SERVES || holding->state == HOLDING_STALLS || holding->state == HOLDING_LEAVES;
}

/* The server has it no more, nor does it follow: it is to be closed, and waits for a thread that does that. */
void holding_give_up(struct holding *holding);

/* Gives it that thread. Where the system has none this waits. */
void holding_close(struct holding *holding);

/* It follows or closes: is that over? Then it has been joined, and `error` and `failure` say how following ended. */
bool holding_has_ended(struct holding *holding);

/* The same, and waits for it. */
void holding_await(struct holding *holding);

/* What the node knows of the owner by following it; no name: nothing. */
struct pg_node holding_owner(const struct holding *holding);

#endif
