#include "api/scrape.h"

#include "api/state.h"
#include "auth/patterns.h"
#include "auth/url_query.h"
#include "base/memory.h"
#include <stdlib.h>

/* A namespace costs as much as so many queues. */
#define NAMESPACE_VISITS 8u

/* A scrape of few queues is answered in the turn in which it came. */
#define SCRAPE_PORTIONS_AT_ONCE 3u

#define QUEUES_A_WRITE 64u /* lines of one figure between two looks at the portion's size */

void scrape_init(struct scrape *scrape, const struct front *front, struct bytes patterns, struct buffer *text,
                 struct arena *lines)
{
    *scrape = (struct scrape){.front = front, .text = text, .lines = lines};
    if (patterns.size > 0)
        scrape->patterns = scrape->patterns_owned = memory_duplicate(patterns);
    else if (front->options.metrics_queues != NULL)
        scrape->patterns = bytes_from_string(front->options.metrics_queues);
    arena_init(&scrape->arena);
}

void scrape_deinit(struct scrape *scrape)
{
    arena_deinit(&scrape->arena);
    free((void *)scrape->patterns_owned.ptr);
    free(scrape->namespaces_owned);
    free(scrape->queues_owned);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static void begin_to_read(struct scrape *scrape)
{
    const struct front *front = scrape->front;
    size_t count = 0;
    for (size_t i = 0; i < front_count(front); i++)
        count += core_queue_count(namespace_core(front_at(front, i)->ns));
    scrape->version = front->version;
    scrape->shows_all = scrape->patterns.size == 0 && count <= SCRAPE_QUEUES_MAX;
    scrape->namespace_at = scrape->namespace_count = scrape->queue_count = 0;
    scrape->left_out = 0;
    scrape->is_inside = false;
    arena_reset(&scrape->arena);
}

static void begin_namespace(struct scrape *scrape, const struct api *api)
{
    ARRAY_GROW(scrape->namespaces_owned, scrape->namespace_count, scrape->namespace_capacity);
    namespace_figures_read(api, scrape->now_ms, &scrape->arena, &scrape->namespaces_owned[scrape->namespace_count++]);
    scrape->is_inside = true;
    scrape->next_size = 0;
}

static bool is_shown(const struct scrape *scrape, const struct queue *queue)
{
    if (scrape->patterns.size == 0)
        return scrape->shows_all;
    return scrape->queue_count < SCRAPE_MATCHES_MAX && patterns_match(scrape->patterns, queue->name_owned);
}

static void read_queue(struct scrape *scrape, const struct api *api, const struct queue *queue, uint64_t now_ms)
{
    struct queue_figures figures = {.name_space = scrape->namespace_count - 1};
    queue_figures_read(api, queue, now_ms, &figures);
    queue_figures_sum(&figures, &scrape->namespaces_owned[scrape->namespace_count - 1]);
    if (!is_shown(scrape, queue)) {
        scrape->left_out++;
        return;
    }
    ARRAY_GROW(scrape->queues_owned, scrape->queue_count, scrape->queue_capacity);
    scrape->queues_owned[scrape->queue_count++] = figures;
}

static uint64_t later(uint64_t one_ms, uint64_t other_ms)
{
    return one_ms > other_ms ? one_ms : other_ms;
}

/* Reads the next queues of the namespace, *visits at most, and takes them off *visits. True: there are no more. Queues
 * that come or go between two portions are met or not; none is met twice, because the walk goes on by name. */
static bool read_queues(struct scrape *scrape, const struct api *api, uint64_t now_ms, unsigned *visits)
{
    const struct core *core = namespace_core(api->ns);
    const struct bytes next = bytes_make(scrape->next, scrape->next_size);
    const uint64_t as_of_ms = later(now_ms, core_now_ms(core));
    for (size_t i = core_queue_index(core, next); i < core_queue_count(core); i++) {
        const struct queue *queue = core_queue_by_name(core, i);
        if (*visits == 0) {
            scrape->next_size = queue->name_owned.size;
            memcpy(scrape->next, queue->name_owned.ptr, queue->name_owned.size);
            return false;
        }
        const unsigned cost = (unsigned)patterns_cost(scrape->patterns, queue->name_owned);
        *visits -= cost < *visits ? cost : *visits;
        read_queue(scrape, api, queue, as_of_ms);
    }
    return true;
}

/* True: all has been read. If a namespace has come or gone since it began, it begins again. */
static bool read_portion(struct scrape *scrape, uint64_t now_ms)
{
    const struct front *front = scrape->front;
    if (scrape->version != front->version)
        begin_to_read(scrape);
    for (unsigned visits = SCRAPE_PORTION_QUEUES; visits > 0;) {
        if (scrape->namespace_at == front_count(front))
            return true;
        const struct api *api = front_at(front, scrape->namespace_at);
        if (!scrape->is_inside) {
            begin_namespace(scrape, api);
            visits -= visits < NAMESPACE_VISITS ? visits : NAMESPACE_VISITS;
        }
        if (!read_queues(scrape, api, now_ms, &visits))
            return false;
        scrape->namespace_at++;
        scrape->is_inside = false;
    }
    return false;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static size_t count_one(const struct scrape *scrape)
{
    (void)scrape;
    return 1;
}

static size_t count_metrics(const struct scrape *scrape)
{
    (void)scrape;
    return METRIC_COUNT;
}

static void write_metric(struct scrape *scrape, size_t item)
{
    namespace_figures_write(scrape->namespaces_owned, scrape->namespace_count, (enum metric)item, scrape->text);
}

static void write_ages(struct scrape *scrape, size_t item)
{
    (void)item;
    namespace_ages_write(scrape->namespaces_owned, scrape->namespace_count, scrape->lines, scrape->text);
}

static void write_batches(struct scrape *scrape, size_t item)
{
    (void)item;
    namespace_batches_write(scrape->namespaces_owned, scrape->namespace_count, scrape->lines, scrape->text);
}

static void write_recovery(struct scrape *scrape, size_t item)
{
    (void)item;
    namespace_recovery_write(scrape->namespaces_owned, scrape->namespace_count, scrape->text);
}

static void write_left_out(struct scrape *scrape, size_t item)
{
    (void)item;
    metric_write_head(scrape->text, "tally_metrics_queues_left_out", "gauge",
                      "Queues without lines of their own in this reply: see metrics-queues, or ask for "
                      "/metrics?queue=PATTERN.");
    metric_write_number(scrape->text, bytes_make(NULL, 0), "tally_metrics_queues_left_out", bytes_make(NULL, 0),
                        scrape->left_out);
}

/* Each figure has an item for each run of queues, and at least one for its head. */
static size_t count_runs(const struct scrape *scrape)
{
    return scrape->queue_count / QUEUES_A_WRITE + 1;
}

static size_t count_queues(const struct scrape *scrape)
{
    return QUEUE_FIGURE_COUNT * count_runs(scrape);
}

static void write_queues(struct scrape *scrape, size_t item)
{
    const size_t run = item % count_runs(scrape), first = run * QUEUES_A_WRITE;
    const size_t left = scrape->queue_count - first;
    queue_figures_write(scrape->queues_owned + first, left < QUEUES_A_WRITE ? left : QUEUES_A_WRITE,
                        (enum queue_figure)(item / count_runs(scrape)), run == 0, scrape->namespaces_owned,
                        scrape->lines, scrape->text);
}

static size_t count_namespaces(const struct scrape *scrape)
{
    return scrape->namespace_count;
}

static void write_histogram(struct scrape *scrape, size_t item, const char *name, const char *help,
                            const struct histogram *histogram)
{
    const struct namespace_figures *figures = &scrape->namespaces_owned[item];
    if (item == 0)
        metric_write_head(scrape->text, name, "histogram", help);
    metric_write_histogram(scrape->text, bytes_make(figures->account, figures->account_size), name, histogram);
}

static void write_wait(struct scrape *scrape, size_t item)
{
    write_histogram(scrape, item, "tally_queue_wait_seconds",
                    "How long messages waited from their send to their first delivery, since the start.",
                    &scrape->namespaces_owned[item].wait_ms);
}

static void write_processing(struct scrape *scrape, size_t item)
{
    write_histogram(scrape, item, "tally_queue_processing_seconds",
                    "How long it took from a message's newest delivery to its delete, since the start.",
                    &scrape->namespaces_owned[item].processing_ms);
}

static void write_server(struct scrape *scrape, size_t item)
{
    (void)item;
    server_metrics_write(scrape->front, scrape->text);
}

static void write_relays(struct scrape *scrape, size_t item)
{
    (void)item;
    relay_metrics_write(scrape->front, scrape->lines, scrape->text);
}

static void write_pools(struct scrape *scrape, size_t item)
{
    (void)item;
    pool_metrics_write(scrape->front, scrape->now_ms, scrape->lines, scrape->text);
}

static size_t count_actions(const struct scrape *scrape)
{
    (void)scrape;
    return action_count;
}

/* Only of actions that somebody has asked for. */
static void write_duration(struct scrape *scrape, size_t item)
{
    const struct histogram *durations_us = &scrape->front->durations_owned[item];
    if (item == 0)
        metric_write_head(
            scrape->text, "tally_request_duration_seconds", "histogram",
            "How long requests took from when they were read until their reply left, since the start. What "
            "waited for messages or tickets counts from the end of its wait.");
    if (histogram_count(durations_us) > 0)
        metric_write_durations(scrape->text, "tally_request_duration_seconds",
                               arena_format(scrape->lines, "action=\"%s\"", actions[item].target), durations_us);
}

static void write_calls(struct scrape *scrape, size_t item)
{
    if (item == 0)
        metric_write_head(scrape->text, "tally_calls_total", "counter", "Calls by action and result.");
    namespace_calls_write(&scrape->namespaces_owned[item], scrape->lines, scrape->text);
}

/* What a scrape has, in this order; each section in items, which are written one by one. */
static const struct {
    size_t (*count)(const struct scrape *scrape);
    void (*write)(struct scrape *scrape, size_t item);
} sections[] = {
    {count_metrics, write_metric},   {count_one, write_ages},
    {count_one, write_batches},      {count_one, write_recovery},
    {count_one, write_left_out},     {count_queues, write_queues},
    {count_namespaces, write_wait},  {count_namespaces, write_processing},
    {count_one, write_relays},       {count_one, write_server},
    {count_one, write_pools},        {count_actions, write_duration},
    {count_namespaces, write_calls},
};

/* False: that was the last. */
static bool write_portion(struct scrape *scrape)
{
    const size_t begin = scrape->text->size;
    arena_reset(scrape->lines);
    while (scrape->section < ARRAY_LENGTH(sections)) {
        if (scrape->item == sections[scrape->section].count(scrape)) {
            scrape->section++;
            scrape->item = 0;
            continue;
        }
        if (scrape->text->size - begin >= SCRAPE_PORTION_SIZE)
            return true;
        sections[scrape->section].write(scrape, scrape->item++);
    }
    return false;
}

bool scrape_step(struct scrape *scrape, uint64_t now_ms)
{
    scrape->now_ms = now_ms;
    if (scrape->is_read)
        return write_portion(scrape);
    scrape->is_read = read_portion(scrape, now_ms);
    return true;
}

/* --- the front's -------------------------------------------------------------------------------------------------- */

void front_metrics_write(const struct front *front, struct arena *arena, struct buffer *text)
{
    struct scrape scrape;
    scrape_init(&scrape, front, bytes_make(NULL, 0), text, arena);
    while (scrape_step(&scrape, 0))
        ;
    scrape_deinit(&scrape);
}

bool metrics_are_patterns(struct bytes list)
{
    size_t count;
    return patterns_are_sound(list, &count) && count <= METRICS_PATTERNS_MAX;
}

/* Which queues the request asks for by ?queue=; empty: all. False: that is no list of patterns. */
static bool read_patterns(const struct request *request, struct arena *arena, struct bytes *patterns)
{
    struct url_query query;
    url_query_init(&query);
    url_query_read(&query, request->query);
    const bool is_asked = url_query_find(&query, BYTES("queue"), patterns) > 0;
    const bool is_sound = !is_asked || metrics_are_patterns(*patterns);
    if (is_asked && is_sound)
        *patterns = arena_copy(arena, *patterns);
    url_query_deinit(&query);
    return is_sound;
}

static void finish(struct front *front, struct exchange *exchange, int status)
{
    exchange->api = NULL;
    exchange->reply.status = status;
    exchange->reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    front_finish(front, exchange, 0);
}

bool front_has_scrapes(const struct front *front)
{
    return !list_is_empty(&front->scrapes);
}

static void remove_scrape(struct scrape *scrape)
{
    list_remove(&scrape->link);
    scrape_deinit(scrape);
    free(scrape);
}

void front_scrape_step(struct front *front, uint64_t now_ms)
{
    struct list_link *first = list_first(&front->scrapes);
    if (first == NULL)
        return;
    struct scrape *scrape = CONTAINER_OF(first, struct scrape, link);
    struct exchange *exchange = scrape->exchange;
    if (scrape_step(scrape, now_ms))
        return;
    remove_scrape(scrape);
    finish(front, exchange, 200);
}

void front_scrape(struct front *front, struct exchange *exchange, uint64_t now_ms)
{
    struct bytes patterns;
    if (!read_patterns(&exchange->request, &exchange->arena, &patterns)) {
        buffer_truncate(&exchange->reply.body, 0);
        buffer_append_format(&exchange->reply.body,
                             "queue= is 1 to %u patterns with commas between, each 1 to %u of A-Z a-z 0-9 _ - . and "
                             "*.\n",
                             METRICS_PATTERNS_MAX, PATTERN_SIZE_MAX);
        finish(front, exchange, 400);
        return;
    }
    struct scrape *scrape = memory_allocate(sizeof(*scrape));
    scrape_init(scrape, front, patterns, &exchange->reply.body, &exchange->arena);
    scrape->exchange = exchange;
    exchange->state = EXCHANGE_WAITING;
    list_append(&front->scrapes, &scrape->link);
    const bool is_alone = list_first(&front->scrapes) == &scrape->link;
    for (unsigned i = 0; is_alone && exchange->state == EXCHANGE_WAITING && i < SCRAPE_PORTIONS_AT_ONCE; i++)
        front_scrape_step(front, now_ms);
}

void front_abandon_scrape(struct front *front, struct exchange *exchange)
{
    if (exchange->state == EXCHANGE_FINISHED) {
        list_remove(&exchange->api_link);
        return;
    }
    struct list_link *link = list_first(&front->scrapes);
    while (CONTAINER_OF(link, struct scrape, link)->exchange != exchange)
        link = list_next(&front->scrapes, link);
    remove_scrape(CONTAINER_OF(link, struct scrape, link));
    exchange->state = EXCHANGE_NEW;
}
