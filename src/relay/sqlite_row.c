#include "relay/sqlite_row.h"

#include <inttypes.h>

/* In the order of SQLITE_ROW_COLUMNS. */
enum column { ID, UID, KIND, DELAY_S, QUEUE, GROUP, DEDUPLICATION_ID, ATTRIBUTES, BODY, AGE_MS };

enum step sqlite_row_read_name(sqlite3_stmt *statement, struct row_name *name, struct fault *fault)
{
    const sqlite3_int64 id = sqlite3_column_int64(statement, ID);
    const struct bytes uid = sqlite_column_view(statement, UID);
    if (id <= 0 || !uid_from_text(uid, &name->uid))
        return fault_set(fault, STEP_UNFIT,
                         "row %" PRId64 " has uid '%.*s', which names no message: an id is above 0, and a uid is "
                         "8-4-4-4-12 hexadecimal digits. Mend or delete the row",
                         (int64_t)id, (int)(uid.size < 80 ? uid.size : 80),
                         uid.ptr == NULL ? "" : (const char *)uid.ptr);
    name->id = (uint64_t)id;
    return STEP_OK;
}

enum step sqlite_row_read(sqlite3_stmt *statement, struct row *row, struct fault *fault)
{
    struct row_name name;
    enum step step = sqlite_row_read_name(statement, &name, fault);
    if (step != STEP_OK)
        return step;
    *row = (struct row){
        .id = name.id,
        .uid = name.uid,
        .kind = sqlite3_column_int(statement, KIND) == 1 ? ROW_ACK : ROW_SEND,
        .delay_s = (uint32_t)sqlite3_column_int(statement, DELAY_S),
        .queue = sqlite_column_view(statement, QUEUE),
        .group = sqlite_column_view(statement, GROUP),
        .deduplication_id = sqlite_column_view(statement, DEDUPLICATION_ID),
        .attributes = sqlite_column_view(statement, ATTRIBUTES),
        .body = sqlite_column_view(statement, BODY),
        .age_ms = sqlite_column_age(statement, AGE_MS),
    };
    return STEP_OK;
}

/* The bytes of the character at the beginning of the view; 0: there is none. Surrogates and longer forms than needed
 * are none. */
static size_t character_size(struct bytes view)
{
    static const struct {
        uint8_t first_min, first_max, second_min, second_max;
        size_t size;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    const uint8_t *at = view.ptr;
    if (at[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (at[0] < forms[i].first_min || at[0] > forms[i].first_max)
            continue;
        if (view.size < forms[i].size || at[1] < forms[i].second_min || at[1] > forms[i].second_max)
            return 0;
        for (size_t next = 2; next < forms[i].size; next++)
            if ((at[next] & 0xc0) != 0x80)
                return 0;
        return forms[i].size;
    }
    return 0;
}

static bool is_utf8(struct bytes view)
{
    while (view.size > 0) {
        const size_t size = character_size(view);
        if (size == 0)
            return false;
        view = bytes_skip(view, size);
    }
    return true;
}

bool sqlite_row_is_utf8(const struct row *row)
{
    return is_utf8(row->queue) && is_utf8(row->group) && is_utf8(row->deduplication_id) && is_utf8(row->attributes) &&
           is_utf8(row->body);
}

struct bytes sqlite_row_copy_text(sqlite3_stmt *statement, int index, struct arena *arena)
{
    const struct bytes text = sqlite_column_view(statement, index);
    if (text.ptr == NULL)
        return text;
    uint8_t *copy = arena_allocate(arena, text.size + 1);
    for (size_t at = 0; at < text.size;) {
        const size_t size = character_size(bytes_skip(text, at));
        if (size == 0)
            copy[at++] = '?';
        else {
            memcpy(copy + at, text.ptr + at, size);
            at += size;
        }
    }
    return bytes_make(copy, text.size);
}
