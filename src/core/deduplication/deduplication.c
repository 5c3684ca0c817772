#include "core/deduplication/deduplication.h"

#include "base/accounted.h"
#include "core/apply.h"
#include <stdlib.h>

/* How many old records each new one removes: a replay does not sweep, and so keeps no more than ever existed. */
#define SWEEP_WITH_EACH 2u

/* Expired records are swept up to this much later, many in one turn. */
#define SWEEP_DELAY_MS 1000u

#define PRODUCER_CAPACITY_MIN 4u
#define ATTEMPT_WINDOW_MIN_MS 1000u

enum remembered { REMEMBERED_ID = 1, REMEMBERED_PRODUCER = 2, REMEMBERED_ATTEMPT = 3 };

static struct id_entry *entry_at(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->deduplication.entries, slot);
}

static struct window *window_at(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->deduplication.windows, slot);
}

static struct producer *producer_of(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->deduplication.producers, slot);
}

static struct attempt *attempt_at(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->deduplication.attempts, slot);
}

void deduplication_init(struct deduplication *deduplication)
{
    slab_init(&deduplication->entries, sizeof(struct id_entry));
    slab_init(&deduplication->windows, sizeof(struct window));
    slab_init(&deduplication->producers, sizeof(struct producer));
    slab_init(&deduplication->attempts, sizeof(struct attempt));
    table_init(&deduplication->entry_by_key);
    table_init(&deduplication->producer_by_key);
    table_init(&deduplication->attempt_by_key);
    heap_init(&deduplication->window_expiries, &deduplication->windows, offsetof(struct window, index),
              offsetof(struct window, order));
    heap_init(&deduplication->attempt_expiries, &deduplication->attempts, offsetof(struct attempt, index),
              offsetof(struct attempt, order));
    list_init(&deduplication->attempt_order);
}

/* Has the record pairs to free? May be asked of a freed record. */
POISON_MAY_LOOK static bool producer_has_pairs(const struct producer *producer)
{
    return producer->pairs_owned != NULL;
}

void deduplication_deinit(struct deduplication *deduplication)
{
    for (uint32_t slot = 1; slot < deduplication->producers.slot_end; slot++) {
        struct producer *producer = slab_at(&deduplication->producers, slot);
        if (producer_has_pairs(producer))
            accounted_free(producer->pairs_owned);
    }
    heap_deinit(&deduplication->window_expiries);
    heap_deinit(&deduplication->attempt_expiries);
    table_deinit(&deduplication->entry_by_key);
    table_deinit(&deduplication->producer_by_key);
    table_deinit(&deduplication->attempt_by_key);
    slab_deinit(&deduplication->entries);
    slab_deinit(&deduplication->windows);
    slab_deinit(&deduplication->producers);
    slab_deinit(&deduplication->attempts);
}

/* The hash includes kind, queue and the group's size, so that no two things have the same text. */
static struct digest_tag key_of(const struct core *core, enum remembered kind, const struct queue *queue,
                                struct bytes group, struct bytes id)
{
    uint8_t head[9];
    head[0] = (uint8_t)kind;
    bytes_put_u32(head + 1, queue->id);
    bytes_put_u32(head + 5, (uint32_t)group.size);
    const struct bytes parts[] = {bytes_make(head, sizeof(head)), group, id};
    return digest_keyed_wide(core->digest_owned, parts, ARRAY_LENGTH(parts));
}

static const struct bytes no_group = {NULL, 0};

/* The queue of an event, if it exists and has a key for hashing its ids. */
static struct queue *find_queue(const struct core *core, uint32_t id)
{
    return core->digest_owned == NULL ? NULL : core_find_queue_by_id(core, id);
}

/* --- windows ------------------------------------------------------------------------------------------------------ */

/* The queue's window of this length, made if there is none. The windows are in order of length. */
static uint32_t open_window(struct core *core, uint32_t queue_slot, uint64_t window_ms)
{
    uint32_t *link = &core_queue(core, queue_slot)->first_window;
    while (*link != 0 && window_at(core, *link)->window_ms < window_ms)
        link = &window_at(core, *link)->next;
    if (*link != 0 && window_at(core, *link)->window_ms == window_ms)
        return *link;
    uint32_t slot = slab_allocate(&core->deduplication.windows);
    *window_at(core, slot) = (struct window){
        .window_ms = window_ms, .order = ++core->deduplication.order, .queue = queue_slot, .next = *link};
    *link = slot;
    return slot;
}

/* Frees an empty window, from its queue or from the front of the forgotten ones. */
static void free_window(struct core *core, uint32_t slot)
{
    const struct window *window = window_at(core, slot);
    ASSERT(window->count == 0 && window->index == 0);
    uint32_t *link =
        window->queue == 0 ? &core->deduplication.forgotten_window : &core_queue(core, window->queue)->first_window;
    ASSERT(window->queue != 0 || *link == slot);
    while (*link != slot)
        link = &window_at(core, *link)->next;
    *link = window->next;
    slab_free(&core->deduplication.windows, slot);
}

/* Takes the oldest entry out of its window, and frees the window with its last entry. */
static void drop_oldest(struct core *core, uint32_t window_slot)
{
    struct deduplication *deduplication = &core->deduplication;
    struct window *window = window_at(core, window_slot);
    ASSERT(window->count > 0);
    uint32_t slot = window->first;
    const struct id_entry *entry = entry_at(core, slot);
    window->first = entry->next;
    window->count--;
    table_remove(&deduplication->entry_by_key, entry->key.low, slot);
    slab_free(&deduplication->entries, slot);
    if (window->count > 0) {
        if (window->index != 0)
            heap_update(&deduplication->window_expiries, entry_at(core, window->first)->expires_at_ms, window_slot);
        return;
    }
    if (window->index != 0)
        heap_remove(&deduplication->window_expiries, window_slot);
    free_window(core, window_slot);
}

void deduplication_add(struct core *core, uint32_t queue_slot, uint64_t window_ms, const struct id_entry *added)
{
    struct deduplication *deduplication = &core->deduplication;
    ASSERT((window_ms == WINDOW_EVER_MS) == (added->expires_at_ms == WINDOW_EVER_MS));
    uint32_t window_slot = open_window(core, queue_slot, window_ms);
    struct window *window = window_at(core, window_slot);
    uint32_t slot = slab_allocate(&deduplication->entries);
    struct id_entry *entry = entry_at(core, slot);
    *entry = *added;
    entry->window = window_slot;
    entry->next = 0;
    if (window->count++ == 0)
        window->first = slot;
    else
        entry_at(core, window->last)->next = slot;
    window->last = slot;
    table_insert(&deduplication->entry_by_key, entry->key.low, slot);
    if (window->index == 0 && window_ms != WINDOW_EVER_MS)
        heap_push(&deduplication->window_expiries, entry->expires_at_ms, window_slot);
}

uint32_t deduplication_find_key(const struct core *core, struct digest_tag key)
{
    const struct table *table = &core->deduplication.entry_by_key;
    for (struct table_probe probe = table_probe_start(table, key.low); table_probe_next(table, &probe);) {
        const struct id_entry *entry = entry_at(core, probe.slot);
        /* An expired entry may exist beside the living one until it is swept. */
        if (digest_tag_equal(entry->key, key) && entry->expires_at_ms > core->now_ms &&
            window_at(core, entry->window)->queue != 0)
            return probe.slot;
    }
    return 0;
}

uint64_t deduplication_find(const struct core *core, const struct queue *queue, struct bytes group, struct bytes id)
{
    uint32_t slot = deduplication_find_key(core, key_of(core, REMEMBERED_ID, queue, group, id));
    return slot == 0 ? 0 : entry_at(core, slot)->number;
}

bool apply_deduplicated(struct core *core, const struct event_deduplicated *deduplicated)
{
    struct queue *queue = find_queue(core, deduplicated->queue);
    /* It belongs to the message that was accepted just before (invariant U2). */
    if (queue == NULL || deduplicated->id.size == 0 || deduplicated->number == 0 ||
        deduplicated->number != core->messages.message_number || deduplicated->expires_at_ms <= core->now_ms)
        return false;
    struct id_entry entry = {
        .key = key_of(core, REMEMBERED_ID, queue, deduplicated->group, deduplicated->id),
        .number = deduplicated->number,
        .expires_at_ms = deduplicated->expires_at_ms,
    };
    if (deduplication_find_key(core, entry.key) != 0)
        return false;
    deduplication_sweep(core, SWEEP_WITH_EACH);
    bool is_for_ever = entry.expires_at_ms == WINDOW_EVER_MS;
    uint64_t window_ms = is_for_ever ? WINDOW_EVER_MS : entry.expires_at_ms - core->now_ms;
    deduplication_add(core, core_find_queue_slot(core, queue->id), window_ms, &entry);
    return true;
}

/* --- numbered producers ------------------------------------------------------------------------------------------- */

const struct produced *producer_at(const struct producer *producer, uint32_t index)
{
    ASSERT(index < producer->count);
    return &producer->pairs_owned[(producer->start + index) % producer->capacity];
}

void producer_add(struct producer *producer, struct produced pair)
{
    ASSERT(producer->count == 0 || producer_at(producer, producer->count - 1)->sequence < pair.sequence);
    if (producer->count == producer->capacity && producer->capacity < PRODUCER_PAIRS) {
        ASSERT(producer->start == 0);
        ACCOUNTED_GROW(producer->pairs_owned, producer->count, producer->capacity, PRODUCER_CAPACITY_MIN);
    }
    producer->pairs_owned[(producer->start + producer->count) % producer->capacity] = pair;
    if (producer->count < producer->capacity)
        producer->count++;
    else
        producer->start = (producer->start + 1) % producer->capacity;
}

uint32_t deduplication_find_producer(const struct core *core, struct digest_tag key)
{
    const struct table *table = &core->deduplication.producer_by_key;
    for (struct table_probe probe = table_probe_start(table, key.low); table_probe_next(table, &probe);)
        if (digest_tag_equal(producer_of(core, probe.slot)->key, key))
            return probe.slot;
    return 0;
}

uint32_t deduplication_add_producer(struct core *core, struct queue *queue, struct digest_tag key)
{
    struct deduplication *deduplication = &core->deduplication;
    uint32_t slot = slab_allocate(&deduplication->producers);
    producer_of(core, slot)->key = key;
    if (queue->first_producer == 0)
        queue->first_producer = slot;
    else
        producer_of(core, queue->last_producer)->next = slot;
    queue->last_producer = slot;
    table_insert(&deduplication->producer_by_key, key.low, slot);
    return slot;
}

/* Frees the first of the forgotten ones. */
static void free_producer(struct core *core)
{
    struct deduplication *deduplication = &core->deduplication;
    uint32_t slot = deduplication->forgotten_producer;
    struct producer *producer = producer_of(core, slot);
    deduplication->forgotten_producer = producer->next;
    table_remove(&deduplication->producer_by_key, producer->key.low, slot);
    accounted_free(producer->pairs_owned);
    producer->pairs_owned = NULL;
    slab_free(&deduplication->producers, slot);
}

bool deduplication_find_produced(const struct core *core, const struct queue *queue, struct bytes name,
                                 uint64_t sequence, struct produced_before *before)
{
    uint32_t slot = deduplication_find_producer(core, key_of(core, REMEMBERED_PRODUCER, queue, no_group, name));
    if (slot == 0)
        return false;
    const struct producer *producer = producer_of(core, slot);
    const uint64_t newest = producer_at(producer, producer->count - 1)->sequence;
    if (sequence > newest)
        return false;
    uint32_t low = 0, high = producer->count - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (producer_at(producer, middle)->sequence < sequence)
            low = middle + 1;
        else
            high = middle;
    }
    const struct produced *pair = producer_at(producer, low);
    bool is_known = pair->sequence == sequence;
    bool may_be_forgotten = producer->count == PRODUCER_PAIRS && sequence < producer_at(producer, 0)->sequence;
    *before = (struct produced_before){
        .number = is_known ? pair->number : 0,
        .newest = newest,
        .was_passed_over = !is_known && !may_be_forgotten,
    };
    return true;
}

bool apply_produced(struct core *core, const struct event_produced *produced)
{
    struct queue *queue = find_queue(core, produced->queue);
    if (queue == NULL || produced->producer.size == 0 || produced->number == 0 ||
        produced->number != core->messages.message_number)
        return false;
    struct digest_tag key = key_of(core, REMEMBERED_PRODUCER, queue, no_group, produced->producer);
    uint32_t slot = deduplication_find_producer(core, key);
    if (slot != 0) {
        const struct producer *producer = producer_of(core, slot);
        const struct produced *newest = producer_at(producer, producer->count - 1);
        if (produced->sequence <= newest->sequence || produced->number <= newest->number)
            return false;
    } else {
        slot = deduplication_add_producer(core, queue, key);
    }
    producer_add(producer_of(core, slot),
                 (struct produced){.sequence = produced->sequence, .number = produced->number});
    return true;
}

/* --- receive attempts --------------------------------------------------------------------------------------------- */

uint32_t deduplication_find_attempt_key(const struct core *core, struct digest_tag key)
{
    const struct table *table = &core->deduplication.attempt_by_key;
    for (struct table_probe probe = table_probe_start(table, key.low); table_probe_next(table, &probe);)
        if (digest_tag_equal(attempt_at(core, probe.slot)->key, key))
            return probe.slot;
    return 0;
}

uint64_t deduplication_attempt_window_ms(uint64_t attempt_count)
{
    if (attempt_count >= ATTEMPTS_MAX)
        return 0;
    uint64_t window_ms = ATTEMPT_WINDOW_MS * 2 * (ATTEMPTS_MAX - attempt_count) / ATTEMPTS_MAX;
    if (window_ms < ATTEMPT_WINDOW_MIN_MS)
        return ATTEMPT_WINDOW_MIN_MS;
    return window_ms < ATTEMPT_WINDOW_MS ? window_ms : ATTEMPT_WINDOW_MS;
}

void deduplication_add_attempt(struct core *core, const struct attempt *added)
{
    struct deduplication *deduplication = &core->deduplication;
    ASSERT(added->count > 0 && added->count <= ATTEMPT_DELIVERIES_MAX);
    uint32_t slot = slab_allocate(&deduplication->attempts);
    struct attempt *attempt = attempt_at(core, slot);
    *attempt = *added;
    attempt->order = ++deduplication->order;
    table_insert(&deduplication->attempt_by_key, attempt->key.low, slot);
    list_append(&deduplication->attempt_order, &attempt->link);
    heap_push(&deduplication->attempt_expiries, attempt->expires_at_ms, slot);
}

static void drop_attempt(struct core *core, uint32_t slot)
{
    struct deduplication *deduplication = &core->deduplication;
    struct attempt *attempt = attempt_at(core, slot);
    heap_remove(&deduplication->attempt_expiries, slot);
    list_remove(&attempt->link);
    table_remove(&deduplication->attempt_by_key, attempt->key.low, slot);
    slab_free(&deduplication->attempts, slot);
}

struct bytes deduplication_find_attempt(const struct core *core, const struct queue *queue, struct bytes id)
{
    uint32_t slot = deduplication_find_attempt_key(core, key_of(core, REMEMBERED_ATTEMPT, queue, no_group, id));
    if (slot == 0 || attempt_at(core, slot)->expires_at_ms <= core->now_ms)
        return bytes_make(NULL, 0);
    const struct attempt *attempt = attempt_at(core, slot);
    return bytes_make(attempt->deliveries, attempt->count * ATTEMPT_DELIVERY_SIZE);
}

/* The deliveries stay as the receive left them, whatever happened to the leases since: the attempt repeats them. */
static void settle_leases(struct core *core, struct bytes deliveries)
{
    struct cursor cursor = cursor_make(deliveries);
    while (cursor.rest.size > 0) {
        uint32_t slot = core_find_message(core, cursor_u64(&cursor));
        uint64_t delivery = cursor_u64(&cursor);
        if (slot != 0 && core_message(core, slot)->delivery == delivery && core_message(core, slot)->extra != 0)
            core_extra_of(core, core_message(core, slot))->is_changed = false;
    }
}

bool apply_attempted(struct core *core, const struct event_attempted *attempted)
{
    const struct queue *queue = find_queue(core, attempted->queue);
    size_t size = attempted->deliveries.size;
    if (queue == NULL || attempted->attempt.size == 0 || attempted->expires_at_ms <= core->now_ms ||
        size % ATTEMPT_DELIVERY_SIZE != 0 || size > ATTEMPT_DELIVERIES_MAX * ATTEMPT_DELIVERY_SIZE)
        return false;
    deduplication_sweep(core, SWEEP_WITH_EACH);
    struct attempt attempt = {
        .key = key_of(core, REMEMBERED_ATTEMPT, queue, no_group, attempted->attempt),
        .expires_at_ms = attempted->expires_at_ms,
        .queue = queue->id,
        .count = (uint32_t)(size / ATTEMPT_DELIVERY_SIZE),
    };
    uint32_t former = deduplication_find_attempt_key(core, attempt.key);
    if (former != 0)
        drop_attempt(core, former);
    if (attempt.count == 0)
        return true; /* nothing to repeat */
    memcpy(attempt.deliveries, attempted->deliveries.ptr, size);
    deduplication_add_attempt(core, &attempt);
    settle_leases(core, attempted->deliveries);
    return true;
}

/* --- forgetting --------------------------------------------------------------------------------------------------- */

static void forget_windows(struct core *core, struct queue *queue, bool keeps_uids)
{
    struct deduplication *deduplication = &core->deduplication;
    for (uint32_t *link = &queue->first_window; *link != 0;) {
        const uint32_t slot = *link;
        struct window *window = window_at(core, slot);
        if (keeps_uids && window->window_ms == UID_WINDOW_MS) {
            link = &window->next;
            continue;
        }
        if (window->index != 0)
            heap_remove(&deduplication->window_expiries, slot);
        *link = window->next;
        window->queue = 0;
        window->next = deduplication->forgotten_window;
        deduplication->forgotten_window = slot;
    }
}

void deduplication_forget_queue(struct core *core, struct queue *queue, bool is_deleted)
{
    struct deduplication *deduplication = &core->deduplication;
    if (is_deleted || !queue->settings.has_window)
        forget_windows(core, queue, !is_deleted);
    /* Nobody asks for producers and attempts of a deleted queue, because ids of queues are never reused. The attempts
     * expire within minutes. */
    if (!is_deleted || queue->first_producer == 0)
        return;
    producer_of(core, queue->last_producer)->next = deduplication->forgotten_producer;
    deduplication->forgotten_producer = queue->first_producer;
    queue->first_producer = queue->last_producer = 0;
}

/* Is the first of the heap over? */
static bool has_expired(const struct core *core, const struct heap *heap)
{
    return heap->count > 0 && heap_top(heap).key <= core->now_ms;
}

/* Frees one record, if one has expired. */
static bool sweep_one(struct core *core)
{
    struct deduplication *deduplication = &core->deduplication;
    if (has_expired(core, &deduplication->window_expiries))
        drop_oldest(core, heap_top(&deduplication->window_expiries).slot);
    else if (has_expired(core, &deduplication->attempt_expiries))
        drop_attempt(core, heap_top(&deduplication->attempt_expiries).slot);
    else if (deduplication->forgotten_window != 0)
        drop_oldest(core, deduplication->forgotten_window);
    else if (deduplication->forgotten_producer != 0)
        free_producer(core);
    else
        return false;
    return true;
}

bool deduplication_sweep(struct core *core, unsigned portion)
{
    while (portion > 0 && sweep_one(core))
        portion--;
    return portion == 0;
}

uint64_t deduplication_due_ms(const struct core *core)
{
    const struct deduplication *deduplication = &core->deduplication;
    if (deduplication->forgotten_window != 0 || deduplication->forgotten_producer != 0)
        return 0;
    const struct heap *heaps[] = {&deduplication->window_expiries, &deduplication->attempt_expiries};
    uint64_t due_ms = UINT64_MAX;
    for (size_t i = 0; i < ARRAY_LENGTH(heaps); i++)
        if (heaps[i]->count > 0 && heap_top(heaps[i]).key < due_ms)
            due_ms = heap_top(heaps[i]).key;
    return due_ms < UINT64_MAX - SWEEP_DELAY_MS ? due_ms + SWEEP_DELAY_MS : UINT64_MAX;
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

static void check_window(const struct core *core, uint32_t slot)
{
    const struct window *window = window_at(core, slot);
    ASSERT(window->count > 0 && (window->index != 0) == (window->queue != 0 && window->window_ms != WINDOW_EVER_MS));
    uint64_t count = 0, number = 0, expires_at_ms = 0;
    uint32_t last = 0;
    for (uint32_t at = window->first; at != 0; at = entry_at(core, at)->next) {
        const struct id_entry *entry = entry_at(core, at);
        ASSERT(entry->window == slot && entry->number >= number && entry->number <= core->messages.message_number);
        ASSERT(entry->expires_at_ms >= expires_at_ms);
        ASSERT((entry->expires_at_ms == WINDOW_EVER_MS) == (window->window_ms == WINDOW_EVER_MS));
        bool is_living = window->queue != 0 && entry->expires_at_ms > core->now_ms;
        ASSERT(!is_living || deduplication_find_key(core, entry->key) == at); /* and no second one */
        number = entry->number;
        expires_at_ms = entry->expires_at_ms;
        last = at;
        count++;
    }
    ASSERT(last == window->last && count == window->count);
    if (window->index != 0)
        ASSERT(core->deduplication.window_expiries.entries_owned[window->index - 1].key ==
               entry_at(core, window->first)->expires_at_ms);
}

static uint64_t check_windows(const struct core *core, uint32_t first, uint32_t queue, uint64_t *window_count)
{
    uint64_t entry_count = 0, window_ms = 0;
    for (uint32_t slot = first; slot != 0; slot = window_at(core, slot)->next) {
        const struct window *window = window_at(core, slot);
        ASSERT(window->queue == queue && (queue == 0 || window->window_ms > window_ms));
        window_ms = window->window_ms;
        check_window(core, slot);
        entry_count += window->count;
        ++*window_count;
    }
    return entry_count;
}

static uint64_t check_producers(const struct core *core, uint32_t first, bool is_forgotten)
{
    uint64_t count = 0;
    for (uint32_t slot = first; slot != 0; slot = producer_of(core, slot)->next) {
        const struct producer *producer = producer_of(core, slot);
        ASSERT(producer->count > 0 && producer->count <= PRODUCER_PAIRS);
        ASSERT(is_forgotten || deduplication_find_producer(core, producer->key) == slot);
        for (uint32_t i = 1; i < producer->count; i++) {
            ASSERT(producer_at(producer, i - 1)->sequence < producer_at(producer, i)->sequence);
            ASSERT(producer_at(producer, i - 1)->number < producer_at(producer, i)->number);
        }
        count++;
    }
    return count;
}

void deduplication_check(const struct core *core)
{
    const struct deduplication *deduplication = &core->deduplication;
    uint64_t window_count = 0;
    uint64_t entry_count = check_windows(core, deduplication->forgotten_window, 0, &window_count);
    uint64_t producer_count = check_producers(core, deduplication->forgotten_producer, true);
    for (uint32_t i = 0; i < core->queues.order.count; i++) {
        uint32_t slot = name_index_at(&core->queues.order, i);
        entry_count += check_windows(core, core_queue(core, slot)->first_window, slot, &window_count);
        producer_count += check_producers(core, core_queue(core, slot)->first_producer, false);
    }
    ASSERT(entry_count == deduplication->entries.used && window_count == deduplication->windows.used);
    ASSERT(entry_count == table_count(&deduplication->entry_by_key));
    ASSERT(producer_count == deduplication->producers.used);
    ASSERT(producer_count == table_count(&deduplication->producer_by_key));
    ASSERT(deduplication->attempts.used == table_count(&deduplication->attempt_by_key));
    ASSERT(deduplication->attempts.used == deduplication->attempt_expiries.count);
    heap_check(&deduplication->window_expiries);
    heap_check(&deduplication->attempt_expiries);
}
