#include "tallyd/cluster.h"

#include "server/authority.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define SECRET_SIZE_MIN 16u
#define SECRET_SIZE_MAX 4096u

bool cluster_parse_address(const char *text, struct sockaddr_storage *address)
{
    struct authority authority;
    char host[64];
    *address = (struct sockaddr_storage){0};
    if (!authority_parse(bytes_from_string(text), &authority) || authority.port == 0 ||
        authority.host.size >= sizeof(host))
        return false;
    (void)snprintf(host, sizeof(host), "%.*s", BYTES_FORMAT(authority.host));
    if (authority.is_ip6)
        return uv_ip6_addr(host, (int)authority.port, (struct sockaddr_in6 *)address) == 0;
    return uv_ip4_addr(host, (int)authority.port, (struct sockaddr_in *)address) == 0;
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
    if (!cluster_parse_address(cluster->address, &cluster->own))
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "%s is \"%s\": it must be an IP address and a port, as 10.0.0.1:9324, at which the other "
                           "nodes reach this one.",
                           described, cluster->address);
    if (secret[0] == '\0')
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "%s is set, and cluster-secret is not: name a file with a secret that all nodes share.",
                           described);
    return read_secret(cluster, secret, failure);
}

void cluster_deinit(struct cluster *cluster)
{
    buffer_deinit(&cluster->secret);
}
