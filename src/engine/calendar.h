/* The calendar: at which instant a cron expression is next due in a time zone, daylight-saving changes included
 * (docs/internals/decisions/0007-cron-and-time-zones.md). Zones come from the system's time-zone data.
 *
 * A local time that a change skips is due at the first instant after it; one that comes twice is due once, the first
 * time. An expression whose hour begins with a * means real time instead: a skipped time is not made up for, and a
 * repeated time is due twice. */
#ifndef TALLY_ENGINE_CALENDAR_H
#define TALLY_ENGINE_CALENDAR_H

#include "base/bytes.h"

#define CALENDAR_NEVER UINT64_MAX
#define CALENDAR_ZONE_SIZE_MAX 64u

/* How far calendar_next() looks: a leap day comes back within eight years, over 2100 too. */
#define CALENDAR_YEARS 8

struct calendar;

/* `folder` holds the time-zone data; NULL: the system's. Borrowed. */
struct calendar *calendar_create(const char *folder);
void calendar_destroy(struct calendar *calendar);
const char *calendar_folder(const struct calendar *calendar);

/* Can the zone be read: is it one of the time-zone data, like "UTC" or "Europe/Berlin"? One that was read is kept; one
 * that could not be read is looked for again each time. */
bool calendar_knows(struct calendar *calendar, struct bytes zone);

/* *next_ms: the first time after `after_ms` (milliseconds since the epoch) at which the expression is due;
 * CALENDAR_NEVER if there is none within CALENDAR_YEARS, or if the expression is none. False, with *next_ms
 * untouched: the zone can't be read. */
bool calendar_next(struct calendar *calendar, struct bytes expression, struct bytes zone, uint64_t after_ms,
                   uint64_t *next_ms);

#endif
