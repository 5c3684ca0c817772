/* Decisions (docs/internals/architecture.md, "Decide and apply"). Schedules. */
#ifndef TALLY_CORE_SCHEDULES_DECIDE_SCHEDULE_H
#define TALLY_CORE_SCHEDULES_DECIDE_SCHEDULE_H

#include "core/core.h"
#include "core/schedules/schedule.h"

/* Puts a schedule under its name, in place of the one that had it. `next_at_ms` is the first time after now that the
 * spec names; SCHEDULE_NEVER: there is none. The spec's queue exists, and the group is given if that is a FIFO queue.
 * ERROR_OVER_LIMIT: there are SCHEDULES_MAX. */
enum error decide_put_schedule(struct core *core, struct bytes name, const struct schedule_spec *spec,
                               uint64_t next_at_ms, const struct schedule **schedule);

/* A paused schedule is not due; what it would have done meanwhile is not made up for. `next_at_ms` as above. */
void decide_pause_schedule(struct core *core, const struct schedule *schedule);
void decide_resume_schedule(struct core *core, const struct schedule *schedule, uint64_t next_at_ms);

/* Fires a schedule that is due. `next_at_ms` is the first time that its spec names after
 * what schedule_next_due() said. */
void decide_fire_schedule(struct core *core, const struct schedule *schedule, uint64_t next_at_ms);

/* Sends the schedule's message once more, whether it is due, paused or neither; `id` is the message's. The schedule
 * stays as it is. The message has no deduplication id: who asks twice gets two, and no firing is taken for this one. */
void decide_fire_schedule_now(struct core *core, const struct schedule *schedule, uint8_t id[MESSAGE_ID_SIZE]);

void decide_delete_schedule(struct core *core, const struct schedule *schedule);

#endif
