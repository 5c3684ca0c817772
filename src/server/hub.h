/* Shared by the connections of one server: the way to the api, pools, counters. No globals, so that several loops could
 * have one each. One thread: the loop's. */
#ifndef TALLY_SERVER_HUB_H
#define TALLY_SERVER_HUB_H

#include "api/api.h"
#include "base/histogram.h"
#include "server/admission.h"
#include "server/clock.h"
#include "server/guard.h"
#include "server/http.h"
#include "server/input.h"
#include "server/options.h"
#include "server/pending_request.h"
#include "server/refusals.h"
#include "server/reply_head.h"
#include "server/served.h"
#include "server/tls.h"

/* Room in which replies are joined before they are written. */
#define HUB_OUTPUT_SIZE ((size_t)64 * 1024)

/* Requests that wait may take this fraction of the memory of unfinished ones. */
#define HUB_WAIT_SHARE 4u

struct hub_counters {
    uint64_t connections_accepted;
    uint64_t connections_refused; /* above the limit, or without memory for TLS */
    uint64_t handshakes_failed;   /* TLS connections of clients that ended before they were open */
    uint64_t nodes_refused;       /* those of LISTENER_NODES: no certificate, a wrong one, no TLS */
    uint64_t timeouts_idle;
    uint64_t timeouts_request;
    uint64_t timeouts_reply;
    uint64_t requests;
    uint64_t requests_refused; /* not HTTP, too large */
    uint64_t bytes_received;
    uint64_t bytes_sent;
};

/* How long things took, in microseconds. */
struct hub_times {
    struct histogram flush_us; /* a frame, from when it went to its log until that was durable; of all namespaces */
    struct histogram turn_us;  /* a turn of the loop, without its waits */
    uint64_t turn_us_max;
    uint64_t turned_ns; /* when this turn of the loop began */
};

struct hub {
    struct server_options options;
    struct http_limits http_limits;
    struct guard guard;

    struct front *front; /* borrowed, like the clock: where requests go; has all namespaces (served.h) */
    const struct clock *clock;
    struct list busy; /* the namespaces with work to do */
    uint64_t turn;    /* of the loop; from 1 on */
    uint64_t turn_ms; /* when it began; log time */

    struct forwarder *forwarder; /* borrowed; NULL: none */
    struct tls_context *tls_context_owned;
    struct tls_context *nodes_context_owned; /* of LISTENER_NODES */
    uint64_t reported_stranger_ms;           /* report.h: who came without a certificate, or without TLS; */
    uint64_t reported_certificate_ms;        /* who came with a wrong one */

    struct list connections;
    size_t connection_count;
    size_t private_count; /* those of them that came through LISTENER_PRIVATE */
    struct connection *free_connections_owned;
    size_t free_connection_count;
    struct list ready; /* connections with a reply to write or requests to continue */

    struct input_cache inputs;
    struct pending_request_cache pending;

    struct request_ids request_ids;
    char date[HTTP_DATE_SIZE];
    uint64_t date_s;       /* the second that `date` shows */
    uint8_t *output_owned; /* HUB_OUTPUT_SIZE */

    struct reply_budget replies;
    struct wait_budget waits;
    struct frame_backlog frames;
    struct admission admission; /* of connections whose complete request waits for one of these two */
    struct hub_counters counters;
    struct hub_times times;
    struct refusals refusals;
    uint64_t slow_told_ms; /* slow.h: when a line was last said; log time */
    uint64_t slow_untold;  /* how many were slow since then */
    bool is_stopping;
};

/* `options` is copied; what it points to is borrowed. */
void hub_init(struct hub *hub, const struct server_options *options, struct front *front, const struct clock *clock);
void hub_deinit(struct hub *hub);

/* One of the served namespaces; the index is less than front_count(). */
struct served *hub_served(const struct hub *hub, size_t index);

/* Reads the certificates (server_reload()). Both are tried; the error of the first one that can't be used. */
enum error hub_load_certificates(struct hub *hub, struct failure *failure);

/* Updates the text of the header field Date from the wall clock. */
void hub_update_date(struct hub *hub);

/* The server's own metrics in Prometheus text format. */
void hub_metrics_write(const struct hub *hub, struct buffer *text);

#endif
