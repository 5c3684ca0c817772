/* See source_postgres.h. The other parts of it are named in source_postgres_parts.h. */
#include "relay/source_postgres.h"

#include "base/assert.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "relay/machine_time.h"
#include "relay/source_postgres_parts.h"
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_MS 10000u
#define WHOLE_PATIENCE_MS 120000u /* for a scan past all that VACUUM could not remove */

/* --- parameters --------------------------------------------------------------------------------------------------- */

#define OID_OF_BIGINT 20u
#define OID_OF_UUID 2950u

/* Numbers are big-endian. */
static void append_number(struct buffer *array, uint64_t number, unsigned size)
{
    for (unsigned shift = size * 8; shift > 0; shift -= 8)
        buffer_append_u8(array, (uint8_t)(number >> (shift - 8)));
}

/* An array in binary form begins so: dimensions, no NULLs in it, its type, and of its one dimension the length and the
 * first index. Source: array_recv() of PostgreSQL. */
static void begin_array(struct buffer *array, uint32_t type, size_t count)
{
    buffer_truncate(array, 0);
    append_number(array, count > 0, 4);
    append_number(array, 0, 4);
    append_number(array, type, 4);
    if (count > 0) {
        append_number(array, count, 4);
        append_number(array, 1, 4);
    }
}

static const char *ids_of(struct buffer *array, const struct row_name *names, size_t count)
{
    begin_array(array, OID_OF_BIGINT, count);
    for (size_t i = 0; i < count; i++) {
        append_number(array, sizeof(names[i].id), 4);
        append_number(array, names[i].id, sizeof(names[i].id));
    }
    return (const char *)array->data_owned;
}

static const char *uids_of(struct buffer *array, const struct row_name *names, size_t count)
{
    begin_array(array, OID_OF_UUID, count);
    for (size_t i = 0; i < count; i++) {
        append_number(array, UID_SIZE, 4);
        buffer_append(array, names[i].uid.bytes, UID_SIZE);
    }
    return (const char *)array->data_owned;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static enum step fenced(struct fault *fault)
{
    return fault_set(fault, STEP_FENCED, "another relay has taken the source over");
}

/* Of a statement that deletes: its first column says whether the fence held, the second which rows are gone. Clears the
 * result. */
static enum step check_held(struct source_postgres *self, enum step step, PGresult *result, struct fault *fault)
{
    if (step == STEP_OK && postgres_number(result, 0, 0) == 0)
        step = fenced(fault);
    else if (step == STEP_OK)
        self->deleted_count = floor_note_deleted(self, result);
    PQclear(result);
    return step;
}

/* Two times of PostgreSQL, in microseconds. */
static uint64_t age_of(uint64_t then, uint64_t now)
{
    return (int64_t)now > (int64_t)then ? (now - then) / 1000 : 0;
}

static void append_row(struct rows *rows, const PGresult *result, int at)
{
    struct bytes uid = postgres_field(result, at, 1);
    ASSERT(uid.size == UID_SIZE);
    struct row row = {
        .id = postgres_number(result, at, 0),
        .kind = postgres_number(result, at, 2) == 0 ? ROW_SEND : ROW_ACK,
        .delay_s = (uint32_t)postgres_number(result, at, 3),
        .queue = postgres_field(result, at, 4),
        .group = postgres_field(result, at, 5),
        .deduplication_id = postgres_field(result, at, 6),
        .attributes = postgres_field(result, at, 7),
        .body = postgres_field(result, at, 8),
        .age_ms = age_of(postgres_number(result, at, 9), postgres_number(result, at, 10)),
    };
    memcpy(row.uid.bytes, uid.ptr, UID_SIZE);
    rows_append(rows, &row);
}

static void append_rows(struct rows *rows, const PGresult *result)
{
    for (int i = 0; i < PQntuples(result); i++)
        append_row(rows, result, i);
}

/* --- the scan ----------------------------------------------------------------------------------------------------- */

/* From the first to the last of the names, unless they are out of order, or so few of a range that to look at all of it
 * costs more than to look for each: then an empty one. */
static void find_range(const struct row_name *names, size_t count, uint64_t *first, uint64_t *last)
{
    *first = names[0].id;
    *last = names[count - 1].id;
    bool is_sorted = true;
    for (size_t i = 1; i < count; i++)
        is_sorted = is_sorted && names[i - 1].id < names[i].id;
    if (!is_sorted || *last - *first >= 2 * count)
        *last = *first - 1;
}

static enum step send_done(struct source_postgres *self, const struct term *term, const struct row_name *done,
                           size_t count, struct fault *fault)
{
    struct postgres_fence fence;
    char first_text[NUMBER_TEXT_SIZE], last_text[NUMBER_TEXT_SIZE];
    uint64_t first, last;
    find_range(done, count, &first, &last);
    postgres_number_to_text(first, first_text);
    postgres_number_to_text(last, last_text);
    postgres_fence_of(&fence, term);
    const char *ids = ids_of(&self->ids, done, count), *uids = uids_of(&self->uids, done, count);
    const struct query query = {
        .statement = STATEMENT_DONE,
        .values = (const char *[]){fence.epoch, fence.owner, ids, uids, first_text, last_text},
        .binary_sizes = (const int[]){0, 0, (int)self->ids.size, (int)self->uids.size, 0, 0},
        .value_count = 6,
        .is_binary = true,
    };
    return postgres_send(&self->postgres, &query, fault);
}

/* How many names follow `*id` without a gap, which goes up over them. */
static size_t pass_over(uint64_t *id, const struct row_name *names, size_t count)
{
    size_t passed = 0;
    while (passed < count && names[passed].id == *id + 1) {
        (*id)++;
        passed++;
    }
    return passed;
}

/* Where rows flow, nothing lives between the floor and the rows that the statement before this one deletes, and nothing
 * between those and the ones in flight: then the scan begins behind them all, instead of reading them to leave them
 * out. */
static enum step send_scan(struct source_postgres *self, const struct row_name *done, size_t done_count,
                           const struct row_name *in_flight, size_t count, unsigned limit, size_t size_max,
                           struct fault *fault)
{
    char low_text[NUMBER_TEXT_SIZE], rows[NUMBER_TEXT_SIZE], size[NUMBER_TEXT_SIZE];
    uint64_t low = floor_of_scan(&self->floor);
    bool has_pieces = floor_has_pieces(&self->floor);
    self->postgres.patience_ms = low == 0 ? WHOLE_PATIENCE_MS : PATIENCE_MS;
    self->passed_count = 0;
    if (!has_pieces && !self->floor.is_whole) {
        self->passed_count = pass_over(&low, done, done_count);
        size_t passed = pass_over(&low, in_flight, count);
        in_flight += passed;
        count -= passed;
    }
    postgres_number_to_text(low, low_text);
    postgres_number_to_text(limit, rows);
    postgres_number_to_text(size_max == 0 ? 1 : size_max, size);
    const char *ids = ids_of(&self->ids, in_flight, count);
    if (has_pieces) {
        struct pieces pieces = floor_pieces(&self->floor);
        const struct query query = {
            .statement = STATEMENT_SCAN_PIECES,
            .values = (const char *[]){pieces.lows, pieces.highs, ids, rows, size},
            .binary_sizes = (const int[]){0, 0, (int)self->ids.size, 0, 0},
            .value_count = 5,
            .is_binary = true,
        };
        return postgres_send(&self->postgres, &query, fault);
    }
    const struct query query = {
        .statement = STATEMENT_SCAN,
        .values = (const char *[]){low_text, ids, rows, size},
        .binary_sizes = (const int[]){0, (int)self->ids.size, 0, 0},
        .value_count = 4,
        .is_binary = true,
    };
    return postgres_send(&self->postgres, &query, fault);
}

static enum step source_begin_scan(struct source *source, const struct term *term, const struct row_name *done,
                                   size_t done_count, const struct row_name *in_flight, size_t in_flight_count,
                                   unsigned limit, size_t size_max, struct fault *fault)
{
    struct source_postgres *self = source_postgres_of(source);
    ASSERT(!self->is_scanning && limit > 0);
    /* Without a connection the floor is unknown; so is it in a new term. */
    enum step step = postgres_connect(&self->postgres, fault);
    if (step == STEP_OK)
        step = floor_advance(self, term, fault);
    bool has_done = done_count > 0;
    if (step == STEP_OK && has_done)
        step = send_done(self, term, done, done_count, fault);
    if (step == STEP_OK)
        step = send_scan(self, done, done_count, in_flight, in_flight_count, limit, size_max, fault);
    if (step == STEP_OK && self->replica_count > 0)
        step = replicas_send_position(self, fault);
    self->is_scanning = step == STEP_OK;
    self->is_settling = has_done;
    self->done_count = done_count;
    return step;
}

static enum step source_end_scan(struct source *source, struct rows *rows, struct fault *fault)
{
    struct source_postgres *self = source_postgres_of(source);
    rows_clear(rows);
    if (!self->is_scanning)
        return fault_set(fault, STEP_UNREACHABLE, "the scan was not begun");
    self->is_scanning = false;
    PGresult *result = NULL;
    enum step step = STEP_OK;
    struct fault fence_fault = {.text = ""};
    enum step settled = STEP_OK;
    if (self->is_settling) {
        step = postgres_receive(&self->postgres, &result, fault);
        settled = check_held(self, step, result, &fence_fault);
    }
    result = NULL;
    if (step == STEP_OK)
        step = postgres_receive(&self->postgres, &result, fault);
    if (step == STEP_OK && self->replica_count > 0)
        step = replicas_receive_position(self, rows, fault);
    if (step == STEP_OK && settled != STEP_OK) {
        *fault = fence_fault;
        step = settled;
    }
    /* If an expected row was missing, a failover may have given its id to another row, which the scan has skipped. */
    rows->is_cut_short = self->is_settling && self->passed_count > 0 && self->deleted_count < self->done_count;
    if (step == STEP_OK && rows->is_cut_short)
        floor_scan_all(&self->floor);
    if (step == STEP_OK && !rows->is_cut_short) {
        append_rows(rows, result);
        floor_note_found(&self->floor, rows);
    }
    PQclear(result);
    return step;
}

/* --- rows that go another way ------------------------------------------------------------------------------------- */

/* Converts the text of a sink into a form that every database can store. The text may come from a stranger or end
 * inside a character, and a statement refused for that would be refused for ever. */
static void copy_as_ascii(const char *text, char copy[ROW_REASON_SIZE])
{
    size_t size = 0;
    for (; text[size] != '\0' && size < ROW_REASON_SIZE - 1; size++)
        copy[size] = text[size] >= ' ' && text[size] <= '~' ? text[size] : '?';
    copy[size] = '\0';
}

static enum step source_park(struct source *source, const struct term *term, const struct row *row, const char *error,
                             bool is_doubted, struct fault *fault)
{
    struct source_postgres *self = source_postgres_of(source);
    struct postgres_fence fence;
    postgres_fence_of(&fence, term);
    char id[NUMBER_TEXT_SIZE], uid[UID_TEXT_SIZE], reason[ROW_REASON_SIZE];
    postgres_number_to_text(row->id, id);
    uid_to_text(&row->uid, uid);
    copy_as_ascii(error, reason);
    PGresult *result;
    enum step step = source_postgres_run(
        self, STATEMENT_PARK,
        (const char *[]){fence.epoch, fence.owner, id, uid, reason, is_doubted ? "true" : "false"}, 6, &result, fault);
    return check_held(self, step, result, fault);
}

/* A statement with four texts, ids and uids, and perhaps one text more; its answer says whether the fence held. */
static enum step run_with_names(struct source_postgres *self, unsigned statement, const char *const texts[4],
                                const struct row_name *names, size_t count, const char *last_text, struct fault *fault)
{
    const char *ids = ids_of(&self->ids, names, count), *uids = uids_of(&self->uids, names, count);
    const struct query query = {
        .statement = statement,
        .values = (const char *[]){texts[0], texts[1], texts[2], texts[3], ids, uids, last_text},
        .binary_sizes = (const int[]){0, 0, 0, 0, (int)self->ids.size, (int)self->uids.size, 0},
        .value_count = last_text == NULL ? 6 : 7,
        .is_binary = true,
    };
    PGresult *result;
    enum step step = postgres_run(&self->postgres, &query, &result, fault);
    return check_held(self, step, result, fault);
}

static enum step source_note(struct source *source, const struct term *term, uint64_t last, uint64_t next,
                             const struct row_name *names, size_t count, struct fault *fault)
{
    struct source_postgres *self = source_postgres_of(source);
    struct postgres_fence fence;
    postgres_fence_of(&fence, term);
    char last_text[NUMBER_TEXT_SIZE], next_text[NUMBER_TEXT_SIZE];
    postgres_number_to_text(last, last_text);
    postgres_number_to_text(next, next_text);
    struct machine_time now;
    char moment[MACHINE_TIME_TEXT_SIZE];
    machine_time_read(&now);
    machine_time_to_text(&now, moment);
    return run_with_names(self, STATEMENT_NOTE, (const char *[]){fence.epoch, fence.owner, last_text, next_text}, names,
                          count, moment, fault);
}

static void names_of(struct intent *intent, struct rows *rows)
{
    intent->count = rows->count;
    intent->names = arena_allocate(&rows->arena, (rows->count + 1) * sizeof(*intent->names));
    for (size_t i = 0; i < rows->count; i++)
        intent->names[i] = (struct row_name){.id = rows->items_owned[i].id, .uid = rows->items_owned[i].uid};
}

static enum step source_find_intent(struct source *source, const struct term *term, const struct intent *after,
                                    struct intent *intent, struct rows *rows, bool *is_open, struct fault *fault)
{
    (void)term; /* nothing is changed */
    struct source_postgres *self = source_postgres_of(source);
    char epoch[NUMBER_TEXT_SIZE], number[NUMBER_TEXT_SIZE];
    postgres_number_to_text(after == NULL ? 0 : after->epoch, epoch);
    postgres_number_to_text(after == NULL ? 0 : after->number, number);
    PGresult *result;
    enum step step =
        source_postgres_run(self, STATEMENT_FIND_INTENT, (const char *[]){epoch, number}, 2, &result, fault);
    if (step != STEP_OK)
        return step;
    rows_clear(rows);
    *is_open = PQntuples(result) == 1;
    struct machine_time now;
    machine_time_read(&now);
    if (*is_open)
        *intent = (struct intent){
            .epoch = postgres_number(result, 0, 0),
            .number = postgres_number(result, 0, 1),
            .age_ms = machine_time_age_ms(&now, postgres_field(result, 0, 3), (int64_t)postgres_number(result, 0, 2))};
    PQclear(result);
    if (!*is_open)
        return STEP_OK;
    postgres_number_to_text(intent->epoch, epoch);
    postgres_number_to_text(intent->number, number);
    step = source_postgres_run(self, STATEMENT_READ_INTENT, (const char *[]){epoch, number}, 2, &result, fault);
    if (step == STEP_OK) {
        append_rows(rows, result);
        names_of(intent, rows);
    }
    PQclear(result);
    return step;
}

static enum step source_end_intent(struct source *source, const struct term *term, const struct intent *intent,
                                   const struct row_name *done, size_t count, struct fault *fault)
{
    struct source_postgres *self = source_postgres_of(source);
    struct postgres_fence fence;
    postgres_fence_of(&fence, term);
    char epoch[NUMBER_TEXT_SIZE], number[NUMBER_TEXT_SIZE];
    postgres_number_to_text(intent->epoch, epoch);
    postgres_number_to_text(intent->number, number);
    return run_with_names(self, STATEMENT_END_INTENT, (const char *[]){fence.epoch, fence.owner, epoch, number}, done,
                          count, NULL, fault);
}

/* --- made and unmade ---------------------------------------------------------------------------------------------- */

static void source_interrupt(struct source *source)
{
    postgres_interrupt(&source_postgres_of(source)->postgres);
}

static void source_close(struct source *source)
{
    struct source_postgres *self = source_postgres_of(source);
    postgres_deinit(&self->postgres);
    floor_deinit(&self->floor);
    buffer_deinit(&self->ids);
    buffer_deinit(&self->uids);
    free(self);
}

static const struct source_ops ops = {
    .begin_scan = source_begin_scan,
    .end_scan = source_end_scan,
    .check_durable = source_postgres_check_durable,
    .park = source_park,
    .note = source_note,
    .find_intent = source_find_intent,
    .end_intent = source_end_intent,
    .check_health = source_postgres_check_health,
    .list_parked = source_postgres_list_parked,
    .resolve = source_postgres_resolve,
    .interrupt = source_interrupt,
    .close = source_close,
};

struct source *source_postgres_create(const struct relay_spec *spec)
{
    struct source_postgres *self = memory_allocate_zeroed(sizeof(*self));
    self->source.ops = &ops;
    self->replica_count = spec->replica_count;
    postgres_init(&self->postgres, spec, "rows", source_postgres_statements, STATEMENT_COUNT, PATIENCE_MS);
    buffer_init(&self->ids);
    buffer_init(&self->uids);
    return &self->source;
}
