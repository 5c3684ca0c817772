/* Send requests whose messages are numbered by a record: prepared once, then numbers, times and bodies are written
 * over. */
#ifndef TALLY_BENCH_ENVELOPE_H
#define TALLY_BENCH_ENVELOPE_H

#include "record.h"
#include "workload.h"

enum { ENVELOPE_MAX = 10 };

struct envelope {
    struct text request_owned;
    unsigned count; /* of messages: 1, a SendMessage, or ENVELOPE_MAX, a SendMessageBatch */
    unsigned body_size;
    uint64_t groups; /* 0: none */
    size_t body_at[ENVELOPE_MAX];
    size_t group_at[ENVELOPE_MAX];
    size_t id_at[ENVELOPE_MAX];
};

/* To a queue of plan->port; with groups it is a FIFO queue, and message n goes to group n modulo groups, with a
 * deduplication id. */
void envelope_init(struct envelope *envelope, const struct plan *plan, const char *queue, unsigned count,
                   uint64_t groups);

/* Makes connection->own the request for the messages from `first` on, and has it written. */
void envelope_ask(const struct envelope *envelope, struct connection *connection, uint64_t first);

/* Appends a field with the queue's URL, and before it the brace that begins a request's body. */
void envelope_url_append(struct text *out, const struct plan *plan, const char *queue);

#endif
