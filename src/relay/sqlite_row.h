/* Rows as they stand in the columns of a statement. */
#ifndef TALLY_RELAY_SQLITE_ROW_H
#define TALLY_RELAY_SQLITE_ROW_H

#include "relay/source.h"
#include "relay/sqlite.h"

/* The columns of a row, of a table that the statement calls o. */
#define SQLITE_ROW_COLUMNS                                                                                             \
    "o.id, o.uid, o.kind, o.delay_s, o.queue, o.group_id, o.dedup_id, o.attributes, o.body, " SQLITE_AGE_MS("o."       \
                                                                                                            "created")

/* Id and uid, the first two columns. STEP_UNFIT if they are none: nothing could then be said of the row. */
enum step sqlite_row_read_name(sqlite3_stmt *statement, struct row_name *name, struct fault *fault);

/* The row; what it points to is borrowed until the statement goes on. */
enum step sqlite_row_read(sqlite3_stmt *statement, struct row *row, struct fault *fault);

/* SQLite takes any bytes for text; a message is of characters. */
bool sqlite_row_is_utf8(const struct row *row);

/* A copy of a column's text in which what is not UTF-8 has become '?'; NULL stays NULL. */
struct bytes sqlite_row_copy_text(sqlite3_stmt *statement, int index, struct arena *arena);

#endif
