/* "Did you mean …?": the existing queue with the most similar name. */
#ifndef TALLY_TALLY_SUGGESTION_H
#define TALLY_TALLY_SUGGESTION_H

#include "tally/command.h"

#define SUGGESTION_SIZE 81 /* bytes of a queue's name, and the NUL */

/* If the error says that a queue does not exist, and names it, asks the server for its queues. False: no name is
 * similar, or the server does not answer. It reports no failure of its own, because there was an error already. */
bool suggestion_find(const struct invocation *invocation, const struct tally_error *error, char name[SUGGESTION_SIZE]);

#endif
