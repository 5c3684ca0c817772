#include "core/messages/selection.h"

#include "base/accounted.h"
#include "core/state.h"

void selection_destroy(struct selection *selection)
{
    if (selection == NULL)
        return;
    accounted_replace(&selection->filter.group, bytes_make(NULL, 0));
    accounted_replace(&selection->filter.reason, bytes_make(NULL, 0));
    accounted_free(selection->numbers_owned);
    accounted_free(selection->refusals_owned);
    accounted_free(selection);
}

void selection_end(struct selection *selection)
{
    accounted_free(selection->numbers_owned);
    selection->numbers_owned = NULL;
}

/* Reads `count` numbers; they must rise, and exist. */
static bool read_numbers(struct selection *selection, struct cursor *cursor, uint64_t newest)
{
    uint64_t before = 0;
    if (cursor->rest.size < (uint64_t)selection->number_count * SELECTION_NUMBER_SIZE)
        return false;
    selection->numbers_owned = accounted_allocate(selection->number_count * sizeof(uint64_t));
    for (uint32_t i = 0; i < selection->number_count; i++) {
        const uint64_t number = cursor_u64(cursor);
        if (number <= before || number > newest)
            return false;
        selection->numbers_owned[i] = before = number;
    }
    return true;
}

static bool reason_is_possible(unsigned reason)
{
    return reason >= REFUSED_ABSENT && reason <= REFUSED_NO_QUEUE;
}

static bool act_is_possible(unsigned act)
{
    return act == SELECTION_MOVES || act == SELECTION_DELETES;
}

struct selection *selection_create(const struct event_selection_started *started, uint64_t newest)
{
    if (!act_is_possible(started->act) || started->group.size > GROUP_ID_SIZE_MAX ||
        started->reason.size > FAILURE_REASON_SIZE_MAX || started->numbers.size % SELECTION_NUMBER_SIZE != 0 ||
        started->numbers.size / SELECTION_NUMBER_SIZE > SELECTION_NUMBERS_MAX)
        return NULL;
    struct selection *selection = accounted_allocate_zeroed(sizeof(*selection));
    selection->act = (enum selection_act)started->act;
    selection->filter =
        (struct message_filter){.sent_before_ms = started->sent_before_ms, .sent_after_ms = started->sent_after_ms};
    accounted_replace(&selection->filter.group, started->group);
    accounted_replace(&selection->filter.reason, started->reason);
    selection->newest = newest;
    selection->number_count = (uint32_t)(started->numbers.size / SELECTION_NUMBER_SIZE);
    struct cursor numbers = cursor_make(started->numbers);
    if (selection->number_count == 0 || read_numbers(selection, &numbers, newest))
        return selection;
    selection_destroy(selection);
    return NULL;
}

/* A message in flight is somebody's work: it is never taken from him. What is deleted need not be deliverable. */
enum refusal_reason selection_why_not(const struct core *core, enum selection_act act, uint32_t slot)
{
    const struct message *message = core_message(core, slot);
    const uint32_t group = core_group_of(core, message);
    if (message->state == MESSAGE_IN_FLIGHT)
        return REFUSED_IN_FLIGHT;
    if (act == SELECTION_DELETES)
        return NOT_REFUSED;
    if (message->state == MESSAGE_DELAYED)
        return REFUSED_DELAYED;
    if (message->state == MESSAGE_WAITING)
        return REFUSED_WAITING;
    if (group != 0 && core_group(core, group)->is_held)
        return REFUSED_GROUP_HELD;
    return group != 0 && core_group(core, group)->is_paused ? REFUSED_GROUP_PAUSED : NOT_REFUSED;
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static bool refusals_are_possible(struct bytes refusals, uint64_t newest)
{
    struct cursor cursor = cursor_make(refusals);
    while (cursor.rest.size > 0) {
        const uint64_t number = cursor_u64(&cursor);
        if (!reason_is_possible(cursor_u8(&cursor)) || number == 0 || number > newest)
            return false;
    }
    return !cursor.is_failed;
}

static void add_refusal(struct selection *selection, uint64_t number, uint8_t reason)
{
    if (selection->refusals_owned == NULL)
        selection->refusals_owned = accounted_allocate(REFUSALS_MAX * sizeof(struct refusal));
    selection->refusals_owned[selection->refusal_count++] = (struct refusal){.number = number, .reason = reason};
}

bool selection_look(struct selection *selection, const struct event_selection_looked *looked, uint64_t newest)
{
    const size_t count = looked->refusals.size / REFUSAL_SIZE;
    if (looked->number > newest || looked->arrival > newest || looked->refused > looked->looked ||
        looked->deleted > looked->looked - looked->refused ||
        (looked->deleted > 0 && selection->act != SELECTION_DELETES) || looked->refusals.size % REFUSAL_SIZE != 0 ||
        count > looked->refused || count > REFUSALS_MAX - selection->refusal_count ||
        !refusals_are_possible(looked->refusals, newest))
        return false;
    selection->place = (struct message_place){
        .counted_from_ms = looked->counted_from_ms, .number = looked->number, .arrival = looked->arrival};
    selection->looked += looked->looked;
    selection->refused += looked->refused;
    struct cursor cursor = cursor_make(looked->refusals);
    while (cursor.rest.size > 0) {
        const uint64_t number = cursor_u64(&cursor);
        add_refusal(selection, number, cursor_u8(&cursor));
    }
    return true;
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

void selection_encode(const struct selection *selection, struct buffer *out)
{
    buffer_append_u8(out, (uint8_t)selection->act);
    buffer_append_u64(out, selection->filter.sent_after_ms);
    buffer_append_u64(out, selection->filter.sent_before_ms);
    buffer_append_sized(out, selection->filter.group);
    buffer_append_sized(out, selection->filter.reason);
    buffer_append_u32(out, selection->number_count);
    for (uint32_t i = 0; selection->numbers_owned != NULL && i < selection->number_count; i++)
        buffer_append_u64(out, selection->numbers_owned[i]);
    buffer_append_u64(out, selection->newest);
    buffer_append_u64(out, selection->place.counted_from_ms);
    buffer_append_u64(out, selection->place.number);
    buffer_append_u64(out, selection->place.arrival);
    buffer_append_u64(out, selection->looked);
    buffer_append_u64(out, selection->refused);
    buffer_append_u32(out, selection->refusal_count);
    for (uint32_t i = 0; i < selection->refusal_count; i++) {
        buffer_append_u64(out, selection->refusals_owned[i].number);
        buffer_append_u8(out, selection->refusals_owned[i].reason);
    }
}

bool selection_is_sound(const struct selection *selection, bool is_running, uint64_t newest, uint64_t now_ms)
{
    const bool needs_numbers = is_running && selection->number_count > 0;
    return act_is_possible(selection->act) && selection->filter.group.size <= GROUP_ID_SIZE_MAX &&
           selection->filter.reason.size <= FAILURE_REASON_SIZE_MAX &&
           selection->number_count <= SELECTION_NUMBERS_MAX && (selection->numbers_owned != NULL) == needs_numbers &&
           selection->newest <= newest && selection->place.number <= newest && selection->place.arrival <= newest &&
           selection->place.counted_from_ms <= now_ms && selection->refused <= selection->looked &&
           selection->refusal_count <= REFUSALS_MAX && selection->refusal_count <= selection->refused;
}

static void read_texts(struct selection *selection, struct cursor *cursor)
{
    const struct bytes group = cursor_sized(cursor);
    const struct bytes reason = cursor_sized(cursor);
    if (group.size > GROUP_ID_SIZE_MAX || reason.size > FAILURE_REASON_SIZE_MAX) {
        cursor_fail(cursor);
        return;
    }
    accounted_replace(&selection->filter.group, group);
    accounted_replace(&selection->filter.reason, reason);
}

static bool read_progress(struct selection *selection, struct cursor *cursor, uint64_t newest)
{
    selection->newest = cursor_u64(cursor);
    selection->place.counted_from_ms = cursor_u64(cursor);
    selection->place.number = cursor_u64(cursor);
    selection->place.arrival = cursor_u64(cursor);
    selection->looked = cursor_u64(cursor);
    selection->refused = cursor_u64(cursor);
    const uint32_t count = cursor_u32(cursor);
    const struct bytes refusals = cursor_bytes(cursor, (size_t)count * REFUSAL_SIZE);
    if (cursor->is_failed || count > REFUSALS_MAX || !refusals_are_possible(refusals, newest))
        return false;
    struct cursor run = cursor_make(refusals);
    while (run.rest.size > 0) {
        const uint64_t number = cursor_u64(&run);
        add_refusal(selection, number, cursor_u8(&run));
    }
    return true;
}

struct selection *selection_decode(struct cursor *cursor, bool is_running, uint64_t newest, uint64_t now_ms)
{
    struct selection *selection = accounted_allocate_zeroed(sizeof(*selection));
    selection->act = (enum selection_act)cursor_u8(cursor);
    selection->filter.sent_after_ms = cursor_u64(cursor);
    selection->filter.sent_before_ms = cursor_u64(cursor);
    read_texts(selection, cursor);
    selection->number_count = cursor_u32(cursor);
    const bool has_numbers = is_running && selection->number_count > 0;
    if (selection->number_count <= SELECTION_NUMBERS_MAX && (!has_numbers || read_numbers(selection, cursor, newest)) &&
        read_progress(selection, cursor, newest) && selection_is_sound(selection, is_running, newest, now_ms))
        return selection;
    selection_destroy(selection);
    return NULL;
}
