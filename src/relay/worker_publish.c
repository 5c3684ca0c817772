/* The loop for sinks that remember rows: read, publish, delete what is durably there, park what was refused.
 *
 * While rows flow, the source reads the next ones during the publishing of the last (begin_scan … deliver … end_scan),
 * and the same statement deletes those before them. Rows in hand are left out of the scan, and what can't be delivered
 * now is held (blocked_rows.h); so the next rows never pass one of their group. A publish whose answer was lost is
 * repeated as it is before anything else, and a row is deleted only after an answer that named it (P5, R14). */
#include "platform/monotonic.h"
#include "relay/worker.h"

#include "base/assert.h"
#include "base/memory.h"
#include "relay/blocked_rows.h"
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

struct publish_loop {
    struct worker *worker;
    struct rows current; /* being published */
    struct rows next;    /* read meanwhile */
    struct attempt *attempts_owned;
    struct names done;    /* published, still in the source */
    struct names skipped; /* what a scan leaves out */
    struct blocked_rows blocked_rows;
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
static void release_blocked_rows(struct publish_loop *loop)
{
    if (loop->blocked_rows.count == 0 || boottime_ms() < loop->release_ms)
        return;
    loop->held_before = loop->blocked_rows.count;
    blocked_rows_clear(&loop->blocked_rows);
    loop->release_ms = 0;
}

static enum step begin_scan(struct publish_loop *loop, unsigned limit, struct fault *fault)
{
    struct worker *worker = loop->worker;
    struct names *skipped = &loop->skipped;
    release_blocked_rows(loop);
    skipped->count = 0;
    for (size_t i = 0; i < loop->current.count; i++)
        add_name(skipped, loop->current.items_owned[i].id, loop->current.items_owned[i].uid);
    for (size_t i = 0; i < loop->blocked_rows.count; i++)
        add_name(skipped, loop->blocked_rows.names_owned[i].id, loop->blocked_rows.names_owned[i].uid);
    loop->settling = loop->calls;
    return worker->source->ops->begin_scan(worker->source, &worker->term, loop->done.items_owned, loop->done.count,
                                           skipped->items_owned, skipped->count, limit, worker->sink->size_max, fault);
}

/* What the scan was to delete is gone with its end, and only then. */
static enum step end_scan(struct publish_loop *loop, struct rows *rows, struct fault *fault)
{
    struct worker *worker = loop->worker;
    enum step step = worker->source->ops->end_scan(worker->source, rows, fault);
    if (step == STEP_OK) {
        loop->done.count = 0;
        loop->settled = loop->settling;
        worker_recovered(worker);
    }
    return step;
}

/* A whole scan, with nothing in hand. False: the worker is to return. */
static bool scan(struct publish_loop *loop, unsigned limit)
{
    struct fault fault;
    rows_clear(&loop->current);
    for (;;) {
        enum step step = begin_scan(loop, limit, &fault);
        if (step == STEP_OK)
            step = end_scan(loop, &loop->current, &fault);
        if (step == STEP_OK)
            return true;
        rows_clear(&loop->current);
        if (!worker_handle_failure(loop->worker, step, &fault))
            return false;
    }
}

/* Takes out of `rows` what has to wait behind a row that is held. */
static void keep_back(struct publish_loop *loop, struct rows *rows)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++)
        if (!blocked_rows_take(&loop->blocked_rows, &rows->items_owned[i]))
            rows->items_owned[kept++] = rows->items_owned[i];
    rows->count = kept;
}

/* --- what became of the rows -------------------------------------------------------------------------------------- */

/* What the first row that is held says, says it for all. */
static void report_reason(struct publish_loop *loop, const struct attempt *attempt)
{
    const struct row *row = attempt->row;
    if (attempt->verdict == VERDICT_REFUSED)
        snprintf(loop->hold_text, sizeof loop->hold_text,
                 "row %llu was refused, and its group waits until it is changed or deleted in the outbox: %.300s",
                 (unsigned long long)row->id, attempt->reason);
    else if (row->kind == ROW_ACK)
        snprintf(loop->hold_text, sizeof loop->hold_text, "row %llu, an ack, waits: %.300s",
                 (unsigned long long)row->id, attempt->reason);
    else {
        const char *own = loop->worker->spec->queue_owned;
        struct bytes queue = row->queue.size == 0 && own != NULL ? bytes_from_string(own) : row->queue;
        snprintf(loop->hold_text, sizeof loop->hold_text, "row %llu and all that goes to queue %.*s wait: %.300s",
                 (unsigned long long)row->id, queue.size > 80 ? 80 : (int)queue.size, (const char *)queue.ptr,
                 attempt->reason);
    }
}

static void hold(struct publish_loop *loop, const struct attempt *attempt)
{
    const struct row *row = attempt->row;
    bool is_blocked = attempt->verdict == VERDICT_BLOCKED;
    if (loop->release_ms == 0) {
        unsigned most_ms = HOLD_MAX_MS + (unsigned)loop->held_before / HELD_NAMES_PER_HOLD_MS;
        unsigned longer_ms = loop->hold_ms * 2 < most_ms ? loop->hold_ms * 2 : most_ms;
        loop->hold_ms = loop->hold_ms == 0 ? HOLD_MIN_MS : longer_ms;
        loop->release_ms = boottime_ms() + loop->hold_ms;
    }
    if (loop->blocked_rows.count == 0)
        report_reason(loop, attempt);
    blocked_rows_add(&loop->blocked_rows, row, is_blocked && row->kind == ROW_SEND);
}
/* Parks a row, however often that must be tried. False: the worker is to return. */
static bool park(struct publish_loop *loop, const struct attempt *attempt)
{
    struct worker *worker = loop->worker;
    struct fault fault;
    for (;;) {
        enum step step = worker->source->ops->park(worker->source, &worker->term, attempt->row, attempt->reason,
                                                   attempt->verdict == VERDICT_DOUBTED, &fault);
        if (step == STEP_OK)
            return true;
        if (!worker_handle_failure(worker, step, &fault))
            return false;
    }
}

/* First everything that needs no step of its own: if one fails, no answer is forgotten. */
static void note_verdicts(struct publish_loop *loop, struct worker_progress *progress)
{
    for (size_t i = 0; i < loop->current.count; i++) {
        const struct attempt *attempt = &loop->attempts_owned[i];
        switch (attempt->verdict) {
        case VERDICT_DELIVERED:
            add_name(&loop->done, attempt->row->id, attempt->row->uid);
            progress->delivered++;
            progress->duplicates += attempt->is_duplicate;
            if (attempt->row->id > progress->position)
                progress->position = attempt->row->id;
            break;
        case VERDICT_REFUSED:
            if (loop->worker->spec->blocks_group)
                hold(loop, attempt);
            break;
        case VERDICT_UNTRIED:
            loop->was_cut = true;
            break;
        case VERDICT_RETRY:
        case VERDICT_BLOCKED:
            hold(loop, attempt);
            progress->retries++;
            break;
        case VERDICT_DOUBTED:
            break;
        }
    }
}

static bool park_rows(struct publish_loop *loop, struct worker_progress *progress)
{
    for (size_t i = 0; i < loop->current.count; i++) {
        const struct attempt *attempt = &loop->attempts_owned[i];
        bool is_refused = attempt->verdict == VERDICT_REFUSED && !loop->worker->spec->blocks_group;
        if (!is_refused && attempt->verdict != VERDICT_DOUBTED)
            continue;
        if (!park(loop, attempt))
            return false;
        progress->parked++;
    }
    return true;
}

/* Nothing is blocked any more when nothing was held for two rounds: the rows that were let go may have been read in the
 * one before. */
static void report_blocked_rows(struct publish_loop *loop)
{
    loop->is_full = loop->is_full || loop->blocked_rows.count >= BLOCKED_ROWS_MAX;
    if (loop->blocked_rows.count > 0) {
        char text[FAULT_TEXT_SIZE];
        snprintf(text, sizeof text, "%.400s%s", loop->hold_text,
                 loop->is_full ? " So many wait that nothing else is read until they can go" : "");
        loop->clean_rounds = 0;
        loop->is_blocked = true;
        worker_report_blocked(loop->worker, text);
    } else if (loop->is_blocked && ++loop->clean_rounds >= 2) {
        loop->is_blocked = false;
        loop->is_full = false;
        loop->hold_ms = 0;
        worker_report_blocked(loop->worker, NULL);
    }
}

static bool settle_verdicts(struct publish_loop *loop)
{
    struct worker_progress progress = {0};
    note_verdicts(loop, &progress);
    bool goes_on = park_rows(loop, &progress);
    worker_report(loop->worker, &progress);
    report_blocked_rows(loop);
    rows_clear(&loop->current);
    return goes_on;
}

/* --- publishing --------------------------------------------------------------------------------------------------- */

static void make_attempts(struct publish_loop *loop)
{
    for (size_t i = 0; i < loop->current.count; i++)
        loop->attempts_owned[i] = (struct attempt){.row = &loop->current.items_owned[i]};
}

static enum step deliver(struct publish_loop *loop, struct fault *fault)
{
    struct worker *worker = loop->worker;
    enum step step = worker_deliver(worker, loop->attempts_owned, loop->current.count, loop->settled, fault);
    if (step == STEP_OK) {
        loop->calls++;
        worker_proved(worker);
    }
    return step;
}

/* Goes on where a first try led to nothing: at once, because a connection that has died in silence is the commonest
 * reason, and then after longer and longer pauses. What the sink says does not fit can't be repeated: the term begins
 * again. */
static bool deliver_again(struct publish_loop *loop, enum step step, struct fault *fault)
{
    bool is_first = true;
    while (step != STEP_OK) {
        if ((!is_first || step != STEP_UNREACHABLE) && !worker_handle_failure(loop->worker, step, fault))
            return false;
        if (step == STEP_UNFIT) {
            loop->worker->end = WORKER_AGAIN;
            return false;
        }
        is_first = false;
        step = deliver(loop, fault);
    }
    return true;
}

static bool publish_alone(struct publish_loop *loop)
{
    struct fault fault;
    enum step step = deliver(loop, &fault);
    return deliver_again(loop, step, &fault) && settle_verdicts(loop);
}

/* The scan is ended before a publish is tried again: a statement whose rows nobody reads holds back VACUUM in the
 * source (P18). */
static bool publish_and_scan(struct publish_loop *loop)
{
    struct fault publish_fault, scan_fault;
    uint64_t calls = loop->calls;
    rows_clear(&loop->next);
    enum step scan_step = begin_scan(loop, SCAN_ROWS_MAX, &scan_fault);
    enum step step = deliver(loop, &publish_fault);
    if (scan_step == STEP_OK)
        scan_step = end_scan(loop, &loop->next, &scan_fault);
    ASSERT(loop->settled <= calls);
    if (scan_step != STEP_OK)
        rows_clear(&loop->next);
    if (!deliver_again(loop, step, &publish_fault) || !settle_verdicts(loop))
        return false;
    if (scan_step == STEP_OK)
        return true;
    return worker_handle_failure(loop->worker, scan_step, &scan_fault);
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static void swap_rows(struct publish_loop *loop)
{
    struct rows rows = loop->current;
    loop->current = loop->next;
    loop->next = rows;
}

/* False: the rows in hand are not to be published. While they wait, those before them leave the source all the same
 * (P6). */
static bool await_durable(struct publish_loop *loop)
{
    enum durability durability;
    while ((durability = worker_await_durable(loop->worker, &loop->current)) == NOT_YET_DURABLE) {
        struct fault fault;
        if (loop->done.count == 0)
            continue;
        enum step step = begin_scan(loop, 1, &fault);
        if (step == STEP_OK)
            step = end_scan(loop, &loop->next, &fault);
        rows_clear(&loop->next); /* read again behind those in hand */
        if (step != STEP_OK) {
            (void)worker_handle_failure(loop->worker, step, &fault);
            return false;
        }
    }
    return durability == DURABLE;
}

/* Publishes what was read, and reads on for as long as rows flow. Ends with nothing in hand. */
static bool pump(struct publish_loop *loop)
{
    struct worker *worker = loop->worker;
    while (loop->current.count > 0) {
        if (!await_durable(loop)) {
            rows_clear(&loop->current);
            return true; /* what became of the term is asked next */
        }
        bool is_flowing = loop->current.count >= FLOWING_ROWS && !worker_has_request(worker) &&
                          !blocked_rows_are_full(&loop->blocked_rows);
        make_attempts(loop);
        loop->was_cut = false;
        loop->last_row_ms = boottime_ms();
        if (!(is_flowing ? publish_and_scan(loop) : publish_alone(loop)))
            return false;
        if (is_flowing) {
            swap_rows(loop);
            keep_back(loop, &loop->current);
            if (loop->was_cut) /* those that were left come again, and these behind them */
                rows_clear(&loop->current);
        }
    }
    return true;
}

static unsigned idle_ms(const struct publish_loop *loop)
{
    uint64_t idle = (boottime_ms() - loop->last_row_ms) / IDLE_PART;
    unsigned wait_ms = idle < IDLE_MIN_MS ? IDLE_MIN_MS : idle > IDLE_MAX_MS ? IDLE_MAX_MS : (unsigned)idle;
    return wait_ms + (unsigned)(loop->blocked_rows.count / HELD_NAMES_PER_MS);
}

/* Deletes what the sink has stored in earlier terms: it was confirmed to nobody. */
static bool settle_stored(struct publish_loop *loop)
{
    struct worker *worker = loop->worker;
    size_t settled = 0;
    do {
        for (; settled < worker->stored_count && loop->done.count < SCAN_ROWS_MAX; settled++)
            add_name(&loop->done, worker->stored[settled].id, worker->stored[settled].uid);
        if (!scan(loop, 1))
            return false;
        rows_clear(&loop->current); /* read again below */
    } while (settled < worker->stored_count);
    return true;
}

/* At the end of a term that is still ours: what is stored need not be found out by the next one. */
static void settle_last(struct publish_loop *loop)
{
    struct fault fault;
    rows_clear(&loop->current);
    if (loop->done.count > 0 && worker_goes_on(loop->worker) && begin_scan(loop, 1, &fault) == STEP_OK)
        end_scan(loop, &loop->current, &fault);
}

static void run(struct publish_loop *loop)
{
    struct worker *worker = loop->worker;
    if (!settle_stored(loop))
        return;
    while (worker_may_begin(worker)) {
        bool is_full = blocked_rows_are_full(&loop->blocked_rows) && boottime_ms() < loop->release_ms;
        if ((!is_full || loop->done.count > 0) && !scan(loop, is_full ? 1 : SCAN_ROWS_MAX))
            return;
        if (is_full)
            rows_clear(&loop->current);          /* it was for what is done */
        bool is_idle = loop->current.count == 0; /* where rows came and are all held, others may stand behind them */
        keep_back(loop, &loop->current);
        if (is_idle)
            report_blocked_rows(loop);
        if (is_idle && loop->blocked_rows.count == 0)
            worker_proved(worker);
        if (!pump(loop))
            return;
        if (is_idle && !worker_wait(worker, idle_ms(loop)))
            return;
    }
    settle_last(loop);
}

void worker_publish_run(struct worker *worker)
{
    struct publish_loop loop = {.worker = worker, .last_row_ms = boottime_ms()};
    ASSERT(worker->sink->rows_max >= SCAN_ROWS_MAX);
    rows_init(&loop.current);
    rows_init(&loop.next);
    blocked_rows_init(&loop.blocked_rows, worker->spec->is_strict);
    loop.attempts_owned = memory_allocate(SCAN_ROWS_MAX * sizeof(*loop.attempts_owned));
    run(&loop);
    free(loop.attempts_owned);
    blocked_rows_deinit(&loop.blocked_rows);
    free(loop.done.items_owned);
    free(loop.skipped.items_owned);
    rows_deinit(&loop.current);
    rows_deinit(&loop.next);
}
