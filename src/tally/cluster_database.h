/* How the commands about a cluster find its database. */
#ifndef TALLY_TALLY_CLUSTER_DATABASE_H
#define TALLY_TALLY_CLUSTER_DATABASE_H

#include "postgres/session.h"

/* For that connection string, which is borrowed. False: it is none (NULL). */
static inline bool cluster_database_fill(struct pg_options *options, const char *conninfo)
{
    *options = (struct pg_options){.conninfo = conninfo, .log = "", .node = ""};
    return conninfo != NULL;
}

#endif
