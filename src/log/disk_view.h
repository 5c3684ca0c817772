/* A read-only view of a disk. Operations that would change the disk report success and do nothing. So the code that a
 * daemon starts with can run over a folder to show what a start would do. */
#ifndef TALLY_LOG_DISK_VIEW_H
#define TALLY_LOG_DISK_VIEW_H

#include "log/disk.h"

/* A view of `under`, which is borrowed. A file that is created through it can be written and closed, not read;
 * one that is removed or renamed is not listed any more. */
struct disk *disk_view_create(struct disk *under);
void disk_view_destroy(struct disk *view);

#endif
