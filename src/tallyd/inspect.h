/* Inspects a data folder, or the logs in a database, instead of serving: `tallyd --verify` and `tallyd --salvage`.
 *
 * A data folder has a folder for each namespace; the user may also name one of those. Nothing in it is changed. No
 * daemon may use it meanwhile, because the data would change under the reader. docs/how-to/damage.md is the page for
 * users. */
#ifndef TALLY_TALLYD_INSPECT_H
#define TALLY_TALLYD_INSPECT_H

#include "postgres/session.h"

/* Each prints what it finds on standard output and returns the exit status. */
int inspect_verify(const char *folder); /* 0 clean, 1 damaged, 2 could not be read */
/* The same of every log in a database, as all of it is at one moment. Copies each into a folder of its own in TMPDIR
 * meanwhile; nobody is kept from writing. `options` name no log. */
int inspect_verify_postgres(const struct pg_options *options);
/* Of a folder that was just made, and has not its name yet. */
struct target;
int inspect_verify_new(const struct target *target, const char *path);
int inspect_salvage(const char *folder, const char *to); /* 0 nothing is lost, 1 something is, 2 it failed */

#endif
