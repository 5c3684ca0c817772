/* What is done to the files of a log while nobody has it open, or in a folder beside it: second names, copies, folders
 * that last. */
#ifndef TALLY_BACKUP_FILES_H
#define TALLY_BACKUP_FILES_H

#include "log/disk.h"
#include <stdatomic.h>

/* Behind the name of what is not complete yet, and counts for nothing. */
#define FILES_UNFINISHED ".unfinished"

/* "FOLDER/NAME" and the ending: for the caller to free. */
char *files_join(const char *folder, const char *name, const char *ending);

/* Says which operation on a path has failed, and why: errno. ERROR_DISK_FULL, ERROR_DISK_FAILED. */
enum error files_failed(struct failure *failure, const char *operation, const char *path);

/* Makes a folder, unless it is there. Errors as files_failed(). */
enum error files_make_folder(const char *path, struct failure *failure);

/* ERROR_DISK_FULL: a copy of so many bytes in the folder would leave less than `min_free` on its file system. */
enum error files_check_room(const char *path, uint64_t wanted, uint64_t min_free, struct failure *failure);

/* Makes the names in a folder durable. Errors as files_failed(). */
enum error files_sync_folder(const char *path, struct failure *failure);

/* Gives FOLDER/NAME the second name INNER/SECOND. Errors as files_failed(). */
enum error files_link(const char *folder, const char *inner, const char *name, const char *second,
                      struct failure *failure);

/* A segment that is written to gets this name beside its copy, which takes its own. */
#define FILES_LIVE_NAME "live.open"

/* Copies the first `used` bytes of FILES_LIVE_NAME into a new segment of that size, durably, and removes the former.
 * The folder is locked. Ends early, with an error, when `is_cancelled` becomes true; NULL: never. */
enum error files_copy_live(struct disk *disk, const char *name, uint64_t size, uint64_t used,
                           const atomic_bool *is_cancelled, struct failure *failure);

/* Writes a new file, durably but for its name. */
enum error files_write_text(const char *path, struct bytes text, struct failure *failure);

/* Opens an ordinary file for reading. -1: ERROR_DISK_FAILED is told. */
int files_open(const char *path, struct failure *failure);

/* Writes FOLDER/NAME, or puts a new one in its place, durably: a crash leaves the old one or the new one. Nobody else
 * writes it meanwhile. Errors as files_failed(). */
enum error files_replace_text(const char *folder, const char *name, struct bytes text, struct failure *failure);

#endif
