#include "server/connection.h"

#include "base/memory.h"
#include "server/channel.h"
#include "server/forward.h"
#include "server/held_replies.h"
#include "server/output.h"
#include "server/report.h"
#include "server/route.h"
#include "server/slow.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Connection structs kept for later. */
#define CONNECTION_FREE_MAX 1024u

/* When memory for replies runs short, a client has this long to take its replies before it is cut off. When memory for
 * requests does, it has this long for its handshake. */
#define CONNECTION_TAKE_MS 1000u
#define CONNECTION_SHAKE_MS 1000u

struct connection {
    struct channel channel;
    struct hub *hub;
    struct list_link link;         /* among all connections */
    struct list_link ready_link;   /* among those to be served */
    struct list_link put_off_link; /* in a line of hub->admission: its request is complete but must wait */
    enum admission_line line;      /* that line */
    struct connection *free_next;

    struct http http;    /* the request being read */
    struct input input;  /* begins with its first byte */
    struct list pending; /* completely read requests whose replies have not left, in order */
    size_t pending_count;
    size_t reply_size;               /* bytes of their replies */
    size_t unsent_counted;           /* what hub->replies holds for channel.unsent */
    size_t channel_counted;          /* what hub->inputs holds for channel_memory() */
    struct pending_request *waiting; /* the newest request, if the api keeps it */

    uint64_t deadline_ms;      /* the loop time at which it is cut off; UINT64_MAX: never */
    uint64_t put_off_ns;       /* since when a request is put off (slow.h); 0: none is */
    uint64_t request_begun_ms; /* when the first byte of the current request came; 0: no request has begun */

    enum listener_kind kind; /* through which it came */
    bool knows_address;
    uint8_t address_size;
    char address[INET6_ADDRSTRLEN]; /* of its client, from the first request on */
    uint32_t holder_guess;          /* for its requests */
    bool is_last_read;              /* no further request is read; further bytes are thrown away */
    bool has_ended;                 /* the client has closed its side */
    bool must_linger;               /* the client may still be sending: closing at once would destroy the reply */
    bool is_lingering;              /* all is written and our side is closed; the client must still see it */
    bool is_closing;
};

static void connection_close(struct connection *connection);
static void connection_settle(struct connection *connection);

static struct connection *connection_of(uv_handle_t *handle)
{
    return CONTAINER_OF(handle, struct connection, channel.handle.any);
}

static uint64_t connection_now_ms(const struct connection *connection)
{
    return uv_now(connection->channel.handle.any.loop);
}

static struct pending_request *connection_first_pending(const struct connection *connection)
{
    struct list_link *link = list_first(&connection->pending);
    return link == NULL ? NULL : CONTAINER_OF(link, struct pending_request, connection_link);
}

static void connection_mark(struct connection *connection)
{
    if (!list_is_linked(&connection->ready_link) && !connection->is_closing)
        list_append(&connection->hub->ready, &connection->ready_link);
}

static bool connection_is_put_off(const struct connection *connection)
{
    return list_is_linked(&connection->put_off_link);
}

/* Does a request wait, or is one put off? Then further bytes are read only to notice that the client goes. */
static bool connection_is_patient(const struct connection *connection)
{
    return connection->waiting != NULL || connection_is_put_off(connection);
}

/* --- Requests ----------------------------------------------------------------------------------------------------- */

static struct pending_request *connection_add_pending(struct connection *connection)
{
    struct pending_request *pending = pending_request_take(&connection->hub->pending, connection);
    request_ids_next(&connection->hub->request_ids, pending->exchange.request_id);
    list_append(&connection->pending, &pending->connection_link);
    connection->pending_count++;
    return pending;
}

static void connection_remove_pending(struct connection *connection, struct pending_request *pending)
{
    ASSERT(pending->connection == connection && connection->pending_count > 0);
    list_remove(&pending->connection_link);
    connection->pending_count--;
    if (pending->exchange.state == EXCHANGE_FINISHED)
        reply_budget_subtract(&connection->hub->replies, exchange_reply_memory(&pending->exchange));
    if (connection->waiting == pending) {
        connection->waiting = NULL;
    } else {
        ASSERT(connection->reply_size >= pending->exchange.reply.body.size);
        connection->reply_size -= pending->exchange.reply.body.size;
    }
}

/* Does it wait for what is not there yet, rather than for its reply to be made? */
static bool connection_awaits_news(const struct connection *connection)
{
    const struct pending_request *waiting = connection->waiting;
    if (waiting == NULL)
        return false;
    return waiting->state == PENDING_FORWARDED ? forwarder_may_wait(waiting)
                                               : waiting->state == PENDING_IN_API && api_is_waiting(&waiting->exchange);
}

/* Takes a request away from a client that has gone. */
static void connection_drop_pending(struct connection *connection, struct pending_request *pending)
{
    struct hub *hub = connection->hub;
    connection_remove_pending(connection, pending);
    if (pending->state == PENDING_HELD)
        held_replies_remove(pending);
    else if (pending->state == PENDING_FORWARDED)
        forwarder_abandon(pending);
    else if (pending->state == PENDING_SCRAPING)
        front_abandon_scrape(hub->front, &pending->exchange);
    else if (pending->state == PENDING_IN_API)
        api_abandon(&pending->exchange);
    pending_request_give_back(&hub->pending, pending);
}

/* A request was handed to the api or answered: checks its state. */
static void connection_note_pending(struct connection *connection, struct pending_request *pending)
{
    if (pending->exchange.state == EXCHANGE_WAITING) {
        connection->waiting = pending;
        return;
    }
    ASSERT(pending->exchange.state == EXCHANGE_FINISHED);
    connection->reply_size += pending->exchange.reply.body.size;
    if (pending->state == PENDING_READY)
        connection_mark(connection);
}

/* A request that may have waited is finished, and its connection still exists. */
static void connection_finish_pending(struct pending_request *pending)
{
    struct connection *connection = pending->connection;
    ASSERT(pending->exchange.state == EXCHANGE_FINISHED);
    refusals_note_error(&connection->hub->refusals, pending->exchange.reply.error, connection_now_ms(connection));
    if (connection->waiting == pending) {
        connection->waiting = NULL;
        connection->reply_size += pending->exchange.reply.body.size;
        slow_note_waited(connection->hub, pending);
        connection_mark(connection); /* requests after it may go on */
    }
}

/* The frame of the request is durable, or it has none: its reply may be written. */
static void connection_release_turn(struct pending_request *pending)
{
    pending->state = PENDING_READY;
    slow_note_ready(pending->connection->hub, pending);
    connection_mark(pending->connection);
}

void connection_take_finished(struct hub *hub)
{
    struct exchange *exchange;
    while ((exchange = front_take_finished(hub->front)) != NULL) {
        struct pending_request *pending = CONTAINER_OF(exchange, struct pending_request, exchange);
        struct served *served = served_of(exchange);
        connection_finish_pending(pending);
        if (served == NULL || !served_hold(served, pending))
            connection_release_turn(pending);
    }
}

void connection_take_durable(struct served *served)
{
    const uint64_t durable_sequence = served_release(served);
    struct pending_request *pending;
    while ((pending = held_replies_take(&served->held, durable_sequence)) != NULL)
        connection_release_turn(pending);
}

/* --- Requests ----------------------------------------------------------------------------------------------------- */

static enum wire_form connection_form(const struct connection *connection)
{
    return http_is_query(&connection->http) ? WIRE_QUERY : WIRE_JSON;
}

/* Answers with an error that ends the connection. */
static void connection_refuse(struct connection *connection, enum wire_form form, enum error error, const char *text)
{
    struct pending_request *pending = connection_add_pending(connection);
    pending->is_last = true;
    pending->is_http_1_0 = http_is_1_0(&connection->http);
    pending->exchange.form = form;
    connection->is_last_read = true;
    connection->must_linger = true;
    front_refuse(connection->hub->front, &pending->exchange, error, text);
    connection_note_pending(connection, pending);
}

static struct bytes connection_address(struct connection *connection)
{
    if (!connection->knows_address) {
        channel_client_address(&connection->channel, connection->address, sizeof(connection->address));
        connection->address_size = (uint8_t)strlen(connection->address);
        connection->knows_address = true;
    }
    return bytes_make(connection->address, connection->address_size);
}

/* The client has closed its side, so nobody tells us any more whether somebody waits. What comes would be given to a
 * client that has gone. Requests behind this one were meant to follow it. */
static void connection_give_up_wait(struct connection *connection)
{
    connection->is_last_read = true;
    if (connection->waiting != NULL)
        connection_drop_pending(connection, connection->waiting);
    admission_leave(&connection->put_off_link);
}

static void connection_submit(struct connection *connection)
{
    struct hub *hub = connection->hub;
    struct http *http = &connection->http;
    struct pending_request *pending = connection_add_pending(connection);
    pending->is_head = http_is_method(http, HTTP_HEAD);
    pending->is_http_1_0 = http_is_1_0(http);
    pending->is_last = !http->keeps_alive;
    connection->is_last_read = pending->is_last;
    http_request(http, connection->input.memory_owned + connection->input.begin, &pending->exchange.request);
    pending->exchange.request.wall_s = time(NULL);
    pending->exchange.request.is_https = connection->channel.tls_owned != NULL;
    pending->exchange.request.holder_guess = &connection->holder_guess;
    if (pending->exchange.request.host.size == 0) /* of HTTP/1.0 */
        pending->exchange.request.host = channel_own_name(&connection->channel, &pending->exchange.arena);
    connection->input.begin += http->size;
    pending->size = (uint32_t)http->size;
    if (connection->put_off_ns != 0)
        slow_note_put_off(pending, connection->put_off_ns);
    connection->put_off_ns = 0;
    connection->request_begun_ms = 0;
    hub->counters.requests++;

    route_request(hub, pending, http, connection->kind, connection_address(connection));
    connection_note_pending(connection, pending);
    http_reset(http);
    if (connection->has_ended && connection_awaits_news(connection))
        connection_give_up_wait(connection);
}

static bool connection_may_parse(const struct connection *connection)
{
    const struct server_options *options = &connection->hub->options;
    return !connection->is_last_read && !connection_is_patient(connection) && !connection->channel.is_writing &&
           connection->pending_count < options->pipelined_max && connection->reply_size < options->pipelined_size_max;
}

/* Puts the request that was just read completely into the line for admission; false: it may begin. */
static bool connection_put_off(struct connection *connection)
{
    struct hub *hub = connection->hub;
    if (admission_is_open(&hub->admission))
        return false;
    struct request request;
    http_request(&connection->http, connection->input.memory_owned + connection->input.begin, &request);
    enum admission_line line = route_line(hub, &request, &connection->http);
    if (!admission_put_off(&hub->admission, &connection->put_off_link, line))
        return false;
    connection->line = line;
    connection->put_off_ns = uv_hrtime();
    return true;
}

/* Hands on the complete requests in the input; true if there were any. */
static bool connection_parse(struct connection *connection)
{
    struct input *input = &connection->input;
    bool has_submitted = false;
    while (input_size(input) > 0 && connection_may_parse(connection)) {
        struct http *http = &connection->http;
        enum http_result result = http_feed(http, input->memory_owned + input->begin, input_size(input));
        if (result == HTTP_MORE) {
            input->end = input->begin + http->size_kept;
            break;
        }
        if (result == HTTP_WHOLE && connection_put_off(connection))
            break;
        if (result == HTTP_WHOLE) {
            connection_submit(connection);
        } else {
            connection->hub->counters.requests_refused++;
            connection_refuse(connection, connection_form(connection), http->error, http->reason);
        }
        has_submitted = true;
    }
    return has_submitted;
}

static void connection_begin(struct connection *connection)
{
    admission_leave(&connection->put_off_link);
    connection_submit(connection);
    connection_parse(connection);
    connection_settle(connection);
}

/* How many requests of each line begin in a turn of the loop: a reply of 10 MB takes some 6 ms, a short one some
 * microseconds. */
static const unsigned begun_max[ADMISSION_LINE_COUNT] = {
    [ADMISSION_PROBE] = 256, [ADMISSION_SHORT] = 256, [ADMISSION_LONG] = 4, [ADMISSION_WALK] = 4};

static void begin_first(struct hub *hub, enum admission_line line)
{
    struct list_link *link;
    for (unsigned i = 0; i < begun_max[line] && (link = admission_next(&hub->admission, line)) != NULL; i++)
        connection_begin(CONTAINER_OF(link, struct connection, put_off_link));
}

void connection_begin_put_off(struct hub *hub)
{
    /* The lines with few requests come first; otherwise the others could take all the room in every turn. Those two
     * alternate, for the same reason. */
    const bool is_even = hub->turn % 2 == 0;
    begin_first(hub, is_even ? ADMISSION_LONG : ADMISSION_WALK);
    begin_first(hub, is_even ? ADMISSION_WALK : ADMISSION_LONG);
    begin_first(hub, ADMISSION_SHORT);
    begin_first(hub, ADMISSION_PROBE);
}

/* --- Reading ------------------------------------------------------------------------------------------------------ */

static void on_allocate(uv_handle_t *handle, size_t suggested_size, uv_buf_t *buf)
{
    (void)suggested_size;
    struct connection *connection = connection_of(handle);
    /* Bytes that are thrown away need no room. */
    size_t wanted = connection->is_last_read ? 0 : connection->http.size_expected;
    size_t size;
    uint8_t *room =
        input_room(&connection->input, &connection->hub->inputs, wanted, connection_is_patient(connection), &size);
    buf->base = (char *)room;
    buf->len = size;
}

/* Only the memory of the others counts, so that a request larger than the budget passes if there is no other. */
static bool connection_is_over_budget(const struct connection *connection)
{
    const struct hub *hub = connection->hub;
    return hub->inputs.memory > hub->options.input_memory_max + input_memory(&connection->input);
}

static void connection_take_bytes(struct connection *connection, size_t size)
{
    struct hub *hub = connection->hub;
    hub->counters.bytes_received += size;
    if (connection->is_last_read)
        return; /* thrown away */
    connection->input.end += size;
    connection_parse(connection);
    if (connection_is_over_budget(connection) && connection->input.capacity > INPUT_BLOCK_SIZE &&
        connection_may_parse(connection) && input_size(&connection->input) > 0) {
        hub->counters.requests_refused++;
        refusals_note(&hub->refusals, REFUSAL_BY_INPUT, connection_now_ms(connection));
        connection_refuse(connection, connection_form(connection), ERROR_SERVICE_UNAVAILABLE,
                          "Too many bytes of unfinished requests; try again in a moment.");
    }
}

/* Says which machine it is whose connection to cluster-listen has failed. */
static void connection_report_node(struct connection *connection, uint64_t *reported_ms, const char *why)
{
    const struct server_options *options = &connection->hub->options;
    char address[INET6_ADDRSTRLEN], text[512];
    connection->hub->counters.nodes_refused++;
    if (!report_may(reported_ms, connection_now_ms(connection)))
        return;
    channel_client_address(&connection->channel, address, sizeof(address));
    (void)snprintf(text, sizeof(text), "A connection from %s to cluster-listen was refused: %s.", address, why);
    options->report(options->report_context, text);
}

/* A connection over TLS ends before its handshake does. One that was only opened and closed says nothing. */
static void connection_note_handshake(struct connection *connection)
{
    struct hub *hub = connection->hub;
    char why[384];
    if (connection->kind != LISTENER_NODES) {
        hub->counters.handshakes_failed++;
        return;
    }
    tls_explain(connection->channel.tls_owned, why, sizeof(why));
    if (why[0] == '\0')
        hub->counters.nodes_refused++;
    else
        connection_report_node(connection,
                               tls_has_judged(connection->channel.tls_owned) ? &hub->reported_certificate_ms
                                                                             : &hub->reported_stranger_ms,
                               why);
}

/* A node without certificates reads this as: not here, and nothing was done. */
static void connection_refuse_node(struct connection *connection)
{
    connection_refuse(connection, connection_form(connection), ERROR_SERVICE_UNAVAILABLE,
                      "This is plain HTTP, but cluster-listen speaks TLS: give this node a cluster-certificate, too.");
    connection_first_pending(connection)->exchange.reply.is_not_owner = true;
}

/* Tells the client in plain HTTP that TLS was expected. A client that was already refused, because there are too many,
 * is told that instead. */
static void connection_take_plain(struct connection *connection)
{
    const bool is_node = connection->kind == LISTENER_NODES;
    connection->hub->counters.requests_refused++;
    connection->hub->counters.handshakes_failed += !is_node;
    if (is_node)
        connection_report_node(connection, &connection->hub->reported_stranger_ms, "it does not speak TLS");
    if (connection->pending_count > 0)
        connection_mark(connection);
    else if (is_node)
        connection_refuse_node(connection);
    else
        connection_refuse(connection, connection_form(connection), ERROR_MALFORMED_REQUEST,
                          "This is plain HTTP, but this port speaks HTTPS: begin the address with https://, not with "
                          "http://.");
}

/* Is its request put off although there is room, so that it begins in one of the next turns? */
static bool connection_is_next(const struct connection *connection)
{
    return connection_is_put_off(connection) && admission_has_room(&connection->hub->admission, connection->line);
}

/* The client has closed its side. It may still read: it gets the replies to what it has sent. But a wait is over, and a
 * request that has not begun begins only if nothing but its turn is missing. */
static void connection_take_end(struct connection *connection)
{
    connection->has_ended = true;
    channel_read_stop(&connection->channel);
    if (!channel_is_open(&connection->channel)) {
        connection_close(connection); /* nobody can read a reply any more */
        return;
    }
    if ((connection_is_put_off(connection) && !connection_is_next(connection)) || connection_awaits_news(connection))
        connection_give_up_wait(connection);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf)
{
    (void)buf;
    struct connection *connection = connection_of((uv_handle_t *)stream);
    if (size > 0)
        connection_take_bytes(connection, (size_t)size);
    else if (size == UV_EOF)
        connection_take_end(connection);
    else if (size == CHANNEL_PLAIN)
        connection_take_plain(connection);
    else if (size < 0 && size != UV_ENOBUFS)
        connection_close(connection);
    else if (connection->pending_count > 0)
        connection_mark(connection); /* a reply may have waited for the end of a handshake */
    connection_settle(connection);
}

static bool connection_wants_bytes(const struct connection *connection)
{
    const struct input *input = &connection->input;
    if (connection->has_ended)
        return false;
    if (connection_is_patient(connection))
        return input_has_room(input);
    return connection->is_last_read || connection_may_parse(connection);
}

static void connection_update_reading(struct connection *connection)
{
    bool wants_bytes = connection_wants_bytes(connection);
    if (wants_bytes == connection->channel.is_reading)
        return;
    if (!wants_bytes) {
        channel_read_stop(&connection->channel);
        return;
    }
    channel_read_start(&connection->channel);
    if (channel_has_unread(&connection->channel))
        connection_mark(connection);
}

/* --- Writing ------------------------------------------------------------------------------------------------------ */

/* Bytes that the socket has not taken were copied out of their replies, and still count. */
static void connection_count_unsent(struct connection *connection)
{
    struct reply_budget *replies = &connection->hub->replies;
    reply_budget_subtract(replies, connection->unsent_counted);
    connection->unsent_counted = connection->channel.unsent.capacity;
    reply_budget_add(replies, connection->unsent_counted);
}

static void on_written(struct channel *channel, int status)
{
    struct connection *connection = CONTAINER_OF(channel, struct connection, channel);
    connection_count_unsent(connection);
    if (status != 0)
        connection_close(connection);
    else
        connection_mark(connection);
}

static void connection_write(struct connection *connection, struct output *output)
{
    struct hub *hub = connection->hub;
    int status = channel_write(&connection->channel, output->pieces, output->piece_count);
    connection_count_unsent(connection);
    if (status != 0) {
        connection_close(connection);
        return;
    }
    hub->counters.bytes_sent += output->size; /* later writes are counted with it */
    for (size_t i = 0; i < output->pending_count; i++) {
        struct pending_request *pending = connection_first_pending(connection);
        slow_note_written(hub, pending);
        connection_remove_pending(connection, pending);
        pending_request_give_back(&hub->pending, pending);
    }
}

static bool connection_may_write(const struct connection *connection)
{
    return !connection->is_closing && !connection->channel.is_writing && channel_is_open(&connection->channel);
}

static void connection_write_ready(struct connection *connection)
{
    struct output output;
    while (connection_may_write(connection)) {
        output_gather(&output, connection->hub, &connection->pending);
        if (output.pending_count == 0)
            return;
        connection_write(connection, &output);
    }
}

static void connection_write_continue(struct connection *connection)
{
    static char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    uv_buf_t buf = uv_buf_init(text, sizeof(text) - 1);
    connection->http.expects_continue = false;
    if (channel_write(&connection->channel, &buf, 1) != 0)
        connection_close(connection);
}

/* --- Time --------------------------------------------------------------------------------------------------------- */

static void connection_update_deadline(struct connection *connection)
{
    const struct server_options *options = &connection->hub->options;
    uint64_t now_ms = connection_now_ms(connection);
    if (!channel_is_open(&connection->channel))
        return; /* it stays as it was set when the connection came */
    if (connection->channel.is_writing) {
        connection->request_begun_ms = 0; /* the rest of another request now waits for us, not for the client */
        connection->deadline_ms = connection->channel.write_begun_ms + options->reply_timeout_ms;
    } else if (input_size(&connection->input) > 0 && connection_may_parse(connection)) {
        if (connection->request_begun_ms == 0)
            connection->request_begun_ms = now_ms;
        connection->deadline_ms = connection->request_begun_ms + options->request_timeout_ms;
    } else if (connection->pending_count > 0 || connection_is_put_off(connection)) {
        connection->deadline_ms = UINT64_MAX;
    } else {
        connection->deadline_ms = now_ms + options->idle_timeout_ms;
    }
}

static void connection_count_timeout(struct connection *connection)
{
    struct hub_counters *counters = &connection->hub->counters;
    if (connection->is_lingering)
        return; /* it was refused before */
    bool is_open = channel_is_open(&connection->channel);
    if (is_open && connection->channel.is_writing)
        counters->timeouts_reply++;
    else if (!is_open || connection->request_begun_ms != 0)
        counters->timeouts_request++;
    else
        counters->timeouts_idle++;
}

/* How much of our memory a client occupies by not reading. */
static size_t connection_reply_memory(const struct connection *connection)
{
    bool holds_any = connection->channel.is_writing && !connection->is_closing;
    return holds_any ? connection->reply_size + connection->unsent_counted : 0;
}

static void connection_cut_off(struct connection *connection)
{
    connection_count_timeout(connection);
    connection_close(connection);
}

/* Does anybody wait for memory of replies? */
static bool replies_are_waited_for(const struct hub *hub)
{
    /* Requests that wait for the disk would gain nothing from it. */
    bool is_waited_for = admission_is_waited_for(&hub->admission) && !frame_backlog_is_full(&hub->frames);
    for (size_t i = 0; i < front_count(hub->front) && !is_waited_for; i++) {
        is_waited_for = api_waits_for_memory(front_at(hub->front, i), clock_now_ms(hub->clock));
        served_note(hub_served(hub, i));
    }
    return is_waited_for;
}

/* If the budget is spent, cuts off clients that are slow to take their replies, the oldest connections first, until the
 * rest fits. If others wait for the budget, it frees half of it; otherwise they would get only one reply's room a
 * second. A reply that is larger than the budget may take its time if nobody waits. */
static void connection_cut_slow_readers(struct hub *hub, uint64_t now_ms)
{
    size_t max = hub->replies.max;
    size_t held = hub->replies.held; /* memory of a connection closed here is freed a little later */
    if (held <= max)
        return;
    bool is_waited_for = replies_are_waited_for(hub);
    size_t aim = is_waited_for ? max / 2 : max;
    struct list_link *next;
    for (struct list_link *link = list_first(&hub->connections); link != NULL && held > aim; link = next) {
        next = list_next(&hub->connections, link);
        struct connection *connection = CONTAINER_OF(link, struct connection, link);
        size_t memory = connection_reply_memory(connection);
        bool is_slow = memory > 0 && now_ms >= connection->channel.write_begun_ms + CONNECTION_TAKE_MS;
        if (is_slow && (is_waited_for || held - memory > max)) {
            held -= memory;
            connection_cut_off(connection);
        }
    }
}

/* If the budget of requests is spent, cuts off clients with slow handshakes, the oldest first, until half of it is
 * free, so that new clients find room. */
static void connection_cut_slow_handshakes(struct hub *hub, uint64_t now_ms)
{
    size_t max = hub->options.input_memory_max;
    if (hub->inputs.memory <= max)
        return;
    struct list_link *next;
    for (struct list_link *link = list_first(&hub->connections); link != NULL && hub->inputs.memory > max / 2;
         link = next) {
        next = list_next(&hub->connections, link);
        struct connection *connection = CONTAINER_OF(link, struct connection, link);
        /* Its deadline was set when it came. */
        uint64_t begun_ms = connection->deadline_ms - hub->options.request_timeout_ms;
        if (connection->channel_counted > 0 && !channel_is_open(&connection->channel) &&
            now_ms >= begun_ms + CONNECTION_SHAKE_MS)
            connection_cut_off(connection);
    }
}

void connection_check_deadlines(struct hub *hub, uint64_t now_ms)
{
    /* Visits all connections, once a second: a few numbers of each, 10,000 of them in less than a millisecond. */
    struct list_link *next;
    for (struct list_link *link = list_first(&hub->connections); link != NULL; link = next) {
        next = list_next(&hub->connections, link);
        struct connection *connection = CONTAINER_OF(link, struct connection, link);
        if (now_ms >= connection->deadline_ms && !connection->is_closing)
            connection_cut_off(connection);
    }
    connection_cut_slow_readers(hub, now_ms);
    connection_cut_slow_handshakes(hub, now_ms);
}

/* --- Life --------------------------------------------------------------------------------------------------------- */

static void connection_linger(struct connection *connection)
{
    connection->is_lingering = true;
    connection->deadline_ms = connection_now_ms(connection) + connection->hub->options.linger_timeout_ms;
    channel_end(&connection->channel);
}

/* Keeps no more memory than the bytes read need. */
static void connection_fit_input(struct connection *connection)
{
    struct input *input = &connection->input;
    struct input_cache *cache = &connection->hub->inputs;
    bool is_unused = input_size(input) == 0 || connection->is_last_read;
    /* A body that comes in pieces keeps the memory that was reserved for all of them. */
    bool is_growing = input->capacity > INPUT_BLOCK_SIZE && !connection_is_patient(connection);
    if (is_unused)
        input_release(input, cache);
    else if (!is_growing)
        input_fit(input, cache);
    if (!is_growing)
        channel_fit(&connection->channel);
}

static void connection_count_channel(struct connection *connection, size_t size)
{
    struct input_cache *cache = &connection->hub->inputs;
    cache->memory = cache->memory - connection->channel_counted + size;
    connection->channel_counted = size;
}

static void connection_note_refused(struct connection *connection)
{
    connection->hub->counters.connections_refused++;
    refusals_note(&connection->hub->refusals, REFUSAL_BY_CONNECTIONS, connection_now_ms(connection));
}

/* Handshakes, and records after a request that waits, take memory although there is nothing to answer. False: that
 * memory is spent. */
static bool connection_may_hold_records(struct connection *connection)
{
    const struct hub *hub = connection->hub;
    size_t size = channel_memory(&connection->channel);
    if (size == connection->channel_counted)
        return true;
    bool has_grown = size > connection->channel_counted;
    connection_count_channel(connection, size);
    bool is_silent = connection_is_patient(connection) || !channel_is_open(&connection->channel);
    return !has_grown || !is_silent || hub->inputs.memory <= hub->options.input_memory_max + size;
}

/* Called after any event: closes the connection if it is done, reads or stops reading, gives memory back, sets the
 * deadline. */
static void connection_settle(struct connection *connection)
{
    if (connection->is_closing)
        return;
    if (connection->is_lingering) {
        if (connection->has_ended)
            connection_close(connection);
        return;
    }
    if (connection->pending_count == 0 && !connection->channel.is_writing && !connection_is_next(connection) &&
        (connection->is_last_read || connection->has_ended)) {
        if (connection->must_linger && !connection->has_ended)
            connection_linger(connection);
        else
            connection_close(connection);
        return;
    }
    connection_fit_input(connection);
    if (!connection_may_hold_records(connection)) {
        connection_note_refused(connection);
        connection_close(connection);
        return;
    }
    if (connection->http.expects_continue && connection->pending_count == 0 && !connection->channel.is_writing &&
        !connection_is_put_off(connection))
        connection_write_continue(connection);
    if (connection->is_closing)
        return;
    connection_update_deadline(connection);
    connection_update_reading(connection);
}

/* Handles records that arrived while nothing more was wanted; true if they may have brought new requests. */
static bool connection_take_unread(struct connection *connection)
{
    if (!connection->channel.is_reading || !channel_has_unread(&connection->channel))
        return false;
    channel_deliver(&connection->channel);
    return true;
}

bool connection_serve_ready(struct hub *hub)
{
    bool has_submitted = false;
    struct list_link *link;
    while ((link = list_first(&hub->ready)) != NULL) {
        struct connection *connection = CONTAINER_OF(link, struct connection, ready_link);
        list_remove(link);
        connection_write_ready(connection);
        if (!connection->is_closing)
            has_submitted |= connection_parse(connection);
        connection_settle(connection);
        has_submitted |= connection_take_unread(connection);
    }
    return has_submitted;
}

static void connection_free(struct connection *connection)
{
    struct hub *hub = connection->hub;
    if (hub->free_connection_count >= CONNECTION_FREE_MAX) {
        free(connection);
        return;
    }
    connection->free_next = hub->free_connections_owned;
    hub->free_connections_owned = connection;
    hub->free_connection_count++;
}

void connection_pool_deinit(struct hub *hub)
{
    while (hub->free_connections_owned != NULL) {
        struct connection *connection = hub->free_connections_owned;
        hub->free_connections_owned = connection->free_next;
        free(connection);
    }
    hub->free_connection_count = 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *connection = connection_of(handle);
    struct hub *hub = connection->hub;
    channel_deinit(&connection->channel);
    connection_count_unsent(connection);
    list_remove(&connection->link);
    hub->connection_count--;
    hub->private_count -= connection->kind == LISTENER_PRIVATE;
    connection_free(connection);
}

static void connection_close(struct connection *connection)
{
    if (connection->is_closing)
        return;
    connection->is_closing = true;
    struct pending_request *pending;
    while ((pending = connection_first_pending(connection)) != NULL)
        connection_drop_pending(connection, pending);
    if (list_is_linked(&connection->ready_link))
        list_remove(&connection->ready_link);
    admission_leave(&connection->put_off_link);
    connection_count_channel(connection, 0);
    input_release(&connection->input, &connection->hub->inputs); /* now: thousands may close in one turn of the loop */
    if (!channel_is_open(&connection->channel))
        connection_note_handshake(connection);
    channel_close(&connection->channel, on_closed);
}

static const struct channel_events channel_events = {.allocate = on_allocate, .read = on_read, .written = on_written};

static struct connection *connection_create(struct hub *hub, uv_loop_t *loop, enum listener_kind kind)
{
    struct connection *connection = hub->free_connections_owned;
    if (connection != NULL) {
        hub->free_connections_owned = connection->free_next;
        hub->free_connection_count--;
    } else {
        connection = memory_allocate(sizeof(*connection));
    }
    memset(connection, 0, sizeof(*connection));
    connection->hub = hub;
    list_init(&connection->pending);
    http_init(&connection->http, &hub->http_limits);
    list_append(&hub->connections, &connection->link);
    hub->connection_count++;
    connection->kind = kind;
    hub->private_count += kind == LISTENER_PRIVATE;
    channel_init(&connection->channel, loop, kind,
                 kind == LISTENER_NODES ? hub->nodes_context_owned : hub->tls_context_owned, &channel_events);
    connection->deadline_ms = uv_now(loop) + hub->options.request_timeout_ms; /* of a handshake */
    return connection;
}

void connection_accept(struct hub *hub, uv_stream_t *listener, enum listener_kind kind)
{
    struct connection *connection = connection_create(hub, listener->loop, kind);
    size_t connections_max = hub->options.connections_max;
    size_t others_count = hub->connection_count - hub->private_count;
    bool is_refused = kind != LISTENER_PRIVATE && others_count > connections_max;
    int status = channel_accept(&connection->channel, listener);
    if (status != 0 || (is_refused && others_count > connections_max + connections_refused_max(connections_max))) {
        if (is_refused)
            connection_note_refused(connection);
        connection_close(connection);
        return;
    }
    if (is_refused) {
        connection_note_refused(connection);
        connection_refuse(connection, WIRE_JSON, ERROR_SERVICE_UNAVAILABLE,
                          "Too many connections; try again in a moment.");
    } else {
        hub->counters.connections_accepted++;
    }
    connection_settle(connection);
}

static void connection_stop(struct connection *connection)
{
    connection->is_last_read = true;
    admission_leave(&connection->put_off_link);
    if (connection->pending_count > 0)
        CONTAINER_OF(connection->pending.head.prev, struct pending_request, connection_link)->is_last = true;
    connection_settle(connection);
}

void connection_stop_all(struct hub *hub)
{
    struct list_link *next;
    for (struct list_link *link = list_first(&hub->connections); link != NULL; link = next) {
        next = list_next(&hub->connections, link);
        connection_stop(CONTAINER_OF(link, struct connection, link));
    }
}

/* The first of its requests that has no reply gets this one, and no other does: nobody knows what became of them. */
static void connection_fail(struct connection *connection, const char *text)
{
    struct pending_request *pending = connection_first_pending(connection);
    if ((pending == NULL && !connection_is_put_off(connection)) || !connection_may_write(connection))
        return;
    const enum wire_form form = pending != NULL ? pending->exchange.form : connection_form(connection);
    while ((pending = connection_first_pending(connection)) != NULL)
        connection_drop_pending(connection, pending);
    admission_leave(&connection->put_off_link);
    connection_refuse(connection, form, ERROR_SERVICE_UNAVAILABLE, text);
}

void connection_fail_all(struct hub *hub, const char *text)
{
    struct list_link *next;
    for (struct list_link *link = list_first(&hub->connections); link != NULL; link = next) {
        next = list_next(&hub->connections, link);
        connection_fail(CONTAINER_OF(link, struct connection, link), text);
    }
    connection_take_finished(hub);
    (void)connection_serve_ready(hub);
}

/* Takes back what the namespace has said, and refuses the request. */
static void connection_refuse_pending(struct connection *connection, struct pending_request *pending, const char *text)
{
    struct hub *hub = connection->hub;
    struct exchange *exchange = &pending->exchange;
    const bool has_waited = connection->waiting == pending; /* its reply is not counted yet */
    if (exchange->state == EXCHANGE_FINISHED) {
        reply_budget_subtract(&hub->replies, exchange_reply_memory(exchange));
        connection->reply_size -= has_waited ? 0 : exchange->reply.body.size;
    }
    if (pending->state == PENDING_HELD)
        held_replies_remove(pending);
    else if (pending->state == PENDING_IN_API)
        api_abandon(exchange);
    if (exchange->grant_owned != NULL)
        grant_give_back(exchange->grant_owned, served_of(exchange)->ns);
    pending->state = PENDING_IN_API;
    exchange->state = EXCHANGE_NEW;
    front_refuse(hub->front, exchange, ERROR_SERVICE_UNAVAILABLE, text);
    connection->reply_size += has_waited ? 0 : exchange->reply.body.size;
}

static void connection_forget_api(struct connection *connection, struct pending_request *pending, const char *text)
{
    (void)connection;
    (void)text;
    pending->exchange.api = NULL;
}

/* Calls `act` for each request of the namespace whose reply has not been written. */
static void connection_visit_namespace(struct hub *hub, const struct api *api,
                                       void (*act)(struct connection *connection, struct pending_request *pending,
                                                   const char *text),
                                       const char *text)
{
    for (struct list_link *link = list_first(&hub->connections); link != NULL;
         link = list_next(&hub->connections, link)) {
        struct connection *connection = CONTAINER_OF(link, struct connection, link);
        for (struct list_link *turn = list_first(&connection->pending); turn != NULL;
             turn = list_next(&connection->pending, turn)) {
            struct pending_request *pending = CONTAINER_OF(turn, struct pending_request, connection_link);
            if (pending->exchange.api == api)
                act(connection, pending, text);
        }
    }
}

void connection_refuse_namespace(struct hub *hub, const struct api *api, const char *text)
{
    connection_visit_namespace(hub, api, connection_refuse_pending, text);
    connection_take_finished(hub);
}

void connection_forget_namespace(struct hub *hub, const struct api *api)
{
    connection_visit_namespace(hub, api, connection_forget_api, NULL);
}

void connection_close_all(struct hub *hub)
{
    struct list_link *next;
    for (struct list_link *link = list_first(&hub->connections); link != NULL; link = next) {
        next = list_next(&hub->connections, link);
        connection_close(CONTAINER_OF(link, struct connection, link));
    }
}
