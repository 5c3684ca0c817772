#include "relay/relay.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "relay/open.h"
#include "relay/relay_inner.h"
#include "relay/worker.h"
#include <stdio.h>
#include <stdlib.h>

#define SLEEP_MS 1000u
#define SETTLE_AGAIN_MS 1000u /* for the source, behind a sink that had to be interrupted */
#define LEAVE_MS_MIN 250u     /* for the lease, behind a worker that took all of its time */

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
    keeper_read(relay->keeper, &view);
    *term = view.term;
    return view.role == ROLE_OWNER && keeper_is_valid(relay->keeper, term);
}

/* The keeper learns of a pause from the worker, when nothing is in flight any more. */
static void pass_pause_to_keeper(struct relay *relay)
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
        keeper_read(relay->keeper, &view);
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
        relay_check_seldom(relay, boottime_ms());
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
        pass_pause_to_keeper(relay);
        if (can_work && !relay->is_keeper_paused && find_term(relay, &term))
            run_term(relay, &term);
        else
            stand_by(relay, can_work);
    }
    if (relay->keeper != NULL)
        keeper_stop(relay->keeper);
    if (relay->source != NULL && relay->source->ops->give_back != NULL)
        relay->source->ops->give_back(relay->source);
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
        .lease = lease, .lease_ms = relay->spec.lease_ms, .wake = relay_on_keeper, .context = relay});
    relay->is_keeper_paused = relay->is_paused;
    if (relay->is_paused)
        keeper_set_paused(relay->keeper, true);
}

struct relay *relay_start(const struct relay_options *options)
{
    struct relay *relay = memory_allocate_zeroed(sizeof(*relay));
    relay_spec_copy(&relay->spec, options->spec);
    relay->wake = options->wake;
    relay->context = options->context;
    relay->is_paused = options->is_paused;
    arena_init(&relay->parked_arena);
    relay->status.since_ms = relay_wall_ms();
    pthread_mutex_init(&relay->mutex, NULL);
    condition_init(&relay->changed);
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
    relay->stop_asked_ms = boottime_ms();
    relay_unlock_changed(relay);
}

/* Gives up what the worker waits for. First the sink: whether a row arrived is still to be told to the source. True: it
 * waits for nothing any more. Under the mutex. */
static bool interrupt_worker(struct relay *relay, bool *is_sink_interrupted)
{
    const bool is_in_sink = relay->is_delivering;
    if (relay->sink != NULL && !*is_sink_interrupted && relay->sink->is_interruptible) {
        *is_sink_interrupted = true;
        relay->sink->ops->interrupt(relay->sink);
        if (is_in_sink)
            return false;
    }
    if (is_in_sink)
        return false; /* it ends by itself, and what became of its rows must be known */
    if (relay->source != NULL && relay->source->ops->interrupt != NULL)
        relay->source->ops->interrupt(relay->source);
    if (relay->keeper != NULL)
        keeper_interrupt(relay->keeper);
    return true;
}

/* Waits until the worker has ended. A source or a sink that does not answer holds it up only for so long. */
static void await_worker(struct relay *relay)
{
    bool is_sink_interrupted = false, is_interrupted = false;
    relay_lock(relay);
    uint64_t due_ms = relay->stop_asked_ms + RELAY_SETTLE_MS;
    while (!relay->is_stopped) {
        const uint64_t now_ms = boottime_ms();
        if (is_interrupted)
            relay_sleep(relay, SLEEP_MS);
        else if (now_ms < due_ms)
            relay_sleep(relay, (unsigned)(due_ms - now_ms));
        else {
            is_interrupted = interrupt_worker(relay, &is_sink_interrupted);
            due_ms = now_ms + SETTLE_AGAIN_MS;
        }
    }
    relay_unlock(relay);
}

/* The lease is given up in what is left of the same time. */
static unsigned time_to_leave_ms(const struct relay *relay)
{
    const uint64_t used_ms = boottime_ms() - relay->stop_asked_ms;
    return used_ms + LEAVE_MS_MIN < RELAY_SETTLE_MS ? RELAY_SETTLE_MS - (unsigned)used_ms : LEAVE_MS_MIN;
}

void relay_join(struct relay *relay)
{
    await_worker(relay);
    pthread_join(relay->thread, NULL);
    if (relay->keeper != NULL)
        keeper_join(relay->keeper, time_to_leave_ms(relay));
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
