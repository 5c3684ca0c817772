/* Scrapes: GET /metrics, answered in portions. A turn of the loop reads the figures of some queues, or writes some
 * lines; then others are served. One scrape is made at a time, the others wait for it. Private to src/api, but for what
 * front.h says.
 *
 * How many queues have lines of their own is bounded. Without patterns all have, as long as the server has
 * SCRAPE_QUEUES_MAX at most, and then none; with patterns those that match, SCRAPE_MATCHES_MAX at most. What is left
 * out is counted in tally_metrics_queues_left_out, and in the sums and worst values of its namespace like any other. */
#ifndef TALLY_API_SCRAPE_H
#define TALLY_API_SCRAPE_H

#include "api/metrics.h"

#define SCRAPE_QUEUES_MAX 1000u
#define SCRAPE_MATCHES_MAX 10000u

/* Of one portion: the queues that it reads, and about how many bytes it writes. */
#define SCRAPE_PORTION_QUEUES 500u
#define SCRAPE_PORTION_SIZE ((size_t)64 * 1024)

struct scrape {
    struct list_link link; /* among the front's */
    const struct front *front;
    struct exchange *exchange;   /* whose reply it is; NULL: nobody's */
    struct buffer *text;         /* borrowed, like the next */
    struct arena *lines;         /* for the lines being written */
    struct bytes patterns_owned; /* asked for by the request; empty: none */
    struct bytes patterns;       /* those in force; empty: none */
    uint64_t version;            /* of the front's list of namespaces, when it began to read */
    bool shows_all;              /* there are few enough queues, and no patterns */

    size_t namespace_at; /* what is being read: the namespace, and its next queue */
    bool is_inside;      /* it has begun */
    char next[QUEUE_NAME_SIZE_MAX];
    size_t next_size;
    size_t section; /* what is being written: the section, and its next item */
    size_t item;
    bool is_read;
    uint64_t now_ms; /* of the newest step */

    struct arena arena; /* for what has been read */
    struct namespace_figures *namespaces_owned;
    size_t namespace_count;
    size_t namespace_capacity;
    struct queue_figures *queues_owned; /* that have lines of their own */
    size_t queue_count;
    size_t queue_capacity;
    uint64_t left_out;
};

/* `patterns` are copied; empty: what front_options say. `text` and `lines` are borrowed until scrape_deinit(). */
void scrape_init(struct scrape *scrape, const struct front *front, struct bytes patterns, struct buffer *text,
                 struct arena *lines);
void scrape_deinit(struct scrape *scrape);

/* Makes the next portion; false: that was the last. `now_ms` is log time; 0: that of each namespace. */
bool scrape_step(struct scrape *scrape, uint64_t now_ms);

#endif
