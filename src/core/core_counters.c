/* What is counted for people: by queue, and for all queues together. */
#include "core/state.h"

void core_begin_span(struct core *core, struct queue *queue)
{
    queue_counters_begin_span(&queue->counters, core->now_ms);
    if (!list_is_linked(&queue->counted_link) && queue->message_list != 0)
        list_append(&core->counters.counted, &queue->counted_link);
}

struct queue *core_take_counted_queue(struct core *core)
{
    struct list_link *link = list_first(&core->counters.counted);
    if (link == NULL)
        return NULL;
    list_remove(link);
    return CONTAINER_OF(link, struct queue, counted_link);
}

void core_restart_counters(struct core *core, uint64_t now_ms)
{
    while (core_take_counted_queue(core) != NULL)
        ;
    core->counters = (struct namespace_counters){.since_ms = now_ms};
    list_init(&core->counters.counted);
    for (size_t i = 0; i < core_queue_count(core); i++)
        core_queue_by_name(core, i)->counters = (struct queue_counters){0};
}

uint64_t core_counted_since_ms(const struct core *core)
{
    return core->counters.since_ms;
}

uint64_t core_counted(const struct core *core, enum queue_counter counter)
{
    return core->counters.counts[counter];
}

double core_rate(const struct core *core, const struct queue *queue, enum queue_counter counter)
{
    return queue_counters_rate(&queue->counters, counter, core->now_ms, core->counters.since_ms);
}

const struct histogram *core_wait_ms(const struct core *core)
{
    return &core->counters.wait_ms;
}

const struct histogram *core_processing_ms(const struct core *core)
{
    return &core->counters.processing_ms;
}
