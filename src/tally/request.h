/* Commands that only pass a request on: their `struct command` says what it is called, and what its members are. */
#ifndef TALLY_TALLY_REQUEST_H
#define TALLY_TALLY_REQUEST_H

#include "tally/output.h"

/* Carries out a command that has an `action`. Each argument is the member that `members` names. Options are texts, and
 * members of their own names, like Prefix; those that were not given are left out. */
int request_run(struct invocation *invocation);

#endif
