/* The account of file descriptors: how many the system gives, and who gets them.
 *
 * The logs come first, because a log that can't open its next file ends the daemon; then the process itself; then
 * relays, each with what it may open at most; connections get what is left. While connections-max is not set, half
 * of what the logs leave is kept for connections. One that is set is kept whole. */
#ifndef TALLY_TALLYD_DESCRIPTORS_H
#define TALLY_TALLYD_DESCRIPTORS_H

#include "tallyd/config.h"

#include <stddef.h>

struct descriptors {
    size_t limit;             /* that the process may have open */
    size_t reserved;          /* for the logs and the process itself */
    size_t connections_max;   /* as configured */
    size_t connections_min;   /* fewer are no service */
    size_t connections_least; /* relays don't get these */
    size_t relays;            /* what those that run may open at most */
    size_t promised;          /* the same of those that are about to be started */
};

/* Raises the soft limit to the hard one. ERROR_SERVICE_UNAVAILABLE: the hard one is too low for the namespaces, for
 * a connections-max that was set, or to serve anybody. */
enum error descriptors_init(struct descriptors *descriptors, const struct config *config, size_t namespace_count,
                            struct failure *failure);

/* More namespaces: takes what their logs need from what is left for connections, as long as `connections_open` have
 * theirs. ERROR_SERVICE_UNAVAILABLE: too little is left. And gives it back. */
enum error descriptors_add_namespaces(struct descriptors *descriptors, size_t count, size_t connections_open,
                                      struct failure *failure);
void descriptors_remove_namespaces(struct descriptors *descriptors, size_t count);

/* Says that fewer connections are served than connections-max, and what to do. False: they are not. */
bool descriptors_warn(const struct descriptors *descriptors, struct failure *warning);

/* Connections to be served at most, beside the relays that run. */
size_t descriptors_for_connections(const struct descriptors *descriptors);

/* May a relay that opens `count` at most be started, while so many connections are open? False: `reason` says what
 * is missing and what to do. */
bool descriptors_suffice(const struct descriptors *descriptors, size_t count, size_t connections_open, char *reason,
                         size_t reason_size);

/* What the process has open now. */
size_t descriptors_open(const struct descriptors *descriptors);

#endif
