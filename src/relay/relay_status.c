/* What the threads of a relay share, and what it shows of itself: its state, its source's health, its parked rows. */
#include "base/assert.h"
#include "platform/monotonic.h"
#include "relay/relay_inner.h"
#include <stdio.h>
#include <time.h>

#define HEALTH_MS 1000u
#define HEALTH_SELDOM_MS 10000u
#define ALARM_EVERY_MS 60000u
#define PARKED_MAX 100u

uint64_t relay_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

const char *relay_state_name(enum relay_state state)
{
    static const char *const names[] = {
        [RELAY_STARTING] = "starting", [RELAY_STANDBY] = "standby", [RELAY_ACTIVE] = "active",
        [RELAY_PAUSED] = "paused",     [RELAY_BLOCKED] = "blocked", [RELAY_FAILED] = "failed",
        [RELAY_STOPPED] = "stopped",
    };
    return names[state];
}

/* --- what the threads share --------------------------------------------------------------------------------------- */

void relay_lock(struct relay *relay)
{
    int failure = pthread_mutex_lock(&relay->mutex);
    ASSERT(failure == 0);
}

void relay_unlock(struct relay *relay)
{
    pthread_mutex_unlock(&relay->mutex);
}

void relay_sleep(struct relay *relay, unsigned wait_ms)
{
    (void)condition_wait_for(&relay->changed, &relay->mutex, wait_ms);
}

void relay_note_error(struct relay *relay, const char *text)
{
    struct fault last; /* `text` may be what is replaced */
    fault_set(&last, STEP_OK, "%s", text);
    memcpy(relay->status.last_error, last.text, sizeof(relay->status.last_error));
    relay->status.last_error_ms = relay_wall_ms();
}

/* Is the worker at work in the keeper's term? After a takeover right behind the loss of the lease it may still be
 * ending the one before. */
static bool works_in(const struct relay *relay, const struct term *term)
{
    return relay->is_working && (relay->keeper == NULL || term_equal(&relay->working_term, term));
}

/* Paused and idle: the relay owns nothing, and the keeper will not take over. */
static bool is_at_rest(const struct relay *relay, const struct keeper_view *view)
{
    return relay->is_paused && relay->is_keeper_paused && !relay->is_working &&
           (relay->keeper == NULL || view->role != ROLE_OWNER);
}

/* Finds the state; `reason` is the text that explains it, or NULL. */
static enum relay_state find_state(const struct relay *relay, const struct keeper_view *view, const char **reason)
{
    *reason = NULL;
    if (relay->is_stopped)
        return RELAY_STOPPED;
    if (relay->unfit.text[0] != '\0') {
        *reason = relay->unfit.text;
        return RELAY_FAILED;
    }
    if (is_at_rest(relay, view))
        return RELAY_PAUSED;
    if (view->role == ROLE_STARTING)
        return RELAY_STARTING;
    if (view->role == ROLE_FAILED) {
        *reason = view->fault.text;
        return RELAY_FAILED;
    }
    if (view->role == ROLE_OWNER && relay->failing.text[0] != '\0')
        *reason = relay->failing.text;
    else if (view->role == ROLE_OWNER && works_in(relay, &view->term) && relay->undurable.text[0] != '\0')
        *reason = relay->undurable.text;
    else if (view->role == ROLE_OWNER && works_in(relay, &view->term) && relay->blocked.text[0] != '\0')
        *reason = relay->blocked.text;
    if (*reason != NULL)
        return RELAY_BLOCKED;
    return view->role == ROLE_OWNER && works_in(relay, &view->term) ? RELAY_ACTIVE : RELAY_STANDBY;
}

static void read_keeper(struct relay *relay, struct keeper_view *view)
{
    *view = (struct keeper_view){.role = ROLE_OWNER};
    if (relay->keeper == NULL)
        return;
    keeper_read(relay->keeper, view);
    if (view->fault.text[0] != '\0' && strcmp(view->fault.text, relay->keeper_fault.text) != 0)
        relay_note_error(relay, view->fault.text);
    relay->keeper_fault = view->fault;
}

/* Under the mutex. Is it another state than before, or the same for another reason? */
static bool refresh(struct relay *relay)
{
    struct relay_status *status = &relay->status;
    struct keeper_view view;
    const char *reason;
    read_keeper(relay, &view);
    enum relay_state state = find_state(relay, &view, &reason);
    uint64_t epoch = view.role == ROLE_OWNER ? view.term.epoch : 0;
    bool is_news =
        state != status->state || epoch != status->epoch || (reason != NULL && strcmp(reason, status->last_error) != 0);
    if (state != status->state)
        status->since_ms = relay_wall_ms();
    if (reason != NULL && is_news)
        relay_note_error(relay, reason);
    status->state = state;
    status->epoch = epoch;
    status->takeovers = view.takeovers;
    return is_news;
}

void relay_unlock_changed(struct relay *relay)
{
    bool is_news = refresh(relay);
    pthread_cond_broadcast(&relay->changed);
    relay_unlock(relay);
    if (is_news && relay->wake != NULL)
        relay->wake(relay->context);
}

void relay_on_keeper(void *context)
{
    struct relay *relay = context;
    relay_lock(relay);
    relay_unlock_changed(relay);
}

/* --- requests and health ------------------------------------------------------------------------------------------ */

/* A copy, so that the list is not locked while the source is asked. */
static void read_parked(struct relay *relay)
{
    struct arena arena;
    struct parked *parked = NULL;
    size_t count = 0;
    struct fault fault;
    arena_init(&arena);
    if (relay->source->ops->list_parked(relay->source, PARKED_MAX, &arena, &parked, &count, &fault) == STEP_OK) {
        relay_lock(relay);
        struct arena old = relay->parked_arena;
        relay->parked_arena = arena;
        relay->parked = parked;
        relay->parked_count = count;
        relay_unlock(relay);
        arena = old;
    }
    arena_deinit(&arena);
}

void relay_run_requests(struct relay *relay)
{
    bool has_resolved = false, can_go_on = true;
    relay_lock(relay);
    while (relay->resolve_request_count > 0 && can_go_on) {
        struct resolve_request resolve_request = relay->resolve_requests[0];
        struct fault fault;
        bool is_found = false;
        relay_unlock(relay);
        enum step step = relay->source->ops->resolve(relay->source, &resolve_request.uid, resolve_request.resolution,
                                                     &is_found, &fault);
        relay_lock(relay);
        if (step != STEP_OK)
            relay_note_error(relay, fault.text);
        can_go_on = step != STEP_UNREACHABLE; /* it is asked again later */
        has_resolved = has_resolved || step == STEP_OK;
        if (can_go_on)
            memmove(relay->resolve_requests, relay->resolve_requests + 1,
                    --relay->resolve_request_count * sizeof(*relay->resolve_requests));
    }
    relay_unlock(relay);
    if (has_resolved)
        read_parked(relay);
}

/* Says before all other warnings that the oldest row is too old. True: it is time to raise the alarm (again). */
static bool warn_of_age(struct relay *relay, struct source_health *health, uint64_t now_ms)
{
    if (health->oldest_age_ms < RELAY_OLD_ROW_MS) {
        relay->alarm_due_ms = 0;
        return false;
    }
    struct fault others;
    fault_set(&others, STEP_OK, "%s", health->warning);
    snprintf(health->warning, sizeof(health->warning), "the oldest row has waited for %llu s, more than %u s%s%.300s",
             (unsigned long long)(health->oldest_age_ms / 1000), RELAY_OLD_ROW_MS / 1000,
             others.text[0] == '\0' ? "" : "; ", others.text);
    if (now_ms < relay->alarm_due_ms)
        return false;
    relay->alarm_due_ms = now_ms + ALARM_EVERY_MS;
    return true;
}

void relay_check_seldom(struct relay *relay, uint64_t now_ms)
{
    if (now_ms < relay->health_seldom_ms)
        return;
    relay->health_due_ms = 0;
    relay_check_health(relay, now_ms);
}

void relay_check_health(struct relay *relay, uint64_t now_ms)
{
    struct source_health health = {0};
    struct fault fault;
    if (now_ms < relay->health_due_ms)
        return;
    relay->health_due_ms = now_ms + HEALTH_MS;
    relay->health_seldom_ms = now_ms + HEALTH_SELDOM_MS;
    if (relay->source->ops->check_health(relay->source, &health, &fault) != STEP_OK)
        return; /* whatever is wrong, the next scan meets it and waits as it must */
    bool is_alarm = warn_of_age(relay, &health, now_ms);
    relay_lock(relay);
    bool has_parked = health.parked_count > 0 || relay->parked_count > 0;
    relay->status.health = health;
    relay->status.alarms += is_alarm;
    relay_unlock(relay);
    if (is_alarm && relay->wake != NULL)
        relay->wake(relay->context);
    if (has_parked)
        read_parked(relay);
}

/* --- what others ask ---------------------------------------------------------------------------------------------- */

void relay_get_status(struct relay *relay, struct relay_status *status)
{
    relay_lock(relay);
    refresh(relay);
    *status = relay->status;
    relay_unlock(relay);
}

void relay_list_parked(struct relay *relay, struct arena *arena, struct parked **parked, size_t *count)
{
    relay_lock(relay);
    struct parked *copies = arena_allocate(arena, (relay->parked_count + 1) * sizeof(*copies));
    for (size_t i = 0; i < relay->parked_count; i++) {
        copies[i] = relay->parked[i];
        copies[i].queue = arena_copy(arena, copies[i].queue);
        if (copies[i].group.ptr != NULL)
            copies[i].group = arena_copy(arena, copies[i].group);
        copies[i].error = arena_copy(arena, copies[i].error);
    }
    *parked = copies;
    *count = relay->parked_count;
    relay_unlock(relay);
}
