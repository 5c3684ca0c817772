/* A time zone: by how much its clocks are ahead of UTC, at any time. Made of a file of the system's time-zone data
 * (TZif): the changes it lists, and for what comes after them the rule at its end. Pure; the bytes come from whoever
 * reads files.
 *
 * Source: RFC 8536, the Time Zone Information Format; POSIX.1-2017, Base Definitions, 8.3, TZ. */
#ifndef TALLY_ENGINE_ZONE_H
#define TALLY_ENGINE_ZONE_H

#include "base/bytes.h"

/* A day of the year and a time of that day (which may lie days before or after it). */
struct zone_day {
    enum zone_day_kind { ZONE_DAY_OF_YEAR, ZONE_DAY_BUT_LEAP, ZONE_WEEKDAY } kind;
    unsigned month;   /* ZONE_WEEKDAY: 1 to 12 */
    unsigned week;    /* 1 to 5; 5: the last one */
    unsigned weekday; /* 0: Sunday */
    unsigned day;     /* of the year: 0 to 365; ZONE_DAY_BUT_LEAP: 1 to 365, February 29 is not counted */
    int64_t time_s;
};

/* The rule for all times after the last listed change. */
struct zone_rule {
    int64_t standard_s;
    bool has_summer;
    int64_t summer_s;
    struct zone_day summer_begins; /* in standard time */
    struct zone_day summer_ends;   /* in summer time */
};

struct zone_change {
    int64_t at_s;
    int64_t offset_s; /* from then on */
};

struct zone {
    struct zone_change *changes_owned; /* rising */
    size_t change_count;
    int64_t first_offset_s; /* before all of them */
    bool has_rule;
    struct zone_rule rule;
};

/* Reads a TZif file of version 2 or later that counts no leap seconds. False, with *zone untouched, if it is none. */
bool zone_init(struct zone *zone, struct bytes file);
void zone_deinit(struct zone *zone);

/* By how much the clocks are ahead of UTC at `time_s` (seconds since the epoch), and until when this holds at least;
 * INT64_MAX: for ever. O(log changes). */
int64_t zone_offset(const struct zone *zone, int64_t time_s, int64_t *until_s);

#endif
