/* Bytes that nobody can foresee. Any thread. */
#ifndef TALLY_PLATFORM_RANDOM_H
#define TALLY_PLATFORM_RANDOM_H

#include <stddef.h>

#define RANDOM_SIZE_MAX ((size_t)256)

/* Fills up to RANDOM_SIZE_MAX bytes. It waits only while the machine is being booted, and can't fail: the process ends
 * where the kernel has no getrandom(), or forbids it. */
void random_fill(void *bytes, size_t size);

#endif
