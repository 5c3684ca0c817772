/* Commands like "tally queue set QUEUE NAME=VALUE...": a map of pairs for one queue. */
#ifndef TALLY_TALLY_QUEUE_PAIRS_H
#define TALLY_TALLY_QUEUE_PAIRS_H

#include "tally/command.h"

/* Calls `action` with the queue that the first argument names and, as the map `member`, the pairs that the others are.
 * The program's status. */
int queue_pairs_run(struct invocation *invocation, const char *member, const char *action);

#endif
