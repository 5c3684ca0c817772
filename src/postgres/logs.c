#include "postgres/logs.h"

#include "postgres/cache.h"
#include "postgres/log_state.h"

#define PATIENCE_MS 10000u

static struct pg_log_facts decode(const PGresult *rows, int row)
{
    struct pg_log_facts facts = {.epoch = pg_number(rows, row, 1),
                                 .is_owned = pg_number(rows, row, 4) != 0,
                                 .stand_bys = pg_number(rows, row, 5),
                                 .is_moving = pg_number(rows, row, 7) != 0};
    pg_text(rows, row, 0, facts.name, sizeof(facts.name));
    pg_text(rows, row, 2, facts.node, sizeof(facts.node));
    pg_text(rows, row, 3, facts.since, sizeof(facts.since));
    pg_text(rows, row, 6, facts.moved_to, sizeof(facts.moved_to));
    return facts;
}

enum error pg_logs_visit(const struct pg_options *options,
                         void (*visit)(void *context, const struct pg_log_facts *facts), void *context,
                         struct failure *failure)
{
    struct pg_session session;
    pg_session_init(&session, options, "status");
    const uint64_t until_ms = pg_now_ms() + PATIENCE_MS;
    enum error error = pg_session_open(&session, until_ms, failure);
    PGresult *rows = NULL;
    const struct pg_values none = {0};
    if (error == OK && pg_session_run(&session, PG_LOGS, &none, until_ms, &rows, failure) != PG_DONE)
        error = failure->error;
    for (int i = 0; error == OK && i < PQntuples(rows); i++) {
        const struct pg_log_facts facts = decode(rows, i);
        visit(context, &facts);
    }
    PQclear(rows);
    pg_session_deinit(&session);
    return error;
}

static enum error copy_files(struct pg_session *session, struct pg_cache *cache, struct failure *failure)
{
    enum error error = pg_cache_list(cache, session, pg_now_ms() + PATIENCE_MS, failure);
    for (size_t i = 0; i < cache->count && error == OK; i++)
        if (!pg_log_is_rest(cache->files_owned[i]->name))
            error = pg_cache_complete(cache, session, cache->files_owned[i], PATIENCE_MS, failure);
    return error;
}

enum error pg_logs_copy(const struct pg_options *options, struct disk *folder, struct failure *failure)
{
    struct pg_session session;
    struct pg_cache cache;
    pg_session_init(&session, options, "verify");
    pg_cache_init(&cache, folder);
    const uint64_t until_ms = pg_now_ms() + PATIENCE_MS;
    enum error error = pg_session_open(&session, until_ms, failure);
    const struct pg_values none = {0};
    PGresult *begun = NULL;
    if (error == OK && pg_session_run(&session, PG_FREEZE, &none, until_ms, &begun, failure) != PG_DONE)
        error = failure->error;
    PQclear(begun);
    if (error == OK && pg_session_read_head(&session, &session.head, until_ms, failure) != PG_DONE)
        error = failure->error;
    if (error == OK)
        error = copy_files(&session, &cache, failure);
    pg_cache_deinit(&cache);
    pg_session_deinit(&session);
    return error;
}
