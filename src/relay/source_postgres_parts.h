/* What the files of PostgreSQL's source share: source_postgres.c (rows), floor_postgres.c (the settled floor),
 * replicas_postgres.c (what replicas have), source_postgres_admin.c (admin queries), source_postgres_statements.c
 * (the SQL of all). */
#ifndef TALLY_RELAY_SOURCE_POSTGRES_PARTS_H
#define TALLY_RELAY_SOURCE_POSTGRES_PARTS_H

#include "base/assert.h"
#include "base/buffer.h"
#include "relay/postgres.h"
#include "relay/source.h"
#include "relay/tombstones.h"

enum {
    STATEMENT_SCAN,
    STATEMENT_DONE,
    STATEMENT_PARK,
    STATEMENT_NOTE,
    STATEMENT_FIND_INTENT,
    STATEMENT_READ_INTENT,
    STATEMENT_END_INTENT,
    STATEMENT_HIGH,
    STATEMENT_WRITERS,
    STATEMENT_LOWEST,
    STATEMENT_POSITION,
    STATEMENT_REPLICAS,
    STATEMENT_FLUSH,
    STATEMENT_SCAN_PIECES,
    STATEMENT_HEALTH,
    STATEMENT_HORIZON,
    STATEMENT_LIST_PARKED,
    STATEMENT_SEND_PARKED,
    STATEMENT_DROP_PARKED,
    STATEMENT_COUNT,
};

extern const char *const source_postgres_statements[STATEMENT_COUNT];

/* The id below which nothing lives or can still become visible: an optimisation of the scan, kept in memory only, and
 * forgotten with the connection and the term (P8). */
struct floor {
    uint64_t value; /* 0: unknown */
    struct term term;
    unsigned connection;
    bool is_waiting; /* for the writers that were there when `high` was the highest id drawn */
    uint64_t high;
    struct buffer writers;        /* their names, each with a NUL */
    uint64_t next_ms;             /* when to go on, on the monotonic clock */
    uint64_t whole_ms;            /* when the next scan goes without it */
    bool is_whole;                /* this one does */
    struct tombstones tombstones; /* above `value`, what this connection deleted in this term */
    struct buffer lows, highs;
};

/* What a statement is to look at, as its parameters: pieces of ids, each from behind `lows` to before `highs`. */
struct pieces {
    const char *lows, *highs; /* arrays; borrowed until the next ones are made */
};

struct source_postgres {
    struct source source;
    struct postgres postgres;
    struct floor floor;
    unsigned replica_count;  /* a row is published when so many have flushed it */
    uint64_t pushed;         /* up to this position the log was made to be flushed the last time */
    struct buffer ids, uids; /* of the statement that is being put together */
    bool is_scanning;        /* between begin_scan() and end_scan() */
    bool is_settling;        /* and that one deletes rows first, */
    size_t done_count;       /* so many, */
    size_t passed_count;     /* of which it counts on so many: the scan begins behind them, */
    size_t deleted_count;    /* and so many there were */
    uint64_t horizon_ms;     /* when to look at the horizon again */
    char horizon[FAULT_TEXT_SIZE];
};

static inline struct source_postgres *source_postgres_of(struct source *source)
{
    return CONTAINER_OF(source, struct source_postgres, source);
}

/* A statement with its answer in binary form. */
static inline enum step source_postgres_run(struct source_postgres *self, unsigned statement, const char *const *values,
                                            int count, PGresult **result, struct fault *fault)
{
    const struct query query = {.statement = statement, .values = values, .value_count = count, .is_binary = true};
    return postgres_run(&self->postgres, &query, result, fault);
}

/* Before each scan, with a connection: moves the floor up when it can. */
enum step floor_advance(struct source_postgres *self, const struct term *term, struct fault *fault);
/* The floor for this scan; 0 about once a minute, which finds rows that a failover brought back and rows with a chosen
 * id. */
uint64_t floor_of_scan(const struct floor *floor);
/* Is there so much above the floor to pass over that a scan in pieces is worth it? */
bool floor_has_pieces(const struct floor *floor);
struct pieces floor_pieces(struct floor *floor);
/* The answer of a statement that deleted rows, with their ids in column 1; it is committed. */
size_t floor_note_deleted(struct source_postgres *self, const PGresult *result);
/* The next scan goes without the floor. */
void floor_scan_all(struct floor *floor);
/* With a connection: what was known over another one is forgotten. */
void floor_forget_others(struct source_postgres *self);
/* What the scan found, in the order of ids. */
void floor_note_found(struct floor *floor, const struct rows *rows);
void floor_deinit(struct floor *floor);

/* Behind a scan: how far the server is. */
enum step replicas_send_position(struct source_postgres *self, struct fault *fault);
enum step replicas_receive_position(struct source_postgres *self, struct rows *rows, struct fault *fault);
enum step source_postgres_check_durable(struct source *source, const struct rows *rows, bool *is_kept,
                                        struct fault *fault);

enum step source_postgres_check_health(struct source *source, struct source_health *health, struct fault *fault);
enum step source_postgres_list_parked(struct source *source, unsigned limit, struct arena *arena,
                                      struct parked **parked, size_t *count, struct fault *fault);
enum step source_postgres_resolve(struct source *source, const struct uid *uid, enum resolution resolution,
                                  bool *is_found, struct fault *fault);

#endif
