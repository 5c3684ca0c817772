/* The body of a SendMessageBatch, being built. Its entries' Ids are "0", "1", …, in the order of sqs_batch_add(). */
#ifndef TALLY_RELAY_SQS_BATCH_H
#define TALLY_RELAY_SQS_BATCH_H

#include "relay/row.h"
#include <yyjson.h>

/* A message that may be there already carries this attribute, "1" (P17). */
#define SQS_MARK_ATTRIBUTE "maybe-duplicate"

struct sqs_batch {
    yyjson_mut_doc *doc_owned;
    yyjson_mut_val *entries;
    struct buffer scratch;
    size_t count;
    size_t size; /* of the messages as SQS counts them: body and attributes; at least that */
};

/* How the rows of a call become messages. */
struct sqs_form {
    bool is_fifo;   /* with MessageGroupId and MessageDeduplicationId */
    bool is_strict; /* rows without a group are of one group */
    bool is_marked; /* this one may be there already */
};

enum sqs_added {
    SQS_ADDED,
    SQS_FULL,     /* nothing changed: it goes into another batch */
    SQS_UNUSABLE, /* the row can be no message: `reason` says why */
};

void sqs_batch_init(struct sqs_batch *batch, const char *queue_url);
void sqs_batch_deinit(struct sqs_batch *batch);

/* The first row fits whatever its size: the server says whether it does. The row is borrowed until the body is
 * written. */
enum sqs_added sqs_batch_add(struct sqs_batch *batch, const struct row *row, struct sqs_form form, size_t size_max,
                             char reason[ROW_REASON_SIZE]);

/* Appends the body. False: a text in it is not UTF-8. */
bool sqs_batch_write(const struct sqs_batch *batch, struct buffer *body);

#endif
