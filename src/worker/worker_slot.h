/* What worker.c (the pool) and worker_slot.c (one worker) share. */
#ifndef TALLY_WORKER_WORKER_SLOT_H
#define TALLY_WORKER_WORKER_SLOT_H

#include "worker/worker.h"
#include <pthread.h>
#include <signal.h>

#define WORKER_NUDGE SIGUSR1 /* "a worker has ended": wakes worker_pool_watch() */

struct worker_slot {
    struct worker_pool *pool;
    struct tally_client *client_owned;
    struct arena arena;
    pthread_t thread;
    pthread_cond_t changed; /* the child has exited */
    /* Guarded by the pool's mutex: */
    bool is_receiving;
    bool has_exited;
    int wait_status;
    pid_t child;            /* 0: none */
    uint64_t limit_ms;      /* when the child's time limit ends; UINT64_MAX: it has none */
    uint64_t kill_at_ms;    /* the child was told to end, and is killed then; 0: it was not told */
    bool was_stopped;       /* as in struct worker_end */
    bool was_too_slow;      /* as in struct worker_end */
    uint64_t beat_until_ms; /* when the heartbeat that is under way is given up; 0: none is under way */
    char *message_id_owned; /* of the message in hand; NULL: none */
    char *handle_owned;     /* its newest receipt handle */
    uint64_t held_until_ms; /* until then nobody else can have been given the message */
    uint64_t beaten_ms;     /* when it was received, or the last heartbeat was tried */
};

/* What we want to know of the queue. The rest is known with `delivery`. */
struct queue_facts {
    enum { DELIVERY_UNKNOWN, DELIVERY_AT_LEAST_ONCE, DELIVERY_AT_MOST_ONCE } delivery;
    unsigned receive_count_max; /* of its RedrivePolicy; 0: it has none */
    unsigned backoff_max_s;     /* the most that a message of it backs off */
};

struct worker_pool {
    const struct worker_options *options;
    const struct worker_handler *handler;
    sigset_t signals;       /* those that worker_pool_watch() takes */
    sigset_t original_mask; /* for children */
    pthread_mutex_t mutex;
    pthread_cond_t stopping;
    struct worker_slot *slots_owned;
    unsigned running; /* workers that have not ended */
    bool is_started;
    bool is_stopping;
    bool is_complaining; /* the user knows that the server is away */
    uint64_t stop_by_ms; /* when the grace ends */
    bool has_failed;
    struct queue_facts facts;
    uint64_t retry_by_ms; /* until then a message comes again that failed here; 0: none did */
    uint64_t lost_by_ms;  /* until then a message may come again of which nothing is known here; 0: there is none */
    struct tally_error failure;
};

/* Tells the user; at most 4,095 characters. */
void worker_pool_report(struct worker_pool *pool, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The thread of a worker; its argument is the slot. */
void *worker_slot_main(void *argument);

#endif
