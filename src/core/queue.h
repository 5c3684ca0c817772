/* A queue: a name, settings and a shelf of messages. */
#ifndef TALLY_CORE_QUEUE_H
#define TALLY_CORE_QUEUE_H

#include "base/buffer.h"
#include "base/list.h"
#include <stdint.h>

#define QUEUE_NAME_SIZE_MAX 80u

/* What SetQueueAttributes changes. Ranges are checked by the api; the core only uses them.
 * Source: SQS API reference, CreateQueue. */
struct queue_settings {
    uint32_t delay_s;              /* 0 to 900 */
    uint32_t message_size_max;     /* 1,024 to 1,048,576 bytes */
    uint32_t retention_s;          /* 60 to 1,209,600 */
    uint32_t wait_s;               /* 0 to 20 */
    uint32_t visibility_timeout_s; /* 0 to 43,200 */
    uint32_t receive_count_max;    /* of the redrive policy; 0: no policy */
    struct bytes dead_letter_arn;  /* of the redrive policy; empty: no policy */
};

struct queue {
    uint32_t id;    /* never reused */
    uint32_t shelf; /* slot; 0: the queue was deleted and lives on as the origin of messages elsewhere */
    struct bytes name_owned;
    struct queue_settings settings; /* dead_letter_arn owned */
    uint64_t created_at_ms;
    uint64_t modified_at_ms;
    uint64_t purged_at_ms;       /* 0: never */
    uint32_t origin_count;       /* messages elsewhere that were dead-lettered from here */
    uint32_t target_count;       /* targets of batches not completed that name this queue */
    struct list_link ready_link; /* linked: became deliverable since the api last asked */
    void *waiters;               /* the api's list of waiting receives; never touched by the core */
};

/* The part of an ARN behind its last colon: the queue's name. */
struct bytes queue_name_of_arn(struct bytes arn);

void queue_settings_encode(const struct queue_settings *settings, struct buffer *out);
/* False, with *settings untouched, if `encoded` is none. Its views point into `encoded`. */
bool queue_settings_decode(struct bytes encoded, struct queue_settings *settings);

/* Puts a copy of `settings` in place of those the queue has. */
void queue_adopt_settings(struct queue *queue, const struct queue_settings *settings);

void queue_init(struct queue *queue, uint32_t id, struct bytes name);
void queue_deinit(struct queue *queue);

#endif
