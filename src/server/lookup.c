#include "server/lookup.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/thread.h"

#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What the loop and the thread share. Whoever leaves it last frees it. */
struct work {
    pthread_mutex_t lock;
    struct lookup *lookup; /* NULL: it was given up, or is over. Used with the lock held */
    struct lookup_result result;
    unsigned users;
    char host_owned[];
};

struct lookup {
    uv_async_t async; /* first: its callbacks find the rest by it */
    struct work *work;
    lookup_cb done;
    void *context;
};

static void leave(struct work *work)
{
    (void)pthread_mutex_lock(&work->lock);
    const bool is_last = --work->users == 0;
    (void)pthread_mutex_unlock(&work->lock);
    if (!is_last)
        return;
    (void)pthread_mutex_destroy(&work->lock);
    free(work);
}

static void find(const char *host, struct lookup_result *result)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    result->status = getaddrinfo(host, NULL, &hints, &found);
    for (const struct addrinfo *at = found; at != NULL && result->count < LOOKUP_ADDRESSES_MAX; at = at->ai_next)
        if (at->ai_family == AF_INET || at->ai_family == AF_INET6)
            memcpy(&result->addresses[result->count++], at->ai_addr, at->ai_addrlen);
    if (result->status == 0 && result->count == 0)
        result->status = EAI_NODATA;
    if (found != NULL)
        freeaddrinfo(found);
}

static void *run(void *argument)
{
    struct work *work = argument;
    struct lookup_result result = {0};
    find(work->host_owned, &result);
    (void)pthread_mutex_lock(&work->lock);
    work->result = result;
    if (work->lookup != NULL)
        (void)uv_async_send(&work->lookup->async);
    (void)pthread_mutex_unlock(&work->lock);
    leave(work);
    return NULL;
}

static void on_closed(uv_handle_t *handle)
{
    free(CONTAINER_OF((uv_async_t *)handle, struct lookup, async));
}

void lookup_abandon(struct lookup *lookup)
{
    (void)pthread_mutex_lock(&lookup->work->lock);
    lookup->work->lookup = NULL;
    (void)pthread_mutex_unlock(&lookup->work->lock);
    leave(lookup->work);
    uv_close((uv_handle_t *)&lookup->async, on_closed);
}

static void on_async(uv_async_t *async)
{
    struct lookup *lookup = CONTAINER_OF(async, struct lookup, async);
    (void)pthread_mutex_lock(&lookup->work->lock);
    const struct lookup_result result = lookup->work->result;
    (void)pthread_mutex_unlock(&lookup->work->lock);
    const lookup_cb done = lookup->done;
    void *const context = lookup->context;
    lookup_abandon(lookup);
    done(context, &result);
}

static int start_thread(struct work *work)
{
    pthread_t thread;
    const int status = thread_start(&thread, run, work);
    if (status == 0)
        (void)pthread_detach(thread);
    return status;
}

static struct work *make_work(struct lookup *lookup, const char *host)
{
    const size_t size = strlen(host) + 1;
    struct work *work = memory_allocate_zeroed(sizeof(*work) + size);
    memcpy(work->host_owned, host, size);
    work->lookup = lookup;
    work->users = 2;
    const int status = pthread_mutex_init(&work->lock, NULL);
    ASSERT(status == 0); /* it can't fail without attributes */
    return work;
}

struct lookup *lookup_begin(uv_loop_t *loop, const char *host, lookup_cb done, void *context)
{
    struct lookup *lookup = memory_allocate_zeroed(sizeof(*lookup));
    lookup->done = done;
    lookup->context = context;
    const int status = uv_async_init(loop, &lookup->async, on_async);
    ASSERT(status == 0); /* fails only where the loop itself could not be made */
    uv_unref((uv_handle_t *)&lookup->async);
    lookup->work = make_work(lookup, host);
    if (start_thread(lookup->work) == 0)
        return lookup;
    leave(lookup->work); /* for the thread that is not there */
    lookup_abandon(lookup);
    return NULL;
}

bool lookup_may_pass(int status)
{
    return status != EAI_NONAME && status != EAI_NODATA;
}
