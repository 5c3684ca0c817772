#include "postgres/gate.h"

#include "base/assert.h"
#include "postgres/clock.h"
#include <stdio.h>

void pg_gate_init(struct pg_gate *gate)
{
    *gate = (struct pg_gate){0};
    const int status = pthread_mutex_init(&gate->mutex, NULL);
    ASSERT(status == 0);
}

void pg_gate_deinit(struct pg_gate *gate)
{
    (void)pthread_mutex_destroy(&gate->mutex);
}

static void pause_for(struct pg_gate *gate, uint32_t pause_ms, uint64_t now_ms)
{
    gate->pause_ms = pause_ms < PG_GATE_PAUSE_MAX_MS ? pause_ms : PG_GATE_PAUSE_MAX_MS;
    gate->next_ms = now_ms + gate->pause_ms;
}

/* How long the caller must wait; 0: it may try, and the others wait for what comes of it. */
static uint64_t ask(struct pg_gate *gate, struct failure *failure)
{
    const uint64_t now_ms = pg_now_ms();
    (void)pthread_mutex_lock(&gate->mutex);
    const uint64_t wait_ms = gate->pause_ms > 0 && now_ms < gate->next_ms ? gate->next_ms - now_ms : 0;
    if (wait_ms > 0)
        (void)failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "%s", gate->why);
    else
        pause_for(gate, 2 * gate->pause_ms, now_ms);
    (void)pthread_mutex_unlock(&gate->mutex);
    return wait_ms;
}

enum error pg_gate_pass(struct pg_gate *gate, uint64_t until_ms, struct failure *failure)
{
    uint64_t wait_ms;
    while ((wait_ms = ask(gate, failure)) > 0) {
        if (pg_now_ms() + wait_ms >= until_ms)
            return ERROR_SERVICE_UNAVAILABLE;
        pg_pause((unsigned)wait_ms);
    }
    return OK;
}

/* Of many tries that fail together the first begins the pauses. */
void pg_gate_note(struct pg_gate *gate, const char *why)
{
    const uint64_t now_ms = pg_now_ms();
    (void)pthread_mutex_lock(&gate->mutex);
    if (why == NULL)
        gate->pause_ms = 0;
    else if (gate->pause_ms == 0)
        pause_for(gate, PG_GATE_PAUSE_MS, now_ms);
    if (why != NULL)
        (void)snprintf(gate->why, sizeof(gate->why), "%s", why);
    (void)pthread_mutex_unlock(&gate->mutex);
}
