/* The log thread. See flusher.h.
 *
 * There is one frame between the two threads, and it belongs to one of them at a time: the loop's while is_idle, the
 * log thread's from the moment on when that becomes false. So there is no lock, and the loop never waits for the
 * thread. The thread sets `durable` before `is_idle`: whoever sees it idle also sees what became durable. */
#include "log/flusher.h"

#include "base/assert.h"
#include "base/memory.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define CONFIRM_EVERY_S 1

struct flusher {
    struct log *log;
    void (*wake)(void *context);
    void *context;
    pthread_t thread;
    sem_t handed_over;      /* posted for each frame, and once to stop */
    struct bytes frame;     /* ptr NULL: stop */
    uint64_t sequence;      /* of that frame */
    struct failure failure; /* written once, before has_failed is set */
    atomic_bool is_idle;
    atomic_bool has_failed;
    atomic_uint_least64_t durable;
};

static void note_failure(struct flusher *flusher, const struct failure *failure)
{
    if (atomic_load(&flusher->has_failed))
        return;
    flusher->failure = *failure;
    atomic_store_explicit(&flusher->has_failed, true, memory_order_release);
}

/* Waits for a frame, and looks after the folder meanwhile. */
static void frame_sleep(struct flusher *flusher)
{
    for (;;) {
        struct timespec end;
        struct failure failure;
        failure_init(&failure);
        (void)clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_sec += CONFIRM_EVERY_S;
        if (sem_clockwait(&flusher->handed_over, CLOCK_MONOTONIC, &end) == 0)
            return;
        ASSERT(errno == EINTR || errno == ETIMEDOUT);
        if (errno != ETIMEDOUT || atomic_load(&flusher->has_failed) || log_confirm(flusher->log, &failure) == OK)
            continue;
        note_failure(flusher, &failure);
        flusher->wake(flusher->context);
    }
}

/* Waits for a frame; false when the thread shall end. Between frames, works on the next segment. */
static bool frame_wait(struct flusher *flusher)
{
    /* One piece even if the next frame waits already, so that a busy log does not come to its segment's end
     * unprepared. */
    bool has_more = log_prepare(flusher->log);
    while (has_more && sem_trywait(&flusher->handed_over) != 0)
        has_more = log_prepare(flusher->log);
    if (!has_more)
        frame_sleep(flusher);
    const bool is_idle = atomic_load_explicit(&flusher->is_idle, memory_order_acquire);
    ASSERT(!is_idle); /* and with that, the frame is seen */
    return flusher->frame.ptr != NULL;
}

static void *flusher_run(void *argument)
{
    struct flusher *flusher = argument;
    while (frame_wait(flusher)) {
        struct failure failure;
        failure_init(&failure);
        if (log_write(flusher->log, flusher->frame, &failure) == OK)
            atomic_store_explicit(&flusher->durable, flusher->sequence, memory_order_release);
        else
            note_failure(flusher, &failure);
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
    int result = sem_init(&flusher->handed_over, 0, 0);
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

/* Gives the frame to the thread, or with an empty one the word to stop. */
static void hand_over(struct flusher *flusher, struct bytes frame, uint64_t sequence)
{
    flusher->frame = frame;
    flusher->sequence = sequence;
    atomic_store_explicit(&flusher->is_idle, false, memory_order_release);
    int result = sem_post(&flusher->handed_over);
    ASSERT(result == 0);
}

void flusher_destroy(struct flusher *flusher)
{
    ASSERT(flusher != NULL);
    while (!flusher_is_idle(flusher))
        sched_yield(); /* the frame in work is a millisecond from its end, and the thread owns the place of the next */
    hand_over(flusher, bytes_make(NULL, 0), 0);
    (void)pthread_join(flusher->thread, NULL);
    (void)sem_destroy(&flusher->handed_over);
    free(flusher);
}

void flusher_submit(struct flusher *flusher, struct bytes frame)
{
    ASSERT(flusher_is_idle(flusher));
    struct frame_header header;
    const bool is_frame = frame.size >= FRAME_HEADER_SIZE && frame_header_decode(frame, &header);
    ASSERT(is_frame && header.size == frame.size);
    hand_over(flusher, frame, header.sequence);
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
