/* The result of a send, for `tally send` and `tally commit`. */
#ifndef TALLY_TALLY_SENT_H
#define TALLY_TALLY_SENT_H

#include "tally/output.h"

/* Prints the message id; of a duplicate this is the first message's id. Standard error then says why nothing was sent.
 * With --json it prints an object in one line. */
void sent_print(const struct invocation *invocation, const struct tally_sent *sent,
                const struct tally_outgoing *message);

#endif
