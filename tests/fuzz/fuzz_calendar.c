/* Cron expressions and time zone files from outside.
 *
 * First byte: bit 0: the rest is a cron expression; else it is a time zone file. What is read must name times that can
 * be walked through: minutes that rise, and spans of one offset that end after they begin. */
#include "base/assert.h"
#include "engine/cron.h"
#include "engine/zone.h"

#define WALK_END_MINUTE INT64_C(30000000) /* in the year 2027 */
#define WALK_START_MINUTE (WALK_END_MINUTE - INT64_C(400) * 1440)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_cron(struct bytes text)
{
    struct cron cron;
    char reason[CRON_REASON_SIZE];
    if (!cron_parse(text, &cron, reason)) {
        ASSERT(memchr(reason, '\0', sizeof(reason)) != NULL);
        return;
    }
    int64_t minute = WALK_START_MINUTE;
    for (unsigned i = 0; i < 50 && minute < WALK_END_MINUTE; i++) {
        int64_t next = cron_next_minute(&cron, minute, WALK_END_MINUTE);
        ASSERT(next >= minute && next <= WALK_END_MINUTE);
        ASSERT(next == WALK_END_MINUTE || (cron.minutes >> next % 60 & 1) != 0);
        minute = next + 1;
    }
}

static void read_zone(struct bytes file)
{
    struct zone zone;
    if (!zone_init(&zone, file))
        return;
    int64_t at_s = WALK_START_MINUTE * 60;
    for (unsigned i = 0; i < 50 && at_s != INT64_MAX; i++) {
        int64_t until_s;
        int64_t offset_s = zone_offset(&zone, at_s, &until_s);
        ASSERT(until_s > at_s && offset_s > -200000 && offset_s < 200000);
        at_s = until_s;
    }
    zone_deinit(&zone);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct bytes rest = bytes_make(data + 1, size - 1);
    if ((data[0] & 1) != 0)
        read_cron(rest);
    else
        read_zone(rest);
    return 0;
}
