#include "postgres/gate.h"

#include "base/assert.h"
#include "platform/monotonic.h"
#include "postgres/clock.h"
#include <stdio.h>

void pg_gate_init(struct pg_gate *gate)
{
    *gate = (struct pg_gate){0};
    condition_init(&gate->opens);
    const int status = pthread_mutex_init(&gate->mutex, NULL);
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

/* 0: it is open. */
static uint64_t shut_until_ms(const struct pg_gate *gate, bool gives_way, uint64_t now_ms)
{
    uint64_t opens_ms = 0;
    if (gate->pause_ms > 0)
        opens_ms = gate->next_ms;
    else if (gives_way && gate->back_ms > 0)
        opens_ms = gate->back_ms + PG_GATE_WAY_MS;
    return gate->is_left_open || now_ms >= opens_ms ? 0 : opens_ms;
}

/* Whoever may try begins the next pause, so that the others wait for what comes of it. */
enum error pg_gate_pass(struct pg_gate *gate, bool gives_way, uint64_t until_ms, struct failure *failure)
{
    enum error error = OK;
    (void)pthread_mutex_lock(&gate->mutex);
    uint64_t now_ms = pg_now_ms(), opens_ms;
    for (; error == OK && (opens_ms = shut_until_ms(gate, gives_way, now_ms)) != 0; now_ms = pg_now_ms()) {
        const uint64_t ends_ms = opens_ms < until_ms ? opens_ms : until_ms;
        if (ends_ms <= now_ms)
            error = failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "%s", gate->why);
        else
            (void)condition_wait_for(&gate->opens, &gate->mutex, ends_ms - now_ms);
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
        if (gate->pause_ms > 0)
            gate->back_ms = pg_now_ms();
        gate->pause_ms = 0;
        (void)pthread_cond_broadcast(&gate->opens);
    } else {
        if (gate->pause_ms == 0)
            pause_for(gate, PG_GATE_PAUSE_MS, pg_now_ms());
        (void)snprintf(gate->why, sizeof(gate->why), "%s", why);
    }
    (void)pthread_mutex_unlock(&gate->mutex);
}

uint64_t pg_gate_back_ms(struct pg_gate *gate)
{
    (void)pthread_mutex_lock(&gate->mutex);
    const uint64_t back_ms = gate->back_ms;
    (void)pthread_mutex_unlock(&gate->mutex);
    return back_ms;
}

void pg_gate_leave_open(struct pg_gate *gate)
{
    (void)pthread_mutex_lock(&gate->mutex);
    gate->is_left_open = true;
    (void)pthread_cond_broadcast(&gate->opens);
    (void)pthread_mutex_unlock(&gate->mutex);
}
