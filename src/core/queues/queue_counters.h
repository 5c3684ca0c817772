/* What has happened to the messages of a queue since this process serves its namespace, and how often lately. It is for
 * people: no part of the state, in no snapshot, and read by no decision.
 *
 * Rates need no timer. Time is cut into spans of 65,536 ms; the first count of a span notes what the counts were when
 * it began, and keeps what they were when the one before it began. A rate over the last minute is what came in this
 * span, and as much of the one before as lies in that minute, as if it had come evenly. */
#ifndef TALLY_CORE_QUEUES_QUEUE_COUNTERS_H
#define TALLY_CORE_QUEUES_QUEUE_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

/* X(COUNTER, name of its metric, help): the first QUEUE_RATED_COUNT have a rate. */
#define QUEUE_COUNTERS(X)                                                                                              \
    X(SENT, "tally_queue_messages_sent_total", "Messages that were sent to the queue, also by Tally itself.")          \
    X(RECEIVED, "tally_queue_messages_received_total", "Deliveries of its messages.")                                  \
    X(DELETED, "tally_queue_messages_deleted_total",                                                                   \
      "Messages that ended well: by a delete, a Commit, or at most "                                                   \
      "once.")                                                                                                         \
    X(FAILED, "tally_queue_messages_failed_total",                                                                     \
      "Attempts that failed: by FailMessage, or because the visibility timeout was over.")                             \
    X(DEAD_LETTERED, "tally_queue_messages_dead_lettered_total",                                                       \
      "Messages that left the queue for a dead-letter queue.")                                                         \
    X(DROPPED, "tally_queue_messages_dropped_total",                                                                   \
      "Messages that ended in failure because there is no dead-letter queue, or what they waited for failed.")         \
    X(EXPIRED, "tally_queue_messages_expired_total", "Messages whose retention was over.")                             \
    X(REDRIVEN, "tally_queue_messages_redriven_total", "Messages that a move task took out of the queue.")             \
    X(EMPTY_RECEIVES, "tally_queue_empty_receives_total", "Receives that were answered without a message.")

enum queue_counter {
#define QUEUE_COUNTER_ENUM(COUNTER, name, help) COUNTER_##COUNTER,
    QUEUE_COUNTERS(QUEUE_COUNTER_ENUM)
#undef QUEUE_COUNTER_ENUM
        QUEUE_COUNTER_COUNT
};

#define QUEUE_RATED_COUNT 5u
#define QUEUE_SPAN_SHIFT 16u
#define QUEUE_RATE_MS 60000u /* what a rate looks back; less than a span */

struct queue_counters {
    uint64_t counts[QUEUE_COUNTER_COUNT];
    uint64_t last_receive_ms;             /* when somebody last asked for messages, in vain or not; 0: nobody has */
    uint32_t span;                        /* of the newest count; 0: there is none */
    uint32_t at_begin[QUEUE_RATED_COUNT]; /* the lower halves of the counts when that span began */
    uint32_t before[QUEUE_RATED_COUNT];   /* and when the one before it did */
};

static inline uint32_t queue_span(uint64_t now_ms)
{
    return (uint32_t)(now_ms >> QUEUE_SPAN_SHIFT);
}

/* Begins the span of now_ms. */
void queue_counters_begin_span(struct queue_counters *counters, uint64_t now_ms);

/* Somebody asks for messages, or has waited for them until now; is_empty: and is answered without one. */
static inline void queue_counters_note_receive(struct queue_counters *counters, uint64_t now_ms, bool is_empty)
{
    counters->last_receive_ms = now_ms;
    counters->counts[COUNTER_EMPTY_RECEIVES] += is_empty;
}

/* How many a second, over the last minute, or since since_ms if that is later. One of the first QUEUE_RATED_COUNT. */
double queue_counters_rate(const struct queue_counters *counters, enum queue_counter counter, uint64_t now_ms,
                           uint64_t since_ms);

#endif
