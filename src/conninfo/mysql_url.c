#include "conninfo/mysql_url.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_MAX 65535u

static const char form[] =
    "It must be mysql://USER:PASSWORD@HOST:PORT/DATABASE, where @ : / ? # % and blanks of a password are written %40 "
    "%3A %2F %3F %23 %25 %20; behind it may stand ?ssl-mode=required, and more";

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* What stands behind the scheme; NULL: it is no such URL. */
static const char *behind_scheme(const char *text)
{
    static const char *const schemes[] = {"mysql://", "mariadb://"};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (strncmp(text, schemes[i], strlen(schemes[i])) == 0)
            return text + strlen(schemes[i]);
    return NULL;
}

bool mysql_url_is_one(const char *text)
{
    return behind_scheme(text) != NULL;
}

static int value_of_digit(uint8_t digit)
{
    static const char digits[] = "0123456789abcdef";
    const char lower = digit >= 'A' && digit <= 'F' ? (char)(digit - 'A' + 'a') : (char)digit;
    const char *found = lower == '\0' ? NULL : strchr(digits, lower);
    return found == NULL ? -1 : (int)(found - digits);
}

/* The part with each %XX as the byte that it stands for; NULL: it has another %, or a NUL. */
static char *decode(struct bytes part)
{
    char *text = memory_allocate(part.size + 1);
    size_t size = 0;
    for (size_t at = 0; at < part.size; at++) {
        uint8_t byte = part.ptr[at];
        if (byte == '%') {
            const int high = at + 2 < part.size ? value_of_digit(part.ptr[at + 1]) : -1;
            const int low = at + 2 < part.size ? value_of_digit(part.ptr[at + 2]) : -1;
            byte = high < 0 || low < 0 ? 0 : (uint8_t)(high * 16 + low);
            at += 2;
        }
        if (byte == 0) {
            free(text);
            return NULL;
        }
        text[size++] = (char)byte;
    }
    text[size] = '\0';
    return text;
}

/* Everything before the first `mark`, which leaves `rest` with it; all of it if there is none. */
static struct bytes take_until(struct bytes *rest, char mark, bool *has_mark)
{
    const uint8_t *at = rest->size == 0 ? NULL : memchr(rest->ptr, mark, rest->size);
    struct bytes part = at == NULL ? *rest : bytes_make(rest->ptr, (size_t)(at - rest->ptr));
    *rest = bytes_skip(*rest, at == NULL ? rest->size : part.size + 1);
    *has_mark = at != NULL;
    return part;
}

static bool put(char **field, struct bytes part)
{
    free(*field);
    *field = decode(part);
    return *field != NULL;
}

static bool read_user(struct mysql_url *url, struct bytes part)
{
    bool has_password;
    const struct bytes user = take_until(&part, ':', &has_password);
    return put(&url->user_owned, user) && (!has_password || put(&url->password_owned, part));
}

static bool read_port(struct mysql_url *url, struct bytes part)
{
    for (size_t i = 0; i < part.size; i++) {
        if (part.ptr[i] < '0' || part.ptr[i] > '9' || url->port > PORT_MAX)
            return false;
        url->port = url->port * 10 + (part.ptr[i] - '0');
    }
    return part.size > 0 && url->port > 0 && url->port <= PORT_MAX;
}

static bool read_host(struct mysql_url *url, struct bytes part)
{
    bool is_closed = true, has_port;
    struct bytes host;
    if (part.size > 0 && part.ptr[0] == '[') { /* an address of IPv6 has colons */
        part = bytes_skip(part, 1);
        host = take_until(&part, ']', &is_closed);
        const struct bytes between = take_until(&part, ':', &has_port);
        is_closed = is_closed && between.size == 0;
    } else {
        host = take_until(&part, ':', &has_port);
    }
    return is_closed && (host.size == 0 || put(&url->host_owned, host)) && (!has_port || read_port(url, part));
}

/* --- the words behind "?" ----------------------------------------------------------------------------------------- */

static bool read_mode(struct mysql_url *url, struct bytes value)
{
    static const char *const modes[] = {
        [MYSQL_TLS_DISABLED] = "disabled",
        [MYSQL_TLS_REQUIRED] = "required",
        [MYSQL_TLS_VERIFY_IDENTITY] = "verify_identity",
    };
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (bytes_equal(value, bytes_from_string(modes[i]))) {
            url->tls = (enum mysql_tls)i;
            return true;
        }
    return false;
}

static bool read_word(struct mysql_url *url, struct bytes name, struct bytes value, bool *has_mode)
{
    const struct {
        const char *name;
        char **field;
    } paths[] = {
        {"socket", &url->socket_owned},
        {"ssl-ca", &url->ca_owned},
        {"ssl-cert", &url->cert_owned},
        {"ssl-key", &url->key_owned},
    };
    if (bytes_equal(name, BYTES("ssl-mode"))) {
        *has_mode = true;
        return read_mode(url, value);
    }
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (bytes_equal(name, bytes_from_string(paths[i].name)))
            return value.size > 0 && put(paths[i].field, value);
    return false;
}

static bool read_words(struct mysql_url *url, struct bytes rest)
{
    bool has_mode = false, has_mark;
    while (rest.size > 0) {
        struct bytes value = take_until(&rest, '&', &has_mark);
        const struct bytes name = take_until(&value, '=', &has_mark);
        if (!read_word(url, name, value, &has_mode))
            return false;
    }
    if (!has_mode && url->ca_owned != NULL)
        url->tls = MYSQL_TLS_VERIFY_IDENTITY;
    return true;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static bool refuse(char wrong[MYSQL_URL_WRONG_SIZE], const char *reason)
{
    (void)snprintf(wrong, MYSQL_URL_WRONG_SIZE, "%s. %s", reason, form);
    return false;
}

bool mysql_url_parse(struct mysql_url *url, const char *text, char wrong[MYSQL_URL_WRONG_SIZE])
{
    *url = (struct mysql_url){.port = 0};
    const char *behind = behind_scheme(text);
    if (behind == NULL)
        return refuse(wrong, "is no URL that begins with mysql://");
    bool has_words, has_database, has_user;
    struct bytes words = bytes_from_string(behind);
    struct bytes path = take_until(&words, '?', &has_words);
    struct bytes host = take_until(&path, '/', &has_database);
    const struct bytes user = take_until(&host, '@', &has_user);
    /* A password that stands there as it is may end at its first @ or /. */
    if ((host.size > 0 && memchr(host.ptr, '@', host.size) != NULL) ||
        (path.size > 0 && memchr(path.ptr, '@', path.size) != NULL))
        return refuse(wrong, "has an @ that is not the one before the host");
    if (!has_database || path.size == 0 || memchr(path.ptr, '/', path.size) != NULL)
        return refuse(wrong, "names no database, or more than one");
    if (!(has_user ? read_user(url, user) && read_host(url, host) : read_host(url, user)) ||
        !put(&url->database_owned, path))
        return refuse(wrong, "has a port that is no number, or a % that is not the one of %40 and the like");
    if (!read_words(url, words))
        return refuse(wrong, "has something behind its ? that is not socket=PATH, ssl-mode=disabled, required or "
                             "verify_identity, ssl-ca=PATH, ssl-cert=PATH or ssl-key=PATH");
    return true;
}

void mysql_url_deinit(struct mysql_url *url)
{
    free(url->user_owned);
    if (url->password_owned != NULL)
        explicit_bzero(url->password_owned, strlen(url->password_owned));
    free(url->password_owned);
    free(url->host_owned);
    free(url->database_owned);
    free(url->socket_owned);
    free(url->ca_owned);
    free(url->cert_owned);
    free(url->key_owned);
    *url = (struct mysql_url){.port = 0};
}

void mysql_url_redact(const char *text, struct buffer *shown)
{
    struct mysql_url url;
    char wrong[MYSQL_URL_WRONG_SIZE];
    if (mysql_url_parse(&url, text, wrong)) {
        const char *behind = behind_scheme(text), *at = strchr(behind, '@');
        const char *colon = url.password_owned == NULL ? NULL : strchr(behind, ':');
        /* The @ is there if there is a user, and the first colon before it begins the password. */
        const char *user_end = colon != NULL ? colon : behind;
        buffer_append(shown, text, (size_t)(user_end - text));
        const char *rest = colon != NULL ? at : behind;
        buffer_append(shown, rest, strlen(rest));
    } else {
        buffer_append_format(shown, "(not shown: it can't be read as a URL of MySQL)");
    }
    mysql_url_deinit(&url);
}
