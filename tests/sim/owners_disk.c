/* The disk over PostgreSQL, compiled here once more: a fork needs a copy of what it has in memory, and that is nobody
 * else's business. */
#include "postgres/disk_postgres.c"

#include "owners.h"

/* What the copy shares with the original is memory that a forked process has for itself: what pg_log_become_child()
 * does not make anew is copied here. */
struct disk *owners_disk_fork(const struct disk *disk)
{
    const struct disk_postgres *parent = disk_postgres_of((struct disk *)(uintptr_t)disk);
    struct disk_postgres *child = memory_allocate_zeroed(sizeof(*child));
    *child = *parent;
    buffer_init(&child->log.scratch);
    child->log.marks_owned = memory_allocate_zeroed(PG_MARKS * sizeof(*child->log.marks_owned));
    memcpy(child->log.marks_owned, parent->log.marks_owned, PG_MARKS * sizeof(*child->log.marks_owned));
    child->log.session.link.connection_owned = NULL; /* its descriptor is closed in a child, and nothing else */
    child->log.session.options = &child->log.options;
    return &child->disk;
}
