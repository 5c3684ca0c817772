/* A folder of time-zone data that a test can take away from under a server. */
#ifndef TALLY_TESTS_SUPPORT_ZONES_H
#define TALLY_TESTS_SUPPORT_ZONES_H

#include "base/assert.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct zones {
    char folder[32];
    char file[48]; /* its only zone, "Somewhere" */
};

static inline void zones_create(struct zones *zones)
{
    snprintf(zones->folder, sizeof(zones->folder), "/tmp/tally-zones-XXXXXX");
    char *made = mkdtemp(zones->folder);
    ASSERT(made != NULL);
    snprintf(zones->file, sizeof(zones->file), "%s/Somewhere", zones->folder);
}

/* The zone is that of Berlin. */
static inline void zones_put(const struct zones *zones)
{
    char bytes[8192];
    FILE *from = fopen("/usr/share/zoneinfo/Europe/Berlin", "rb"), *to = fopen(zones->file, "wb");
    ASSERT(from != NULL && to != NULL);
    size_t size = fread(bytes, 1, sizeof(bytes), from);
    ASSERT(size > 0 && size < sizeof(bytes));
    size_t written = fwrite(bytes, 1, size, to);
    ASSERT(written == size);
    fclose(from);
    fclose(to);
}

static inline void zones_take_away(const struct zones *zones)
{
    int status = unlink(zones->file);
    ASSERT(status == 0);
}

static inline void zones_destroy(const struct zones *zones)
{
    (void)unlink(zones->file);
    (void)rmdir(zones->folder);
}

#endif
