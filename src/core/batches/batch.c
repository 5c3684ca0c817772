#include "core/batches/batch.h"

#include "base/accounted.h"
#include "base/assert.h"
#include "base/cursor.h"
#include <stdlib.h>

static void target_encode(const struct batch_target *target, struct buffer *out)
{
    buffer_append_u32(out, target->queue);
    if (target->queue == 0)
        return;
    buffer_append_u8(out, target->has_body);
    buffer_append_sized(out, target->body);
    buffer_append_sized(out, target->group);
    buffer_append_sized(out, target->attributes);
    buffer_append(out, target->attributes_md5, sizeof(target->attributes_md5));
}

static struct batch_target target_decode(struct cursor *cursor)
{
    struct batch_target target = {.queue = cursor_u32(cursor)};
    if (target.queue == 0)
        return target;
    target.has_body = cursor_u8(cursor) != 0;
    target.body = cursor_sized(cursor);
    target.group = cursor_sized(cursor);
    target.attributes = cursor_sized(cursor);
    cursor_copy(cursor, target.attributes_md5, sizeof(target.attributes_md5));
    return target;
}

void batch_spec_encode(const struct batch_spec *spec, struct buffer *out)
{
    buffer_append_u8(out, spec->has_total);
    buffer_append_u32(out, spec->total);
    buffer_append_u8(out, (uint8_t)spec->tracking);
    buffer_append_u32(out, spec->expires_after_s);
    buffer_append_u32(out, spec->retention_s);
    for (unsigned i = 0; i < BATCH_EVENT_COUNT; i++)
        target_encode(&spec->targets[i], out);
}

bool batch_spec_decode(struct bytes encoded, struct batch_spec *spec)
{
    struct cursor cursor = cursor_make(encoded);
    struct batch_spec decoded = {.has_total = cursor_u8(&cursor) != 0};
    decoded.total = cursor_u32(&cursor);
    uint8_t tracking = cursor_u8(&cursor);
    decoded.tracking = (enum batch_tracking)tracking;
    decoded.expires_after_s = cursor_u32(&cursor);
    decoded.retention_s = cursor_u32(&cursor);
    for (unsigned i = 0; i < BATCH_EVENT_COUNT; i++)
        decoded.targets[i] = target_decode(&cursor);
    if (!cursor_is_done(&cursor) || tracking > BATCH_XOR)
        return false;
    *spec = decoded;
    return true;
}

void batch_init(struct batch *batch, const struct digest *digest, uint64_t number, struct bytes id,
                struct bytes spec_encoded)
{
    ASSERT(number > 0 && id.size > 0 && id.size <= BATCH_ID_SIZE_MAX);
    *batch = (struct batch){
        .number = number,
        .id_owned = accounted_duplicate(id),
        .spec_encoded_owned = accounted_duplicate(spec_encoded),
        .state = BATCH_OPEN,
    };
    bool is_decoded = batch_spec_decode(batch->spec_encoded_owned, &batch->spec);
    ASSERT(is_decoded);
    ledger_init(&batch->ledger, digest);
    table_init(&batch->by_token);
}

void batch_deinit(struct batch *batch)
{
    ASSERT(!list_is_linked(&batch->draining_link) && batch->deadline_index == 0);
    for (uint32_t i = 0; i < batch->token_count; i++)
        accounted_free((void *)batch->tokens_owned[i].token_owned.ptr);
    accounted_free(batch->tokens_owned);
    table_deinit(&batch->by_token);
    queue_set_deinit(&batch->queues);
    ledger_deinit(&batch->ledger);
    accounted_free((void *)batch->id_owned.ptr);
    accounted_free((void *)batch->spec_encoded_owned.ptr);
}

struct batch_counts batch_counts(const struct batch *batch)
{
    struct batch_counts counts;
    if (batch->spec.tracking == BATCH_XOR) {
        uint64_t finished = batch->xor_finished;
        counts = (struct batch_counts){
            .total = batch->xor_registered,
            .succeeded = finished - batch->xor_failed,
            .failed = batch->xor_failed,
            .remaining = batch->xor_registered > finished ? batch->xor_registered - finished : 0,
        };
    } else {
        counts = (struct batch_counts){
            .total = batch->ledger.count,
            .succeeded = batch->ledger.succeeded,
            .failed = batch->ledger.failed,
            .cancelled = batch->ledger.cancelled,
            .remaining = ledger_outstanding(&batch->ledger),
        };
    }
    if (batch->is_cancelled) {
        counts.cancelled += counts.remaining;
        counts.remaining = 0;
    }
    return counts;
}

bool batch_is_within_total(const struct batch *batch, uint64_t total)
{
    return !batch->spec.has_total || total <= (uint64_t)batch->spec.total + batch->grown;
}

enum error batch_check_room(const struct batch *batch, uint64_t added, bool is_growth)
{
    bool is_closed = is_growth ? batch->state == BATCH_COMPLETED : batch->state != BATCH_OPEN;
    if (added > 0 && is_closed)
        return ERROR_BATCH_SEALED;
    uint64_t total = batch_counts(batch).total + added;
    if (!is_growth && !batch_is_within_total(batch, total))
        return ERROR_BATCH_TOTAL_EXCEEDED;
    return total <= LEDGER_UNITS_MAX ? OK : ERROR_OVER_LIMIT;
}

bool batch_has_room(const struct batch *batch, uint64_t added)
{
    uint64_t total = batch_counts(batch).total + added;
    return batch->state != BATCH_COMPLETED && batch_is_within_total(batch, total) && total <= LEDGER_UNITS_MAX;
}

bool batch_unit_is_outstanding(const struct batch *batch, uint32_t unit)
{
    if (batch->state == BATCH_COMPLETED)
        return false;
    return batch->spec.tracking == BATCH_XOR || ledger_state(&batch->ledger, unit) == UNIT_OUTSTANDING;
}

/* Has every unit ended? An xor ledger wants both its tests to agree; where they do not, nothing falls due. */
static bool is_exhausted(const struct batch *batch)
{
    if (batch->spec.tracking == BATCH_XOR)
        return batch->xor_value == 0 && batch->xor_registered == batch->xor_finished;
    return ledger_outstanding(&batch->ledger) == 0;
}

enum batch_event batch_awaited_event(const struct batch_spec *spec)
{
    return spec->targets[BATCH_EVENT_COMPLETE - 1].queue != 0 ? BATCH_EVENT_COMPLETE : BATCH_EVENT_SUCCESS;
}

bool batch_is_awaited(const struct batch *batch, unsigned completes)
{
    bool is_late = completes == BATCH_EVENT_SUCCESS && (batch->fired & BATCH_SUCCESS_WAS_LATE) != 0;
    return completes == batch_awaited_event(&batch->spec) && !is_late;
}

enum batch_status batch_status_of_counts(const struct batch *batch)
{
    struct batch_counts counts = batch_counts(batch);
    return counts.succeeded == counts.total ? BATCH_SUCCEEDED : BATCH_FAILED;
}

/* Have all units succeeded after all, since those that had failed were redriven (invariant B13)? */
static bool is_redeemed(const struct batch *batch)
{
    return batch->status == BATCH_FAILED && !batch->is_deleted && is_exhausted(batch) &&
           batch_status_of_counts(batch) == BATCH_SUCCEEDED;
}

unsigned batch_due(const struct batch *batch, const struct batch_after *after)
{
    unsigned due = after->has_failure ? BATCH_EVENT_BIT(BATCH_EVENT_FIRST_FAILURE) : 0;
    if (after->is_cancelled_or_expired) {
        due = BATCH_EVENT_BIT(BATCH_EVENT_COMPLETE); /* never success; units that end later make nothing due */
    } else if (batch->state == BATCH_COMPLETED) {
        due = is_redeemed(batch) ? BATCH_EVENT_BIT(BATCH_EVENT_SUCCESS) : 0;
    } else if (batch->state == BATCH_IS_SEALED && is_exhausted(batch)) {
        due |= BATCH_EVENT_BIT(BATCH_EVENT_COMPLETE);
        if (batch_status_of_counts(batch) == BATCH_SUCCEEDED)
            due |= BATCH_EVENT_BIT(BATCH_EVENT_SUCCESS);
    }
    return due & ~batch->fired; /* single winner: apply sets the bit */
}

uint32_t batch_find_token(const struct batch *batch, struct bytes token)
{
    for (struct table_probe probe = table_probe_start(&batch->by_token, digest_name(batch->ledger.digest, token));
         table_probe_next(&batch->by_token, &probe);)
        if (bytes_equal(batch->tokens_owned[probe.slot - 1].token_owned, token))
            return probe.slot - 1;
    return UINT32_MAX;
}

void batch_add_token(struct batch *batch, struct bytes token, uint64_t check)
{
    ASSERT(batch_find_token(batch, token) == UINT32_MAX);
    ACCOUNTED_GROW(batch->tokens_owned, batch->token_count, batch->token_capacity, 8);
    batch->tokens_owned[batch->token_count++] =
        (struct batch_token){.token_owned = accounted_duplicate(token), .check = check};
    table_insert(&batch->by_token, digest_name(batch->ledger.digest, token), batch->token_count);
}

uint64_t batch_deadline_ms(const struct batch *batch)
{
    if (batch->state != BATCH_COMPLETED)
        return batch->created_at_ms + (uint64_t)batch->spec.expires_after_s * 1000;
    if (batch->pins > 0 || batch->is_deleted)
        return UINT64_MAX;
    return batch->unpinned_at_ms + (uint64_t)batch->spec.retention_s * 1000;
}

const char *batch_state_name(enum batch_state state)
{
    static const char *const names[] = {
        [BATCH_OPEN] = "open", [BATCH_IS_SEALED] = "sealed", [BATCH_COMPLETED] = "completed"};
    return names[state];
}

const char *batch_status_name(enum batch_status status)
{
    static const char *const names[] = {[BATCH_NO_STATUS] = "",
                                        [BATCH_SUCCEEDED] = "succeeded",
                                        [BATCH_FAILED] = "failed",
                                        [BATCH_CANCELLED] = "cancelled",
                                        [BATCH_EXPIRED] = "expired"};
    return names[status];
}

bool batch_queues_are_sound(const struct batch *batch, const struct batch *parent)
{
    const struct queue_set *queues = &batch->queues;
    for (unsigned i = 0; i < BATCH_EVENT_COUNT; i++)
        if (batch->spec.targets[i].queue != 0 && !queue_set_has(queues, batch->spec.targets[i].queue))
            return false;
    if (parent == NULL)
        return true;
    for (uint32_t i = 0; i < queues->count; i++)
        if (!queue_set_has(&parent->queues, queue_set_ids(queues)[i]))
            return false;
    return !queues->is_open || parent->queues.is_open;
}

void batch_check(const struct batch *batch)
{
    bool is_completed = batch->state == BATCH_COMPLETED;
    ASSERT(is_completed == (batch->status != BATCH_NO_STATUS));
    ASSERT(is_completed == ((batch->fired & BATCH_EVENT_BIT(BATCH_EVENT_COMPLETE)) != 0));
    ASSERT(is_completed == (batch->completed_at_ms != 0));
    ASSERT(batch->state == BATCH_OPEN || batch->sealed_at_ms != 0 || is_completed);
    ASSERT(!(batch->fired & BATCH_EVENT_BIT(BATCH_EVENT_SUCCESS)) || batch->status == BATCH_SUCCEEDED);
    ASSERT(!(batch->fired & BATCH_SUCCESS_WAS_LATE) || (batch->fired & BATCH_EVENT_BIT(BATCH_EVENT_SUCCESS)));
    ASSERT(batch_is_within_total(batch, batch_counts(batch).total));
    /* Nothing may be due: what falls due fires in the record that made it so (invariants B2, B6). */
    ASSERT(batch_due(batch, &(struct batch_after){0}) == 0);
    if (batch->spec.tracking == BATCH_EXACT)
        ledger_check(&batch->ledger);
}
