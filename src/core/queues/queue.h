/* A queue: a name, settings and a message list of messages. */
#ifndef TALLY_CORE_QUEUES_QUEUE_H
#define TALLY_CORE_QUEUES_QUEUE_H

#include "base/buffer.h"
#include "base/list.h"
#include "core/queues/queue_counters.h"
#include "core/queues/queue_set.h"
#include <stdbool.h>
#include <stdint.h>

#define QUEUE_NAME_SIZE_MAX 80u
#define MOVES_PER_QUEUE_MAX 10u /* move tasks remembered, the running one among them */

enum deduplication_scope { SCOPE_QUEUE = 0, SCOPE_GROUP = 1 };
enum group_failure { GROUP_FAILURE_SKIP = 0, GROUP_FAILURE_HOLD = 1, GROUP_FAILURE_CANCEL_REST = 2 };

#define DEDUPLICATION_WINDOW_DEFAULT_S 300u
#define DEDUPLICATION_WINDOW_EVER UINT32_MAX

/* How long a failed attempt waits before the next one. factor and jitter in thousandths. */
struct backoff {
    bool is_set;
    uint32_t min_ms;
    uint32_t max_ms;
    uint32_t factor;
    uint32_t jitter;
};

/* A token bucket: `burst` deliveries at once, then one each interval_us. */
struct rate {
    uint64_t interval_us; /* 0: no limit */
    uint32_t burst;
};

/* What SetQueueAttributes changes. Ranges are checked by the api; the core only uses them, or, of the texts but the
 * ARN, only keeps them. Source: SQS API reference, CreateQueue. */
struct queue_settings {
    uint32_t delay_s;              /* 0 to 900 */
    uint32_t message_size_max;     /* 1,024 to 1,048,576 bytes */
    uint32_t retention_s;          /* 60 to 1,209,600 */
    uint32_t wait_s;               /* 0 to 20 */
    uint32_t visibility_timeout_s; /* 0 to 43,200 */
    uint32_t receive_count_max;    /* of the redrive policy; 0: no policy */
    struct bytes dead_letter_arn;  /* of the redrive policy; empty: no policy */
    bool is_fifo;
    bool is_content_deduplicated;
    uint8_t deduplication_scope; /* enum deduplication_scope */
    bool is_limit_per_group;     /* FifoThroughputLimit: stored and shown, nothing is throttled */
    bool is_strict;              /* Tally.StrictOrder */
    uint8_t group_failure;       /* enum group_failure */
    bool is_at_most_once;
    bool has_window;                 /* Tally.DeduplicationWindow was set */
    uint32_t deduplication_window_s; /* 0: none; DEDUPLICATION_WINDOW_EVER */
    uint32_t group_concurrency;      /* 0: no limit */
    struct backoff backoff;
    struct rate queue_rate;
    struct rate group_rate;
    struct bytes policy; /* Policy, compact JSON; empty: none. This and what follows is stored and shown */
    struct bytes redrive_allow_policy; /* RedriveAllowPolicy, in its canonical form; empty: none */
    struct bytes kms_key;              /* KmsMasterKeyId; empty: none. Nothing is encrypted by it */
    uint32_t kms_reuse_s;              /* 60 to 86,400 */
    bool is_sse_managed;               /* SqsManagedSseEnabled; not together with kms_key */
    bool refuses_stale;                /* Tally.StaleReceipts is refuse; a FIFO queue refuses without it */
};

#define KMS_REUSE_DEFAULT_S 300u

/* X(name): the texts of settings. */
#define QUEUE_SETTINGS_TEXTS(X) X(dead_letter_arn) X(policy) X(redrive_allow_policy) X(kms_key)

/* Deletes that came when the visibility timeout was over. */
struct queue_lateness {
    uint64_t count;
    uint64_t longest_ms; /* by so much the latest of them came too late */
};

struct queue {
    uint32_t id;           /* never reused */
    uint32_t message_list; /* slot; 0: the queue was deleted and lives on as the origin of messages elsewhere */
    struct bytes name_owned;
    struct queue_settings settings; /* its texts are owned */
    struct bytes tags_owned;        /* tags.h */
    uint64_t created_at_ms;
    uint64_t modified_at_ms;
    uint64_t purged_at_ms; /* 0: never */
    uint32_t origin_count; /* messages elsewhere that were dead-lettered from here */
    /* Queues whose dead letters came here. No part of the state: a snapshot tells it only of messages that are here. */
    struct queue_set origins;
    uint32_t target_count; /* targets of batches not completed, and schedules, that name this queue */
    bool is_paused;
    uint64_t rate_tat_us;  /* theoretical arrival time of the next delivery (GCRA) */
    uint64_t order;        /* the id again, for the heap of timers */
    uint32_t timer_index;  /* in the core's heap of queue timers: its bucket lets one through again */
    uint32_t first_window; /* what is remembered of its deduplication ids and producers (deduplication.h): slots */
    uint32_t first_producer;
    uint32_t last_producer;
    /* batches not completed whose awaited message (batch_awaited_event) will come into this FIFO queue */
    struct list awaited;
    uint32_t moves[MOVES_PER_QUEUE_MAX]; /* tasks that move messages away from here, the newest last: slots (move.h) */
    uint32_t move_count;
    struct list_link ready_link;    /* linked: became deliverable since the api last asked */
    struct list_link counted_link;  /* linked: a span of its counters has begun since the api last asked */
    struct queue_lateness lateness; /* the api's too, since the start; no part of the state, like the next */
    struct queue_counters counters;
};

/* Settings of a plain standard queue, but for the numbers that SQS gives it. */
struct queue_settings queue_settings_plain(void);

/* The part of an ARN behind its last colon: the queue's name. */
struct bytes queue_name_of_arn(struct bytes arn);

/* Does the redrive policy of `source` name this queue? */
bool queue_is_source_of(const struct queue *source, const struct queue *target);

/* Does nothing but the newest receipt handle of a message do anything in the queue? */
static inline bool queue_refuses_stale(const struct queue *queue)
{
    return queue->settings.is_fifo || queue->settings.refuses_stale;
}

void queue_settings_encode(const struct queue_settings *settings, struct buffer *out);
/* False, with *settings untouched, if `encoded` is none. Its views point into `encoded`. */
bool queue_settings_decode(struct bytes encoded, struct queue_settings *settings);

/* When a bucket whose newest theoretical arrival time is tat_us lets one through; and that time after a delivery at
 * now_ms. Source: ITU-T I.371, the generic cell rate algorithm, which is a token bucket in one number. */
uint64_t rate_allows_at_ms(const struct rate *rate, uint64_t tat_us);
uint64_t rate_after_delivery(const struct rate *rate, uint64_t tat_us, uint64_t now_ms);

/* That time after the bucket got this rate at now_ms: it is empty at most. */
uint64_t rate_after_change(const struct rate *rate, uint64_t tat_us, uint64_t now_ms);

/* Puts a copy of `settings` in place of those the queue has. */
void queue_adopt_settings(struct queue *queue, const struct queue_settings *settings);

/* May be asked of a freed record. */
POISON_MAY_LOOK static inline bool queue_is_used(const struct queue *queue)
{
    return queue->name_owned.ptr != NULL;
}

void queue_init(struct queue *queue, uint32_t id, struct bytes name);
void queue_deinit(struct queue *queue);

#endif
