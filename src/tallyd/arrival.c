#include "tallyd/arrival.h"

#include "base/assert.h"
#include "platform/thread.h"

#include <string.h>

static void *read_logs(void *argument)
{
    struct arrival *arrival = argument;
    opening_recover(arrival->opening_owned);
    uv_async_send(&arrival->read);
    return NULL;
}

static void on_read(uv_async_t *handle)
{
    struct arrival *arrival = handle->data;
    (void)pthread_join(arrival->thread, NULL);
    uv_unref((uv_handle_t *)handle);
    arrival->done(arrival->context);
}

void arrival_init(struct arrival *arrival, struct namespaces *namespaces, uv_loop_t *loop, void (*done)(void *context),
                  void *context)
{
    *arrival = (struct arrival){.namespaces = namespaces, .done = done, .context = context};
    const int result = uv_async_init(loop, &arrival->read, on_read);
    ASSERT(result == 0); /* fails only where the loop itself could not be made */
    arrival->read.data = arrival;
    uv_unref((uv_handle_t *)&arrival->read);
}

void arrival_deinit(struct arrival *arrival)
{
    ASSERT(!arrival_is_under_way(arrival));
    uv_close((uv_handle_t *)&arrival->read, NULL);
}

enum error arrival_begin(struct arrival *arrival, const struct bytes *names, size_t count, struct failure *failure)
{
    ASSERT(!arrival_is_under_way(arrival));
    arrival->opening_owned = opening_create(arrival->namespaces, names, count);
    uv_ref((uv_handle_t *)&arrival->read);
    const int result = thread_start(&arrival->thread, read_logs, arrival);
    if (result == 0)
        return OK;
    uv_unref((uv_handle_t *)&arrival->read);
    opening_abandon(arrival->opening_owned);
    arrival->opening_owned = NULL;
    return failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "there is no thread to read new namespaces with: %s.",
                       strerror(result));
}

enum error arrival_end(struct arrival *arrival, bool must_go, struct failure *failure)
{
    struct opening *opening = arrival->opening_owned;
    arrival->opening_owned = NULL;
    if (!must_go)
        return opening_finish(opening, failure);
    opening_abandon(opening);
    return failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "the daemon is stopping.");
}
