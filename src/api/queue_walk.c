#include "api/queue_walk.h"

#include "api/access.h"
#include "auth/credentials.h"
#include "auth/patterns.h"

void queue_walk_begin(struct queue_walk *walk, const struct call *call, struct bytes prefix, size_t index)
{
    const size_t first = core_queue_index(call->core, prefix);
    *walk = (struct queue_walk){
        .call = call,
        .prefix = prefix,
        .index = index < first ? first : index,
        .visits = QUEUE_WALK_VISITS_MAX,
    };
}

static const struct queue *queue_at(const struct queue_walk *walk)
{
    const struct core *core = walk->call->core;
    const struct queue *queue = walk->index < core_queue_count(core) ? core_queue_by_name(core, walk->index) : NULL;
    return queue != NULL && bytes_starts_with(queue->name_owned, walk->prefix) ? queue : NULL;
}

bool queue_walk_is_over(const struct queue_walk *walk)
{
    return walk->is_past || queue_at(walk) == NULL;
}

static void spend(struct queue_walk *walk, struct bytes patterns, struct bytes name)
{
    const size_t cost = patterns_cost(patterns, name);
    walk->visits -= cost < walk->visits ? (unsigned)cost : walk->visits;
}

const struct queue *queue_walk_next(struct queue_walk *walk)
{
    const struct credential *caller = walk->call->caller;
    const struct bytes patterns = caller == NULL ? bytes_make(NULL, 0) : caller->patterns;
    const struct queue *queue;
    while (walk->visits > 0 && !walk->is_past && (queue = queue_at(walk)) != NULL) {
        const struct bytes name = queue->name_owned;
        const struct bytes next = patterns.size == 0 ? name : patterns_next(patterns, name);
        spend(walk, patterns, name);
        if (next.ptr == NULL) {
            walk->is_past = true;
        } else if (next.ptr != name.ptr) {
            walk->index = core_queue_index(walk->call->core, next);
        } else {
            walk->index++;
            if (access_covers(walk->call, name))
                return queue;
        }
    }
    return NULL;
}

struct bytes queue_walk_seal_name(const struct queue_walk *walk, struct arena *arena)
{
    const struct bytes name = queue_at(walk)->name_owned;
    uint8_t *padded = arena_allocate(arena, QUEUE_NAME_SIZE_MAX);
    memset(padded, 0, QUEUE_NAME_SIZE_MAX);
    memcpy(padded, name.ptr, name.size);
    return bytes_make(padded, QUEUE_NAME_SIZE_MAX);
}

struct bytes queue_walk_open_name(struct bytes name)
{
    while (name.size > 0 && name.ptr[name.size - 1] == 0)
        name.size--;
    return name;
}
