/* Decisions about schedules, and their firings. */
#include "core/schedules/decide_schedule.h"
#include "core/messages/decide_send.h"
#include "core/state.h"

#include <stdio.h>

/* "<Name>/<due time in seconds>" */
#define FIRING_ID_SIZE_MAX (SCHEDULE_NAME_SIZE_MAX + 24)

/* --- putting and deleting ----------------------------------------------------------------------------------------- */

/* A firing that is due and has not been decided yet is not lost to a put that leaves the times as they were. */
static uint64_t next_of_put(const struct core *core, const struct schedule *existing, const struct schedule_spec *spec,
                            uint64_t next_at_ms)
{
    if (spec->is_paused)
        return SCHEDULE_NEVER;
    if (existing != NULL && existing->next_at_ms <= core->now_ms && bytes_equal(existing->spec.cron, spec->cron) &&
        bytes_equal(existing->spec.zone, spec->zone))
        return existing->next_at_ms;
    return next_at_ms;
}

enum error decide_put_schedule(struct core *core, struct bytes name, const struct schedule_spec *spec,
                               uint64_t next_at_ms, const struct schedule **schedule)
{
    ASSERT(next_at_ms > core->now_ms);
    const struct schedule *existing = schedule_find(core, name);
    if (existing == NULL && schedule_count(core) >= SCHEDULES_MAX)
        return ERROR_OVER_LIMIT;
    buffer_truncate(&core->scratch, 0);
    schedule_spec_encode(spec, &core->scratch);
    core_emit(core, &(struct event){
                        .kind = EVENT_SCHEDULE_PUT,
                        .schedule_put = {.name = name,
                                         .spec = buffer_bytes(&core->scratch),
                                         .next_at_ms = next_of_put(core, existing, spec, next_at_ms)},
                    });
    *schedule = schedule_find(core, name);
    return OK;
}

static void set_paused(struct core *core, const struct schedule *schedule, bool is_paused, uint64_t next_at_ms)
{
    if (schedule->spec.is_paused == is_paused)
        return;
    struct schedule_spec spec = schedule->spec;
    spec.is_paused = is_paused;
    enum error error = decide_put_schedule(core, schedule->name_owned, &spec, next_at_ms, &schedule);
    ASSERT(error == OK);
}

void decide_pause_schedule(struct core *core, const struct schedule *schedule)
{
    set_paused(core, schedule, true, SCHEDULE_NEVER);
}

void decide_resume_schedule(struct core *core, const struct schedule *schedule, uint64_t next_at_ms)
{
    set_paused(core, schedule, false, next_at_ms);
}

void decide_delete_schedule(struct core *core, const struct schedule *schedule)
{
    core_emit(core,
              &(struct event){.kind = EVENT_SCHEDULE_DELETED, .schedule_deleted = {.name = schedule->name_owned}});
}

/* --- firing ------------------------------------------------------------------------------------------------------- */

static void send_message(struct core *core, const struct schedule_spec *spec, struct bytes deduplication,
                         struct send_result *result)
{
    struct queue *queue = core_find_queue_by_id(core, spec->queue);
    ASSERT(queue != NULL);
    struct send_command command = {
        .queue = queue,
        .content = {.body = spec->body,
                    .attributes = spec->attributes,
                    .group = spec->group,
                    .sender = core->name_owned,
                    .deduplication = deduplication},
        .delay_ms = queue->settings.delay_s * 1000,
        .priority = PRIORITY_DEFAULT,
    };
    digest_md5(core->digest_owned, spec->body, command.content.body_md5);
    memcpy(command.content.attributes_md5, spec->attributes_md5, sizeof(spec->attributes_md5));
    /* It joins no batch and names nothing to wait for. Nor is there a cycle to search for: whoever waits for a message
     * that will stand behind this one waits already for all that stands in front of it. And the search might give up,
     * with nobody to refuse. */
    enum error error = decide_send_checked(core, &command, result);
    ASSERT(error == OK);
}

/* Sends the message of a firing; its number, or 0 if the queue knows its id, but not its message, already. */
static uint64_t send_firing(struct core *core, const struct schedule *schedule)
{
    char id[FIRING_ID_SIZE_MAX];
    int size = snprintf(id, sizeof(id), "%.*s/%llu", BYTES_FORMAT(schedule->name_owned),
                        (unsigned long long)(schedule->next_at_ms / 1000));
    ASSERT(size > 0 && (size_t)size < sizeof(id));
    struct send_result result;
    send_message(core, &schedule->spec, bytes_make(id, (size_t)size), &result);
    return result.number;
}

void decide_fire_schedule(struct core *core, const struct schedule *schedule, uint64_t next_at_ms)
{
    uint64_t due_at_ms = schedule->next_at_ms;
    ASSERT(due_at_ms <= core->now_ms && next_at_ms > due_at_ms);
    bool is_skipped = schedule_is_missed(core, schedule) && schedule->spec.catch_up == CATCH_UP_NONE;
    uint64_t number = is_skipped ? 0 : send_firing(core, schedule);
    core_emit(core, &(struct event){
                        .kind = EVENT_SCHEDULE_FIRED,
                        .schedule_fired = {.name = schedule->name_owned,
                                           .due_at_ms = due_at_ms,
                                           .next_at_ms = next_at_ms,
                                           .number = number},
                    });
}

void decide_fire_schedule_now(struct core *core, const struct schedule *schedule, uint8_t id[MESSAGE_ID_SIZE])
{
    struct send_result result;
    send_message(core, &schedule->spec, bytes_make(NULL, 0), &result);
    ASSERT(!result.is_duplicate); /* nothing to recognise it by */
    memcpy(id, result.id, MESSAGE_ID_SIZE);
}
