#include "tallyd/descriptors.h"

#include "server/options.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* What the process opens besides logs, relays and connections: standard input, output and error. */
#define STREAM_DESCRIPTORS 3u

/* libuv's: epoll, its wake-up, the pipe of signals, a spare for accept(), and io_uring if it uses that. */
#define LOOP_DESCRIPTORS 9u

/* One of each kind, and the check of a socket file that was left behind. */
#define LISTENER_DESCRIPTORS 5u

/* Open for a moment: credentials, a certificate and its key, a time zone, /proc. And the folder of the relays'
 * socket. */
#define FILE_DESCRIPTORS 8u

#define PROCESS_DESCRIPTORS (STREAM_DESCRIPTORS + LOOP_DESCRIPTORS + LISTENER_DESCRIPTORS + FILE_DESCRIPTORS)

/* A namespace: its folder and lock, the segment in use and the next one, a file that is mapped or removed, a list of
 * the folder, the two ends of the pipe to the process that writes a snapshot. And the stock of the disk
 * (log/disk_posix.c), from which that process takes descriptors, too. */
#define NAMESPACE_DESCRIPTORS 12u

/* Fewer are no service. */
#define CONNECTIONS_LEAST 16u

/* The highest default limit of any kernel. */
#define LIMIT_MOST ((rlim_t)1 << 20)

/* How many descriptors this many connections need: a few extra clients are told that there are too many, and one has
 * just come. In a cluster each may wait for another node. */
static size_t total_of(const struct descriptors *descriptors, size_t connections)
{
    return descriptors->sockets_each * connections + connections_refused_max(connections) + 1;
}

/* How many connections this many descriptors allow. */
static size_t fit(const struct descriptors *descriptors, size_t count)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = high - (high - low) / 2;
        if (total_of(descriptors, middle) <= count)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Raises the soft limit as far as possible; returns the new limit. */
static size_t raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max < LIMIT_MOST ? limit.rlim_max : LIMIT_MOST;
    if (limit.rlim_cur <= before || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        limit.rlim_cur = before;
    return limit.rlim_cur < LIMIT_MOST ? (size_t)limit.rlim_cur : (size_t)LIMIT_MOST;
}

/* A connections-max that is set is granted in full, so it is also the minimum. */
static void set_connections_least(struct descriptors *descriptors)
{
    const size_t half = fit(descriptors, (descriptors->limit - descriptors->reserved) / 2),
                 max = descriptors->connections_max;
    descriptors->connections_least = descriptors->connections_min == max || max < half ? max : half;
}

/* How many there must be, however many there may be. */
static size_t connections_min(const struct config *config)
{
    const size_t max = (size_t)config_number(config, CONFIG_CONNECTIONS_MAX);
    return !config_is_default(config, CONFIG_CONNECTIONS_MAX) || max < CONNECTIONS_LEAST ? max : CONNECTIONS_LEAST;
}

enum error descriptors_init(struct descriptors *descriptors, const struct config *config, size_t namespace_count,
                            struct failure *failure)
{
    const size_t max = (size_t)config_number(config, CONFIG_CONNECTIONS_MAX);
    const size_t least = connections_min(config);
    *descriptors = (struct descriptors){.limit = raise_limit(),
                                        .reserved = PROCESS_DESCRIPTORS + NAMESPACE_DESCRIPTORS * namespace_count,
                                        .sockets_each = config_text(config, CONFIG_ADVERTISE)[0] == '\0' ? 1 : 2,
                                        .connections_max = max,
                                        .connections_min = least};
    const size_t needed = descriptors->reserved + total_of(descriptors, least);
    if (descriptors->limit < needed) {
        char described[256];
        config_describe(config, CONFIG_CONNECTIONS_MAX, described, sizeof(described));
        return failure_set(
            failure, ERROR_SERVICE_UNAVAILABLE,
            "%s is %zu, and the limit of open files (ulimit -n) is %zu: for %zu connections and %zu "
            "namespace%s it must be at least %zu. Raise it (ulimit -n %zu, or LimitNOFILE=%zu in the systemd unit)%s.",
            described, max, descriptors->limit, least, namespace_count, namespace_count == 1 ? "" : "s", needed, needed,
            needed, config_is_default(config, CONFIG_CONNECTIONS_MAX) ? "" : ", or lower connections-max");
    }
    set_connections_least(descriptors);
    return OK;
}

bool descriptors_warn(const struct descriptors *descriptors, struct failure *warning)
{
    const size_t served = descriptors_for_connections(descriptors);
    const size_t needed = descriptors->reserved + total_of(descriptors, descriptors->connections_max);
    if (served >= descriptors->connections_max)
        return false;
    (void)failure_set(
        warning, ERROR_SERVICE_UNAVAILABLE,
        "connections-max is %zu, but the limit of open files (ulimit -n) is %zu: at most %zu connections are "
        "served, fewer while relays run. Raise the limit (ulimit -n, or LimitNOFILE= in the systemd unit) to "
        "%zu, or lower connections-max.",
        descriptors->connections_max, descriptors->limit, served, needed);
    return true;
}

static size_t left_beside_relays(const struct descriptors *descriptors)
{
    const size_t taken = descriptors->reserved + descriptors->relays + descriptors->promised;
    return descriptors->limit > taken ? descriptors->limit - taken : 0;
}

enum error descriptors_set_connections_max(struct descriptors *descriptors, const struct config *config,
                                           struct failure *failure)
{
    const size_t max = (size_t)config_number(config, CONFIG_CONNECTIONS_MAX), least = connections_min(config);
    const size_t left = left_beside_relays(descriptors);
    if (left < total_of(descriptors, least))
        return failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                           "connections-max is %zu, and beside logs and relays there are file descriptors for %zu: the "
                           "process may open %zu (ulimit -n). Lower it, or raise the limit and restart.",
                           max, fit(descriptors, left), descriptors->limit);
    descriptors->connections_max = max;
    descriptors->connections_min = least;
    set_connections_least(descriptors);
    return OK;
}

enum error descriptors_add_namespaces(struct descriptors *descriptors, size_t count, size_t connections_open,
                                      struct failure *failure)
{
    const size_t connections =
        connections_open > descriptors->connections_min ? connections_open : descriptors->connections_min;
    const size_t left = left_beside_relays(descriptors), kept = total_of(descriptors, connections);
    const size_t free = left > kept ? left - kept : 0, needed = count * NAMESPACE_DESCRIPTORS;
    if (needed > free)
        return failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                           "%zu new namespace%s may need %zu file descriptors, and %zu are free: the process may open "
                           "%zu (ulimit -n), of which relays have %zu and %zu are kept for connections. Raise the "
                           "limit (ulimit -n, or LimitNOFILE= in the systemd unit) to %zu and restart.",
                           count, count == 1 ? "" : "s", needed, free, descriptors->limit, descriptors->relays, kept,
                           descriptors->limit + needed - free);
    descriptors->reserved += needed;
    set_connections_least(descriptors);
    return OK;
}

void descriptors_remove_namespaces(struct descriptors *descriptors, size_t count)
{
    descriptors->reserved -= count * NAMESPACE_DESCRIPTORS;
    set_connections_least(descriptors);
}

size_t descriptors_for_connections(const struct descriptors *descriptors)
{
    const size_t fitting = fit(descriptors, left_beside_relays(descriptors));
    return fitting < descriptors->connections_max ? fitting : descriptors->connections_max;
}

bool descriptors_suffice(const struct descriptors *descriptors, size_t count, size_t connections_open, char *reason,
                         size_t reason_size)
{
    const size_t connections =
        connections_open > descriptors->connections_least ? connections_open : descriptors->connections_least;
    const size_t left = left_beside_relays(descriptors), kept = total_of(descriptors, connections);
    const size_t free = left > kept ? left - kept : 0;
    if (count <= free)
        return true;
    (void)snprintf(
        reason, reason_size,
        "a relay of this kind needs up to %zu file descriptors, and %zu are free: of the %zu that the process may "
        "open (ulimit -n), relays have %zu and %zu are kept for connections. Raise the limit (ulimit -n, or "
        "LimitNOFILE= in the systemd unit) to %zu, lower connections-max, or delete another relay",
        count, free, descriptors->limit, descriptors->relays + descriptors->promised, kept,
        descriptors->limit + count - free);
    return false;
}

/* Newer kernels give the number as the size of that folder; with older ones we count. */
size_t descriptors_open(const struct descriptors *descriptors)
{
    struct stat status;
    if (stat("/proc/self/fd", &status) == 0 && status.st_size > 0)
        return (size_t)status.st_size;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return descriptors->limit; /* no descriptor is left to open it */
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(folder);
    return count - 1; /* without the one that looks */
}
