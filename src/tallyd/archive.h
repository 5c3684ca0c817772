/* The archive that the configuration names (log/archive.h): can the log use it, and is it this data folder's?
 *
 * Two data folders give their files the same names. So a data folder that has an archive has an identity,
 * DATA/identity, and its archive a mark that says so, ARCHIVE/owner. A restored folder has another identity. */
#ifndef TALLY_TALLYD_ARCHIVE_H
#define TALLY_TALLYD_ARCHIVE_H

#include "tallyd/config.h"

/* The name of the link that is made and removed. */
#define ARCHIVE_TRIAL "archive.trial"

/* The mark: a symbolic link whose target is a text. */
#define ARCHIVE_MARK "owner"

/* Would archive_try() refuse it? Changes nothing, so that it can't know of every reason. OK, too, where no archive is
 * named. ERROR_INVALID_PARAMETER_VALUE. */
enum error archive_check(const struct config *config, struct failure *failure);

/* Makes the folder, if it is missing, a link into it, and the mark. OK, too, where no archive is named, and where only
 * room is missing, which comes and goes. Else ERROR_INVALID_PARAMETER_VALUE: no link can be made there, it is the data
 * folder itself or lies among its files, or it is another data folder's. ERROR_DISK_FAILED. Behind upgrade_finish(),
 * while the folder is locked. */
enum error archive_try(const struct config *config, struct failure *failure);

#endif
