/* The largest number of file descriptors that a relay has open. A program that runs relays keeps this many free for
 * each. */
#ifndef TALLY_RELAY_DESCRIPTORS_H
#define TALLY_RELAY_DESCRIPTORS_H

#include "relay/spec.h"

/* Of a relay whose queues are those of the very process that runs it: the other ends of its connections count, too. */
size_t relay_descriptors_max(const struct relay_spec *spec);

#endif
