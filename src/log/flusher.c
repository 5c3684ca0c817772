/* The log threads. See flusher.h.
 *
 * There is one frame between the loop and a thread, and it belongs to one of them at a time: the loop's while is_idle,
 * the thread's from the moment on when that becomes false. The thread sets `durable` before `is_idle`: whoever sees it
 * idle also sees what became durable. So the loop never waits for a frame.
 *
 * The lock guards who has which log: one thread at a time, which has it from when it is queued until there is nothing
 * more to do for it. It is held for some instructions only, never during a write. */
#include "log/flusher.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "platform/thread.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define CHECK_EVERY_MS 1000u  /* at the folders of logs that nobody writes to */
#define THREAD_REST_MS 10000u /* a thread that had nothing to do for so long ends, if it is not needed all the time */

struct flusher {
    struct flushers *flushers;
    struct log *log;
    void (*wake)(void *context);
    void *context;
    struct list_link link;        /* among all; of the lock, as are the next three */
    struct list_link queued_link; /* while it waits for a thread */
    bool is_taken;                /* a thread has it, or it is queued */
    bool is_ending;               /* it waits until no thread has it */
    struct bytes frame;
    uint64_t sequence;      /* of that frame */
    struct failure failure; /* written once, before has_failed is set */
    atomic_bool is_idle;
    atomic_bool is_abandoned;
    atomic_bool has_failed;
    atomic_uint_least64_t durable;
};

struct flushers {
    pthread_mutex_t lock;
    pthread_cond_t work;   /* something is queued, or the end has come */
    pthread_cond_t let_go; /* a thread has let a flusher go that is ending, or has ended itself */
    struct list all;
    struct list queued;
    size_t queued_count;
    size_t thread_count;
    size_t free_count; /* threads that have no log, or are just being started */
    uint64_t check_ms; /* when folders are looked at next */
    unsigned check_every_ms;
    bool is_ending;
};

static void lock(struct flushers *flushers)
{
    const int result = pthread_mutex_lock(&flushers->lock);
    ASSERT(result == 0);
}

static void unlock(struct flushers *flushers)
{
    const int result = pthread_mutex_unlock(&flushers->lock);
    ASSERT(result == 0);
}

/* --- what a thread does for a log --------------------------------------------------------------------------------- */

static void note_failure(struct flusher *flusher, const struct failure *failure)
{
    if (atomic_load(&flusher->has_failed))
        return;
    flusher->failure = *failure;
    atomic_store_explicit(&flusher->has_failed, true, memory_order_release);
}

static void write_frame(struct flusher *flusher)
{
    struct failure failure;
    failure_init(&failure);
    if (atomic_load(&flusher->is_abandoned))
        note_failure(flusher, &(struct failure){.error = ERROR_SERVICE_UNAVAILABLE, .text = "the log was given up."});
    else if (log_write(flusher->log, flusher->frame, &failure) == OK)
        atomic_store_explicit(&flusher->durable, flusher->sequence, memory_order_release);
    else
        note_failure(flusher, &failure);
    atomic_store_explicit(&flusher->is_idle, true, memory_order_release);
    flusher->wake(flusher->context);
}

/* Is the folder still there? */
static void check_folder(struct flusher *flusher)
{
    struct failure failure;
    failure_init(&failure);
    if (atomic_load(&flusher->is_abandoned) || atomic_load(&flusher->has_failed) ||
        log_confirm(flusher->log, &failure) == OK)
        return;
    note_failure(flusher, &failure);
    flusher->wake(flusher->context);
}

static void queue(struct flushers *flushers, struct flusher *flusher)
{
    ASSERT(flusher->is_taken);
    list_append(&flushers->queued, &flusher->queued_link);
    flushers->queued_count++;
}

/* Writes its frames as they come, and between them works on its next segment, until there is neither to do, or another
 * log waits for a thread. With the lock, which is open meanwhile. */
static void serve(struct flushers *flushers, struct flusher *flusher)
{
    bool has_more;
    do {
        unlock(flushers);
        if (!flusher_is_idle(flusher))
            write_frame(flusher);
        /* One piece even if the next frame waits already, so that a busy log does not come to its segment's end
         * unprepared. */
        has_more = log_prepare(flusher->log);
        lock(flushers);
        has_more = (has_more && !flusher->is_ending) || !flusher_is_idle(flusher);
    } while (has_more && list_is_empty(&flushers->queued));
    if (has_more) {
        queue(flushers, flusher);
        return;
    }
    flusher->is_taken = false;
    if (flusher->is_ending)
        pthread_cond_broadcast(&flushers->let_go);
}

static bool start_thread(struct flushers *flushers);

static bool has_several(const struct flushers *flushers)
{
    const struct list_link *first = list_first(&flushers->all);
    return first != NULL && list_next(&flushers->all, first) != NULL;
}

/* Looks at the folders of all logs that no thread has. A disk may hang, and another thread then looks at the others.
 * With the lock, which is open meanwhile. */
static void check_folders(struct flushers *flushers)
{
    if (flushers->free_count == 0 && has_several(flushers))
        (void)start_thread(flushers);
    flushers->check_ms = monotonic_ms() + flushers->check_every_ms;
    /* One that is taken stays in its place. */
    for (struct list_link *link = list_first(&flushers->all); link != NULL; link = list_next(&flushers->all, link)) {
        struct flusher *flusher = CONTAINER_OF(link, struct flusher, link);
        if (flusher->is_taken)
            continue;
        flusher->is_taken = true;
        unlock(flushers);
        check_folder(flusher);
        lock(flushers);
        if (flusher_is_idle(flusher)) {
            flusher->is_taken = false;
            if (flusher->is_ending)
                pthread_cond_broadcast(&flushers->let_go);
        } else {
            queue(flushers, flusher); /* a frame has come */
        }
    }
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static struct flusher *take_queued(struct flushers *flushers)
{
    struct list_link *link = list_first(&flushers->queued);
    if (link == NULL)
        return NULL;
    list_remove(link);
    flushers->queued_count--;
    return CONTAINER_OF(link, struct flusher, queued_link);
}

/* Until something is queued or the folders are to be looked at. */
static void wait_for_work(struct flushers *flushers)
{
    (void)condition_wait_until(&flushers->work, &flushers->lock, flushers->check_ms);
}

/* Whether there would be too few threads without the one that asks. */
static bool is_always_needed(const struct flushers *flushers)
{
    return flushers->thread_count <= (has_several(flushers) ? 2 : 1);
}

/* With the lock. */
static void work(struct flushers *flushers)
{
    uint64_t worked_ms = monotonic_ms();
    while (!flushers->is_ending && (is_always_needed(flushers) || monotonic_ms() < worked_ms + THREAD_REST_MS)) {
        struct flusher *flusher = take_queued(flushers);
        const bool must_check = monotonic_ms() >= flushers->check_ms;
        if (flusher == NULL && !must_check) {
            wait_for_work(flushers);
            continue;
        }
        flushers->free_count--;
        if (flusher != NULL) {
            serve(flushers, flusher);
            worked_ms = monotonic_ms();
        }
        if (must_check)
            check_folders(flushers);
        flushers->free_count++;
    }
}

static void *thread_run(void *argument)
{
    struct flushers *flushers = argument;
    lock(flushers);
    work(flushers);
    flushers->free_count--;
    flushers->thread_count--;
    pthread_cond_broadcast(&flushers->let_go);
    unlock(flushers);
    return NULL;
}

/* With the lock. False: there are as many as there may be, or the system has no more. */
static bool start_thread(struct flushers *flushers)
{
    pthread_t thread;
    if (flushers->thread_count >= FLUSHER_THREADS_MAX || thread_start(&thread, thread_run, flushers) != 0)
        return false;
    (void)pthread_detach(thread);
    flushers->thread_count++;
    flushers->free_count++;
    return true;
}

struct flushers *flushers_create(void)
{
    struct flushers *flushers = memory_allocate_zeroed(sizeof(*flushers));
    int result = pthread_mutex_init(&flushers->lock, NULL);
    ASSERT(result == 0);
    condition_init(&flushers->work);
    result = pthread_cond_init(&flushers->let_go, NULL);
    ASSERT(result == 0);
    list_init(&flushers->all);
    list_init(&flushers->queued);
    flushers->check_every_ms = CHECK_EVERY_MS;
    flushers->check_ms = monotonic_ms() + flushers->check_every_ms;
    lock(flushers);
    const bool is_started = start_thread(flushers);
    ASSERT(is_started);
    unlock(flushers);
    return flushers;
}

void flushers_check_often(struct flushers *flushers, unsigned every_ms)
{
    lock(flushers);
    flushers->check_every_ms = every_ms < CHECK_EVERY_MS ? every_ms : CHECK_EVERY_MS;
    flushers->check_ms = monotonic_ms() + flushers->check_every_ms;
    pthread_cond_broadcast(&flushers->work); /* who waits for the next look already, waits for too long */
    unlock(flushers);
}

void flushers_destroy(struct flushers *flushers)
{
    lock(flushers);
    ASSERT(list_is_empty(&flushers->all) && list_is_empty(&flushers->queued));
    flushers->is_ending = true;
    pthread_cond_broadcast(&flushers->work);
    while (flushers->thread_count > 0)
        pthread_cond_wait(&flushers->let_go, &flushers->lock);
    unlock(flushers);
    (void)pthread_cond_destroy(&flushers->let_go);
    (void)pthread_cond_destroy(&flushers->work);
    (void)pthread_mutex_destroy(&flushers->lock);
    free(flushers);
}

size_t flushers_thread_count(struct flushers *flushers)
{
    lock(flushers);
    const size_t count = flushers->thread_count;
    unlock(flushers);
    return count;
}

/* --- the place of a log ------------------------------------------------------------------------------------------- */

struct flusher *flusher_create(struct flushers *flushers, struct log *log, void (*wake)(void *context), void *context)
{
    ASSERT(flushers != NULL && log != NULL && wake != NULL);
    struct flusher *flusher = memory_allocate_zeroed(sizeof(*flusher));
    flusher->flushers = flushers;
    flusher->log = log;
    flusher->wake = wake;
    flusher->context = context;
    atomic_init(&flusher->is_idle, true);
    atomic_init(&flusher->is_abandoned, false);
    atomic_init(&flusher->has_failed, false);
    atomic_init(&flusher->durable, 0);
    lock(flushers);
    list_append(&flushers->all, &flusher->link);
    unlock(flushers);
    return flusher;
}

void flusher_abandon(struct flusher *flusher)
{
    atomic_store(&flusher->is_abandoned, true);
}

void flusher_destroy(struct flusher *flusher)
{
    ASSERT(flusher != NULL);
    struct flushers *flushers = flusher->flushers;
    lock(flushers);
    flusher->is_ending = true;
    while (flusher->is_taken)
        pthread_cond_wait(&flushers->let_go, &flushers->lock);
    ASSERT(flusher_is_idle(flusher));
    list_remove(&flusher->link);
    unlock(flushers);
    free(flusher);
}

void flusher_submit(struct flusher *flusher, struct bytes frame)
{
    struct flushers *flushers = flusher->flushers;
    ASSERT(flusher_is_idle(flusher));
    struct frame_header header;
    const bool is_frame = frame.size >= FRAME_HEADER_SIZE && frame_header_decode(frame, &header);
    ASSERT(is_frame && header.size == frame.size);
    flusher->frame = frame;
    flusher->sequence = header.sequence;
    atomic_store_explicit(&flusher->is_idle, false, memory_order_release);
    lock(flushers);
    const bool must_queue = !flusher->is_taken; /* else the thread that has it sees the frame before it lets go */
    if (must_queue) {
        flusher->is_taken = true;
        queue(flushers, flusher);
        if (flushers->queued_count > flushers->free_count)
            (void)start_thread(flushers); /* if not, it waits until another log lets a thread go */
    }
    unlock(flushers);
    if (must_queue)
        pthread_cond_signal(&flushers->work);
}

bool flusher_is_idle(const struct flusher *flusher)
{
    return atomic_load_explicit(&flusher->is_idle, memory_order_acquire);
}

uint64_t flusher_durable(const struct flusher *flusher)
{
    return atomic_load_explicit(&flusher->durable, memory_order_acquire);
}

enum error flusher_failure(const struct flusher *flusher, struct failure *failure)
{
    if (!atomic_load_explicit(&flusher->has_failed, memory_order_acquire))
        return OK;
    return failure_set(failure, flusher->failure.error, "%s", flusher->failure.text);
}
