/* The worker for sinks that do not remember rows by uid: Amazon SQS, web hooks.
 *
 * Such a sink can't be asked later what it has. So the names of rows are noted in the source before they are tried for
 * the first time, as an intent (P16), and after a crash the next owner finds there what may have been delivered. It is
 * tried again where that is harmless, because the sink's memory has not run out, or where a second copy was asked for
 * rather than none; everything else is parked as in doubt (P17). A row that failed for certain is nobody's doubt: its
 * intent ends, and its next attempt gets an intent, and an age, of its own.
 *
 * One round: the rows that may be tried are chosen from the last scan and noted; the sink tries them; refused ones are
 * parked, others held back; and the next scan settles what was delivered. The other parts of it are named in
 * worker_attempt_parts.h. */
#include "platform/monotonic.h"
#include "relay/worker_attempt_parts.h"

#include "base/memory.h"
#include "relay/keeper.h"
#include "relay/machine_time.h"
#include "relay/relay_inner.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define IDLE_MS_MAX 40u
#define STALE_MS 1000u /* rows that were read so long ago are read again */

/* From the choice of rows to their attempts; small beside the margin of sinks that forget. */
#define CHOSEN_MS_MAX 5000u

static void round_init(struct round *round, struct worker *worker)
{
    *round = (struct round){.worker = worker};
    blocked_keys_init(&round->blocked_keys);
    intents_init(&round->intents);
    rows_init(&round->rows);
    round->attempts_owned = memory_allocate(worker->sink->rows_max * sizeof(*round->attempts_owned));
    round->trials_owned = memory_allocate(worker->sink->rows_max * sizeof(*round->trials_owned));
}

static void round_deinit(struct round *round)
{
    blocked_keys_deinit(&round->blocked_keys);
    intents_deinit(&round->intents);
    rows_deinit(&round->rows);
    free(round->attempts_owned);
    free(round->trials_owned);
    free(round->names_owned);
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
    uint64_t memory_ms = memory_of(sink, row);
    if (age_ms >= 0 && (uint64_t)age_ms < memory_ms)
        return CHOICE_TRY;
    bool is_forgotten = memory_ms > 0 && sink->parks_forgotten;
    return sink->repeats && !is_forgotten ? CHOICE_MARK : CHOICE_PARK;
}

static bool park_doubt(struct round *round, const struct row *row, uint32_t intent, int64_t age_ms)
{
    char reason[ROW_REASON_SIZE], ago[64];
    if (age_ms < 1000)
        snprintf(ago, sizeof(ago), "right before it was parked");
    else
        snprintf(ago, sizeof(ago), "%" PRId64 " s before it was parked", age_ms / 1000);
    if ((uint64_t)age_ms >= AGE_UNKNOWN_MS)
        snprintf(ago, sizeof(ago), "made before a clock was set back");
    snprintf(reason, sizeof(reason),
             "an attempt %s may have been delivered: its outcome was never known, and it is not repeated. "
             "Look whether it arrived, then resolve it",
             ago);
    if (!round_park(round, row, reason, true))
        return false;
    round_finish(round, row, intent, false);
    return true;
}

static void add_attempt(struct round *round, const struct row *row, const struct row_keys *keys, uint32_t intent,
                        bool is_repeat)
{
    round->attempts_owned[round->count] = (struct attempt){.row = row, .is_repeat = is_repeat};
    round->trials_owned[round->count++] = (struct trial){.keys = *keys, .intent = intent};
}

/* Tries, holds or parks one row. False: the worker is to return. */
static bool choose_row(struct round *round, const struct row *row, uint64_t now_ms)
{
    struct sink *sink = round->worker->sink;
    struct row_name name = row_name_of(row);
    struct row_keys keys = round_keys_of(round, row);
    const struct held *held = blocked_keys_find(&round->blocked_keys, &name);
    uint32_t intent = held == NULL ? 0 : held->intent;
    if (!blocked_keys_admits(&round->blocked_keys, &keys, row->id, now_ms)) {
        if (held == NULL && !blocked_keys_are_full(&round->blocked_keys))
            blocked_keys_add(&round->blocked_keys, &name, &keys);
        return true;
    }
    if (held == NULL && blocked_keys_are_packed(&round->blocked_keys))
        return true; /* if it failed there would be no room to remember that; it comes again */
    if (row->kind == ROW_ACK && !sink->takes_acks) {
        if (!round_park(round, row, "this relay's sink takes no acknowledgements: only a Tally queue does", false))
            return false;
        round_finish(round, row, intent, false);
        return true;
    }
    bool is_doubted = held != NULL ? held->is_doubted : !round_has_intents(round) && row->receive_count > 1;
    int64_t age_ms = held != NULL ? (int64_t)now_ms - held->doubted_since_ms : (int64_t)row->age_ms;
    enum choice choice = is_doubted ? judge_doubt(sink, row, age_ms) : CHOICE_TRY;
    if (choice == CHOICE_PARK)
        return park_doubt(round, row, intent, age_ms);
    add_attempt(round, row, &keys, intent, choice == CHOICE_MARK);
    return true;
}

static bool choose(struct round *round)
{
    uint64_t now_ms = boottime_ms();
    round->count = 0;
    for (size_t i = 0; i < round->rows.count && round->count < round->worker->sink->rows_max; i++)
        if (!choose_row(round, &round->rows.items_owned[i], now_ms))
            return false;
    return true;
}

/* Notes those that no open intent names. */
static bool note_fresh(struct round *round)
{
    struct row_name *names = round_name_room(round, round->count);
    size_t count = 0;
    round->current = 0;
    round->tried_ms = boottime_ms();
    for (size_t i = 0; i < round->count; i++)
        if (round->trials_owned[i].intent == 0)
            names[count++] = row_name_of(round->attempts_owned[i].row);
    if (count == 0 || !round_has_intents(round))
        return true;
    uint64_t number = ++round->worker->relay->intent_number;
    if (!round_note(round, number, names, count))
        return false;
    round->current = intents_add(&round->intents, round->worker->term.epoch, number, count);
    for (size_t i = 0; i < round->count; i++)
        if (round->trials_owned[i].intent == 0)
            round->trials_owned[i].intent = round->current;
    return true;
}

/* --- the rounds --------------------------------------------------------------------------------------------------- */

/* The last one that was tried says why the sink is down; if nothing of any has left, the last one that was to be
 * tried. */
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

static bool handle_outage(struct round *round)
{
    struct fault fault = {.text = "the sink does not answer"};
    uint32_t wish_ms = 0;
    const struct attempt *attempt = find_outage(round);
    if (attempt != NULL) {
        fault_set(&fault, STEP_UNREACHABLE, "%s", attempt->reason);
        wish_ms = attempt->retry_ms > WISH_DOUBTED_MS_MAX ? WISH_DOUBTED_MS_MAX : attempt->retry_ms;
    }
    /* One pause, not two: a source keeps its rows in hand for little more than half a minute. */
    uint64_t begun_ms = boottime_ms();
    if (!worker_handle_failure(round->worker, STEP_UNREACHABLE, &fault))
        return false;
    uint64_t waited_ms = boottime_ms() - begun_ms;
    return wish_ms <= waited_ms || worker_wait(round->worker, wish_ms - (uint32_t)waited_ms);
}

/* A sink that does not remember has no reason to say so (sink.h); if it does, everything may have arrived. */
static bool deliver(struct round *round)
{
    struct worker *worker = round->worker;
    struct fault fault = {.text = ""};
    enum step step = worker_deliver(worker, round->attempts_owned, round->count, 0, &fault);
    if (step == STEP_OK) {
        round->is_sink_down = worker->sink->is_down;
        return true;
    }
    if (step != STEP_UNREACHABLE)
        return worker_handle_failure(worker, step, &fault);
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
    if (round->finished != 0 && !round_note(round, 0, NULL, 0))
        return false;
    round->idle_ms = round->idle_ms == 0 ? 1 : round->idle_ms * 2;
    if (round->idle_ms > IDLE_MS_MAX)
        round->idle_ms = IDLE_MS_MAX;
    return worker_wait(round->worker, round->idle_ms) && round_scan(round);
}

static bool run_round(struct round *round)
{
    if (boottime_ms() - round->scanned_ms > STALE_MS && !round_scan(round))
        return false;
    size_t held_count = round->blocked_keys.count;
    if (!choose(round))
        return false;
    if (round->count == 0) /* what stands behind all those that were just held back is not to wait for them */
        return round->blocked_keys.count > held_count ? round_scan(round) : idle(round);
    round->idle_ms = 0;
    uint64_t chosen_ms = boottime_ms();
    if (!note_fresh(round))
        return false;
    if (boottime_ms() - chosen_ms > CHOSEN_MS_MAX)
        leave_untried(round); /* what could be repeated safely when it was chosen may be too old now (P17) */
    else if (!deliver(round))
        return false;
    if (!round_settle(round) || !round_scan(round))
        return false;
    return round->is_sink_down ? handle_outage(round) : true;
}

void worker_attempt_run(struct worker *worker)
{
    struct round round;
    round_init(&round, worker);
    if ((!round_has_intents(&round) || round_recover(&round)) && round_scan(&round)) {
        while (worker_may_begin(worker) && run_round(&round))
            continue;
        if (round.finished != 0 && worker->end != WORKER_FENCED)
            round_note(&round, 0, NULL, 0);
    }
    round_deinit(&round);
}
