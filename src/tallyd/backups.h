/* Backups of all namespaces at one instant, made while the daemon serves: docs/internals/decisions/0037. The api asks
 * for them (api/backup_control.h).
 *
 * The loop pins the files of each namespace, closes the frame of each in one turn, which is the instant, and waits
 * until those frames are durable. The rest is done by a thread (backup/make.h); the files are pinned until each has its
 * second name. At most one backup is kept in the data folder: the next one replaces it. */
#ifndef TALLY_TALLYD_BACKUPS_H
#define TALLY_TALLYD_BACKUPS_H

#include "api/backup_control.h"
#include "tallyd/namespaces.h"

struct backups;

/* Logs in folders only. All is borrowed. `report` hears of backups that fail. */
struct backups *backups_create(const struct namespaces *namespaces, uv_loop_t *loop,
                               void (*report)(void *context, const char *text), void *context);

/* The namespaces are served: removes what a killed process left of a backup, and knows the one that is there. */
void backups_begin(struct backups *backups);

/* Ends what is under way: what is left of it is removed at the next start. The loop must run once more. */
void backups_end(struct backups *backups);
void backups_destroy(struct backups *backups);

/* What the api needs. Where logs are in PostgreSQL there are no backups, and `backups` is NULL. */
struct backup_control backups_control(struct backups *backups);

/* Is the data folder a backup, from which nobody may serve? Then `failure` says what to do. */
bool backups_refuse(const char *data_folder, struct failure *failure);

#endif
