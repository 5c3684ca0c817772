/* From one queue of a Tally to another queue of it: each message leaves the one and comes into the other in one step
 * (Commit), so it is there exactly once, whatever is killed when, and however many relays work at it. Neither lease nor
 * publisher is needed.
 *
 * It keeps body, attributes, MessageGroupId and its uid (Tally.OutboxId); what counted it as a unit, numbered it or
 * made it wait was done where it came from and does not go along (queue_row.h). In a FIFO queue a message without a
 * group is its own group. */
#ifndef TALLY_RELAY_SINK_FORWARD_H
#define TALLY_RELAY_SINK_FORWARD_H

#include "relay/sink.h"
#include "relay/spec.h"

/* For rows of a source of type queue only. NULL: `fault` says why. The spec is copied as far as it is needed. */
struct sink *sink_forward_create(const struct relay_spec *spec, struct fault *fault);

#endif
