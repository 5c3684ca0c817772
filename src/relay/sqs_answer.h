/* What an SQS endpoint answers, and what that means for a message (P14 in docs/internals/invariants-relays.md).
 * Pure. */
#ifndef TALLY_RELAY_SQS_ANSWER_H
#define TALLY_RELAY_SQS_ANSWER_H

#include "base/bytes.h"
#include "relay/row.h"

#define SQS_BATCH_MAX 10u
#define SQS_CODE_SIZE 80u

enum sqs_meaning {
    SQS_TAKEN,
    SQS_REFUSED, /* this message, and it would be refused again */
    SQS_BUSY,    /* not taken; later it may be */
    SQS_FAILED,  /* the fault of the server: it may have been taken or not */
    SQS_CLOSED,  /* the queue, or all that these credentials reach, can't be used */
};

struct sqs_outcome {
    enum sqs_meaning meaning;
    char reason[ROW_REASON_SIZE]; /* "CODE: message"; unless taken */
};

/* Of a request that was answered with an error as a whole. `query_error` is the header x-amzn-query-error, "" if there
 * was none. */
void sqs_read_error(int status, struct bytes text, const char *query_error, struct sqs_outcome *outcome);

/* Of a SendMessageBatch that was answered with 200: one outcome for each of the entries, whose Ids are "0", "1", … An
 * entry that the answer does not name has failed. */
void sqs_read_batch(struct bytes text, struct sqs_outcome outcomes[SQS_BATCH_MAX], size_t count);

/* The QueueUrl of a GetQueueUrl; false: there is none. It is copied. */
bool sqs_read_queue_url(struct bytes text, struct bytes *url_owned);

#endif
