#include "api/firings.h"

#include "api/growth.h"
#include "api/state.h"
#include "core/schedules/decide_schedule.h"
#include "engine/calendar.h"

#define FIRINGS_AT_ONCE 500u
#define ZONE_PAUSE_MS 60000u /* after this time, a zone that can't be read is tried again */
#define ROOM_PAUSE_MS 1000u  /* and a full memory or a full disk */

/* Reports it once for as long as it lasts. Each failed try of a waiting schedule shows that it still lasts. */
static void note_unreadable(struct api *api, const struct schedule *schedule, uint64_t now_ms)
{
    struct firings *firings = &api->firings;
    bool is_known = firings->unreadable_at_ms != 0 && now_ms - firings->unreadable_at_ms <= 2 * ZONE_PAUSE_MS;
    firings->unreadable_at_ms = now_ms;
    if (is_known)
        return;
    firings->has_trouble = true;
    failure_set(
        &firings->trouble, ERROR_SERVICE_UNAVAILABLE,
        "schedule '%.*s' is due and waits: its time zone %.*s can't be read from %s. Install the time-zone data "
        "there (package tzdata). This schedule, and others that wait for theirs, are tried again each minute.",
        BYTES_FORMAT(schedule->name_owned), BYTES_FORMAT(schedule->spec.zone),
        calendar_folder(api->front->calendar_owned));
}

static void fire(struct api *api, struct core *core, const struct schedule *schedule, uint64_t after_ms)
{
    const struct schedule_spec *spec = &schedule->spec;
    uint64_t next_ms;
    if (calendar_next(api->front->calendar_owned, spec->cron, spec->zone, after_ms, &next_ms)) {
        decide_fire_schedule(core, schedule, next_ms);
        return;
    }
    note_unreadable(api, schedule, core_now_ms(core));
    schedule_put_off(core, schedule, core_now_ms(core) + ZONE_PAUSE_MS);
}

void firings_do_due(struct api *api, struct core *core)
{
    bool has_room = !growth_is_held(api);
    const struct schedule *schedule;
    uint64_t after_ms;
    for (unsigned i = 0; i < FIRINGS_AT_ONCE && !namespace_is_ample(api->ns); i++) {
        schedule = schedule_next_due(core, &after_ms);
        if (schedule == NULL)
            return;
        if (has_room)
            fire(api, core, schedule, after_ms);
        else
            schedule_put_off(core, schedule, core_now_ms(core) + ROOM_PAUSE_MS);
    }
}

uint64_t firings_count_waiting(const struct api *api)
{
    const struct core *core = namespace_core(api->ns);
    uint64_t count = 0;
    for (uint32_t i = 0; i < schedule_count(core); i++) {
        const struct schedule *schedule = schedule_at(core, i);
        count += schedule->put_off_to_ms != 0 && !calendar_knows(api->front->calendar_owned, schedule->spec.zone);
    }
    return count;
}

bool firings_find_next(const struct api *api, const struct schedule_spec *spec, uint64_t *next_ms)
{
    return calendar_next(api->front->calendar_owned, spec->cron, spec->zone, core_now_ms(namespace_core(api->ns)),
                         next_ms);
}

struct bytes firings_warning(const struct api *api, const struct schedule *schedule, struct arena *arena)
{
    struct bytes zone = schedule->spec.zone;
    if (schedule->next_at_ms == SCHEDULE_NEVER || calendar_knows(api->front->calendar_owned, zone))
        return bytes_make(NULL, 0);
    return arena_format(arena,
                        "Its time zone %.*s can't be read from %s. It does not fire until the time-zone data is there; "
                        "from when it is due on, that is tried each minute.",
                        BYTES_FORMAT(zone), calendar_folder(api->front->calendar_owned));
}

bool api_take_warning(struct api *api, struct failure *failure)
{
    bool has_trouble = api->firings.has_trouble;
    if (has_trouble)
        *failure = api->firings.trouble;
    api->firings.has_trouble = false;
    return has_trouble;
}
