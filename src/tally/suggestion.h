/* "Did you mean …?": the queue whose name is most like one that does not exist. */
#ifndef TALLY_TALLY_SUGGESTION_H
#define TALLY_TALLY_SUGGESTION_H

#include "tally/command.h"

#define SUGGESTION_SIZE 81 /* bytes of a queue's name, and the NUL */

/* Asks the server for its queues, if the error is that a queue does not exist and says which. False: none of them is
 * like it, or the server does not tell. Nobody is told of a failure: there was one already. */
bool suggestion_find(const struct invocation *invocation, const struct tally_error *error, char name[SUGGESTION_SIZE]);

#endif
