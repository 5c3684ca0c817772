/* Firings: asks the calendar when a due schedule will be due next, and fires it.
 *
 * A schedule waits while its time zone can't be read, and is tried again each minute. It waits a second while there is
 * no memory for its message. None of this is logged; the schedule's catch-up rule decides about a late firing. */
#ifndef TALLY_API_FIRINGS_H
#define TALLY_API_FIRINGS_H

#include "base/arena.h"
#include "base/error.h"
#include "core/schedules/schedule.h"

struct api;

struct firings {
    bool has_trouble; /* not yet reported to anybody */
    struct failure trouble;
    uint64_t unreadable_at_ms; /* when a schedule last waited for its time zone; 0: never */
};

/* Fires due schedules; a bounded number. For api_tick(). */
void firings_do_due(struct api *api, struct core *core);

/* How many due schedules wait because their time zone can't be read. O(schedules). */
uint64_t firings_count_waiting(const struct api *api);

/* When the schedule, which is not paused, will first be due after now. False: its time zone can't be read. */
bool firings_find_next(const struct api *api, const struct schedule_spec *spec, uint64_t *next_ms);

/* Why the schedule does not fire in time, or will not, in words; empty if it does. */
struct bytes firings_warning(const struct api *api, const struct schedule *schedule, struct arena *arena);

#endif
