/* The names of this server: the hosts that a request may name while there are no credentials.
 *
 * Always: 127.0.0.0/8, ::1, localhost, and every name under localhost, for which browsers ask no DNS. Besides: those
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

/* `name` and the text from which it was parsed are borrowed. False: there are OWN_NAMES_MAX already. */
bool own_names_add(struct own_names *names, const struct authority *name);

/* Ports are not compared, because a forwarded port may differ. */
bool own_names_have(const struct own_names *names, const struct authority *name);

#endif
