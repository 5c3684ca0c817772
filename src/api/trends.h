/* The trends of a namespace and of some of its queues, for charts: the last hour in steps of 5 s, the last day in
 * minutes. In memory only, and bounded: TREND_QUEUES_MAX queues of the whole server.
 *
 * A queue gets a series when something happens in it, or when somebody asks for it. If all are taken, one that asks
 * takes the place of the series of its namespace that nothing has happened to for longest; one in which something
 * happens does so only if that was an hour ago. So while no more queues than that are busy, all of them have one.
 *
 * There is no timer. Whatever changes the namespace comes through api_run() or api_tick(), and before each of them the
 * periods that are over are noted; what has changed since the last time has happened in the first of them. A period in
 * which nothing changed takes no memory, so a namespace at rest costs nothing, however long.
 *
 * Private to src/api, but for what api.h holds. */
#ifndef TALLY_API_TRENDS_H
#define TALLY_API_TRENDS_H

#include "core/core.h"

#define TREND_QUEUES_MAX 256u

/* The oldest message of a namespace is looked for in this many queues at most; with more it is not known. */
#define TREND_OLDEST_QUEUES_MAX 1000u

enum trend_scale { TREND_FINE, TREND_COARSE, TREND_SCALES };
#define TREND_FINE_S 5u
#define TREND_COARSE_S 60u
#define TREND_FINE_POINTS 720u
#define TREND_COARSE_POINTS 1440u

/* How long a period is, and how many are kept. */
uint32_t trends_period_s(enum trend_scale scale);
uint32_t trends_points(enum trend_scale scale);

/* A period in which something changed. */
struct trend_point {
    uint32_t period;                    /* its number: its beginning, divided by its length */
    uint32_t counts[QUEUE_RATED_COUNT]; /* what came in it */
    uint32_t visible;                   /* at its end, like the next */
    uint32_t in_flight;
    uint32_t oldest_s; /* when the retention of the oldest message began; 0: there was none or it was not known */
};

struct trend_series;

struct trends {
    uint64_t next_ms;                   /* when the open period of the fine scale ends */
    uint32_t open[TREND_SCALES];        /* the periods that are not over; 0: none has begun */
    struct trend_series **series_owned; /* the first is the namespace's */
    size_t count;
    size_t capacity;
    bool is_behind; /* queues that something has happened to were left for the next time */
};

struct api;

void trends_init(struct trends *trends, bool is_kept);
void trends_deinit(struct api *api);

/* Notes the periods that are over. O(series) once in a period, else O(1). */
void trends_catch_up(struct api *api, struct core *core, uint64_t now_ms);

static inline void trends_note(struct api *api, struct trends *trends, struct core *core, uint64_t now_ms)
{
    if (now_ms >= trends->next_ms)
        trends_catch_up(api, core, now_ms);
}

/* The series of the queue, or of the namespace (NULL), made if there is none. NULL: there can't be one, because none is
 * kept, or memory is full. */
struct trend_series *trends_find(struct api *api, const struct core *core, const struct queue *queue, uint64_t now_ms);

/* The period, whose number is less than open[scale]. False: it is not known. Ask for rising periods with the same
 * *at, which is 0 at first: all together are O(points). */
bool trends_read(const struct trend_series *series, enum trend_scale scale, uint32_t period, uint32_t *at,
                 struct trend_point *point);

#endif
