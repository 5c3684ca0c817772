/* The configuration read again, on SIGHUP: the keys whose rows say CONFIG_RELOAD get the values that a start would give
 * them. Whoever uses them must then be told. */
#ifndef TALLY_TALLYD_RELOAD_H
#define TALLY_TALLYD_RELOAD_H

#include "tallyd/config.h"

struct reload {
    struct config *config; /* in force; borrowed, like the next two */
    int argument_count;    /* of main() */
    char **arguments;
    struct config newer; /* between reload_read() and reload_end() */
    struct buffer texts; /* pointers to values that were replaced: who borrowed them may have them still */
};

void reload_init(struct reload *reload, struct config *config, int argument_count, char **arguments);

/* Reads the newer one. ERROR_INVALID_PARAMETER_VALUE: something is wrong with it. Then reload_end(), in any case. */
enum error reload_read(struct reload *reload, struct failure *failure);

/* Is this a key with another value? */
bool reload_has_changed(const struct reload *reload, enum config_key key);

/* Takes over what can be. Appends the names of the keys that were taken, and of those that need a restart, with commas
 * between. */
void reload_take(struct reload *reload, struct buffer *taken, struct buffer *left);

void reload_end(struct reload *reload);

/* Nobody borrows values any more. */
void reload_deinit(struct reload *reload);

#endif
