/* Where the daemon listens: plain HTTP, HTTPS, a Unix socket; who may reach it there, and under which names. Reads this
 * from the configuration and checks it. */
#ifndef TALLY_TALLYD_LISTENERS_H
#define TALLY_TALLYD_LISTENERS_H

#include "server/own_names.h"
#include "server/server.h"
#include "tallyd/address.h"
#include "tallyd/config.h"

struct listeners {
    bool has_plain;
    bool has_tls;
    struct address plain;
    struct address tls;
    const char *certificate; /* borrowed from the configuration, as is all text here */
    const char *key;
    const char *socket; /* NULL: none */
    struct own_names names;
};

/* `config` is borrowed. On error `failure` names the key, where it was set, and what it should be. */
enum error listeners_read(struct listeners *listeners, const struct config *config, struct failure *failure);

/* Whether everybody may do everything at an address that other machines may reach; `warning` says so. */
bool listeners_warn(const struct listeners *listeners, const struct config *config, struct failure *warning);

/* Borrows from `listeners`. */
void listeners_fill(const struct listeners *listeners, struct server_options *options);

/* " http://127.0.0.1:9324 https://[::1]:9325 unix:/run/tally.sock" */
void listeners_write(const struct listeners *listeners, const struct server *server, struct buffer *text);

#endif
