/* A queue as the source: one of the same Tally, or of any endpoint of the SQS protocol (queue_access.h).
 *
 * There is no lease and no intent. Any number of relays may work at once: a receive is exclusive, and durable before it
 * is answered. A delete comes when its row is done; who has the message by then has nothing left to do. A Commit takes
 * only the newest handle. row.receive_count says whether somebody may have tried a row before: above 1 it is a repeat,
 * which in at-most-once mode is in doubt.
 *
 * | of a row | from the message |
 * |---|---|
 * | id | the number of the delivery (Tally.FencingToken), so one that comes again has another; else counted here |
 * | uid | Tally.OutboxId, or the MessageId, which for a batch's completion message is a function of the batch |
 * | group | MessageGroupId. On a standard queue it orders only what this relay has in hand |
 *
 * From another endpoint the uid is always the MessageId, by which the sink knows the message again.
 *
 * What was received stays in hand (queue_leases.h), its visibility timeout put off, until it is done or parked
 * (queue_parked.h), or until close() gives it back. The timeout is the spec's lease: so long others wait for what a
 * killed relay had. */
#ifndef TALLY_RELAY_SOURCE_QUEUE_H
#define TALLY_RELAY_SOURCE_QUEUE_H

#include "relay/source.h"
#include "relay/spec.h"

/* NULL: `fault` says why. Connects when it is called; the spec is copied as far as it is needed. */
struct source *source_queue_create(const struct relay_spec *spec, struct fault *fault);

#endif
