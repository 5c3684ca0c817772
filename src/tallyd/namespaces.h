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
#include "tallyd/notifier.h"

#define NAMESPACES_MAX 16384u /* in folders each is open, with segments and an index of its own */

struct namespace_relays;
struct opening;

struct opened_namespace {
    struct served served; /* finds the rest of it, in the front */
    char *name_owned;
    char *folder_owned;
    char *archive_owned;        /* NULL: none */
    struct pg_options postgres; /* where the log is in PostgreSQL */
    struct disk *disk;          /* NULL: it was not opened */
    struct namespace *ns;
    struct namespace_relays *namespace_relays_owned; /* its relays (relays.h), or NULL */
    uint64_t recovery_ms;                            /* how long it took to read the log in a folder */
    bool is_leaving;                                 /* departure.h, ownership.h */
    bool rests;                                      /* it is closed because nobody needs it (disk_postgres_rest()) */
    uint64_t look_ms; /* of pg_now_ms(): its log was found to be this node's; to be asked again then */
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
    struct message_log *output; /* hears how far a long recovery is, as systemd does */
    const struct notifier *notifier;
    const char *first; /* the name of the first that there is: the relays' socket has it too (relay_door.h) */
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
 * is to read. Each opening ends with one of the last two. Logs in folders only. */
struct opening *opening_create(struct namespaces *namespaces, const struct bytes *names, size_t count);
void opening_recover(struct opening *opening);
enum error opening_finish(struct opening *opening, struct failure *failure);
void opening_abandon(struct opening *opening);

/* --- with its log in PostgreSQL ----------------------------------------------------------------------------------- */

/* One that is neither read nor served yet. `options` are copied; the name of the log is that of the namespace. Freed
 * by opened_namespace_destroy(). */
struct opened_namespace *namespaces_prepare(const struct namespaces *namespaces, const char *name,
                                            const struct pg_options *options);

/* Reads its log, and follows it until this node is the owner: then it can be served. disk_postgres_stop() ends it. Any
 * thread. Errors of namespace_recover() and namespace_take_over(); ERROR_SERVICE_UNAVAILABLE, too, where another node
 * was faster. */
enum error namespaces_follow(const struct namespaces *namespaces, struct opened_namespace *opened,
                             struct failure *failure);

/* It is followed no more, and owned: has it served. Where this node serves `is_alone` nothing else, its clock goes on
 * from that of PostgreSQL, whatever the wall clock of this machine shows. */
void namespaces_serve(const struct namespaces *namespaces, struct opened_namespace *opened, bool is_alone);

/* Its log was silent for longer than a lease, and turned out to be this node's still: has it served again. */
void namespaces_resume(const struct namespaces *namespaces, struct opened_namespace *opened);

/* Does this process still own the log of this one? PERMISSION_PENDING: its connection is broken, and is being made
 * anew. PERMISSION_SILENT: it has not been whole for a lease. PERMISSION_LOST: it has failed, or its copy is damaged. A
 * yes holds for a millisecond, and one more for each 64 namespaces that are served. */
enum permission namespaces_may_answer(const struct namespaces *namespaces, struct opened_namespace *opened,
                                      struct failure *failure);

/* How long ago the last statement began that PostgreSQL acknowledged. */
uint64_t opened_namespace_silence_ms(const struct opened_namespace *opened);

/* --- all ---------------------------------------------------------------------------------------------------------- */

/* Closes one that is not served: its log and its folder, and then the rest. The first may be done on any thread if
 * namespace_retire() or namespace_abandon() went before. */
void opened_namespace_close(struct opened_namespace *opened);
void opened_namespace_destroy(struct opened_namespace *opened);

/* Makes everything durable and frees, of all that are served. The server must not run any more, but still be there. */
void namespaces_close(const struct namespaces *namespaces);

/* Is there, beside the log of this one, which has no queues, another one of its name that is not served: a file log
 * where logs are in PostgreSQL, or the other way round? `text` then warns of it. */
bool namespaces_find_other_log(const struct namespaces *namespaces, const struct opened_namespace *opened, char *text,
                               size_t size);

/* One of those that are served; fewer than front_count(). And that of a name, or NULL. */
struct opened_namespace *namespaces_at(const struct namespaces *namespaces, size_t index);
struct opened_namespace *namespaces_find(const struct namespaces *namespaces, struct bytes name);

/* Of all of them. */
size_t namespaces_queue_count(const struct namespaces *namespaces);
uint64_t namespaces_message_count(const struct namespaces *namespaces);

#endif
