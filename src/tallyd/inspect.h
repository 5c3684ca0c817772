/* Inspects a data folder instead of serving it: `tallyd --verify` and `tallyd --salvage`.
 *
 * A data folder has a folder for each namespace; the user may also name one of those. Nothing in it is changed. No
 * daemon may use it meanwhile, because the data would change under the reader. docs/damage.md is the page for users. */
#ifndef TALLY_TALLYD_INSPECT_H
#define TALLY_TALLYD_INSPECT_H

/* Each prints what it finds on standard output and returns the exit status. */
int inspect_verify(const char *folder);                  /* 0 clean, 1 damaged, 2 could not be read */
int inspect_salvage(const char *folder, const char *to); /* 0 nothing is lost, 1 something is, 2 it failed */

#endif
