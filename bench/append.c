/* append: what one connection to PostgreSQL takes, without Tally around it. It puts frames into tables, one committed
 * statement each, for some seconds, and prints one line of JSON.
 *
 * With --shape chunks it is the statement that tallyd runs: the fence, and rows of 8,000 bytes. That is what Tally's
 * rate is compared with. The other shapes are those that were not chosen (docs/internals/decisions/0021): toast has one
 * value a frame, and ring has tables that are emptied with TRUNCATE. Frames are what a compressor can't shrink.
 *
 * --keep BYTES: what is older is removed, a segment at a time, on a second connection: by DELETE, or in a ring by
 * TRUNCATE. --pin: a third connection keeps a snapshot open, as a long query or pg_dump does. */
#include "postgres/statements.h"
#include "text.h"

#include <getopt.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#define CHUNKS_MAX 1100u /* 8.8 MB */
#define SLOTS 8u         /* of the ring */
#define LOG "bench"
#define ARRAY_HEAD 20u /* bytes in front of the elements of a binary array */

enum shape { SHAPE_CHUNKS, SHAPE_TOAST, SHAPE_RING, SHAPE_COUNT };

static const char *const shape_names[SHAPE_COUNT] = {"chunks", "toast", "ring"};

static const char *const tables[SHAPE_COUNT] = {
    [SHAPE_CHUNKS] = "tally_log.chunk",
    [SHAPE_TOAST] = "bench_toast",
    [SHAPE_RING] = "bench_ring",
};

struct append {
    const char *uri;
    enum shape shape;
    size_t frame_size;
    double seconds;
    uint64_t kept; /* bytes; 0: all */
    bool is_pinned;
    PGconn *writer_owned, *cleaner_owned, *pin_owned;
    char log[16], epoch[24], owner[40], file[24];
    uint64_t position, removed;
    uint8_t *array_owned; /* the frame as PostgreSQL's bytea[] */
    size_t array_size;
};

static PGresult *check(PGconn *connection, PGresult *result)
{
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fatal("%s", PQerrorMessage(connection));
    return result;
}

static void run(PGconn *connection, const char *text)
{
    PQclear(check(connection, PQexec(connection, text)));
}

/* The only value of the only row; 0 for none. */
static double number(PGconn *connection, const char *text)
{
    PGresult *result = check(connection, PQexec(connection, text));
    const double value = PQntuples(result) > 0 ? strtod(PQgetvalue(result, 0, 0), NULL) : 0;
    PQclear(result);
    return value;
}

static PGconn *connect_to(const char *uri)
{
    PGconn *connection = PQconnectdb(uri);
    if (PQstatus(connection) != CONNECTION_OK)
        fatal("%s", PQerrorMessage(connection));
    run(connection, "SET plan_cache_mode = force_generic_plan; SET client_min_messages = warning;"
                    "SET enable_seqscan = off; SET enable_bitmapscan = off");
    return connection;
}

/* --- the frame ---------------------------------------------------------------------------------------------------- */

static uint8_t *put_u32(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * (3 - i));
    return at + 4;
}

/* One dimension of chunks; with --shape toast there is one element. */
static void make_frame(struct append *append)
{
    const size_t each = append->shape == SHAPE_TOAST ? append->frame_size : PG_CHUNK_SIZE;
    const size_t count = (append->frame_size + each - 1) / each;
    append->array_size = ARRAY_HEAD + 4 * count + append->frame_size;
    append->array_owned = allocate(append->array_size);
    uint8_t *at = put_u32(append->array_owned, 1);
    at = put_u32(put_u32(at, 0), 17); /* no NULLs; the type is bytea */
    at = put_u32(put_u32(at, (uint32_t)count), 1);
    uint64_t state = 88172645463325252u;
    for (size_t left = append->frame_size; left > 0;) {
        const size_t size = left < each ? left : each;
        at = put_u32(at, (uint32_t)size);
        for (size_t i = 0; i < size; i++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            *at++ = (uint8_t)state;
        }
        left -= size;
    }
}

/* --- the tables --------------------------------------------------------------------------------------------------- */

#define TOAST_APPEND                                                                                                   \
    PG_FENCE "INSERT INTO bench_toast (file, at, epoch, hash, body) SELECT $4::bigint, $5::bigint, $8::bigint, "       \
             "$6::bytea, ($7::bytea[])[1] FROM fence"

#define RING_APPEND                                                                                                    \
    PG_FENCE "INSERT INTO bench_ring_%u (file, at, epoch, hash, body) SELECT $4::bigint,"                              \
             " $5::bigint + (c.n - 1) * 8000, $8::bigint, CASE WHEN c.n = 1 THEN $6::bytea END, c.body"                \
             " FROM fence, unnest($7::bytea[]) WITH ORDINALITY AS c(body, n)"

static void prepare(struct append *append, const char *name, const char *text)
{
    PQclear(check(append->writer_owned, PQprepare(append->writer_owned, name, text, 0, NULL)));
}

static void make_ring(struct append *append)
{
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        char text[1024], name[16];
        (void)snprintf(text, sizeof(text),
                       "CREATE TABLE bench_ring_%u (LIKE tally_log.chunk INCLUDING STORAGE INCLUDING CONSTRAINTS,"
                       " PRIMARY KEY (file, at))",
                       slot);
        run(append->writer_owned, text);
        (void)snprintf(name, sizeof(name), "append_%u", slot);
        (void)snprintf(text, sizeof(text), RING_APPEND, slot);
        prepare(append, name, text);
    }
}

static void make_tables(struct append *append)
{
    PGconn *writer = append->writer_owned;
    run(writer, "INSERT INTO tally_log.head (log, owner, epoch) VALUES ('" LOG "', gen_random_uuid(), 1)");
    PGresult *head = check(writer, PQexec(writer, "SELECT id, epoch, owner FROM tally_log.head WHERE log = '" LOG "'"));
    (void)snprintf(append->log, sizeof(append->log), "%s", PQgetvalue(head, 0, 0));
    (void)snprintf(append->epoch, sizeof(append->epoch), "%s", PQgetvalue(head, 0, 1));
    (void)snprintf(append->owner, sizeof(append->owner), "%s", PQgetvalue(head, 0, 2));
    PQclear(head);
    if (append->shape == SHAPE_RING) {
        make_ring(append);
    } else if (append->shape == SHAPE_TOAST) {
        run(writer, "CREATE TABLE bench_toast (file bigint, at bigint, epoch bigint, hash bytea, body bytea,"
                    " PRIMARY KEY (file, at)) WITH (autovacuum_vacuum_scale_factor = 0,"
                    " autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,"
                    " toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 20000,"
                    " toast.autovacuum_vacuum_cost_delay = 0);"
                    "ALTER TABLE bench_toast ALTER body SET STORAGE EXTERNAL");
        prepare(append, "append", TOAST_APPEND);
    } else {
        prepare(append, "append", pg_statement_texts[PG_APPEND]);
    }
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static uint64_t segment_of(const struct append *append, uint64_t position)
{
    const uint64_t size = append->kept > 0 ? append->kept / (SLOTS / 2) : UINT64_C(64) * 1024 * 1024;
    return position / (size > append->frame_size ? size : append->frame_size);
}

static void remove_segment(struct append *append, uint64_t segment)
{
    char text[256];
    if (append->shape == SHAPE_RING) {
        (void)snprintf(text, sizeof(text), "SET lock_timeout = '50ms'; TRUNCATE bench_ring_%u",
                       (unsigned)(segment % SLOTS));
        run(append->cleaner_owned, text);
        return;
    }
    do { /* in portions, as tallyd does */
        (void)snprintf(text, sizeof(text),
                       "DELETE FROM %s WHERE file = %llu AND at IN (SELECT at FROM %s WHERE file = %llu ORDER BY at"
                       " LIMIT 500)",
                       tables[append->shape], (unsigned long long)segment, tables[append->shape],
                       (unsigned long long)segment);
        PGresult *result = check(append->cleaner_owned, PQexec(append->cleaner_owned, text));
        const bool is_over = atoi(PQcmdTuples(result)) == 0;
        PQclear(result);
        if (is_over)
            return;
    } while (true);
}

static void append_frame(struct append *append)
{
    static const uint8_t hash[32];
    const uint64_t segment = segment_of(append, append->position);
    char name[16], file[24], at[24];
    (void)snprintf(name, sizeof(name), append->shape == SHAPE_RING ? "append_%u" : "append",
                   (unsigned)(segment % SLOTS));
    (void)snprintf(file, sizeof(file), "%llu", (unsigned long long)segment);
    (void)snprintf(at, sizeof(at), "%llu", (unsigned long long)append->position);
    const char *values[] = {
        append->log,  append->epoch, append->owner, file, at, (const char *)hash, (const char *)append->array_owned,
        append->epoch};
    const int sizes[] = {0, 0, 0, 0, 0, sizeof(hash), (int)append->array_size, 0};
    const int formats[] = {0, 0, 0, 0, 0, 1, 1, 0};
    PGresult *result =
        check(append->writer_owned, PQexecPrepared(append->writer_owned, name, 8, values, sizes, formats, 1));
    if (atoi(PQcmdTuples(result)) == 0)
        fatal("the fence let nothing through");
    PQclear(result);
    append->position += append->frame_size;
    while (append->kept > 0 && segment_of(append, append->position) >= append->removed + SLOTS / 2 + 1)
        remove_segment(append, append->removed++);
}

/* Frames in so many seconds. */
static uint64_t append_for(struct append *append, double seconds)
{
    const uint64_t end_ns = clock_now_ns() + (uint64_t)(seconds * 1e9);
    uint64_t count = 0;
    for (; clock_now_ns() < end_ns; count++)
        append_frame(append);
    return count;
}

static double stored_bytes(const struct append *append)
{
    char text[256];
    (void)snprintf(text, sizeof(text),
                   append->shape == SHAPE_RING
                       ? "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relname LIKE 'bench_ring__'"
                       : "SELECT pg_total_relation_size('%s')",
                   tables[append->shape]);
    return number(append->writer_owned, text);
}

static const char wal[] = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')";

static void measure(struct append *append)
{
    (void)append_for(append, append->seconds / 10); /* the tables have their first pages */
    const uint64_t before = append->position;
    const double wal_before = number(append->writer_owned, wal), begin_ns = (double)clock_now_ns();
    const double first = (double)append_for(append, append->seconds / 4) / (append->seconds / 4);
    (void)append_for(append, append->seconds / 2);
    const double last = (double)append_for(append, append->seconds / 4) / (append->seconds / 4);
    const double bytes = (double)(append->position - before), took_s = ((double)clock_now_ns() - begin_ns) / 1e9;
    printf("{\"shape\":\"%s\",\"frame_bytes\":%zu,\"bytes_per_s\":%.0f,\"frames_per_s\":%.1f,\"first_per_s\":%.1f,"
           "\"last_per_s\":%.1f,\"wal_factor\":%.3f,\"stored_bytes\":%.0f,\"kept_bytes\":%llu,\"is_pinned\":%s}\n",
           shape_names[append->shape], append->frame_size, bytes / took_s, bytes / took_s / (double)append->frame_size,
           first, last, (number(append->writer_owned, wal) - wal_before) / bytes, stored_bytes(append),
           (unsigned long long)append->kept, append->is_pinned ? "true" : "false");
}

static enum shape shape_of(const char *name)
{
    for (enum shape shape = 0; shape < SHAPE_COUNT; shape++)
        if (strcmp(name, shape_names[shape]) == 0)
            return shape;
    fatal("--shape is chunks, toast or ring");
}

static void read_arguments(struct append *append, int argc, char **argv)
{
    static const struct option options[] = {{"uri", 1, NULL, 'u'},     {"shape", 1, NULL, 's'}, {"bytes", 1, NULL, 'b'},
                                            {"seconds", 1, NULL, 'n'}, {"keep", 1, NULL, 'k'},  {"pin", 0, NULL, 'p'},
                                            {NULL, 0, NULL, 0}};
    *append = (struct append){.frame_size = 256 * 1024, .seconds = 5};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'u':
            append->uri = optarg;
            break;
        case 's':
            append->shape = shape_of(optarg);
            break;
        case 'b':
            append->frame_size = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            append->seconds = strtod(optarg, NULL);
            break;
        case 'k':
            append->kept = strtoull(optarg, NULL, 10);
            break;
        case 'p':
            append->is_pinned = true;
            break;
        default:
            exit(2);
        }
    if (append->uri == NULL || append->frame_size == 0 || append->frame_size > CHUNKS_MAX * PG_CHUNK_SIZE)
        fatal("--uri URI is needed, of a database that `tallyd --log URI --init` has seen; --bytes from 1 to %u",
              CHUNKS_MAX * PG_CHUNK_SIZE);
}

int main(int argc, char **argv)
{
    struct append append;
    read_arguments(&append, argc, argv);
    append.writer_owned = connect_to(append.uri);
    append.cleaner_owned = connect_to(append.uri);
    make_tables(&append);
    make_frame(&append);
    if (append.is_pinned) {
        append.pin_owned = connect_to(append.uri);
        run(append.pin_owned, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tally_log.head");
    }
    measure(&append);
    PQfinish(append.writer_owned);
    PQfinish(append.cleaner_owned);
    PQfinish(append.pin_owned);
    free(append.array_owned);
    return 0;
}
