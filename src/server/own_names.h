/* The names of this server: what a request may be for while there are no credentials.
 *
 * Always: 127.0.0.0/8, ::1, localhost, and every name under localhost, which browsers look up nowhere. Besides: those
 * that its operator gave. Any other name may belong to a web page, whose owner can point it to 127.0.0.1 (DNS
 * rebinding). */
#ifndef TALLY_SERVER_OWN_NAMES_H
#define TALLY_SERVER_OWN_NAMES_H

#include "server/authority.h"

#define OWN_NAMES_MAX 64u

/* Zeroed: only the names that it always has. */
struct own_names {
    struct authority given[OWN_NAMES_MAX];
    size_t given_count;
};

/* `name` is borrowed, with what it was parsed from. False: there are OWN_NAMES_MAX. */
bool own_names_add(struct own_names *names, const struct authority *name);

/* Ports are not looked at: who forwards one may use another. */
bool own_names_have(const struct own_names *names, const struct authority *name);

#endif
