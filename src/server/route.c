#include "server/route.h"

#include "base/quote.h"
#include "server/dashboard.h"
#include "server/forward.h"
#include "server/slow.h"

#include <stdio.h>

static void route_finish(struct hub *hub, struct pending_request *pending, uint16_t status, const char *content_type)
{
    pending->exchange.reply.status = status;
    pending->exchange.reply.content_type = content_type;
    pending->exchange.state = EXCHANGE_FINISHED;
    pending->state = PENDING_READY;
    arena_reset(&pending->exchange.arena);
    exchange_count_reply(&pending->exchange, &hub->replies);
}

/* Without others everything is served here. */
static struct presence presence_of(const struct hub *hub)
{
    if (hub->options.presence != NULL)
        return hub->options.presence(hub->options.namespaces_context);
    const size_t count = front_count(hub->front);
    return (struct presence){.stands_by = count == 0, .namespaces = count, .served = count, .is_reachable = true};
}

static void route_health(struct hub *hub, struct pending_request *pending)
{
    struct buffer *body = &pending->exchange.reply.body;
    const struct presence presence = presence_of(hub);
    buffer_append_format(body, "{\"status\":\"%s\",\"version\":\"%s\",\"connections\":%zu",
                         presence.stands_by ? "standby" : "ok", TALLY_VERSION, hub->connection_count);
    if (hub->options.presence != NULL)
        buffer_append_format(body, ",\"namespaces\":%zu,\"served\":%zu,\"followed\":%zu", presence.namespaces,
                             presence.served, presence.followed);
    buffer_append_format(body, "}\n");
    route_finish(hub, pending, 200, "application/json");
}

/* For whoever restarts what hangs: does the loop turn? */
static void route_live(struct hub *hub, struct pending_request *pending)
{
    buffer_append_format(&pending->exchange.reply.body, "{\"status\":\"live\"}\n");
    route_finish(hub, pending, 200, "application/json");
}

static void add_reason(struct buffer *body, const char *text)
{
    const bool is_first = body->data_owned[body->size - 1] == '[';
    buffer_append_bytes(body, bytes_from_string(is_first ? "" : ","));
    quote_append(body, bytes_from_string(text));
}

/* A full memory or disk is none: receives and deletes must go on. */
static void write_reasons(const struct presence *presence, struct buffer *body)
{
    char text[200];
    if (!presence->is_reachable)
        add_reason(body, "PostgreSQL, where the logs are, has not answered this node for two leases.");
    if (presence->served < presence->namespaces || presence->stands_by) {
        (void)snprintf(text, sizeof(text),
                       "Of %zu namespaces this node serves %zu and follows %zu, and %s who serves the others.",
                       presence->namespaces, presence->served, presence->followed,
                       presence->knows_owners ? "can't ask" : "does not know");
        add_reason(body, text);
    }
}

/* For load balancers: does this node answer, whatever a request is about? Of a cluster: as well as any other one? One
 * that is told to stop does so until its connections are closed: a balancer that cut them off before that would leave
 * requests without an answer. */
static void route_ready(struct hub *hub, struct pending_request *pending)
{
    struct buffer *body = &pending->exchange.reply.body;
    const struct presence presence = presence_of(hub);
    const bool serves_all = presence.served == presence.namespaces && !presence.stands_by;
    const bool forwards = presence.knows_owners && presence.is_reachable && hub->forwarder != NULL;
    const bool is_ready = serves_all || forwards;
    const char *status = serves_all               ? "ready"
                         : forwards               ? "forwards"
                         : !presence.is_reachable ? "unreachable"
                                                  : "standby";
    buffer_append_format(body, "{\"status\":\"%s\"", status);
    if (!is_ready) {
        buffer_append_format(body, ",\"reasons\":[");
        write_reasons(&presence, body);
        buffer_append_u8(body, ']');
    }
    buffer_append_format(body, "}\n");
    route_finish(hub, pending, is_ready ? 200 : 503, "application/json");
}

/* Unix sockets have no address, and nobody else reaches them. */
static bool is_from_here(struct bytes address)
{
    return address.size == 0 || bytes_starts_with(address, BYTES("127.")) || bytes_equal(address, BYTES("::1"));
}

static void route_metrics(struct hub *hub, struct pending_request *pending)
{
    if (hub->options.metrics_are_local && !is_from_here(pending->exchange.request.address)) {
        front_refuse(hub->front, &pending->exchange, ERROR_ACCESS_DENIED,
                     "GET /metrics is answered to this machine only (metrics-access = loopback).");
        return;
    }
    struct buffer *text = &pending->exchange.reply.body;
    hub_metrics_write(hub, text);
    if (hub->options.write_metrics != NULL)
        hub->options.write_metrics(hub->options.metrics_context, text);
    pending->state = PENDING_SCRAPING;
    front_scrape(hub->front, &pending->exchange, clock_now_ms(hub->clock));
}

static void route_dashboard(struct hub *hub, struct pending_request *pending)
{
    struct reply *reply = &pending->exchange.reply;
    dashboard_answer(hub, &pending->exchange.request, reply);
    route_finish(hub, pending, (uint16_t)reply->status, reply->content_type);
}

/* The pages for operators and their machines. */
static const struct page {
    struct bytes path;
    void (*answer)(struct hub *hub, struct pending_request *pending);
} pages[] = {
    {BYTES("/health"), route_health},
    {BYTES("/live"), route_live},
    {BYTES("/ready"), route_ready},
    {BYTES("/metrics"), route_metrics},
};

/* NULL: the request asks for none. */
static const struct page *find_page(const struct request *request, const struct http *http)
{
    if (!http_is_method(http, HTTP_GET) && !http_is_method(http, HTTP_HEAD))
        return NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(pages); i++)
        if (bytes_equal(request->path, pages[i].path))
            return &pages[i];
    return NULL;
}

/* Without credentials: does the request come from a program, or from a page of this server's own? False: it has been
 * refused. */
static bool passes_guard(struct hub *hub, struct pending_request *pending, bool is_for_dashboard)
{
    struct exchange *exchange = &pending->exchange;
    struct failure failure;
    if (front_has_credentials(hub->front))
        return true;
    const enum error error = is_for_dashboard ? guard_check_host(&hub->guard, &exchange->request, &failure)
                                              : guard_check(&hub->guard, &exchange->request, &failure);
    if (error == OK)
        return true;
    exchange->form = request_form(&exchange->request);
    front_refuse(hub->front, exchange, failure.error, failure.text);
    return false;
}

/* Where nodes have certificates, they have a listener of their own: through another one nobody is a node. */
static bool may_be_node(const struct hub *hub, enum listener_kind kind)
{
    const bool have_certificates = hub->options.listeners[LISTENER_NODES].address != NULL;
    return hub->forwarder != NULL && have_certificates == (kind == LISTENER_NODES);
}

/* Has another node passed it on? Then that one has looked at where it came from and says so, and URLs begin as its
 * client's do. */
static bool is_passed_on(struct hub *hub, struct request *request, enum listener_kind kind)
{
    return request->forwarded_by.size > 0 && may_be_node(hub, kind) &&
           forwarder_trusts(hub->forwarder, request, &request->is_https);
}

/* The listener for nodes serves nobody else, and of a node only what it proves to have passed on. */
static void refuse_on_nodes_line(struct hub *hub, struct pending_request *pending)
{
    struct exchange *exchange = &pending->exchange;
    if (exchange->request.forwarded_by.size > 0 && hub->forwarder != NULL)
        forwarder_note_forged(hub->forwarder);
    exchange->form = request_form(&exchange->request);
    exchange->reply.is_not_owner = true;
    front_refuse(hub->front, exchange, ERROR_SERVICE_UNAVAILABLE,
                 "This is cluster-listen, where only nodes of the cluster are answered: ask the address in listen or "
                 "tls-listen.");
}

static void route_submit(struct hub *hub, struct pending_request *pending, bool is_passed_on)
{
    struct exchange *exchange = &pending->exchange;
    const uint64_t now_ms = clock_at_ms(hub->clock, slow_note_begun(pending));
    const bool is_taken = front_submit(hub->front, exchange, now_ms);
    slow_note_decided(pending);
    if (exchange_walks(exchange))
        admission_note_walk(&hub->admission, pending->decide_us);
    if (is_taken) {
        /* The node that has passed it on knows its key, so it is about a namespace that this one need not know. */
        exchange->reply.is_not_owner = is_passed_on && exchange->reply.error == ERROR_UNKNOWN_ACCESS_KEY;
        struct served *served = served_of(exchange);
        if (served != NULL) {
            served_note(served);
            served->request_count += exchange->reply.error != ERROR_ACCESS_DENIED;
        }
        return;
    }
    if (!is_passed_on && hub->forwarder != NULL && forwarder_take(hub->forwarder, pending, front_absent(hub->front)))
        return;
    exchange->reply.is_not_owner = is_passed_on;
    front_refuse_absent(hub->front, exchange);
}

void route_request(struct hub *hub, struct pending_request *pending, const struct http *http, enum listener_kind kind,
                   struct bytes address)
{
    struct request *request = &pending->exchange.request;
    const bool was_passed_on = is_passed_on(hub, request, kind);
    if (!was_passed_on)
        request->address = address;
    if (kind == LISTENER_NODES && !was_passed_on) {
        refuse_on_nodes_line(hub, pending);
        return;
    }
    const bool is_for_dashboard = dashboard_takes(hub, request, http);
    if (!listener_is_path(kind) && !was_passed_on && !passes_guard(hub, pending, is_for_dashboard))
        return;
    if (is_for_dashboard) {
        route_dashboard(hub, pending);
        return;
    }
    const struct page *page = find_page(request, http);
    if (page != NULL) {
        page->answer(hub, pending);
        return;
    }
    if (http_is_method(http, HTTP_GET) || http_is_method(http, HTTP_POST)) {
        route_submit(hub, pending, was_passed_on);
        return;
    }
    front_refuse(hub->front, &pending->exchange, ERROR_NOT_FOUND, "Only POST and GET are answered here.");
}

enum admission_line route_line(const struct hub *hub, const struct request *request, const struct http *http)
{
    if (find_page(request, http) != NULL)
        return ADMISSION_PROBE;
    if (front_reply_is_short(hub->front, request))
        return ADMISSION_SHORT;
    return front_walks(hub->front, request) ? ADMISSION_WALK : ADMISSION_LONG;
}
