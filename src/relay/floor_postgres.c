/* The settled floor (P7, P8 in docs/invariants-relays.md). First the highest id that was ever drawn, then who writes to the outbox at that moment. When
 * all of those writers are gone, each id up to it is visible or will never exist, and the floor may go up to below the lowest row
 * that lives. The order of the three looks matters: each one sees at least what the one before it saw. */
#include "relay/keeper.h"
#include "relay/source_postgres_parts.h"

#define SETTLED_EVERY_MS 1000u
#define WAITING_EVERY_MS 250u
#define WHOLE_EVERY_MS 60000u

static void forget(struct floor *floor, const struct term *term, unsigned connection, uint64_t now_ms)
{
    floor->value = 0;
    floor->term = *term;
    floor->connection = connection;
    floor->is_waiting = false;
    floor->next_ms = now_ms;
    floor->whole_ms = now_ms;
}

static bool is_among(const struct buffer *writers, const char *name)
{
    const char *at = (const char *)writers->data_owned, *end = at + writers->size;
    for (; at < end; at += strlen(at) + 1)
        if (strcmp(at, name) == 0)
            return true;
    return false;
}

static void set_writers(struct floor *floor, const PGresult *result)
{
    buffer_truncate(&floor->writers, 0);
    for (int i = 0; i < PQntuples(result); i++)
        buffer_append(&floor->writers, PQgetvalue(result, i, 0), (size_t)PQgetlength(result, i, 0) + 1);
}

/* A prepared transaction counts as one of them always: a restart of the server gives it another name. */
static bool are_gone(const struct floor *floor, const PGresult *result)
{
    for (int i = 0; i < PQntuples(result); i++)
        if (postgres_number(result, i, 1) != 0 || is_among(&floor->writers, PQgetvalue(result, i, 0)))
            return false;
    return true;
}

static enum step begin(struct source_postgres *self, struct fault *fault)
{
    PGresult *result;
    enum step step = source_postgres_run(self, STATEMENT_HIGH, NULL, 0, &result, fault);
    if (step == STEP_OK)
        self->floor.high = postgres_number(result, 0, 0);
    PQclear(result);
    return step;
}

static enum step see_writers(struct source_postgres *self, bool *is_settled, struct fault *fault)
{
    struct floor *floor = &self->floor;
    PGresult *result;
    enum step step = source_postgres_run(self, STATEMENT_WRITERS, NULL, 0, &result, fault);
    if (step == STEP_OK && !floor->is_waiting) {
        set_writers(floor, result);
        floor->is_waiting = true;
    }
    *is_settled = step == STEP_OK && are_gone(floor, result);
    PQclear(result);
    return step;
}

static enum step settle(struct source_postgres *self, struct fault *fault)
{
    struct floor *floor = &self->floor;
    char below[NUMBER_TEXT_SIZE];
    postgres_number_to_text(floor->value, below);
    PGresult *result;
    enum step step = source_postgres_run(self, STATEMENT_LOWEST, (const char *[]){below}, 1, &result, fault);
    if (step == STEP_OK) {
        uint64_t lowest = PQntuples(result) == 1 ? postgres_number(result, 0, 0) : UINT64_MAX;
        uint64_t settled = lowest - 1 < floor->high ? lowest - 1 : floor->high;
        if (settled > floor->value)
            floor->value = settled;
        floor->is_waiting = false;
    }
    PQclear(result);
    return step;
}

enum step floor_advance(struct source_postgres *self, const struct term *term, struct fault *fault)
{
    struct floor *floor = &self->floor;
    uint64_t now_ms = keeper_now_ms();
    if (floor->connection != self->postgres.connections || memcmp(&floor->term, term, sizeof(*term)) != 0)
        forget(floor, term, self->postgres.connections, now_ms);
    floor->is_whole = now_ms >= floor->whole_ms;
    if (floor->is_whole)
        floor->whole_ms = now_ms + WHOLE_EVERY_MS;
    if (now_ms < floor->next_ms)
        return STEP_OK;

    bool is_settled = false;
    enum step step = floor->is_waiting ? STEP_OK : begin(self, fault);
    if (step == STEP_OK)
        step = see_writers(self, &is_settled, fault);
    if (step == STEP_OK && is_settled)
        step = settle(self, fault);
    floor->next_ms = now_ms + (floor->is_waiting ? WAITING_EVERY_MS : SETTLED_EVERY_MS);
    return step;
}

uint64_t floor_of_scan(const struct floor *floor)
{
    return floor->is_whole ? 0 : floor->value;
}

void floor_deinit(struct floor *floor)
{
    buffer_deinit(&floor->writers);
}
