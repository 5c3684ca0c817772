#include "postgres/place.h"

#include "base/buffer.h"
#include "base/memory.h"
#include "conninfo/conninfo.h"

#include <stdlib.h>
#include <string.h>

static bool is_set(const PQconninfoOption *options, const char *keyword)
{
    const char *value = conninfo_option(options, keyword);
    return value != NULL && value[0] != '\0';
}

enum error pg_place_check(const char *place, struct failure *failure)
{
    char unread[CONNINFO_WRONG_SIZE];
    PQconninfoOption *options = conninfo_parse(place, unread);
    const char *wrong = NULL;
    if (options == NULL)
        wrong = "it can't be read; write postgres://HOST:PORT/DATABASE";
    else if (strlen(place) >= PG_PLACE_SIZE)
        wrong = "it is longer than 1,023 bytes";
    else if (conninfo_has_secret(options))
        wrong =
            "it has a password, and everybody who reads the tables would see it; leave it out: each node takes user "
            "and password from its own --log";
    else if (!is_set(options, "host") && !is_set(options, "hostaddr"))
        wrong = "it names no host, and each node would take another one";
    else if (!is_set(options, "dbname"))
        wrong = "it names no database";
    PQconninfoFree(options);
    return wrong == NULL ? OK
                         : failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                                       "The place for the log is not fit for it: %s.", wrong);
}

static void append_setting(struct buffer *text, const PQconninfoOption *option)
{
    conninfo_append(option, text);
    buffer_append_u8(text, ' ');
}

static bool says_where(const char *keyword)
{
    return strcmp(keyword, "host") == 0 || strcmp(keyword, "hostaddr") == 0 || strcmp(keyword, "port") == 0;
}

static char *copy_text(const char *text, size_t size)
{
    char *copy = memory_allocate(size + 1);
    memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

char *pg_place_complete(const char *place, const char *cluster)
{
    PQconninfoOption *there = PQconninfoParse(place, NULL), *here = PQconninfoParse(cluster, NULL);
    struct buffer text;
    buffer_init(&text);
    for (const PQconninfoOption *option = there; here != NULL && option != NULL && option->keyword != NULL; option++)
        if (is_set(there, option->keyword))
            append_setting(&text, option);
    for (const PQconninfoOption *option = here; there != NULL && option != NULL && option->keyword != NULL; option++)
        if (is_set(here, option->keyword) && !is_set(there, option->keyword) && !says_where(option->keyword))
            append_setting(&text, option);
    char *complete =
        text.size > 0 ? copy_text((const char *)text.data_owned, text.size) : copy_text(place, strlen(place));
    buffer_deinit(&text);
    PQconninfoFree(there);
    PQconninfoFree(here);
    return complete;
}
