/* When a cron expression is due in a time zone: over daylight-saving changes, and against the C library's idea of the
 * zone. */
#include "engine/calendar.h"
#include "engine/zone.h"
#include "support/scale.h"
#include "support/zones.h"

#include "random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct calendar *calendar;

static int open_calendar(void **state)
{
    (void)state;
    calendar = calendar_create(NULL);
    return 0;
}

static int close_calendar(void **state)
{
    (void)state;
    calendar_destroy(calendar);
    return 0;
}

/* "2026-03-29T00:00Z" as seconds. */
static int64_t utc(const char *text)
{
    struct tm tm = {0};
    assert_non_null(strptime(text, "%Y-%m-%dT%H:%MZ", &tm));
    return timegm(&tm);
}

static int64_t next_s(const char *cron, const char *zone, int64_t after_s)
{
    uint64_t next_ms;
    assert_true(
        calendar_next(calendar, bytes_from_string(cron), bytes_from_string(zone), (uint64_t)after_s * 1000, &next_ms));
    return next_ms == CALENDAR_NEVER ? -1 : (int64_t)(next_ms / 1000);
}

/* After `from`, the expression is due at these times, in this order, and at no others between them. */
static void assert_due(const char *cron, const char *zone, const char *from, const char *const *times, size_t count)
{
    int64_t at_s = utc(from);
    for (size_t i = 0; i < count; i++) {
        at_s = next_s(cron, zone, at_s);
        if (at_s != utc(times[i]))
            fail_msg("%s %s: %lld is not %s", cron, zone, (long long)at_s, times[i]);
    }
}
#define ASSERT_DUE(cron, zone, from, ...)                                                                              \
    assert_due(cron, zone, from, (const char *const[]){__VA_ARGS__},                                                   \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void a_time_that_summer_time_skips_is_due_at_the_first_instant_after(void **state)
{
    (void)state;
    ASSERT_DUE("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00Z", "2026-03-28T01:30Z", "2026-03-29T01:00Z",
               "2026-03-30T00:30Z");
    ASSERT_DUE("30 2 * * *", "Europe/Berlin", "2027-03-27T12:00Z", "2027-03-28T01:00Z", "2027-03-29T00:30Z");
    ASSERT_DUE("15 2 * * *", "America/New_York", "2026-03-07T12:00Z", "2026-03-08T07:00Z", "2026-03-09T06:15Z");
    ASSERT_DUE("15 2 * * *", "America/New_York", "2028-03-11T12:00Z", "2028-03-12T07:00Z", "2028-03-13T06:15Z");
    /* Several that are skipped, and one at that very instant, are one. */
    ASSERT_DUE("*/15 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T01:00Z", "2026-03-29T01:15Z");
}

static void a_time_that_comes_twice_is_due_once_the_first_time(void **state)
{
    (void)state;
    ASSERT_DUE("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z");
    ASSERT_DUE("0,30 2-3 * * *", "Europe/Berlin", "2027-10-30T12:00Z", "2027-10-31T00:00Z", "2027-10-31T00:30Z",
               "2027-10-31T02:00Z", "2027-10-31T02:30Z", "2027-11-01T01:00Z");
    ASSERT_DUE("30 1 * * *", "America/New_York", "2026-10-31T12:00Z", "2026-11-01T05:30Z", "2026-11-02T06:30Z");
    ASSERT_DUE("30 1 * * *", "America/New_York", "2029-11-03T12:00Z", "2029-11-04T05:30Z", "2029-11-05T06:30Z");
    /* Asked in the middle of the second time. */
    ASSERT_DUE("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10Z", "2026-10-26T01:30Z");
}

static void an_expression_for_every_hour_means_real_time(void **state)
{
    (void)state;
    ASSERT_DUE("30 * * * *", "Europe/Berlin", "2026-03-29T00:00Z", "2026-03-29T00:30Z", "2026-03-29T01:30Z");
    ASSERT_DUE("30 * * * *", "Europe/Berlin", "2026-10-24T23:00Z", "2026-10-24T23:30Z", "2026-10-25T00:30Z",
               "2026-10-25T01:30Z", "2026-10-25T02:30Z");
    ASSERT_DUE("0 */2 * * *", "Europe/Berlin", "2026-10-24T23:00Z", "2026-10-25T00:00Z", "2026-10-25T01:00Z",
               "2026-10-25T03:00Z");
}

static void half_an_hour_of_lord_howe_is_skipped_and_comes_twice(void **state)
{
    (void)state;
    /* 2026-10-04 02:00 +10:30 becomes 02:30 +11; 2026-04-05 02:00 +11 becomes 01:30 +10:30. */
    ASSERT_DUE("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z", "2026-10-03T15:30Z", "2026-10-04T15:15Z");
    ASSERT_DUE("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00Z", "2026-04-04T14:45Z", "2026-04-05T15:15Z");
    ASSERT_DUE("45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:40Z", "2026-04-04T14:45Z", "2026-04-04T15:15Z",
               "2026-04-04T16:15Z");
}

static void zones_need_no_whole_hours_and_no_summer_time(void **state)
{
    (void)state;
    ASSERT_DUE("0 9 * * *", "Asia/Kathmandu", "2026-11-20T00:00Z", "2026-11-20T03:15Z", "2026-11-21T03:15Z");
    ASSERT_DUE("0 0 29 2 *", "UTC", "2026-11-20T00:00Z", "2028-02-29T00:00Z", "2032-02-29T00:00Z");
    ASSERT_DUE("0 0 1 1 *", "Pacific/Kiritimati", "2026-11-20T00:00Z", "2026-12-31T10:00Z", "2027-12-31T10:00Z");
    ASSERT_DUE("@daily", "Etc/GMT+5", "2026-11-20T00:00Z", "2026-11-20T05:00Z");
}

static void a_whole_day_that_a_zone_left_out_is_made_up_for_once(void **state)
{
    (void)state;
    /* Samoa had no 2011-12-30. */
    ASSERT_DUE("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00Z", "2011-12-29T22:00Z", "2011-12-30T10:00Z",
               "2011-12-30T22:00Z");
}

static void what_never_comes_is_never_due(void **state)
{
    (void)state;
    assert_int_equal(next_s("0 0 30 2 *", "Europe/Berlin", utc("2026-11-20T00:00Z")), -1);
    assert_int_equal(next_s("nonsense", "UTC", 1700000000), -1);
    /* A leap day that is a Sunday: there may be none for 28 years, and who asks looks eight years ahead. */
    const int64_t sunday_s = utc("2032-02-29T00:00Z");
    const int64_t first_s = sunday_s - (int64_t)CALENDAR_YEARS * 366 * 86400;
    assert_int_equal(next_s("0 0 29 2 */7", "UTC", first_s), -1);
    assert_int_equal(next_s("0 0 29 2 */7", "UTC", first_s + 1), sunday_s);
    assert_int_equal(next_s("0 0 29 2 */7", "UTC", sunday_s - 1), sunday_s);
    assert_int_equal(next_s("0 0 29 2 */7", "UTC", sunday_s), -1);
    uint64_t next_ms = 5;
    assert_false(calendar_next(calendar, BYTES("* * * * *"), BYTES("Nowhere"), 1, &next_ms));
    assert_int_equal(next_ms, 5);
    assert_true(calendar_next(calendar, BYTES("* * * * *"), BYTES("UTC"), UINT64_MAX - 1, &next_ms));
    assert_true(next_ms == CALENDAR_NEVER);
}

static void only_names_of_the_time_zone_data_are_zones(void **state)
{
    (void)state;
    static const char *const good[] = {"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT-14"};
    static const char *const bad[] = {
        "",         "Europe/berlin", "Europe",       "Mars/Base",   "UTC-5",
        "+02:00",   "/etc/passwd",   "../passwd",    "leapseconds", "tzdata.zi",
        "zone.tab", "right/UTC",     "Europe//Rome", "UTC/",        "CET-1CEST,M3.5.0,M10.5.0/3"};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_true(calendar_knows(calendar, bytes_from_string(good[i])));
    /* Debian 13 keeps old names like this one in a package of its own, tzdata-legacy. */
    assert_int_equal(calendar_knows(calendar, bytes_from_string("EST5EDT")),
                     access("/usr/share/zoneinfo/EST5EDT", R_OK) == 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (calendar_knows(calendar, bytes_from_string(bad[i])))
            fail_msg("%s is no zone", bad[i]);
    assert_false(calendar_knows(calendar, bytes_make("UTC", 4)));
}

static void a_zone_that_could_not_be_read_is_looked_for_again_and_then_kept(void **state)
{
    (void)state;
    static const struct bytes every_day = BYTES("0 12 * * *"), somewhere = BYTES("Somewhere");
    struct zones zones;
    uint64_t next_ms = 0;
    zones_create(&zones);
    struct calendar *own = calendar_create(zones.folder);
    assert_string_equal(calendar_folder(own), zones.folder);
    assert_false(calendar_knows(own, somewhere));
    assert_false(calendar_next(own, every_day, somewhere, 1700000000000, &next_ms));
    zones_put(&zones);
    assert_true(calendar_next(own, every_day, somewhere, 1700000000000, &next_ms));
    assert_true(next_ms == 1700046000000); /* 2023-11-15 12:00 +01:00 */
    zones_take_away(&zones);
    assert_true(calendar_knows(own, somewhere));
    calendar_destroy(own);
    zones_destroy(&zones);
}

/* --- files made by hand ------------------------------------------------------------------------------------------- */

/* How many a block says it has, in the order of the header. */
struct block {
    uint32_t utc, standard, leap, change, type, letter;
};

/* A file of time-zone data: the block that is skipped, and the one that is read. */
struct made_zone {
    const char *magic; /* with the version; NULL: "TZif2" */
    struct block skipped;
    struct block block;
    int64_t at_s[3];
    uint8_t types[3];
    int32_t offsets_s[3]; /* those of other types are 0 */
    const char *end;
};

static uint8_t made_file[8192];
static size_t made_size;

static void put_number(uint64_t value, unsigned size)
{
    while (size-- > 0)
        made_file[made_size++] = (uint8_t)(value >> 8 * size);
}

static void put_header(const char *magic, const struct block *block)
{
    memcpy(made_file + made_size, magic == NULL ? "TZif2" : magic, 5);
    made_size += 20;
    const uint32_t counts[] = {block->utc, block->standard, block->leap, block->change, block->type, block->letter};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        put_number(counts[i], 4);
}

static bool make_zone(const struct made_zone *made, struct zone *zone)
{
    memset(made_file, 0xee, sizeof(made_file));
    made_size = 0;
    put_header(made->magic, &made->skipped);
    made_size += made->skipped.change * 5 + made->skipped.type * 6 + made->skipped.letter + made->skipped.leap * 8 +
                 made->skipped.standard + made->skipped.utc;
    put_header(made->magic, &made->block);
    for (uint32_t i = 0; i < made->block.change; i++)
        put_number((uint64_t)made->at_s[i], 8);
    for (uint32_t i = 0; i < made->block.change; i++)
        put_number(made->types[i], 1);
    for (uint32_t i = 0; i < made->block.type; i++) {
        put_number(i < 3 ? (uint32_t)made->offsets_s[i] : 0, 4);
        put_number(0xeeee, 2);
    }
    made_size += made->block.letter + made->block.leap * 12 + made->block.standard + made->block.utc;
    memcpy(made_file + made_size, made->end, strlen(made->end));
    made_size += strlen(made->end);
    return zone_init(zone, bytes_make(made_file, made_size));
}

static bool make_rule(const char *rule, struct zone *zone)
{
    char end[80];
    snprintf(end, sizeof(end), "\n%s\n", rule);
    return make_zone(&(struct made_zone){.block = {.type = 1}, .end = end}, zone);
}

static void a_rule_says_the_offset_and_the_instant_until_which_it_holds(void **state)
{
    (void)state;
    static const char never[] = "";
    static const struct {
        const char *rule;
        const char *at;
        int64_t offset_s;
        const char *until;
    } rows[] = {
        {"AAA3", "2026-01-01T00:00Z", -10800, never},
        {"azAZ+3", "2026-01-01T00:00Z", -10800, never},
        {"<+0330>-3:30", "2026-01-01T00:00Z", 12600, never},
        {"AAA-5:45:15", "2026-01-01T00:00Z", 20715, never},
        {"AAA-05:04:03", "2026-01-01T00:00Z", 18243, never},
        {"AAA24:59:59", "2026-01-01T00:00Z", -89999, never},
        {"AAA-24", "2026-01-01T00:00Z", 86400, never},
        /* The last Sunday of March at 2, an hour more; of October at 3 in summer time. */
        {"AAA0BBB,M3.5.0,M10.5.0/3", "2026-01-01T00:00Z", 0, "2026-03-29T02:00Z"},
        {"AAA0BBB,M3.5.0,M10.5.0/3", "2026-03-29T01:59Z", 0, "2026-03-29T02:00Z"},
        {"AAA0BBB,M3.5.0,M10.5.0/3", "2026-03-29T02:00Z", 3600, "2026-10-25T02:00Z"},
        {"AAA0BBB,M3.5.0,M10.5.0/3", "2026-10-25T02:00Z", 0, "2027-03-28T02:00Z"},
        {"AAA0BBB,M3.5.0,M10.5.0/3", "2026-12-31T23:59Z", 0, "2027-03-28T02:00Z"},
        {"AAA5BBB3:30,M3.2.0,M11.1.0", "2026-03-08T06:59Z", -18000, "2026-03-08T07:00Z"},
        {"AAA5BBB3:30,M3.2.0,M11.1.0", "2026-07-01T00:00Z", -12600, "2026-11-01T05:30Z"},
        {"AAA-1BBB-1:20:30,M3.2.0,M11.1.0/2:0:30", "2026-07-01T00:00Z", 4830, "2026-11-01T00:40Z"},
        /* In the south the year begins in summer. */
        {"AAA-10BBB,M10.1.0,M4.1.0/3", "2026-01-01T00:00Z", 39600, "2026-04-04T16:00Z"},
        {"AAA-10BBB,M10.1.0,M4.1.0/3", "2026-06-01T00:00Z", 36000, "2026-10-03T16:00Z"},
        /* Each weekday, each week; a fifth one that the month has not is the fourth. */
        {"AAA0BBB,M8.1.1/0,M8.1.6/1", "2026-08-01T00:00Z", 0, "2026-08-03T00:00Z"},
        {"AAA0BBB,M7.1.3/0,M8.1.6/1", "2026-07-01T00:00Z", 3600, "2026-08-01T00:00Z"},
        {"AAA0BBB,M2.5.6/0,M8.1.6/1", "2026-02-01T00:00Z", 0, "2026-02-28T00:00Z"},
        {"AAA0BBB,M2.4.0/0,M8.1.6/1", "2026-02-01T00:00Z", 0, "2026-02-22T00:00Z"},
        {"AAA0BBB,M2.5.2/0,M8.1.6/1", "2028-02-01T00:00Z", 0, "2028-02-29T00:00Z"},
        {"AAA0BBB,M2.5.1/0,M8.1.6/1", "2100-02-01T00:00Z", 0, "2100-02-22T00:00Z"},
        {"AAA0BBB,M6.3.4/0,M12.5.4/1", "2026-12-01T00:00Z", 3600, "2026-12-31T00:00Z"},
        {"AAA0BBB,M6.3.4/0,M12.5.5/1", "2026-12-01T00:00Z", 3600, "2026-12-25T00:00Z"},
        /* J counts no leap day, a number alone does, from 0. */
        {"AAA0BBB,J59,J60", "2027-01-01T00:00Z", 0, "2027-02-28T02:00Z"},
        {"AAA0BBB,J59,J60", "2027-02-28T02:00Z", 3600, "2027-03-01T01:00Z"},
        {"AAA0BBB,J59,J60", "2028-01-01T00:00Z", 0, "2028-02-28T02:00Z"},
        {"AAA0BBB,J59,J60", "2028-02-28T02:00Z", 3600, "2028-03-01T01:00Z"},
        {"AAA0BBB,J1/0,J365", "2028-06-01T00:00Z", 3600, "2028-12-31T01:00Z"},
        {"AAA0BBB,J59,J60", "2100-02-28T02:00Z", 3600, "2100-03-01T01:00Z"},
        {"AAA0BBB,58,59", "2027-01-01T00:00Z", 0, "2027-02-28T02:00Z"},
        {"AAA0BBB,58,59", "2027-02-28T02:00Z", 3600, "2027-03-01T01:00Z"},
        {"AAA0BBB,58,59", "2028-02-28T02:00Z", 3600, "2028-02-29T01:00Z"},
        {"AAA0BBB,0/0,365/1", "2028-06-01T00:00Z", 3600, "2028-12-31T00:00Z"},
        {"AAA0BBB,10/-1:30,J200/167", "2027-01-01T00:00Z", 0, "2027-01-10T22:30Z"},
        {"AAA0BBB,10/-1:30,J200/167", "2027-07-01T00:00Z", 3600, "2027-07-25T22:00Z"},
        {"AAA0BBB,10/+1,J200/+167:00", "2027-01-01T00:00Z", 0, "2027-01-11T01:00Z"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct zone zone;
        if (!make_rule(rows[i].rule, &zone))
            fail_msg("%s is a rule", rows[i].rule);
        int64_t until_s, offset_s = zone_offset(&zone, utc(rows[i].at), &until_s);
        int64_t expected_s = rows[i].until == never ? INT64_MAX : utc(rows[i].until);
        if (offset_s != rows[i].offset_s || until_s != expected_s)
            fail_msg("%s at %s: %lld until %lld, not %lld", rows[i].rule, rows[i].at, (long long)offset_s,
                     (long long)until_s, (long long)expected_s);
        zone_deinit(&zone);
    }
}

static void a_rule_that_posix_does_not_know_is_damaged(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "AA0",
        "A1A0",
        "@AAA0",
        "AA[A0",
        "AA`A0",
        "{AAA0",
        "<AAA0",
        "AAA",
        "AAA+",
        "AAA-+1",
        "AAA25",
        "AAA-25",
        "AAA0:60",
        "AAA0:0:60",
        "AAA0:",
        "AAA00001",
        "AAA0 ",
        "AAA/",
        "AAA:",
        "AAA0BBB",
        "AAA0BB,J1,J2",
        "AAA0BBB,J1",
        "AAA0BBB,J1,",
        "AAA0BBB25,J1,J2",
        "AAA0BBB,J0,J2",
        "AAA0BBB,J366,J2",
        "AAA0BBB,366,J2",
        "AAA0BBB,J1,J2,",
        "AAA0BBB,J1/168,J2",
        "AAA0BBB,J1/-168,J2",
        "AAA0BBB,J1/,J2",
        "AAA0BBB,J1/0:00:60,J2",
        "AAA0BBB,M0.1.0,J2",
        "AAA0BBB,M13.1.0,J2",
        "AAA0BBB,M3.0.0,J2",
        "AAA0BBB,M3.6.0,J2",
        "AAA0BBB,M3.1.7,J2",
        "AAA0BBB,M3-1.0,J2",
        "AAA0BBB,M3.1-0,J2",
        "AAA0BBB;J1,J2",
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        struct zone zone;
        if (make_rule(rules[i], &zone))
            fail_msg("%s is no rule", rules[i]);
    }
}

/* Counts of the skipped block are all different, so that each has its own size. */
static void a_list_says_the_offsets_between_its_changes(void **state)
{
    (void)state;
    struct made_zone made = {.skipped = {1, 2, 3, 4, 5, 6},
                             .block = {2, 1, 0, 3, 3, 7},
                             .at_s = {-(INT64_C(1) << 59), 1000, INT64_C(1) << 59},
                             .types = {1, 2, 1},
                             .offsets_s = {-26 * 3600, 26 * 3600, 7},
                             .end = "\n\n"};
    static const struct {
        int64_t at_s, offset_s, until_s;
    } rows[] = {
        {INT64_MIN, -26 * 3600, -(INT64_C(1) << 59)},
        {-(INT64_C(1) << 59) - 1, -26 * 3600, -(INT64_C(1) << 59)},
        {-(INT64_C(1) << 59), 26 * 3600, 1000},
        {999, 26 * 3600, 1000},
        {1000, 7, INT64_C(1) << 59},
        {(INT64_C(1) << 59) - 1, 7, INT64_C(1) << 59},
        {INT64_C(1) << 59, 26 * 3600, INT64_MAX},
        {INT64_MAX, 26 * 3600, INT64_MAX},
    };
    for (unsigned version = '2'; version <= '4'; version++) {
        const char magic[] = {'T', 'Z', 'i', 'f', (char)version};
        struct zone zone;
        made.magic = magic;
        assert_true(make_zone(&made, &zone));
        made.magic = NULL; /* it ends with this round */
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
            int64_t until_s;
            assert_int_equal(zone_offset(&zone, rows[i].at_s, &until_s), rows[i].offset_s);
            assert_int_equal(until_s, rows[i].until_s);
        }
        zone_deinit(&zone);
    }
    /* Behind the last change the rule holds, before it the list does. */
    made.end = "\nAAA3\n";
    struct zone zone;
    int64_t until_s;
    assert_true(make_zone(&made, &zone));
    assert_int_equal(zone_offset(&zone, INT64_C(1) << 59, &until_s), -10800);
    assert_int_equal(until_s, INT64_MAX);
    assert_int_equal(zone_offset(&zone, 999, &until_s), 26 * 3600);
    zone_deinit(&zone);
}

static void a_list_that_is_out_of_order_or_out_of_range_is_damaged(void **state)
{
    (void)state;
    const struct made_zone good = {.block = {.change = 2, .type = 2},
                                   .at_s = {1000, 1001},
                                   .types = {1, 0},
                                   .offsets_s = {3600, 7200},
                                   .end = "\n\n"};
    struct zone zone;
    assert_true(make_zone(&good, &zone));
    zone_deinit(&zone);
    struct made_zone most = good;
    most.block.type = 256;
    assert_true(make_zone(&most, &zone));
    zone_deinit(&zone);
    struct made_zone bad[16];
    for (size_t i = 0; i < 16; i++)
        bad[i] = good;
    bad[0].magic = "TZif1";
    bad[1].magic = "TZig2";
    bad[2].block.leap = 1;
    bad[3].block.type = 257;
    bad[4].block = (struct block){.type = 0};
    bad[5].offsets_s[1] = 26 * 3600 + 1;
    bad[6].offsets_s[1] = -26 * 3600 - 1;
    bad[7].at_s[0] = -(INT64_C(1) << 59) - 1;
    bad[8].at_s[1] = (INT64_C(1) << 59) + 1;
    bad[9].at_s[1] = 1000;
    bad[10].at_s[1] = 999;
    bad[11].types[1] = 2;
    bad[12].end = "";
    bad[13].end = "\n";
    bad[14].end = "\nAAA0";
    bad[15].end = "AAA0\n";
    for (size_t i = 0; i < 16; i++)
        if (make_zone(&bad[i], &zone))
            fail_msg("file %zu is no zone", i);
}

/* --- against the C library ---------------------------------------------------------------------------------------- */

/* Found by fuzzing: the rule behind it would have been asked for a year that does not fit a number. */
static void a_zone_whose_last_change_is_at_the_end_of_numbers_is_damaged(void **state)
{
    (void)state;
    static const uint8_t empty_block[44] = "TZif2";
    static const uint8_t header[44] = {'T', 'Z', 'i', 'f', '2', [35] = 1, [39] = 1};
    static const char footer[] = "\nAAA0BBB,J1,J200\n";
    for (unsigned high = 0x07; high <= 0x7f; high += 0x78) {
        uint8_t file[44 + 44 + 8 + 1 + 6 + sizeof(footer) - 1] = {0};
        memcpy(file, empty_block, 44);
        memcpy(file + 44, header, 44);
        memset(file + 88, 0xff, 8);
        file[88] = (uint8_t)high;
        memcpy(file + 44 + 44 + 8 + 1 + 6, footer, sizeof(footer) - 1);
        struct zone zone;
        bool is_sound = zone_init(&zone, bytes_make(file, sizeof(file)));
        assert_int_equal(is_sound, high == 0x07);
        if (is_sound) {
            int64_t until_s, same_until_s;
            int64_t offset_s = zone_offset(&zone, INT64_C(1) << 59, &until_s);
            assert_true(until_s > INT64_C(1) << 59);
            assert_int_equal(zone_offset(&zone, until_s - 1, &same_until_s), offset_s);
            assert_int_equal(same_until_s, until_s);
            zone_deinit(&zone);
        }
    }
}

static const char *const zones[] = {"Europe/Berlin",
                                    "America/New_York",
                                    "Australia/Lord_Howe",
                                    "Europe/Dublin",
                                    "Africa/Casablanca",
                                    "Asia/Kathmandu",
                                    "America/Santiago",
                                    "Pacific/Chatham",
                                    "America/Nuuk",
                                    "Asia/Gaza",
                                    "UTC",
                                    "Africa/Cairo",
                                    "Asia/Tehran",
                                    "Antarctica/Troll",
                                    "Pacific/Apia"};

static void set_zone(const char *zone)
{
    setenv("TZ", zone, 1);
    tzset();
}

static struct tm local_of(int64_t time_s)
{
    struct tm tm;
    time_t time = time_s;
    localtime_r(&time, &tm);
    return tm;
}

static void read_zone(const char *name, struct zone *zone)
{
    static uint8_t file[65536];
    char path[128];
    snprintf(path, sizeof(path), "/usr/share/zoneinfo/%s", name);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    size_t size = fread(file, 1, sizeof(file), stream);
    fclose(stream);
    assert_true(zone_init(zone, bytes_make(file, size)));
}

/* Also beyond 2037, where the files list no changes and their rule goes on. */
static void offsets_agree_with_the_c_library_until_2100(void **state)
{
    (void)state;
    for (size_t i = 0; i < scaled(sizeof(zones) / sizeof(*zones)); i++) {
        struct zone zone;
        read_zone(zones[i], &zone);
        set_zone(zones[i]);
        for (int64_t at_s = 86400; at_s < INT64_C(4102444800); at_s += 86400 + 1800) {
            int64_t until_s;
            if (zone_offset(&zone, at_s, &until_s) != local_of(at_s).tm_gmtoff || until_s <= at_s)
                fail_msg("%s at %lld", zones[i], (long long)at_s);
            if (until_s != INT64_MAX)
                assert_int_equal(local_of(until_s - 1).tm_gmtoff, zone_offset(&zone, at_s, &until_s));
        }
        zone_deinit(&zone);
    }
}

/* The rule at a file's end alone gives what the list before it gives. */
static void a_rule_goes_on_as_the_list_did(void **state)
{
    (void)state;
    static const char *const ruled[] = {"Europe/Berlin",    "America/New_York", "Australia/Lord_Howe", "Europe/Dublin",
                                        "America/Santiago", "Pacific/Chatham",  "America/Nuuk"};
    for (size_t i = 0; i < scaled(sizeof(ruled) / sizeof(*ruled)); i++) {
        struct zone zone;
        read_zone(ruled[i], &zone);
        set_zone(ruled[i]);
        zone.change_count = 0;
        for (int64_t at_s = INT64_C(1735689600); at_s < INT64_C(1900000000); at_s += 1800) {
            int64_t until_s;
            if (zone_offset(&zone, at_s, &until_s) != local_of(at_s).tm_gmtoff)
                fail_msg("%s at %lld", ruled[i], (long long)at_s);
        }
        zone_deinit(&zone);
    }
}

static void a_damaged_file_is_no_zone_or_some_zone(void **state)
{
    (void)state;
    static uint8_t file[65536];
    FILE *stream = fopen("/usr/share/zoneinfo/Australia/Lord_Howe", "rb");
    size_t size = fread(file, 1, sizeof(file), stream);
    fclose(stream);
    struct random random = {3};
    struct zone zone;
    for (size_t cut = 0; cut < size; cut++)
        assert_false(zone_init(&zone, bytes_make(file, cut)));
    for (unsigned round = 0; round < scaled(20000); round++) {
        size_t at = random_below(&random, (uint32_t)size);
        uint8_t was = file[at];
        file[at] = (uint8_t)random_u64(&random);
        if (zone_init(&zone, bytes_make(file, size))) {
            int64_t until_s;
            (void)zone_offset(&zone, INT64_C(1700000000) + random_below(&random, 1u << 31), &until_s);
            zone_deinit(&zone);
        }
        file[at] = was;
    }
}

/* A field as text and as the values it names, made together. */
struct drawn {
    char text[5][24];
    bool names[5][64];
    bool is_star[5];
};

static void draw_field(struct random *random, struct drawn *drawn, unsigned field, unsigned min, unsigned max)
{
    char *text = drawn->text[field];
    unsigned first = min + random_below(random, max - min + 1), second = min + random_below(random, max - min + 1);
    unsigned low = first < second ? first : second, high = first < second ? second : first;
    unsigned step = 1, kind = random_below(random, 4);
    drawn->is_star[field] = kind == 0 || (kind == 1 && low < high);
    if (kind == 0)
        snprintf(text, 24, "*");
    else if (kind == 1 && low < high)
        snprintf(text, 24, "*/%u", step = 1 + random_below(random, max < 12 ? max : 12));
    else if (kind == 2 && low < high)
        snprintf(text, 24, "%u-%u", low, high);
    else
        snprintf(text, 24, "%u,%u", low, high);
    for (unsigned value = min; value <= max; value++)
        drawn->names[field][value] = drawn->is_star[field]       ? (value - min) % step == 0
                                     : strchr(text, '-') != NULL ? value >= low && value <= high
                                                                 : value == low || value == high;
}

static bool fits(const struct drawn *drawn, int64_t local_s)
{
    struct tm tm;
    time_t time = local_s;
    gmtime_r(&time, &tm);
    bool fits_month = drawn->names[2][tm.tm_mday], fits_week = drawn->names[4][tm.tm_wday];
    bool is_either = !drawn->is_star[2] && !drawn->is_star[4];
    return drawn->names[0][tm.tm_min] && drawn->names[1][tm.tm_hour] && drawn->names[3][tm.tm_mon + 1] &&
           (is_either ? fits_month || fits_week : fits_month && fits_week);
}

/* Walks through `days` from start_s on, a minute at a time, with the C library's clock, and expects to be due what the
 * calendar says. */
static void walk(const struct drawn *drawn, const char *zone, int64_t start_s, unsigned days)
{
    char cron[128];
    snprintf(cron, sizeof(cron), "%s %s %s %s %s", drawn->text[0], drawn->text[1], drawn->text[2], drawn->text[3],
             drawn->text[4]);
    int64_t expected_s = next_s(cron, zone, start_s - 1), end_s = start_s + (int64_t)days * 86400;
    int64_t shown_s = start_s - 60 + local_of(start_s - 60).tm_gmtoff;
    for (int64_t at_s = start_s; at_s < end_s; at_s += 60) {
        int64_t local_s = at_s + local_of(at_s).tm_gmtoff;
        bool is_due = fits(drawn, local_s);
        if (!drawn->is_star[1]) {
            is_due = is_due && local_s > shown_s;
            for (int64_t skipped_s = shown_s + 60; skipped_s < local_s; skipped_s += 60)
                is_due = is_due || fits(drawn, skipped_s);
            shown_s = local_s > shown_s ? local_s : shown_s;
        }
        if (is_due != (at_s == expected_s))
            fail_msg("%s %s at %lld: due %d, expected next %lld", cron, zone, (long long)at_s, is_due,
                     (long long)expected_s);
        if (is_due)
            expected_s = next_s(cron, zone, at_s);
    }
    assert_true(expected_s == -1 || expected_s >= end_s);
}

static void any_expression_is_due_as_a_walk_through_the_minutes_says(void **state)
{
    (void)state;
    struct random random = {5};
    for (unsigned round = 0; round < scaled(600); round++) {
        const char *zone = zones[round % (sizeof(zones) / sizeof(*zones))];
        set_zone(zone);
        struct drawn drawn = {0};
        draw_field(&random, &drawn, 0, 0, 59);
        draw_field(&random, &drawn, 1, 0, random_below(&random, 2) == 0 ? 23 : 4); /* clocks change at night */
        draw_field(&random, &drawn, 2, 1, 31);
        draw_field(&random, &drawn, 3, 1, 12);
        draw_field(&random, &drawn, 4, 0, 6);
        if (drawn.is_star[1])
            for (unsigned hour = 5, step = drawn.text[1][1] == '/' ? (unsigned)atoi(drawn.text[1] + 2) : 1; hour < 24;
                 hour++)
                drawn.names[1][hour] = hour % step == 0;
        /* The week around a change of the clocks, of a random year. */
        struct zone rule;
        read_zone(zone, &rule);
        int64_t at_s = 1767225600 + (int64_t)random_below(&random, 3650) * 86400, change_s;
        (void)zone_offset(&rule, at_s, &change_s);
        zone_deinit(&rule);
        if (change_s == INT64_MAX || change_s > at_s + 366 * 86400)
            change_s = at_s;
        walk(&drawn, zone, (change_s / 86400 - 3) * 86400 + (int64_t)random_below(&random, 2880) * 60, 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_that_summer_time_skips_is_due_at_the_first_instant_after),
        cmocka_unit_test(a_time_that_comes_twice_is_due_once_the_first_time),
        cmocka_unit_test(an_expression_for_every_hour_means_real_time),
        cmocka_unit_test(half_an_hour_of_lord_howe_is_skipped_and_comes_twice),
        cmocka_unit_test(zones_need_no_whole_hours_and_no_summer_time),
        cmocka_unit_test(a_whole_day_that_a_zone_left_out_is_made_up_for_once),
        cmocka_unit_test(what_never_comes_is_never_due),
        cmocka_unit_test(only_names_of_the_time_zone_data_are_zones),
        cmocka_unit_test(a_zone_that_could_not_be_read_is_looked_for_again_and_then_kept),
        cmocka_unit_test(a_rule_says_the_offset_and_the_instant_until_which_it_holds),
        cmocka_unit_test(a_rule_that_posix_does_not_know_is_damaged),
        cmocka_unit_test(a_list_says_the_offsets_between_its_changes),
        cmocka_unit_test(a_list_that_is_out_of_order_or_out_of_range_is_damaged),
        cmocka_unit_test(a_zone_whose_last_change_is_at_the_end_of_numbers_is_damaged),
        cmocka_unit_test(offsets_agree_with_the_c_library_until_2100),
        cmocka_unit_test(a_rule_goes_on_as_the_list_did),
        cmocka_unit_test(a_damaged_file_is_no_zone_or_some_zone),
        cmocka_unit_test(any_expression_is_due_as_a_walk_through_the_minutes_says),
    };
    return cmocka_run_group_tests(tests, open_calendar, close_calendar);
}
