/* The archive that the configuration names (log/archive.h): can the log use it? */
#ifndef TALLY_TALLYD_ARCHIVE_H
#define TALLY_TALLYD_ARCHIVE_H

#include "tallyd/config.h"

/* The name of the link that is made and removed. */
#define ARCHIVE_TRIAL "archive.trial"

/* Makes the folder, if it is missing, and a link into it. OK, too, where no archive is named, where only room is
 * missing, which comes and goes, and where the data folder has no version yet that could be linked. Else
 * ERROR_INVALID_PARAMETER_VALUE: no link can be made there, or it is the data folder itself. Behind upgrade_finish(),
 * while the folder is locked. */
enum error archive_try(const struct config *config, struct failure *failure);

#endif
