/* Lists of patterns of queue names, with commas between them. In a pattern a * stands for any characters, also none. */
#ifndef TALLY_AUTH_PATTERNS_H
#define TALLY_AUTH_PATTERNS_H

#include "base/bytes.h"
#include <stdbool.h>

#define PATTERN_SIZE_MAX 128u

/* Does one of them match the whole name? An empty list matches nothing. O(patterns * name). */
bool patterns_match(struct bytes list, struct bytes name);

/* Is each of them 1 to PATTERN_SIZE_MAX of A-Z a-z 0-9 _ - . and *? *count: how many there are, up to one that is
 * wrong. */
bool patterns_are_sound(struct bytes list, size_t *count);

#endif
