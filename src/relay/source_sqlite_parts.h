/* What the files of SQLite's source share: source_sqlite.c (rows, and the SQL of all), source_sqlite_intents.c (what is
 * noted of them), source_sqlite_admin.c (admin queries). */
#ifndef TALLY_RELAY_SOURCE_SQLITE_PARTS_H
#define TALLY_RELAY_SOURCE_SQLITE_PARTS_H

#include "base/assert.h"
#include "relay/source.h"
#include "relay/sqlite.h"

enum statement {
    STATEMENT_IS_HELD,
    STATEMENT_DATA_VERSION,
    STATEMENT_SCAN,
    STATEMENT_DELETE_ROW,
    STATEMENT_PARK,
    STATEMENT_NOTE_ROW,
    STATEMENT_END_INTENT,
    STATEMENT_NEXT_INTENT,
    STATEMENT_INTENT_NAMES,
    STATEMENT_ROW,
    STATEMENT_COUNT_WAITING,
    STATEMENT_ENDS_OF_OUTBOX,
    STATEMENT_COUNT_PARKED,
    STATEMENT_JOURNAL_MODE,
    STATEMENT_LIST_PARKED,
    STATEMENT_SEND_PARKED,
    STATEMENT_DROP_PARKED,
    STATEMENT_COUNT,
};

struct source_sqlite {
    struct source source;
    struct sqlite sqlite;
    /* From begin_scan() for end_scan(). */
    struct term term;
    struct row_name *in_flight_owned; /* by id */
    size_t in_flight_count;
    unsigned limit;
    size_t size_max;
    /* A scan that found nothing need not be repeated while nobody has written: the database as it was then, and what
     * was in flight. */
    bool is_idle;
    int64_t idle_version;
    uint64_t idle_hash;
};

static inline struct source_sqlite *source_sqlite_of(struct source *source)
{
    ASSERT(source != NULL);
    return CONTAINER_OF(source, struct source_sqlite, source);
}

/* A transaction that writes, begun by its owner: since nobody else can write now, the term stays true until the commit.
 * STEP_FENCED: another relay has taken over. On failure there is no transaction. */
enum step source_sqlite_begin(struct source_sqlite *self, const struct term *term, struct fault *fault);
/* One that reads, begun by its owner; the connection is open. */
enum step source_sqlite_begin_reading(struct source_sqlite *self, const struct term *term, struct fault *fault);

/* Deletes rows by id and uid, within a transaction that writes. */
enum step source_sqlite_delete(struct source_sqlite *self, const struct row_name *names, size_t count,
                               struct fault *fault);

/* The rest is of struct source_ops. */
enum step source_sqlite_note(struct source *source, const struct term *term, uint64_t last, uint64_t next,
                             const struct row_name *names, size_t count, struct fault *fault);
enum step source_sqlite_find_intent(struct source *source, const struct term *term, const struct intent *after,
                                    struct intent *intent, struct rows *rows, bool *is_open, struct fault *fault);
enum step source_sqlite_end_intent(struct source *source, const struct term *term, const struct intent *intent,
                                   const struct row_name *done, size_t count, struct fault *fault);

enum step source_sqlite_check_health(struct source *source, struct source_health *health, struct fault *fault);
enum step source_sqlite_list_parked(struct source *source, unsigned limit, struct arena *arena, struct parked **parked,
                                    size_t *count, struct fault *fault);
enum step source_sqlite_resolve(struct source *source, const struct uid *uid, enum resolution resolution,
                                bool *is_found, struct fault *fault);

#endif
