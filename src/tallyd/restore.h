/* tallyd --restore: makes a data folder from a backup (docs/how-to/backup.md). */
#ifndef TALLY_TALLYD_RESTORE_H
#define TALLY_TALLYD_RESTORE_H

struct restore_request {
    const char *folder;
    const char *archive; /* NULL: none */
    const char *to;
    const char *until; /* RFC 3339; NULL: all of it */
};

/* Makes `to`, which does not exist or is empty, from the backup in `folder`, as far as `until`. With an archive, which
 * needs `until`: from that and the backup, or the data folder of a tallyd that has ended. Prints what was done and what
 * to check. 0; 1: what it was made from is damaged; 2: it could not be done. */
int restore_run(const struct restore_request *request);

#endif
