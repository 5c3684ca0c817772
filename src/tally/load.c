#include "tally/load.h"

#include "base/buffer.h"
#include "base/memory.h"
#include "base/quote.h"
#include "client/json.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH_SIZE 10
#define EVENTS_MAX 256
#define READ_SIZE 16384
#define LAST_ANSWERS_MS 5000 /* how long to wait for answers after the time is over */
#define CONTENT_TYPE "application/x-amz-json-1.0"
#define SIGNED_S 300 /* for how long a request is sent with the same signature; servers take it for 900 s */

enum step { STEP_SEND, STEP_RECEIVE, STEP_DELETE };

struct connection {
    int socket;
    enum step step;
    bool is_waiting; /* a request is on the way */
    uint64_t sent_at_us;
    struct buffer out; /* DeleteMessageBatch, which differs each time */
    struct bytes unsent;
    struct buffer in;
};

/* The requests that are the same each time. */
struct requests {
    struct buffer send;
    struct buffer receive;
    uint64_t made_at_us;
    struct requests *older; /* their bytes may still be on the way */
};

struct load {
    const struct load_options *options;
    struct load_result *result;
    char authority[300]; /* host:port, for the Host header */
    struct requests *requests_owned;
    struct connection *connections_owned;
    unsigned waiting;
    int epoll;
    bool is_over;
};

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void count_error(struct load *load, const char *what, struct bytes text)
{
    if (load->result->errors++ == 0)
        snprintf(load->result->first_error, sizeof load->result->first_error, "%s%.*s", what, BYTES_FORMAT(text));
}

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

static void write_request(const struct load *load, const char *target, struct bytes body, struct buffer *out)
{
    struct signature *signature = load->options->signature;
    buffer_append_format(out, "POST / HTTP/1.1\r\n");
    if (signature != NULL)
        signature_append_headers(signature, load->authority, CONTENT_TYPE, target, body, (int64_t)time(NULL), out);
    else
        buffer_append_format(out, "Host: %s\r\nContent-Type: " CONTENT_TYPE "\r\nX-Amz-Target: %s\r\n", load->authority,
                             target);
    buffer_append_format(out, "Content-Length: %zu\r\n\r\n", body.size);
    buffer_append_bytes(out, body);
}

static void append_text(struct buffer *out, unsigned size)
{
    memset(buffer_extend(out, size), 'x', size);
}

static void begin_body(const struct load *load, struct buffer *body)
{
    buffer_truncate(body, 0);
    buffer_append_format(body, "{\"QueueUrl\":");
    quote_append(body, bytes_from_string(load->options->queue));
}

static void make_requests(struct load *load)
{
    const struct load_options *options = load->options;
    struct requests *requests = memory_allocate_zeroed(sizeof *requests);
    struct buffer body;

    requests->made_at_us = now_us();
    requests->older = load->requests_owned;
    load->requests_owned = requests;
    buffer_init(&body);
    begin_body(load, &body);
    if (options->mode == LOAD_SEND) {
        buffer_append_format(&body, ",\"MessageBody\":\"");
        append_text(&body, options->body_size);
        buffer_append_format(&body, "\"}");
        write_request(load, "AmazonSQS.SendMessage", buffer_bytes(&body), &requests->send);
    } else {
        for (unsigned i = 0; i < BATCH_SIZE; i++) {
            buffer_append_format(&body, "%s{\"Id\":\"%u\",\"MessageBody\":\"", i == 0 ? ",\"Entries\":[" : ",", i);
            append_text(&body, options->body_size);
            buffer_append_format(&body, "\"}");
        }
        buffer_append_format(&body, "]}");
        write_request(load, "AmazonSQS.SendMessageBatch", buffer_bytes(&body), &requests->send);
    }
    begin_body(load, &body);
    buffer_append_format(&body, ",\"MaxNumberOfMessages\":%u,\"VisibilityTimeout\":600}", BATCH_SIZE);
    write_request(load, "AmazonSQS.ReceiveMessage", buffer_bytes(&body), &requests->receive);
    buffer_deinit(&body);
}

/* Makes the DeleteMessageBatch for what an answer of ReceiveMessage holds; how many messages that is. */
static size_t make_delete(const struct load *load, struct connection *connection, struct bytes answer)
{
    yyjson_doc *doc = json_read(answer.ptr, answer.size);
    yyjson_val *messages = yyjson_obj_get(yyjson_doc_get_root(doc), "Messages");
    size_t count = yyjson_arr_size(messages);
    struct buffer body;
    size_t i, max;
    yyjson_val *message;

    buffer_init(&body);
    begin_body(load, &body);
    buffer_append_format(&body, ",\"Entries\":[");
    yyjson_arr_foreach(messages, i, max, message)
    {
        const char *handle = yyjson_get_str(yyjson_obj_get(message, "ReceiptHandle"));
        buffer_append_format(&body, "%s{\"Id\":\"%zu\",\"ReceiptHandle\":", i == 0 ? "" : ",", i);
        quote_append(&body, bytes_from_string(handle == NULL ? "" : handle));
        buffer_append_format(&body, "}");
    }
    buffer_append_format(&body, "]}");
    buffer_truncate(&connection->out, 0);
    write_request(load, "AmazonSQS.DeleteMessageBatch", buffer_bytes(&body), &connection->out);
    buffer_deinit(&body);
    yyjson_doc_free(doc);
    return count;
}

/* ---- One connection ---------------------------------------------------------------------------------------------- */

static void close_connection(struct load *load, struct connection *connection)
{
    if (connection->is_waiting)
        load->waiting--;
    connection->is_waiting = false;
    close(connection->socket);
    connection->socket = -1;
}

static void write_some(struct load *load, struct connection *connection)
{
    while (connection->unsent.size > 0) {
        ssize_t size = send(connection->socket, connection->unsent.ptr, connection->unsent.size, MSG_NOSIGNAL);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = connection};
        if (size < 0 && errno == EAGAIN) {
            epoll_ctl(load->epoll, EPOLL_CTL_MOD, connection->socket, &event);
            return;
        }
        if (size < 0) {
            count_error(load, "a connection broke: ", bytes_from_string(strerror(errno)));
            close_connection(load, connection);
            return;
        }
        connection->unsent = bytes_skip(connection->unsent, (size_t)size);
    }
}

/* Sends the request of the connection's step, unless the time is over. */
static void begin_request(struct load *load, struct connection *connection)
{
    if (load->is_over)
        return;
    if (load->options->signature != NULL && now_us() - load->requests_owned->made_at_us > SIGNED_S * 1000000ull)
        make_requests(load);
    const struct buffer *requests[] = {&load->requests_owned->send, &load->requests_owned->receive, &connection->out};
    connection->unsent = buffer_bytes(requests[connection->step]);
    connection->is_waiting = true;
    connection->sent_at_us = now_us();
    load->waiting++;
    write_some(load, connection);
}

/* Counts what an answer means and chooses the next step. */
static void take_answer(struct load *load, struct connection *connection, int status, struct bytes body)
{
    struct load_result *result = load->result;
    static const char failed[] = "\"Failed\"";
    size_t count;

    if (!load->is_over) {
        histogram_add(&result->latency, now_us() - connection->sent_at_us);
        result->requests++;
    }
    load->waiting--;
    connection->is_waiting = false;
    if (status != 200 || memmem(body.ptr, body.size, failed, sizeof failed - 1) != NULL) {
        count_error(load, "", body);
        connection->step = STEP_SEND;
        return;
    }
    count = load->options->mode == LOAD_SEND ? 1 : BATCH_SIZE;
    if (load->options->mode != LOAD_LIFE) {
        result->messages += load->is_over ? 0 : count;
    } else if (connection->step == STEP_SEND) {
        connection->step = STEP_RECEIVE;
    } else if (connection->step == STEP_RECEIVE) {
        connection->step = make_delete(load, connection, body) > 0 ? STEP_DELETE : STEP_RECEIVE;
    } else {
        result->messages += load->is_over ? 0 : count;
        connection->step = STEP_SEND;
    }
}

/* The value of Content-Length in the head of an answer; -1 if it is not there. */
static long find_length(struct bytes head)
{
    static const char name[] = "\ncontent-length:";
    for (size_t i = 0; i + sizeof name <= head.size; i++)
        if (strncasecmp((const char *)head.ptr + i, name, sizeof name - 1) == 0)
            return strtol((const char *)head.ptr + i + sizeof name - 1, NULL, 10);
    return -1;
}

/* Takes a whole answer out of what was read. False if there is none yet. */
static bool parse_answer(struct load *load, struct connection *connection)
{
    struct bytes text = buffer_bytes(&connection->in);
    const uint8_t *end = text.size == 0 ? NULL : memmem(text.ptr, text.size, "\r\n\r\n", 4);
    size_t head_size = end == NULL ? 0 : (size_t)(end - text.ptr) + 4;
    long length;

    if (end == NULL || text.size < 12)
        return false;
    length = find_length(bytes_make(text.ptr, head_size));
    if (length < 0 || memcmp(text.ptr, "HTTP/1.1 ", 9) != 0) {
        count_error(load, "the answer is not what a queue server sends: ", bytes_make(text.ptr, head_size));
        close_connection(load, connection);
        return false;
    }
    if (text.size < head_size + (size_t)length)
        return false;
    take_answer(load, connection, atoi((const char *)text.ptr + 9), bytes_make(text.ptr + head_size, (size_t)length));
    buffer_truncate(&connection->in, 0); /* one request at a time: nothing can follow */
    return true;
}

static void read_some(struct load *load, struct connection *connection)
{
    for (;;) {
        ssize_t size = recv(connection->socket, buffer_reserve(&connection->in, READ_SIZE), READ_SIZE, 0);
        if (size < 0 && errno == EAGAIN)
            return;
        if (size <= 0) {
            if (connection->is_waiting)
                count_error(load, "the server closed a connection", BYTES(""));
            close_connection(load, connection);
            return;
        }
        buffer_extend(&connection->in, (size_t)size);
        if (parse_answer(load, connection)) {
            begin_request(load, connection);
            return; /* what comes next can't be here yet */
        }
        if (connection->socket < 0)
            return;
    }
}

static void handle_event(struct load *load, struct connection *connection, uint32_t events)
{
    struct epoll_event only_reads = {.events = EPOLLIN, .data.ptr = connection};
    if (connection->socket >= 0 && (events & EPOLLOUT) != 0) {
        epoll_ctl(load->epoll, EPOLL_CTL_MOD, connection->socket, &only_reads);
        write_some(load, connection);
    }
    if (connection->socket >= 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
        read_some(load, connection);
}

/* ---- All connections --------------------------------------------------------------------------------------------- */

/* Splits http://HOST[:PORT][/…]. */
static bool resolve(struct load *load, struct addrinfo **addresses)
{
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const char *authority = load->options->endpoint + strlen("http://");
    char host[sizeof load->authority];
    const char *port = "80";
    char *colon, *start = host;
    int code;

    snprintf(load->authority, sizeof load->authority, "%.*s", (int)strcspn(authority, "/"), authority);
    snprintf(host, sizeof host, "%s", load->authority);
    colon = strrchr(host, ':');
    if (colon != NULL && strchr(colon, ']') == NULL) {
        *colon = '\0';
        port = colon + 1;
    }
    if (*start == '[') { /* an IPv6 address */
        start++;
        start[strcspn(start, "]")] = '\0';
    }
    code = getaddrinfo(start, port, &hints, addresses);
    if (code != 0)
        count_error(load, "the host can't be found: ", bytes_from_string(gai_strerror(code)));
    return code == 0;
}

static bool connect_one(struct load *load, const struct addrinfo *address, struct connection *connection)
{
    static const int on = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};

    connection->socket = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->socket < 0 || connect(connection->socket, address->ai_addr, address->ai_addrlen) != 0) {
        count_error(load, "can't connect: ", bytes_from_string(strerror(errno)));
        return false;
    }
    setsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(connection->socket, F_SETFL, O_NONBLOCK);
    return epoll_ctl(load->epoll, EPOLL_CTL_ADD, connection->socket, &event) == 0;
}

static bool connect_all(struct load *load)
{
    struct addrinfo *addresses = NULL;
    bool is_good = resolve(load, &addresses);
    for (unsigned i = 0; i < load->options->connections; i++)
        load->connections_owned[i].socket = -1;
    for (unsigned i = 0; i < load->options->connections && is_good; i++)
        is_good = connect_one(load, addresses, &load->connections_owned[i]);
    if (addresses != NULL)
        freeaddrinfo(addresses);
    return is_good;
}

static void run_loop(struct load *load)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t start_us = now_us();
    uint64_t end_us = start_us + load->options->seconds * 1000000ull;

    for (unsigned i = 0; i < load->options->connections; i++)
        begin_request(load, &load->connections_owned[i]);
    while (load->waiting > 0 && now_us() < end_us + LAST_ANSWERS_MS * 1000ull) {
        int count = epoll_wait(load->epoll, events, EVENTS_MAX, 100);
        if (!load->is_over && now_us() >= end_us) {
            load->is_over = true;
            load->result->seconds = (double)(now_us() - start_us) / 1e6;
        }
        for (int i = 0; i < count; i++)
            handle_event(load, events[i].data.ptr, events[i].events);
    }
    if (!load->is_over) /* every connection broke */
        load->result->seconds = (double)(now_us() - start_us) / 1e6;
}

bool load_run(const struct load_options *options, struct load_result *result)
{
    struct load load = {.options = options, .result = result};
    bool is_good;

    *result = (struct load_result){.seconds = 0};
    load.connections_owned = memory_allocate_zeroed(options->connections * sizeof *load.connections_owned);
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    is_good = connect_all(&load);
    if (is_good) {
        make_requests(&load);
        run_loop(&load);
    }
    for (unsigned i = 0; i < options->connections; i++) {
        struct connection *connection = &load.connections_owned[i];
        if (connection->socket >= 0)
            close(connection->socket);
        buffer_deinit(&connection->out);
        buffer_deinit(&connection->in);
    }
    close(load.epoll);
    free(load.connections_owned);
    while (load.requests_owned != NULL) {
        struct requests *older = load.requests_owned->older;
        buffer_deinit(&load.requests_owned->send);
        buffer_deinit(&load.requests_owned->receive);
        free(load.requests_owned);
        load.requests_owned = older;
    }
    return is_good;
}
