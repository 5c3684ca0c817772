/* A PostgreSQL on which logs of the cluster are, as one node sees it: the cluster's own, which has its tables as well,
 * or another one, to which logs were moved (postgres/log_move.h). */
#ifndef TALLY_TALLYD_LOG_SERVER_H
#define TALLY_TALLYD_LOG_SERVER_H

#include "postgres/gate.h"
#include "postgres/pulse.h"
#include "postgres/watch.h"

struct log_server {
    char *place_owned;         /* as the rows of its logs say it; NULL: the cluster's own */
    char *conninfo_owned;      /* the same, completed; NULL likewise */
    struct pg_gate gate;       /* all that want it pass through this */
    struct pg_options options; /* borrowed by the next two */
    struct pg_watch *watch;    /* sees who has the logs there; NULL: the system has no thread */
    struct pg_pulse *pulse;    /* the same, of signs of life */
};

/* `options` are those of the cluster's own server, and are copied; what they point to is borrowed. `place` NULL: that
 * one itself. Begins to look. */
struct log_server *log_server_create(const struct pg_options *options, const char *place);
void log_server_destroy(struct log_server *server);

/* Has it ever answered? Any thread. */
bool log_server_has_answered(const struct log_server *server);

/* pg_watch_find(). Any thread. */
bool log_server_find(const struct log_server *server, const char *log, struct pg_sight *sight);

#endif
