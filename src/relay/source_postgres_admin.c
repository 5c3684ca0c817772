/* Admin queries of an outbox in PostgreSQL: its health, its parked rows, and what to do with those. */
#include "platform/monotonic.h"
#include "relay/keeper.h"
#include "relay/source_postgres_parts.h"
#include <stdio.h>

#define HORIZON_EVERY_MS 10000u

/* Something that holds back VACUUM for long makes every delivered row stay, and scans slower with each. */
static enum step check_horizon(struct source_postgres *self, struct fault *fault)
{
    uint64_t now_ms = boottime_ms();
    if (now_ms < self->horizon_ms)
        return STEP_OK;
    PGresult *result;
    enum step step = source_postgres_run(self, STATEMENT_HORIZON, NULL, 0, &result, fault);
    if (step == STEP_OK) {
        self->horizon_ms = now_ms + HORIZON_EVERY_MS;
        self->horizon[0] = '\0';
        if (PQntuples(result) == 1)
            snprintf(self->horizon, sizeof(self->horizon),
                     "%.200s for %llu s and %llu transactions: until that ends VACUUM can't remove delivered rows from "
                     "%s.outbox, and reading it grows slower",
                     PQgetvalue(result, 0, 0), (unsigned long long)postgres_number(result, 0, 2),
                     (unsigned long long)postgres_number(result, 0, 1), self->postgres.schema);
    }
    PQclear(result);
    return step;
}

/* Exact if there are few; else every id that is not known to be gone counts as a row. */
static uint64_t count_waiting(const struct tombstones *tombstones, const PGresult *result)
{
    if (PQgetisnull(result, 0, 4))
        return postgres_number(result, 0, 0);
    struct id_range range = {.first = postgres_number(result, 0, 3), .last = postgres_number(result, 0, 4)};
    return range.last - range.first + 1 - tombstones_count_in(tombstones, range);
}

enum step source_postgres_check_health(struct source *source, struct source_health *health, struct fault *fault)
{
    struct source_postgres *self = source_postgres_of(source);
    PGresult *result;
    enum step step = postgres_connect(&self->postgres, fault);
    if (step != STEP_OK)
        return step;
    floor_forget_others(self);
    struct pieces pieces = floor_pieces(&self->floor);
    step = source_postgres_run(self, STATEMENT_HEALTH, (const char *[]){pieces.lows, pieces.highs}, 2, &result, fault);
    if (step == STEP_OK) {
        *health = (struct source_health){
            .waiting_count = count_waiting(&self->floor.tombstones, result),
            .oldest_age_ms = postgres_number(result, 0, 1),
            .parked_count = postgres_number(result, 0, 2),
        };
        PQclear(result);
        step = check_horizon(self, fault);
        snprintf(health->warning, sizeof(health->warning), "%s", self->horizon);
    }
    return step;
}

static void read_parked(struct parked *parked, struct arena *arena, const PGresult *result, int at)
{
    struct bytes group = postgres_field(result, at, 3);
    *parked = (struct parked){
        .name = {.id = postgres_number(result, at, 0)},
        .queue = arena_copy(arena, postgres_field(result, at, 2)),
        .group = group.ptr == NULL ? group : arena_copy(arena, group),
        .error = arena_copy(arena, postgres_field(result, at, 4)),
        .is_doubted = postgres_number(result, at, 5) != 0,
        .age_ms = postgres_number(result, at, 6),
    };
    struct bytes uid = postgres_field(result, at, 1);
    ASSERT(uid.size == UID_SIZE);
    memcpy(parked->name.uid.bytes, uid.ptr, UID_SIZE);
}

enum step source_postgres_list_parked(struct source *source, unsigned limit, struct arena *arena,
                                      struct parked **parked, size_t *count, struct fault *fault)
{
    char rows[NUMBER_TEXT_SIZE];
    postgres_number_to_text(limit, rows);
    PGresult *result;
    enum step step = source_postgres_run(source_postgres_of(source), STATEMENT_LIST_PARKED, (const char *[]){rows}, 1,
                                         &result, fault);
    if (step == STEP_OK) {
        *count = (size_t)PQntuples(result);
        *parked = arena_allocate(arena, (*count + 1) * sizeof(**parked));
        for (size_t i = 0; i < *count; i++)
            read_parked(&(*parked)[i], arena, result, (int)i);
    }
    PQclear(result);
    return step;
}

enum step source_postgres_resolve(struct source *source, const struct uid *uid, enum resolution resolution,
                                  bool *is_found, struct fault *fault)
{
    char text[UID_TEXT_SIZE];
    uid_to_text(uid, text);
    PGresult *result;
    enum step step = source_postgres_run(source_postgres_of(source),
                                         resolution == RESOLUTION_SEND ? STATEMENT_SEND_PARKED : STATEMENT_DROP_PARKED,
                                         (const char *[]){text}, 1, &result, fault);
    if (step == STEP_OK)
        *is_found = PQntuples(result) == 1;
    PQclear(result);
    return step;
}
