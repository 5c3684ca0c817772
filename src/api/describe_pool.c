/* DescribePool: the settings of a pool, its tickets, and how well it works. */
#include "api/pool_call.h"
#include "api/pool_spec.h"

#define OLDEST_VISITS_MAX 10000u

static void write_plan(struct call *call, const struct ticket_pool *pool)
{
    struct buffer *text = call_scratch(call);
    buffer_truncate(text, 0);
    rules_plan(pool->rules_owned, text);
    writer_text(call->reply, "Plan", buffer_bytes(text));
    pool_write_warnings(call, pool);
}

static void write_tickets(struct call *call, const struct ticket_pool *pool)
{
    const struct ticket_counts *counts = &pool->counts;
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {
        {"Offered", counts->offered},
        {"Waiting", counts->waiting},
        {"Held", counts->held},
        {"Matched", counts->matched},
        {"Cancelled", counts->cancelled},
        {"Expired", counts->expired},
        {"AlreadyOffered", pool->tally.already_offered},
    };
    writer_object_begin(call->reply, "Tickets");
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        writer_number(call->reply, rows[i].name, rows[i].count);
    writer_object_end(call->reply);
}

static void write_counters(struct call *call, const struct ticket_pool *pool)
{
    const struct matcher_counters *counters = &pool->matcher.counters;
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {
        {"Weight", pool->weight},
        {"Matches", pool->matches},
        {"PutBacks", pool->put_backs},
        {"Conflicts", pool->tally.conflicts},
        {"Stale", pool->tally.stale},
        {"Probes", counters->probes},
        {"Candidates", counters->candidates},
        {"BudgetStops", counters->budget_stops},
        {"ExpressionErrors", counters->expression_errors},
        {"Seeds", ticket_pool_seed_count(pool)},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        writer_number(call->reply, rows[i].name, rows[i].count);
}

/* Since when the oldest one waits. */
static void write_oldest(struct call *call, const struct ticket_pool *pool)
{
    unsigned visits = OLDEST_VISITS_MAX;
    const struct ticket *oldest = ticket_oldest_waiting(pool, &visits);
    if (oldest != NULL)
        writer_time(call->reply, "OldestOfferedAt", oldest->entry.offered_at_ms);
}

/* Of one level, or of all. */
static void write_waited(struct call *call, const struct waits *waits, uint32_t level)
{
    static const struct {
        const char *name;
        double part;
    } quantiles[] = {{"P50", 0.5}, {"P90", 0.9}, {"P99", 0.99}};
    for (size_t i = 0; i < ARRAY_LENGTH(quantiles); i++)
        writer_number(call->reply, quantiles[i].name,
                      waits == NULL ? 0 : waits_quantile_ms(waits, level, quantiles[i].part));
    writer_number(call->reply, "Max", waits == NULL ? 0 : waits_max_ms(waits, level));
}

static void write_waits(struct call *call, const struct ticket_pool *pool)
{
    struct writer *writer = call->reply;
    writer_object_begin(writer, "WaitedMs");
    write_waited(call, pool->waits_owned, RULES_LEVELS_MAX);
    writer_object_end(writer);
    writer_list_begin(writer, "Levels");
    for (uint32_t level = 0; level < pool->rules_owned->level_count; level++) {
        writer_object_begin(writer, NULL);
        writer_number(writer, "Matched", pool->waits_owned == NULL ? 0 : waits_count(pool->waits_owned, level));
        write_waited(call, pool->waits_owned, level);
        writer_object_end(writer);
    }
    writer_list_end(writer);
}

enum error action_describe_pool(struct call *call)
{
    struct ticket_pool *pool;
    enum error error = pool_call_find(call, &pool);
    if (error != OK)
        return error;
    writer_text(call->reply, "PoolName", pool->name_owned);
    pool_spec_write(call, &pool->spec);
    pool_write_rules(call, pool);
    writer_number(call->reply, "RulesVersion", pool->rules_version);
    write_plan(call, pool);
    writer_number(call->reply, "Sequence", pool->feed.last);
    write_tickets(call, pool);
    write_oldest(call, pool);
    write_counters(call, pool);
    write_waits(call, pool);
    return OK;
}
