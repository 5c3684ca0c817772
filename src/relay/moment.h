/* A moment that is kept beside the source's own time, so that its age can be told although somebody sets a wall clock.
 *
 * Kept as text: `BOOT SINCE WALL`, the identity of this boot of the machine, the milliseconds since then (those asleep
 * too), and those of the machine's wall clock. */
#ifndef TALLY_RELAY_MOMENT_H
#define TALLY_RELAY_MOMENT_H

#include "base/bytes.h"
#include <stdint.h>

#define MOMENT_TEXT_SIZE 88

/* Of something that is older than nobody knows: more than any time that is waited for. */
#define AGE_UNKNOWN_MS ((uint64_t)INT64_MAX / 4)

struct moment {
    char boot[37]; /* "": the system does not say */
    uint64_t since_boot_ms;
    uint64_t wall_ms;
};

void moment_read(struct moment *now);
void moment_to_text(const struct moment *moment, char text[MOMENT_TEXT_SIZE]);

/* How long ago something was at least that was noted as `noted` (empty: by nobody), and is `source_age_ms` old by the
 * source's clock. The greatest of all that is known: an age that is too great costs a mark, one that is too small a
 * second copy. In the same boot nobody can set the clock that counts. Otherwise two wall clocks must have been set back
 * before an age is too small; one that gives an age below zero has been, and by nobody knows how much:
 * AGE_UNKNOWN_MS. */
uint64_t moment_age_ms(const struct moment *now, struct bytes noted, int64_t source_age_ms);

#endif
