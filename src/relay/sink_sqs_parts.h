/* What the files of the SQS sink share: sink_sqs.c (made, and what it remembers), sink_sqs_call.c (one call: its
 * requests), sink_sqs_answers.c (what they mean for the rows). */
#ifndef TALLY_RELAY_SINK_SQS_PARTS_H
#define TALLY_RELAY_SINK_SQS_PARTS_H

#include "base/assert.h"
#include "base/buffer.h"
#include "relay/sink_sqs.h"
#include "relay/sqs_answer.h"
#include "relay/sqs_batch.h"
#include "relay/sqs_endpoint.h"
#include "relay/sqs_queues.h"
#include <pthread.h>

/* As many rows of a killed relay are in doubt, though few of them were tried. */
#define CALL_ROWS_MAX 200u

struct sink_sqs {
    struct sink base;
    struct transport *transports_owned[SQS_CONNECTIONS_MAX];
    char *endpoint_owned;
    struct bytes own_name; /* of the sink's own queue, part of the spec's URL in `own_owned`; empty: there is none */
    char *own_owned;
    struct sqs_queues queues;
    size_t batch_size_max;
    bool is_strict;
    bool blocks_group;
    unsigned failures;
};

/* Rows of one line go one after the other: those of a group in a queue, or all. */
struct line {
    bool is_closed;   /* one of it failed: those behind are left untried */
    bool is_underway; /* one of it is in a request that was not answered yet (P15) */
    unsigned walk;    /* the batch that has met it */
};

/* Everything in it is under the mutex, except while a request is under way. */
struct call {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a request was answered */
    size_t underway_count;
    struct sink_sqs *sqs;
    const struct permit *permit;
    struct attempt *attempts;
    size_t count;
    size_t line_of[CALL_ROWS_MAX];
    struct line lines[CALL_ROWS_MAX];
    bool is_settled[CALL_ROWS_MAX];
    bool is_alone[CALL_ROWS_MAX]; /* it was in a batch that was refused as a whole: which of them was it? */
    unsigned walk;
    uint64_t begun_ms;
    bool is_over;
};

/* The rows of a batch. */
struct batch_rows {
    size_t members[SQS_BATCH_MAX];
    size_t member_count;
};

static inline struct sink_sqs *sink_sqs_of(struct sink *sink)
{
    return CONTAINER_OF(sink, struct sink_sqs, base);
}

/* The name of the queue that a row goes to, or its URL. */
struct bytes sink_sqs_name_of(const struct sink_sqs *sqs, const struct row *row);
bool sink_sqs_is_url(struct bytes name);

/* Of struct sink_ops. */
uint64_t sink_sqs_memory_ms(const struct sink *sink, const struct row *row);
enum step sink_sqs_deliver(struct sink *sink, const struct term *term, struct attempt *attempts, size_t count,
                           uint64_t settled, const struct permit *permit, struct fault *fault);

/* From here on everything is called under the call's mutex. This is the verdict on a row; where those behind it must
 * wait, its line is closed. `reason` may be NULL. */
void sink_sqs_settle(struct call *call, size_t index, enum verdict verdict, const char *reason);

/* One of the parcel is not as it must be, or they are too many bytes: each is sent alone, and the server says which. */
void sink_sqs_split(struct call *call, const struct batch_rows *rows, const char *reason);

/* Why there was no answer; NULL: the request was not tried. */
const char *sink_sqs_reason_of(const struct sqs_exchange *exchange);

/* These settle the rows that the exchange was about, and end the call where the endpoint is down. The first: an answer
 * that was no URL, when the row's queue was asked for. The others, of a batch: it was refused as a whole; it was not;
 * there was no answer, so it may have arrived, or nothing of it left. */
void sink_sqs_read_no_url(struct call *call, size_t index, const struct sqs_exchange *exchange);
void sink_sqs_read_refusal(struct call *call, const struct batch_rows *rows, const struct sqs_exchange *exchange);
void sink_sqs_read_results(struct call *call, const struct batch_rows *rows, struct bytes text);
void sink_sqs_read_silence(struct call *call, const struct batch_rows *rows, const struct sqs_exchange *exchange);

#endif
