/* The calendar: at which instant a cron expression is next due in a time zone, daylight-saving changes included
 * (docs/decisions/0007-cron-and-time-zones.md). Zones come from the system's time-zone data.
 *
 * A local time that a change skips is due at the first instant after it; one that comes twice is due once, the first time. An
 * expression whose hour begins with a * means real time instead: nothing is made up for, and both are due. */
#ifndef TALLY_API_CALENDAR_H
#define TALLY_API_CALENDAR_H

#include "base/bytes.h"

#define CALENDAR_NEVER UINT64_MAX
#define CALENDAR_ZONE_SIZE_MAX 64u

/* How far calendar_next() looks: a leap day comes back within eight years, over 2100 too. */
#define CALENDAR_YEARS 8

struct calendar;

struct calendar *calendar_create(void);
void calendar_destroy(struct calendar *calendar);

/* Is it a zone of the time-zone data, like "UTC" or "Europe/Berlin"? */
bool calendar_knows(struct calendar *calendar, struct bytes zone);

/* The first time after `after_ms` (milliseconds since the epoch) at which the expression is due; CALENDAR_NEVER if there is none
 * within CALENDAR_YEARS, or if the zone or the expression is none. A pure function but for the time-zone data, which is
 * read once. `context` is a struct calendar: this is the core's core_next. */
uint64_t calendar_next(void *context, struct bytes expression, struct bytes zone, uint64_t after_ms);

#endif
