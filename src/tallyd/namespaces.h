/* The namespaces that the daemon opens: the folder and the log of each, and its relays. The list of them is the front's
 * (api/front.h).
 *
 * A namespace's folder stands in the data folder under its name, or, if it is the cache of a log in PostgreSQL, with
 * ".cache" behind it. How large segments and frames are follows from the
 * configuration, the same for all. */
#ifndef TALLY_TALLYD_NAMESPACES_H
#define TALLY_TALLYD_NAMESPACES_H

#include "postgres/disk_postgres.h"
#include "server/server.h"
#include "tallyd/config.h"
#include "tallyd/message_log.h"

#define NAMESPACES_MAX 4096u /* each has segments and an index of its own */

struct namespace_relays;
struct opening;

struct opened_namespace {
    struct served served; /* finds the rest of it, in the front */
    char *name_owned;
    char *folder_owned;
    struct pg_options postgres; /* where the log is in PostgreSQL */
    struct disk *disk;          /* NULL: it was not opened */
    struct namespace *ns;
    struct namespace_relays *namespace_relays_owned; /* its relays (relays.h), or NULL */
    bool is_leaving;                                 /* departure.h */
};

/* Is the log in PostgreSQL? */
bool namespaces_are_in_postgres(const struct config *config);

/* What this node is called: the host's name, where none is configured. */
const char *namespaces_node_name(const struct config *config);

/* How the log of that name is found in PostgreSQL, and how this node calls itself there; borrowed from both. */
struct pg_options namespaces_postgres(const struct config *config, const char *log);

/* Where namespaces are opened, and how. All is borrowed. */
struct namespaces {
    const struct config *config;
    struct front *front;
    struct flushers *flushers; /* of all of them */
    struct server *server;     /* serves them, and is woken by their logs */
    struct clock *clock;
    struct message_log *output; /* hears how far a long recovery is */
    uint64_t look_ms;           /* of pg_now_ms(): every log was found to be this node's; to be asked again then */
    bool is_patient;            /* as in pg_options: it is not the first time that this process opens them */
};

/* Is a segment large enough for the frames that requests may need? ERROR_INVALID_PARAMETER_VALUE. */
enum error namespaces_check_sizes(const struct config *config, struct failure *failure);

/* Recovers the namespaces of these names (at least one; none that is served), raises the clock to the latest time in
 * one, takes them over and has them served. On an error none of them is. None was then taken over if one could not be
 * recovered; if one could not be taken over, those before it were, which is what a start that is killed leaves as well:
 * the next one takes over anew, and leases have their grace from then on. Errors of namespace_recover() and
 * namespace_take_over(), and ERROR_INVALID_PARAMETER_VALUE for a folder whose segments are too small. */
enum error namespaces_open(struct namespaces *namespaces, const struct bytes *names, size_t count,
                           struct failure *failure);

/* The same in two steps, the first of which may be done on any thread: that recovers them, and takes as long as there
 * is to read. Logs in PostgreSQL it follows, many at a time, until the owner of the first one has gone; it takes that
 * one, and then the others. Each opening ends with one of the last two. */
struct opening *opening_create(struct namespaces *namespaces, const struct bytes *names, size_t count);
void opening_recover(struct opening *opening);

/* Ends a recovery that waits for another node to give its logs up. Any thread. */
void opening_stop(const struct opening *opening);

/* Says for a client who has the logs that it waits for. */
void opening_explain(const struct opening *opening, char *text, size_t size);

/* The node that has them, without a name if that is not known. */
struct pg_node opening_owner(const struct opening *opening);

enum error opening_finish(struct opening *opening, struct failure *failure);
void opening_abandon(struct opening *opening);

/* Does this process still own its logs? PERMISSION_PENDING: the connection of one is broken, and is being made anew.
 * PERMISSION_LOST: `failure` says which it may have lost, or whose copy is damaged. A yes holds for a millisecond. */
enum permission namespaces_may_answer(struct namespaces *namespaces, struct failure *failure);

/* Appends what /metrics says of logs in PostgreSQL: does this node serve, since when did PostgreSQL not answer, and how
 * far is it? The second: how far a node that stands by has followed. */
void namespaces_write_log_metrics(const struct namespaces *namespaces, bool is_serving, struct buffer *text);
void opening_write_log_metrics(const struct opening *opening, struct buffer *text);

/* Closes one that is not served: its log and its folder, and then the rest. The first may be done on any thread if
 * namespace_retire() went before. */
void opened_namespace_close(struct opened_namespace *opened);
void opened_namespace_destroy(struct opened_namespace *opened);

/* Makes everything durable and frees, of all that are served. The server must not run any more, but still be there. */
void namespaces_close(const struct namespaces *namespaces);

/* Is there, beside the log of the index-th, which has no queues, another one of its name that is not served: a file log
 * where logs are in PostgreSQL, or the other way round? `text` then warns of it. */
bool namespaces_find_other_log(const struct namespaces *namespaces, size_t index, char *text, size_t size);

/* One of those that are served; fewer than front_count(). And that of a name, or NULL. */
struct opened_namespace *namespaces_at(const struct namespaces *namespaces, size_t index);
struct opened_namespace *namespaces_find(const struct namespaces *namespaces, struct bytes name);

/* Of all of them. */
size_t namespaces_queue_count(const struct namespaces *namespaces);
uint64_t namespaces_message_count(const struct namespaces *namespaces);

#endif
