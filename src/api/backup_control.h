/* Who makes backups of the whole server: the api's interface to it. The api knows no folder.
 *
 * One thread, the loop's; nothing here blocks. */
#ifndef TALLY_API_BACKUP_CONTROL_H
#define TALLY_API_BACKUP_CONTROL_H

#include "base/bytes.h"
#include "base/error.h"

#define BACKUP_REPORT_ID_SIZE 32u
#define BACKUP_REPORT_TEXT_SIZE 640u

enum backup_state { BACKUP_RUNNING, BACKUP_FINISHED, BACKUP_FAILED };

/* Times are of the wall clock, in milliseconds since 1970; 0: not yet. */
struct backup_report {
    char id[BACKUP_REPORT_ID_SIZE];
    enum backup_state state;
    uint64_t started_ms;
    uint64_t instant_ms; /* everything that was acknowledged before is in it, and nothing that came later */
    uint64_t finished_ms;
    uint64_t files;
    uint64_t bytes;
    const char *folder;                    /* finished: where it is, on the server's machine; borrowed for the call */
    char failure[BACKUP_REPORT_TEXT_SIZE]; /* failed: why */
};

struct backup_control {
    void *context;

    /* Begins one. ERROR_BACKUP_IN_PROGRESS; ERROR_UNSUPPORTED_OPERATION: there can be none here; ERROR_DISK_IS_FULL,
     * ERROR_SERVICE_UNAVAILABLE. `failure` has the text. */
    enum error (*start)(void *context, struct backup_report *report, struct failure *failure);

    /* The one with that id, or, if it is empty, the newest. False: there is none. */
    bool (*describe)(void *context, struct bytes id, struct backup_report *report);

    /* Ends that one, if it is being made, and removes what there is of it, soon. False: there is none. */
    bool (*remove)(void *context, struct bytes id);
};

#endif
