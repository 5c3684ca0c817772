/* What must not happen twice: deduplication ids, numbered producers. */
#include "model.h"

#include "base/assert.h"

#define WINDOW_USUAL_S 300
#define ID_OF_CONTENT 1000000 /* ids that are digests of a body; the tag names the body */

/* The deduplication id that counts for the entry, or NONE. */
static int id_of(const struct queue_traits *traits, const struct entry *entry)
{
    if (entry->dedup != NONE)
        return entry->dedup;
    return traits->is_content_based ? ID_OF_CONTENT + (int)entry->tag : NONE;
}

static int scope_of(const struct queue_traits *traits, const struct entry *entry)
{
    return traits->is_scope_group ? entry->group : NO_GROUP;
}

static struct model_memory *find_memory(struct model *model, int queue, int scope, int id)
{
    for (int i = 0; i < model->memory_count; i++) {
        struct model_memory *memory = &model->memories[i];
        if (memory->queue == queue && memory->scope == scope && memory->id == id && memory->until > model->now)
            return memory;
    }
    return NULL;
}

int model_find_id(const struct model *model, int queue, int id)
{
    const struct model_memory *memory = find_memory((struct model *)(uintptr_t)model, queue, NO_GROUP, id);
    return memory == NULL ? NONE : memory->message;
}

bool model_find_duplicate(struct model *model, int queue, const struct entry *entry, int *first)
{
    const struct queue_traits *traits = &model->queues[queue].traits;
    int id = id_of(traits, entry);
    const struct model_memory *memory = id == NONE ? NULL : find_memory(model, queue, scope_of(traits, entry), id);
    if (memory != NULL) {
        *first = memory->message;
        return true;
    }
    bool is_old = false;
    *first = NONE;
    for (int i = 0; i < model->production_count && entry->producer != NONE; i++) {
        const struct model_production *production = &model->productions[i];
        if (production->queue != queue || production->producer != entry->producer)
            continue;
        is_old = is_old || production->sequence >= entry->sequence;
        if (production->sequence == entry->sequence)
            *first = production->message;
    }
    return is_old;
}

/* A place for one more: that of one which is over, or a new one. */
static struct model_memory *free_memory(struct model *model)
{
    for (int i = 0; i < model->memory_count; i++)
        if (model->memories[i].until <= model->now)
            return &model->memories[i];
    ASSERT(model->memory_count < MODEL_MEMORIES_MAX);
    return &model->memories[model->memory_count++];
}

void model_remember(struct model *model, int queue, const struct entry *entry, int message)
{
    const struct queue_traits *traits = &model->queues[queue].traits;
    int id = id_of(traits, entry);
    int window_s = traits->window_s == NONE ? WINDOW_USUAL_S : traits->window_s;
    if (id != NONE && window_s != 0)
        *free_memory(model) = (struct model_memory){
            .queue = queue,
            .scope = scope_of(traits, entry),
            .id = id,
            .message = message,
            .until = window_s == WINDOW_EVER ? UINT64_MAX : model->now + (uint64_t)window_s * 1000,
        };
    if (entry->producer == NONE)
        return;
    ASSERT(model->production_count < MODEL_PRODUCTIONS_MAX);
    model->productions[model->production_count++] = (struct model_production){
        .queue = queue, .producer = entry->producer, .sequence = entry->sequence, .message = message};
}

void model_forget_ids(struct model *model, int queue)
{
    for (int i = 0; i < model->memory_count; i++)
        if (model->memories[i].queue == queue)
            model->memories[i].until = 0;
}

unsigned model_count_ids(const struct model *model)
{
    unsigned count = 0;
    for (int i = 0; i < model->memory_count; i++)
        count += model->memories[i].until > model->now && model->queues[model->memories[i].queue].exists;
    return count;
}
