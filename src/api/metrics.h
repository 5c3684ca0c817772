/* What the writers of metrics share. Private to src/api.
 *
 * A scrape (scrape.h) first reads all figures, then writes them, metric by metric, as Prometheus wants it. So what it
 * writes is from one walk, though other requests are served meanwhile. */
#ifndef TALLY_API_METRICS_H
#define TALLY_API_METRICS_H

#include "api/api.h"
#include "base/histogram.h"

/* --- lines -------------------------------------------------------------------------------------------------------- */

/* The lines before the values of a metric. */
void metric_write_head(struct buffer *text, const char *name, const char *kind, const char *help);

/* The namespace that labels the metrics of its own; empty: there is only one, and no label. */
struct bytes metric_account(const struct api *api);

/* A value of a namespace; other labels may follow ("pool=\"duel\"", or none). */
void metric_write_number(struct buffer *text, struct bytes account, const char *name, struct bytes labels,
                         uint64_t value);
void metric_write_value(const struct api *api, struct buffer *text, const char *name, struct bytes labels,
                        uint64_t value);

/* The same for a time, which is shown in seconds. */
void metric_write_seconds(struct buffer *text, struct bytes account, const char *name, struct bytes labels,
                          uint64_t time_ms);
void metric_write_time(const struct api *api, struct buffer *text, const char *name, struct bytes labels,
                       uint64_t time_ms);

/* The series of a histogram of milliseconds, in seconds. `name` is without _bucket, _sum and _count. */
void metric_write_histogram(struct buffer *text, struct bytes account, const char *name,
                            const struct histogram *histogram_ms);

/* The same of microseconds, of the whole server and with other labels; buckets whose upper ends are powers of four. */
void metric_write_durations(struct buffer *text, const char *name, struct bytes labels,
                            const struct histogram *histogram_us);

/* --- a namespace (metrics.c) -------------------------------------------------------------------------------------- */

/* X(METRIC, name, kind, help) */
#define METRIC_LIST(X)                                                                                                 \
    X(QUEUES, "tally_queues", "gauge", "Queues.")                                                                      \
    X(MESSAGES, "tally_messages", "gauge", "Messages in all queues.")                                                  \
    X(IN_FLIGHT, "tally_messages_in_flight", "gauge", "Messages held by receivers.")                                   \
    X(DELAYED, "tally_messages_delayed", "gauge", "Messages not yet visible.")                                         \
    X(DEDUPLICATION_IDS, "tally_deduplication_ids", "gauge", "Deduplication ids remembered.")                          \
    X(PRODUCERS, "tally_producers", "gauge", "Numbered producers remembered.")                                         \
    X(PUBLISHERS, "tally_publishers", "gauge", "Publishers remembered.")                                               \
    X(PUBLISHED_ROWS, "tally_published_rows", "gauge", "Rows of publishers remembered.")                               \
    X(REUSED_IDS, "tally_published_ids_reused_total", "counter",                                                       \
      "Published rows whose id another row had, since the namespace was founded.")                                     \
    X(WAITING, "tally_receives_waiting", "gauge", "Long polls that wait for messages.")                                \
    X(POOLS, "tally_pools", "gauge", "Pools of tickets.")                                                              \
    X(FEEDS, "tally_feeds_waiting", "gauge", "Long polls that wait for the feed of a pool.")                           \
    X(SENT, "tally_messages_sent_total", "counter", "Messages accepted since the namespace was founded.")              \
    X(DELIVERED, "tally_deliveries_total", "counter", "Deliveries since the namespace was founded.")                   \
    X(DURABLE, "tally_frames_durable_total", "counter", "Frames made durable since the namespace was founded.")        \
    X(DISK_BYTES, "tally_disk_bytes", "gauge", "What the log's segments and snapshots take up on the disk.")           \
    X(DISK_LIVE_BYTES, "tally_disk_live_bytes", "gauge", "Content of live messages, and the newest snapshot.")         \
    X(DISK_BOUND_BYTES, "tally_disk_bound_bytes", "gauge",                                                             \
      "What tally_disk_bytes is kept under; 0: no snapshots, no bound.")                                               \
    X(DISK_RESERVE_BYTES, "tally_disk_reserve_bytes", "gauge", "Of that, what is kept for a full disk.")               \
    X(DISK_RESERVE_MISSING, "tally_disk_reserve_missing_bytes", "gauge", "What could not be had of the reserve.")      \
    X(DISK_FREE_BYTES, "tally_disk_free_bytes", "gauge", "What is free on the file system of the data folder.")        \
    X(DISK_MIN_FREE_BYTES, "tally_disk_min_free_bytes", "gauge", "What must stay free (disk-min-free).")               \
    X(DISK_LEVEL, "tally_disk_level", "gauge",                                                                         \
      "0: the disk has room; 1: sends are refused; 2: whatever is written waits for a segment to come free.")          \
    X(SNAPSHOT_AT, "tally_snapshot_last_success_timestamp_seconds", "gauge",                                           \
      "When a snapshot last went well; 0: not since the start.")                                                       \
    X(SNAPSHOTS_FAILED, "tally_snapshots_failed_total", "counter", "Snapshots that failed, since the start.")          \
    X(SNAPSHOT_FAILING, "tally_snapshot_failing", "gauge",                                                             \
      "1: the last attempt at a snapshot failed, and nothing comes free on the disk until one goes well.")             \
    X(SEGMENTS, "tally_log_segments", "gauge", "Segments of the log.")                                                 \
    X(CLEANING_ROUNDS, "tally_cleaning_rounds_total", "counter", "Rounds of cleaning begun since the start.")          \
    X(MOVED_BYTES, "tally_cleaning_moved_bytes_total", "counter", "Contents moved by cleaning since the start.")       \
    X(SCHEDULES, "tally_schedules", "gauge", "Schedules.")                                                             \
    X(SCHEDULES_WAITING, "tally_schedules_waiting_for_zone", "gauge",                                                  \
      "Schedules that are due and wait because their time zone can't be read.")                                        \
    X(DAMAGED, "tally_contents_damaged_total", "counter", "Message bodies that could not be read back from the log.")  \
    X(STALE_RECEIPTS, "tally_stale_receipts_total", "counter",                                                         \
      "Receipt handles that were not the newest of their message, whether accepted or refused, since the start.")      \
    X(DELETED, "tally_messages_deleted_total", "counter", "Messages that ended well, since the start.")                \
    X(FAILED, "tally_messages_failed_total", "counter", "Attempts that failed, since the start, as of each queue.")    \
    X(DEAD_LETTERED, "tally_messages_dead_lettered_total", "counter",                                                  \
      "Messages moved to dead-letter queues, since the start.")                                                        \
    X(DROPPED, "tally_messages_dropped_total", "counter",                                                              \
      "Messages that ended in failure without a dead-letter queue, since the start.")                                  \
    X(EXPIRED, "tally_messages_expired_total", "counter", "Messages whose retention was over, since the start.")       \
    X(REDRIVEN, "tally_messages_redriven_total", "counter", "Messages moved by move tasks, since the start.")          \
    X(QUEUES_PAUSED, "tally_queues_paused", "gauge", "Queues that are paused.")                                        \
    X(GROUPS_HELD, "tally_groups_held", "gauge", "Groups that are held; of a queue 1,000 at most are counted.")

enum metric {
#define METRIC_ENUM(METRIC, name, kind, help) METRIC_##METRIC,
    METRIC_LIST(METRIC_ENUM)
#undef METRIC_ENUM
        METRIC_COUNT
};

/* The oldest message of a queue: of all, and of those that a receive could have now. */
enum metric_age { AGE_ANY, AGE_DELIVERABLE, METRIC_AGE_COUNT };

struct namespace_figures {
    char account[NAMESPACE_NAME_SIZE]; /* its label */
    size_t account_size;
    uint64_t values[METRIC_COUNT];
    uint64_t ages_ms[METRIC_AGE_COUNT];    /* of all its queues the worst */
    uint64_t batches[BATCH_COMPLETED + 1]; /* by state */
    uint64_t batch_age_ms;                 /* of the oldest that has not completed; 0: none */
    uint64_t recovery_ms;
    struct histogram wait_ms;
    struct histogram processing_ms;
    uint64_t *call_counts; /* as in struct api; in an arena */
};

/* `now_ms` as in scrape_step(). */
void namespace_figures_read(const struct api *api, uint64_t now_ms, struct arena *arena,
                            struct namespace_figures *figures);

/* The values of one metric of all these namespaces. */
void namespace_figures_write(const struct namespace_figures *figures, size_t count, enum metric metric,
                             struct buffer *text);
void namespace_ages_write(const struct namespace_figures *figures, size_t count, struct arena *arena,
                          struct buffer *text);
void namespace_batches_write(const struct namespace_figures *figures, size_t count, struct arena *arena,
                             struct buffer *text);
void namespace_recovery_write(const struct namespace_figures *figures, size_t count, struct buffer *text);
void namespace_calls_write(const struct namespace_figures *figures, struct arena *arena, struct buffer *text);

/* --- a queue (queue_metrics.c) ------------------------------------------------------------------------------------ */

enum queue_figure {
    QUEUE_VISIBLE,
    QUEUE_IN_FLIGHT,
    QUEUE_DELAYED,
    QUEUE_BLOCKED,
    QUEUE_AGE_ANY_MS,
    QUEUE_AGE_DELIVERABLE_MS,
    QUEUE_RECEIVERS,
    QUEUE_LAST_RECEIVE_MS,
    QUEUE_PAUSED,
    QUEUE_GROUPS_HELD,
    QUEUE_GROUPS_PAUSED,
    QUEUE_DEAD_LETTERS,
    QUEUE_COUNTED, /* enum queue_counter follows */
    QUEUE_FIGURE_COUNT = QUEUE_COUNTED + QUEUE_COUNTER_COUNT
};

struct queue_figures {
    size_t name_space; /* place of its namespace among the figures of those */
    char name[QUEUE_NAME_SIZE_MAX];
    size_t name_size;
    uint64_t values[QUEUE_FIGURE_COUNT];
};

void queue_figures_read(const struct api *api, const struct queue *queue, uint64_t now_ms,
                        struct queue_figures *figures);

/* Adds what a namespace says of all its queues together. */
void queue_figures_sum(const struct queue_figures *queue, struct namespace_figures *sum);

/* Those of one figure and these queues; is_first: the first lines of that figure. */
void queue_figures_write(const struct queue_figures *queues, size_t count, enum queue_figure figure, bool is_first,
                         const struct namespace_figures *namespaces, struct arena *arena, struct buffer *text);

/* --- the others --------------------------------------------------------------------------------------------------- */

/* Of the whole server, whatever the number of namespaces (metrics.c). */
void server_metrics_write(const struct front *front, struct buffer *text);

/* The metrics of relays (relay_metrics.c) and of pools (pool_metrics.c). */
void relay_metrics_write(const struct front *front, struct arena *arena, struct buffer *text);
void pool_metrics_write(const struct front *front, uint64_t now_ms, struct arena *arena, struct buffer *text);

#endif
