#include "tally/import_rows.h"

#include "base/assert.h"

void import_rows_init(struct import_rows *rows)
{
    buffer_init(&rows->texts);
    rows->first = rows->count = 0;
}

void import_rows_deinit(struct import_rows *rows)
{
    buffer_deinit(&rows->texts);
}

bool import_rows_is_empty(const struct import_rows *rows)
{
    return rows->first == rows->count;
}

void import_rows_clear(struct import_rows *rows)
{
    buffer_truncate(&rows->texts, 0);
    rows->first = rows->count = 0;
}

bool import_rows_has_room(const struct import_rows *rows, size_t size)
{
    return rows->count == 0 || (rows->count < IMPORT_ROWS_MAX && rows->texts.size + size <= IMPORT_ROWS_SIZE_MAX);
}

struct import_row *import_rows_add(struct import_rows *rows, struct bytes text)
{
    ASSERT(rows->count < IMPORT_ROWS_MAX);
    struct import_row *row = &rows->rows[rows->count++];
    *row = (struct import_row){.begin = rows->texts.size};
    buffer_append_bytes(&rows->texts, text);
    row->end = rows->texts.size;
    return row;
}
