#include "relay/connection_shown.h"

#include <libpq-fe.h>

/* As libpq reads it back: in quotes where it is not a plain word. */
static void append_value(const char *value, struct buffer *text)
{
    bool is_plain = *value != '\0' && strpbrk(value, " \t\r\n'\\") == NULL;
    if (is_plain) {
        buffer_append_format(text, "%s", value);
        return;
    }
    buffer_append_u8(text, '\'');
    for (; *value != '\0'; value++) {
        if (*value == '\'' || *value == '\\')
            buffer_append_u8(text, '\\');
        buffer_append_u8(text, (uint8_t)*value);
    }
    buffer_append_u8(text, '\'');
}

void connection_show(const char *connection, struct buffer *text)
{
    PQconninfoOption *options = PQconninfoParse(connection, NULL);
    if (options == NULL) {
        buffer_append_format(text, "(not shown: no connection string that libpq can read)");
        return;
    }
    bool is_first = true;
    for (const PQconninfoOption *option = options; option->keyword != NULL; option++) {
        /* libpq marks with a star what is to be hidden when a person types it. */
        if (option->val == NULL || option->dispchar[0] == '*')
            continue;
        buffer_append_format(text, "%s%s=", is_first ? "" : " ", option->keyword);
        append_value(option->val, text);
        is_first = false;
    }
    PQconninfoFree(options);
}
