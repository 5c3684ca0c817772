#include "core/messages/failures.h"

#include "core/state.h"
#include <stdlib.h>

/* A look along a queue's messages, which fills `failures`. */
struct look {
    const struct core *core;
    struct arena *arena;
    struct failures *failures;
    struct table by_text; /* index in reasons, plus 1 */
    uint32_t capacity;    /* of the reasons */
};

/* --- reasons ------------------------------------------------------------------------------------------------------ */

static struct failure_reason *add_reason(struct look *look, struct bytes text, uint64_t hash)
{
    struct failures *failures = look->failures;
    if (failures->reason_count == look->capacity) {
        const uint32_t capacity = look->capacity == 0 ? 16 : look->capacity * 2;
        const size_t size = sizeof(*failures->reasons);
        failures->reasons = look->capacity == 0
                                ? arena_allocate(look->arena, capacity * size)
                                : arena_resize(look->arena, failures->reasons, look->capacity * size, capacity * size);
        look->capacity = capacity;
    }
    struct failure_reason *reason = &failures->reasons[failures->reason_count++];
    *reason = (struct failure_reason){.text = text, .oldest_ms = UINT64_MAX};
    table_insert(&look->by_text, hash, failures->reason_count);
    return reason;
}

static struct failure_reason *find_reason(struct look *look, struct bytes text)
{
    const uint64_t hash = digest_name(look->core->digest_owned, text);
    for (struct table_probe probe = table_probe_start(&look->by_text, hash); table_probe_next(&look->by_text, &probe);)
        if (bytes_equal(look->failures->reasons[probe.slot - 1].text, text))
            return &look->failures->reasons[probe.slot - 1];
    return add_reason(look, text, hash);
}

static void count_failure(struct look *look, const struct message *message, struct bytes whole)
{
    const uint64_t received_ms = message->sent_at_ms + message->received_after_ms;
    struct failure_reason *reason = find_reason(look, bytes_cut_text(whole, FAILURE_TEXT_SIZE_MAX));
    reason->is_cut = reason->is_cut || whole.size > reason->text.size;
    if (reason->count < FAILURE_SAMPLES_MAX)
        reason->samples[reason->count] = message->number;
    reason->count++;
    if (received_ms < reason->oldest_ms)
        reason->oldest_ms = received_ms;
    if (received_ms > reason->newest_ms)
        reason->newest_ms = received_ms;
    look->failures->failed++;
}

/* Of equal count the newest one, then by text, so that the order is always the same. */
static int compare_reasons(const void *left, const void *right)
{
    const struct failure_reason *a = left, *b = right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    if (a->newest_ms != b->newest_ms)
        return a->newest_ms > b->newest_ms ? -1 : 1;
    return bytes_compare(a->text, b->text);
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

/* Did an attempt end without a word? It was delivered, and nobody has it. */
static bool has_come_back(const struct message *message)
{
    return message->is_moved || (message->receive_count > 0 && message->state != MESSAGE_IN_FLIGHT);
}

static void visit(struct look *look, uint32_t slot)
{
    const struct message *message = core_message(look->core, slot);
    const struct message_extra *extra = core_extra_of(look->core, message);
    look->failures->looked++;
    if (core_message_is_dead(look->core, message))
        return;
    if (extra != NULL && extra->reason_owned.size > 0)
        count_failure(look, message, extra->reason_owned);
    else
        look->failures->without_reason += has_come_back(message);
}

static void visit_letters(struct look *look, const struct message_list *list, uint64_t count)
{
    const struct ordered_key end = {.bucket = UINT64_MAX};
    struct ordered_cursor letter = ordered_seek_below(&list->moved, &end);
    for (; count > 0 && letter.leaf != NULL; count--) {
        visit(look, ordered_slot(letter));
        letter = ordered_previous(letter);
    }
}

static void visit_arrivals(struct look *look, const struct message_list *list, uint64_t count)
{
    uint32_t slot = list->first;
    for (; count > 0 && slot != 0; count--) {
        visit(look, slot);
        slot = core_message(look->core, slot)->next;
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void failures_summarize(const struct core *core, const struct queue *queue, struct arena *arena,
                        struct failures *failures)
{
    const struct message_list *list = core_message_list(core, queue);
    const uint64_t letters = list->moved.count, arrivals = list->count - letters, half = FAILURES_LOOKED_MAX / 2;
    struct look look = {.core = core, .arena = arena, .failures = failures};
    *failures = (struct failures){.reasons = NULL};
    table_init(&look.by_text);
    visit_letters(&look, list, FAILURES_LOOKED_MAX - least(arrivals, half));
    visit_arrivals(&look, list, FAILURES_LOOKED_MAX - failures->looked);
    table_deinit(&look.by_text);
    failures->is_complete = failures->looked == list->count;
    if (failures->reason_count > 0)
        qsort(failures->reasons, failures->reason_count, sizeof(*failures->reasons), compare_reasons);
}
