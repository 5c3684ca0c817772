/* Which namespaces this node owns, where the logs are in PostgreSQL: each has a life of its own (holding.h), and this
 * is who moves them on.
 *
 * In a cluster each is taken by itself, by the lock or the lease of its own log, and by the node that should have it
 * or that stands by for it (cluster/view.h). One that another node should have is given up when that one is ready for
 * it. What nobody has had for long, because the node that should take it can't, is taken by any.
 *
 * Without a cluster a client has to find all of them at one node. So the first by name leads: the others are taken
 * while this node has that one, and if it loses it, it gives all of them up.
 *
 * One that is lost goes alone: who waited for it is refused (server.h), its log is closed beside the loop, and it is
 * followed again after a pause, which grows while this node can't keep it. One whose PostgreSQL is only silent stalls,
 * and is served again as it is if the log turns out to be this node's still (docs/internals/decisions/0030). One
 * thread, the loop's, where nothing else is said. */
#ifndef TALLY_TALLYD_OWNERSHIP_H
#define TALLY_TALLYD_OWNERSHIP_H

#include "server/forward.h"
#include "tallyd/cluster.h"
#include "tallyd/relays.h"

/* Namespaces that this node should have and another one has, and as many for which it stands by: at a time, each with
 * a thread and two connections to PostgreSQL. */
#define FOLLOWED_MAX 32u
#define COLD_MAX 8u    /* more of them, beside those, that nobody has: so that no namespace is left alone */
#define CLOSED_MAX 32u /* logs that are closed at a time, each by a thread */

/* Where namespaces rest, descriptors for so many open ones are reserved at the start, and for more as they are
 * opened. */
#define RESERVED_MIN 64u

struct ownership;

struct ownership_options {
    const struct namespaces *namespaces; /* all borrowed */
    struct relays *relays;
    const struct cluster *cluster;
    struct descriptors *descriptors;
    uv_loop_t *loop;
    void (*report)(void *context, const char *text);                /* something that an operator should read */
    void (*served)(void *context, struct opened_namespace *opened); /* it is served from now on */
    /* It serves what it is for, from now on: in a cluster at least one namespace, while each of the others has another
     * node; else all of them. Or it stands by: it serves nothing any more. */
    void (*changed)(void *context, bool is_ready);
    void (*left)(void *context, size_t count); /* so many that are not wanted any more have gone */
    /* A log can't be used, and none was served before: the daemon should end. */
    void (*failed)(void *context, const struct failure *failure);
    void *context;
};

/* Nothing is followed yet. */
struct ownership *ownership_create(const struct ownership_options *options);

/* From now on these are wanted; those that are not any more leave. The first call begins, with one name at least. */
void ownership_want(struct ownership *ownership, const struct bytes *names, size_t count);

/* Does this take the descriptors for namespaces when they are opened, and give them back? Else whoever wants more of
 * them does. */
bool ownership_takes_descriptors(const struct ownership *ownership);

/* How many of these are not wanted yet. */
size_t ownership_count_new(const struct ownership *ownership, const struct bytes *names, size_t count);

/* Follows no more. */
void ownership_halt(struct ownership *ownership);

/* Gives all of them up. Calls `done` from the loop when nothing is left and the other nodes know who has them now, at
 * most two and a half seconds later; where there are no other nodes, at once. */
void ownership_stop(struct ownership *ownership, void (*done)(void *context));

/* When the server runs no more, and relays_close() is over: closes what there still is. The loop must run once more
 * before ownership_destroy(). */
void ownership_close(struct ownership *ownership);
void ownership_destroy(struct ownership *ownership);

/* --- what others ask ---------------------------------------------------------------------------------------------- */

struct presence ownership_presence(const struct ownership *ownership);

/* For the server: may the namespace answer? It may not (PERMISSION_SILENT), or is lost. */
enum permission ownership_may_answer(const struct ownership *ownership, const struct served *served,
                                     struct failure *failure);
void ownership_lose(struct ownership *ownership, struct served *served, enum permission why,
                    const struct failure *failure);

/* For the front, about a namespace that is not served here. A request is about it, which opens it if it is at rest:
 * is it one of these? And who serves it, for people. */
bool ownership_ask(struct ownership *ownership, struct bytes name);
void ownership_explain(const struct ownership *ownership, struct bytes name, char *text, size_t size);

/* For the forwarder, while a request waits. */
enum forward_owner ownership_find(struct ownership *ownership, struct bytes name, struct forward_target *target);

void ownership_write_metrics(const struct ownership *ownership, struct buffer *text);

#endif
