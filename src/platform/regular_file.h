/* Files that somebody may have put something else in the place of: a FIFO or a device, where opening or reading would
 * wait for ever. Any thread. */
#ifndef TALLY_PLATFORM_REGULAR_FILE_H
#define TALLY_PLATFORM_REGULAR_FILE_H

#include <stdbool.h>

/* Opens a file for reading, behind a symbolic link as well. -1: it can't be, or is no ordinary file; *why says so, for
 * people, and errno. */
int regular_file_open(const char *path, const char **why);

/* Does the path name what somebody has opened for this process, as a shell does for `<(COMMAND)`, or nothing at all?
 * That may be a pipe, and whoever means it ends it. */
bool regular_file_is_given_open(const char *path);

/* Opens what was given open, or an ordinary file. -1 as regular_file_open(). */
int regular_file_open_given(const char *path, const char **why);

#endif
