#include "tallyd/relay_facts.h"

#include "base/assert.h"

#include <stdio.h>
#include <time.h>

static_assert(RELAY_UID_TEXT_SIZE == UID_TEXT_SIZE, "one form");
static_assert(RELAY_REASON_SIZE >= FAULT_TEXT_SIZE, "room for every fault");

uint64_t relay_facts_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void copy_text(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from);
}

static uint64_t count_in_doubt(struct relay *relay)
{
    struct arena arena;
    struct parked *parked;
    size_t count;
    uint64_t in_doubt = 0;
    arena_init(&arena);
    relay_list_parked(relay, &arena, &parked, &count);
    for (size_t i = 0; i < count; i++)
        in_doubt += parked[i].is_doubted;
    arena_deinit(&arena);
    return in_doubt;
}

void relay_facts_report(struct relay *relay, struct relay_report *report)
{
    struct relay_status status;
    relay_get_status(relay, &status);
    *report = (struct relay_report){
        .state = relay_state_name(status.state),
        .since_ms = status.since_ms,
        .epoch = status.epoch,
        .position = status.position,
        .lag_rows = status.health.waiting_count,
        .lag_s = status.health.oldest_age_ms / 1000,
        .parked_count = status.health.parked_count,
        .in_doubt_count = count_in_doubt(relay),
        .delivered = status.delivered,
        .duplicates = status.duplicates,
        .retries = status.retries,
        .parked = status.parked,
        .takeovers = status.takeovers,
        .last_error_ms = status.last_error_ms,
    };
    copy_text(report->last_error, sizeof(report->last_error), status.last_error);
    copy_text(report->warning, sizeof(report->warning), status.health.warning);
}

void relay_facts_parked(struct relay *relay, struct arena *arena, struct relay_parked_row **doubts, size_t *count)
{
    struct parked *parked;
    relay_list_parked(relay, arena, &parked, count);
    *doubts = arena_allocate(arena, (*count + 1) * sizeof(**doubts));
    uint64_t now_ms = relay_facts_now_ms();
    for (size_t i = 0; i < *count; i++) {
        struct relay_parked_row *doubt = &(*doubts)[i];
        *doubt = (struct relay_parked_row){
            .id = parked[i].name.id,
            .queue = parked[i].queue,
            .group = parked[i].group,
            .error = parked[i].error,
            .is_in_doubt = parked[i].is_doubted,
            .since_ms = parked[i].age_ms < now_ms ? now_ms - parked[i].age_ms : 0,
        };
        uid_to_text(&parked[i].name.uid, doubt->uid);
    }
}
