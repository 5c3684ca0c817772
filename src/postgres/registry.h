/* This node among the nodes of its cluster: a thread that says each second that it is alive, reads who else is, and
 * makes a view of it (cluster/view.h), which any thread may ask.
 *
 * It has a connection of its own, and nothing of a log's safety rests on it. Where PostgreSQL can't be reached, the
 * last view stays in force, and when it is back, nobody is taken for dead before he could have said that he is alive: a
 * node that was alive stays so for its limit (PG_ALIVE_LIMIT) after the gap. Commits are not waited for, so that a
 * replica that is missing does not make nodes look dead.
 *
 * Of two processes with one name the one that registered last counts. The other one says so, registers nothing, and
 * begins again when that one is gone. */
#ifndef TALLY_POSTGRES_REGISTRY_H
#define TALLY_POSTGRES_REGISTRY_H

#include "cluster/view.h"
#include "postgres/session.h"

#define REGISTRY_BEAT_MS 1000u
#define REGISTRY_SETTLE_MS 2500u /* after so long a node knows of those that began when it did */

struct registry;

struct registry_options {
    struct pg_options postgres; /* node, address and lease are what it registers; the log's name is not used */
    struct bytes secret;        /* the cluster's; borrowed, as all of this */
    void (*report)(void *context, const char *text); /* something that an operator should read; on any thread */
    void (*refuse)(void *context);  /* the database is another cluster's: this node must stop; on the registry's thread,
                                     * which then ends */
    void (*changed)(void *context); /* there is a newer view; may be NULL; likewise */
    void *context;
};

/* Registers this node and goes on doing so. Waits for a first answer of PostgreSQL, at most for three seconds; where
 * there was none, it goes on trying. ERROR_INVALID_PARAMETER_VALUE: the database is another cluster's
 * (cluster_secret.h), or not fit for a log. ERROR_SERVICE_UNAVAILABLE: the system gave no thread. */
enum error registry_create(const struct registry_options *options, struct registry **registry, struct failure *failure);

/* Begins to say that this node is gone, for good: from then on others place nothing here. The newest view stays. Any
 * thread. */
void registry_leave(struct registry *registry);

/* The same, waits for it, and frees: a second at most while PostgreSQL answers; where it is silent, until the step that
 * is under way has failed, which takes some seconds. Nobody has a view any more. */
void registry_destroy(struct registry *registry);

/* The newest view, for registry_release(); NULL: there has never been one. Any thread. */
const struct view *registry_acquire(struct registry *registry);
void registry_release(const struct view *view);

/* How long ago the newest beat began that PostgreSQL has answered, in milliseconds; 0: none was yet. Any thread. */
uint64_t registry_silence_ms(struct registry *registry);

/* This node follows the log, should have it, and is ready to: its owner may give it up. Or it is not ready any more,
 * which it is from the beginning. Told to PostgreSQL by the next beat. Any thread. */
void registry_set_ready(struct registry *registry, struct bytes log, bool is_ready);

/* This node has a log that is on another server, or, with `is_at_rest`, has left it at rest there. The others learn it
 * from the database of the cluster, where the next beat says so. `epoch`: of the log; what a later owner has said
 * stays. Any thread. */
void registry_tell_owner(struct registry *registry, struct bytes log, uint64_t epoch, bool is_at_rest);

#endif
