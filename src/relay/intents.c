#include "relay/intents.h"

#include "base/assert.h"
#include "base/memory.h"
#include <stdlib.h>

void intents_init(struct intents *intents)
{
    *intents = (struct intents){.slot_end = 1};
}

void intents_deinit(struct intents *intents)
{
    free(intents->open_owned);
    free(intents->done_owned);
    free(intents->names_owned);
}

static uint32_t find_free(struct intents *intents)
{
    for (uint32_t slot = 1; slot < intents->slot_end; slot++)
        if (intents->open_owned[slot].epoch == 0)
            return slot;
    ARRAY_GROW(intents->open_owned, intents->slot_end, intents->capacity);
    return intents->slot_end++;
}

uint32_t intents_add(struct intents *intents, uint64_t epoch, uint64_t number, size_t left)
{
    ASSERT(epoch != 0);
    uint32_t slot = find_free(intents);
    intents->open_owned[slot] = (struct open_intent){.epoch = epoch, .number = number, .left = left};
    return slot;
}

struct open_intent *intents_at(const struct intents *intents, uint32_t slot)
{
    ASSERT(slot >= 1 && slot < intents->slot_end && intents->open_owned[slot].epoch != 0);
    return &intents->open_owned[slot];
}

void intents_remove(struct intents *intents, uint32_t slot)
{
    *intents_at(intents, slot) = (struct open_intent){0};
    for (size_t i = 0; i < intents->done_count; i++)
        if (intents->done_owned[i].intent == slot)
            intents->done_owned[i].intent = 0;
}

void intents_settle(struct intents *intents, uint32_t slot)
{
    if (slot == 0)
        return;
    struct open_intent *intent = intents_at(intents, slot);
    ASSERT(intent->left > 0);
    intent->left--;
}

void intents_add_done(struct intents *intents, const struct row_name *name, uint32_t slot)
{
    ARRAY_GROW(intents->done_owned, intents->done_count, intents->done_capacity);
    intents->done_owned[intents->done_count++] = (struct done_row){.name = *name, .intent = slot};
}

void intents_forget_done(struct intents *intents)
{
    intents->done_count = 0;
}

const struct row_name *intents_list_done(struct intents *intents, uint32_t slot, size_t *count)
{
    if (intents->name_capacity < intents->done_count) {
        intents->name_capacity = intents->done_capacity;
        intents->names_owned =
            memory_resize(intents->names_owned, intents->name_capacity * sizeof(*intents->names_owned));
    }
    size_t found = 0;
    for (size_t i = 0; i < intents->done_count; i++)
        if (slot == 0 || intents->done_owned[i].intent == slot)
            intents->names_owned[found++] = intents->done_owned[i].name;
    *count = found;
    return intents->names_owned;
}
