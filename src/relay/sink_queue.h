/* A Tally queue as the sink: OpenPublisher and Publish over libtally (docs/internals/decisions/0009, "The wire"). It
 * remembers rows by uid and checks the term where it stores, so no lease is asked for before a request leaves: one that
 * comes too late is refused. */
#ifndef TALLY_RELAY_SINK_QUEUE_H
#define TALLY_RELAY_SINK_QUEUE_H

#include "relay/sink.h"
#include "relay/spec.h"

/* NULL if the spec names no Tally that there can be; connects to nothing yet. The spec is copied as far as it is
 * needed. */
struct sink *sink_queue_create(const struct relay_spec *spec, struct fault *fault);

#endif
