/* What a tallyd does with a data folder that another one wrote, before it opens it.
 *
 * DATA/version says which tallyd wrote there last, and in which format. Where the format is an earlier one, that
 * tallyd could not read what this one is about to write. So its files are kept first, as a data folder of its own:
 * DATA/before-VERSION. What never changes any more gets a second name there, and only the newest segments are copied. A
 * later format is refused. docs/how-to/upgrading.md. */
#ifndef TALLY_TALLYD_UPGRADE_H
#define TALLY_TALLYD_UPGRADE_H

#include "backup/manifest.h"
#include <stdbool.h>
#include <stdint.h>

#define UPGRADE_VERSION_NAME "version" /* the file of a data folder */
#define UPGRADE_BEFORE "before-"       /* begins the name of a kept folder, in the data folder */
#define UPGRADE_KEPT_DAYS 7u
#define UPGRADE_VERSION_SIZE 32u

/* Who wrote a data folder last. */
struct data_version {
    char tallyd[UPGRADE_VERSION_SIZE];
    unsigned format; /* 0: nobody did */
};

/* ERROR_LOG_DAMAGED: the file is there and says nothing that this understands. ERROR_DISK_FAILED. */
enum error upgrade_read(const char *data, struct data_version *version, struct failure *failure);

/* Says that this tallyd wrote the folder last, durably, unless that is said there already. */
enum error upgrade_sign(const char *data, struct failure *failure);

/* The same of a new data folder that is whole. Complains; returns a STATUS_... (folders.h). */
int upgrade_sign_new(const char *to);

/* Complains of a folder in a later format: what this tallyd does not know would look damaged. Returns a STATUS_.... */
int upgrade_check(const char *folder);

/* ERROR_UNSUPPORTED_OPERATION: the backup in the folder has files of a later format. */
enum error upgrade_check_backup(const struct manifest *manifest, const char *folder, struct failure *failure);

/* The first release that reads a format; NULL: of a format that this tallyd does not know. */
const char *upgrade_first_release(unsigned format);

/* Is told what a person should know: what is kept, or why it can't be. */
typedef void upgrade_report(void *context, const char *text);

struct upgrade {
    const char *data;
    uint64_t min_free; /* what the option disk-min-free says */
    upgrade_report *report;
    void *context;
};

/* Makes the data folder ready to be opened. One that is not there stays so. A disk that is full, or would be short of
 * room with the copies, keeps nobody from starting.
 * ERROR_UNSUPPORTED_OPERATION: a later format; ERROR_LOG_LOCKED: the older tallyd has the folder still; else errors as
 * upgrade_read(). */
enum error upgrade_prepare(const struct upgrade *upgrade, struct failure *failure);

/* It has been opened: signs one that is new, or that another release wrote in the same format. */
void upgrade_finish(const struct upgrade *upgrade);

/* Removes the kept folders that are older than UPGRADE_KEPT_DAYS, and no folder of somebody else. */
void upgrade_forget(const char *data, uint64_t now_ms, const atomic_bool *is_hurried);

#endif
