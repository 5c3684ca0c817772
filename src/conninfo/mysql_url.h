/* The URL of a database in MySQL or MariaDB, and nothing of its secrets for people to see:
 *
 *     mysql://USER:PASSWORD@HOST:PORT/DATABASE?ssl-mode=required
 *
 * In each part, what has a meaning in a URL is written as %40 and the like. Without a host, or with the host
 * "localhost", the server's Unix socket is meant. The words behind "?" are: socket (the path of the Unix socket),
 * ssl-mode (disabled, which is the default; required; verify_identity, which is the default with an ssl-ca), ssl-ca,
 * ssl-cert and ssl-key (paths). */
#ifndef TALLY_CONNINFO_MYSQL_URL_H
#define TALLY_CONNINFO_MYSQL_URL_H

#include "base/buffer.h"

#include <stdbool.h>

#define MYSQL_URL_WRONG_SIZE ((size_t)400)

enum mysql_tls {
    MYSQL_TLS_DISABLED,
    MYSQL_TLS_REQUIRED,        /* encrypted, to whomever */
    MYSQL_TLS_VERIFY_IDENTITY, /* and only to a server whose certificate is for this host */
};

/* NULL: not given. */
struct mysql_url {
    char *user_owned;
    char *password_owned;
    char *host_owned;
    char *database_owned; /* never NULL */
    char *socket_owned;
    char *ca_owned;
    char *cert_owned;
    char *key_owned;
    unsigned port; /* 0: not given */
    enum mysql_tls tls;
};

/* Does it begin with mysql:// or mariadb://? */
bool mysql_url_is_one(const char *text);

/* False: `wrong` says why, behind the name of the thing, and repeats nothing that could be a part of a password. The
 * URL is deinit'ed by the caller in any case. */
bool mysql_url_parse(struct mysql_url *url, const char *text, char wrong[MYSQL_URL_WRONG_SIZE]);
void mysql_url_deinit(struct mysql_url *url);

/* Appends it without its password. One that can't be parsed is not shown at all. */
void mysql_url_redact(const char *text, struct buffer *shown);

#endif
