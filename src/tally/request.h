/* Commands that only pass a request on: their `struct command` names the action and its members. */
#ifndef TALLY_TALLY_REQUEST_H
#define TALLY_TALLY_REQUEST_H

#include "tally/output.h"

/* Carries out a command that has an `action`. Each argument becomes the member that `members` names. Options are texts,
 * and become members of the same name, like Prefix; absent ones are left out. */
int request_run(struct invocation *invocation);

#endif
