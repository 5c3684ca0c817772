#include "relay/schema.h"

#include "base/assert.h"
#include <string.h>

extern const char relay_schema_postgres[]; /* made from schema/postgres.sql */
extern const char relay_schema_sqlite[];   /* made from schema/sqlite.sql */
extern const char relay_schema_mysql[];    /* made from schema/mysql.sql */

const char *relay_schema_text(enum source_type source)
{
    switch (source) {
    case SOURCE_POSTGRES:
        return relay_schema_postgres;
    case SOURCE_SQLITE:
        return relay_schema_sqlite;
    case SOURCE_MYSQL:
        return relay_schema_mysql;
    case SOURCE_QUEUE:
    case SOURCE_SQS:
        return NULL;
    }
    return NULL;
}

static bool is_lower(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool schema_name_is_sound(const char *name)
{
    size_t size = strlen(name);
    if (size == 0 || size > SCHEMA_NAME_SIZE_MAX || is_digit(name[0]))
        return false;
    for (size_t i = 0; i < size; i++)
        if (!is_lower(name[i]) && !is_digit(name[i]))
            return false;
    return true;
}

/* The word is the schema's name, or the prefix of a table's, unless it is the tool's: "tally relay schema". */
static bool is_name_here(const char *text, const char *at)
{
    const char *behind = at + strlen(SCHEMA_NAME_DEFAULT);
    bool begins_word = at == text || (!is_lower(at[-1]) && !is_digit(at[-1]));
    bool ends_word = *behind == '_' || (!is_lower(*behind) && !is_digit(*behind));
    return begins_word && ends_word && strncmp(behind, " relay ", 7) != 0;
}

void schema_write(const char *text, const char *name, struct buffer *out)
{
    ASSERT(schema_name_is_sound(name));
    const char *from = text;
    for (const char *at = text; (at = strstr(at, SCHEMA_NAME_DEFAULT)) != NULL;) {
        const char *behind = at + strlen(SCHEMA_NAME_DEFAULT);
        if (is_name_here(text, at)) {
            buffer_append(out, from, (size_t)(at - from));
            buffer_append(out, name, strlen(name));
            from = behind;
        }
        at = behind;
    }
    buffer_append(out, from, strlen(from));
}
