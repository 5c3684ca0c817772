/* Lists of patterns of queue names, with commas between them. In a pattern a * stands for any characters, also none. */
#ifndef TALLY_AUTH_PATTERNS_H
#define TALLY_AUTH_PATTERNS_H

#include "base/bytes.h"
#include <stdbool.h>

#define PATTERN_SIZE_MAX 128u

/* Takes what stands before the next comma off a list. */
struct bytes comma_list_take(struct bytes *list);

/* Does the whole text fit one pattern, in which * is any run and ? any one byte? (Patterns of queue names have no ?.)
 * `ignores_case`: of ASCII letters. O(both), but for patterns of many stars. */
bool pattern_fits(struct bytes pattern, struct bytes text, bool ignores_case);

/* Does one of them match the whole name? An empty list matches nothing. O(patterns * name). */
bool patterns_match(struct bytes list, struct bytes name);

/* The first text, from `name` on in the order of bytes, that one of them could match by what stands before its first *:
 * the name itself, or a beginning, as a view. NULL: there is none. O(patterns). */
struct bytes patterns_next(struct bytes list, struct bytes name);

/* What it costs to hold a name against a list, for walks that are bounded: 1 is as much as to look at a queue. To match
 * may take as many steps as the list has bytes, for each byte of the name; 256 of them make 1. */
static inline size_t patterns_cost(struct bytes list, struct bytes name)
{
    return 1 + list.size * name.size / 256;
}

/* Is each of them 1 to PATTERN_SIZE_MAX of A-Z a-z 0-9 _ - . and *? *count: how many there are, up to one that is
 * wrong. */
bool patterns_are_sound(struct bytes list, size_t *count);

#endif
