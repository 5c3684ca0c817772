/* The names that the server has of queues, batches and the like, for the completion of shells. */
#ifndef TALLY_TALLY_LIVE_NAMES_H
#define TALLY_TALLY_LIVE_NAMES_H

#include "tally/candidates.h"

/* Adds the names that fit, of the first thousand. Any error adds nothing, and nobody is told. A name that a shell would
 * not take for a word as it is, is left out. */
void live_names_add(struct candidates *candidates);

#endif
