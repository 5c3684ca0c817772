/* What people ask of the logs in a database. */
#ifndef TALLY_POSTGRES_LOGS_H
#define TALLY_POSTGRES_LOGS_H

#include "log/disk.h"
#include "postgres/place.h"
#include "postgres/session.h"

struct pg_log_facts {
    char name[64];
    char node[PG_NODE_SIZE]; /* that has, or had, the log; empty: it is at rest, or nobody ever had it */
    char since[32];          /* when the newest took it, RFC 3339; empty: nobody ever had it */
    uint64_t epoch;
    bool is_owned;                /* its process is connected */
    uint64_t stand_bys;           /* how many nodes follow it now */
    char moved_to[PG_PLACE_SIZE]; /* the database where it is; empty: this one */
    bool is_moving;               /* it is on its way, and nobody may take it */
};

/* Calls `visit` with each log, by name. Errors as pg_session_open(). */
enum error pg_logs_visit(const struct pg_options *options,
                         void (*visit)(void *context, const struct pg_log_facts *facts), void *context,
                         struct failure *failure);

/* Copies the log as it is at one moment into the folder, checking each byte against its hash. Takes it from nobody: its
 * owner serves on. ERROR_LOG_DAMAGED: what PostgreSQL gives does not fit its own hashes. */
enum error pg_logs_copy(const struct pg_options *options, struct disk *folder, struct failure *failure);

#endif
