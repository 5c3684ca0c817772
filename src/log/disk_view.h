/* A view of a disk that changes nothing: it reads what is there, and whatever would change it seems to work and does
 * nothing. So the very code that a daemon starts with can be run over a folder to see what would come of it. */
#ifndef TALLY_LOG_DISK_VIEW_H
#define TALLY_LOG_DISK_VIEW_H

#include "log/disk.h"

/* A view of `under`, which is borrowed. A file that is created through it can be written and closed, not read;
 * one that is removed or renamed is not listed any more. */
struct disk *disk_view_create(struct disk *under);
void disk_view_destroy(struct disk *view);

#endif
