/* The daemon's actions, asked for one at a time: what a campaign makes before it begins, and counts when it is over. */
#ifndef TALLY_CAMPAIGN_ASK_H
#define TALLY_CAMPAIGN_ASK_H

#include "daemon.h"
#include "text.h"

/* Asks for the action `target`, waiting for the daemon if need be. Its reply is in *reply, with a NUL behind it, so
 * that a number ends. Ends the program if it is an error. */
void ask(struct daemon *daemon, const char *target, const struct text *body, struct text *reply);

/* The sum of the numbers behind these keys, with their quotes and colons. Ends the program if one is not there. */
uint64_t ask_sum(const struct text *reply, const struct view *keys, unsigned count);

/* Messages that the queue holds in any state. */
uint64_t ask_queue_count(struct daemon *daemon, const char *queue);

#endif
