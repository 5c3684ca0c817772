/* Takes a finished backup from where the server made it: to a folder, or as a tar. Each byte is checked against the
 * manifest on its way, except where the whole folder only gets another name. */
#ifndef TALLY_BACKUP_TAKE_H
#define TALLY_BACKUP_TAKE_H

#include "backup/manifest.h"

/* Moves the backup of that manifest from `folder` to `to`, which must not exist. On the same file system it gets
 * another name, else it is copied, synced, and stays where it is, too. ERROR_DISK_FULL, ERROR_DISK_FAILED,
 * ERROR_LOG_DAMAGED: then there is no `to`. */
enum error backup_take(const struct manifest *manifest, const char *folder, const char *to, struct failure *failure);

/* Writes it as a tar (POSIX ustar) to the descriptor; the manifest comes last. Same errors. */
enum error backup_write_tar(const struct manifest *manifest, const char *folder, int descriptor,
                            struct failure *failure);

#endif
