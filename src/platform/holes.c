#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* SEEK_DATA, SEEK_HOLE */
#endif
#include "platform/holes.h"

#include "base/assert.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t holes_next_data(int descriptor, uint64_t offset)
{
    ASSERT(offset <= INT64_MAX);
    const off_t found = lseek(descriptor, (off_t)offset, SEEK_DATA);
    struct stat status;
    if (found >= 0)
        return (uint64_t)found;
    const bool is_hole = errno == ENXIO && fstat(descriptor, &status) == 0 && (uint64_t)status.st_size > offset;
    return is_hole ? (uint64_t)status.st_size : offset;
}

uint64_t holes_next_hole(int descriptor, uint64_t offset)
{
    ASSERT(offset <= INT64_MAX);
    const off_t found = lseek(descriptor, (off_t)offset, SEEK_HOLE);
    return found >= 0 ? (uint64_t)found : offset;
}
