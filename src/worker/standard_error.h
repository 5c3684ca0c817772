/* What this program says on standard error, though nobody may read it.
 *
 * Whoever reads the other end may stop reading, and then a write blocks. Here a write waits no longer than it is told.
 * Whose text is lost by that says so, and its lines are counted. Any thread. */
#ifndef TALLY_WORKER_STANDARD_ERROR_H
#define TALLY_WORKER_STANDARD_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Waits until something can be written. False: time ran out. */
bool standard_error_await(unsigned wait_ms);

/* Writes a text, and waits so long for room. Returns how much of it was taken. Where nobody has the other end, or the
 * disk is full, that is all of it, too. */
size_t standard_error_write(const char *text, size_t size, unsigned wait_ms);

/* Counts the lines of a text that is given up. */
void standard_error_lose(const char *text, size_t size);

/* How many lines were lost since the last call. */
uint64_t standard_error_take_lost(void);

#endif
