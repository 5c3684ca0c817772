/* Makes the source, the sink and the lease that a spec names. */
#ifndef TALLY_RELAY_OPEN_H
#define TALLY_RELAY_OPEN_H

#include "relay/sink.h"
#include "relay/spec.h"

/* Connects to nothing yet. NULL: the spec can't work; `fault` says why. */
struct source *open_source(const struct relay_spec *spec, struct fault *fault);
struct sink *open_sink(const struct relay_spec *spec, struct fault *fault);

/* NULL also where the source needs none: a queue. `fault` is untouched then. */
struct lease *open_lease(const struct relay_spec *spec);

#endif
