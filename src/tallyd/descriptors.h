/* The account of file descriptors: how many the system allows, and who gets them.
 *
 * The logs come first, because a log that can't open its next file ends the daemon. Then comes the process itself, then
 * the relays, each with the most that it may open. Connections get the rest. While connections-max is not set, half of
 * what the logs leave is reserved for connections. A connections-max that is set is reserved in full. */
#ifndef TALLY_TALLYD_DESCRIPTORS_H
#define TALLY_TALLYD_DESCRIPTORS_H

#include "tallyd/config.h"

#include <stddef.h>

struct descriptors {
    size_t limit;             /* how many the process may have open */
    size_t reserved;          /* for the logs and the process itself */
    size_t sockets_each;      /* of a connection: its own, and that to another node if it is passed on */
    size_t connections_max;   /* as configured */
    size_t connections_min;   /* fewer are no service */
    size_t connections_least; /* relays don't get these */
    size_t relays;            /* how many the running ones may open at most */
    size_t promised;          /* the same for those that are about to be started */
};

/* Raises the soft limit to the hard one. ERROR_SERVICE_UNAVAILABLE: the hard limit is too low for the namespaces, for a
 * connections-max that was set, or to serve anybody. */
enum error descriptors_init(struct descriptors *descriptors, const struct config *config, size_t namespace_count,
                            struct failure *failure);

/* Another connections-max. ERROR_SERVICE_UNAVAILABLE: one that is set needs more than the limit of open files; then
 * nothing changes. */
enum error descriptors_set_connections_max(struct descriptors *descriptors, const struct config *config,
                                           struct failure *failure);

/* For more namespaces: takes what their logs need from the connections' part, as long as `connections_open` keep
 * theirs. ERROR_SERVICE_UNAVAILABLE: too little is left. The other function gives it back. */
enum error descriptors_add_namespaces(struct descriptors *descriptors, size_t count, size_t connections_open,
                                      struct failure *failure);
void descriptors_remove_namespaces(struct descriptors *descriptors, size_t count);

/* Says that fewer connections are served than connections-max, and what to do about it. False: all are served. */
bool descriptors_warn(const struct descriptors *descriptors, struct failure *warning);

/* How many connections to serve at most, beside the running relays. */
size_t descriptors_for_connections(const struct descriptors *descriptors);

/* May a relay that opens at most `count` be started, while this many connections are open? False: `reason` says what is
 * missing and what to do. */
bool descriptors_suffice(const struct descriptors *descriptors, size_t count, size_t connections_open, char *reason,
                         size_t reason_size);

/* How many descriptors the process has open now. */
size_t descriptors_open(const struct descriptors *descriptors);

#endif
