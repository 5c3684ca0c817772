/* The served namespaces: in the order in which they came, and by name. */
#include "api/state.h"

#include "base/memory.h"

static struct bytes name_of(const struct api *api)
{
    return core_name(namespace_core(api->ns));
}

void front_add(struct front *front, struct api *api)
{
    ASSERT(front_find(front, name_of(api)) == NULL);
    ARRAY_GROW(front->served_owned, front->served_count, front->served_capacity);
    front->served_owned[front->served_count++] = api;
    front->version++;
    table_insert(&front->served_by_name, bytes_hash(name_of(api)), (uint32_t)front->served_count);
}

static size_t place_of(const struct front *front, const struct api *api)
{
    size_t index = 0;
    while (index < front->served_count && front->served_owned[index] != api)
        index++;
    ASSERT(index < front->served_count);
    return index;
}

void front_remove(struct front *front, struct api *api)
{
    /* Those behind it move up. */
    for (size_t i = place_of(front, api); i < front->served_count; i++) {
        table_remove(&front->served_by_name, bytes_hash(name_of(front->served_owned[i])), (uint32_t)i + 1);
        if (front->served_owned[i] == api)
            continue;
        front->served_owned[i - 1] = front->served_owned[i];
        table_insert(&front->served_by_name, bytes_hash(name_of(front->served_owned[i])), (uint32_t)i);
    }
    front->served_count--;
    front->version++;
}

size_t front_count(const struct front *front)
{
    return front->served_count;
}

struct api *front_at(const struct front *front, size_t index)
{
    ASSERT(index < front->served_count);
    return front->served_owned[index];
}

struct api *front_find(const struct front *front, struct bytes name)
{
    for (struct table_probe probe = table_probe_start(&front->served_by_name, bytes_hash(name));
         table_probe_next(&front->served_by_name, &probe);)
        if (bytes_equal(name, name_of(front->served_owned[probe.slot - 1])))
            return front->served_owned[probe.slot - 1];
    return NULL;
}
