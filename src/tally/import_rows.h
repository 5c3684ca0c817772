/* Rows of an import on their way to the server, up to a thousand, as texts. */
#ifndef TALLY_TALLY_IMPORT_ROWS_H
#define TALLY_TALLY_IMPORT_ROWS_H

#include "base/buffer.h"

#define IMPORT_ROWS_MAX 1000u         /* of a Publish */
#define IMPORT_ROWS_SIZE_MAX 1000000u /* bytes of JSON in one request; one row may have more */

struct import_row {
    uint64_t line;                /* in the file, for people */
    uint64_t number;              /* in the export; 0: it is of none, and the publication names it */
    char uid[UUID_TEXT_SIZE + 1]; /* if it has a number */
    size_t begin;                 /* in the texts */
    size_t end;
};

struct import_rows {
    struct buffer texts;
    struct import_row rows[IMPORT_ROWS_MAX];
    size_t first; /* those before it are with the server */
    size_t count;
};

void import_rows_init(struct import_rows *rows);
void import_rows_deinit(struct import_rows *rows);
bool import_rows_is_empty(const struct import_rows *rows);
void import_rows_clear(struct import_rows *rows);

/* Has it room for a text of that size? An empty one has, whatever the size. */
bool import_rows_has_room(const struct import_rows *rows, size_t size);

/* Adds a row and its text, the members of a send: {"QueueUrl": …}. The caller fills the rest of the row. */
struct import_row *import_rows_add(struct import_rows *rows, struct bytes text);

#endif
