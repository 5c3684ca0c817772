/* Where namespaces belong: which node should have each, whether this one may take it, and who has it now. What the node
 * knows of its cluster (cluster/view.h) and what it sees of the owners (postgres/watch.h), joined.
 *
 * A namespace is at rest if nobody ever had it, or if its last owner has left it so (disk_postgres_rest()). Nobody need
 * have it then. It is opened by the node where it belongs when somebody asks for it.
 *
 * Outside of a cluster everything belongs here, and nothing rests. One thread, the loop's, where nothing else is
 * said. */
#ifndef TALLY_TALLYD_BELONGING_H
#define TALLY_TALLYD_BELONGING_H

#include "tallyd/cluster.h"
#include "tallyd/holding.h"
#include "tallyd/log_server.h"

struct belonging {
    const struct cluster *cluster;    /* borrowed */
    struct pg_options options;        /* of the cluster's own server; borrows from the configuration */
    struct pg_gate gate;              /* of that server, where this node is in no cluster */
    struct log_server *home;          /* that server; NULL: this node is in no cluster */
    struct log_server **others_owned; /* to which logs were moved; each stays until the end */
    size_t other_count, other_capacity;
    const struct view *view; /* the newest; NULL: there is none, or nothing was heard of the cluster yet */
    uint64_t view_number;    /* counts the views */
    uint64_t rest_ms;        /* how long one stays open that nobody asks for; 0: nothing rests */
    uint64_t noted_ms;       /* when belonging_look() told to note all */
};

/* `cluster` and `config` are borrowed. */
void belonging_init(struct belonging *belonging, const struct cluster *cluster, const struct config *config);
void belonging_deinit(struct belonging *belonging);

/* This node ends: nobody waits for a PostgreSQL any more that can't be reached. */
void belonging_end_waits(struct belonging *belonging);

bool belonging_is_in_cluster(const struct belonging *belonging);

/* Takes the newest view. True: all must be noted anew, since it is another one, or because some time has passed. */
bool belonging_look(struct belonging *belonging);

/* Notes where it belongs, in its members. */
void belonging_note(struct belonging *belonging, struct holding *holding);

/* A request waits for it, and it is not served here. True: it was called for by that, to be followed at once. */
bool belonging_note_asked(struct belonging *belonging, struct holding *holding);

/* May this node take the log? For pg_options.may_take; `context` is the holding. Any thread. */
bool belonging_may_take(void *context, const char *log, bool is_at_rest);

/* What an owner or a stand-by of the log is to know of where it belongs. What they point to stays until
 * belonging_deinit(). */
struct pg_options belonging_options(const struct belonging *belonging, struct holding *holding);

/* It is served from now on; or was left at rest. Tells the other nodes where they would not see it. */
void belonging_tell_owner(const struct belonging *belonging, const struct holding *holding, bool is_at_rest);

/* Tells the node that has it, through PostgreSQL, whether it may give it up. */
void belonging_tell_ready(const struct belonging *belonging, struct holding *holding);

/* Who has, or had, the log, as far as this node knows. */
struct pg_node belonging_owner(const struct holding *holding);

/* Where one goes that nobody has: the node that opens it when it is asked for it; no name: none. */
struct pg_node belonging_home(const struct belonging *belonging, const struct holding *holding);

/* Does nobody have its lock? And does its owner show no sign of life besides? */
bool belonging_is_free(const struct holding *holding);
bool belonging_is_alone(const struct holding *holding);

/* Does PostgreSQL name this node as the owner of the log? */
bool belonging_names_me(const struct belonging *belonging, const struct holding *holding);

/* Somebody waits for a change of owners: they are looked after more often. */
void belonging_hurry(const struct belonging *belonging, bool is_hurried);

/* Is the server on which its log is looked at, and has it answered lately? */
bool belonging_sees(const struct holding *holding);

/* Is another node alive? */
bool belonging_has_others(const struct belonging *belonging);

/* Has PostgreSQL answered lately? */
bool belonging_is_reachable(const struct belonging *belonging);

#endif
