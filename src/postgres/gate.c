#include "postgres/gate.h"

#include "base/assert.h"
#include "postgres/clock.h"
#include <stdio.h>
#include <time.h>

void pg_gate_init(struct pg_gate *gate)
{
    *gate = (struct pg_gate){0};
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int status = pthread_cond_init(&gate->opens, &attributes);
    ASSERT(status == 0);
    (void)pthread_condattr_destroy(&attributes);
    status = pthread_mutex_init(&gate->mutex, NULL);
    ASSERT(status == 0);
}

void pg_gate_deinit(struct pg_gate *gate)
{
    (void)pthread_cond_destroy(&gate->opens);
    (void)pthread_mutex_destroy(&gate->mutex);
}

static void pause_for(struct pg_gate *gate, uint32_t pause_ms, uint64_t now_ms)
{
    gate->pause_ms = pause_ms < PG_GATE_PAUSE_MAX_MS ? pause_ms : PG_GATE_PAUSE_MAX_MS;
    gate->next_ms = now_ms + gate->pause_ms;
}

static bool is_shut(const struct pg_gate *gate, uint64_t now_ms)
{
    return !gate->is_left_open && gate->pause_ms > 0 && now_ms < gate->next_ms;
}

static void wait_for(struct pg_gate *gate, uint64_t wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(wait_ms / 1000);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&gate->opens, &gate->mutex, &until);
}

/* Whoever may try begins the next pause, so that the others wait for what comes of it. */
enum error pg_gate_pass(struct pg_gate *gate, uint64_t until_ms, struct failure *failure)
{
    enum error error = OK;
    (void)pthread_mutex_lock(&gate->mutex);
    uint64_t now_ms;
    while (is_shut(gate, now_ms = pg_now_ms()) && error == OK) {
        const uint64_t ends_ms = gate->next_ms < until_ms ? gate->next_ms : until_ms;
        if (ends_ms <= now_ms)
            error = failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "%s", gate->why);
        else
            wait_for(gate, ends_ms - now_ms);
    }
    if (error == OK)
        pause_for(gate, 2 * gate->pause_ms, now_ms);
    (void)pthread_mutex_unlock(&gate->mutex);
    return error;
}

/* Of many tries that fail together the first begins the pauses. */
void pg_gate_note(struct pg_gate *gate, const char *why)
{
    (void)pthread_mutex_lock(&gate->mutex);
    if (why == NULL) {
        gate->pause_ms = 0;
        (void)pthread_cond_broadcast(&gate->opens);
    } else {
        if (gate->pause_ms == 0)
            pause_for(gate, PG_GATE_PAUSE_MS, pg_now_ms());
        (void)snprintf(gate->why, sizeof(gate->why), "%s", why);
    }
    (void)pthread_mutex_unlock(&gate->mutex);
}

void pg_gate_leave_open(struct pg_gate *gate)
{
    (void)pthread_mutex_lock(&gate->mutex);
    gate->is_left_open = true;
    (void)pthread_cond_broadcast(&gate->opens);
    (void)pthread_mutex_unlock(&gate->mutex);
}
