/* Decisions about the namespace and its queues. */
#include "core/decide.h"
#include "core/state.h"

/* A lease that a restart interrupts lasts this much longer at most (docs/guarantees.md, section 2). */
#define RESTART_GRACE_MS 30000u

void decide_found(struct core *core, struct bytes name, const uint8_t key[CORE_KEY_SIZE], uint64_t segment_size)
{
    struct event event = {.kind = EVENT_FOUNDED, .founded = {.name = name, .segment_size = segment_size}};
    memcpy(event.founded.key, key, CORE_KEY_SIZE);
    core_emit(core, &event);
}

void decide_restart(struct core *core, uint64_t epoch, uint64_t resumed_at_ms)
{
    core_emit(core, &(struct event){
                        .kind = EVENT_RESTARTED,
                        .restarted = {.epoch = epoch, .resumed_at_ms = resumed_at_ms, .grace_ms = RESTART_GRACE_MS},
                    });
}

void decide_time_passed(struct core *core)
{
    if (core->has_fired)
        core_emit(core, &(struct event){.kind = EVENT_TIME_PASSED, .time_passed = {.time_ms = core->now_ms}});
}

struct queue *decide_create_queue(struct core *core, struct bytes name, const struct queue_settings *settings)
{
    ASSERT(core_find_queue(core, name) == NULL);
    buffer_truncate(&core->scratch, 0);
    queue_settings_encode(settings, &core->scratch);
    core_emit(
        core,
        &(struct event){
            .kind = EVENT_QUEUE_CREATED,
            .queue_created = {.queue = core->queue_id + 1, .name = name, .settings = buffer_bytes(&core->scratch)},
        });
    return core_find_queue(core, name);
}

void decide_set_queue(struct core *core, struct queue *queue, const struct queue_settings *settings)
{
    buffer_truncate(&core->scratch, 0);
    queue_settings_encode(settings, &core->scratch);
    core_emit(core, &(struct event){
                        .kind = EVENT_QUEUE_SET,
                        .queue_set = {.queue = queue->id, .settings = buffer_bytes(&core->scratch)},
                    });
}

void decide_purge_queue(struct core *core, struct queue *queue)
{
    core_emit(core, &(struct event){.kind = EVENT_QUEUE_PURGED, .queue_purged = {.queue = queue->id}});
}

enum error decide_delete_queue(struct core *core, struct queue *queue)
{
    if (queue->target_count > 0)
        return ERROR_QUEUE_IN_USE;
    core_emit(core, &(struct event){.kind = EVENT_QUEUE_DELETED, .queue_deleted = {.queue = queue->id}});
    return OK;
}
