/* The log threads of a simulated node (log/flusher.h): one fiber for each log. It takes the place of log/flusher.c at
 * link time, and does what a thread of that does for its log, in the same order. */
#include "log/flusher.h"

#include "base/assert.h"
#include "base/memory.h"
#include "owners_fiber.h"
#include <stdlib.h>

struct flushers {
    unsigned check_every_ms;
};

struct flusher {
    const struct flushers *flushers;
    struct log *log;
    void (*wake)(void *context);
    void *context;
    struct fiber *fiber;
    struct fiber *waiter; /* for its end */
    struct bytes frame;
    uint64_t sequence;
    uint64_t durable;
    struct failure failure; /* error OK: none */
    bool is_idle;
    bool is_abandoned;
    bool is_ending;
    bool is_over;
};

struct flushers *flushers_create(void)
{
    return memory_allocate_zeroed(sizeof(struct flushers));
}

void flushers_destroy(struct flushers *flushers)
{
    free(flushers);
}

void flushers_check_often(struct flushers *flushers, unsigned every_ms)
{
    flushers->check_every_ms = every_ms < 1000 ? every_ms : 1000;
}

static void note_failure(struct flusher *flusher, const struct failure *failure)
{
    if (flusher->failure.error == OK)
        flusher->failure = *failure;
}

static void write_frame(struct flusher *flusher)
{
    struct failure failure;
    failure_init(&failure);
    if (flusher->is_abandoned)
        note_failure(flusher, &(struct failure){.error = ERROR_SERVICE_UNAVAILABLE});
    else if (log_write(flusher->log, flusher->frame, &failure) == OK)
        flusher->durable = flusher->sequence;
    else
        note_failure(flusher, &failure);
    flusher->is_idle = true;
    flusher->wake(flusher->context);
}

static void check_log(struct flusher *flusher)
{
    struct failure failure;
    failure_init(&failure);
    if (flusher->failure.error != OK || log_confirm(flusher->log, &failure) == OK)
        return;
    note_failure(flusher, &failure);
    flusher->wake(flusher->context);
}

static void run(void *context)
{
    struct flusher *flusher = context;
    uint64_t check_at = sim_now() + flusher->flushers->check_every_ms * MS;
    while (!flusher->is_ending || !flusher->is_idle) {
        if (!flusher->is_idle)
            write_frame(flusher);
        if (log_prepare(flusher->log) || !flusher->is_idle || flusher->is_ending)
            continue;
        if (sim_now() >= check_at) {
            check_log(flusher);
            check_at = sim_now() + flusher->flushers->check_every_ms * MS;
        } else {
            fiber_wait(check_at);
        }
    }
    flusher->is_over = true;
    if (flusher->waiter != NULL)
        fiber_wake(flusher->waiter);
}

struct flusher *flusher_create(struct flushers *flushers, struct log *log, void (*wake)(void *context), void *context)
{
    struct flusher *flusher = memory_allocate_zeroed(sizeof(*flusher));
    *flusher = (struct flusher){.flushers = flushers, .log = log, .wake = wake, .context = context, .is_idle = true};
    failure_init(&flusher->failure);
    flusher->fiber = fiber_start(fiber_process(), run, flusher);
    return flusher;
}

void flusher_abandon(struct flusher *flusher)
{
    flusher->is_abandoned = true;
}

void flusher_destroy(struct flusher *flusher)
{
    flusher->is_ending = true;
    flusher->waiter = fiber_current();
    fiber_wake(flusher->fiber);
    while (!flusher->is_over)
        fiber_wait(NEVER);
    free(flusher);
}

void flusher_submit(struct flusher *flusher, struct bytes frame)
{
    struct frame_header header;
    const bool is_frame = frame.size >= FRAME_HEADER_SIZE && frame_header_decode(frame, &header);
    ASSERT(flusher->is_idle && is_frame);
    flusher->frame = frame;
    flusher->sequence = header.sequence;
    flusher->is_idle = false;
    fiber_wake(flusher->fiber);
}

bool flusher_is_idle(const struct flusher *flusher)
{
    return flusher->is_idle;
}

uint64_t flusher_durable(const struct flusher *flusher)
{
    return flusher->durable;
}

enum error flusher_failure(const struct flusher *flusher, struct failure *failure)
{
    return flusher->failure.error == OK ? OK
                                        : failure_set(failure, flusher->failure.error, "%s", flusher->failure.text);
}
