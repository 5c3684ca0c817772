/* The metrics of pools. A namespace may have a thousand pools. The first hundred in order of name have their own
 * series; the others share one, pool="*". Only those hundred have waiting times and ages. */
#include "api/metrics.h"
#include "api/state.h"
#include "core/pools/ticket_pool.h"

#define POOLS_SHOWN_MAX 100u
#define OLDEST_VISITS_MAX 10000u /* of a namespace: tickets that are looked at for one that waits */

enum pool_figure {
    FIGURE_WAITING,
    FIGURE_HELD,
    FIGURE_MATCHED,
    FIGURE_CANCELLED,
    FIGURE_EXPIRED,
    FIGURE_RESULTS,
    FIGURE_SEEDS,
    FIGURE_OFFERED,
    FIGURE_ALREADY_OFFERED,
    FIGURE_MATCHES,
    FIGURE_PUT_BACKS,
    FIGURE_CONFLICTS,
    FIGURE_STALE,
    FIGURE_REFUSED,
    FIGURE_PROBES,
    FIGURE_CANDIDATES,
    FIGURE_BUDGET_STOPS,
    FIGURE_EXPRESSION_ERRORS,
    FIGURE_COUNT
};

/* Pool counts with a state label are series of one metric. */
static const struct {
    const char *name;
    const char *kind;
    const char *state; /* NULL: none */
    const char *help;
} rows[FIGURE_COUNT] = {
    [FIGURE_WAITING] = {"tally_pool_tickets", "gauge", "waiting", "Tickets of a pool by state."},
    [FIGURE_HELD] = {"tally_pool_tickets", "gauge", "held", NULL},
    [FIGURE_MATCHED] = {"tally_pool_tickets", "gauge", "matched", NULL},
    [FIGURE_CANCELLED] = {"tally_pool_tickets", "gauge", "cancelled", NULL},
    [FIGURE_EXPIRED] = {"tally_pool_tickets", "gauge", "expired", NULL},
    [FIGURE_RESULTS] = {"tally_pool_results", "gauge", NULL, "Matches whose result has not been deleted yet."},
    [FIGURE_SEEDS] = {"tally_pool_seeds", "gauge", NULL, "Tickets for which the matcher has yet to look."},
    [FIGURE_OFFERED] = {"tally_pool_tickets_offered_total", "counter", NULL,
                        "Tickets offered since the pool was created."},
    [FIGURE_ALREADY_OFFERED] = {"tally_pool_already_offered_total", "counter", NULL,
                                "Offers of tickets that had been offered before."},
    [FIGURE_MATCHES] = {"tally_pool_matches_total", "counter", NULL, "Matches made since the pool was created."},
    [FIGURE_PUT_BACKS] = {"tally_pool_put_backs_total", "counter", NULL,
                          "Matches put back since the pool was created."},
    [FIGURE_CONFLICTS] = {"tally_pool_conflicts_total", "counter", NULL, "Proposals with tickets that waited no more."},
    [FIGURE_STALE] = {"tally_pool_stale_total", "counter", NULL, "Proposals with older versions of tickets or rules."},
    [FIGURE_REFUSED] = {"tally_pool_refused_total", "counter", NULL, "Proposals refused for another reason."},
    [FIGURE_PROBES] = {"tally_pool_probes_total", "counter", NULL, "Looks for partners of a ticket."},
    [FIGURE_CANDIDATES] = {"tally_pool_candidates_total", "counter", NULL, "Tickets visited by them."},
    [FIGURE_BUDGET_STOPS] = {"tally_pool_budget_stops_total", "counter", NULL,
                             "Looks that stopped at their limit and went on later."},
    [FIGURE_EXPRESSION_ERRORS] = {"tally_pool_expression_errors_total", "counter", NULL,
                                  "Expressions of rules that had no value."},
};

/* One series of each metric. */
struct pool_series {
    const struct api *api;
    struct bytes name;
    uint64_t figures[FIGURE_COUNT];
    const struct waits *waits; /* NULL: none */
    bool has_age;
    uint64_t age_ms; /* of the oldest waiting ticket; 0: none waits */
};

static void add_figures(const struct ticket_pool *pool, uint64_t figures[FIGURE_COUNT])
{
    const struct matcher_counters *counters = &pool->matcher.counters;
    figures[FIGURE_WAITING] += pool->counts.waiting;
    figures[FIGURE_HELD] += pool->counts.held;
    figures[FIGURE_MATCHED] += pool->counts.matched;
    figures[FIGURE_CANCELLED] += pool->counts.cancelled;
    figures[FIGURE_EXPIRED] += pool->counts.expired;
    figures[FIGURE_RESULTS] += pool->results;
    figures[FIGURE_SEEDS] += ticket_pool_seed_count(pool);
    figures[FIGURE_OFFERED] += pool->counts.offered;
    figures[FIGURE_ALREADY_OFFERED] += pool->tally.already_offered;
    figures[FIGURE_MATCHES] += pool->matches;
    figures[FIGURE_PUT_BACKS] += pool->put_backs;
    figures[FIGURE_CONFLICTS] += pool->tally.conflicts;
    figures[FIGURE_STALE] += pool->tally.stale;
    figures[FIGURE_REFUSED] += pool->tally.other_refusals;
    figures[FIGURE_PROBES] += counters->probes;
    figures[FIGURE_CANDIDATES] += counters->candidates;
    figures[FIGURE_BUDGET_STOPS] += counters->budget_stops;
    figures[FIGURE_EXPRESSION_ERRORS] += counters->expression_errors;
}

static void read_age(struct pool_series *series, const struct ticket_pool *pool, uint64_t now_ms, unsigned *visits)
{
    const struct ticket *oldest = ticket_oldest_waiting(pool, visits);
    series->has_age = oldest != NULL || *visits > 0;
    series->age_ms = oldest == NULL || oldest->entry.offered_at_ms > now_ms ? 0 : now_ms - oldest->entry.offered_at_ms;
}

/* The series of one namespace, from `series` on; returns how many. */
static size_t read_pools(const struct api *api, uint64_t now_ms, struct pool_series *series)
{
    const struct core *core = namespace_core(api->ns);
    uint32_t count = ticket_pool_count(core);
    unsigned visits = OLDEST_VISITS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const struct ticket_pool *pool = ticket_pool_at(core, i);
        bool is_own = i < POOLS_SHOWN_MAX;
        struct pool_series *shown = &series[is_own ? i : POOLS_SHOWN_MAX];
        if (i <= POOLS_SHOWN_MAX)
            *shown = (struct pool_series){
                .api = api, .name = is_own ? pool->name_owned : BYTES("*"), .waits = is_own ? pool->waits_owned : NULL};
        if (is_own)
            read_age(shown, pool, now_ms > core_now_ms(core) ? now_ms : core_now_ms(core), &visits);
        add_figures(pool, shown->figures);
    }
    return count < POOLS_SHOWN_MAX + 1 ? count : POOLS_SHOWN_MAX + 1;
}

static void write_figure(const struct pool_series *series, size_t figure, struct arena *arena, struct buffer *text)
{
    struct bytes labels = rows[figure].state == NULL ? arena_format(arena, "pool=\"%.*s\"", BYTES_FORMAT(series->name))
                                                     : arena_format(arena, "pool=\"%.*s\",state=\"%s\"",
                                                                    BYTES_FORMAT(series->name), rows[figure].state);
    metric_write_value(series->api, text, rows[figure].name, labels, series->figures[figure]);
}

/* --- waiting times ------------------------------------------------------------------------------------------------ */

static const struct {
    uint64_t ms;
    const char *text;
} bounds[] = {
    {10, "0.01"},  {100, "0.1"},  {500, "0.5"},  {1000, "1"},     {2500, "2.5"},     {5000, "5"},
    {10000, "10"}, {30000, "30"}, {60000, "60"}, {300000, "300"}, {1800000, "1800"},
};

static void write_level(const struct pool_series *series, uint32_t level, struct arena *arena, struct buffer *text)
{
    struct bytes labels =
        arena_format(arena, "pool=\"%.*s\",level=\"%u\"", BYTES_FORMAT(series->name), (unsigned)level);
    const char *name = "tally_pool_waited_seconds_bucket";
    uint64_t below = 0;
    uint32_t bucket = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(bounds); i++) {
        for (; bucket < WAITS_BUCKETS && waits_bucket_end_ms(bucket) <= bounds[i].ms; bucket++)
            below += series->waits->counts[level][bucket];
        metric_write_value(series->api, text, name,
                           arena_format(arena, "%.*s,le=\"%s\"", BYTES_FORMAT(labels), bounds[i].text), below);
    }
    uint64_t all = waits_count(series->waits, level);
    metric_write_value(series->api, text, name, arena_format(arena, "%.*s,le=\"+Inf\"", BYTES_FORMAT(labels)), all);
    metric_write_value(series->api, text, "tally_pool_waited_seconds_count", labels, all);
    metric_write_time(series->api, text, "tally_pool_waited_seconds_sum", labels, series->waits->sum_ms[level]);
}

/* A level from which nobody was matched has no series. */
static void write_waits(const struct pool_series *series, size_t count, struct arena *arena, struct buffer *text)
{
    metric_write_head(text, "tally_pool_waited_seconds", "histogram",
                      "How long matched tickets waited, by the level that they had reached.");
    for (size_t i = 0; i < count; i++)
        for (uint32_t level = 0; series[i].waits != NULL && level < RULES_LEVELS_MAX; level++)
            if (waits_count(series[i].waits, level) > 0)
                write_level(&series[i], level, arena, text);
}

static void write_ages(const struct pool_series *series, size_t count, struct arena *arena, struct buffer *text)
{
    const char *name = "tally_pool_oldest_ticket_age_seconds";
    metric_write_head(text, name, "gauge", "Age of the oldest waiting ticket of a pool; 0: none waits.");
    for (size_t i = 0; i < count; i++)
        if (series[i].has_age)
            metric_write_time(series[i].api, text, name,
                              arena_format(arena, "pool=\"%.*s\"", BYTES_FORMAT(series[i].name)), series[i].age_ms);
}

void pool_metrics_write(const struct front *front, uint64_t now_ms, struct arena *arena, struct buffer *text)
{
    const size_t count = front_count(front);
    struct pool_series *series = arena_allocate(arena, count * (POOLS_SHOWN_MAX + 1) * sizeof(*series));
    size_t series_count = 0;
    for (size_t i = 0; i < count; i++)
        series_count += read_pools(front_at(front, i), now_ms, series + series_count);
    if (series_count == 0)
        return;
    for (size_t k = 0; k < FIGURE_COUNT; k++) {
        if (rows[k].help != NULL)
            metric_write_head(text, rows[k].name, rows[k].kind, rows[k].help);
        for (size_t i = 0; i < series_count; i++)
            write_figure(&series[i], k, arena, text);
    }
    write_ages(series, series_count, arena, text);
    write_waits(series, series_count, arena, text);
}
