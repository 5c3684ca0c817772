/* The queues of an SQS endpoint that rows have named: their URLs, asked for once. */
#ifndef TALLY_RELAY_SQS_QUEUES_H
#define TALLY_RELAY_SQS_QUEUES_H

#include "base/bytes.h"

struct sqs_queue {
    struct bytes name_owned;
    char *url_owned;
    bool is_fifo;
};

struct sqs_queues {
    struct sqs_queue **items_owned;
    size_t count, capacity;
};

void sqs_queues_init(struct sqs_queues *queues);
void sqs_queues_deinit(struct sqs_queues *queues);

/* NULL: its URL is not known. Borrowed until it is forgotten. */
struct sqs_queue *sqs_queues_find(const struct sqs_queues *queues, struct bytes name);

/* Both are copied. The name is not known yet. */
struct sqs_queue *sqs_queues_add(struct sqs_queues *queues, struct bytes name, const char *url);
void sqs_queues_forget(struct sqs_queues *queues, struct bytes name);

/* A queue's URL as https://HOST/…/NAME: where the endpoint ends, and the name. An endpoint alone has an empty name. */
size_t sqs_endpoint_size(const char *url);
struct bytes sqs_queue_name(const char *url);

/* The name, or the URL, of a FIFO queue ends so. */
bool sqs_is_fifo(struct bytes name);

#endif
