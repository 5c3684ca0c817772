/* A look at all logs of a database from time to time, by a thread with a connection of its own: who has each of them,
 * and is that node alive? A node of a cluster asks this about the logs that it neither has nor follows: to which node a
 * request is passed on, and which log has to be opened because nobody has it any more.
 *
 * Nothing here is safe ground for taking a log: whoever opens one follows it first (standby.h). */
#ifndef TALLY_POSTGRES_WATCH_H
#define TALLY_POSTGRES_WATCH_H

#include "postgres/session.h"

struct pg_watch;

/* What was seen of a log that somebody has, or had when he died. */
struct pg_sight {
    struct pg_node owner; /* that has or had it */
    bool is_alone;        /* its owner's process has ended, or shows no sign of life for a lease */
    uint64_t free_ms;     /* so long nobody has had its lock; 0: somebody has */
};

/* `options` are borrowed; they name no log. NULL: the system has no thread. */
struct pg_watch *pg_watch_create(const struct pg_options *options);
void pg_watch_destroy(struct pg_watch *watch);

/* What was seen last of the log of that name. False: nobody has ever had it, its last owner has left it at rest
 * (disk_postgres_rest()), or nothing was seen yet. Any thread. */
bool pg_watch_find(struct pg_watch *watch, const char *log, struct pg_sight *sight);

/* When PostgreSQL has answered last, in milliseconds of pg_now_ms(); 0: not yet. Any thread. */
uint64_t pg_watch_heard_ms(struct pg_watch *watch);

/* Somebody waits for a change: it looks more often. Any thread. */
void pg_watch_hurry(struct pg_watch *watch, bool is_hurried);

#endif
