/* The loop for sinks that remember rows: read, publish, delete what is durably there, park what was refused.
 *
 * While rows flow, the source reads the next ones during the publishing of the last (begin_scan … deliver … end_scan),
 * and the same statement deletes those before them. Rows in hand are left out of the scan, and what can't be delivered
 * now is held (holds.h); so the next rows never pass one of their group. A publish whose answer was lost is repeated as
 * it is before anything else, and a row is deleted only after an answer that named it (P5, R14). */
#include "relay/worker.h"

#include "base/assert.h"
#include "base/memory.h"
#include "relay/holds.h"
#include "relay/keeper.h"
#include <stdio.h>
#include <stdlib.h>

/* While there are fewer rows than that at a time, the source is as good as empty: then the next are read behind the
 * publish, which is sooner for them than a scan that runs before they come. */
#define FLOWING_ROWS 100u

/* Between looks at a source that is empty: a part of the time for which it has been, within bounds. At the upper one
 * that makes forty small statements a second. */
#define IDLE_PART 8u
#define IDLE_MIN_MS 1u
#define IDLE_MAX_MS 25u
#define HELD_NAMES_PER_MS 200u /* a scan that passes over many names takes long, so it is made less often */

/* How long what is held stays so; longer where there is much of it, which must all be read again. */
#define HOLD_MIN_MS 250u
#define HOLD_MAX_MS 5000u
#define HELD_NAMES_PER_HOLD_MS 4u

struct names {
    struct row_name *items_owned;
    size_t count;
    size_t capacity;
};

struct publisher {
    struct worker *worker;
    struct rows current; /* being published */
    struct rows next;    /* read meanwhile */
    struct attempt *attempts_owned;
    struct names done;    /* published, still in the source */
    struct names skipped; /* what a scan leaves out */
    struct holds holds;
    uint64_t release_ms; /* when the held rows are released */
    unsigned hold_ms;    /* for how long it was held the last time */
    size_t held_before;  /* how many they were then */
    char hold_text[FAULT_TEXT_SIZE];
    bool is_blocked;       /* the status says so, */
    bool is_full;          /* and that nothing else goes on */
    bool was_cut;          /* the sink left rows untried: what was read behind them is too early */
    unsigned clean_rounds; /* publishes after which nothing was held, in a row */
    uint64_t calls;        /* of deliver in this term */
    uint64_t settled;      /* of those: every row has left the source */
    uint64_t settling;     /* what `settled` will be when the scan that is open has ended well */
    uint64_t last_row_ms;
};

/* --- scans -------------------------------------------------------------------------------------------------------- */

static void add_name(struct names *names, uint64_t id, struct uid uid)
{
    ARRAY_GROW(names->items_owned, names->count, names->capacity);
    names->items_owned[names->count++] = (struct row_name){.id = id, .uid = uid};
}

/* Nothing is open here, so this is where what is held may be let go: the scan that follows sees it, and all behind
 * it. */
static void release_holds(struct publisher *publisher)
{
    if (publisher->holds.count == 0 || keeper_now_ms() < publisher->release_ms)
        return;
    publisher->held_before = publisher->holds.count;
    holds_clear(&publisher->holds);
    publisher->release_ms = 0;
}

static enum step begin_scan(struct publisher *publisher, unsigned limit, struct fault *fault)
{
    struct worker *worker = publisher->worker;
    struct names *skipped = &publisher->skipped;
    release_holds(publisher);
    skipped->count = 0;
    for (size_t i = 0; i < publisher->current.count; i++)
        add_name(skipped, publisher->current.items_owned[i].id, publisher->current.items_owned[i].uid);
    for (size_t i = 0; i < publisher->holds.count; i++)
        add_name(skipped, publisher->holds.names_owned[i].id, publisher->holds.names_owned[i].uid);
    publisher->settling = publisher->calls;
    return worker->source->ops->begin_scan(worker->source, &worker->term, publisher->done.items_owned,
                                           publisher->done.count, skipped->items_owned, skipped->count, limit,
                                           worker->sink->size_max, fault);
}

/* What the scan was to delete is gone with its end, and only then. */
static enum step end_scan(struct publisher *publisher, struct rows *rows, struct fault *fault)
{
    struct worker *worker = publisher->worker;
    enum step step = worker->source->ops->end_scan(worker->source, rows, fault);
    if (step == STEP_OK) {
        publisher->done.count = 0;
        publisher->settled = publisher->settling;
        worker_recovered(worker);
    }
    return step;
}

/* A whole scan, with nothing in hand. False: the worker is to return. */
static bool scan(struct publisher *publisher, unsigned limit)
{
    struct fault fault;
    rows_clear(&publisher->current);
    for (;;) {
        enum step step = begin_scan(publisher, limit, &fault);
        if (step == STEP_OK)
            step = end_scan(publisher, &publisher->current, &fault);
        if (step == STEP_OK)
            return true;
        rows_clear(&publisher->current);
        if (!worker_bear(publisher->worker, step, &fault))
            return false;
    }
}

/* Takes out of `rows` what has to wait behind a row that is held. */
static void keep_back(struct publisher *publisher, struct rows *rows)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++)
        if (!holds_take(&publisher->holds, &rows->items_owned[i]))
            rows->items_owned[kept++] = rows->items_owned[i];
    rows->count = kept;
}

/* --- what became of the rows -------------------------------------------------------------------------------------- */

/* What the first row that is held says, says it for all. */
static void say_why(struct publisher *publisher, const struct attempt *attempt)
{
    const struct row *row = attempt->row;
    if (attempt->verdict == VERDICT_REFUSED)
        snprintf(publisher->hold_text, sizeof publisher->hold_text,
                 "row %llu was refused, and its group waits until it is changed or deleted in the outbox: %.300s",
                 (unsigned long long)row->id, attempt->reason);
    else if (row->kind == ROW_ACK)
        snprintf(publisher->hold_text, sizeof publisher->hold_text, "row %llu, an ack, waits: %.300s",
                 (unsigned long long)row->id, attempt->reason);
    else {
        const char *own = publisher->worker->spec->queue_owned;
        struct bytes queue = row->queue.size == 0 && own != NULL ? bytes_from_string(own) : row->queue;
        snprintf(publisher->hold_text, sizeof publisher->hold_text,
                 "row %llu and all that goes to queue %.*s wait: %.300s", (unsigned long long)row->id,
                 queue.size > 80 ? 80 : (int)queue.size, (const char *)queue.ptr, attempt->reason);
    }
}

static void hold(struct publisher *publisher, const struct attempt *attempt)
{
    const struct row *row = attempt->row;
    bool is_blocked = attempt->verdict == VERDICT_BLOCKED;
    if (publisher->release_ms == 0) {
        unsigned most_ms = HOLD_MAX_MS + (unsigned)publisher->held_before / HELD_NAMES_PER_HOLD_MS;
        unsigned longer_ms = publisher->hold_ms * 2 < most_ms ? publisher->hold_ms * 2 : most_ms;
        publisher->hold_ms = publisher->hold_ms == 0 ? HOLD_MIN_MS : longer_ms;
        publisher->release_ms = keeper_now_ms() + publisher->hold_ms;
    }
    if (publisher->holds.count == 0)
        say_why(publisher, attempt);
    holds_add(&publisher->holds, row, is_blocked && row->kind == ROW_SEND);
}
/* Parks a row, however often that must be tried. False: the worker is to return. */
static bool park(struct publisher *publisher, const struct attempt *attempt)
{
    struct worker *worker = publisher->worker;
    struct fault fault;
    for (;;) {
        enum step step = worker->source->ops->park(worker->source, &worker->term, attempt->row, attempt->reason,
                                                   attempt->verdict == VERDICT_DOUBTED, &fault);
        if (step == STEP_OK)
            return true;
        if (!worker_bear(worker, step, &fault))
            return false;
    }
}

/* First everything that needs no step of its own: if one fails, no answer is forgotten. */
static void note_verdicts(struct publisher *publisher, struct worker_progress *progress)
{
    for (size_t i = 0; i < publisher->current.count; i++) {
        const struct attempt *attempt = &publisher->attempts_owned[i];
        switch (attempt->verdict) {
        case VERDICT_DELIVERED:
            add_name(&publisher->done, attempt->row->id, attempt->row->uid);
            progress->delivered++;
            progress->duplicates += attempt->is_duplicate;
            if (attempt->row->id > progress->position)
                progress->position = attempt->row->id;
            break;
        case VERDICT_REFUSED:
            if (publisher->worker->spec->blocks_group)
                hold(publisher, attempt);
            break;
        case VERDICT_UNTRIED:
            publisher->was_cut = true;
            break;
        case VERDICT_RETRY:
        case VERDICT_BLOCKED:
            hold(publisher, attempt);
            progress->retries++;
            break;
        case VERDICT_DOUBTED:
            break;
        }
    }
}

static bool park_rows(struct publisher *publisher, struct worker_progress *progress)
{
    for (size_t i = 0; i < publisher->current.count; i++) {
        const struct attempt *attempt = &publisher->attempts_owned[i];
        bool is_refused = attempt->verdict == VERDICT_REFUSED && !publisher->worker->spec->blocks_group;
        if (!is_refused && attempt->verdict != VERDICT_DOUBTED)
            continue;
        if (!park(publisher, attempt))
            return false;
        progress->parked++;
    }
    return true;
}

/* Nothing is blocked any more when nothing was held for two rounds: the rows that were let go may have been read in the
 * one before. */
static void report_holds(struct publisher *publisher)
{
    publisher->is_full = publisher->is_full || publisher->holds.count >= HOLDS_MAX;
    if (publisher->holds.count > 0) {
        char text[FAULT_TEXT_SIZE];
        snprintf(text, sizeof text, "%.400s%s", publisher->hold_text,
                 publisher->is_full ? " So many wait that nothing else is read until they can go" : "");
        publisher->clean_rounds = 0;
        publisher->is_blocked = true;
        worker_report_blocked(publisher->worker, text);
    } else if (publisher->is_blocked && ++publisher->clean_rounds >= 2) {
        publisher->is_blocked = false;
        publisher->is_full = false;
        publisher->hold_ms = 0;
        worker_report_blocked(publisher->worker, NULL);
    }
}

static bool settle_verdicts(struct publisher *publisher)
{
    struct worker_progress progress = {0};
    note_verdicts(publisher, &progress);
    bool goes_on = park_rows(publisher, &progress);
    worker_report(publisher->worker, &progress);
    report_holds(publisher);
    rows_clear(&publisher->current);
    return goes_on;
}

/* --- publishing --------------------------------------------------------------------------------------------------- */

static void make_attempts(struct publisher *publisher)
{
    for (size_t i = 0; i < publisher->current.count; i++)
        publisher->attempts_owned[i] = (struct attempt){.row = &publisher->current.items_owned[i]};
}

static enum step deliver(struct publisher *publisher, struct fault *fault)
{
    struct worker *worker = publisher->worker;
    enum step step = worker->sink->ops->deliver(worker->sink, &worker->term, publisher->attempts_owned,
                                                publisher->current.count, publisher->settled, &worker->permit, fault);
    if (step == STEP_OK) {
        publisher->calls++;
        worker_proved(worker);
    }
    return step;
}

/* Goes on where a first try led to nothing: at once, because a connection that has died in silence is the commonest
 * reason, and then after longer and longer pauses. What the sink says does not fit can't be repeated: the term begins
 * again. */
static bool deliver_again(struct publisher *publisher, enum step step, struct fault *fault)
{
    bool is_first = true;
    while (step != STEP_OK) {
        if ((!is_first || step != STEP_UNREACHABLE) && !worker_bear(publisher->worker, step, fault))
            return false;
        if (step == STEP_UNFIT) {
            publisher->worker->end = WORKER_AGAIN;
            return false;
        }
        is_first = false;
        step = deliver(publisher, fault);
    }
    return true;
}

static bool publish_alone(struct publisher *publisher)
{
    struct fault fault;
    enum step step = deliver(publisher, &fault);
    return deliver_again(publisher, step, &fault) && settle_verdicts(publisher);
}

/* The scan is ended before a publish is tried again: a statement whose rows nobody reads holds back VACUUM in the
 * source (P18). */
static bool publish_and_scan(struct publisher *publisher)
{
    struct fault publish_fault, scan_fault;
    uint64_t calls = publisher->calls;
    rows_clear(&publisher->next);
    enum step scan_step = begin_scan(publisher, SCAN_ROWS_MAX, &scan_fault);
    enum step step = deliver(publisher, &publish_fault);
    if (scan_step == STEP_OK)
        scan_step = end_scan(publisher, &publisher->next, &scan_fault);
    ASSERT(publisher->settled <= calls);
    if (scan_step != STEP_OK)
        rows_clear(&publisher->next);
    if (!deliver_again(publisher, step, &publish_fault) || !settle_verdicts(publisher))
        return false;
    if (scan_step == STEP_OK)
        return true;
    return worker_bear(publisher->worker, scan_step, &scan_fault);
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static void swap_rows(struct publisher *publisher)
{
    struct rows rows = publisher->current;
    publisher->current = publisher->next;
    publisher->next = rows;
}

/* False: the rows in hand are not to be published. While they wait, those before them leave the source all the same
 * (P6). */
static bool await_kept(struct publisher *publisher)
{
    enum kept kept;
    while ((kept = worker_await_kept(publisher->worker, &publisher->current)) == KEPT_NOT_YET) {
        struct fault fault;
        if (publisher->done.count == 0)
            continue;
        enum step step = begin_scan(publisher, 1, &fault);
        if (step == STEP_OK)
            step = end_scan(publisher, &publisher->next, &fault);
        rows_clear(&publisher->next); /* read again behind those in hand */
        if (step != STEP_OK) {
            (void)worker_bear(publisher->worker, step, &fault);
            return false;
        }
    }
    return kept == KEPT;
}

/* Publishes what was read, and reads on for as long as rows flow. Ends with nothing in hand. */
static bool pump(struct publisher *publisher)
{
    struct worker *worker = publisher->worker;
    while (publisher->current.count > 0) {
        if (!await_kept(publisher)) {
            rows_clear(&publisher->current);
            return true; /* what became of the term is asked next */
        }
        bool is_flowing = publisher->current.count >= FLOWING_ROWS && !worker_has_errand(worker) &&
                          !holds_are_full(&publisher->holds);
        make_attempts(publisher);
        publisher->was_cut = false;
        publisher->last_row_ms = keeper_now_ms();
        if (!(is_flowing ? publish_and_scan(publisher) : publish_alone(publisher)))
            return false;
        if (is_flowing) {
            swap_rows(publisher);
            keep_back(publisher, &publisher->current);
            if (publisher->was_cut) /* those that were left come again, and these behind them */
                rows_clear(&publisher->current);
        }
    }
    return true;
}

static unsigned idle_ms(const struct publisher *publisher)
{
    uint64_t idle = (keeper_now_ms() - publisher->last_row_ms) / IDLE_PART;
    unsigned wait_ms = idle < IDLE_MIN_MS ? IDLE_MIN_MS : idle > IDLE_MAX_MS ? IDLE_MAX_MS : (unsigned)idle;
    return wait_ms + (unsigned)(publisher->holds.count / HELD_NAMES_PER_MS);
}

/* Deletes what the sink has stored in earlier terms: it was confirmed to nobody. */
static bool settle_stored(struct publisher *publisher)
{
    struct worker *worker = publisher->worker;
    size_t settled = 0;
    do {
        for (; settled < worker->stored_count && publisher->done.count < SCAN_ROWS_MAX; settled++)
            add_name(&publisher->done, worker->stored[settled].id, worker->stored[settled].uid);
        if (!scan(publisher, 1))
            return false;
        rows_clear(&publisher->current); /* read again below */
    } while (settled < worker->stored_count);
    return true;
}

/* At the end of a term that is still ours: what is stored need not be found out by the next one. */
static void settle_last(struct publisher *publisher)
{
    struct fault fault;
    rows_clear(&publisher->current);
    if (publisher->done.count > 0 && worker_goes_on(publisher->worker) && begin_scan(publisher, 1, &fault) == STEP_OK)
        end_scan(publisher, &publisher->current, &fault);
}

static void run(struct publisher *publisher)
{
    struct worker *worker = publisher->worker;
    if (!settle_stored(publisher))
        return;
    while (worker_may_begin(worker)) {
        bool is_full = holds_are_full(&publisher->holds) && keeper_now_ms() < publisher->release_ms;
        if ((!is_full || publisher->done.count > 0) && !scan(publisher, is_full ? 1 : SCAN_ROWS_MAX))
            return;
        if (is_full)
            rows_clear(&publisher->current); /* it was for what is done */
        bool is_idle =
            publisher->current.count == 0; /* where rows came and are all held, others may stand behind them */
        keep_back(publisher, &publisher->current);
        if (is_idle)
            report_holds(publisher);
        if (is_idle && publisher->holds.count == 0)
            worker_proved(worker);
        if (!pump(publisher))
            return;
        if (is_idle && !worker_wait(worker, idle_ms(publisher)))
            return;
    }
    settle_last(publisher);
}

void worker_publish_run(struct worker *worker)
{
    struct publisher publisher = {.worker = worker, .last_row_ms = keeper_now_ms()};
    ASSERT(worker->sink->rows_max >= SCAN_ROWS_MAX);
    rows_init(&publisher.current);
    rows_init(&publisher.next);
    holds_init(&publisher.holds, worker->spec->is_strict);
    publisher.attempts_owned = memory_allocate(SCAN_ROWS_MAX * sizeof(*publisher.attempts_owned));
    run(&publisher);
    free(publisher.attempts_owned);
    holds_deinit(&publisher.holds);
    free(publisher.done.items_owned);
    free(publisher.skipped.items_owned);
    rows_deinit(&publisher.current);
    rows_deinit(&publisher.next);
}
