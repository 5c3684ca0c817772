/* The settled floor (P7, P8 in docs/internals/invariants-relays.md). First the highest id that was ever drawn, then who
 * writes to the outbox at that moment. When all of those writers are gone, each id up to it is visible or will never
 * exist, and the floor may go up to below the lowest row that lives. The order of the three looks matters: each one
 * sees at least what the one before it saw.
 *
 * While one transaction that drew an id stays open, the floor stands still. What is left of the rows that are delivered
 * meanwhile can't be removed, and a scan would read all of it, again and again (R04). But an id that this very
 * connection deleted, in a statement whose commit it knows of, is as settled as one below the floor: it was visible,
 * and a committed delete is taken back only by a failover or a crash, which end the connection. So a scan passes over
 * those ids (tombstones.h) and looks at all pieces in between and at everything behind them, in one statement, so in
 * one snapshot: a late row stands in a piece and comes before what is behind it (P4, P7). Where such ids begin right
 * above the floor, the floor goes up over them; that needs no writer to be gone (P8).
 *
 * Nothing is concluded from an id that is merely missing, since an open transaction may own it. Only what the answer of
 * a delete names counts: not a row with the same id and another uid, nor one that another relay deleted. All is
 * forgotten with the connection and the term. An id that comes back all the same, because somebody chose it or set the
 * sequence back, is found by the whole scan, which reads from 0 without pieces; then, too, all is forgotten. Behind a
 * pooler the server may change without a change of our connection, so there no ids are noted. */
#include "platform/monotonic.h"
#include "relay/keeper.h"
#include "relay/source_postgres_parts.h"

#define SETTLED_EVERY_MS 1000u
#define WAITING_EVERY_MS 250u
#define WHOLE_EVERY_MS 60000u
#define WHOLE_PART                                                                                                     \
    50u /* and at most this part of the time, where so much is left of rows that are gone that they take long */
#define PIECES_FROM_IDS 2000u /* to read what is left of fewer rows costs less than to look at pieces */

static void forget(struct floor *floor, const struct term *term, unsigned connection, uint64_t now_ms)
{
    floor->value = 0;
    floor->term = *term;
    floor->connection = connection;
    floor->is_waiting = false;
    floor->next_ms = now_ms;
    floor->whole_ms = now_ms;
    tombstones_clear(&floor->tombstones);
}

void floor_forget_others(struct source_postgres *self)
{
    struct floor *floor = &self->floor;
    struct term term = floor->term;
    if (floor->connection != self->postgres.connections)
        forget(floor, &term, self->postgres.connections, boottime_ms());
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

/* A prepared transaction always counts as a writer: a restart of the server gives it another name. */
static bool are_deleted(const struct floor *floor, const PGresult *result)
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
    *is_settled = step == STEP_OK && are_deleted(floor, result);
    PQclear(result);
    return step;
}

static void raise_to(struct floor *floor, uint64_t value)
{
    floor->value = tombstones_raise(&floor->tombstones, value);
}

static enum step settle(struct source_postgres *self, struct fault *fault)
{
    struct floor *floor = &self->floor;
    struct pieces pieces = floor_pieces(floor);
    PGresult *result;
    enum step step =
        source_postgres_run(self, STATEMENT_LOWEST, (const char *[]){pieces.lows, pieces.highs}, 2, &result, fault);
    if (step == STEP_OK) {
        uint64_t lowest = PQntuples(result) == 1 ? postgres_number(result, 0, 0) : UINT64_MAX;
        uint64_t settled = lowest - 1 < floor->high ? lowest - 1 : floor->high;
        if (settled > floor->value)
            raise_to(floor, settled);
        floor->is_waiting = false;
    }
    PQclear(result);
    return step;
}

enum step floor_advance(struct source_postgres *self, const struct term *term, struct fault *fault)
{
    struct floor *floor = &self->floor;
    uint64_t now_ms = boottime_ms();
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

/* --- what is gone ------------------------------------------------------------------------------------------------- */

bool floor_has_pieces(const struct floor *floor)
{
    return !floor->is_whole && floor->tombstones.id_count >= PIECES_FROM_IDS;
}

static void append_number(struct buffer *array, uint64_t number)
{
    buffer_append_u8(array, array->size == 0 ? '{' : ',');
    buffer_append_decimal(array, number);
}

struct pieces floor_pieces(struct floor *floor)
{
    buffer_truncate(&floor->lows, 0);
    buffer_truncate(&floor->highs, 0);
    append_number(&floor->lows, floor->value);
    for (size_t i = 0; i < floor->tombstones.count; i++) {
        append_number(&floor->highs, floor->tombstones.ranges[i].first);
        append_number(&floor->lows, floor->tombstones.ranges[i].last);
    }
    append_number(&floor->highs, INT64_MAX);
    buffer_append(&floor->lows, "}", 2);
    buffer_append(&floor->highs, "}", 2);
    return (struct pieces){.lows = (const char *)floor->lows.data_owned,
                           .highs = (const char *)floor->highs.data_owned};
}

static void note_tombstones(struct floor *floor, struct id_range range)
{
    if (range.last <= floor->value)
        return;
    if (range.first > floor->value + 1) {
        tombstones_add(&floor->tombstones, range);
        return;
    }
    raise_to(floor, range.last);
}

/* An array of bigint in binary form: twenty bytes of head, then each with its length of four bytes. */
#define ARRAY_HEAD_SIZE 20u
#define ARRAY_ITEM_SIZE 12u

static uint64_t read_item(const uint8_t *item)
{
    return postgres_read_number(bytes_make(item + 4, ARRAY_ITEM_SIZE - 4));
}

size_t floor_note_deleted(struct source_postgres *self, const PGresult *result)
{
    struct floor *floor = &self->floor;
    struct bytes ids = postgres_field(result, 0, 1);
    bool is_of_floor = floor->connection == self->postgres.connections && !self->postgres.is_pooled;
    size_t count = ids.size < ARRAY_HEAD_SIZE ? 0 : (ids.size - ARRAY_HEAD_SIZE) / ARRAY_ITEM_SIZE;
    if (!is_of_floor || count == 0)
        return count;
    ASSERT(ids.size == ARRAY_HEAD_SIZE + count * ARRAY_ITEM_SIZE);
    const uint8_t *item = ids.ptr + ARRAY_HEAD_SIZE, *end = ids.ptr + ids.size;
    struct id_range range = {.first = read_item(item), .last = read_item(item)};
    for (item += ARRAY_ITEM_SIZE; item < end; item += ARRAY_ITEM_SIZE) {
        uint64_t id = read_item(item);
        if (id != range.last + 1) {
            note_tombstones(floor, range);
            range.first = id;
        }
        range.last = id;
    }
    note_tombstones(floor, range);
    return count;
}

void floor_scan_all(struct floor *floor)
{
    floor->whole_ms = 0;
}

void floor_note_found(struct floor *floor, const struct rows *rows)
{
    if (floor->is_whole) {
        uint64_t now_ms = boottime_ms(), took_ms = now_ms - (floor->whole_ms - WHOLE_EVERY_MS);
        floor->whole_ms = now_ms + (took_ms * WHOLE_PART > WHOLE_EVERY_MS ? took_ms * WHOLE_PART : WHOLE_EVERY_MS);
    }
    bool is_wrong = false;
    for (size_t i = 0; i < rows->count && floor->is_whole && !is_wrong; i++) {
        uint64_t id = rows->items_owned[i].id;
        is_wrong = id <= floor->value || tombstones_count_in(&floor->tombstones, (struct id_range){id, id}) > 0;
    }
    if (is_wrong) {
        floor->value = 0;
        floor->is_waiting = false;
        tombstones_clear(&floor->tombstones);
    }
}

void floor_deinit(struct floor *floor)
{
    buffer_deinit(&floor->lows);
    buffer_deinit(&floor->highs);
    buffer_deinit(&floor->writers);
}
