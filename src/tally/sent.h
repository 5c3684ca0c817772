/* What became of a message that was sent, for `tally send` and `tally commit`. */
#ifndef TALLY_TALLY_SENT_H
#define TALLY_TALLY_SENT_H

#include "tally/output.h"

/* Prints the message id, which of a duplicate is the first message's; standard error says then why nothing was sent.
 * With --json an object in one line. */
void sent_print(const struct invocation *invocation, const struct tally_sent *sent,
                const struct tally_outgoing *message);

#endif
