/* What a round of worker_attempt.c does with its source: the steps that are made again until they succeed, the scan,
 * and what an owner before this one has left; and what both of them need of rows. */
#include "base/memory.h"
#include "platform/monotonic.h"
#include "relay/keeper.h"
#include "relay/worker_attempt_parts.h"

/* --- names and keys ----------------------------------------------------------------------------------------------- */

struct row_name *round_name_room(struct round *round, size_t count)
{
    if (count > round->name_capacity) {
        round->name_capacity = count * 2;
        round->names_owned = memory_resize(round->names_owned, round->name_capacity * sizeof(*round->names_owned));
    }
    return round->names_owned;
}

/* In strict order all rows have the same keys. */
struct row_keys round_keys_of(const struct round *round, const struct row *row)
{
    if (round->worker->spec->is_strict)
        return (struct row_keys){.queue = 1, .group = 1};
    uint64_t queue = bytes_hash(row->queue);
    uint64_t group =
        row->group.ptr != NULL ? bytes_hash(row->group) : bytes_hash(bytes_make(row->uid.bytes, UID_SIZE)) + 1;
    return (struct row_keys){.queue = queue, .group = table_hash_u64(queue * 31 + group)};
}

/* --- steps of the source ------------------------------------------------------------------------------------------ */

/* Is the step to be made again? An outage of the sink is not over because the source answers. */
static bool is_to_be_repeated(struct round *round, enum step step, const struct fault *fault)
{
    if (step != STEP_OK)
        return worker_handle_failure(round->worker, step, fault);
    if (!round->is_sink_down)
        worker_recovered(round->worker);
    return false;
}

bool round_note(struct round *round, uint64_t next, const struct row_name *names, size_t count)
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

bool round_end_intent(struct round *round, uint32_t slot)
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
    for (size_t i = 0; i < round->blocked_keys.count; i++)
        if (round->blocked_keys.rows_owned[i].intent == slot)
            round->blocked_keys.rows_owned[i].intent = 0;
    intents_remove(&round->intents, slot);
    return true;
}

bool round_end_empty_intents(struct round *round)
{
    for (uint32_t slot = 1; slot < round->intents.slot_end; slot++) {
        const struct open_intent *open = &round->intents.open_owned[slot];
        if (open->epoch != 0 && open->left == 0 && slot != round->finished && !round_end_intent(round, slot))
            return false;
    }
    return true;
}

bool round_park(struct round *round, const struct row *row, const char *reason, bool is_doubted)
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
static bool forget_deleted(struct round *round)
{
    const struct rows *rows = &round->rows;
    if (rows->is_cut_short)
        return true;
    uint64_t last = rows->count == 0 ? 0 : rows->items_owned[rows->count - 1].id;
    for (size_t i = 0; i < rows->count; i++) {
        struct row_name name = row_name_of(&rows->items_owned[i]);
        struct held *held = blocked_keys_find(&round->blocked_keys, &name);
        if (held != NULL)
            held->is_seen = true;
    }
    for (const struct held *gone; (gone = blocked_keys_find_deleted(&round->blocked_keys, last)) != NULL;) {
        struct row_name name = gone->name;
        intents_settle(&round->intents, gone->intent);
        blocked_keys_remove(&round->blocked_keys, &name);
    }
    return !round_has_intents(round) || round_end_empty_intents(round);
}

static enum step scan_once(struct round *round, struct fault *fault)
{
    struct worker *worker = round->worker;
    struct source *source = worker->source;
    struct row_name *held = round_name_room(round, round->blocked_keys.count);
    size_t held_count = blocked_keys_list(&round->blocked_keys, boottime_ms(), held);
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
    return forget_deleted(round);
}

bool round_scan(struct round *round)
{
    enum durability durability;
    do {
        if (!read_next(round))
            return false;
        do
            durability = worker_await_durable(round->worker, &round->rows);
        while (durability == NOT_YET_DURABLE);
    } while (durability == DURABILITY_UNKNOWN && worker_may_begin(round->worker));
    round->scanned_ms = boottime_ms(); /* rows that had to wait can't be younger */
    return durability == DURABLE;
}

/* --- what was left ------------------------------------------------------------------------------------------------ */

bool round_recover(struct round *round)
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
            struct row_name name = row_name_of(row);
            struct row_keys keys = round_keys_of(round, row);
            struct held *held = blocked_keys_add(&round->blocked_keys, &name, &keys);
            held->intent = slot;
            held->is_doubted = true;
            held->doubted_since_ms = (int64_t)boottime_ms() - (int64_t)intent.age_ms;
        }
    }
    return round_end_empty_intents(round);
}
