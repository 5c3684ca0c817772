#include "tallyd/cluster.h"

#include "tallyd/address.h"
#include "tallyd/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define SECRET_SIZE_MIN 16u
#define SECRET_SIZE_MAX 4096u

bool cluster_parse_address(const char *text, struct sockaddr_storage *address)
{
    struct address parsed;
    *address = (struct sockaddr_storage){0};
    if (!address_parse(&parsed, text) || parsed.port == 0)
        return false;
    if (parsed.is_ip6)
        return uv_ip6_addr(parsed.host, parsed.port, (struct sockaddr_in6 *)address) == 0;
    return uv_ip4_addr(parsed.host, parsed.port, (struct sockaddr_in *)address) == 0;
}

/* 0.0.0.0 and [::] are addresses to listen on, and nobody reaches a node there. */
static bool is_unspecified(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return ((const struct sockaddr_in *)address)->sin_addr.s_addr == INADDR_ANY;
}

/* It is a key in PostgreSQL, and stands in a header line. */
static enum error check_name(const char *name, struct failure *failure)
{
    size_t size = 0;
    while (name[size] > ' ' && name[size] != 0x7f)
        size++;
    if (size > 0 && size <= FORWARD_NODE_MAX && name[size] == '\0')
        return OK;
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "node is \"%s\": the name of a node in a cluster has at most %u bytes of ASCII, and no blanks.",
                       name, FORWARD_NODE_MAX);
}

static enum error read_secret(struct cluster *cluster, const char *path, struct failure *failure)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? -1 : read(file, buffer_extend(&cluster->secret, SECRET_SIZE_MAX), SECRET_SIZE_MAX);
    const int reason = errno;
    if (file >= 0)
        (void)close(file);
    if (size < 0)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "cluster-secret: can't read %s: %s.", path,
                           strerror(reason));
    while (size > 0 && strchr("\r\n\t ", cluster->secret.data_owned[size - 1]) != NULL)
        size--;
    buffer_truncate(&cluster->secret, (size_t)size);
    if (size >= (ssize_t)SECRET_SIZE_MIN)
        return OK;
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "cluster-secret: %s has %zd bytes, and a secret has %u or more. \"openssl rand -hex 32\" makes "
                       "one.",
                       path, size, SECRET_SIZE_MIN);
}

enum error cluster_read(struct cluster *cluster, const struct config *config, struct failure *failure)
{
    *cluster = (struct cluster){.address = config_text(config, CONFIG_ADVERTISE)};
    buffer_init(&cluster->secret);
    const char *secret = config_text(config, CONFIG_CLUSTER_SECRET);
    if (cluster->address[0] == '\0' && secret[0] == '\0')
        return OK;
    char described[256];
    config_describe(config, CONFIG_ADVERTISE, described, sizeof(described));
    if (!namespaces_are_in_postgres(config))
        return failure_set(
            failure, ERROR_INVALID_PARAMETER_VALUE,
            "advertise and cluster-secret are for nodes that share a log in PostgreSQL, and log is file.");
    if (!cluster_parse_address(cluster->address, &cluster->own) || is_unspecified(&cluster->own))
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "%s is \"%s\": it must be an IP address and a port, as 10.0.0.1:9324, at which the other "
                           "nodes reach this one.",
                           described, cluster->address);
    if (secret[0] == '\0')
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "%s is set, and cluster-secret is not: name a file with a secret that all nodes share.",
                           described);
    const enum error error = check_name(namespaces_node_name(config), failure);
    return error != OK ? error : read_secret(cluster, secret, failure);
}

static void report(void *context, const char *text)
{
    const struct cluster *cluster = context;
    cluster->report(cluster->report_context, text);
}

/* Not before the loop's thread takes it. */
static void refuse(void *context)
{
    (void)context;
    (void)kill(getpid(), SIGTERM);
}

bool cluster_join(struct cluster *cluster, const struct config *config,
                  void (*report_to)(void *context, const char *text), void *context)
{
    struct failure failure;
    failure_init(&failure);
    if (!cluster_is_there(cluster))
        return true;
    cluster->report = report_to;
    cluster->report_context = context;
    const struct registry_options options = {.postgres = namespaces_postgres(config, ""),
                                             .secret = buffer_bytes(&cluster->secret),
                                             .report = report,
                                             .refuse = refuse,
                                             .context = cluster};
    if (registry_create(&options, &cluster->registry, &failure) == OK)
        return true;
    report_to(context, failure.text);
    return false;
}

void cluster_deinit(struct cluster *cluster)
{
    if (cluster->registry != NULL)
        registry_destroy(cluster->registry);
    cluster->registry = NULL;
    buffer_deinit(&cluster->secret);
}
