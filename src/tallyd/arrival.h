/* Namespaces that come while the daemon serves: a thread of their own reads what their logs hold, and the loop goes on
 * meanwhile. One arrival at a time. */
#ifndef TALLY_TALLYD_ARRIVAL_H
#define TALLY_TALLYD_ARRIVAL_H

#include "tallyd/namespaces.h"

#include <pthread.h>

struct arrival {
    struct namespaces *namespaces;
    struct opening *opening_owned; /* NULL: none is under way */
    pthread_t thread;
    uv_async_t read; /* the thread is done; it keeps the loop alive until then */
    void (*done)(void *context);
    void *context;
};

/* All is borrowed. `done` is called from the loop each time an arrival can be ended. */
void arrival_init(struct arrival *arrival, struct namespaces *namespaces, uv_loop_t *loop, void (*done)(void *context),
                  void *context);

/* None is under way. The loop must run once more. */
void arrival_deinit(struct arrival *arrival);

/* Begins to read the namespaces of these names, none of which is served (opening_recover()).
 * ERROR_SERVICE_UNAVAILABLE: the system gave no thread. */
enum error arrival_begin(struct arrival *arrival, const struct bytes *names, size_t count, struct failure *failure);

static inline bool arrival_is_under_way(const struct arrival *arrival)
{
    return arrival->opening_owned != NULL;
}

/* Has them served, or, where they `must_go`, closes them again. The errors of namespaces_open(). */
enum error arrival_end(struct arrival *arrival, bool must_go, struct failure *failure);

#endif
