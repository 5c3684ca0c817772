/* The log thread. See flusher.h.
 *
 * One mutex guards the frame that is handed over; what the loop asks all the time (idle? durable up to?) is atomic. The
 * thread sets `durable` before `is_idle`, so that whoever sees it idle also sees what became durable. */
#include "log/flusher.h"

#include "base/assert.h"
#include "base/memory.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

struct flusher {
    struct log *log;
    void (*wake)(void *context);
    void *context;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct bytes frame;     /* under mutex: handed over, not taken yet; ptr NULL: none */
    uint64_t sequence;      /* under mutex: of that frame */
    bool is_stopping;       /* under mutex */
    struct failure failure; /* written once, before has_failed is set */
    atomic_bool is_idle;
    atomic_bool has_failed;
    atomic_uint_least64_t durable;
};

/* Waits for a frame; false when the thread shall end. Between frames, works on the next segment. */
static bool frame_wait(struct flusher *flusher, struct bytes *frame, uint64_t *sequence)
{
    /* One piece even if the next frame waits already, so that a busy log does not come to its segment's end unprepared. */
    bool has_more = log_prepare(flusher->log);
    (void)pthread_mutex_lock(&flusher->mutex);
    while (flusher->frame.ptr == NULL && !flusher->is_stopping) {
        if (!has_more) {
            (void)pthread_cond_wait(&flusher->changed, &flusher->mutex);
            continue;
        }
        (void)pthread_mutex_unlock(&flusher->mutex);
        has_more = log_prepare(flusher->log);
        (void)pthread_mutex_lock(&flusher->mutex);
    }
    const bool has_frame = flusher->frame.ptr != NULL;
    *frame = flusher->frame;
    *sequence = flusher->sequence;
    flusher->frame = bytes_make(NULL, 0);
    (void)pthread_mutex_unlock(&flusher->mutex);
    return has_frame;
}

static void *flusher_run(void *argument)
{
    struct flusher *flusher = argument;
    struct bytes frame;
    uint64_t sequence;
    while (frame_wait(flusher, &frame, &sequence)) {
        ASSERT(!atomic_load(&flusher->is_idle));
        struct failure failure = {.error = OK};
        if (log_write(flusher->log, frame, &failure) == OK) {
            atomic_store_explicit(&flusher->durable, sequence, memory_order_release);
        } else if (!atomic_load(&flusher->has_failed)) {
            flusher->failure = failure;
            atomic_store_explicit(&flusher->has_failed, true, memory_order_release);
        }
        atomic_store_explicit(&flusher->is_idle, true, memory_order_release);
        flusher->wake(flusher->context);
    }
    return NULL;
}

struct flusher *flusher_create(struct log *log, void (*wake)(void *context), void *context)
{
    ASSERT(log != NULL && wake != NULL);
    struct flusher *flusher = memory_allocate_zeroed(sizeof(*flusher));
    flusher->log = log;
    flusher->wake = wake;
    flusher->context = context;
    atomic_init(&flusher->is_idle, true);
    atomic_init(&flusher->has_failed, false);
    atomic_init(&flusher->durable, 0);
    int result = pthread_mutex_init(&flusher->mutex, NULL);
    ASSERT(result == 0);
    result = pthread_cond_init(&flusher->changed, NULL);
    ASSERT(result == 0);

    /* Signals are for the loop's thread. */
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(&flusher->thread, NULL, flusher_run, flusher);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    ASSERT(result == 0);
    return flusher;
}

void flusher_destroy(struct flusher *flusher)
{
    ASSERT(flusher != NULL);
    (void)pthread_mutex_lock(&flusher->mutex);
    flusher->is_stopping = true;
    (void)pthread_cond_signal(&flusher->changed);
    (void)pthread_mutex_unlock(&flusher->mutex);
    (void)pthread_join(flusher->thread, NULL);
    ASSERT(flusher->frame.ptr == NULL);
    (void)pthread_cond_destroy(&flusher->changed);
    (void)pthread_mutex_destroy(&flusher->mutex);
    free(flusher);
}

void flusher_submit(struct flusher *flusher, struct bytes frame)
{
    ASSERT(flusher_is_idle(flusher));
    struct frame_header header;
    const bool is_frame = frame.size >= FRAME_HEADER_SIZE && frame_header_decode(frame, &header);
    ASSERT(is_frame && header.size == frame.size);
    atomic_store_explicit(&flusher->is_idle, false, memory_order_relaxed);
    (void)pthread_mutex_lock(&flusher->mutex);
    ASSERT(flusher->frame.ptr == NULL && !flusher->is_stopping);
    flusher->frame = frame;
    flusher->sequence = header.sequence;
    (void)pthread_cond_signal(&flusher->changed);
    (void)pthread_mutex_unlock(&flusher->mutex);
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
