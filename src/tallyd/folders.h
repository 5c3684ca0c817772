/* The folders that --verify, --salvage and --restore read and make: those of namespaces in a data folder. For modes of
 * the daemon that end with a status and speak on standard error. */
#ifndef TALLY_TALLYD_FOLDERS_H
#define TALLY_TALLYD_FOLDERS_H

#include "backup/files.h"
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { STATUS_CLEAN = 0, STATUS_DAMAGED = 1, STATUS_FAILED = 2 };

#define NAME_DIGITS 12u
#define NAME_UNKNOWN "000000000000"
#define NEW_FOLDER_MODE 0700

/* A namespace's folder. */
struct target {
    char path[PATH_MAX];
    char name[NAME_DIGITS + 1]; /* its last part, if that can be the name of a namespace; else "" */
};

struct targets {
    struct target *items_owned; /* by name */
    size_t count;
};

/* Writes "tallyd: ..." and a line end to standard error. Returns STATUS_FAILED. */
int folders_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The worse of two. */
int folders_worse(int one, int other);

/* 12 digits? */
bool folders_is_namespace(const char *name);

/* Adds the folder `name` in `folder`, or, if `name` is empty, the folder itself. False: the path is too long. */
bool folders_add(struct targets *targets, const char *folder, const char *name);

/* The namespaces' folders in a data folder; or the folder itself, if it is a namespace's. */
int folders_list(const char *folder, struct targets *targets);

/* Its name, or NAME_UNKNOWN. */
const char *folders_name(const struct target *target);

/* Is the new folder that one, or inside it? Nothing may be changed there. */
bool folders_lies_inside(const char *to, const char *folder);

/* The new data folder: made now, or an existing empty one. It may not lie in `folder`, which is only read. */
int folders_make(const char *to, const char *folder);

int folders_sync(const char *path);

/* ERROR_INVALID_PARAMETER_VALUE: a restore or a salvage into the data folder did not come to its end. What it lacks
 * would be taken for empty. */
enum error folders_check_whole(const char *data, struct failure *failure);

/* A new namespace's folder gets its name when it is complete. Until then it has another name, on which no tallyd
 * starts. */
struct new_folder {
    char path[PATH_MAX];
    char unfinished[PATH_MAX + sizeof(FILES_UNFINISHED)];
};
void folders_name_new(struct new_folder *folder, const char *to, const struct target *target);
int folders_finish(const struct new_folder *folder);

#endif
