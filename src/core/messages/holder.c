#include "core/messages/holder.h"

#include "core/state.h"

#include "base/accounted.h"

#define SIZES_SIZE 2u /* of the two sizes before the words */
#define TEXT_SIZE_MAX (SIZES_SIZE + 3 * HOLDER_WORD_SIZE_MAX)

static_assert(HOLDER_WORD_SIZE_MAX <= UINT8_MAX, "the size of a word is a byte");

static struct holder *holder_at(const struct holders *holders, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&holders->items, slot);
}

/* May be asked of a freed record. */
POISON_MAY_LOOK static inline bool holder_is_used(const struct holder *holder)
{
    return holder->text_owned.size != 0;
}

void holders_init(struct holders *holders)
{
    slab_init(&holders->items, sizeof(struct holder));
    table_init(&holders->by_text);
    list_init(&holders->idle);
    holders->idle_count = 0;
}

void holders_deinit(struct holders *holders)
{
    for (uint32_t slot = 1; slot < holders->items.slot_end; slot++)
        if (holder_is_used(holder_at(holders, slot)))
            accounted_free((void *)(uintptr_t)holder_at(holders, slot)->text_owned.ptr);
    table_deinit(&holders->by_text);
    slab_deinit(&holders->items);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static bool is_word(struct bytes word)
{
    if (word.size > HOLDER_WORD_SIZE_MAX)
        return false;
    for (size_t i = 0; i < word.size; i++)
        if (word.ptr[i] < ' ' || word.ptr[i] > '~')
            return false;
    return true;
}

static uint8_t *put_word(uint8_t *at, struct bytes word)
{
    if (word.size > 0)
        memcpy(at, word.ptr, word.size);
    return at + word.size;
}

/* The name as it is kept; empty if all its words are. */
static struct bytes text_of(const struct holder_name *name, uint8_t memory[TEXT_SIZE_MAX])
{
    const struct bytes none = {NULL, 0};
    const struct bytes access_key = is_word(name->access_key) ? name->access_key : none;
    const struct bytes address = is_word(name->address) ? name->address : none;
    const struct bytes worker = is_word(name->worker) ? name->worker : none;
    uint8_t *end = memory + SIZES_SIZE;
    memory[0] = (uint8_t)access_key.size;
    memory[1] = (uint8_t)address.size;
    end = put_word(put_word(put_word(end, access_key), address), worker);
    return end == memory + SIZES_SIZE ? none : bytes_make(memory, (size_t)(end - memory));
}

static void read_name(const struct holder *holder, struct holder_name *name)
{
    const uint8_t *text = holder->text_owned.ptr;
    const uint8_t *words = text + SIZES_SIZE;
    const size_t known_size = (size_t)SIZES_SIZE + text[0] + text[1];
    name->access_key = bytes_make(words, text[0]);
    name->address = bytes_make(words + text[0], text[1]);
    name->worker = bytes_skip(holder->text_owned, known_size);
}

static bool is_named(const struct holders *holders, uint32_t slot, const struct holder_name *name)
{
    if (slot == 0 || slot >= holders->items.slot_end || !holder_is_used(holder_at(holders, slot)))
        return false;
    struct holder_name found;
    read_name(holder_at(holders, slot), &found);
    return bytes_equal(found.address, name->address) && bytes_equal(found.worker, name->worker) &&
           bytes_equal(found.access_key, name->access_key);
}

/* --- uses --------------------------------------------------------------------------------------------------------- */

static uint32_t find(const struct holders *holders, uint64_t hash, struct bytes text)
{
    for (struct table_probe probe = table_probe_start(&holders->by_text, hash);
         table_probe_next(&holders->by_text, &probe);)
        if (bytes_equal(holder_at(holders, probe.slot)->text_owned, text))
            return probe.slot;
    return 0;
}

/* Without a use. */
static uint32_t add(struct holders *holders, uint64_t hash, struct bytes text)
{
    const uint32_t slot = slab_allocate(&holders->items);
    struct holder *holder = holder_at(holders, slot);
    holder->text_owned = accounted_duplicate(text);
    holder->hash = hash;
    table_insert(&holders->by_text, hash, slot);
    return slot;
}

static void drop(struct holders *holders, uint32_t slot)
{
    struct holder *holder = holder_at(holders, slot);
    ASSERT(holder->uses == 0 && !list_is_linked(&holder->idle_link));
    table_remove(&holders->by_text, holder->hash, slot);
    accounted_free((void *)(uintptr_t)holder->text_owned.ptr);
    holder->text_owned = bytes_make(NULL, 0);
    slab_free(&holders->items, slot);
}

static uint32_t find_or_add(struct core *core, const struct holder_name *name, bool may_add)
{
    struct holders *holders = &core->holders;
    uint8_t memory[TEXT_SIZE_MAX];
    const struct bytes text = text_of(name, memory);
    if (text.size == 0)
        return 0;
    const uint64_t hash = digest_name(core->digest_owned, text);
    const uint32_t slot = find(holders, hash, text);
    if (slot != 0 || !may_add || holders->items.used >= HOLDERS_MAX)
        return slot;
    return add(holders, hash, text);
}

static uint32_t use(struct holders *holders, uint32_t slot)
{
    if (slot == 0)
        return 0;
    struct holder *holder = holder_at(holders, slot);
    if (list_is_linked(&holder->idle_link)) {
        list_remove(&holder->idle_link);
        holders->idle_count--;
    }
    holder->uses++;
    return slot;
}

uint32_t holder_use(struct core *core, const struct holder_name *name, bool may_add)
{
    return use(&core->holders, find_or_add(core, name, may_add));
}

uint32_t holder_use_again(struct core *core, const struct holder_name *name, uint32_t guess)
{
    return use(&core->holders, is_named(&core->holders, guess, name) ? guess : 0);
}

void holder_release(struct core *core, uint32_t slot)
{
    struct holders *holders = &core->holders;
    if (slot == 0)
        return;
    struct holder *holder = holder_at(holders, slot);
    ASSERT(holder->uses > 0);
    if (--holder->uses > 0)
        return;
    list_append(&holders->idle, &holder->idle_link);
    if (holders->idle_count++ < HOLDERS_IDLE_MAX)
        return;
    holder = CONTAINER_OF(list_first(&holders->idle), struct holder, idle_link);
    list_remove(&holder->idle_link);
    holders->idle_count--;
    drop(holders, find(holders, holder->hash, holder->text_owned));
}

/* --- leases ------------------------------------------------------------------------------------------------------- */

void holder_note(struct core *core, uint32_t message, uint32_t holder)
{
    ASSERT(core_message(core, message)->state == MESSAGE_IN_FLIGHT);
    ASSERT(holder == 0 || holder_at(&core->holders, holder)->uses > 0);
    if (holder != 0)
        holder_at(&core->holders, holder)->uses++;
    /* A repeated receive gives the message to whoever repeats it. */
    holder_release(core, heap_exchange_note(&core->messages.timers, message, holder));
}

bool holder_find(const struct core *core, uint32_t message, struct holder_name *name)
{
    const bool is_held = core_message(core, message)->state == MESSAGE_IN_FLIGHT;
    const uint32_t holder = is_held ? heap_note(&core->messages.timers, message) : 0;
    if (holder != 0)
        read_name(holder_at(&core->holders, holder), name);
    return holder != 0;
}

void holder_forget(struct core *core, uint32_t message)
{
    holder_release(core, heap_exchange_note(&core->messages.timers, message, 0));
}

uint32_t holder_take(struct core *core, uint32_t message)
{
    return heap_exchange_note(&core->messages.timers, message, 0);
}

void holder_put(struct core *core, uint32_t message, uint32_t holder)
{
    ASSERT(core_message(core, message)->state == MESSAGE_IN_FLIGHT);
    ASSERT(holder == 0 || holder_at(&core->holders, holder)->uses > 0);
    if (holder != 0)
        (void)heap_exchange_note(&core->messages.timers, message, holder);
}

/* --- the check ---------------------------------------------------------------------------------------------------- */

void holder_check(const struct core *core)
{
    const struct holders *holders = &core->holders;
    const struct heap *timers = &core->messages.timers;
    uint32_t *leases_owned = accounted_allocate_zeroed(((size_t)holders->items.slot_end + 1) * sizeof(*leases_owned));
    uint32_t used = 0, idle = 0;
    for (uint32_t i = 0; i < timers->count; i++) {
        const uint32_t holder = timers->entries_owned[i].note;
        ASSERT(holder == 0 || core_message(core, timers->entries_owned[i].slot)->state == MESSAGE_IN_FLIGHT);
        ASSERT(holder == 0 || (holder < holders->items.slot_end && holder_is_used(holder_at(holders, holder))));
        leases_owned[holder]++;
    }
    for (uint32_t slot = 1; slot < holders->items.slot_end; slot++) {
        const struct holder *holder = holder_at(holders, slot);
        if (!holder_is_used(holder))
            continue;
        used++;
        idle += holder->uses == 0;
        ASSERT(holder->uses >= leases_owned[slot]);
        ASSERT(list_is_linked(&holder->idle_link) == (holder->uses == 0));
        ASSERT(find(holders, holder->hash, holder->text_owned) == slot);
    }
    ASSERT(used == holders->items.used && idle == holders->idle_count && idle <= HOLDERS_IDLE_MAX);
    ASSERT(table_count(&holders->by_text) == used);
    accounted_free(leases_owned);
}
