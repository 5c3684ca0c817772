/* What becomes of the rows that a round of worker_attempt.c has tried: they leave it, or are held back, and their
 * intents end. */
#include "platform/monotonic.h"
#include "relay/keeper.h"
#include "relay/worker_attempt_parts.h"

#define REFUSED_PAUSE_MS 30000u /* of a group that waits for a refused row */
#define WISH_MS_MAX 600000u     /* a sink that wants to be left alone for longer is asked again all the same */

void round_finish(struct round *round, const struct row *row, uint32_t intent, bool is_done)
{
    struct row_name name = row_name_of(row);
    if (is_done)
        intents_add_done(&round->intents, &name, intent);
    intents_settle(&round->intents, intent);
    blocked_keys_remove(&round->blocked_keys, &name);
}

static struct held *keep(struct round *round, size_t index)
{
    struct row_name name = row_name_of(round->attempts_owned[index].row);
    struct held *held = blocked_keys_add(&round->blocked_keys, &name, &round->trials_owned[index].keys);
    held->intent = round->trials_owned[index].intent;
    return held;
}

static void postpone(struct round *round, struct blocked_key *key, uint32_t wish_ms)
{
    key->failures++;
    uint32_t pause_ms = worker_backoff_ms(round->worker, key->failures);
    key->due_ms = boottime_ms() + (wish_ms > 0 ? wish_ms : pause_ms);
}

/* The row waits, and all behind it: with its group, or with all that goes to its destination. */
static struct blocked_key *hold_back(struct round *round, size_t index, bool is_blocked, uint32_t wish_ms)
{
    const struct attempt *attempt = &round->attempts_owned[index];
    const struct row_keys *keys = &round->trials_owned[index].keys;
    uint64_t id = attempt->row->id;
    struct held *held = keep(round, index);
    if (attempt->may_have_arrived && !held->is_doubted) {
        held->is_doubted = true;
        held->doubted_since_ms = (int64_t)round->tried_ms;
    }
    uint32_t wish_ms_max = held->is_doubted ? WISH_DOUBTED_MS_MAX : WISH_MS_MAX;
    wish_ms = wish_ms > wish_ms_max ? wish_ms_max : wish_ms;
    struct blocked_key *key = blocked_keys_close(&round->blocked_keys, is_blocked ? keys->queue : keys->group, id);
    if (key->head == id)
        postpone(round, key, wish_ms);
    key->is_blocked = key->is_blocked || is_blocked;
    struct blocked_key *queue = blocked_keys_find_key(&round->blocked_keys, keys->queue);
    if (queue != NULL && queue->head == id && queue != key)
        postpone(round, queue, wish_ms); /* the one that tried whether the destination works again does not know yet */
    return key;
}

static bool settle_refused(struct round *round, size_t index)
{
    const struct attempt *attempt = &round->attempts_owned[index];
    if (round->worker->spec->blocks_group) {
        hold_back(round, index, false, REFUSED_PAUSE_MS)->is_blocked = true;
        worker_report_blocked(round->worker, attempt->reason);
        round->is_blocked_reported = true;
        return true;
    }
    if (!round_park(round, attempt->row, attempt->reason, false))
        return false;
    blocked_keys_open(&round->blocked_keys, round->trials_owned[index].keys.queue);
    round_finish(round, attempt->row, round->trials_owned[index].intent, false);
    return true;
}

static void settle_delivered(struct round *round, size_t index)
{
    const struct attempt *attempt = &round->attempts_owned[index];
    blocked_keys_open(&round->blocked_keys, round->trials_owned[index].keys.queue);
    round_finish(round, attempt->row, round->trials_owned[index].intent, true);
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
        if (!round_park(round, attempt->row, attempt->reason, true))
            return false;
        round_finish(round, attempt->row, round->trials_owned[index].intent, false);
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
        round->is_blocked_reported = true;
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

/* An intent stays open as long as a row of it is in doubt, for the sake of that row's age; then the others of it that
 * are still to be tried stay in it as well. */
static bool conclude_intent(struct round *round)
{
    bool is_doubted = false;
    if (round->current == 0)
        return true;
    for (size_t i = 0; i < round->blocked_keys.count && !is_doubted; i++)
        is_doubted =
            round->blocked_keys.rows_owned[i].intent == round->current && round->blocked_keys.rows_owned[i].is_doubted;
    if (intents_at(&round->intents, round->current)->left == 0)
        round->finished = round->current;
    else if (!is_doubted)
        return round_end_intent(round, round->current);
    else
        for (size_t i = 0; i < round->count; i++)
            if (is_open_verdict(&round->attempts_owned[i]) && round->trials_owned[i].intent == round->current)
                keep(round, i);
    return true;
}

bool round_settle(struct round *round)
{
    for (size_t i = 0; i < round->count; i++)
        if (!settle_attempt(round, i))
            return false;
    if (round->is_blocked_reported && !blocked_keys_have_blocked(&round->blocked_keys)) {
        worker_report_blocked(round->worker, NULL);
        round->is_blocked_reported = false;
    }
    worker_report(round->worker, &round->progress);
    round->progress = (struct worker_progress){0};
    return !round_has_intents(round) || (conclude_intent(round) && round_end_empty_intents(round));
}
