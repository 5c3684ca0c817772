/* The tables of the simulated PostgreSQL, and what each transaction changes in them. Nothing is freed: rows keep the
 * bytes of the commit that made them, from which the tables can be made anew. */
#ifndef TALLY_TESTS_SIM_OWNERS_TABLES_H
#define TALLY_TESTS_SIM_OWNERS_TABLES_H

#include "base/bytes.h"
#include "postgres/session.h"

#define FILE_NAME_SIZE 80u
#define SYSTEM_ID UINT64_C(7000000000000000001)

struct fence {
    uint64_t epoch;
    uint8_t owner[PG_OWNER_SIZE];
};

struct row_of_file {
    uint64_t id, size;
    char name[FILE_NAME_SIZE];
};

struct row_of_chunk {
    uint64_t file, at, epoch;
    struct bytes hash, body; /* of the commit that made it */
};

struct tables {
    bool has_head, has_beat;
    struct fence fence;
    char node[PG_NODE_SIZE];
    uint64_t system_id;
    uint64_t beats;
    struct row_of_file *files_owned; /* in no order */
    size_t file_count, file_capacity;
    struct row_of_chunk *chunks_owned; /* by file and offset */
    size_t chunk_count, chunk_capacity;
};

/* A transaction that changes something. */
struct commit {
    uint64_t number; /* of all there ever were */
    enum pg_statement statement;
    struct fence fence; /* that it compared; of a seal, that it ends */
    bool has_fence;
    uint64_t file, size;
    char name[FILE_NAME_SIZE];
    struct fence sealed; /* PG_SEAL, PG_REGISTER: what the head has then */
    struct row_of_chunk *chunks_owned;
    size_t chunk_count;
};

bool fence_is_same(const struct fence *one, const struct fence *other);

/* NULL: there is none. Borrowed until something changes. */
struct row_of_file *tables_find_file(const struct tables *tables, uint64_t id);
struct row_of_file *tables_find_file_by_name(const struct tables *tables, const char *name);

/* The first chunk of that file at that offset or behind it; it may be one of the next file. */
size_t tables_chunk_index(const struct tables *tables, uint64_t file, uint64_t at);
bool tables_have_chunk(const struct tables *tables, uint64_t file, uint64_t at);

/* Would a primary key be there twice? */
bool tables_refuse(const struct tables *tables, const struct commit *commit);

/* From here on everybody sees it. The judge is told of what it appends. */
void tables_apply(struct tables *tables, const struct commit *commit);

/* Empty again. */
void tables_clear(struct tables *tables);

#endif
