#include "engine/calendar.h"

#include "base/memory.h"
#include "engine/cron.h"
#include "engine/zone.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define SYSTEM_FOLDER "/usr/share/zoneinfo"
#define ZONE_FILE_SIZE_MAX 65536u /* the largest zone file has about 4 KB */
#define DAY_S INT64_C(86400)

/* The year 9999. Later times don't fit the arithmetic, and nobody needs them. */
#define LATEST_S INT64_C(253370764800)

struct named_zone {
    struct bytes name_owned;
    struct zone zone;
};

/* The zones asked for so far, few in practice. */
struct calendar {
    const char *folder;
    struct named_zone *zones_owned;
    size_t count;
};

struct calendar *calendar_create(const char *folder)
{
    struct calendar *calendar = memory_allocate(sizeof(*calendar));
    *calendar = (struct calendar){.folder = folder == NULL ? SYSTEM_FOLDER : folder};
    return calendar;
}

const char *calendar_folder(const struct calendar *calendar)
{
    return calendar->folder;
}

void calendar_destroy(struct calendar *calendar)
{
    for (size_t i = 0; i < calendar->count; i++) {
        free((void *)calendar->zones_owned[i].name_owned.ptr);
        zone_deinit(&calendar->zones_owned[i].zone);
    }
    free(calendar->zones_owned);
    free(calendar);
}

/* --- zones -------------------------------------------------------------------------------------------------------- */

/* Letters, digits, _ + - and single slashes between them: no way out of the folder, and no hidden file in it. */
static bool is_zone_name(struct bytes name)
{
    if (name.size == 0 || name.size > CALENDAR_ZONE_SIZE_MAX)
        return false;
    for (size_t i = 0; i < name.size; i++) {
        uint8_t character = name.ptr[i];
        bool is_letter = (character | 0x20) >= 'a' && (character | 0x20) <= 'z';
        bool is_digit = character >= '0' && character <= '9';
        bool is_slash = character == '/' && i > 0 && name.ptr[i - 1] != '/' && i + 1 < name.size;
        if (!is_letter && !is_digit && !is_slash && character != '_' && character != '+' && character != '-')
            return false;
    }
    return true;
}

static bool load_zone(const struct calendar *calendar, struct bytes name, struct zone *zone)
{
    char path[PATH_MAX];
    int size_asked = snprintf(path, sizeof(path), "%s/%.*s", calendar->folder, BYTES_FORMAT(name));
    FILE *file = size_asked < (int)sizeof(path) ? fopen(path, "rbe") : NULL;
    if (file == NULL)
        return false;
    uint8_t *content_owned = memory_allocate(ZONE_FILE_SIZE_MAX);
    size_t size = fread(content_owned, 1, ZONE_FILE_SIZE_MAX, file); /* of a folder: 0 */
    fclose(file);
    bool is_zone = zone_init(zone, bytes_make(content_owned, size));
    free(content_owned);
    return is_zone;
}

/* The zone, or NULL if there is none of that name. Borrowed until the next call. */
static const struct zone *find_zone(struct calendar *calendar, struct bytes name)
{
    for (size_t i = 0; i < calendar->count; i++)
        if (bytes_equal(calendar->zones_owned[i].name_owned, name))
            return &calendar->zones_owned[i].zone;
    struct zone zone;
    if (!is_zone_name(name) || !load_zone(calendar, name, &zone))
        return NULL;
    calendar->zones_owned =
        memory_resize(calendar->zones_owned, (calendar->count + 1) * sizeof(*calendar->zones_owned));
    struct named_zone *named = &calendar->zones_owned[calendar->count++];
    *named = (struct named_zone){.name_owned = memory_duplicate(name), .zone = zone};
    return &named->zone;
}

bool calendar_knows(struct calendar *calendar, struct bytes zone)
{
    return find_zone(calendar, zone) != NULL;
}

/* Some time during which the clocks are not changed. */
struct span {
    int64_t start_s;
    int64_t end_s;
    int64_t offset_s;
};

static struct span span_from(const struct zone *zone, int64_t start_s, int64_t last_s)
{
    struct span span = {.start_s = start_s};
    span.offset_s = zone_offset(zone, start_s, &span.end_s);
    if (span.end_s > last_s)
        span.end_s = last_s;
    return span;
}

/* --- the next time ------------------------------------------------------------------------------------------------ */

static int64_t minute_from(int64_t local_s)
{
    return (local_s + 59) / 60;
}

/* The local time from which a span is to be searched for what is due after after_s. What clocks on the wall showed
 * before the span, up to shown_s, is over for an expression that names hours; and what they never showed, from shown_s
 * on, is still to be made up for. */
static int64_t search_from(const struct cron *cron, const struct span *span, int64_t after_s, int64_t shown_s)
{
    bool is_inside = after_s >= span->start_s;
    int64_t from_s = (is_inside ? after_s + 1 : span->start_s) + span->offset_s;
    if (cron->is_every_hour)
        return from_s;
    return !is_inside || shown_s > from_s ? shown_s : from_s;
}

static uint64_t next_of(const struct zone *zone, const struct cron *cron, int64_t after_s)
{
    int64_t last_s = after_s + CALENDAR_YEARS * 366 * DAY_S;
    struct span span = span_from(zone, after_s - 2 * DAY_S, last_s); /* a change repeats at most one day */
    int64_t shown_s = span.start_s + span.offset_s;
    while (span.start_s < last_s) {
        int64_t span_shown_s = span.end_s + span.offset_s;
        int64_t end = minute_from(span_shown_s);
        int64_t minute = span.end_s <= after_s + 1
                             ? end
                             : cron_next_minute(cron, minute_from(search_from(cron, &span, after_s, shown_s)), end);
        if (minute < end) {
            int64_t due_s = minute * 60 - span.offset_s;
            return (uint64_t)(due_s > span.start_s ? due_s : span.start_s) * 1000;
        }
        shown_s = span_shown_s > shown_s ? span_shown_s : shown_s;
        span = span_from(zone, span.end_s, last_s);
    }
    return CALENDAR_NEVER;
}

bool calendar_next(struct calendar *calendar, struct bytes expression, struct bytes zone_name, uint64_t after_ms,
                   uint64_t *next_ms)
{
    struct cron cron;
    char reason[CRON_REASON_SIZE];
    const struct zone *zone = find_zone(calendar, zone_name);
    if (zone == NULL)
        return false;
    int64_t after_s = after_ms / 1000 > (uint64_t)LATEST_S ? LATEST_S + 1 : (int64_t)(after_ms / 1000);
    bool is_any = after_s <= LATEST_S && cron_parse(expression, &cron, reason);
    *next_ms = is_any ? next_of(zone, &cron, after_s < 4 * DAY_S ? 4 * DAY_S : after_s) /* log time is no such date */
                      : CALENDAR_NEVER;
    return true;
}
