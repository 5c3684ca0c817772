/* From a spec to what it names. */
#ifndef TALLY_RELAY_OPEN_H
#define TALLY_RELAY_OPEN_H

#include "relay/sink.h"
#include "relay/spec.h"

/* Nothing is connected to yet. NULL: this can't be; `fault` says why. */
struct source *open_source(const struct relay_spec *spec, struct fault *fault);
struct sink *open_sink(const struct relay_spec *spec, struct fault *fault);

/* NULL also where the source needs none: a queue. `fault` is untouched then. */
struct lease *open_lease(const struct relay_spec *spec);

#endif
