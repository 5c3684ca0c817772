/* Cron expressions: five fields that say at which minutes of the local calendar something happens. Pure: knows no time
 * zone and no clock.
 *
 *     minute 0-59, hour 0-23, day of the month 1-31, month 1-12 or JAN-DEC, day of the week 0-7 or SUN-SAT (0 and 7:
 *     Sunday)
 *
 * A field is a list, by commas, of *, a value, a range a-b; with /n behind a * or a range: every n-th of it. Where both
 * day fields are restricted (neither begins with a *), a day that fits either of them will do. @hourly, @daily
 * (@midnight), @weekly, @monthly and @yearly (@annually) stand for what they say. Source: crontab(5) of Vixie cron. */
#ifndef TALLY_ENGINE_CRON_H
#define TALLY_ENGINE_CRON_H

#include "base/bytes.h"

#define CRON_SIZE_MAX 256u
#define CRON_REASON_SIZE 160u

/* A set bit: the value is named. */
struct cron {
    uint64_t minutes;
    uint32_t hours;
    uint32_t days;
    uint32_t months;
    uint32_t weekdays;
    /* the hour field begins with a *: such an expression means real time, not the clock on the wall */
    bool is_every_hour;
    bool is_either_day;
};

/* False, with *cron untouched and the reason in words for people, NUL-terminated, if the text is no cron expression. */
bool cron_parse(struct bytes text, struct cron *cron, char reason[CRON_REASON_SIZE]);

/* The first minute from `minute` on, and before `end`, that the expression names; `end` if there is none. Both are
 * minutes since 1970-01-01 00:00 of the local calendar. O(days between). */
int64_t cron_next_minute(const struct cron *cron, int64_t minute, int64_t end);

#endif
