#include "engine/zone.h"

#include "base/assert.h"
#include "base/cursor.h"
#include "base/memory.h"
#include <stdlib.h>

#define DAY_S INT64_C(86400)
#define HEADER_REST_SIZE 15u /* after magic and version */
#define OFFSET_MAX_S (26 * 3600)
#define TYPES_MAX 256u
/* Changes lie between the Big Bang, as the format's authors have it, and as long after 1970. */
#define CHANGE_MAX_S (INT64_C(1) << 59)

/* --- the rule ----------------------------------------------------------------------------------------------------- */

/* Days from 1970-01-01 to the first of a month. Source: Howard Hinnant, "chrono-compatible low-level date algorithms",
 * days_from_civil. */
static int64_t day_of_month_begin(int64_t year, unsigned month)
{
    year -= month <= 2;
    int64_t era = year / 400;
    unsigned of_era = (unsigned)(year - era * 400);
    unsigned of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Seconds since the epoch, as if its clock were UTC. */
static int64_t local_time_of(const struct zone_day *rule, int64_t year)
{
    int64_t day = day_of_month_begin(year, 1);
    if (rule->kind == ZONE_DAY_OF_YEAR)
        return (day + rule->day) * DAY_S + rule->time_s;
    if (rule->kind == ZONE_DAY_BUT_LEAP)
        return (day + rule->day - 1 + (is_leap(year) && rule->day >= 60)) * DAY_S + rule->time_s;
    int64_t first = day_of_month_begin(year, rule->month);
    int64_t end = rule->month == 12 ? day_of_month_begin(year + 1, 1) : day_of_month_begin(year, rule->month + 1);
    unsigned weekday = (unsigned)(((first + 4) % 7 + 7) % 7); /* 1970-01-01 was a Thursday */
    day = first + (rule->weekday + 7 - weekday) % 7 + (int64_t)(rule->week - 1) * 7;
    return (day < end ? day : day - 7) * DAY_S + rule->time_s;
}

static int64_t offset_by_rule(const struct zone_rule *rule, int64_t time_s, int64_t *until_s)
{
    *until_s = INT64_MAX;
    if (!rule->has_summer)
        return rule->standard_s;
    int64_t year = 1970 + time_s / 31556952; /* at most a day off, around New Year */
    struct zone_change changes[6];
    unsigned count = 0;
    for (int64_t other = year - 1; other <= year + 1; other++) {
        struct zone_change both[2] = {
            {local_time_of(&rule->summer_begins, other) - rule->standard_s, rule->summer_s},
            {local_time_of(&rule->summer_ends, other) - rule->summer_s, rule->standard_s},
        };
        for (unsigned i = 0; i < 2; i++) {
            unsigned index = count++;
            for (; index > 0 && changes[index - 1].at_s > both[i].at_s; index--)
                changes[index] = changes[index - 1];
            changes[index] = both[i];
        }
    }
    int64_t offset_s = rule->standard_s;
    for (unsigned i = 0; i < count; i++) {
        if (changes[i].at_s > time_s) {
            *until_s = changes[i].at_s;
            break;
        }
        offset_s = changes[i].offset_s;
    }
    return offset_s;
}

/* --- reading the rule --------------------------------------------------------------------------------------------- */

/* Reads a rule's text from the front; a bad character fails the cursor. */
static bool has_next(const struct cursor *text, char character)
{
    return text->rest.size > 0 && text->rest.ptr[0] == (uint8_t)character;
}

static bool take(struct cursor *text, char character)
{
    bool is_there = has_next(text, character);
    if (is_there)
        (void)cursor_u8(text);
    return is_there;
}

static void expect(struct cursor *text, char character)
{
    if (!take(text, character))
        cursor_fail(text);
}

static unsigned read_number(struct cursor *text, unsigned min, unsigned max)
{
    unsigned number = 0, digits = 0;
    for (; text->rest.size > 0 && text->rest.ptr[0] >= '0' && text->rest.ptr[0] <= '9' && digits < 4; digits++)
        number = number * 10 + (cursor_u8(text) - '0');
    if (digits == 0 || number < min || number > max)
        cursor_fail(text);
    return number;
}

/* [+-]hh[:mm[:ss]] */
static int64_t read_time(struct cursor *text, unsigned hours_max)
{
    int64_t sign = take(text, '-') ? -1 : 1;
    if (sign > 0)
        (void)take(text, '+');
    int64_t time_s = (int64_t)read_number(text, 0, hours_max) * 3600;
    if (take(text, ':'))
        time_s += (int64_t)read_number(text, 0, 59) * 60;
    if (take(text, ':'))
        time_s += read_number(text, 0, 59);
    return sign * time_s;
}

/* Three letters or more, or anything between < and >. */
static void skip_name(struct cursor *text)
{
    if (take(text, '<')) {
        while (text->rest.size > 0 && !has_next(text, '>'))
            (void)cursor_u8(text);
        expect(text, '>');
        return;
    }
    unsigned size = 0;
    for (; text->rest.size > 0 && ((text->rest.ptr[0] | 0x20) >= 'a' && (text->rest.ptr[0] | 0x20) <= 'z'); size++)
        (void)cursor_u8(text);
    if (size < 3)
        cursor_fail(text);
}

/* ,Mm.w.d  ,Jn  ,n  with an optional /time */
static struct zone_day read_day(struct cursor *text)
{
    struct zone_day day = {.kind = ZONE_DAY_OF_YEAR, .time_s = 7200};
    expect(text, ',');
    if (take(text, 'M')) {
        day.kind = ZONE_WEEKDAY;
        day.month = read_number(text, 1, 12);
        expect(text, '.');
        day.week = read_number(text, 1, 5);
        expect(text, '.');
        day.weekday = read_number(text, 0, 6);
    } else if (take(text, 'J')) {
        day.kind = ZONE_DAY_BUT_LEAP;
        day.day = read_number(text, 1, 365);
    } else {
        day.day = read_number(text, 0, 365);
    }
    if (take(text, '/'))
        day.time_s = read_time(text, 167);
    return day;
}

/* Offsets stand there as POSIX has them: positive is west. */
static bool read_rule(struct bytes line, struct zone_rule *rule)
{
    struct cursor text = cursor_make(line);
    *rule = (struct zone_rule){0};
    skip_name(&text);
    rule->standard_s = -read_time(&text, 24);
    if (text.rest.size > 0) {
        rule->has_summer = true;
        rule->summer_s = rule->standard_s + 3600;
        skip_name(&text);
        if (!has_next(&text, ','))
            rule->summer_s = -read_time(&text, 24);
        rule->summer_begins = read_day(&text);
        rule->summer_ends = read_day(&text);
    }
    return cursor_is_done(&text);
}

/* --- reading the file --------------------------------------------------------------------------------------------- */

struct counts {
    uint32_t utc, standard, leap, change, type, letter;
};

static uint32_t big_u32(struct cursor *cursor)
{
    uint32_t value = (uint32_t)cursor_u8(cursor) << 24;
    value |= (uint32_t)cursor_u8(cursor) << 16;
    value |= (uint32_t)cursor_u8(cursor) << 8;
    return value | cursor_u8(cursor);
}

static int64_t big_i64(struct cursor *cursor)
{
    uint64_t high = big_u32(cursor);
    return (int64_t)(high << 32 | big_u32(cursor));
}

static struct counts read_header(struct cursor *cursor)
{
    if (!bytes_equal(cursor_bytes(cursor, 4), BYTES("TZif")) || cursor_u8(cursor) < '2')
        cursor_fail(cursor);
    (void)cursor_bytes(cursor, HEADER_REST_SIZE);
    struct counts counts = {.utc = big_u32(cursor)};
    counts.standard = big_u32(cursor);
    counts.leap = big_u32(cursor);
    counts.change = big_u32(cursor);
    counts.type = big_u32(cursor);
    counts.letter = big_u32(cursor);
    return counts;
}

static void skip_block(struct cursor *cursor, const struct counts *counts)
{
    (void)cursor_bytes(cursor, (size_t)counts->change * 5 + (size_t)counts->type * 6 + counts->letter +
                                   (size_t)counts->leap * 8 + counts->standard + counts->utc);
}

/* The block's times, the type of each, and the types' offsets. */
static bool read_changes(struct cursor *cursor, const struct counts *counts, struct zone *zone)
{
    struct cursor times = cursor_make(cursor_bytes(cursor, (size_t)counts->change * 8));
    struct cursor types = cursor_make(cursor_bytes(cursor, counts->change));
    int64_t offsets_s[TYPES_MAX];
    if (cursor->is_failed || counts->leap != 0 || counts->type == 0 || counts->type > TYPES_MAX)
        return false;
    for (uint32_t i = 0; i < counts->type; i++) {
        offsets_s[i] = (int32_t)big_u32(cursor);
        (void)cursor_bytes(cursor, 2); /* is it summer time, and its abbreviation */
        if (offsets_s[i] > OFFSET_MAX_S || offsets_s[i] < -OFFSET_MAX_S)
            return false;
    }
    (void)cursor_bytes(cursor, (size_t)counts->letter + counts->standard + counts->utc);
    if (cursor->is_failed)
        return false;
    zone->first_offset_s = offsets_s[0];
    zone->change_count = counts->change;
    zone->changes_owned = memory_allocate_zeroed((counts->change + 1) * sizeof(*zone->changes_owned));
    for (uint32_t i = 0; i < counts->change; i++) {
        uint8_t type = cursor_u8(&types);
        int64_t at_s = big_i64(&times);
        zone->changes_owned[i] = (struct zone_change){.at_s = at_s};
        if (at_s > CHANGE_MAX_S || at_s < -CHANGE_MAX_S)
            return false;
        if (type >= counts->type || (i > 0 && zone->changes_owned[i].at_s <= zone->changes_owned[i - 1].at_s))
            return false;
        zone->changes_owned[i].offset_s = offsets_s[type];
    }
    return true;
}

/* The line at the end. It may be empty: then the last listed change is the last one ever. */
static bool read_footer(struct cursor *cursor, struct zone *zone)
{
    expect(cursor, '\n');
    if (cursor->is_failed || cursor->rest.size == 0)
        return false;
    const uint8_t *end = memchr(cursor->rest.ptr, '\n', cursor->rest.size);
    if (end == NULL)
        return false;
    struct bytes line = bytes_make(cursor->rest.ptr, (size_t)(end - cursor->rest.ptr));
    zone->has_rule = line.size > 0;
    return line.size == 0 || read_rule(line, &zone->rule);
}

bool zone_init(struct zone *zone, struct bytes file)
{
    struct cursor cursor = cursor_make(file);
    struct zone read = {0};
    struct counts first = read_header(&cursor);
    skip_block(&cursor, &first);
    struct counts counts = read_header(&cursor);
    if (!read_changes(&cursor, &counts, &read) || !read_footer(&cursor, &read)) {
        zone_deinit(&read);
        return false;
    }
    *zone = read;
    return true;
}

void zone_deinit(struct zone *zone)
{
    free(zone->changes_owned);
}

int64_t zone_offset(const struct zone *zone, int64_t time_s, int64_t *until_s)
{
    size_t low = 0, high = zone->change_count; /* how many changes are over */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (zone->changes_owned[middle].at_s <= time_s)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == zone->change_count && zone->has_rule)
        return offset_by_rule(&zone->rule, time_s, until_s);
    *until_s = low == zone->change_count ? INT64_MAX : zone->changes_owned[low].at_s;
    return low == 0 ? zone->first_offset_s : zone->changes_owned[low - 1].offset_s;
}
