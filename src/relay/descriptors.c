#include "relay/descriptors.h"

#include "relay/sink_http.h"
#include "relay/sqs_endpoint.h"

/* libcurl uses a pair of sockets for each set of requests, to wake itself. */
#define WAKE_DESCRIPTORS 2u

/* Looking up a host's name: a pair of sockets to hear of the end, and what the system's resolver opens (two files, a
 * socket). Connecting takes less: a socket for each of two kinds of address. */
#define CONNECTING_DESCRIPTORS 5u

/* A client of this process: its connection, both ends of it, and one end of the connection before, which goes a
 * moment later. */
#define CLIENT_DESCRIPTORS (WAKE_DESCRIPTORS + 3)

/* Requests under way, of which some are about to connect. */
#define HTTP_DESCRIPTORS                                                                                               \
    (WAKE_DESCRIPTORS + CONNECTING_DESCRIPTORS * WEBHOOK_CONNECTING_MAX + WEBHOOK_REQUESTS_MAX - WEBHOOK_CONNECTING_MAX)

/* Each has a set of requests of its own. */
#define SQS_CONNECTION_DESCRIPTORS (WAKE_DESCRIPTORS + CONNECTING_DESCRIPTORS)
#define SQS_DESCRIPTORS (SQS_CONNECTIONS_MAX * SQS_CONNECTION_DESCRIPTORS)

/* A connection that reads and one that holds the lease; a third while a pooler is looked for. With certificates they
 * may all be connecting. */
#define POSTGRES_DESCRIPTORS (3 * CONNECTING_DESCRIPTORS)

/* The same two connections, and the files with the certificates while they are read. */
#define MYSQL_DESCRIPTORS (3 * CONNECTING_DESCRIPTORS)

/* Two handles, each with the database, its log, the log's index, a journal or temporary file and the folder; the
 * file of the lease, and the one before. */
#define SQLITE_DESCRIPTORS (2 * 5 + 2u)

static size_t source_max(enum source_type source)
{
    switch (source) {
    case SOURCE_POSTGRES:
        return POSTGRES_DESCRIPTORS;
    case SOURCE_SQLITE:
        return SQLITE_DESCRIPTORS;
    case SOURCE_MYSQL:
        return MYSQL_DESCRIPTORS;
    case SOURCE_SQS: /* one more renews visibility timeouts, and a client parks */
        return SQS_DESCRIPTORS + SQS_CONNECTION_DESCRIPTORS + CLIENT_DESCRIPTORS;
    case SOURCE_QUEUE:
        break;
    }
    return 3 * CLIENT_DESCRIPTORS; /* one receives messages, one renews their visibility timeouts, one parks */
}

static size_t sink_max(const struct relay_spec *spec)
{
    switch (spec->sink) {
    case SINK_HTTP:
        return HTTP_DESCRIPTORS;
    case SINK_SQS:
        return SQS_DESCRIPTORS;
    case SINK_QUEUE:
        break;
    }
    return (relay_spec_is_of_queue(spec) ? 1 : 2) * CLIENT_DESCRIPTORS;
}

size_t relay_descriptors_max(const struct relay_spec *spec)
{
    return source_max(spec->source) + sink_max(spec);
}
