#include "api/trends.h"

#include "api/memory_limit.h"
#include "api/state.h"
#include "base/accounted.h"
#include "core/messages/message_list.h"

/* A series that nothing has happened to for so long may be replaced by one of a busy queue. */
#define STALE_MS UINT64_C(3600000)

/* How many queues in which something happens get a series at a time. */
#define ADOPTED_MAX 1000u

static const struct {
    uint32_t period_s;
    uint32_t points_max;
} scales[TREND_SCALES] = {
    [TREND_FINE] = {TREND_FINE_S, TREND_FINE_POINTS}, [TREND_COARSE] = {TREND_COARSE_S, TREND_COARSE_POINTS}};

/* The newest points, oldest first from `first` on, around the end. */
struct period_ring {
    struct trend_point *points_owned;
    uint32_t capacity;
    uint32_t first;
    uint32_t count;
    uint32_t since;                   /* the period from which on all is known */
    uint32_t base[QUEUE_RATED_COUNT]; /* the lower halves of the counts when the last noted period ended */
};

struct trend_series {
    uint32_t queue;   /* id; 0: the namespace */
    uint64_t used_ms; /* when something last happened in it, or somebody asked for it */
    struct period_ring rings[TREND_SCALES];
};

uint32_t trends_period_s(enum trend_scale scale)
{
    return scales[scale].period_s;
}

uint32_t trends_points(enum trend_scale scale)
{
    return scales[scale].points_max;
}

static uint32_t period_at(enum trend_scale scale, uint64_t now_ms)
{
    return (uint32_t)(now_ms / 1000 / scales[scale].period_s);
}

void trends_init(struct trends *trends, bool is_kept)
{
    *trends = (struct trends){.next_ms = is_kept ? 0 : UINT64_MAX};
}

/* --- series ------------------------------------------------------------------------------------------------------- */

static void series_destroy(struct api *api, struct trend_series *series)
{
    for (unsigned scale = 0; scale < TREND_SCALES; scale++)
        accounted_free(series->rings[scale].points_owned);
    api->front->trend_queues -= series->queue != 0;
    accounted_free(series);
}

void trends_deinit(struct api *api)
{
    struct trends *trends = &api->trends;
    for (size_t i = 0; i < trends->count; i++)
        series_destroy(api, trends->series_owned[i]);
    accounted_free(trends->series_owned);
}

static void series_remove(struct api *api, size_t index)
{
    struct trends *trends = &api->trends;
    series_destroy(api, trends->series_owned[index]);
    trends->series_owned[index] = trends->series_owned[--trends->count];
}

/* The place of the queue's series that nothing has happened to for longest; 0: no queue has one. */
static size_t stalest(const struct trends *trends)
{
    size_t found = 0;
    for (size_t i = 1; i < trends->count; i++)
        if (found == 0 || trends->series_owned[i]->used_ms < trends->series_owned[found]->used_ms)
            found = i;
    return found;
}

/* Makes room for the series of one more queue, if need be in place of one that was last used before `before_ms`. */
static bool make_room(struct api *api, uint64_t before_ms)
{
    const size_t victim = api->front->trend_queues < TREND_QUEUES_MAX ? 0 : stalest(&api->trends);
    if (api->front->trend_queues < TREND_QUEUES_MAX)
        return true;
    if (victim == 0 || api->trends.series_owned[victim]->used_ms >= before_ms)
        return false;
    series_remove(api, victim);
    return true;
}

/* With `counts` as those of the beginning, and known from the open periods on, or from those behind them. */
static struct trend_series *series_add(struct api *api, uint32_t queue, const uint32_t counts[QUEUE_RATED_COUNT],
                                       bool is_from_open, uint64_t now_ms)
{
    struct trends *trends = &api->trends;
    struct trend_series *series = accounted_allocate_zeroed(sizeof(*series));
    ACCOUNTED_GROW(trends->series_owned, trends->count, trends->capacity, 1);
    trends->series_owned[trends->count++] = series;
    api->front->trend_queues += queue != 0;
    series->queue = queue;
    series->used_ms = now_ms;
    for (unsigned scale = 0; scale < TREND_SCALES; scale++) {
        series->rings[scale].since = trends->open[scale] + !is_from_open;
        memcpy(series->rings[scale].base, counts, sizeof(series->rings[scale].base));
    }
    return series;
}

static struct trend_series *series_find(const struct trends *trends, uint32_t queue)
{
    for (size_t i = 0; i < trends->count; i++)
        if (trends->series_owned[i]->queue == queue)
            return trends->series_owned[i];
    return NULL;
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

static uint32_t capped(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static uint32_t oldest_of_all_s(const struct core *core)
{
    uint64_t oldest_ms = UINT64_MAX;
    if (core_queue_count(core) > TREND_OLDEST_QUEUES_MAX)
        return 0;
    for (size_t i = 0; i < core_queue_count(core); i++) {
        const uint64_t since_ms = core_oldest_since_ms(core, core_queue_by_name(core, i));
        oldest_ms = since_ms < oldest_ms ? since_ms : oldest_ms;
    }
    return oldest_ms == UINT64_MAX ? 0 : (uint32_t)(oldest_ms / 1000);
}

/* What is now; `counts` are the lower halves of all that came. queue NULL: of the namespace. */
static void read_figures(const struct core *core, const struct queue *queue, struct trend_point *now)
{
    *now = (struct trend_point){0};
    for (unsigned i = 0; i < QUEUE_RATED_COUNT; i++)
        now->counts[i] =
            (uint32_t)(queue == NULL ? core_counted(core, (enum queue_counter)i) : queue->counters.counts[i]);
    if (queue == NULL) {
        const struct core_metrics metrics = core_metrics(core);
        now->visible = capped(metrics.messages - metrics.in_flight - metrics.delayed);
        now->in_flight = capped(metrics.in_flight);
        now->oldest_s = oldest_of_all_s(core);
        return;
    }
    const struct message_list *list = core_message_list(core, queue);
    const uint64_t oldest_ms = core_oldest_since_ms(core, queue);
    now->visible = capped(message_list_visible_count(list));
    now->in_flight = capped(list->in_flight_count);
    now->oldest_s = oldest_ms == UINT64_MAX ? 0 : (uint32_t)(oldest_ms / 1000);
}

/* --- noting ------------------------------------------------------------------------------------------------------- */

static struct trend_point *ring_point(const struct period_ring *ring, uint32_t index)
{
    return &ring->points_owned[(ring->first + index) % ring->capacity];
}

/* Room for one more point: a larger ring, or that of the oldest one. */
static void ring_make_room(struct period_ring *ring, uint32_t points_max, bool may_grow)
{
    if (ring->count < ring->capacity)
        return;
    if (ring->capacity < points_max && (may_grow || ring->capacity == 0)) {
        const uint32_t wanted = ring->capacity == 0 ? 8 : ring->capacity * 2;
        const uint32_t capacity = wanted < points_max ? wanted : points_max;
        struct trend_point *points = accounted_allocate(capacity * sizeof(*points));
        for (uint32_t i = 0; i < ring->count; i++)
            points[i] = *ring_point(ring, i);
        accounted_free(ring->points_owned);
        ring->points_owned = points;
        ring->capacity = capacity;
        ring->first = 0;
        return;
    }
    ring->first = (ring->first + 1) % ring->capacity;
    ring->count--;
    if (ring->capacity < points_max) /* what came before its oldest point is no longer known */
        ring->since = ring->count > 0 ? ring_point(ring, 0)->period : ring->since;
}

/* Notes the period that is over. True: something happened in it. */
static bool ring_note(struct period_ring *ring, uint32_t period, const struct trend_point *now, uint32_t points_max,
                      bool may_grow)
{
    struct trend_point point = *now;
    const struct trend_point *last = ring->count == 0 ? NULL : ring_point(ring, ring->count - 1);
    bool is_changed = last == NULL || last->visible != now->visible || last->in_flight != now->in_flight ||
                      last->oldest_s != now->oldest_s;
    point.period = period;
    for (unsigned i = 0; i < QUEUE_RATED_COUNT; i++) {
        point.counts[i] = now->counts[i] - ring->base[i];
        is_changed |= point.counts[i] != 0;
        ring->base[i] = now->counts[i];
    }
    if (!is_changed || period < ring->since)
        return false;
    ring_make_room(ring, points_max, may_grow);
    *ring_point(ring, ring->count++) = point;
    return true;
}

/* The queues in which something has happened get their series. Their counts when that began are those of the open
 * period's beginning, too, unless they had to wait. */
static void adopt(struct api *api, struct core *core, uint64_t now_ms)
{
    struct trends *trends = &api->trends;
    struct queue *queue = NULL;
    const bool is_late = trends->is_behind;
    unsigned left = ADOPTED_MAX;
    while (left-- > 0 && (queue = core_take_counted_queue(core)) != NULL) {
        if (trends->count == 0 || series_find(trends, queue->id) != NULL || memory_limit_is_reached(api->front) ||
            !make_room(api, now_ms - STALE_MS))
            continue;
        uint32_t counts[QUEUE_RATED_COUNT];
        for (unsigned i = 0; i < QUEUE_RATED_COUNT; i++)
            counts[i] = is_late ? (uint32_t)queue->counters.counts[i] : queue->counters.at_begin[i];
        series_add(api, queue->id, counts, !is_late, now_ms);
    }
    trends->is_behind = queue != NULL;
}

/* False: its queue is gone. */
static bool series_note(struct api *api, const struct core *core, struct trend_series *series,
                        const bool is_over[TREND_SCALES], uint64_t now_ms)
{
    const struct queue *queue = series->queue == 0 ? NULL : core_find_queue_by_id(core, series->queue);
    struct trend_point now;
    bool is_changed = false;
    if (series->queue != 0 && (queue == NULL || queue->message_list == 0))
        return false;
    read_figures(core, queue, &now);
    const bool may_grow = !memory_limit_is_reached(api->front);
    for (unsigned scale = 0; scale < TREND_SCALES; scale++)
        if (is_over[scale])
            is_changed |=
                ring_note(&series->rings[scale], api->trends.open[scale], &now, scales[scale].points_max, may_grow);
    if (is_changed)
        series->used_ms = now_ms;
    return true;
}

/* The namespace's own series, from the first event on: all that is counted of it came since then. */
static void begin_own(struct api *api, const struct core *core, uint64_t now_ms)
{
    static const uint32_t none[QUEUE_RATED_COUNT];
    uint64_t count = 0;
    for (unsigned i = 0; i < QUEUE_COUNTER_COUNT; i++)
        count += core_counted(core, (enum queue_counter)i);
    if (api->trends.count == 0 && count > 0 && !memory_limit_is_reached(api->front))
        series_add(api, 0, none, true, now_ms);
}

void trends_catch_up(struct api *api, struct core *core, uint64_t now_ms)
{
    struct trends *trends = &api->trends;
    bool is_over[TREND_SCALES];
    for (unsigned scale = 0; scale < TREND_SCALES; scale++)
        is_over[scale] = trends->open[scale] != 0 && period_at((enum trend_scale)scale, now_ms) > trends->open[scale];
    if (is_over[TREND_FINE]) {
        begin_own(api, core, now_ms);
        adopt(api, core, now_ms);
    }
    for (size_t i = 0; i < trends->count;)
        if (series_note(api, core, trends->series_owned[i], is_over, now_ms))
            i++;
        else
            series_remove(api, i);
    for (unsigned scale = 0; scale < TREND_SCALES; scale++)
        trends->open[scale] = period_at((enum trend_scale)scale, now_ms);
    trends->next_ms = (uint64_t)(trends->open[TREND_FINE] + 1) * TREND_FINE_S * 1000;
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

struct trend_series *trends_find(struct api *api, const struct core *core, const struct queue *queue, uint64_t now_ms)
{
    struct trends *trends = &api->trends;
    if (trends->next_ms == UINT64_MAX)
        return NULL;
    struct trend_series *series = series_find(trends, queue == NULL ? 0 : queue->id);
    if (series != NULL) {
        series->used_ms = now_ms;
        return series;
    }
    if (memory_limit_is_reached(api->front))
        return NULL;
    struct trend_point now;
    if (trends->count == 0) { /* the namespace's comes first */
        read_figures(core, NULL, &now);
        series = series_add(api, 0, now.counts, false, now_ms);
    }
    if (queue == NULL)
        return series;
    if (!make_room(api, UINT64_MAX))
        return NULL;
    read_figures(core, queue, &now);
    return series_add(api, queue->id, now.counts, false, now_ms);
}

bool trends_read(const struct trend_series *series, enum trend_scale scale, uint32_t period, uint32_t *at,
                 struct trend_point *point)
{
    const struct period_ring *ring = &series->rings[scale];
    while (*at < ring->count && ring_point(ring, *at)->period <= period)
        ++*at;
    if (period < ring->since || *at == 0)
        return false;
    *point = *ring_point(ring, *at - 1);
    if (point->period != period)
        memset(point->counts, 0, sizeof(point->counts));
    point->period = period;
    return true;
}
