/* Files that somebody may have put something else in the place of: a FIFO or a device, where opening or reading would
 * wait for ever. Any thread. */
#ifndef TALLY_PLATFORM_REGULAR_FILE_H
#define TALLY_PLATFORM_REGULAR_FILE_H

/* Opens a file for reading, behind a symbolic link as well. -1: it can't be, or is no ordinary file; *why says so, for
 * people, and errno. */
int regular_file_open(const char *path, const char **why);

#endif
