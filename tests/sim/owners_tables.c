#include "owners_tables.h"

#include "base/assert.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "owners_judge.h"

#include <string.h>

bool fence_is_same(const struct fence *one, const struct fence *other)
{
    return one->epoch == other->epoch && memcmp(one->owner, other->owner, PG_OWNER_SIZE) == 0;
}

struct row_of_file *tables_find_file(const struct tables *tables, uint64_t id)
{
    for (size_t i = 0; i < tables->file_count; i++)
        if (tables->files_owned[i].id == id)
            return &tables->files_owned[i];
    return NULL;
}

struct row_of_file *tables_find_file_by_name(const struct tables *tables, const char *name)
{
    for (size_t i = 0; i < tables->file_count; i++)
        if (strcmp(tables->files_owned[i].name, name) == 0)
            return &tables->files_owned[i];
    return NULL;
}

size_t tables_chunk_index(const struct tables *tables, uint64_t file, uint64_t at)
{
    size_t low = 0, high = tables->chunk_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const struct row_of_chunk *row = &tables->chunks_owned[middle];
        if (row->file < file || (row->file == file && row->at < at))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool tables_have_chunk(const struct tables *tables, uint64_t file, uint64_t at)
{
    const size_t index = tables_chunk_index(tables, file, at);
    return index < tables->chunk_count && tables->chunks_owned[index].file == file &&
           tables->chunks_owned[index].at == at;
}

/* --- changing them ------------------------------------------------------------------------------------------------ */

static void insert_chunk(struct tables *tables, const struct row_of_chunk *row)
{
    const size_t index = tables_chunk_index(tables, row->file, row->at);
    ARRAY_GROW(tables->chunks_owned, tables->chunk_count, tables->chunk_capacity);
    memmove(&tables->chunks_owned[index + 1], &tables->chunks_owned[index],
            (tables->chunk_count - index) * sizeof(*row));
    tables->chunks_owned[index] = *row;
    tables->chunk_count++;
}

static void remove_chunk(struct tables *tables, uint64_t file, uint64_t at)
{
    const size_t index = tables_chunk_index(tables, file, at);
    if (!tables_have_chunk(tables, file, at))
        return;
    memmove(&tables->chunks_owned[index], &tables->chunks_owned[index + 1],
            (tables->chunk_count - index - 1) * sizeof(*tables->chunks_owned));
    tables->chunk_count--;
}

static void tell_judge_of_append(const struct tables *tables, const struct commit *commit)
{
    const struct row_of_file *file = tables_find_file(tables, commit->file);
    struct buffer body;
    buffer_init(&body);
    for (size_t i = 0; i < commit->chunk_count; i++)
        buffer_append_bytes(&body, commit->chunks_owned[i].body);
    if (file != NULL)
        judge_append(commit->number, file->name, commit->chunks_owned[0].at, buffer_bytes(&body));
    buffer_deinit(&body);
}

static void create_file(struct tables *tables, const struct commit *commit)
{
    ARRAY_GROW(tables->files_owned, tables->file_count, tables->file_capacity);
    tables->files_owned[tables->file_count] = (struct row_of_file){.id = commit->file};
    memcpy(tables->files_owned[tables->file_count++].name, commit->name, FILE_NAME_SIZE);
}

static void seal(struct tables *tables, const struct commit *commit)
{
    tables->has_head = true;
    tables->fence = commit->sealed;
    tables->system_id = commit->statement == PG_SEAL ? SYSTEM_ID : 0;
    memcpy(tables->node, commit->name, PG_NODE_SIZE);
}

void tables_apply(struct tables *tables, const struct commit *commit)
{
    struct row_of_file *file = tables_find_file(tables, commit->file);
    switch (commit->statement) {
    case PG_REGISTER:
    case PG_SEAL:
        seal(tables, commit);
        break;
    case PG_BEGIN_BEAT:
        tables->has_beat = true;
        break;
    case PG_BEAT:
        tables->beats++;
        break;
    case PG_CREATE:
        create_file(tables, commit);
        break;
    case PG_RENAME:
        if (file != NULL)
            memcpy(file->name, commit->name, FILE_NAME_SIZE);
        break;
    case PG_RESIZE:
        if (file != NULL)
            file->size = commit->size;
        break;
    case PG_REMOVE:
        if (file != NULL)
            *file = tables->files_owned[--tables->file_count];
        break;
    case PG_REMOVE_CHUNKS:
        for (size_t i = 0; i < commit->chunk_count; i++)
            remove_chunk(tables, commit->file, commit->chunks_owned[i].at);
        break;
    case PG_APPEND:
        for (size_t i = 0; i < commit->chunk_count; i++)
            insert_chunk(tables, &commit->chunks_owned[i]);
        tell_judge_of_append(tables, commit);
        break;
    default:
        ASSERT(false);
    }
}

bool tables_refuse(const struct tables *tables, const struct commit *commit)
{
    if (commit->statement == PG_CREATE || commit->statement == PG_RENAME)
        return tables_find_file_by_name(tables, commit->name) != NULL;
    if (commit->statement != PG_APPEND)
        return false;
    for (size_t i = 0; i < commit->chunk_count; i++)
        if (tables_have_chunk(tables, commit->file, commit->chunks_owned[i].at))
            return true;
    return false;
}

void tables_clear(struct tables *tables)
{
    tables->has_head = tables->has_beat = false;
    tables->beats = 0;
    tables->file_count = tables->chunk_count = 0;
}
