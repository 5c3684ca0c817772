/* What DescribeServer tells of the process around the namespaces, which the api does not know: whoever runs them gives
 * it (front_options.describe). Nothing of it is secret. */
#ifndef TALLY_API_SERVER_FACTS_H
#define TALLY_API_SERVER_FACTS_H

#include "base/bytes.h"

/* A key of the configuration as it is in force. */
struct server_setting {
    const char *name;
    struct bytes value;
    bool is_default;
};

/* A node of the cluster, as this one sees it. */
struct server_node {
    struct bytes name;
    struct bytes address; /* empty: it says none */
    struct bytes version;
    bool is_alive;
    bool is_draining;
    uint32_t owned;  /* how many namespaces it has, or had last */
    uint32_t wanted; /* how many it should have */
};

struct server_facts {
    struct bytes node;                     /* what this one is called; empty: nothing */
    uint64_t started_at_ms;                /* wall clock */
    int64_t certificate_expires_at_s;      /* the first of its certificates to expire; 0: it has none */
    const struct server_setting *settings; /* borrowed for the call, as the nodes */
    size_t setting_count;
    const struct server_node *nodes;
    size_t node_count;
};

#endif
