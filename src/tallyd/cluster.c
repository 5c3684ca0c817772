#include "tallyd/cluster.h"

#include "platform/regular_file.h"
#include "server/metric.h"
#include "tallyd/namespaces.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define SECRET_SIZE_MIN 16u
#define SECRET_SIZE_MAX 4096u

#define DESCRIBED_SIZE 256

/* --- Where this node is found ------------------------------------------------------------------------------------- */

/* 0.0.0.0 and [::] are addresses to listen on, and nobody reaches a node there. */
static bool is_unspecified(const struct peer_address *address)
{
    if (address->is_name)
        return false;
    if (address->socket.ss_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)&address->socket)->sin6_addr);
    return ((const struct sockaddr_in *)&address->socket)->sin_addr.s_addr == INADDR_ANY;
}

/* Of names only localhost: where another one leads may change. */
static bool is_loopback(const struct peer_address *address)
{
    if (address->is_name)
        return strcmp(address->host, "localhost") == 0;
    if (address->socket.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&address->socket)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)&address->socket)->sin_addr.s_addr) >> 24 == 127;
}

static enum error read_address(struct cluster *cluster, const struct config *config, struct failure *failure)
{
    if (strlen(cluster->address) < PG_ADDRESS_SIZE && peer_address_parse(cluster->address, &cluster->own) &&
        !is_unspecified(&cluster->own))
        return OK;
    char described[DESCRIBED_SIZE];
    config_describe(config, CONFIG_ADVERTISE, described, sizeof(described));
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "%s is \"%s\": it must be an IP address or a host's name, and a port, as 10.0.0.1:9326 or "
                       "one.example:9326, at which the other nodes reach this one.",
                       described, cluster->address);
}

/* --- Who the others are ------------------------------------------------------------------------------------------- */

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
    const char *why = "";
    const int file = regular_file_open_given(path, &why);
    ssize_t size = file < 0 ? -1 : read(file, buffer_extend(&cluster->secret, SECRET_SIZE_MAX), SECRET_SIZE_MAX);
    if (file >= 0 && size < 0)
        why = strerror(errno);
    if (file >= 0)
        (void)close(file);
    if (size < 0)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "cluster-secret: can't read %s: %s.", path, why);
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

/* --- The line to them --------------------------------------------------------------------------------------------- */

/* The first of these that is set; CONFIG_KEY_COUNT: none. */
static enum config_key find_set(const struct config *config, const enum config_key *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (config_text(config, keys[i])[0] != '\0')
            return keys[i];
    return CONFIG_KEY_COUNT;
}

/* All that belongs to a certificate. */
static enum error read_files(struct cluster *cluster, const struct config *config, struct failure *failure)
{
    const char *key = config_text(config, CONFIG_CLUSTER_KEY), *listen = config_text(config, CONFIG_CLUSTER_LISTEN);
    cluster->files.key = key[0] == '\0' ? cluster->files.certificate : key;
    cluster->files.authority = config_text(config, CONFIG_CLUSTER_CA);
    if (config_number(config, CONFIG_CLUSTER_INSECURE) != 0)
        return failure_set(
            failure, ERROR_INVALID_PARAMETER_VALUE,
            "cluster-certificate is set, so nodes speak TLS to each other, and cluster-insecure says that "
            "they don't: leave one of the two out.");
    if (cluster->files.authority[0] == '\0')
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "cluster-certificate is set, and cluster-ca is not: name the PEM file of the authority that "
                           "has issued the certificates of all nodes.");
    if (address_parse(&cluster->listen, listen) && cluster->listen.port != 0)
        return OK;
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "cluster-listen is \"%s\": with cluster-certificate it must be an IP address and a port of its "
                       "own, as 0.0.0.0:9326, where this node listens for the others; advertise then names that port.",
                       listen);
}

static enum error check_plain(const struct cluster *cluster, const struct config *config, struct failure *failure)
{
    static const enum config_key of_certificate[] = {CONFIG_CLUSTER_KEY, CONFIG_CLUSTER_CA, CONFIG_CLUSTER_LISTEN};
    const enum config_key key = find_set(config, of_certificate, ARRAY_LENGTH(of_certificate));
    char described[DESCRIBED_SIZE];
    if (key != CONFIG_KEY_COUNT) {
        config_describe(config, key, described, sizeof(described));
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "%s is set, and cluster-certificate is not: nodes would not use it.", described);
    }
    if (is_loopback(&cluster->own) || config_number(config, CONFIG_CLUSTER_INSECURE) != 0)
        return OK;
    config_describe(config, CONFIG_ADVERTISE, described, sizeof(described));
    return failure_set(
        failure, ERROR_INVALID_PARAMETER_VALUE,
        "%s is %s, and there is no cluster-certificate: whoever reaches the network could read and change "
        "what passes between the nodes. Set cluster-certificate, cluster-ca and cluster-listen "
        "(docs/how-to/high-availability.md says how to make certificates). Where only nodes reach the network, "
        "--cluster-insecure does without them.",
        described, cluster->address);
}

/* Nothing that is for a cluster is set by mistake. */
static enum error check_without_address(const struct config *config, struct failure *failure)
{
    static const enum config_key of_cluster[] = {CONFIG_CLUSTER_SECRET, CONFIG_CLUSTER_CERTIFICATE, CONFIG_CLUSTER_KEY,
                                                 CONFIG_CLUSTER_CA, CONFIG_CLUSTER_LISTEN};
    const enum config_key key = find_set(config, of_cluster, ARRAY_LENGTH(of_cluster));
    if (key == CONFIG_KEY_COUNT)
        return OK;
    char described[DESCRIBED_SIZE];
    config_describe(config, key, described, sizeof(described));
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "%s is set, and advertise is not: say at which host and port the other nodes reach this one.",
                       described);
}

enum error cluster_read(struct cluster *cluster, const struct config *config, struct failure *failure)
{
    *cluster = (struct cluster){.address = config_text(config, CONFIG_ADVERTISE),
                                .files.certificate = config_text(config, CONFIG_CLUSTER_CERTIFICATE)};
    buffer_init(&cluster->secret);
    const char *secret = config_text(config, CONFIG_CLUSTER_SECRET);
    if (cluster->address[0] == '\0')
        return check_without_address(config, failure);
    if (!namespaces_are_in_postgres(config))
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "advertise is for nodes that share a log in PostgreSQL, and log is file.");
    enum error error = read_address(cluster, config, failure);
    if (error == OK && secret[0] == '\0')
        error = failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                            "advertise is set, and cluster-secret is not: name a file with a secret that all nodes "
                            "share.");
    if (error == OK)
        error = check_name(namespaces_node_name(config), failure);
    if (error == OK)
        error = cluster_has_tls(cluster) ? read_files(cluster, config, failure) : check_plain(cluster, config, failure);
    return error == OK ? read_secret(cluster, secret, failure) : error;
}

void cluster_fill(const struct cluster *cluster, struct server_options *options)
{
    if (!cluster_has_tls(cluster))
        return;
    options->listeners[LISTENER_NODES] =
        (struct listener_options){.address = cluster->listen.host, .port = cluster->listen.port};
    options->nodes = cluster->files;
    options->node_host = cluster->own.host;
}

static void report(void *context, const char *text)
{
    const struct cluster *cluster = context;
    cluster->report(cluster->report_context, text);
}

/* Not before the loop's thread takes it. */
static void refuse(void *context)
{
    struct cluster *cluster = context;
    atomic_store(&cluster->is_refused, true);
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

void cluster_write_metrics(const struct cluster *cluster, struct buffer *text)
{
    uint64_t alive = 0, draining = 0, misplaced = 0;
    const struct view *view = cluster->registry == NULL ? NULL : registry_acquire(cluster->registry);
    if (view == NULL)
        return;
    for (size_t i = 0; i < view->node_count; i++) {
        alive += view->nodes_owned[i].is_alive;
        draining += view->nodes_owned[i].is_alive && view->nodes_owned[i].is_draining;
    }
    for (size_t i = 0; i < view->log_count; i++) {
        const struct view_log *log = &view->logs_owned[i];
        misplaced += log->owner != log->wanted && log->owner != VIEW_NONE && log->wanted != VIEW_NONE;
    }
    registry_release(view);
    metric_write(text, "tally_cluster_nodes", "gauge", "Nodes that are alive, as this one sees it.", alive);
    metric_write(text, "tally_cluster_nodes_draining", "gauge", "Those of them that an operator drains.", draining);
    metric_write(text, "tally_cluster_namespaces_misplaced", "gauge",
                 "Namespaces that another node has, or had last, than the one that should have them.", misplaced);
    metric_write_seconds(text, "tally_cluster_silence_seconds",
                         "How long ago this node last said in PostgreSQL that it is alive. After five seconds, or two "
                         "leases, the others take it for gone.",
                         registry_silence_ms(cluster->registry));
}

void cluster_deinit(struct cluster *cluster)
{
    if (cluster->registry != NULL)
        registry_destroy(cluster->registry);
    cluster->registry = NULL;
    buffer_deinit(&cluster->secret);
}
