/* What the daemon says of itself to DescribeServer (api/server_facts.h): the configuration without its secrets, which
 * is written down once, and the nodes of the cluster as the registry's thread last saw them. It never waits. */
#ifndef TALLY_TALLYD_DESCRIPTION_H
#define TALLY_TALLYD_DESCRIPTION_H

#include "api/server_facts.h"
#include "base/arena.h"
#include "server/server.h"
#include "tallyd/cluster.h"

struct description {
    const struct config *config; /* borrowed, like the next two */
    const struct cluster *cluster;
    const struct server *server;
    struct buffer values; /* of all keys, one behind the other */
    struct server_setting settings[CONFIG_KEY_COUNT];
    uint64_t started_at_ms; /* wall clock */
};

/* Now is when the daemon has started. */
void description_init(struct description *description, const struct config *config, const struct cluster *cluster,
                      const struct server *server);
/* The configuration has changed. */
void description_renew(struct description *description);
void description_deinit(struct description *description);

/* For front_options.describe. What is not in the arena lives as long as the description. */
void description_fill(void *description, struct arena *arena, struct server_facts *facts);

#endif
