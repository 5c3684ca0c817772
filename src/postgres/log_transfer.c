#include "postgres/log_transfer.h"

#include "base/buffer.h"
#include "postgres/log_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_MS 10000u      /* of a statement */
#define COPY_PATIENCE_MS 30000u /* of each part of a COPY: a server that writes a checkpoint may be slow */
#define ROWS_AT_ONCE 500        /* 4 MB at most */
#define COPY_SIZE (1u << 20)    /* bytes that are sent at a time */

/* A file on its way. */
struct transfer {
    struct pg_session *from, *into;
    uint64_t *bytes;
    const char *name;
    uint64_t to; /* its number in the target */
    struct sha256 sha256;
    struct pg_chain source, target;
    struct buffer body; /* of the write that is put together */
    bool has_write;
    uint64_t at, epoch;
    uint8_t hash[PG_HASH_SIZE];
    struct buffer rows; /* for the target, as COPY has them */
};

static void append_number(struct buffer *rows, uint64_t number, unsigned size)
{
    for (unsigned i = size; i-- > 0;) {
        const uint8_t byte = (uint8_t)(number >> (8 * i));
        buffer_append(rows, &byte, 1);
    }
}

static void append_field(struct buffer *rows, uint64_t number)
{
    append_number(rows, 8, 4);
    append_number(rows, number, 8);
}

/* hash.size 0: NULL. */
static void append_row(struct transfer *transfer, uint64_t at, struct bytes hash, struct bytes body)
{
    struct buffer *rows = &transfer->rows;
    append_number(rows, 5, 2);
    append_field(rows, transfer->to);
    append_field(rows, at);
    append_field(rows, transfer->epoch);
    append_number(rows, hash.size == 0 ? UINT32_MAX : hash.size, 4);
    buffer_append_bytes(rows, hash);
    append_number(rows, body.size, 4);
    buffer_append_bytes(rows, body);
}

static enum error flush_rows(struct transfer *transfer, struct failure *failure)
{
    const enum pg_outcome outcome =
        pg_link_put_copy(&transfer->into->link, buffer_bytes(&transfer->rows), pg_now_ms() + COPY_PATIENCE_MS, failure);
    transfer->rows.size = 0;
    return outcome == PG_DONE ? OK : failure->error;
}

/* The write that was put together is whole. */
static enum error end_write(struct transfer *transfer, struct failure *failure)
{
    struct bytes body = buffer_bytes(&transfer->body);
    const bool is_write = transfer->at >= transfer->source.end && body.size > 0 && body.ptr[body.size - 1] != 0;
    if (is_write)
        pg_chain_add(&transfer->source, &transfer->sha256, transfer->epoch, transfer->at, body);
    if (!is_write || !pg_chain_has_hash(&transfer->source, bytes_make(transfer->hash, PG_HASH_SIZE)))
        return failure_set(failure, ERROR_LOG_DAMAGED,
                           "file %s does not fit its own hash at offset %" PRIu64 ": a row of tally_log.chunk was "
                           "changed. Restore the database from a backup, or promote a replica.",
                           transfer->name, transfer->at);
    pg_chain_add(&transfer->target, &transfer->sha256, transfer->epoch, transfer->at, body);
    *transfer->bytes += body.size;
    struct bytes hash = bytes_make(transfer->target.hash, PG_HASH_SIZE);
    for (uint64_t at = transfer->at; body.size > 0; at += PG_CHUNK_SIZE) {
        const size_t size = body.size < PG_CHUNK_SIZE ? body.size : PG_CHUNK_SIZE;
        append_row(transfer, at, hash, bytes_make(body.ptr, size));
        body = bytes_skip(body, size);
        hash.size = 0;
    }
    transfer->has_write = false;
    transfer->body.size = 0;
    return transfer->rows.size < COPY_SIZE ? OK : flush_rows(transfer, failure);
}

static enum error take_row(struct transfer *transfer, const PGresult *rows, int row, struct failure *failure)
{
    const struct bytes hash = pg_field(rows, row, 2), body = pg_field(rows, row, 3);
    const uint64_t at = pg_number(rows, row, 0);
    enum error error = hash.ptr != NULL && transfer->has_write ? end_write(transfer, failure) : OK;
    if (error != OK)
        return error;
    if (hash.ptr != NULL) {
        transfer->has_write = true;
        transfer->at = at;
        transfer->epoch = pg_number(rows, row, 1);
        memcpy(transfer->hash, hash.ptr, hash.size < PG_HASH_SIZE ? hash.size : PG_HASH_SIZE);
    }
    buffer_append_bytes(&transfer->body, body);
    const bool fits = transfer->has_write && at + body.size == transfer->at + transfer->body.size;
    return fits ? OK
                : failure_set(failure, ERROR_LOG_DAMAGED, "file %s has a row at offset %" PRIu64 " that nobody wrote.",
                              transfer->name, at);
}

static enum error send_rows(struct transfer *transfer, uint64_t from, struct failure *failure)
{
    int count = ROWS_AT_ONCE;
    uint64_t at = 0;
    enum error error = OK;
    while (error == OK && count == ROWS_AT_ONCE) {
        struct pg_values values = {0};
        pg_add_i64(&values, from);
        pg_add_i64(&values, at);
        pg_add_i32(&values, ROWS_AT_ONCE);
        PGresult *rows = NULL;
        const enum pg_outcome outcome =
            pg_session_run(transfer->from, PG_CHUNKS, &values, pg_now_ms() + PATIENCE_MS, &rows, failure);
        error = outcome == PG_DONE ? OK : failure->error;
        count = error == OK ? PQntuples(rows) : 0;
        for (int i = 0; error == OK && i < count; i++)
            error = take_row(transfer, rows, i, failure);
        at = count == 0 ? at : pg_number(rows, count - 1, 0) + 1;
        PQclear(rows);
    }
    if (error == OK && transfer->has_write)
        error = end_write(transfer, failure);
    return error == OK ? flush_rows(transfer, failure) : error;
}

/* The COPY of one file. */
static enum error send_file(struct transfer *transfer, uint64_t from, struct failure *failure)
{
    static const char text[] = "COPY tally_log.chunk (file, at, epoch, hash, body) FROM STDIN (FORMAT binary)";
    static const uint8_t head[19] = "PGCOPY\n\377\r\n"; /* and a zero; flags 0; the size of an extension: 0 */
    struct pg_link *target = &transfer->into->link;
    if (pg_link_begin_copy(target, text, pg_now_ms() + COPY_PATIENCE_MS, failure) != PG_DONE)
        return failure->error;
    buffer_append(&transfer->rows, head, sizeof(head));
    enum error error = send_rows(transfer, from, failure);
    append_number(&transfer->rows, UINT16_MAX, 2);
    if (error == OK)
        error = flush_rows(transfer, failure);
    if (error == OK && pg_link_end_copy(target, pg_now_ms() + COPY_PATIENCE_MS, failure) != PG_DONE)
        error = failure->error;
    return error;
}

static enum error create_file(struct pg_session *target, uint32_t log, const PGresult *files, int row, uint64_t *id,
                              struct failure *failure)
{
    const struct bytes name = pg_field(files, row, 1);
    char *quoted = PQescapeLiteral(target->link.connection_owned, (const char *)name.ptr, name.size);
    char text[512];
    (void)snprintf(text, sizeof(text),
                   "INSERT INTO tally_log.file (log, name, size) VALUES (%" PRIu32 ", %s, %" PRIu64 ") RETURNING id",
                   log, quoted, pg_number(files, row, 2));
    PQfreemem(quoted);
    PGresult *made = NULL;
    if (pg_link_exec(&target->link, text, pg_now_ms() + PATIENCE_MS, &made, failure) != PG_DONE)
        return failure->error;
    *id = strtoull(PQgetvalue(made, 0, 0), NULL, 10);
    PQclear(made);
    return OK;
}

enum error log_transfer_file(struct pg_session *source, struct pg_session *target, uint32_t log, const PGresult *files,
                             int row, uint64_t *bytes, struct failure *failure)
{
    const uint64_t number = pg_number(files, row, 0);
    char name[PG_NAME_SIZE];
    pg_text(files, row, 1, name, sizeof(name));
    struct transfer transfer = {.from = source, .into = target, .bytes = bytes, .name = name};
    if (pg_log_is_rest(name))
        return OK;
    const enum error made = create_file(target, log, files, row, &transfer.to, failure);
    if (made != OK)
        return made;
    sha256_init(&transfer.sha256);
    buffer_init(&transfer.body);
    buffer_init(&transfer.rows);
    transfer.source = pg_chain_begin(&transfer.sha256, number);
    transfer.target = pg_chain_begin(&transfer.sha256, transfer.to);
    const enum error error = send_file(&transfer, number, failure);
    sha256_deinit(&transfer.sha256);
    buffer_deinit(&transfer.body);
    buffer_deinit(&transfer.rows);
    return error;
}
