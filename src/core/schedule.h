/* Schedules: a message at each time that a cron expression names. When a firing is due it is decided and logged together with
 * its message, so it happens once, also across restarts. When the next one is due is worked out by whoever runs the core (a
 * calendar knows time zones, the core does not) and stands in the event. */
#ifndef TALLY_CORE_SCHEDULE_H
#define TALLY_CORE_SCHEDULE_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/heap.h"
#include "base/pool.h"
#include "base/table.h"

struct core;
struct core_writer;

struct schedules {
    struct pool schedules;
    struct table by_name;
    struct heap due;
    uint64_t number;
};

void schedule_init(struct schedules *schedules);
void schedule_deinit(struct schedules *schedules);

/* Fires up to `portion` schedules that are due. For decide_due(). */
void schedule_fire_due(struct core *core, unsigned portion);

/* When the next one is due, or UINT64_MAX. */
uint64_t schedule_due_ms(const struct core *core);

void schedule_encode(const struct core *core, struct core_writer *writer);
bool schedule_decode(struct core *core, struct cursor *cursor);
void schedule_check(const struct core *core);

#endif
