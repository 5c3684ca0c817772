/* Makes a backup in the data folder of the daemon that serves it: DATA/backups/ID.
 *
 * Segments that have ended, and a published snapshot, never change, so the backup gets a second name of each: a hard
 * link, which takes no room and no time. Only the segment in use is copied, up to the instant. While it is made it is
 * called ID.unfinished. All of this waits for the disk, and so runs on a thread of its own. */
#ifndef TALLY_BACKUP_MAKE_H
#define TALLY_BACKUP_MAKE_H

#include "backup/manifest.h"

#define BACKUPS_FOLDER "backups" /* in the data folder */

/* The files of a namespace at the instant. */
struct backup_source {
    char *folder_owned;
    uint64_t *ordinals_owned; /* of its segments */
    size_t ordinal_count;
    size_t ordinal_capacity;
    uint64_t snapshot_position; /* 0: there is none */
};

struct backup_make {
    char *folder_owned;                  /* DATA/backups */
    struct manifest manifest;            /* files and checksums are filled in here */
    struct backup_source *sources_owned; /* one for each namespace of the manifest */
    uint64_t min_free;                   /* bytes that the copies must leave free on the disk */
    atomic_bool is_cancelled;            /* set by others: it ends soon, with an error */
};

/* A new name of a backup; `now_ms` is the wall clock. */
void backup_make_id(uint64_t now_ms, char id[BACKUP_ID_SIZE]);

/* Could backup_make_id() have made the name? */
bool backup_is_id(struct bytes name);

/* One with a new name. */
void backup_make_init(struct backup_make *make, const char *data_folder, uint64_t now_ms);
void backup_make_deinit(struct backup_make *make);

/* Adds one whose log is in that folder; the caller fills in the rest of both. */
void backup_make_add(struct backup_make *make, const char *name, const char *folder, struct backup_namespace **ns,
                     struct backup_source **source);
void backup_source_add(struct backup_source *source, uint64_t ordinal);

/* Step one: gives every file its second name. Until it returns nobody may remove or replace one. ERROR_DISK_FAILED,
 * ERROR_DISK_FULL: what is there then is removed by backup_remove(). */
enum error backup_make_link(struct backup_make *make, struct failure *failure);

/* Step two, when the newest frame of each is durable: copies, adds up, writes the manifest, and gives the backup its
 * name, durably. */
enum error backup_make_finish(struct backup_make *make, struct failure *failure);

/* The path of the backup, or of what there is of it: for the caller to free. */
char *backup_path(const char *backups_folder, const char *id, bool is_finished);

/* Removes a backup, or what there is of one. It is no backup any more from the first moment on. Where files are large
 * and have no other name, this takes some seconds a gigabyte, unless it `is_hurried` (disk.h; NULL: never). */
enum error backup_remove(const char *path, const atomic_bool *is_hurried, struct failure *failure);

/* Calls `visit` with the name of each file and folder in a folder, which may not be there. False: it can't be read, as
 * errno says. */
bool backup_visit(const char *backups_folder, void (*visit)(void *context, const char *name), void *context);

#endif
