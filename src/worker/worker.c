/* The pool of workers: starting, stopping, signals and ended children. */
#include "platform/monotonic.h"
#include "worker/worker_slot.h"

#include "base/assert.h"
#include "base/memory.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#define TOLD_SIZE 4096
#define PAUSE_MS 1000
#define TICK_MS 100
#define KILL_AFTER_MS 3000 /* from SIGTERM to SIGKILL */
#define TELL_MS 5000       /* when all programs have ended: how long the server may take to hear of it */

void worker_pool_report(struct worker_pool *pool, const char *format, ...)
{
    va_list arguments;
    char text[TOLD_SIZE];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pool->options->note(pool->options->context, text);
}

static void block_signals(struct worker_pool *pool)
{
    static const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, WORKER_NUDGE};
    sigemptyset(&pool->signals);
    for (size_t i = 0; i < ARRAY_LENGTH(signals); i++)
        sigaddset(&pool->signals, signals[i]);
    pthread_sigmask(SIG_BLOCK, &pool->signals, &pool->original_mask);
}

struct worker_pool *worker_pool_create(const struct worker_options *options, const struct worker_handler *handler)
{
    struct worker_pool *pool = memory_allocate_zeroed(sizeof *pool);
    pool->options = options;
    pool->handler = handler;
    pool->slots_owned = memory_allocate_zeroed(options->concurrency * sizeof *pool->slots_owned);
    pthread_mutex_init(&pool->mutex, NULL);
    condition_init(&pool->stopping);
    block_signals(pool);
    for (unsigned i = 0; i < options->concurrency; i++) {
        struct worker_slot *slot = &pool->slots_owned[i];
        slot->pool = pool;
        condition_init(&slot->changed);
        arena_init(&slot->arena);
        slot->client_owned = options->connect(options->context);
        if (slot->client_owned == NULL) {
            worker_pool_destroy(pool);
            return NULL;
        }
    }
    return pool;
}

static void unblock_signals(struct worker_pool *pool)
{
    static const struct timespec at_once;
    sigset_t nudge;
    sigemptyset(&nudge);
    sigaddset(&nudge, WORKER_NUDGE);
    while (sigtimedwait(&nudge, NULL, &at_once) > 0) /* unblocked, it would end us */
        continue;
    pthread_sigmask(SIG_SETMASK, &pool->original_mask, NULL);
}

void worker_pool_destroy(struct worker_pool *pool)
{
    unblock_signals(pool);
    for (unsigned i = 0; i < pool->options->concurrency && pool->slots_owned[i].pool != NULL; i++) {
        struct worker_slot *slot = &pool->slots_owned[i];
        tally_client_destroy(slot->client_owned);
        arena_deinit(&slot->arena);
        pthread_cond_destroy(&slot->changed);
    }
    pthread_cond_destroy(&pool->stopping);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->slots_owned);
    free(pool);
}

/* With the mutex held. A second stop makes the grace shorter, never longer. */
static void stop_locked(struct worker_pool *pool, unsigned grace_s)
{
    uint64_t stop_by_ms = monotonic_ms() + grace_s * 1000ull;
    if (!pool->is_stopping || stop_by_ms < pool->stop_by_ms)
        pool->stop_by_ms = stop_by_ms;
    pool->is_stopping = true;
    for (unsigned i = 0; i < pool->options->concurrency; i++) {
        struct worker_slot *slot = &pool->slots_owned[i];
        if (slot->is_receiving)
            tally_client_interrupt(slot->client_owned);
    }
    pthread_cond_broadcast(&pool->stopping);
}

void worker_pool_stop(struct worker_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    if (!pool->is_stopping)
        stop_locked(pool, pool->options->grace_s);
    pthread_mutex_unlock(&pool->mutex);
}

bool worker_pool_is_stopping(struct worker_pool *pool)
{
    bool is_stopping;
    pthread_mutex_lock(&pool->mutex);
    is_stopping = pool->is_stopping;
    pthread_mutex_unlock(&pool->mutex);
    return is_stopping;
}

void worker_pool_fail(struct worker_pool *pool, const struct tally_error *error)
{
    pthread_mutex_lock(&pool->mutex);
    if (!pool->has_failed) {
        pool->has_failed = true;
        pool->failure = *error;
    }
    if (!pool->is_stopping)
        stop_locked(pool, pool->options->grace_s);
    pthread_mutex_unlock(&pool->mutex);
}

const struct tally_error *worker_pool_failure(const struct worker_pool *pool)
{
    return pool->has_failed ? &pool->failure : NULL;
}

bool worker_pool_pause(struct worker_pool *pool, const struct tally_error *error)
{
    const uint64_t until_ms = monotonic_ms() + PAUSE_MS;
    bool is_stopping, is_new;

    pthread_mutex_lock(&pool->mutex);
    is_new = !pool->is_complaining && !pool->is_stopping && error->status != TALLY_REFUSED;
    pool->is_complaining = pool->is_complaining || is_new;
    pthread_mutex_unlock(&pool->mutex);
    if (is_new)
        worker_pool_report(pool, "%s; trying again until it works", error->message);

    pthread_mutex_lock(&pool->mutex);
    while (!pool->is_stopping && condition_wait_until(&pool->stopping, &pool->mutex, until_ms))
        continue;
    is_stopping = pool->is_stopping;
    pthread_mutex_unlock(&pool->mutex);
    return !is_stopping;
}

void worker_pool_reached(struct worker_pool *pool)
{
    bool was_away;
    pthread_mutex_lock(&pool->mutex);
    was_away = pool->is_complaining;
    pool->is_complaining = false;
    pthread_mutex_unlock(&pool->mutex);
    if (was_away)
        worker_pool_report(pool, "the server answers again");
}

/* ---- Watching: signals and children ------------------------------------------------------------------------------ */

static void reap(struct worker_pool *pool)
{
    int status;
    pid_t child;
    while ((child = waitpid(-1, &status, WNOHANG)) > 0) {
        pthread_mutex_lock(&pool->mutex);
        for (unsigned i = 0; i < pool->options->concurrency; i++) {
            struct worker_slot *slot = &pool->slots_owned[i];
            if (slot->child != child)
                continue;
            slot->has_exited = true;
            slot->wait_status = status;
            pthread_cond_signal(&slot->changed);
        }
        pthread_mutex_unlock(&pool->mutex);
    }
}

/* Ends the child where its time is over: politely at first, with force when it has had time. With the mutex held. */
static void limit_child(struct worker_slot *slot, uint64_t stop_ms, uint64_t now_ms)
{
    uint64_t end_ms = slot->limit_ms < stop_ms ? slot->limit_ms : stop_ms;
    if (slot->child == 0 || slot->has_exited || now_ms < (slot->kill_at_ms != 0 ? slot->kill_at_ms : end_ms))
        return;
    slot->was_stopped = slot->was_stopped || now_ms >= stop_ms;
    slot->was_too_slow = slot->was_too_slow || now_ms >= slot->limit_ms;
    kill(-slot->child, slot->kill_at_ms == 0 ? SIGTERM : SIGKILL);
    slot->kill_at_ms = now_ms + KILL_AFTER_MS;
}

/* Enforces the time limits, the grace, and how long requests may take. It is done here because this thread never waits
 * for the server: a worker may wait for a reply at the moment when its program must end. */
static void enforce(struct worker_pool *pool)
{
    uint64_t now_ms = monotonic_ms();
    pthread_mutex_lock(&pool->mutex);
    uint64_t stop_ms = pool->is_stopping ? pool->stop_by_ms : UINT64_MAX;
    bool is_over = pool->is_stopping && now_ms >= stop_ms + KILL_AFTER_MS + TELL_MS;
    for (unsigned i = 0; i < pool->options->concurrency; i++) {
        struct worker_slot *slot = &pool->slots_owned[i];
        limit_child(slot, stop_ms, now_ms);
        if (is_over || (slot->beat_until_ms != 0 && now_ms >= slot->beat_until_ms))
            tally_client_interrupt(slot->client_owned);
    }
    pthread_mutex_unlock(&pool->mutex);
}

/* How many workers have not ended; joins them when all have. */
static unsigned count_running(struct worker_pool *pool)
{
    unsigned running;
    pthread_mutex_lock(&pool->mutex);
    running = pool->running;
    pthread_mutex_unlock(&pool->mutex);
    if (running == 0 && pool->is_started) {
        for (unsigned i = 0; i < pool->options->concurrency; i++)
            pthread_join(pool->slots_owned[i].thread, NULL);
        pool->is_started = false;
    }
    return running;
}

static unsigned count_children(struct worker_pool *pool)
{
    unsigned count = 0;
    pthread_mutex_lock(&pool->mutex);
    for (unsigned i = 0; i < pool->options->concurrency; i++)
        count += pool->slots_owned[i].child > 0 && !pool->slots_owned[i].has_exited;
    pthread_mutex_unlock(&pool->mutex);
    return count;
}

/* Who presses Ctrl-C and sees nothing happen would press it again, and end what was about to finish. */
static void tell_stop(struct worker_pool *pool)
{
    unsigned count = pool->options->is_quiet || pool->options->grace_s == 0 ? 0 : count_children(pool);
    if (count > 0)
        worker_pool_report(pool,
                           "stopping: %u %s still %s and may finish within %u s (--grace); a second signal ends %s",
                           count, count == 1 ? "command" : "commands", count == 1 ? "runs" : "run",
                           pool->options->grace_s, count == 1 ? "it" : "them");
}

int worker_pool_watch(struct worker_pool *pool, void (*tick)(void *context), void *context)
{
    struct timespec tick_time = {.tv_nsec = TICK_MS * 1000000L};
    int stopped_by = 0;

    while (count_running(pool) > 0) {
        int number = sigtimedwait(&pool->signals, NULL, &tick_time);
        if (number == SIGCHLD)
            reap(pool);
        if (number == SIGINT || number == SIGTERM || number == SIGHUP) {
            pthread_mutex_lock(&pool->mutex);
            stop_locked(pool, stopped_by == 0 ? pool->options->grace_s : 0);
            pthread_mutex_unlock(&pool->mutex);
            if (stopped_by == 0)
                tell_stop(pool);
            stopped_by = stopped_by == 0 ? number : stopped_by;
        }
        enforce(pool);
        tick(context);
    }
    return stopped_by;
}

void worker_pool_start(struct worker_pool *pool)
{
    pool->running = pool->options->concurrency;
    pool->is_started = true;
    for (unsigned i = 0; i < pool->options->concurrency; i++) {
        if (pthread_create(&pool->slots_owned[i].thread, NULL, worker_slot_main, &pool->slots_owned[i]) != 0) {
            perror("tally: pthread_create"); /* out of memory or processes: nothing was taken yet that would be lost */
            abort();
        }
    }
}
