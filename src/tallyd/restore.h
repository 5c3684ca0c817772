/* tallyd --restore: makes a data folder from a backup (docs/backup.md). */
#ifndef TALLY_TALLYD_RESTORE_H
#define TALLY_TALLYD_RESTORE_H

/* Makes `to`, which does not exist or is empty, from the backup in `folder`, as far as `until` (RFC 3339; NULL: all of
 * it). Prints what was done and what to check. 0; 1: the backup is damaged; 2: it could not be done. */
int restore_run(const char *folder, const char *to, const char *until);

#endif
