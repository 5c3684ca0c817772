#include "core/batches/ledger.h"

#include "base/accounted.h"
#include "base/assert.h"
#include "base/cursor.h"
#include "core/digest.h"
#include <stdlib.h>

/* Places, or bytes, from which on an array grows by less than its size. */
#define LARGE_CAPACITY 65536u

static_assert(sizeof(struct ledger_reference) == 16, "a reference is what a named unit costs beside its key");

void ledger_init(struct ledger *ledger, const struct digest *digest)
{
    *ledger = (struct ledger){.digest = digest};
    table_init(&ledger->by_key);
    table_init(&ledger->by_detail);
}

void ledger_deinit(struct ledger *ledger)
{
    for (uint32_t i = 0; i < ledger->detail_count; i++)
        accounted_free((void *)ledger->details_owned[i].text_owned.ptr);
    accounted_free(ledger->details_owned);
    accounted_free(ledger->states_owned);
    accounted_free(ledger->references_owned);
    accounted_free(ledger->spans_owned);
    accounted_free(ledger->numeric_keys_owned);
    accounted_free(ledger->keys_owned);
    table_deinit(&ledger->by_key);
    table_deinit(&ledger->by_detail);
}

/* What an array of that capacity grows to. The room of a large one counts as memory in use (base/accounted.h), so it is
 * a quarter. */
static size_t more_room(size_t capacity)
{
    return capacity < LARGE_CAPACITY ? capacity * 2 : capacity + capacity / 4;
}

/* Makes room for one more record in a growing array; returns the array. */
static void *array_grow(void *array, uint32_t count, uint32_t *capacity, size_t record_size)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity == 0 ? 8 : (uint32_t)more_room(*capacity);
    return accounted_resize(array, *capacity * record_size);
}

static struct bytes key_at(const struct ledger *ledger, uint64_t offset)
{
    struct cursor cursor = cursor_make(bytes_skip(bytes_make(ledger->keys_owned, ledger->keys_size), offset));
    struct bytes key = cursor_sized(&cursor);
    ASSERT(!cursor.is_failed);
    return key;
}

/* Could `key` be one of the counted? Then *number is which. */
static bool key_is_numeric(struct bytes key, uint32_t *number)
{
    uint64_t value;
    if (!bytes_to_u64(key, &value) || value >= LEDGER_UNITS_MAX)
        return false;
    *number = (uint32_t)value;
    return true;
}

/* The reference with this key, or UINT32_MAX. */
static uint32_t find_reference(const struct ledger *ledger, struct bytes key)
{
    for (struct table_probe probe = table_probe_start(&ledger->by_key, digest_name(ledger->digest, key));
         table_probe_next(&ledger->by_key, &probe);) {
        uint32_t index = probe.slot - 1;
        if (bytes_equal(key_at(ledger, ledger->references_owned[index].value), key))
            return index;
    }
    return UINT32_MAX;
}

/* The unit of a reference: references and counted spans together make up the dense numbers. */
static uint32_t unit_of_reference(const struct ledger *ledger, uint32_t index)
{
    uint32_t low = 0, high = ledger->span_count; /* the first span with more than `index` references before it */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ledger->spans_owned[middle].references_before > index)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == 0)
        return index;
    const struct ledger_span *span = &ledger->spans_owned[low - 1];
    return span->first_unit + span->count + (index - span->references_before);
}

/* The last span whose `first_unit` (or `first_key`) is not above `value`, or NULL. */
static const struct ledger_span *find_span(const struct ledger *ledger, uint32_t value, bool is_key)
{
    uint32_t low = 0, high = ledger->span_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct ledger_span *span = &ledger->spans_owned[middle];
        if ((is_key ? span->first_key : span->first_unit) > value)
            high = middle;
        else
            low = middle + 1;
    }
    return low == 0 ? NULL : &ledger->spans_owned[low - 1];
}

uint32_t ledger_find(const struct ledger *ledger, struct bytes key)
{
    uint32_t number;
    if (key_is_numeric(key, &number) && number < ledger->counted_end) {
        const struct ledger_span *span = find_span(ledger, number, true);
        if (span != NULL && number - span->first_key < span->count)
            return span->first_unit + (number - span->first_key);
    }
    uint32_t index = find_reference(ledger, key);
    return index == UINT32_MAX ? LEDGER_NO_UNIT : unit_of_reference(ledger, index);
}

/* Is the numeric key a unit of its own already, added one by one? */
static bool numeric_key_is_named(const struct ledger *ledger, uint32_t number)
{
    char text[16];
    size_t size = 0;
    char digits[16];
    do
        digits[size++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    for (size_t i = 0; i < size; i++)
        text[i] = digits[size - 1 - i];
    return find_reference(ledger, bytes_make(text, size)) != UINT32_MAX;
}

/* Counting up to `count` must leave out the numeric keys that are units already: is it less work to look for each
 * number among them than to look at each of them? */
static bool are_numbers_fewer(const struct ledger *ledger, uint32_t count)
{
    return count - ledger->counted_end < ledger->numeric_key_count;
}

uint32_t ledger_count_would_add(const struct ledger *ledger, uint32_t count)
{
    if (count <= ledger->counted_end)
        return 0;
    uint32_t added = count - ledger->counted_end;
    if (are_numbers_fewer(ledger, count)) {
        for (uint32_t key = ledger->counted_end; key < count; key++)
            added -= numeric_key_is_named(ledger, key);
        return added;
    }
    for (uint32_t i = 0; i < ledger->numeric_key_count; i++)
        added -= ledger->numeric_keys_owned[i] >= ledger->counted_end && ledger->numeric_keys_owned[i] < count;
    return added;
}

/* Room for the states of `added` more units, all outstanding. */
static void add_states(struct ledger *ledger, uint32_t added)
{
    ASSERT(added <= LEDGER_UNITS_MAX - ledger->count);
    ledger->count += added;
    size_t needed = ((size_t)ledger->count + 3) / 4;
    if (needed <= ledger->states_capacity)
        return;
    size_t capacity = more_room(ledger->states_capacity) > needed ? more_room(ledger->states_capacity) : needed;
    ledger->states_owned = accounted_resize(ledger->states_owned, capacity);
    memset(ledger->states_owned + ledger->states_capacity, 0, capacity - ledger->states_capacity);
    ledger->states_capacity = capacity;
}

static void add_span(struct ledger *ledger, uint32_t first_key, uint32_t count)
{
    if (count == 0)
        return;
    ledger->spans_owned =
        array_grow(ledger->spans_owned, ledger->span_count, &ledger->span_capacity, sizeof(*ledger->spans_owned));
    ledger->spans_owned[ledger->span_count++] = (struct ledger_span){
        .first_unit = ledger->count,
        .first_key = first_key,
        .count = count,
        .references_before = ledger->reference_count,
    };
    add_states(ledger, count);
}

static int compare_numbers(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

/* Adds the counted keys from *first up to `key`, which is named, and steps over it. */
static void add_span_before(struct ledger *ledger, uint32_t *first, uint32_t key)
{
    add_span(ledger, *first, key - *first);
    *first = key + 1;
}

void ledger_add_counted(struct ledger *ledger, uint32_t count)
{
    ASSERT(count <= LEDGER_UNITS_MAX);
    if (count <= ledger->counted_end)
        return;
    uint32_t first = ledger->counted_end;
    if (are_numbers_fewer(ledger, count)) {
        for (uint32_t key = first; key < count; key++)
            if (numeric_key_is_named(ledger, key))
                add_span_before(ledger, &first, key);
    } else if (ledger->numeric_key_count > 0) {
        uint32_t *keys = ledger->numeric_keys_owned;
        qsort(keys, ledger->numeric_key_count, sizeof(*keys), compare_numbers);
        for (uint32_t i = 0; i < ledger->numeric_key_count && keys[i] < count; i++)
            if (keys[i] >= first)
                add_span_before(ledger, &first, keys[i]);
    }
    add_span(ledger, first, count - first);
    ledger->counted_end = count;
}

static uint32_t add_reference(struct ledger *ledger, struct ledger_reference reference)
{
    ledger->references_owned = array_grow(ledger->references_owned, ledger->reference_count,
                                          &ledger->reference_capacity, sizeof(*ledger->references_owned));
    ledger->references_owned[ledger->reference_count++] = reference;
    add_states(ledger, 1);
    return ledger->count - 1;
}

/* Where it stands. */
static uint64_t append_key(struct ledger *ledger, struct bytes key)
{
    uint64_t offset = ledger->keys_size;
    size_t needed = ledger->keys_size + sizeof(uint32_t) + key.size;
    if (needed > ledger->keys_capacity) {
        size_t capacity = more_room(ledger->keys_capacity);
        ledger->keys_capacity = capacity > needed ? capacity : needed;
        ledger->keys_owned = accounted_resize(ledger->keys_owned, ledger->keys_capacity);
    }
    bytes_put_u32(ledger->keys_owned + offset, (uint32_t)key.size);
    if (key.size > 0)
        memcpy(ledger->keys_owned + offset + sizeof(uint32_t), key.ptr, key.size);
    ledger->keys_size = needed;
    return offset;
}

uint32_t ledger_add_key(struct ledger *ledger, struct bytes key, enum unit_kind kind)
{
    ASSERT(kind == UNIT_KEYED || kind == UNIT_CHILD);
    ASSERT(kind == UNIT_CHILD || ledger_find(ledger, key) == LEDGER_NO_UNIT);
    uint64_t offset = append_key(ledger, key);
    uint32_t unit = add_reference(ledger, (struct ledger_reference){.value = offset, .kind = kind});
    if (kind == UNIT_CHILD)
        return unit;
    table_insert(&ledger->by_key, digest_name(ledger->digest, key), ledger->reference_count);
    uint32_t number;
    if (!key_is_numeric(key, &number))
        return unit;
    ledger->numeric_keys_owned = array_grow(ledger->numeric_keys_owned, ledger->numeric_key_count,
                                            &ledger->numeric_key_capacity, sizeof(*ledger->numeric_keys_owned));
    ledger->numeric_keys_owned[ledger->numeric_key_count++] = number;
    return unit;
}

uint32_t ledger_add_message(struct ledger *ledger, uint64_t number)
{
    return add_reference(ledger, (struct ledger_reference){.value = number, .kind = UNIT_MESSAGE});
}

enum unit_state ledger_state(const struct ledger *ledger, uint32_t unit)
{
    ASSERT(unit < ledger->count);
    return (enum unit_state)(ledger->states_owned[unit / 4] >> (unit % 4 * 2) & 3);
}

/* Clients choose which units of a hundred million have a detail. */
static uint64_t hash_of_unit(const struct ledger *ledger, uint32_t unit)
{
    uint8_t name[sizeof(unit)];
    bytes_put_u32(name, unit);
    return digest_name(ledger->digest, bytes_make(name, sizeof(name)));
}

static void detail_add(struct ledger *ledger, uint32_t unit, struct bytes text)
{
    ledger->details_owned = array_grow(ledger->details_owned, ledger->detail_count, &ledger->detail_capacity,
                                       sizeof(*ledger->details_owned));
    ledger->details_owned[ledger->detail_count++] =
        (struct ledger_detail){.unit = unit, .text_owned = accounted_duplicate(text)};
    table_insert(&ledger->by_detail, hash_of_unit(ledger, unit), ledger->detail_count);
}

void ledger_end(struct ledger *ledger, uint32_t unit, enum unit_state state, struct bytes detail)
{
    ASSERT(state != UNIT_OUTSTANDING && ledger_state(ledger, unit) == UNIT_OUTSTANDING);
    ledger->states_owned[unit / 4] |= (uint8_t)(state << (unit % 4 * 2));
    ledger->succeeded += state == UNIT_SUCCEEDED;
    ledger->failed += state == UNIT_FAILED;
    ledger->cancelled += state == UNIT_CANCELLED;
    if (detail.size > 0)
        detail_add(ledger, unit, detail);
}

/* The reference of a unit that is not counted, or UINT32_MAX; a counted one's key in *key. */
static uint32_t reference_of_unit(const struct ledger *ledger, uint32_t unit, uint64_t *key)
{
    ASSERT(unit < ledger->count);
    const struct ledger_span *span = find_span(ledger, unit, false);
    if (span == NULL)
        return unit;
    uint32_t into_span = unit - span->first_unit;
    if (into_span >= span->count)
        return span->references_before + (into_span - span->count);
    *key = span->first_key + into_span;
    return UINT32_MAX;
}

void ledger_reopen(struct ledger *ledger, uint32_t unit)
{
    ASSERT(ledger_state(ledger, unit) == UNIT_FAILED && ledger->failed > 0);
    ledger->states_owned[unit / 4] &= (uint8_t) ~(3u << (unit % 4 * 2));
    ledger->failed--;
}

void ledger_rename_message(struct ledger *ledger, uint32_t unit, uint64_t number)
{
    uint64_t key;
    uint32_t index = reference_of_unit(ledger, unit, &key);
    ASSERT(index != UINT32_MAX && ledger->references_owned[index].kind == UNIT_MESSAGE);
    ledger->references_owned[index].value = number;
}

enum unit_kind ledger_name(const struct ledger *ledger, uint32_t unit, struct bytes *key, uint64_t *number)
{
    uint32_t index = reference_of_unit(ledger, unit, number);
    if (index == UINT32_MAX)
        return UNIT_COUNTED;
    const struct ledger_reference *reference = &ledger->references_owned[index];
    if (reference->kind == UNIT_MESSAGE)
        *number = reference->value;
    else
        *key = key_at(ledger, reference->value);
    return reference->kind;
}

struct bytes ledger_detail(const struct ledger *ledger, uint32_t unit)
{
    for (struct table_probe probe = table_probe_start(&ledger->by_detail, hash_of_unit(ledger, unit));
         table_probe_next(&ledger->by_detail, &probe);)
        if (ledger->details_owned[probe.slot - 1].unit == unit)
            return ledger->details_owned[probe.slot - 1].text_owned;
    return bytes_make(NULL, 0);
}

void ledger_check(const struct ledger *ledger)
{
    uint32_t counts[4] = {0};
    uint32_t counted = 0;
    for (uint32_t unit = 0; unit < ledger->count; unit++) {
        counts[ledger_state(ledger, unit)]++;
        struct bytes key;
        uint64_t number;
        switch (ledger_name(ledger, unit, &key, &number)) {
        case UNIT_COUNTED:
            counted++;
            ASSERT(number < ledger->counted_end);
            break;
        case UNIT_KEYED:
            ASSERT(ledger_find(ledger, key) == unit);
            break;
        case UNIT_CHILD:
            ASSERT(key.size > 0);
            break;
        case UNIT_MESSAGE:
            ASSERT(number > 0);
            break;
        }
    }
    ASSERT(counted + ledger->reference_count == ledger->count);
    ASSERT(counts[UNIT_SUCCEEDED] == ledger->succeeded);
    ASSERT(counts[UNIT_FAILED] == ledger->failed);
    ASSERT(counts[UNIT_CANCELLED] == ledger->cancelled);
    ASSERT(counts[UNIT_OUTSTANDING] == ledger_outstanding(ledger));
}

/* Snapshot form: the units in order as spans and references, the states, the details. */
void ledger_encode(const struct ledger *ledger, struct buffer *out)
{
    buffer_append_u32(out, ledger->counted_end);
    buffer_append_u32(out, ledger->span_count);
    for (uint32_t i = 0; i < ledger->span_count; i++) {
        const struct ledger_span *span = &ledger->spans_owned[i];
        buffer_append_u32(out, span->first_key);
        buffer_append_u32(out, span->count);
        buffer_append_u32(out, span->references_before);
    }
    buffer_append_u32(out, ledger->reference_count);
    for (uint32_t i = 0; i < ledger->reference_count; i++) {
        const struct ledger_reference *reference = &ledger->references_owned[i];
        buffer_append_u8(out, (uint8_t)reference->kind);
        if (reference->kind == UNIT_MESSAGE)
            buffer_append_u64(out, reference->value);
        else
            buffer_append_sized(out, key_at(ledger, reference->value));
    }
    buffer_append(out, ledger->states_owned, ((size_t)ledger->count + 3) / 4);
    buffer_append_u32(out, ledger->detail_count);
    for (uint32_t i = 0; i < ledger->detail_count; i++) {
        buffer_append_u32(out, ledger->details_owned[i].unit);
        buffer_append_sized(out, ledger->details_owned[i].text_owned);
    }
}

/* Reads the references that come before the next span. */
static void decode_references(struct ledger *ledger, struct cursor *cursor, uint32_t end)
{
    while (ledger->reference_count < end && !cursor->is_failed) {
        if (ledger->count == LEDGER_UNITS_MAX)
            cursor_fail(cursor);
        uint8_t kind = cursor_u8(cursor);
        if (kind == UNIT_MESSAGE) {
            uint64_t number = cursor_u64(cursor);
            ledger_add_message(ledger, number);
            if (number == 0)
                cursor_fail(cursor);
            continue;
        }
        struct bytes key = cursor_sized(cursor);
        if (cursor->is_failed || (kind != UNIT_KEYED && kind != UNIT_CHILD) || key.size == 0 ||
            (kind == UNIT_KEYED && ledger_find(ledger, key) != LEDGER_NO_UNIT))
            cursor_fail(cursor);
        else
            ledger_add_key(ledger, key, (enum unit_kind)kind);
    }
}

static void decode_states(struct ledger *ledger, struct cursor *cursor)
{
    struct bytes states = cursor_bytes(cursor, ((size_t)ledger->count + 3) / 4);
    for (uint32_t unit = 0; unit < ledger->count && !cursor->is_failed; unit++) {
        enum unit_state state = (enum unit_state)(states.ptr[unit / 4] >> (unit % 4 * 2) & 3);
        if (state != UNIT_OUTSTANDING)
            ledger_end(ledger, unit, state, bytes_make(NULL, 0));
    }
    uint32_t detail_count = cursor_u32(cursor);
    for (uint32_t i = 0; i < detail_count && !cursor->is_failed; i++) {
        uint32_t unit = cursor_u32(cursor);
        struct bytes text = cursor_sized(cursor);
        if (text.size == 0 || unit >= ledger->count)
            cursor_fail(cursor);
        else
            detail_add(ledger, unit, text);
    }
}

/* A numeric key that was added one by one may not lie inside a span too. */
static bool names_are_distinct(const struct ledger *ledger)
{
    for (uint32_t i = 0; ledger->numeric_key_count > 0 && i < ledger->reference_count; i++) {
        const struct ledger_reference *reference = &ledger->references_owned[i];
        if (reference->kind == UNIT_KEYED &&
            ledger_find(ledger, key_at(ledger, reference->value)) != unit_of_reference(ledger, i))
            return false;
    }
    return true;
}

bool ledger_decode(struct bytes encoded, const struct digest *digest, struct ledger *ledger)
{
    struct cursor cursor = cursor_make(encoded);
    ledger_init(ledger, digest);
    uint32_t counted_end = cursor_u32(&cursor);
    uint32_t span_count = cursor_u32(&cursor);
    struct bytes spans = cursor_bytes(&cursor, (size_t)span_count * 12);
    uint32_t reference_count = cursor_u32(&cursor);
    struct cursor span_cursor = cursor_make(spans);
    uint32_t keys_end = 0;
    for (uint32_t i = 0; i < span_count && !cursor.is_failed; i++) {
        uint32_t first_key = cursor_u32(&span_cursor);
        uint32_t count = cursor_u32(&span_cursor);
        uint32_t reference_end = cursor_u32(&span_cursor);
        decode_references(ledger, &cursor, reference_end);
        if (count == 0 || count > LEDGER_UNITS_MAX - ledger->count || first_key > LEDGER_UNITS_MAX - count ||
            first_key < keys_end || reference_end != ledger->reference_count)
            cursor_fail(&cursor);
        else
            add_span(ledger, first_key, count);
        keys_end = first_key + count;
    }
    decode_references(ledger, &cursor, reference_count);
    ledger->counted_end = counted_end;
    decode_states(ledger, &cursor);
    if (cursor_is_done(&cursor) && counted_end <= LEDGER_UNITS_MAX && keys_end <= counted_end &&
        ledger->reference_count == reference_count && names_are_distinct(ledger))
        return true;
    ledger_deinit(ledger);
    return false;
}
