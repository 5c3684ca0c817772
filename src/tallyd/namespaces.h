/* The namespaces that the daemon serves: the folder, the log and the api of each.
 *
 * A namespace's folder stands in the data folder under its name. How large segments and frames are follows from the
 * configuration, the same for all. */
#ifndef TALLY_TALLYD_NAMESPACES_H
#define TALLY_TALLYD_NAMESPACES_H

#include "api/api.h"
#include "server/server.h"
#include "tallyd/config.h"
#include "tallyd/message_log.h"

#define NAMESPACES_MAX 64u /* each has a thread and segments of its own */

struct served_namespace {
    char *name_owned;
    char *folder_owned;
    struct disk *disk; /* NULL: it was not opened */
    struct namespace *ns;
};

struct namespaces {
    struct served_namespace *items_owned;
    struct api **apis_owned; /* of each; a family */
    size_t count;
};

/* Is a segment large enough for the frames that requests may need? ERROR_INVALID_PARAMETER_VALUE. */
enum error namespaces_check_sizes(const struct config *config, struct failure *failure);

/* Recovers the namespaces of these names (1 to NAMESPACES_MAX), raises the clock to the latest time in one, takes them
 * over and makes their apis. `server` is woken by their logs; `output` hears how far a long recovery is. On an error
 * all are closed again. None was then taken over if one could not be recovered; if one could not be taken over, those
 * before it were, which is what a start that is killed leaves as well: the next one takes over anew, and leases have
 * their grace from then on. Errors of namespace_recover() and namespace_take_over(), and ERROR_INVALID_PARAMETER_VALUE
 * for a folder whose segments are too small. */
enum error namespaces_open(struct namespaces *namespaces, const struct config *config, const struct bytes *names,
                           size_t count, const struct api_options *options, struct clock *clock, struct server *server,
                           struct message_log *output, struct failure *failure);

/* Makes everything durable and frees. The server must not run any more, but still be there. */
void namespaces_close(struct namespaces *namespaces);

bool namespaces_have(const struct namespaces *namespaces, struct bytes name);

/* Of all of them. */
size_t namespaces_queue_count(const struct namespaces *namespaces);
uint64_t namespaces_message_count(const struct namespaces *namespaces);

#endif
