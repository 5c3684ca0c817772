/* tally relay schema: the SQL of an outbox and an inbox. */
#include "base/assert.h"
#include "relay/schema.h"
#include "tally/command.h"
#include <stdio.h>
#include <string.h>

struct settings {
    const char *type;
    const char *schema;
};

static const struct setting settings_table[] = {
    {"type", offsetof(struct settings, type)},
    {"schema", offsetof(struct settings, schema)},
};

static const char *find_text(const char *type)
{
    if (type != NULL && strcmp(type, "postgres") == 0)
        return relay_schema_text(SOURCE_POSTGRES);
    if (type != NULL && strcmp(type, "sqlite") == 0)
        return relay_schema_text(SOURCE_SQLITE);
    if (type != NULL && strcmp(type, "mysql") == 0)
        return relay_schema_text(SOURCE_MYSQL);
    return NULL;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const char *text = find_text(settings->type);
    struct buffer sql;

    if (settings->type == NULL)
        return complain_usage(invocation, "say for which database: --type postgres, sqlite or mysql");
    if (text == NULL)
        return complain_usage(invocation, "--type takes postgres, sqlite or mysql, not \"%s\"", settings->type);
    if (!schema_name_is_sound(settings->schema))
        return complain_usage(invocation,
                              "--schema takes 1 to %u lower-case letters, digits and underscores, no digit first, not "
                              "\"%s\"",
                              SCHEMA_NAME_SIZE_MAX, settings->schema);
    buffer_init(&sql);
    schema_write(text, settings->schema, &sql);
    fwrite(sql.data_owned, 1, sql.size, stdout); /* main() checks whether it could be written */
    buffer_deinit(&sql);
    return EXIT_DONE;
}

const struct command command_relay_schema = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
