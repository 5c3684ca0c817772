/* The file of credentials: reads its whole text. auth/credentials.h defines its contents. */
#ifndef TALLY_TALLYD_CREDENTIALS_FILE_H
#define TALLY_TALLYD_CREDENTIALS_FILE_H

#include "auth/credentials.h"

/* Reads the file. The caller destroys *credentials. *is_exposed: users other than its owner and group may read it.
 * ERROR_INVALID_PARAMETER_VALUE, with the path and the number of a wrong line. */
enum error credentials_file_read(const char *path, struct credentials **credentials, bool *is_exposed,
                                 struct failure *failure);

#endif
