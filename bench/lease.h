/* Leases: messages of a record that were received, and the requests that end them. */
#ifndef TALLY_BENCH_LEASE_H
#define TALLY_BENCH_LEASE_H

#include "record.h"
#include "workload.h"

enum { LEASES_MAX = 10, HANDLE_SIZE_MAX = 43 };

struct lease {
    uint32_t number; /* of the message */
    uint8_t handle_size;
    char handle[HANDLE_SIZE_MAX]; /* the receipt handle, which needs no escape */
};

/* Reads the reply to a ReceiveMessage and tells the record, also whether they are held for longer than the run; returns
 * how many whole messages it had. */
unsigned leases_read(struct record *record, struct record_slot *slot, struct view body, uint64_t now_ns, bool is_held,
                     struct lease leases[LEASES_MAX]);

/* Makes the connection's next write, in connection->own: a batch request for these leases, such as DeleteMessageBatch;
 * with a suffix behind each handle a ChangeMessageVisibilityBatch. */
void leases_ask(struct connection *connection, const struct plan *plan, const char *queue, const char *target,
                const struct lease *leases, unsigned count, struct view suffix);

/* Which entries succeeded, as bits, in the reply to either. Ends the program if an entry is missing in it. */
unsigned lease_entries_read(struct view body, unsigned count);

#endif
