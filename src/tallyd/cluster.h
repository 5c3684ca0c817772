/* What makes several nodes one service: where this one is found by the others, and the secret that they share. Without
 * an address a node passes nothing on, and nothing is passed on to it. */
#ifndef TALLY_TALLYD_CLUSTER_H
#define TALLY_TALLYD_CLUSTER_H

#include "postgres/registry.h"
#include "server/forward.h"
#include "tallyd/config.h"

struct cluster {
    const char *address;         /* as it is configured; borrowed; empty: none */
    struct sockaddr_storage own; /* the same */
    struct buffer secret;        /* empty: none */
    struct registry *registry;   /* of the nodes; NULL: this one is not among them */
    void (*report)(void *context, const char *text);
    void *report_context;
};

/* Reads "advertise" and the file of "cluster-secret". ERROR_INVALID_PARAMETER_VALUE. */
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

/* "10.0.0.1:9324" or "[fd00::1]:9324". False: it is no address with a port. */
bool cluster_parse_address(const char *text, struct sockaddr_storage *address);

#endif
