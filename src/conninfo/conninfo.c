#include "conninfo/conninfo.h"

#include "conninfo/mysql_url.h"
#include <stdio.h>
#include <string.h>

/* --- can it be read? ---------------------------------------------------------------------------------------------- */

static const char form[] =
    "It must be a URI, postgres://USER:PASSWORD@HOST:PORT/DATABASE, where @ : / ? # % and blanks of a password are "
    "written %40 %3A %2F %3F %23 %25 %20; or words such as host=HOST dbname=DATABASE, with a value that has blanks in "
    "single quotes";

/* libpq quotes the text that it could not parse, and that may be a password; a quoted "=" or "]" is libpq's own. */
static void hide_quoted(const char *said, char *text, size_t size)
{
    const char *first = strchr(said, '"'), *last = strrchr(said, '"');
    while (first != NULL && first + 2 < last && first[2] == '"' && (first[1] == '=' || first[1] == ']'))
        first = strchr(first + 3, '"');
    if (first == NULL || first == last || (first + 2 == last && (first[1] == '=' || first[1] == ']')))
        snprintf(text, size, "%.*s", (int)strcspn(said, "\n"), said);
    else
        snprintf(text, size, "%.*s\"…\"%.*s", (int)(first - said), said, (int)strcspn(last + 1, "\n"), last + 1);
}

/* What stands behind the scheme of a URI; NULL: it is none. */
static const char *behind_scheme(const char *conninfo)
{
    static const char *const schemes[] = {"postgres://", "postgresql://"};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (strncmp(conninfo, schemes[i], strlen(schemes[i])) == 0)
            return conninfo + strlen(schemes[i]);
    return NULL;
}

bool conninfo_is_uri(const char *conninfo)
{
    return behind_scheme(conninfo) != NULL;
}

/* An @ that can't be the one between password and host. */
static bool has_stray_at(const char *rest)
{
    size_t host_end = strcspn(rest, "/"), at = strcspn(rest, "@");
    size_t path_end = host_end + strcspn(rest + host_end, "?");
    if (at < host_end)
        at += 1 + strcspn(rest + at + 1, "@");
    return at < path_end;
}

static bool has_wrong_port(const PQconninfoOption *options)
{
    const char *port = conninfo_option(options, "port");
    return port != NULL && port[strspn(port, "0123456789,")] != '\0';
}

PQconninfoOption *conninfo_parse(const char *conninfo, char wrong[CONNINFO_WRONG_SIZE])
{
    char *said = NULL, reason[200];
    PQconninfoOption *options = PQconninfoParse(conninfo, &said);
    const char *rest = behind_scheme(conninfo);
    wrong[0] = '\0';
    if (options == NULL) {
        hide_quoted(said == NULL ? "out of memory" : said, reason, sizeof(reason));
        snprintf(wrong, CONNINFO_WRONG_SIZE, "can't be read: %s. %s", reason, form);
    } else if (rest != NULL && has_stray_at(rest)) {
        snprintf(wrong, CONNINFO_WRONG_SIZE, "has an @ that is not the one before the host. %s", form);
    } else if (has_wrong_port(options)) {
        snprintf(wrong, CONNINFO_WRONG_SIZE, "has a port that is no number, or a password and no host. %s", form);
    }
    PQfreemem(said);
    if (wrong[0] == '\0')
        return options;
    PQconninfoFree(options);
    return NULL;
}

const char *conninfo_option(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword != NULL; options++)
        if (strcmp(options->keyword, keyword) == 0)
            return options->val;
    return NULL;
}

/* libpq marks options with a star that must be hidden while a person types them. */
static bool is_secret(const PQconninfoOption *option)
{
    return option->dispchar[0] == '*';
}

bool conninfo_has_secret(const PQconninfoOption *options)
{
    for (; options->keyword != NULL; options++)
        if (is_secret(options) && options->val != NULL && options->val[0] != '\0')
            return true;
    return false;
}

/* --- showing ------------------------------------------------------------------------------------------------------ */

/* In quotes unless it is a plain word. */
void conninfo_append(const PQconninfoOption *option, struct buffer *text)
{
    const char *value = option->val;
    bool is_plain = *value != '\0' && strpbrk(value, " \t\r\n'\\") == NULL;
    buffer_append_format(text, "%s=%s", option->keyword, is_plain ? value : "");
    if (is_plain)
        return;
    buffer_append_u8(text, '\'');
    for (; *value != '\0'; value++) {
        if (*value == '\'' || *value == '\\')
            buffer_append_u8(text, '\\');
        buffer_append_u8(text, (uint8_t)*value);
    }
    buffer_append_u8(text, '\'');
}

void conninfo_redact(const char *conninfo, struct buffer *text)
{
    char wrong[CONNINFO_WRONG_SIZE];
    if (mysql_url_is_one(conninfo)) {
        mysql_url_redact(conninfo, text);
        return;
    }
    PQconninfoOption *options = conninfo_parse(conninfo, wrong);
    if (options == NULL) {
        buffer_append_format(text, "(not shown: it can't be read as a connection string)");
        return;
    }
    bool is_first = true;
    for (const PQconninfoOption *option = options; option->keyword != NULL; option++) {
        if (option->val == NULL || is_secret(option))
            continue;
        if (!is_first)
            buffer_append_u8(text, ' ');
        conninfo_append(option, text);
        is_first = false;
    }
    PQconninfoFree(options);
}
