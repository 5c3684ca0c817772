/* A pool of workers: each takes one message at a time from a queue, runs a program for it, keeps the message hidden
 * from others while the program runs, and then deletes it or gives it back. `tally work` and `tally run` are handlers
 * over it.
 *
 * Threads: the main thread creates the pool before it starts any other thread, and calls worker_pool_watch(), which
 * takes all signals, tells the workers of ended children, and ends those whose time is over. Each worker is a thread
 * with a client of its own, on which the handler's functions run. */
#ifndef TALLY_WORKER_WORKER_H
#define TALLY_WORKER_WORKER_H

#include "base/arena.h"
#include "tally/tally.h"
#include <stdbool.h>
#include <stddef.h>

struct worker_pool;
struct worker_slot; /* a worker */

/* A program to run for a message. The arena lives until finish() has returned. */
struct worker_job {
    struct arena *arena;
    const char *path;
    char **argv;
    char **environment;
    int input; /* descriptors as in process_start(); the handler closes them */
    int output;
    int errors;
    void *context; /* the handler's own */
    /* Why, in the arena; NULL: none. Of WORKER_FAIL it is told to the server. Of WORKER_GIVE_BACK it is told to the
     * user, with what came of it. */
    const char *reason;
    bool is_left; /* for report(): its lease was over, so the server was not told, and it comes back by itself */
    /* For report(): why the server did not take the failure, so that the message comes back by itself; in the arena.
     * NULL: it did, or its queue delivers at most once. */
    const char *settle_error;
};

#define WORKER_ATTEMPTS_MAX 25 /* of a message that always fails, unless somebody says otherwise */

struct worker_end {
    int wait_status;   /* as wait() gives it; if started */
    int start_errno;   /* why the program could not be started; 0: it was */
    bool was_stopped;  /* we ended it because the pool stops */
    bool was_too_slow; /* we ended it because of the time limit */
};

enum worker_verdict {
    WORKER_RUN,       /* accept() only */
    WORKER_DELETE,    /* its work is done */
    WORKER_FAIL,      /* this attempt failed: it is tried again, later each time, or given up */
    WORKER_RETRY,     /* make it visible again after retry_after_s */
    WORKER_GIVE_BACK, /* make it visible again now */
    WORKER_LEAVE,     /* it is not ours to touch */
};

struct worker_handler {
    void *context;
    /* Decides about a message that was received; fills `job` for WORKER_RUN. */
    enum worker_verdict (*accept)(void *context, struct worker_slot *slot, const struct tally_message *message,
                                  struct worker_job *job);
    /* Decides what the end of the program means. */
    enum worker_verdict (*finish)(void *context, struct worker_slot *slot, const struct tally_message *message,
                                  struct worker_job *job, const struct worker_end *end);
    /* For WORKER_FAIL, once for each: tells the user what came of it. With outcome "" the server was not told: it could
     * not be, as job->settle_error says, or its queue delivers at most once. */
    void (*report)(void *context, struct worker_slot *slot, const struct tally_message *message,
                   const struct worker_job *job, const struct tally_failed *failed);
};

struct worker_options {
    /* A client that tries again by itself, for one thread. NULL: there is none, and who asked has been told. */
    struct tally_client *(*connect)(void *context);
    void (*note)(void *context, const char *text); /* what the user should know. Any thread */
    void *context;                                 /* of both */
    const char *queue;
    unsigned concurrency;
    unsigned visibility_s; /* heartbeats come three times as often */
    bool has_retry_after;  /* or else WORKER_FAIL lets the queue's back-off or our own decide */
    unsigned retry_after_s;
    /* WORKER_FAIL: so many attempts; 0: any number; not given: WORKER_ATTEMPTS_MAX, or what a RedrivePolicy says if
     * that is more, and any number for what is a dead letter already. */
    bool has_attempts_max;
    unsigned attempts_max;
    const char *dead_letter_queue; /* WORKER_FAIL: where a message goes that is given up; NULL: where its queue says */
    unsigned time_limit_s;         /* 0: none */
    unsigned grace_s;              /* how long running programs may go on when the pool stops */
    /* The workers end when there is no message, none in their hands, and none still to come that failed here or
     * of which an answer was lost. */
    bool is_until_empty;
    bool is_quiet;   /* say nothing when a signal stops the pool */
    bool is_patient; /* go on when the server refuses a receive: somebody else watches over the queue */
};

/* Blocks the signals that worker_pool_watch() takes. NULL if a client can't be made. Options
 * and handler are borrowed until worker_pool_destroy(). */
struct worker_pool *worker_pool_create(const struct worker_options *options, const struct worker_handler *handler);

/* Starts the workers. */
void worker_pool_start(struct worker_pool *pool);

/* Takes signals until all workers have ended: SIGCHLD; SIGINT, SIGTERM and SIGHUP stop the pool, which tells the user
 * what is waited for; a second one ends the grace. Calls tick() about ten times a second. Returns the first signal that
 * stopped it, or 0. */
int worker_pool_watch(struct worker_pool *pool, void (*tick)(void *context), void *context);

/* Lets no worker take another message, and ends programs that still run when the grace is over. Some seconds later,
 * requests that the server has not answered are given up. Any thread. */
void worker_pool_stop(struct worker_pool *pool);
bool worker_pool_is_stopping(struct worker_pool *pool);

/* The same, because of an error that makes going on useless; the first one is kept. Any thread. */
void worker_pool_fail(struct worker_pool *pool, const struct tally_error *error);

/* That error, or NULL. After worker_pool_watch(). */
const struct tally_error *worker_pool_failure(const struct worker_pool *pool);

/* Ends a pool whose workers have ended or were never started, and lets signals through again. */
void worker_pool_destroy(struct worker_pool *pool);

/* The client and the pool of a worker; for its handler, on its thread. */
struct tally_client *worker_slot_client(struct worker_slot *slot);
struct worker_pool *worker_slot_pool(struct worker_slot *slot);

/* Does the queue deliver at most once? Then a message is over when it is received: nothing keeps, deletes or gives it
 * back. Asks the server once in the life of the pool. For the handler, on the worker's thread. */
bool worker_slot_is_at_most_once(struct worker_slot *slot);

/* How a program ended that did not succeed, in a few words. */
const char *worker_end_text(struct arena *arena, const struct worker_end *end, unsigned time_limit_s);

/* A message that this worker has in hand was delivered again, under another receipt handle: from now on that one
 * counts. False if the worker does not have this message in hand any more. Any thread. */
bool worker_slot_renew(struct worker_slot *slot, const char *message_id, const char *receipt_handle);

/* Tells the user once that the server can't be reached, until worker_pool_reached(); then pauses a second. A refusal is
 * passed over in silence: who watches over the queue tells it if need be. False when the pool is stopping. For loops
 * that try for ever; any thread. */
bool worker_pool_pause(struct worker_pool *pool, const struct tally_error *error);
void worker_pool_reached(struct worker_pool *pool);

#endif
