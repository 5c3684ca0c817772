/* The context of a trace: how tracing tools name it as attributes of a message and as headers of HTTP, and its form.
 *
 * Source: W3C Trace Context (traceparent and tracestate), W3C Baggage. */
#ifndef TALLY_BASE_TRACE_CONTEXT_H
#define TALLY_BASE_TRACE_CONTEXT_H

#include "base/bytes.h"

/* Which request this is part of, what tracing systems add to that, and what the application adds. */
#define TRACE_PARENT "traceparent"
#define TRACE_STATE "tracestate"
#define TRACE_BAGGAGE "baggage"

#define TRACE_NAMES 3u

/* The longest traceparent and tracestate that are taken from a header. */
#define TRACE_VALUE_SIZE_MAX 512u

/* Is it one of the three names? Case counts, as in all names of attributes. */
bool trace_context_is_name(struct bytes name);

/* Is `value` a traceparent? Version 00 has 55 bytes; a later one may have more. Neither id is all zeros. */
bool trace_context_is_parent(struct bytes value);

/* Is `value` a tracestate: at most 32 members KEY=VALUE, divided by commas? Members may be empty; one may not. */
bool trace_context_is_state(struct bytes value);

#endif
