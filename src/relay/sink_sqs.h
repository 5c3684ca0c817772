/* Any endpoint of the SQS protocol as the sink: Amazon SQS, or another Tally.
 *
 * It forgets. A FIFO queue knows a message again for five minutes after its first attempt, a standard queue never; the
 * relay counts the time and decides (worker_attempt.c). Here is promised: the same ids at every attempt (P16); no
 * request with two messages of one group, and none of a group while another one is under way (P15); the permit asked
 * before each request; and of each row, what is known and no more. */
#ifndef TALLY_RELAY_SINK_SQS_H
#define TALLY_RELAY_SINK_SQS_H

#include "relay/sink.h"
#include "relay/spec.h"

/* The URL is a queue's, or an endpoint's where each row names its queue. NULL: this can't be; `fault` says why.
 * Connects to nothing yet. */
struct sink *sink_sqs_create(const struct relay_spec *spec, struct fault *fault);

#endif
