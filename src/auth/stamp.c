#include "auth/stamp.h"

#include "base/assert.h"
#include <stdio.h>

#define DAY_S INT64_C(86400)
#define YEAR_FIRST 1970u
#define YEAR_LAST 9999u

/* A date and a time of the Gregorian calendar, in UTC. */
struct civil {
    unsigned year, month, day, hour, minute, second;
};

/* Days from 0000-03-01 to the first of that month. Years begin in March, so that a leap day is the last of its year,
 * and five months have 153 days. */
static int64_t days_before_month(unsigned year, unsigned month)
{
    int64_t march_year = (int64_t)year - (month <= 2);
    int64_t march_month = (month + 9) % 12;
    return march_year * 365 + march_year / 4 - march_year / 100 + march_year / 400 + (march_month * 153 + 2) / 5;
}

static int64_t seconds_of(const struct civil *civil)
{
    int64_t days = days_before_month(civil->year, civil->month) - days_before_month(YEAR_FIRST, 1) + civil->day - 1;
    return days * DAY_S + civil->hour * 3600 + civil->minute * 60 + civil->second;
}

static unsigned days_in_month(unsigned year, unsigned month)
{
    unsigned next_year = year + month / 12, next_month = month % 12 + 1;
    return (unsigned)(days_before_month(next_year, next_month) - days_before_month(year, month));
}

static bool civil_is_valid(const struct civil *civil)
{
    return civil->year >= YEAR_FIRST && civil->year <= YEAR_LAST && civil->month >= 1 && civil->month <= 12 &&
           civil->day >= 1 && civil->day <= days_in_month(civil->year, civil->month) && civil->hour <= 23 &&
           civil->minute <= 59 && civil->second <= 60; /* a leap second */
}

static struct stamp stamp_of_civil(const struct civil *civil)
{
    struct stamp stamp = {.s = seconds_of(civil)};
    char text[STAMP_SIZE + 1];
    snprintf(text, sizeof(text), "%04u%02u%02uT%02u%02u%02uZ", civil->year % 10000, civil->month % 100,
             civil->day % 100, civil->hour % 100, civil->minute % 100, civil->second % 100);
    memcpy(stamp.text, text, STAMP_SIZE);
    return stamp;
}

/* The number that `count` digits at `at` write; UINT32_MAX, which is in no range, if one of them is none. */
static unsigned digits(const uint8_t *at, unsigned count)
{
    unsigned value = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned digit = (unsigned)at[i] - '0';
        if (digit > 9)
            return UINT32_MAX;
        value = value * 10 + digit;
    }
    return value;
}

bool stamp_read(struct bytes text, struct stamp *stamp)
{
    if (text.size != STAMP_SIZE || text.ptr[8] != 'T' || text.ptr[15] != 'Z')
        return false;
    const uint8_t *at = text.ptr;
    struct civil civil = {digits(at, 4),     digits(at + 4, 2),  digits(at + 6, 2),
                          digits(at + 9, 2), digits(at + 11, 2), digits(at + 13, 2)};
    if (!civil_is_valid(&civil))
        return false;
    stamp->s = seconds_of(&civil);
    memcpy(stamp->text, text.ptr, STAMP_SIZE);
    return true;
}

/* 1 to 12, or 0. */
static unsigned month_of(const uint8_t *name)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (unsigned i = 0; i < 12; i++)
        if (memcmp(names + (size_t)3 * i, name, 3) == 0)
            return i + 1;
    return 0;
}

bool stamp_read_http_date(struct bytes text, struct stamp *stamp)
{
    static const char form[] = "Xxx, 00 Xxx 0000 00:00:00 GMT";
    if (text.size != sizeof(form) - 1)
        return false;
    for (size_t i = 0; i < text.size; i++)
        if (form[i] != '0' && form[i] != 'X' && form[i] != 'x' && text.ptr[i] != (uint8_t)form[i])
            return false;
    const uint8_t *at = text.ptr;
    struct civil civil = {digits(at + 12, 4), month_of(at + 8),   digits(at + 5, 2),
                          digits(at + 17, 2), digits(at + 20, 2), digits(at + 23, 2)};
    if (!civil_is_valid(&civil))
        return false;
    *stamp = stamp_of_civil(&civil);
    return true;
}

struct stamp stamp_of(int64_t s)
{
    ASSERT(s >= 0);
    int64_t days = s / DAY_S;
    struct civil civil = {.year = YEAR_FIRST + (unsigned)(days / 366), .month = 1, .day = 1};
    while (civil.year < YEAR_LAST && seconds_of(&(struct civil){civil.year + 1, 1, 1, 0, 0, 0}) <= s)
        civil.year++;
    while (civil.month < 12 && seconds_of(&(struct civil){civil.year, civil.month + 1, 1, 0, 0, 0}) <= s)
        civil.month++;
    int64_t rest = s - seconds_of(&civil);
    civil.day += (unsigned)(rest / DAY_S);
    civil.hour = (unsigned)(rest % DAY_S / 3600);
    civil.minute = (unsigned)(rest % 3600 / 60);
    civil.second = (unsigned)(rest % 60);
    return stamp_of_civil(&civil);
}
