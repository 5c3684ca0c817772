/* What makes several nodes one service: where this one is found by the others, the secret that they share, and the
 * certificates by which they know each other. Without an address a node passes nothing on, and nothing is passed on to
 * it. */
#ifndef TALLY_TALLYD_CLUSTER_H
#define TALLY_TALLYD_CLUSTER_H

#include "postgres/registry.h"
#include "server/forward.h"
#include "server/options.h"
#include "tallyd/address.h"
#include "tallyd/config.h"
#include <stdatomic.h>

struct cluster {
    const char *address;       /* "advertise", as it is configured; borrowed; empty: none */
    struct peer_address own;   /* the same */
    struct buffer secret;      /* empty: none */
    struct address listen;     /* "cluster-listen"; with certificates */
    struct tls_files files;    /* borrowed; certificate is empty: nodes speak plain HTTP */
    struct registry *registry; /* of the nodes; NULL: this one is not among them */
    _Atomic bool is_refused;   /* since the start */
    void (*report)(void *context, const char *text);
    void *report_context;
};

/* Reads "advertise" and all that begins with "cluster-", and the file of the secret. ERROR_INVALID_PARAMETER_VALUE. */
enum error cluster_read(struct cluster *cluster, const struct config *config, struct failure *failure);

/* This node leaves, if it is among the others. */
void cluster_deinit(struct cluster *cluster);

/* Joins the other nodes, where there is an address (postgres/registry.h). False: the database is another cluster's, or
 * not fit for a log, and `report` was told; it is called from any thread until cluster_deinit(). Where that is found
 * out only later, because PostgreSQL could not be reached, the daemon gets a SIGTERM then. */
bool cluster_join(struct cluster *cluster, const struct config *config, void (*report)(void *context, const char *text),
                  void *context);

static inline bool cluster_is_there(const struct cluster *cluster)
{
    return cluster->secret.size > 0;
}

/* Are namespaces that nobody uses left at rest (belonging.h)? */
static inline bool cluster_lets_rest(const struct cluster *cluster, const struct config *config)
{
    return cluster_is_there(cluster) && config_number(config, CONFIG_REST_AFTER) > 0;
}

/* Do they know each other by certificates? */
static inline bool cluster_has_tls(const struct cluster *cluster)
{
    return cluster->files.certificate[0] != '\0';
}

/* What this node knows of the others, in Prometheus text format; nothing where it is not among any. */
void cluster_write_metrics(const struct cluster *cluster, struct buffer *text);

/* Where the others are listened for, and with which certificates. Borrows from `cluster`. */
void cluster_fill(const struct cluster *cluster, struct server_options *options);

#endif
