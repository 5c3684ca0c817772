#include "relay/worker.h"

#include "platform/monotonic.h"
#include "relay/relay_inner.h"

#define BACKOFF_MIN_MS 50u
#define BACKOFF_MAX_MS 30000u

/* How often to check that rows are on the replicas. Healthy replicas need a few milliseconds. */
#define PAUSE_MIN_MS 1u
#define PAUSE_MAX_MS 25u
#define CHECKS 20u
#define UNDURABLE_TOLD_MS 1000u

static bool is_term_valid(const struct worker *worker)
{
    struct keeper *keeper = worker->relay->keeper;
    return keeper == NULL || keeper_is_valid(keeper, &worker->term);
}

/* Is the worker to begin nothing more? Under the mutex. */
static bool must_pause(const struct relay *relay)
{
    return relay->is_stopping || relay->is_paused;
}

static bool must_pause_now(struct worker *worker)
{
    relay_lock(worker->relay);
    bool is_it = must_pause(worker->relay);
    relay_unlock(worker->relay);
    if ((is_it || !is_term_valid(worker)) && worker->end == WORKER_RUNS)
        worker->end = WORKER_TOLD;
    return worker->end != WORKER_RUNS;
}

bool worker_goes_on(struct worker *worker)
{
    return (worker->end == WORKER_RUNS || worker->end == WORKER_TOLD) && is_term_valid(worker);
}

bool worker_has_request(struct worker *worker)
{
    struct relay *relay = worker->relay;
    relay_lock(relay);
    bool has = must_pause(relay) || relay->resolve_request_count > 0;
    relay_unlock(relay);
    return has || boottime_ms() >= relay->health_due_ms || !is_term_valid(worker);
}

bool worker_may_begin(struct worker *worker)
{
    struct relay *relay = worker->relay;
    if (must_pause_now(worker))
        return false;
    relay_run_requests(relay);
    relay_check_health(relay, boottime_ms());
    return true;
}

bool worker_wait(struct worker *worker, unsigned wait_ms)
{
    struct relay *relay = worker->relay;
    uint64_t now_ms = boottime_ms(), end_ms = now_ms + wait_ms;
    relay_lock(relay);
    for (; now_ms < end_ms && !must_pause(relay); now_ms = boottime_ms()) {
        relay_sleep(relay, (unsigned)(end_ms - now_ms));
        if (!is_term_valid(worker))
            break;
    }
    relay_unlock(relay);
    return !must_pause_now(worker);
}

static void set_delivering(struct relay *relay, bool is_delivering)
{
    relay_lock(relay);
    relay->is_delivering = is_delivering;
    relay_unlock(relay);
}

enum step worker_deliver(struct worker *worker, struct attempt *attempts, size_t count, uint64_t settled,
                         struct fault *fault)
{
    set_delivering(worker->relay, true);
    const enum step step =
        worker->sink->ops->deliver(worker->sink, &worker->term, attempts, count, settled, &worker->permit, fault);
    set_delivering(worker->relay, false);
    return step;
}

unsigned worker_backoff_ms(struct worker *worker, unsigned failures)
{
    unsigned wait_ms = BACKOFF_MAX_MS;
    if (failures <= 9 && BACKOFF_MIN_MS << (failures - 1) < BACKOFF_MAX_MS)
        wait_ms = BACKOFF_MIN_MS << (failures - 1);
    worker->random ^= worker->random << 13; /* xorshift64: enough to spread relays */
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return wait_ms - (unsigned)(worker->random % (wait_ms / 2 + 1));
}

static void report_to_keeper(struct worker *worker, bool is_working)
{
    if (worker->relay->keeper != NULL)
        keeper_report(worker->relay->keeper, &worker->term, is_working);
}

bool worker_handle_failure(struct worker *worker, enum step step, const struct fault *fault)
{
    struct relay *relay = worker->relay;
    relay_lock(relay);
    relay_note_error(relay, fault->text);
    if (step != STEP_FENCED) {
        relay->failing = *fault;
        relay->status.retries++;
    }
    relay_unlock_changed(relay);
    if (step == STEP_FENCED) {
        worker->end = WORKER_FENCED;
        return false;
    }
    report_to_keeper(worker, false);
    worker->failures++;
    relay_check_seldom(relay, boottime_ms());
    return worker_wait(worker, worker_backoff_ms(worker, worker->failures));
}

void worker_recovered(struct worker *worker)
{
    struct relay *relay = worker->relay;
    if (worker->is_on_trial)
        return;
    report_to_keeper(worker, true);
    if (worker->failures == 0)
        return;
    worker->failures = 0;
    relay_lock(relay);
    relay->failing.text[0] = '\0';
    relay_unlock_changed(relay);
}

void worker_proved(struct worker *worker)
{
    worker->is_on_trial = false;
    worker->relay->unfit_count = 0;
    worker_recovered(worker);
}

/* NULL: rows may leave. What was said is said again only when it changes. */
static void report_undurable(struct worker *worker, const char *text)
{
    struct relay *relay = worker->relay;
    relay_lock(relay);
    bool is_news = strcmp(relay->undurable.text, text == NULL ? "" : text) != 0;
    fault_set(&relay->undurable, STEP_OK, "%s", text == NULL ? "" : text);
    if (is_news)
        relay_unlock_changed(relay);
    else
        relay_unlock(relay);
}

/* Checks once. */
static enum durability check_durable(struct worker *worker, const struct rows *rows)
{
    struct fault fault;
    bool is_kept = false;
    enum step step = worker->source->ops->check_durable(worker->source, rows, &is_kept, &fault);
    if (step == STEP_OK && !is_kept) {
        uint64_t now_ms = boottime_ms();
        if (worker->undurable_ms == 0)
            worker->undurable_ms = now_ms;
        if (now_ms - worker->undurable_ms >= UNDURABLE_TOLD_MS)
            report_undurable(worker, fault.text);
        return NOT_YET_DURABLE;
    }
    if (worker->undurable_ms != 0)
        report_undurable(worker, NULL);
    worker->undurable_ms = 0;
    if (step == STEP_OK)
        return DURABLE;
    (void)worker_handle_failure(worker, step, &fault); /* the caller drops the rows and then checks whether to go on */
    return DURABILITY_UNKNOWN;
}

enum durability worker_await_durable(struct worker *worker, const struct rows *rows)
{
    enum durability durability = DURABLE;
    unsigned pause_ms = PAUSE_MIN_MS;
    if (rows->count == 0 || worker->source->ops->check_durable == NULL)
        return DURABLE;
    for (unsigned i = 0; i < CHECKS; i++) {
        durability = check_durable(worker, rows);
        if (durability != NOT_YET_DURABLE)
            break;
        if (!worker_may_begin(worker) || !worker_wait(worker, pause_ms))
            return DURABILITY_UNKNOWN;
        pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
    }
    return durability;
}

void worker_report(struct worker *worker, const struct worker_progress *progress)
{
    struct relay *relay = worker->relay;
    struct relay_status *status = &relay->status;
    relay_lock(relay);
    status->delivered += progress->delivered;
    status->duplicates += progress->duplicates;
    status->retries += progress->retries;
    status->parked += progress->parked;
    if (progress->position > status->position)
        status->position = progress->position;
    if (progress->parked > 0)
        relay->health_due_ms = 0; /* the list of what is parked is not as it was */
    relay_unlock(relay);
}

void worker_report_blocked(struct worker *worker, const char *text)
{
    struct relay *relay = worker->relay;
    relay_lock(relay);
    if (text != NULL) {
        fault_set(&relay->blocked, STEP_OK, "%s", text);
        relay_note_error(relay, text);
    } else {
        relay->blocked.text[0] = '\0';
    }
    relay_unlock_changed(relay);
}
