/* A point in time, stored beside the source's own time, so that its age can be computed even if a wall clock is set.
 *
 * Kept as text: `BOOT SINCE WALL`, the identity of this boot of the machine, the milliseconds since then (those asleep
 * too), and those of the machine's wall clock. */
#ifndef TALLY_RELAY_MACHINE_TIME_H
#define TALLY_RELAY_MACHINE_TIME_H

#include "base/bytes.h"
#include <stdint.h>

#define MACHINE_TIME_TEXT_SIZE 88

/* An unknown age: longer than any time that anybody waits for. */
#define AGE_UNKNOWN_MS ((uint64_t)INT64_MAX / 4)

struct machine_time {
    char boot[37]; /* "": the system does not say */
    uint64_t since_boot_ms;
    uint64_t wall_ms;
};

void machine_time_read(struct machine_time *now);
void machine_time_to_text(const struct machine_time *time, char text[MACHINE_TIME_TEXT_SIZE]);

/* The age of something that was recorded as `noted` (empty: it was not), and that is `source_age_ms` old by the
 * source's clock. Returns the greatest of the known ages: too great an age costs a mark, too small an age a second
 * copy. Within one boot the clock used can't be set. Otherwise two wall clocks must have been set back before the age
 * is too small. A clock that shows a negative age was set back by an unknown time: AGE_UNKNOWN_MS. */
uint64_t machine_time_age_ms(const struct machine_time *now, struct bytes noted, int64_t source_age_ms);

#endif
