#include "engine/cron.h"

#include "base/assert.h"
#include <stdio.h>
#include <strings.h>

#define MINUTES_A_DAY 1440
#define FIELD_COUNT 5u

/* --- reading ------------------------------------------------------------------------------------------------------ */

struct field {
    const char *name;
    unsigned min;
    unsigned max;
    const char *words; /* of three letters each, the first for words_from; "" where there are none */
    unsigned words_from;
};

static const struct field fields[FIELD_COUNT] = {
    {"minute", 0, 59, "", 0},
    {"hour", 0, 23, "", 0},
    {"day of the month", 1, 31, "", 0},
    {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec", 1},
    {"day of the week", 0, 7, "sunmontuewedthufrisat", 0},
};

static const struct {
    struct bytes name;
    struct bytes meaning;
} nicknames[] = {
    {{(const uint8_t *)"@hourly", 7}, {(const uint8_t *)"0 * * * *", 9}},
    {{(const uint8_t *)"@daily", 6}, {(const uint8_t *)"0 0 * * *", 9}},
    {{(const uint8_t *)"@midnight", 9}, {(const uint8_t *)"0 0 * * *", 9}},
    {{(const uint8_t *)"@weekly", 7}, {(const uint8_t *)"0 0 * * 0", 9}},
    {{(const uint8_t *)"@monthly", 8}, {(const uint8_t *)"0 0 1 * *", 9}},
    {{(const uint8_t *)"@yearly", 7}, {(const uint8_t *)"0 0 1 1 *", 9}},
    {{(const uint8_t *)"@annually", 9}, {(const uint8_t *)"0 0 1 1 *", 9}},
};

/* Takes what stands before the first of `separators` off the front, and that separator too. */
static struct bytes take_until(struct bytes *rest, const char *separators, bool *has_more)
{
    size_t size = 0;
    while (size < rest->size && strchr(separators, rest->ptr[size]) == NULL)
        size++;
    struct bytes taken = bytes_make(rest->ptr, size);
    *has_more = size < rest->size;
    *rest = bytes_skip(*rest, *has_more ? size + 1 : size);
    return taken;
}

static bool fail_item(char reason[CRON_REASON_SIZE], const struct field *field, struct bytes item, const char *why)
{
    snprintf(reason, CRON_REASON_SIZE, "The %s field: '%.*s' %s.", field->name, (int)(item.size < 40 ? item.size : 40),
             (const char *)item.ptr, why);
    return false;
}

/* A number in the field's range, or one of its words. */
static bool read_value(const struct field *field, struct bytes text, unsigned *value, char reason[CRON_REASON_SIZE])
{
    for (unsigned i = 0; text.size == 3 && field->words[i * 3] != '\0'; i++)
        if (strncasecmp(field->words + (size_t)i * 3, (const char *)text.ptr, 3) == 0) {
            *value = field->words_from + i;
            return true;
        }
    while (text.size > 1 && text.ptr[0] == '0')
        text = bytes_skip(text, 1);
    uint64_t number;
    if (bytes_to_u64(text, &number) && number >= field->min && number <= field->max) {
        *value = (unsigned)number;
        return true;
    }
    char why[64];
    snprintf(why, sizeof(why), "is not from %u to %u%s", field->min, field->max,
             field->words[0] == '\0' ? "" : " nor a name");
    return fail_item(reason, field, text, why);
}

/* *, a value, or a range. */
static bool read_range(const struct field *field, struct bytes range, unsigned *first, unsigned *last,
                       char reason[CRON_REASON_SIZE])
{
    if (bytes_equal(range, BYTES("*"))) {
        *first = field->min;
        *last = field->max;
        return true;
    }
    bool has_end;
    struct bytes end = range;
    struct bytes begin = take_until(&end, "-", &has_end);
    if (!read_value(field, begin, first, reason))
        return false;
    *last = *first;
    if (has_end && !read_value(field, end, last, reason))
        return false;
    if (field->max == 7 && *last == 0 && *first > 0)
        *last = 7; /* fri-sun */
    return *first <= *last ? true : fail_item(reason, field, range, "ends before it begins");
}

/* One item of a field's list: its bits go into *bits. */
static bool read_item(const struct field *field, struct bytes item, uint64_t *bits, char reason[CRON_REASON_SIZE])
{
    bool has_step;
    struct bytes step_text = item;
    struct bytes range = take_until(&step_text, "/", &has_step);
    unsigned first, last;
    if (!read_range(field, range, &first, &last, reason))
        return false;
    uint64_t step = 1;
    if (has_step && (!bytes_to_u64(step_text, &step) || step == 0 || step > field->max))
        return fail_item(reason, field, item, "has a step that is not from 1 to the field's largest value");
    if (has_step && first == last && range.ptr[0] != '*')
        return fail_item(reason, field, item, "has a step but is no range; write * or first-last before the /");
    for (uint64_t value = first; value <= last; value += step)
        *bits |= UINT64_C(1) << value;
    return true;
}

static bool read_field(const struct field *field, struct bytes text, uint64_t *bits, char reason[CRON_REASON_SIZE])
{
    *bits = 0;
    bool has_more = true;
    while (has_more)
        if (!read_item(field, take_until(&text, ",", &has_more), bits, reason))
            return false;
    return true;
}

/* Cuts the text at blanks; false if it has not five fields. */
static bool cut(struct bytes text, struct bytes parts[FIELD_COUNT], char reason[CRON_REASON_SIZE])
{
    unsigned count = 0;
    bool has_more = text.size > 0;
    while (has_more) {
        struct bytes part = take_until(&text, " \t", &has_more);
        if (part.size == 0)
            continue;
        if (count < FIELD_COUNT)
            parts[count] = part;
        count++;
    }
    if (count != FIELD_COUNT)
        snprintf(reason, CRON_REASON_SIZE,
                 "It has %u fields; it must have 5: minute, hour, day of the month, month, day of the week.", count);
    return count == FIELD_COUNT;
}

static bool is_plain(struct bytes text, char reason[CRON_REASON_SIZE])
{
    bool is_good = text.size <= CRON_SIZE_MAX;
    for (size_t i = 0; is_good && i < text.size; i++)
        is_good = text.ptr[i] == '\t' || (text.ptr[i] >= ' ' && text.ptr[i] <= '~');
    if (!is_good)
        snprintf(reason, CRON_REASON_SIZE, "It must be at most %u ASCII characters.", CRON_SIZE_MAX);
    return is_good;
}

static bool spell_nickname(struct bytes *text, char reason[CRON_REASON_SIZE])
{
    if (text->size == 0 || text->ptr[0] != '@')
        return true;
    for (size_t i = 0; i < ARRAY_LENGTH(nicknames); i++)
        if (bytes_equal(*text, nicknames[i].name)) {
            *text = nicknames[i].meaning;
            return true;
        }
    snprintf(reason, CRON_REASON_SIZE,
             "Of the names with an @ there are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually.");
    return false;
}

bool cron_parse(struct bytes text, struct cron *cron, char reason[CRON_REASON_SIZE])
{
    struct bytes parts[FIELD_COUNT];
    uint64_t bits[FIELD_COUNT];
    if (!is_plain(text, reason) || !spell_nickname(&text, reason) || !cut(text, parts, reason))
        return false;
    for (unsigned i = 0; i < FIELD_COUNT; i++)
        if (!read_field(&fields[i], parts[i], &bits[i], reason))
            return false;
    *cron = (struct cron){
        .minutes = bits[0],
        .hours = (uint32_t)bits[1],
        .days = (uint32_t)bits[2],
        .months = (uint32_t)bits[3],
        .weekdays = (uint32_t)((bits[4] | bits[4] >> 7) & 0x7f),
        .is_every_hour = parts[1].ptr[0] == '*',
        .is_either_day = parts[2].ptr[0] != '*' && parts[4].ptr[0] != '*',
    };
    return true;
}

/* --- the calendar ------------------------------------------------------------------------------------------------- */

struct date {
    unsigned month; /* 1 to 12 */
    unsigned day;   /* 1 to 31 */
    unsigned weekday;
};

/* Source: Howard Hinnant, "chrono-compatible low-level date algorithms", civil_from_days. Years of the algorithm begin
 * in March, so that a leap day is the last of its year. */
static struct date date_of(int64_t day)
{
    int64_t shifted = day + 719468; /* since 0000-03-01 */
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    unsigned of_era = (unsigned)(shifted - era * 146097);
    unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year + year / 4 - year / 100);
    unsigned month = (5 * of_year + 2) / 153; /* 0: March */
    return (struct date){.month = month < 10 ? month + 3 : month - 9,
                         .day = of_year - (153 * month + 2) / 5 + 1,
                         .weekday = (unsigned)(((day + 4) % 7 + 7) % 7)}; /* 1970-01-01 was a Thursday */
}

static bool day_fits(const struct cron *cron, int64_t day)
{
    struct date date = date_of(day);
    if ((cron->months >> date.month & 1) == 0)
        return false;
    bool fits_month = (cron->days >> date.day & 1) != 0;
    bool fits_week = (cron->weekdays >> date.weekday & 1) != 0;
    return cron->is_either_day ? fits_month || fits_week : fits_month && fits_week;
}

/* The first minute of a day from `minute` on, or MINUTES_A_DAY. */
static unsigned next_of_day(const struct cron *cron, unsigned minute)
{
    for (; minute < MINUTES_A_DAY; minute++)
        if ((cron->hours >> minute / 60 & 1) == 0)
            minute += 59 - minute % 60;
        else if ((cron->minutes >> minute % 60 & 1) != 0)
            return minute;
    return MINUTES_A_DAY;
}

int64_t cron_next_minute(const struct cron *cron, int64_t minute, int64_t end)
{
    ASSERT(minute >= 0);
    while (minute < end) {
        int64_t day = minute / MINUTES_A_DAY;
        unsigned found = day_fits(cron, day) ? next_of_day(cron, (unsigned)(minute % MINUTES_A_DAY)) : MINUTES_A_DAY;
        minute = day * MINUTES_A_DAY + found;
        if (found < MINUTES_A_DAY)
            break;
    }
    return minute < end ? minute : end;
}
