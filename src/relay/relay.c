#include "relay/relay.h"

#include "base/assert.h"
#include "base/memory.h"
#include "relay/open.h"
#include "relay/relay_inner.h"
#include "relay/worker.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define HEALTH_MS 1000u
#define HEALTH_SELDOM_MS 10000u
#define ALARM_EVERY_MS 60000u
#define PARKED_MAX 100u
#define SLEEP_MS 1000u

static uint64_t wall_ms(void)
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
    struct timespec until = keeper_wake_time(keeper_now_ms() + wait_ms);
    pthread_cond_timedwait(&relay->changed, &relay->mutex, &until);
}

void relay_note_error(struct relay *relay, const char *text)
{
    struct fault last; /* `text` may be what is replaced */
    fault_set(&last, STEP_OK, "%s", text);
    memcpy(relay->status.last_error, last.text, sizeof(relay->status.last_error));
    relay->status.last_error_ms = wall_ms();
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

static void look_at_keeper(struct relay *relay, struct keeper_view *view)
{
    *view = (struct keeper_view){.role = ROLE_OWNER};
    if (relay->keeper == NULL)
        return;
    keeper_look(relay->keeper, view);
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
    look_at_keeper(relay, &view);
    enum relay_state state = find_state(relay, &view, &reason);
    uint64_t epoch = view.role == ROLE_OWNER ? view.term.epoch : 0;
    bool is_news =
        state != status->state || epoch != status->epoch || (reason != NULL && strcmp(reason, status->last_error) != 0);
    if (state != status->state)
        status->since_ms = wall_ms();
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

static void on_keeper(void *context)
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

void relay_look_seldom(struct relay *relay, uint64_t now_ms)
{
    if (now_ms < relay->health_seldom_ms)
        return;
    relay->health_due_ms = 0;
    relay_look_at_health(relay, now_ms);
}

void relay_look_at_health(struct relay *relay, uint64_t now_ms)
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

/* --- the worker's thread ------------------------------------------------------------------------------------------ */

static bool is_permitted(void *context)
{
    return worker_goes_on(context);
}

static bool open_term(struct worker *worker)
{
    struct sink *sink = worker->sink;
    struct fault fault;
    uint64_t epoch_known = 0;
    for (;;) {
        arena_reset(&worker->arena);
        worker->stored_count = 0;
        enum step step = sink->ops->open == NULL ? STEP_OK
                                                 : sink->ops->open(sink, &worker->term, &epoch_known, &worker->stored,
                                                                   &worker->stored_count, &worker->arena, &fault);
        if (step == STEP_OK)
            return true;
        bool may_repeat = worker_handle_failure(worker, step, &fault);
        if (step == STEP_FENCED && worker->relay->keeper != NULL)
            keeper_step_down(worker->relay->keeper, &worker->term, epoch_known);
        if (!may_repeat)
            return false;
    }
}

/* `term` NULL: it works in none. What did not fit still does not, until a row has gone through (worker_proved). */
static void set_working(struct relay *relay, const struct term *term)
{
    relay_lock(relay);
    relay->is_working = term != NULL;
    if (term != NULL)
        relay->working_term = *term;
    if (relay->unfit_count == 0)
        relay->failing.text[0] = '\0';
    relay->undurable.text[0] = '\0';
    relay->blocked.text[0] = '\0';
    relay_unlock_changed(relay);
}

static void run_term(struct relay *relay, const struct term *term)
{
    struct worker worker = {.relay = relay,
                            .spec = &relay->spec,
                            .source = relay->source,
                            .sink = relay->sink,
                            .term = *term,
                            .is_on_trial = relay->unfit_count > 0};
    struct uid seed;
    uid_generate(&seed);
    memcpy(&worker.random, seed.bytes, sizeof(worker.random));
    worker.random |= 1;
    worker.permit = (struct permit){.is_valid = is_permitted, .context = &worker};
    arena_init(&worker.arena);
    if (open_term(&worker)) {
        worker.failures = relay->unfit_count;
        set_working(relay, term);
        if (relay->sink->memory == SINK_REMEMBERS)
            worker_publish_run(&worker);
        else
            worker_attempt_run(&worker);
        if (worker.end == WORKER_FENCED && relay->keeper != NULL)
            keeper_step_down(relay->keeper, term, 0);
    }
    if (worker.end == WORKER_AGAIN)
        relay->unfit_count++;
    set_working(relay, NULL);
    arena_deinit(&worker.arena);
}

/* Is there a term to work in? A source that needs no lease gives one to whoever asks. */
static bool find_term(struct relay *relay, struct term *term)
{
    if (relay->keeper == NULL) {
        *term = (struct term){.epoch = 1};
        uid_generate(&term->owner);
        return true;
    }
    struct keeper_view view;
    keeper_look(relay->keeper, &view);
    *term = view.term;
    return view.role == ROLE_OWNER && keeper_is_valid(relay->keeper, term);
}

/* The keeper learns of a pause from the worker, when nothing is in flight any more. */
static void tell_keeper_of_pause(struct relay *relay)
{
    relay_lock(relay);
    bool is_paused = relay->is_paused;
    relay_unlock(relay);
    if (is_paused == relay->is_keeper_paused)
        return;
    if (relay->keeper != NULL)
        keeper_set_paused(relay->keeper, is_paused);
    relay_lock(relay);
    relay->is_keeper_paused = is_paused;
    relay_unlock_changed(relay);
}

static bool is_stopping(struct relay *relay)
{
    relay_lock(relay);
    bool is_it = relay->is_stopping;
    relay_unlock(relay);
    return is_it;
}

/* While the keeper can't reach its lease, another call would only wait, and delay the work when the source is there
 * again. */
static bool reaches_source(struct relay *relay)
{
    struct keeper_view view = {.role = ROLE_STANDBY};
    if (relay->keeper != NULL)
        keeper_look(relay->keeper, &view);
    return view.role == ROLE_STANDBY;
}

/* The worker's thread between two terms. Checks under the mutex whether it may sleep, so that no change is missed: it
 * comes before the check or wakes this thread. */
static void stand_by(struct relay *relay, bool can_work)
{
    struct term term;
    if (relay->source != NULL)
        relay_run_requests(relay);
    if (can_work && (relay->is_keeper_paused || !find_term(relay, &term)) && reaches_source(relay))
        relay_look_seldom(relay, keeper_now_ms());
    relay_lock(relay);
    bool has_news = relay->is_stopping || relay->is_paused != relay->is_keeper_paused ||
                    (can_work && !relay->is_paused && find_term(relay, &term));
    if (!has_news)
        relay_sleep(relay, SLEEP_MS);
    relay_unlock(relay);
}

static void *work(void *context)
{
    struct relay *relay = context;
    struct term term;
    while (!is_stopping(relay)) {
        bool can_work = relay->source != NULL && relay->sink != NULL;
        tell_keeper_of_pause(relay);
        if (can_work && !relay->is_keeper_paused && find_term(relay, &term))
            run_term(relay, &term);
        else
            stand_by(relay, can_work);
    }
    if (relay->keeper != NULL)
        keeper_stop(relay->keeper);
    relay_lock(relay);
    relay->is_stopped = true;
    relay_unlock_changed(relay);
    return NULL;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void start_keeper(struct relay *relay)
{
    struct lease *lease = open_lease(&relay->spec);
    if (lease == NULL)
        return;
    relay->keeper = keeper_start(&(struct keeper_options){
        .lease = lease, .lease_ms = relay->spec.lease_ms, .wake = on_keeper, .context = relay});
    relay->is_keeper_paused = relay->is_paused;
    if (relay->is_paused)
        keeper_set_paused(relay->keeper, true);
}

struct relay *relay_start(const struct relay_options *options)
{
    struct relay *relay = memory_allocate_zeroed(sizeof(*relay));
    pthread_condattr_t monotonic;
    relay_spec_copy(&relay->spec, options->spec);
    relay->wake = options->wake;
    relay->context = options->context;
    relay->is_paused = options->is_paused;
    arena_init(&relay->parked_arena);
    relay->status.since_ms = wall_ms();
    pthread_mutex_init(&relay->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&relay->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    relay->source = open_source(&relay->spec, &relay->unfit);
    if (relay->source != NULL)
        relay->sink = open_sink(&relay->spec, &relay->unfit);
    relay_lock(relay); /* the keeper calls back as soon as it runs */
    if (relay->sink != NULL)
        start_keeper(relay);
    int failure = pthread_create(&relay->thread, NULL, work, relay);
    ASSERT(failure == 0);
    relay_unlock_changed(relay);
    return relay;
}

void relay_stop(struct relay *relay)
{
    relay_lock(relay);
    relay->is_stopping = true;
    relay_unlock_changed(relay);
}

void relay_join(struct relay *relay)
{
    pthread_join(relay->thread, NULL);
    if (relay->keeper != NULL)
        keeper_join(relay->keeper);
    if (relay->sink != NULL)
        relay->sink->ops->close(relay->sink);
    if (relay->source != NULL)
        relay->source->ops->close(relay->source);
    pthread_cond_destroy(&relay->changed);
    pthread_mutex_destroy(&relay->mutex);
    arena_deinit(&relay->parked_arena);
    relay_spec_deinit(&relay->spec);
    free(relay);
}

void relay_set_paused(struct relay *relay, bool is_paused)
{
    relay_lock(relay);
    relay->is_paused = is_paused;
    relay_unlock_changed(relay);
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

void relay_resolve(struct relay *relay, const struct uid *uid, enum resolution resolution)
{
    relay_lock(relay);
    if (relay->resolve_request_count < RESOLVE_REQUESTS_MAX)
        relay->resolve_requests[relay->resolve_request_count++] =
            (struct resolve_request){.uid = *uid, .resolution = resolution};
    else
        relay_note_error(relay,
                         "too many rows are to be resolved at once; what is beyond 1,000 must be asked for again");
    relay_unlock_changed(relay);
}
