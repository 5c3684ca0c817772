/* Frames: opening a frame advances the time to that of the frame. Until it is closed, decisions write events into
 * it. */
#include "core/core.h"

#include "core/state.h"

/* Frees spare memory of things that may exist in millions. Between two frames nobody holds a freed record. */
static void trim_pools(struct core *core)
{
    struct slab *slabs[] = {&core->messages.items,
                            &core->messages.by_number.leaves,
                            &core->extras,
                            &core->groups.items,
                            &core->batches.items,
                            &core->deduplication.entries,
                            &core->deduplication.windows,
                            &core->dependencies.antecedents,
                            &core->dependencies.edges,
                            &core->dependencies.failures.records,
                            &core->dependencies.batch_outcomes.records,
                            &core->publishers.entries,
                            &core->type_orders.typed,
                            &core->type_orders.lanes,
                            &core->matches.items};
    for (size_t i = 0; i < ARRAY_LENGTH(slabs); i++)
        slab_trim(slabs[i]);
    if (core->pools.order.count > 0) /* of up to a thousand one at a time */
        slab_trim(&ticket_pool_at(core, core->pools.trim_next++ % core->pools.order.count)->tickets);
}

void core_frame_open(struct core *core, struct buffer *frame, uint64_t position, uint64_t now_ms, size_t ample_size)
{
    ASSERT(core->frame.events == NULL && position >= frame->size);
    ASSERT(now_ms >= core->now_ms);
    trim_pools(core);
    buffer_truncate(&core->matches.new_holds, 0);
    core_advance(core, now_ms);
    core->frame.events = frame;
    core->frame.base = position - frame->size;
    core->frame.ample_size = ample_size;
}

void core_frame_close(struct core *core)
{
    ASSERT(core->frame.events != NULL);
    core->frame.events = NULL;
}

void core_emit(struct core *core, const struct event *event)
{
    ASSERT(core->frame.events != NULL);
    uint64_t position = core->frame.base + core->frame.events->size + EVENT_HEADER_SIZE;
    event_encode(event, core->frame.events);
    core->has_fired = false;
    bool is_applied = core_apply(core, event, position);
    ASSERT(is_applied); /* an event that was decided against the state fits the state */
}

void core_emit_sent(struct core *core, const struct queue *queue, const struct event_sent_in_group *sent)
{
    ASSERT(sent->queue == queue->id);
    bool is_grouped = queue->settings.is_fifo || sent->group.size > 0 || sent->priority != PRIORITY_DEFAULT;
    struct event event = {.kind = EVENT_SENT_IN_GROUP, .sent_in_group = *sent};
    if (!is_grouped)
        event = (struct event){.kind = EVENT_SENT,
                               .sent = {.number = sent->number,
                                        .queue = sent->queue,
                                        .visible_at_ms = sent->visible_at_ms,
                                        .batch = sent->batch,
                                        .unit = sent->unit,
                                        .completes = sent->completes,
                                        .content = sent->content}};
    core_emit(core, &event);
}

uint64_t core_send_own(struct core *core, const struct queue *queue, struct content *content, uint64_t batch,
                       uint8_t completes)
{
    uint64_t number = core->messages.message_number + 1;
    uint64_t delay_ms = (uint64_t)queue->settings.delay_s * 1000;
    digest_md5(core->digest_owned, content->body, content->body_md5);
    buffer_truncate(&core->scratch, 0);
    content_encode(content, &core->scratch);
    core_emit_sent(core, queue,
                   &(struct event_sent_in_group){.number = number,
                                                 .queue = queue->id,
                                                 .visible_at_ms = delay_ms == 0 ? 0 : core->now_ms + delay_ms,
                                                 .batch = batch,
                                                 .completes = completes,
                                                 .priority = PRIORITY_DEFAULT,
                                                 .group = content->group,
                                                 .content = buffer_bytes(&core->scratch)});
    return number;
}
