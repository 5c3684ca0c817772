/* What an operator asks of a cluster and wants of it. Each call has a connection of its own. It works while no node
 * does: it is about rows, and the nodes read them within a second. */
#ifndef TALLY_POSTGRES_CLUSTER_ADMIN_H
#define TALLY_POSTGRES_CLUSTER_ADMIN_H

#include "postgres/cluster_rows.h"

/* Reads everything and makes the view of one who is no node. The caller calls cluster_rows_deinit() and view_deinit(),
 * unless this failed. Errors as pg_session_open(). */
enum error cluster_admin_read(const struct pg_options *options, struct cluster_rows *rows, struct view *view,
                              struct failure *failure);

/* From here on the node is to have no logs, or may have some again. ERROR_RESOURCE_NOT_FOUND: there is no such node;
 * ERROR_INVALID_PARAMETER_VALUE: no other node would take what it has. Then as above; so it is below, too. */
enum error cluster_admin_drain(const struct pg_options *options, const char *node, bool drains,
                               struct failure *failure);

/* The log is to be on that node as long as it takes any; NULL: on any node. ERROR_RESOURCE_NOT_FOUND: there is no such
 * log, or no such node. */
enum error cluster_admin_move(const struct pg_options *options, const char *log, const char *node,
                              struct failure *failure);

/* Removes the rows of a node that is gone for good, and its pins. ERROR_RESOURCE_NOT_FOUND: there is no such node;
 * ERROR_INVALID_PARAMETER_VALUE: it is alive. */
enum error cluster_admin_forget(const struct pg_options *options, const char *node, struct failure *failure);

#endif
