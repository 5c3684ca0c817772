#include "base/name_index.h"

#include "base/accounted.h"

#include <string.h>

#define CAPACITY_MIN 16u

void name_index_init(struct name_index *index, const struct slab *slab, size_t name_offset)
{
    ASSERT(name_offset % sizeof(void *) == 0 && name_offset + sizeof(struct bytes) <= slab->record_size);
    *index = (struct name_index){.slab = slab, .name_offset = (uint32_t)name_offset};
}

void name_index_deinit(struct name_index *index)
{
    accounted_free(index->slots_owned);
    index->slots_owned = NULL;
    index->count = index->capacity = 0;
}

static struct bytes name_of(const struct name_index *index, uint32_t slot)
{
    ASSERT(slot != 0);
    return *(const struct bytes *)(const void *)((const char *)slab_at(index->slab, slot) + index->name_offset);
}

static struct bytes name_at(const struct name_index *index, uint32_t place)
{
    return name_of(index, name_index_at(index, place));
}

uint32_t name_index_place(const struct name_index *index, struct bytes name)
{
    uint32_t low = 0, high = index->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bytes_compare(name_at(index, middle), name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t name_index_find(const struct name_index *index, struct bytes name)
{
    uint32_t place = name_index_place(index, name);
    bool is_there = place < index->count && bytes_equal(name_at(index, place), name);
    return is_there ? name_index_at(index, place) : 0;
}

void name_index_insert(struct name_index *index, uint32_t slot)
{
    uint32_t place = name_index_place(index, name_of(index, slot));
    ASSERT(place == index->count || !bytes_equal(name_at(index, place), name_of(index, slot)));
    ACCOUNTED_GROW(index->slots_owned, index->count, index->capacity, CAPACITY_MIN);
    uint32_t *at = index->slots_owned + place;
    memmove(at + 1, at, (index->count - place) * sizeof(*at));
    *at = slot;
    index->count++;
}

void name_index_remove(struct name_index *index, uint32_t slot)
{
    uint32_t place = name_index_place(index, name_of(index, slot));
    ASSERT(name_index_at(index, place) == slot);
    index->count--;
    uint32_t *at = index->slots_owned + place;
    memmove(at, at + 1, (index->count - place) * sizeof(*at));
}

void name_index_check(const struct name_index *index)
{
    ASSERT(index->count <= index->capacity);
    for (uint32_t i = 1; i < index->count; i++)
        ASSERT(bytes_compare(name_at(index, i - 1), name_at(index, i)) < 0);
}
