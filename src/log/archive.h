/* The archive: a folder for the files that a log does not need any more, so that a restore can go back to any instant
 * (docs/how-to/backup.md). A file gets a second name there, a hard link, before its first one goes. Others may move or
 * remove what is there at any time: nobody reads it but a restore. */
#ifndef TALLY_LOG_ARCHIVE_H
#define TALLY_LOG_ARCHIVE_H

#include "base/error.h"

/* Gives the file `name` of an open folder the same name in the folder `archive`, durably. Makes that folder, and the
 * one it lies in, where they are missing. OK, too, where there is no such file, or it has that name there already.
 * ERROR_DISK_FULL; ERROR_DISK_FAILED: also where another file has that name. A forked child may call it. */
enum error archive_keep(int folder, const char *name, const char *archive, struct failure *failure);

#endif
