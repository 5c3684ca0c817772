/* A data folder that lasts as long as the process: temporary-data, for the tests of other programs.
 *
 * It is made in TMPDIR, or /tmp, and named tally-data-XXXXXX. A lock on it says that its process lives; the kernel
 * gives that up however the process ends. Folders that processes left behind because they were killed are removed by
 * the next one that makes such a folder. The file temporary-data in them tells them from data that somebody named like
 * that. */
#ifndef TALLY_TALLYD_TEMPORARY_H
#define TALLY_TALLYD_TEMPORARY_H

#include "base/error.h"

#include <limits.h>

struct temporary {
    char path[PATH_MAX]; /* empty: none was made */
    int lock;            /* the folder, open and locked; -1: the file system has no locks */
};

/* Removes what others have left, as far as that can be told, and makes a folder. ERROR_DISK_FAILED. */
enum error temporary_make(struct temporary *temporary, struct failure *failure);

/* Removes the folder with all that is in it, if one was made. Nothing in it is in use any more. */
void temporary_remove(struct temporary *temporary);

#endif
