/* The end of a salvage: reports what is doubtful, and makes the state one that can be served. See salvage.h. */
#include "core/salvage_state.h"

#include "core/apply.h"
#include "core/identity.h"

#include <stdio.h>

/* How far every number jumps. Numbers given out in a gap must not be given out again, and nobody knows the size of a
 * gap at the end of the log. */
#define NUMBER_MARGIN (UINT64_C(1) << 32)
#define ID_MARGIN 65536u
#define EPOCH_MARGIN 1000u
#define RANGE_TOLD_MAX 1000000u /* how many ids of one gap are reported one by one */

#define SALVAGE_UNIT_KEY_SIZE 32u

void core_salvage_found(struct core *core, struct bytes name, const uint8_t key[CORE_KEY_SIZE], uint64_t segment_size)
{
    struct event_founded founded = {.name = name, .segment_size = segment_size};
    memcpy(founded.key, key, sizeof(founded.key));
    const bool is_founded = apply_founded(core, &founded);
    ASSERT(is_founded);
}

/* --- what is told ------------------------------------------------------------------------------------------------- */

static void report_range(const struct core_salvage *salvage, const struct number_range *range)
{
    uint64_t number = range->first;
    for (; number <= range->last && number - range->first < RANGE_TOLD_MAX; number++)
        if (number_map_find(&salvage->ended, number) == 0 && number_map_find(&salvage->orphan_by_number, number) == 0)
            salvage_report(salvage, LOSS_SENT, number, bytes_make(NULL, 0));
    if (number <= range->last)
        salvage->report(salvage->context,
                        &(struct core_finding){.kind = LOSS_SENT, .number = number, .last = range->last});
}

/* Messages that were sent in gaps, except those that are known to have ended and those whose content was found. */
static void report_sent(const struct core_salvage *salvage)
{
    for (size_t i = 0; i < salvage->range_count; i++)
        report_range(salvage, &salvage->ranges_owned[i]);
    if (salvage->is_number_open)
        salvage_report(salvage, LOSS_SENT, 0, bytes_make(NULL, 0));
}

/* Messages that no event named since the last gap. */
static void report_ended(const struct core_salvage *salvage)
{
    for (uint32_t slot = 1; slot < salvage->core->messages.items.slot_end; slot++) {
        const struct message *message = core_message(salvage->core, slot);
        uint32_t heard = slot < salvage->heard_count ? salvage->heard_owned[slot] : 0;
        if (message_is_used(message) && heard < salvage->gap_count && !core_message_is_dead(salvage->core, message))
            salvage_report(salvage, LOSS_ENDED, message->number, bytes_make(NULL, 0));
    }
}

static void report_others(const struct core_salvage *salvage)
{
    const struct core *core = salvage->core;
    for (uint32_t i = 0; i < ticket_pool_count(core); i++)
        salvage_report(salvage, LOSS_POOL, 0, ticket_pool_at(core, i)->name_owned);
    for (uint32_t slot = 1; slot < core->publishers.items.slot_end; slot++)
        salvage_report(salvage, LOSS_PUBLISHER, 0, bytes_make(publisher_at(core, slot)->id, PUBLISHER_ID_SIZE));
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

/* The key of a unit that keeps the batch open: the first free one of SALVAGE_UNIT_KEY, SALVAGE_UNIT_KEY "-2" and so on.
 * Empty: a unit of an earlier salvage still keeps it open. */
static struct bytes choose_unit_key(const struct ledger *ledger, char key[SALVAGE_UNIT_KEY_SIZE])
{
    for (unsigned life = 1;; life++) {
        const int size = life == 1 ? snprintf(key, SALVAGE_UNIT_KEY_SIZE, SALVAGE_UNIT_KEY)
                                   : snprintf(key, SALVAGE_UNIT_KEY_SIZE, SALVAGE_UNIT_KEY "-%u", life);
        const struct bytes view = bytes_make(key, (size_t)size);
        const uint32_t unit = ledger_find(ledger, view);
        if (unit == LEDGER_NO_UNIT)
            return view;
        if (ledger_state(ledger, unit) == UNIT_OUTSTANDING)
            return bytes_make(NULL, 0);
    }
}

/* Gives the batch a unit that does not end by itself, so that it can't complete with fewer units than it had. A Total
 * grows with it, because the sender may still send all its units. An xor batch gets a value that nobody takes out
 * again: that of a skipped batch number. Each salvage takes another number, because the same value again would take the
 * first one out. */
static void add_unit(const struct core *core, struct batch *batch)
{
    if (batch->spec.tracking == BATCH_XOR) {
        batch->xor_value ^= identity_xor_unit(core->digest_owned, core->batches.batch_number + 1, true);
        return;
    }
    char text[SALVAGE_UNIT_KEY_SIZE];
    const struct bytes key = choose_unit_key(&batch->ledger, text);
    if (key.size == 0 || batch->ledger.count == LEDGER_UNITS_MAX)
        return;
    (void)ledger_add_key(&batch->ledger, key, UNIT_KEYED);
    batch->grown++;
}

/* Nothing may be due that nobody decided. A batch that would complete at once is open again. One whose success was not
 * reported no longer reports it. */
static void settle(struct core *core, struct batch *batch)
{
    if (batch_due(batch, &(struct batch_after){0}) == 0)
        return;
    if (batch->state == BATCH_COMPLETED) {
        batch->status = BATCH_SUCCEEDED;
        batch->fired |= BATCH_EVENT_BIT(BATCH_EVENT_SUCCESS) | BATCH_SUCCESS_WAS_LATE;
        return;
    }
    core_set_batch_state(core, batch, BATCH_OPEN);
    batch->sealed_at_ms = 0;
}

static void doubt_batches(const struct core_salvage *salvage)
{
    struct core *core = salvage->core;
    for (size_t i = 0; i < core->batches.order_count; i++) {
        uint32_t slot = core->batches.order_owned[i].slot;
        if (slot == 0)
            continue;
        struct batch *batch = core_batch(core, slot);
        const bool is_doubtful =
            batch->number <= salvage->batch_number || number_map_find(&salvage->doubtful, batch->number) != 0;
        if (is_doubtful && batch->state != BATCH_COMPLETED) {
            add_unit(core, batch);
            salvage_report(salvage, LOSS_BATCH, 0, batch->id_owned);
        }
        settle(core, batch);
    }
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/* A program that follows a pool's feed reads the tickets again. */
static void skip_feeds(struct core *core)
{
    for (uint32_t i = 0; i < ticket_pool_count(core); i++) {
        struct feed *feed = &ticket_pool_at(core, i)->feed;
        const uint64_t last = feed->last + NUMBER_MARGIN;
        feed_deinit(feed);
        feed_go_to(feed, last, false);
        ticket_pool_begin_feed(ticket_pool_at(core, i));
    }
    core->pools.feed_number += NUMBER_MARGIN;
}

static void skip_numbers(struct core *core)
{
    if (core->messages.message_number < IDENTITY_NUMBER_MAX / 2)
        core->messages.message_number += NUMBER_MARGIN;
    if (core->matches.match_number < IDENTITY_NUMBER_MAX / 2)
        core->matches.match_number += NUMBER_MARGIN;
    core->messages.delivery_number += NUMBER_MARGIN;
    core->batches.batch_number += NUMBER_MARGIN;
    core->pools.ticket_number += NUMBER_MARGIN;
    core->moves.number += NUMBER_MARGIN;
    core->epoch += EPOCH_MARGIN;
    if (core->queues.queue_id < UINT32_MAX / 2)
        core->queues.queue_id += ID_MARGIN;
    if (core->pools.pool_id < UINT32_MAX / 2)
        core->pools.pool_id += ID_MARGIN;
    skip_feeds(core);
}

/* A damaged snapshot has recorded the numbers used by its time, and the events of that time may be lost. */
static void raise_numbers(struct core_salvage *salvage)
{
    struct core *core = salvage->core;
    const struct salvage_numbers *known = &salvage->known;
    if (known->message > core->messages.message_number) {
        const bool is_open = salvage->is_number_open;
        salvage_skip_messages(salvage, known->message);
        salvage->is_number_open = is_open;
    }
    core->messages.delivery_number =
        known->delivery > core->messages.delivery_number ? known->delivery : core->messages.delivery_number;
    core->batches.batch_number = known->batch > core->batches.batch_number ? known->batch : core->batches.batch_number;
    if (known->now_ms > core->now_ms)
        core_advance(core, known->now_ms);
}

void core_salvage_end(struct core_salvage *salvage)
{
    if (salvage->gap_count > 0) {
        raise_numbers(salvage);
        report_sent(salvage);
        report_ended(salvage);
        doubt_batches(salvage);
        report_others(salvage);
        skip_numbers(salvage->core);
    }
    core_check(salvage->core);
}
