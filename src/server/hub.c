#include "server/hub.h"

#include "base/memory.h"
#include "platform/random.h"
#include "server/connection.h"
#include "server/metric.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void hub_init(struct hub *hub, const struct server_options *options, struct front *front, const struct clock *clock)
{
    static const struct own_names none_given;
    *hub = (struct hub){
        .options = *options,
        .http_limits = {.head_size_max = options->head_size_max, .body_size_max = options->body_size_max},
        .replies = {.max = options->reply_memory_max},
        .waits = {.max = options->input_memory_max / HUB_WAIT_SHARE},
        .front = front,
        .clock = clock,
        .tls_context_owned = tls_context_create(TLS_FOR_CLIENTS),
        .nodes_context_owned = tls_context_create(TLS_FOR_NODES),
        .output_owned = memory_allocate(HUB_OUTPUT_SIZE),
    };
    guard_init(&hub->guard, options->names != NULL ? options->names : &none_given);
    list_init(&hub->connections);
    list_init(&hub->ready);
    list_init(&hub->busy);
    front_set_budgets(front, &hub->replies, &hub->waits);
    admission_init(&hub->admission, &hub->replies, &hub->frames);
    input_cache_init(&hub->inputs);
    pending_request_cache_init(&hub->pending);

    uint64_t seed[2];
    random_fill(seed, sizeof(seed));
    request_ids_init(&hub->request_ids, seed);
    hub->date_s = UINT64_MAX;
    hub_update_date(hub);
}

struct served *hub_served(const struct hub *hub, size_t index)
{
    return CONTAINER_OF(front_at(hub->front, index), struct served, api);
}

void hub_deinit(struct hub *hub)
{
    ASSERT(hub->connection_count == 0);
    connection_pool_deinit(hub);
    input_cache_deinit(&hub->inputs);
    pending_request_cache_deinit(&hub->pending);
    tls_context_destroy(hub->tls_context_owned);
    tls_context_destroy(hub->nodes_context_owned);
    free(hub->output_owned);
    front_set_budgets(hub->front, NULL, NULL);
}

/* It is used all the same: what is wrong may be right by the time of the next connection, as a clock. */
static void warn_of_certificate(struct hub *hub)
{
    const struct server_options *options = &hub->options;
    char why[256], text[512];
    if (tls_context_suits(hub->nodes_context_owned, options->node_host, why, sizeof(why)))
        return;
    (void)snprintf(text, sizeof(text), "other nodes will not take the certificate in %s: it %s.",
                   options->nodes.certificate, why);
    options->report(options->report_context, text);
}

static enum error load_nodes_certificate(struct hub *hub, struct failure *failure)
{
    const enum error error = tls_context_load(hub->nodes_context_owned, &hub->options.nodes, failure);
    if (error == OK)
        warn_of_certificate(hub);
    return error;
}

enum error hub_load_certificates(struct hub *hub, struct failure *failure)
{
    const struct listener_options *listeners = hub->options.listeners;
    struct failure other;
    enum error error = OK, error_of_nodes = OK;
    failure_init(&other);
    if (listeners[LISTENER_TLS].address != NULL)
        error = tls_context_load(hub->tls_context_owned, &hub->options.tls, failure);
    if (listeners[LISTENER_NODES].address != NULL)
        error_of_nodes = load_nodes_certificate(hub, error == OK ? failure : &other);
    return error != OK ? error : error_of_nodes;
}

void hub_update_date(struct hub *hub)
{
    uint64_t now_s = (uint64_t)time(NULL);
    if (now_s != hub->date_s) {
        hub->date_s = now_s;
        http_date_format(now_s, hub->date);
    }
}

/* Of the listeners that have one. */
static void write_certificates(const struct hub *hub, struct buffer *text)
{
    const struct {
        const char *listener;
        int64_t expires_s;
    } certificates[] = {{"tls-listen", tls_context_expires_s(hub->tls_context_owned)},
                        {"cluster-listen", tls_context_expires_s(hub->nodes_context_owned)}};
    const char *name = "tally_tls_certificate_expiry_timestamp_seconds";
    buffer_append_format(text, "# HELP %s When the certificate of a listener expires.\n# TYPE %s gauge\n", name, name);
    for (size_t i = 0; i < ARRAY_LENGTH(certificates); i++)
        if (certificates[i].expires_s > 0)
            buffer_append_format(text, "%s{listener=\"%s\"} %lld\n", name, certificates[i].listener,
                                 (long long)certificates[i].expires_s);
}

void hub_metrics_write(const struct hub *hub, struct buffer *text)
{
    const struct hub_counters *counters = &hub->counters;
    size_t held_count = 0;
    for (size_t i = 0; i < front_count(hub->front); i++)
        held_count += hub_served(hub, i)->held.count;
    metric_write(text, "tally_http_connections", "gauge", "Open connections.", hub->connection_count);
    metric_write(text, "tally_http_connections_limit", "gauge",
                 "Connections served at most: connections-max, or what open files allow; relays' own are not counted.",
                 hub->options.connections_max);
    metric_write(text, "tally_http_connections_accepted_total", "counter", "Connections accepted.",
                 counters->connections_accepted);
    metric_write(text, "tally_http_connections_refused_total", "counter",
                 "Connections above the limit, or without memory for TLS.", counters->connections_refused);
    metric_write(text, "tally_tls_handshakes_failed_total", "counter",
                 "TLS connections of clients that ended before they were open.", counters->handshakes_failed);
    metric_write(text, "tally_nodes_refused_total", "counter",
                 "Connections to cluster-listen without TLS, without a certificate, or with a wrong one.",
                 counters->nodes_refused);
    metric_write(text, "tally_http_requests_total", "counter", "Requests read whole.", counters->requests);
    metric_write(text, "tally_http_requests_refused_total", "counter", "Requests too large or not HTTP.",
                 counters->requests_refused);
    metric_write(text, "tally_http_received_bytes_total", "counter", "Bytes read from clients.",
                 counters->bytes_received);
    metric_write(text, "tally_http_sent_bytes_total", "counter", "Bytes written to clients.", counters->bytes_sent);
    metric_write(text, "tally_http_replies_held", "gauge", "Replies that wait for their frame to become durable.",
                 held_count);
    metric_write(text, "tally_http_input_bytes", "gauge",
                 "Memory of requests beyond 16 KiB of each connection, and of TLS beyond sessions at rest.",
                 hub->inputs.memory);
    metric_write(text, "tally_http_input_limit_bytes", "gauge", "What that may be (input-memory-max).",
                 hub->options.input_memory_max);
    metric_write(text, "tally_http_waiting_bytes", "gauge", "Memory of requests that wait (long polls).",
                 hub->waits.held);
    metric_write(text, "tally_http_waiting_limit_bytes", "gauge",
                 "What it may be; a wait that keeps little goes on above it.", hub->waits.max);
    metric_write(text, "tally_http_reply_bytes", "gauge", "Memory of replies that are made and not yet taken.",
                 hub->replies.held);
    metric_write(text, "tally_http_reply_limit_bytes", "gauge", "What that may be (reply-memory-max).",
                 hub->replies.max);
    metric_write(text, "tally_log_waiting_bytes", "gauge",
                 "Memory of frames that wait for the disk; from 64 MiB on requests wait.", hub->frames.held);
    write_certificates(hub, text);
    metric_write_times(text, "tally_log_flush_seconds",
                       "How long a frame took from when it went to its log until it was durable, since the start.",
                       &hub->times.flush_us);
    metric_write_times(text, "tally_loop_turn_seconds",
                       "How long a turn of the loop took, without its waits, since the start.", &hub->times.turn_us);
    metric_write_seconds(text, "tally_loop_stall_seconds_max", "The longest turn of the loop since the start.",
                         hub->times.turn_us_max / 1000);
    buffer_append_format(text,
                         "# HELP tally_http_timeouts_total Connections cut off: idle, slow to send, slow to take.\n"
                         "# TYPE tally_http_timeouts_total counter\n"
                         "tally_http_timeouts_total{kind=\"idle\"} %llu\n"
                         "tally_http_timeouts_total{kind=\"request\"} %llu\n"
                         "tally_http_timeouts_total{kind=\"reply\"} %llu\n",
                         (unsigned long long)counters->timeouts_idle, (unsigned long long)counters->timeouts_request,
                         (unsigned long long)counters->timeouts_reply);
}
