/* The worker for sinks that do not remember rows by uid: Amazon SQS, web hooks.
 *
 * Such a sink can't be asked later what it has. So the names of rows are noted in the source before they are tried for the first time, as an
 * intent (P16), and after a crash the next owner finds there what may have been delivered. It is tried again where that is harmless, because
 * the sink's memory has not run out, or where a second copy was asked for rather than none; everything else is parked as in doubt (P17). A row
 * that failed for certain is nobody's doubt: its intent ends, and its next attempt gets an intent, and an age, of its own.
 *
 * One round: the rows that may be tried are chosen from the last scan and noted; the sink tries them; refused ones are parked, others held
 * back; and the next scan settles what was delivered. */
#include "base/assert.h"
#include "base/memory.h"
#include "relay/gates.h"
#include "relay/intents.h"
#include "relay/keeper.h"
#include "relay/moment.h"
#include "relay/relay_inner.h"
#include "relay/worker.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define IDLE_MS_MAX 40u
#define CHOSEN_MS_MAX                                                                                                  \
    5000u /* from the choice of rows to their attempts; small beside the margin of sinks that forget */
#define REFUSED_PAUSE_MS 30000u /* of a group that waits for a refused row */
#define WISH_MS_MAX 600000u     /* a sink that wants to be left alone for longer is asked again all the same */
#define WISH_DOUBTED_MS_MAX 30000u
#define STALE_MS 1000u /* rows that were read so long ago are read again */

/* What belongs to an attempt and is none of the sink's business. */
struct trial {
    struct way way;
    uint32_t intent; /* slot; 0: none yet */
};

struct round {
    struct worker *worker;
    struct gates gates;
    struct intents intents;
    struct rows rows; /* of the last scan */
    struct attempt *attempts_owned;
    struct trial *trials_owned;
    size_t count;
    struct row_name *names_owned;
    size_t name_capacity;
    uint32_t current;  /* slot of the last intent, while its rows are tried */
    uint32_t finished; /* slot of an intent that the next one may replace; 0: none */
    uint64_t tried_ms; /* when the present attempts began */
    uint64_t scanned_ms;
    unsigned idle_ms;
    bool is_sink_down;
    bool is_blocked_told;
    struct worker_progress progress;
};

static void round_init(struct round *round, struct worker *worker)
{
    *round = (struct round){.worker = worker};
    gates_init(&round->gates);
    intents_init(&round->intents);
    rows_init(&round->rows);
    round->attempts_owned = memory_allocate(worker->sink->rows_max * sizeof(*round->attempts_owned));
    round->trials_owned = memory_allocate(worker->sink->rows_max * sizeof(*round->trials_owned));
}

static void round_deinit(struct round *round)
{
    gates_deinit(&round->gates);
    intents_deinit(&round->intents);
    rows_deinit(&round->rows);
    free(round->attempts_owned);
    free(round->trials_owned);
    free(round->names_owned);
}

static struct row_name *name_room(struct round *round, size_t count)
{
    if (count > round->name_capacity) {
        round->name_capacity = count * 2;
        round->names_owned = memory_resize(round->names_owned, round->name_capacity * sizeof(*round->names_owned));
    }
    return round->names_owned;
}

static struct row_name name_of(const struct row *row)
{
    return (struct row_name){.id = row->id, .uid = row->uid};
}

/* In strict order there is one way. */
static struct way way_of(const struct round *round, const struct row *row)
{
    if (round->worker->spec->is_strict)
        return (struct way){.queue = 1, .group = 1};
    uint64_t queue = bytes_hash(row->queue);
    uint64_t group =
        row->group.ptr != NULL ? bytes_hash(row->group) : bytes_hash(bytes_make(row->uid.bytes, UID_SIZE)) + 1;
    return (struct way){.queue = queue, .group = table_hash_u64(queue * 31 + group)};
}

/* --- steps of the source ------------------------------------------------------------------------------------------ */

static bool has_intents(const struct round *round)
{
    return round->worker->source->ops->note != NULL;
}

/* Is the step to be made again? An outage of the sink is not over because the source answers. */
static bool is_to_be_repeated(struct round *round, enum step step, const struct fault *fault)
{
    if (step != STEP_OK)
        return worker_bear(round->worker, step, fault);
    if (!round->is_sink_down)
        worker_recovered(round->worker);
    return false;
}

/* Drops the intent that is finished and notes the next one, if there are names. */
static bool note(struct round *round, uint64_t next, const struct row_name *names, size_t count)
{
    struct worker *worker = round->worker;
    uint64_t last = round->finished == 0 ? 0 : intents_at(&round->intents, round->finished)->number;
    struct fault fault;
    enum step step;
    do
        step = worker->source->ops->note(worker->source, &worker->term, last, next, names, count, &fault);
    while (is_to_be_repeated(round, step, &fault));
    if (step == STEP_OK && round->finished != 0) {
        intents_remove(&round->intents, round->finished);
        round->finished = 0;
    }
    return step == STEP_OK;
}

/* What was delivered of it leaves the source in the same step, else it would come back as if it had never been tried. */
static bool end_intent(struct round *round, uint32_t slot)
{
    struct worker *worker = round->worker;
    const struct open_intent *open = intents_at(&round->intents, slot);
    struct intent intent = {.epoch = open->epoch, .number = open->number};
    size_t done_count;
    const struct row_name *done = intents_list_done(&round->intents, slot, &done_count);
    struct fault fault;
    enum step step;
    do
        step = worker->source->ops->end_intent(worker->source, &worker->term, &intent, done, done_count, &fault);
    while (is_to_be_repeated(round, step, &fault));
    if (step != STEP_OK)
        return false;
    for (size_t i = 0; i < round->gates.count; i++)
        if (round->gates.rows_owned[i].intent == slot)
            round->gates.rows_owned[i].intent = 0;
    intents_remove(&round->intents, slot);
    return true;
}

/* Ends the intents that have no rows left, but for the one that the next may replace. */
static bool end_empty_intents(struct round *round)
{
    for (uint32_t slot = 1; slot < round->intents.slot_end; slot++) {
        const struct open_intent *open = &round->intents.open_owned[slot];
        if (open->epoch != 0 && open->left == 0 && slot != round->finished && !end_intent(round, slot))
            return false;
    }
    return true;
}

static bool park(struct round *round, const struct row *row, const char *reason, bool is_doubted)
{
    struct worker *worker = round->worker;
    struct fault fault;
    enum step step;
    do
        step = worker->source->ops->park(worker->source, &worker->term, row, reason, is_doubted, &fault);
    while (is_to_be_repeated(round, step, &fault));
    round->progress.parked += step == STEP_OK;
    return step == STEP_OK;
}

/* --- the scan ----------------------------------------------------------------------------------------------------- */

/* Rows that somebody took out of the source while they waited here. */
static bool forget_gone(struct round *round)
{
    const struct rows *rows = &round->rows;
    uint64_t last = rows->count == 0 ? 0 : rows->items_owned[rows->count - 1].id;
    for (size_t i = 0; i < rows->count; i++) {
        struct row_name name = name_of(&rows->items_owned[i]);
        struct held *held = gates_find(&round->gates, &name);
        if (held != NULL)
            held->is_seen = true;
    }
    for (const struct held *gone; (gone = gates_find_gone(&round->gates, last)) != NULL;) {
        struct row_name name = gone->name;
        intents_settle(&round->intents, gone->intent);
        gates_remove(&round->gates, &name);
    }
    return !has_intents(round) || end_empty_intents(round);
}

static enum step scan_once(struct round *round, struct fault *fault)
{
    struct worker *worker = round->worker;
    struct source *source = worker->source;
    struct row_name *held = name_room(round, round->gates.count);
    size_t held_count = gates_list(&round->gates, keeper_now_ms(), held);
    size_t done_count;
    const struct row_name *done = intents_list_done(&round->intents, 0, &done_count);
    unsigned limit = worker->sink->rows_max < SCAN_ROWS_MAX ? worker->sink->rows_max : SCAN_ROWS_MAX;
    enum step step = source->ops->begin_scan(source, &worker->term, done, done_count, held, held_count, limit,
                                             worker->sink->size_max, fault);
    return step != STEP_OK ? step : source->ops->end_scan(source, &round->rows, fault);
}

/* Settles what is done and reads what is next. */
static bool read_next(struct round *round)
{
    struct fault fault;
    enum step step;
    do
        step = scan_once(round, &fault);
    while (is_to_be_repeated(round, step, &fault));
    if (step != STEP_OK)
        return false;
    intents_forget_done(&round->intents);
    return forget_gone(round);
}

/* With rows that their source keeps. */
static bool scan(struct round *round)
{
    enum kept kept;
    do {
        if (!read_next(round))
            return false;
        do
            kept = worker_await_kept(round->worker, &round->rows);
        while (kept == KEPT_NOT_YET);
    } while (kept == KEPT_UNKNOWN && worker_may_begin(round->worker));
    round->scanned_ms = keeper_now_ms(); /* rows that had to wait can't be younger */
    return kept == KEPT;
}

/* --- which rows are tried ----------------------------------------------------------------------------------------- */

enum choice { CHOICE_TRY, CHOICE_MARK, CHOICE_PARK };

static uint64_t memory_of(const struct sink *sink, const struct row *row)
{
    if (sink->ops->memory_ms != NULL)
        return sink->ops->memory_ms(sink, row);
    return sink->memory == SINK_FORGETS ? sink->memory_ms : 0;
}

/* What to do with a row that may have been delivered `age_ms` ago (P17). */
static enum choice judge_doubt(const struct sink *sink, const struct row *row, int64_t age_ms)
{
    if (age_ms >= 0 && (uint64_t)age_ms < memory_of(sink, row))
        return CHOICE_TRY;
    return sink->repeats ? CHOICE_MARK : CHOICE_PARK;
}

/* The row leaves the round as done (it is in the sink) or parked. */
static void finish(struct round *round, const struct row *row, uint32_t intent, bool is_done)
{
    struct row_name name = name_of(row);
    if (is_done)
        intents_add_done(&round->intents, &name, intent);
    intents_settle(&round->intents, intent);
    gates_remove(&round->gates, &name);
}

static bool park_doubt(struct round *round, const struct row *row, uint32_t intent, int64_t age_ms)
{
    char reason[ROW_REASON_SIZE], ago[64];
    snprintf(ago, sizeof(ago), "%" PRId64 " s ago", age_ms / 1000);
    if ((uint64_t)age_ms >= AGE_UNKNOWN_MS)
        snprintf(ago, sizeof(ago), "made before a clock was set back");
    snprintf(reason, sizeof(reason),
             "an attempt %s may have been delivered: its outcome was never known, and it is not repeated. "
             "Look whether it arrived, then resolve it",
             ago);
    if (!park(round, row, reason, true))
        return false;
    finish(round, row, intent, false);
    return true;
}

static void add_attempt(struct round *round, const struct row *row, const struct way *way, uint32_t intent,
                        bool is_repeat)
{
    round->attempts_owned[round->count] = (struct attempt){.row = row, .is_repeat = is_repeat};
    round->trials_owned[round->count++] = (struct trial){.way = *way, .intent = intent};
}

/* Tries, holds or parks one row. False: the worker is to return. */
static bool choose_row(struct round *round, const struct row *row, uint64_t now_ms)
{
    struct sink *sink = round->worker->sink;
    struct row_name name = name_of(row);
    struct way way = way_of(round, row);
    const struct held *held = gates_find(&round->gates, &name);
    uint32_t intent = held == NULL ? 0 : held->intent;
    if (!gates_admits(&round->gates, &way, row->id, now_ms)) {
        if (held == NULL && !gates_are_full(&round->gates))
            gates_add(&round->gates, &name, &way);
        return true;
    }
    if (held == NULL && gates_are_packed(&round->gates))
        return true; /* if it failed there would be no room to remember that; it comes again */
    if (row->kind == ROW_ACK && !sink->takes_acks) {
        if (!park(round, row, "this relay's sink takes no acknowledgements: only a Tally queue does", false))
            return false;
        finish(round, row, intent, false);
        return true;
    }
    bool is_doubted = held != NULL ? held->is_doubted : !has_intents(round) && row->receive_count > 1;
    int64_t age_ms = held != NULL ? (int64_t)now_ms - held->doubted_since_ms : (int64_t)row->age_ms;
    enum choice choice = is_doubted ? judge_doubt(sink, row, age_ms) : CHOICE_TRY;
    if (choice == CHOICE_PARK)
        return park_doubt(round, row, intent, age_ms);
    add_attempt(round, row, &way, intent, choice == CHOICE_MARK);
    return true;
}

static bool choose(struct round *round)
{
    uint64_t now_ms = keeper_now_ms();
    round->count = 0;
    for (size_t i = 0; i < round->rows.count && round->count < round->worker->sink->rows_max; i++)
        if (!choose_row(round, &round->rows.items_owned[i], now_ms))
            return false;
    return true;
}

/* Notes those that no open intent names. */
static bool note_fresh(struct round *round)
{
    struct row_name *names = name_room(round, round->count);
    size_t count = 0;
    round->current = 0;
    round->tried_ms = keeper_now_ms();
    for (size_t i = 0; i < round->count; i++)
        if (round->trials_owned[i].intent == 0)
            names[count++] = name_of(round->attempts_owned[i].row);
    if (count == 0 || !has_intents(round))
        return true;
    uint64_t number = ++round->worker->relay->intent_number;
    if (!note(round, number, names, count))
        return false;
    round->current = intents_add(&round->intents, round->worker->term.epoch, number, count);
    for (size_t i = 0; i < round->count; i++)
        if (round->trials_owned[i].intent == 0)
            round->trials_owned[i].intent = round->current;
    return true;
}

/* --- what became of them ------------------------------------------------------------------------------------------ */

static struct held *keep(struct round *round, size_t index)
{
    struct row_name name = name_of(round->attempts_owned[index].row);
    struct held *held = gates_add(&round->gates, &name, &round->trials_owned[index].way);
    held->intent = round->trials_owned[index].intent;
    return held;
}

static void postpone(struct round *round, struct gate *gate, uint32_t wish_ms)
{
    gate->failures++;
    uint32_t pause_ms = worker_backoff_ms(round->worker, gate->failures);
    gate->due_ms = keeper_now_ms() + (wish_ms > 0 ? wish_ms : pause_ms);
}

/* The row waits, and all behind it: with its group, or with all that goes to its destination. */
static struct gate *hold_back(struct round *round, size_t index, bool is_blocked, uint32_t wish_ms)
{
    const struct attempt *attempt = &round->attempts_owned[index];
    const struct way *way = &round->trials_owned[index].way;
    uint64_t id = attempt->row->id;
    struct held *held = keep(round, index);
    if (attempt->may_have_arrived && !held->is_doubted) {
        held->is_doubted = true;
        held->doubted_since_ms = (int64_t)round->tried_ms;
    }
    uint32_t wish_ms_max = held->is_doubted ? WISH_DOUBTED_MS_MAX : WISH_MS_MAX;
    wish_ms = wish_ms > wish_ms_max ? wish_ms_max : wish_ms;
    struct gate *gate = gates_close(&round->gates, is_blocked ? way->queue : way->group, id);
    if (gate->head == id)
        postpone(round, gate, wish_ms);
    gate->is_blocked = gate->is_blocked || is_blocked;
    struct gate *queue = gates_find_gate(&round->gates, way->queue);
    if (queue != NULL && queue->head == id && queue != gate)
        postpone(round, queue, wish_ms); /* the one that tried whether the destination works again does not know yet */
    return gate;
}

static bool settle_refused(struct round *round, size_t index)
{
    const struct attempt *attempt = &round->attempts_owned[index];
    if (round->worker->spec->blocks_group) {
        hold_back(round, index, false, REFUSED_PAUSE_MS)->is_blocked = true;
        worker_report_blocked(round->worker, attempt->reason);
        round->is_blocked_told = true;
        return true;
    }
    if (!park(round, attempt->row, attempt->reason, false))
        return false;
    gates_open(&round->gates, round->trials_owned[index].way.queue);
    finish(round, attempt->row, round->trials_owned[index].intent, false);
    return true;
}

static void settle_delivered(struct round *round, size_t index)
{
    const struct attempt *attempt = &round->attempts_owned[index];
    gates_open(&round->gates, round->trials_owned[index].way.queue);
    finish(round, attempt->row, round->trials_owned[index].intent, true);
    round->progress.delivered++;
    round->progress.duplicates += attempt->is_duplicate;
    if (attempt->row->id > round->progress.position)
        round->progress.position = attempt->row->id;
}

static bool settle_attempt(struct round *round, size_t index)
{
    const struct attempt *attempt = &round->attempts_owned[index];
    switch (attempt->verdict) {
    case VERDICT_UNTRIED:
        return true;
    case VERDICT_DELIVERED:
        settle_delivered(round, index);
        return true;
    case VERDICT_REFUSED:
        return settle_refused(round, index);
    case VERDICT_DOUBTED:
        if (!park(round, attempt->row, attempt->reason, true))
            return false;
        finish(round, attempt->row, round->trials_owned[index].intent, false);
        return true;
    case VERDICT_RETRY:
        round->progress.retries += !attempt->is_under_way;
        if (!round->is_sink_down || attempt->may_have_arrived)
            hold_back(round, index, false, attempt->retry_ms);
        return true;
    case VERDICT_BLOCKED:
        round->progress.retries++;
        hold_back(round, index, true, attempt->retry_ms);
        worker_report_blocked(round->worker, attempt->reason);
        round->is_blocked_told = true;
        return true;
    }
    return true;
}

/* Is the row neither done nor parked? */
static bool is_open_verdict(const struct attempt *attempt)
{
    return attempt->verdict == VERDICT_UNTRIED || attempt->verdict == VERDICT_RETRY ||
           attempt->verdict == VERDICT_BLOCKED;
}

/* An intent stays open as long as a row of it is in doubt, for the sake of that row's age; then the others of it that are still to be tried
 * stay in it as well. */
static bool conclude_intent(struct round *round)
{
    bool is_doubted = false;
    if (round->current == 0)
        return true;
    for (size_t i = 0; i < round->gates.count && !is_doubted; i++)
        is_doubted = round->gates.rows_owned[i].intent == round->current && round->gates.rows_owned[i].is_doubted;
    if (intents_at(&round->intents, round->current)->left == 0)
        round->finished = round->current;
    else if (!is_doubted)
        return end_intent(round, round->current);
    else
        for (size_t i = 0; i < round->count; i++)
            if (is_open_verdict(&round->attempts_owned[i]) && round->trials_owned[i].intent == round->current)
                keep(round, i);
    return true;
}

static bool settle(struct round *round)
{
    for (size_t i = 0; i < round->count; i++)
        if (!settle_attempt(round, i))
            return false;
    if (round->is_blocked_told && !gates_have_blocked(&round->gates)) {
        worker_report_blocked(round->worker, NULL);
        round->is_blocked_told = false;
    }
    worker_report(round->worker, &round->progress);
    round->progress = (struct worker_progress){0};
    return !has_intents(round) || (conclude_intent(round) && end_empty_intents(round));
}

/* --- the rounds --------------------------------------------------------------------------------------------------- */

/* The last one that was tried says why the sink is down; if nothing of any has left, the last one that was to be tried. */
static const struct attempt *find_outage(const struct round *round)
{
    const struct attempt *found = NULL;
    for (size_t i = 0; i < round->count; i++) {
        const struct attempt *attempt = &round->attempts_owned[i];
        bool is_better = found == NULL || found->verdict == VERDICT_UNTRIED || attempt->verdict != VERDICT_UNTRIED;
        if (attempt->verdict != VERDICT_DELIVERED && !attempt->is_under_way && attempt->reason[0] != '\0' && is_better)
            found = attempt;
    }
    return found;
}

static bool bear_outage(struct round *round)
{
    struct fault fault = {.text = "the sink does not answer"};
    uint32_t wish_ms = 0;
    const struct attempt *attempt = find_outage(round);
    if (attempt != NULL) {
        fault_set(&fault, STEP_UNREACHABLE, "%s", attempt->reason);
        wish_ms = attempt->retry_ms > WISH_DOUBTED_MS_MAX ? WISH_DOUBTED_MS_MAX : attempt->retry_ms;
    }
    /* One pause and not two: what a source has in hand is kept for half a minute and a bit. */
    uint64_t begun_ms = keeper_now_ms();
    if (!worker_bear(round->worker, STEP_UNREACHABLE, &fault))
        return false;
    uint64_t waited_ms = keeper_now_ms() - begun_ms;
    return wish_ms <= waited_ms || worker_wait(round->worker, wish_ms - (uint32_t)waited_ms);
}

/* A sink that does not remember has no reason to say so (sink.h); if it does, everything may have arrived. */
static bool deliver(struct round *round)
{
    struct worker *worker = round->worker;
    struct fault fault = {.text = ""};
    enum step step = worker->sink->ops->deliver(worker->sink, &worker->term, round->attempts_owned, round->count, 0,
                                                &worker->permit, &fault);
    if (step == STEP_OK) {
        round->is_sink_down = worker->sink->is_down;
        return true;
    }
    if (step != STEP_UNREACHABLE)
        return worker_bear(worker, step, &fault);
    round->is_sink_down = true;
    for (size_t i = 0; i < round->count; i++) {
        struct attempt *attempt = &round->attempts_owned[i];
        bool is_repeatable = worker->sink->repeats || memory_of(worker->sink, attempt->row) > 0;
        attempt->verdict = is_repeatable ? VERDICT_RETRY : VERDICT_DOUBTED;
        attempt->may_have_arrived = true;
        snprintf(attempt->reason, sizeof(attempt->reason), "%.*s", (int)sizeof(attempt->reason) - 1, fault.text);
    }
    return true;
}

static void leave_untried(struct round *round)
{
    round->is_sink_down = false;
    for (size_t i = 0; i < round->count; i++)
        round->attempts_owned[i].verdict = VERDICT_UNTRIED;
}

static bool idle(struct round *round)
{
    if (round->finished != 0 && !note(round, 0, NULL, 0))
        return false;
    round->idle_ms = round->idle_ms == 0 ? 1 : round->idle_ms * 2;
    if (round->idle_ms > IDLE_MS_MAX)
        round->idle_ms = IDLE_MS_MAX;
    return worker_wait(round->worker, round->idle_ms) && scan(round);
}

static bool run_round(struct round *round)
{
    if (keeper_now_ms() - round->scanned_ms > STALE_MS && !scan(round))
        return false;
    size_t held_count = round->gates.count;
    if (!choose(round))
        return false;
    if (round->count == 0) /* what stands behind all those that were just held back is not to wait for them */
        return round->gates.count > held_count ? scan(round) : idle(round);
    round->idle_ms = 0;
    uint64_t chosen_ms = keeper_now_ms();
    if (!note_fresh(round))
        return false;
    if (keeper_now_ms() - chosen_ms > CHOSEN_MS_MAX)
        leave_untried(round); /* what could be repeated safely when it was chosen may be too old now (P17) */
    else if (!deliver(round))
        return false;
    if (!settle(round) || !scan(round))
        return false;
    return round->is_sink_down ? bear_outage(round) : true;
}

/* What an owner before this one has noted is in doubt, since it noted it. */
static bool recover(struct round *round)
{
    struct worker *worker = round->worker;
    struct intent intent = {0};
    struct fault fault;
    for (bool is_open = true; is_open;) {
        struct intent after = intent;
        enum step step;
        do
            step = worker->source->ops->find_intent(worker->source, &worker->term, after.epoch == 0 ? NULL : &after,
                                                    &intent, &round->rows, &is_open, &fault);
        while (is_to_be_repeated(round, step, &fault));
        if (step != STEP_OK)
            return false;
        if (!is_open)
            break;
        uint32_t slot = intents_add(&round->intents, intent.epoch, intent.number, round->rows.count);
        for (size_t i = 0; i < round->rows.count; i++) {
            const struct row *row = &round->rows.items_owned[i];
            struct row_name name = name_of(row);
            struct way way = way_of(round, row);
            struct held *held = gates_add(&round->gates, &name, &way);
            held->intent = slot;
            held->is_doubted = true;
            held->doubted_since_ms = (int64_t)keeper_now_ms() - (int64_t)intent.age_ms;
        }
    }
    return end_empty_intents(round);
}

void worker_attempt_run(struct worker *worker)
{
    struct round round;
    round_init(&round, worker);
    if ((!has_intents(&round) || recover(&round)) && scan(&round)) {
        while (worker_may_begin(worker) && run_round(&round))
            continue;
        if (round.finished != 0 && worker->end != WORKER_FENCED)
            note(&round, 0, NULL, 0);
    }
    round_deinit(&round);
}
