/* Where a relay whose source is a queue puts what it parks: the queue `<relay name>-parked`, made when it is first
 * needed, whose messages live for 14 days. It is a standard queue whatever the source is: what is parked is looked at
 * and taken out one by one, in any order.
 *
 * A message stands there as it was, less what would count, number or wait again (queue_row.h), with these attributes
 * besides: Tally.OutboxId, its uid; Relay.Source, the queue it comes from, because relays of several may have one name;
 * Relay.Error, why; Relay.Doubt, 1, if it may have been delivered. It leaves the source and comes there in one step
 * (Commit). From elsewhere it only comes there, once, and whoever parks it then deletes it in the source. */
#ifndef TALLY_RELAY_QUEUE_PARKED_H
#define TALLY_RELAY_QUEUE_PARKED_H

#include "relay/queue_calls.h"
#include "relay/source.h"

struct parked_queue {
    struct tally_client *client; /* borrowed */
    const char *source;          /* the queue it comes from; borrowed */
    const char *source_name;     /* of that, where it is a URL */
    const char *home;  /* where it goes that is to be sent again: the source; if that is elsewhere, the sink */
    bool is_elsewhere; /* the source is no queue of this Tally */
    char *name_owned;
    struct arena arena;   /* of what was listed last */
    struct parked *items; /* in it */
    size_t count;
    uint64_t listed_ms; /* monotonic; 0: not yet, or it is known to have changed */
    uint64_t total;     /* messages of the queue then */
};

void parked_queue_init(struct parked_queue *parked, struct tally_client *client, const struct relay_spec *spec);
void parked_queue_deinit(struct parked_queue *parked);

/* Puts a row there that is held under `handle`. A handle that holds nothing any more is STEP_OK: either this was done
 * before and the answer was lost, or the message is somebody else's. *is_taken is false if no queue of Tally can hold
 * it, in whatever form: its group is none, or it is too large. */
enum step parked_queue_put(struct parked_queue *parked, const struct row *row, const char *handle, const char *error,
                           bool is_doubted, bool *is_taken, struct fault *fault);

/* How many there are. */
enum step parked_queue_count(struct parked_queue *parked, uint64_t *count, struct fault *fault);

/* As source_ops.list_parked. Reads them when their number has changed, and now and then. */
enum step parked_queue_list(struct parked_queue *parked, unsigned limit, struct arena *arena, struct parked **items,
                            size_t *count, struct fault *fault);

/* As source_ops.resolve. O(n) in what is parked. */
enum step parked_queue_resolve(struct parked_queue *parked, const struct uid *uid, enum resolution resolution,
                               bool *is_found, struct fault *fault);

#endif
