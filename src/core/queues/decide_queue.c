/* Decisions about the namespace and its queues. */
#include "core/queues/decide_queue.h"
#include "core/decide_namespace.h"
#include "core/queues/tags.h"
#include "core/state.h"

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

void decide_pass_time(struct core *core, uint64_t now_ms)
{
    core_emit(core, &(struct event){.kind = EVENT_TIME_PASSED, .time_passed = {.time_ms = now_ms}});
}

struct queue *decide_create_queue(struct core *core, struct bytes name, const struct queue_settings *settings)
{
    ASSERT(core_find_queue(core, name) == NULL);
    buffer_truncate(&core->scratch, 0);
    queue_settings_encode(settings, &core->scratch);
    core_emit(core, &(struct event){
                        .kind = EVENT_QUEUE_CREATED,
                        .queue_created = {.queue = core->queues.queue_id + 1,
                                          .name = name,
                                          .settings = buffer_bytes(&core->scratch)},
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

enum error decide_tag_queue(struct core *core, struct queue *queue, struct bytes tags)
{
    ASSERT(tags_are_sound(tags));
    buffer_truncate(&core->scratch, 0);
    tags_merge(queue->tags_owned, tags, &core->scratch);
    if (tags_count(buffer_bytes(&core->scratch)) > TAGS_MAX)
        return ERROR_OVER_LIMIT;
    core_emit(core, &(struct event){.kind = EVENT_QUEUE_TAGGED, .queue_tagged = {.queue = queue->id, .tags = tags}});
    return OK;
}

void decide_untag_queue(struct core *core, struct queue *queue, struct bytes keys)
{
    struct cursor run = cursor_make(queue->tags_owned);
    struct bytes key, value;
    struct buffer found;
    buffer_init(&found);
    while (tags_next(&run, &key, &value))
        if (tags_names(keys, key))
            buffer_append_sized(&found, key);
    if (found.size > 0)
        core_emit(core, &(struct event){
                            .kind = EVENT_QUEUE_UNTAGGED,
                            .queue_untagged = {.queue = queue->id, .keys = buffer_bytes(&found)},
                        });
    buffer_deinit(&found);
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
