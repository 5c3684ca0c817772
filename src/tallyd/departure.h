/* Namespaces that leave while the daemon serves: those that the credentials name no more. Each goes in steps, so that
 * the others are not kept waiting:
 *
 *     its relays end, and settle what they have in flight, for which it is still served
 *     no request reaches it any more, who waits in it gets an answer, held replies leave when they are durable
 *     a thread of its own closes the log and gives the memory back
 *
 * Its folder stays as it is. Until the last step is done its name can't be opened again. */
#ifndef TALLY_TALLYD_DEPARTURE_H
#define TALLY_TALLYD_DEPARTURE_H

#include "tallyd/relays.h"

#include <pthread.h>

struct departure {
    struct relays *relays;
    struct opened_namespace **leaving_owned; /* in the first two steps */
    size_t leaving_count;
    size_t leaving_capacity;
    struct opened_namespace **closing_owned; /* with the thread */
    size_t closing_count;
    size_t closing_capacity;
    bool is_closing; /* the thread runs */
    pthread_t thread;
    uv_timer_t look;   /* how far they are; runs while there are any */
    uv_async_t closed; /* the thread is done */
    void (*done)(void *context, size_t count);
    void *context;
};

/* All is borrowed. `done` is called from the loop when so many more have gone. Neither handle keeps the loop alive. */
void departure_init(struct departure *departure, struct relays *relays, uv_loop_t *loop,
                    void (*done)(void *context, size_t count), void *context);

/* When the server runs no more and relays_close() is over. Closes what has been withdrawn here and now; `done` is not
 * called. Those in the first step are among the served ones still. The loop must run once more. */
void departure_deinit(struct departure *departure);

/* Has a namespace leave that is served and does not leave yet. At least one other one stays. */
void departure_begin(struct departure *departure, struct opened_namespace *opened);

/* Does one of this name leave? O(those that do). */
bool departure_has(const struct departure *departure, struct bytes name);

#endif
