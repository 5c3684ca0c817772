/* Decisions about schedules, and their firings. */
#include "core/decide.h"
#include "core/state.h"

#include <stdio.h>

/* "<Name>/<due time in seconds>" */
#define FIRING_ID_SIZE_MAX (SCHEDULE_NAME_SIZE_MAX + 24)

void core_set_calendar(struct core *core,
                       uint64_t (*next)(void *context, struct bytes cron, struct bytes zone, uint64_t after_ms),
                       void *context)
{
    core->schedules.next = next;
    core->schedules.next_context = context;
}

static uint64_t next_after(const struct core *core, const struct schedule_spec *spec, uint64_t after_ms)
{
    ASSERT(core->schedules.next != NULL);
    uint64_t next_ms = core->schedules.next(core->schedules.next_context, spec->cron, spec->zone, after_ms);
    ASSERT(next_ms > after_ms);
    return next_ms;
}

/* --- putting and deleting ----------------------------------------------------------------------------------------- */

/* A firing that is due and has not been decided yet is not lost to a put that leaves the times as they were. */
static uint64_t next_of_put(const struct core *core, const struct schedule *existing, const struct schedule_spec *spec)
{
    if (spec->is_paused)
        return SCHEDULE_NEVER;
    if (existing != NULL && existing->next_at_ms <= core->now_ms && bytes_equal(existing->spec.cron, spec->cron) &&
        bytes_equal(existing->spec.zone, spec->zone))
        return existing->next_at_ms;
    return next_after(core, spec, core->now_ms);
}

enum error decide_put_schedule(struct core *core, struct bytes name, const struct schedule_spec *spec,
                               const struct schedule **schedule)
{
    const struct schedule *existing = schedule_find(core, name);
    if (existing == NULL && schedule_count(core) >= SCHEDULES_MAX)
        return ERROR_OVER_LIMIT;
    uint64_t next_at_ms = next_of_put(core, existing, spec);
    buffer_truncate(&core->scratch, 0);
    schedule_spec_encode(spec, &core->scratch);
    core_emit(core, &(struct event){
                        .kind = EVENT_SCHEDULE_PUT,
                        .schedule_put = {.name = name, .spec = buffer_bytes(&core->scratch), .next_at_ms = next_at_ms},
                    });
    *schedule = schedule_find(core, name);
    return OK;
}

void decide_pause_schedule(struct core *core, const struct schedule *schedule, bool is_paused)
{
    if (schedule->spec.is_paused == is_paused)
        return;
    struct schedule_spec spec = schedule->spec;
    spec.is_paused = is_paused;
    enum error error = decide_put_schedule(core, schedule->name_owned, &spec, &schedule);
    ASSERT(error == OK);
}

void decide_delete_schedule(struct core *core, const struct schedule *schedule)
{
    core_emit(core,
              &(struct event){.kind = EVENT_SCHEDULE_DELETED, .schedule_deleted = {.name = schedule->name_owned}});
}

/* --- firing ------------------------------------------------------------------------------------------------------- */

/* Sends the message of a firing; its number, or 0 if the queue knows its id, but not its message, already. */
static uint64_t send_firing(struct core *core, const struct schedule *schedule)
{
    const struct schedule_spec *spec = &schedule->spec;
    char id[FIRING_ID_SIZE_MAX];
    int size = snprintf(id, sizeof(id), "%.*s/%llu", BYTES_FORMAT(schedule->name_owned),
                        (unsigned long long)(schedule->next_at_ms / 1000));
    struct queue *queue = core_find_queue_by_id(core, spec->queue);
    ASSERT(queue != NULL && size > 0 && (size_t)size < sizeof(id));
    struct send_command command = {
        .queue = queue,
        .content = {.body = spec->body,
                    .attributes = spec->attributes,
                    .group = spec->group,
                    .sender = core->name_owned,
                    .deduplication = bytes_make(id, (size_t)size)},
        .delay_ms = queue->settings.delay_s * 1000,
        .priority = PRIORITY_DEFAULT,
    };
    digest_md5(core->digest_owned, spec->body, command.content.body_md5);
    memcpy(command.content.attributes_md5, spec->attributes_md5, sizeof(spec->attributes_md5));
    struct send_result result;
    /* It joins no batch and names nothing to wait for. Nor is there a cycle to search for: whoever waits for a message that will stand
     * behind this one waits already for all that stands in front of it. And the search might give up, with nobody to refuse. */
    enum error error = decide_send_checked(core, &command, &result);
    ASSERT(error == OK);
    return result.number;
}

static void fire(struct core *core, const struct schedule *schedule)
{
    uint64_t due_at_ms = schedule->next_at_ms;
    bool is_missed = core->now_ms - due_at_ms > SCHEDULE_MISSED_MS;
    enum catch_up rule = schedule->spec.catch_up;
    bool goes_on = rule == CATCH_UP_ALL && schedule->late_count + 1 < SCHEDULE_CATCH_UP_MAX;
    /* Past all that were missed, to the first that was not. */
    uint64_t after_ms = is_missed && !goes_on ? core->now_ms - SCHEDULE_MISSED_MS - 1 : due_at_ms;
    uint64_t next_at_ms = next_after(core, &schedule->spec, after_ms);
    uint64_t number = is_missed && rule == CATCH_UP_NONE ? 0 : send_firing(core, schedule);
    core_emit(core, &(struct event){
                        .kind = EVENT_SCHEDULE_FIRED,
                        .schedule_fired = {.name = schedule->name_owned,
                                           .due_at_ms = due_at_ms,
                                           .next_at_ms = next_at_ms,
                                           .number = number},
                    });
}

void core_hold_firings(struct core *core, bool are_held)
{
    core->schedules.are_held = are_held;
}

void schedule_fire_due(struct core *core, unsigned portion)
{
    if (core->schedules.are_held)
        return;
    const struct heap *due = &core->schedules.due;
    for (; portion > 0 && !core_frame_is_ample(core) && due->count > 0 && heap_top(due).key <= core->now_ms; portion--)
        fire(core, pool_at(&core->schedules.schedules, heap_top(due).slot));
}
