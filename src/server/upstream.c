#include "server/upstream.h"

#include "base/assert.h"
#include "base/memory.h"

#include <llhttp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <strings.h>

#define FIELD_SIZE_MAX ((size_t)256) /* of an answer's fields that are read */

enum field { FIELD_CONTENT_TYPE, FIELD_QUERY_ERROR, FIELD_REQUEST_ID, FIELD_NOT_OWNER, FIELD_COUNT, FIELD_OTHER };

static const char *const field_names[FIELD_COUNT] = {"content-type", "x-amzn-query-error", "x-amzn-requestid",
                                                     "tally-not-owner"};

struct upstream {
    uv_tcp_t tcp; /* first: callbacks of libuv find the rest by it */
    uv_connect_t connect;
    uv_write_t write;
    struct list_link link; /* among the idle or the busy */
    struct upstreams *upstreams;
    struct sockaddr_storage address;
    uint64_t idle_since; /* loop time */
    bool has_sent, is_closing;
    bool is_writing; /* libuv has `write` */

    /* Of the request under way; `done` is NULL while there is none. */
    struct bytes request;
    upstream_cb done;
    void *context;

    llhttp_t parser;
    struct buffer name; /* of the header field being read */
    enum field field;
    struct buffer fields[FIELD_COUNT];
    struct buffer body;
    size_t counted; /* of its memory, in the budget */
    bool is_whole;
};

static struct upstream *upstream_of(void *handle)
{
    return CONTAINER_OF((uv_tcp_t *)handle, struct upstream, tcp);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void count_body(struct upstream *upstream, size_t size)
{
    reply_budget_add(upstream->upstreams->replies, size);
    reply_budget_subtract(upstream->upstreams->replies, upstream->counted);
    upstream->counted = size;
}

static void on_closed(uv_handle_t *handle)
{
    struct upstream *upstream = upstream_of(handle);
    upstream->upstreams->count--;
    count_body(upstream, 0);
    for (size_t i = 0; i < FIELD_COUNT; i++)
        buffer_deinit(&upstream->fields[i]);
    buffer_deinit(&upstream->name);
    buffer_deinit(&upstream->body);
    free(upstream);
}

static void close_upstream(struct upstream *upstream)
{
    if (upstream->is_closing)
        return;
    upstream->is_closing = true;
    list_remove(&upstream->link);
    uv_close((uv_handle_t *)&upstream->tcp, on_closed);
}

/* The request is over without an answer. */
static void fail(struct upstream *upstream, enum upstream_outcome outcome)
{
    const upstream_cb done = upstream->done;
    upstream->done = NULL;
    close_upstream(upstream);
    if (done != NULL)
        done(upstream->context, outcome, NULL);
}

void upstream_stop(struct upstream *upstream)
{
    upstream->done = NULL;
    close_upstream(upstream);
}

bool upstream_has_sent(const struct upstream *upstream)
{
    return upstream->has_sent;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static struct upstream *of_parser(llhttp_t *parser)
{
    return CONTAINER_OF(parser, struct upstream, parser);
}

static int on_field(llhttp_t *parser, const char *at, size_t size)
{
    struct upstream *upstream = of_parser(parser);
    if (upstream->name.size + size <= FIELD_SIZE_MAX)
        buffer_append(&upstream->name, at, size);
    return 0;
}

static int on_field_complete(llhttp_t *parser)
{
    struct upstream *upstream = of_parser(parser);
    upstream->field = FIELD_OTHER;
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (strlen(field_names[i]) == upstream->name.size &&
            strncasecmp(field_names[i], (const char *)upstream->name.data_owned, upstream->name.size) == 0)
            upstream->field = (enum field)i;
    buffer_truncate(&upstream->name, 0);
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t size)
{
    struct upstream *upstream = of_parser(parser);
    if (upstream->field == FIELD_OTHER)
        return 0;
    struct buffer *value = &upstream->fields[upstream->field];
    if (value->size + size <= FIELD_SIZE_MAX)
        buffer_append(value, at, size);
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t size)
{
    struct upstream *upstream = of_parser(parser);
    if (upstream->body.size + size > upstream->upstreams->answer_size_max)
        return HPE_USER;
    buffer_append(&upstream->body, at, size);
    count_body(upstream, upstream->body.capacity);
    return 0;
}

static int on_complete(llhttp_t *parser)
{
    of_parser(parser)->is_whole = true;
    return HPE_PAUSED; /* nothing may come behind it */
}

static const llhttp_settings_t settings = {.on_header_field = on_field,
                                           .on_header_field_complete = on_field_complete,
                                           .on_header_value = on_value,
                                           .on_body = on_body,
                                           .on_message_complete = on_complete};

static void begin_answer(struct upstream *upstream)
{
    llhttp_init(&upstream->parser, HTTP_RESPONSE, &settings);
    for (size_t i = 0; i < FIELD_COUNT; i++)
        buffer_truncate(&upstream->fields[i], 0);
    buffer_truncate(&upstream->name, 0);
    buffer_truncate(&upstream->body, 0);
    upstream->is_whole = false;
}

static void rest(struct upstream *upstream)
{
    upstream->idle_since = uv_now(upstream->upstreams->loop);
    list_remove(&upstream->link);
    list_prepend(&upstream->upstreams->idle, &upstream->link);
}

/* An answer may come before the request was written to its end; then the rest of it must not be written any more. */
static void hand_over(struct upstream *upstream)
{
    const bool goes_on = !upstream->is_writing && llhttp_should_keep_alive(&upstream->parser);
    const struct upstream_answer answer = {
        .reply = {.status = upstream->parser.status_code,
                  .content_type = buffer_bytes(&upstream->fields[FIELD_CONTENT_TYPE]),
                  .query_error = buffer_bytes(&upstream->fields[FIELD_QUERY_ERROR]),
                  .request_id = buffer_bytes(&upstream->fields[FIELD_REQUEST_ID]),
                  .body = &upstream->body},
        .is_not_owner = upstream->fields[FIELD_NOT_OWNER].size > 0,
    };
    const upstream_cb done = upstream->done;
    upstream->done = NULL;
    if (!goes_on)
        close_upstream(upstream);
    count_body(upstream, 0); /* whoever takes it counts it */
    done(upstream->context, UPSTREAM_ANSWERED, &answer);
    if (goes_on)
        rest(upstream);
}

/* A node that says something unasked, or not in HTTP, is left. */
static void take_bytes(struct upstream *upstream, const char *bytes, size_t size)
{
    if (upstream->done == NULL) {
        close_upstream(upstream);
        return;
    }
    const llhttp_errno_t outcome = llhttp_execute(&upstream->parser, bytes, size);
    const bool is_behind = upstream->is_whole && llhttp_get_error_pos(&upstream->parser) != bytes + size;
    const bool is_final = upstream->parser.status_code >= 200 && upstream->parser.status_code < 600;
    if (upstream->is_whole && !is_behind && is_final)
        hand_over(upstream);
    else if (outcome != HPE_OK)
        fail(upstream, UPSTREAM_UNKNOWN);
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct upstreams *upstreams = upstream_of(handle)->upstreams;
    *buf = uv_buf_init(upstreams->room, sizeof(upstreams->room));
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf)
{
    struct upstream *upstream = upstream_of(stream);
    if (size > 0)
        take_bytes(upstream, buf->base, (size_t)size);
    else if (size < 0)
        fail(upstream, upstream->has_sent ? UPSTREAM_UNKNOWN : UPSTREAM_NOT_SENT);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void on_written(uv_write_t *write, int status)
{
    struct upstream *upstream = CONTAINER_OF(write, struct upstream, write);
    upstream->is_writing = false;
    if (status != 0 && status != UV_ECANCELED)
        fail(upstream, UPSTREAM_UNKNOWN);
}

/* False: nothing was written, because the other end has closed the connection. */
static bool write_request(struct upstream *upstream)
{
    uv_stream_t *stream = (uv_stream_t *)&upstream->tcp;
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)upstream->request.ptr, (unsigned)upstream->request.size);
    const int written = uv_try_write(stream, &buf, 1);
    if (written < 0 && written != UV_EAGAIN)
        return false;
    upstream->has_sent = true;
    const size_t done = written < 0 ? 0 : (size_t)written;
    buf = uv_buf_init(buf.base + done, (unsigned)(upstream->request.size - done));
    if (buf.len > 0) /* a broken connection is read, too */
        upstream->is_writing = uv_write(&upstream->write, stream, &buf, 1, on_written) == 0;
    return true;
}

/* A machine that is gone, or out of reach, says nothing at all. Without this the kernel would believe in the connection
 * for a quarter of an hour. */
static void bear_no_silence(struct upstream *upstream)
{
    const int interval_s = 1, count = UPSTREAM_SILENCE_MS / 1000 - 1;
    const unsigned silence_ms = UPSTREAM_SILENCE_MS;
    uv_os_fd_t socket;
    if (uv_tcp_keepalive(&upstream->tcp, 1, interval_s) != 0 || uv_fileno((uv_handle_t *)&upstream->tcp, &socket) != 0)
        return;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof(silence_ms));
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct upstream *upstream = CONTAINER_OF(connect, struct upstream, connect);
    if (status == UV_ECANCELED || upstream->is_closing)
        return;
    if (status == 0)
        status = uv_read_start((uv_stream_t *)&upstream->tcp, on_allocate, on_read);
    bear_no_silence(upstream);
    if (status != 0 || !write_request(upstream))
        fail(upstream, UPSTREAM_NOT_SENT);
}

static struct upstream *create(struct upstreams *upstreams, const struct sockaddr_storage *address)
{
    struct upstream *upstream = memory_allocate_zeroed(sizeof(*upstream));
    upstream->upstreams = upstreams;
    upstream->address = *address;
    for (size_t i = 0; i < FIELD_COUNT; i++)
        buffer_init(&upstream->fields[i]);
    buffer_init(&upstream->name);
    buffer_init(&upstream->body);
    const int status = uv_tcp_init(upstreams->loop, &upstream->tcp);
    ASSERT(status == 0); /* makes no socket yet */
    uv_unref((uv_handle_t *)&upstream->tcp);
    list_prepend(&upstreams->busy, &upstream->link);
    upstreams->count++;
    return upstream;
}

static size_t address_size(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static struct upstream *take_idle(struct upstreams *upstreams, const struct sockaddr_storage *address)
{
    for (struct list_link *link = list_first(&upstreams->idle); link != NULL;
         link = list_next(&upstreams->idle, link)) {
        struct upstream *upstream = CONTAINER_OF(link, struct upstream, link);
        if (memcmp(&upstream->address, address, address_size(address)) != 0)
            continue;
        list_remove(link);
        list_prepend(&upstreams->busy, link);
        return upstream;
    }
    return NULL;
}

static void begin(struct upstream *upstream, struct bytes request, upstream_cb done, void *context)
{
    upstream->request = request;
    upstream->done = done;
    upstream->context = context;
    upstream->has_sent = false;
    begin_answer(upstream);
}

struct upstream *upstream_send(struct upstreams *upstreams, const struct sockaddr_storage *address,
                               struct bytes request, upstream_cb done, void *context)
{
    struct upstream *upstream;
    while ((upstream = take_idle(upstreams, address)) != NULL) {
        begin(upstream, request, done, context);
        if (write_request(upstream))
            return upstream;
        upstream_stop(upstream);
    }
    upstream = create(upstreams, address);
    begin(upstream, request, done, context);
    if (uv_tcp_connect(&upstream->connect, &upstream->tcp, (const struct sockaddr *)address, on_connected) == 0) {
        (void)uv_tcp_nodelay(&upstream->tcp, 1);
        return upstream;
    }
    upstream_stop(upstream);
    return NULL;
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

void upstreams_init(struct upstreams *upstreams, uv_loop_t *loop, struct reply_budget *replies, size_t answer_size_max)
{
    upstreams->loop = loop;
    upstreams->replies = replies;
    upstreams->answer_size_max = answer_size_max;
    list_init(&upstreams->idle);
    list_init(&upstreams->busy);
}

static void close_all(struct list *list)
{
    struct list_link *link;
    while ((link = list_first(list)) != NULL)
        upstream_stop(CONTAINER_OF(link, struct upstream, link));
}

void upstreams_close(struct upstreams *upstreams)
{
    close_all(&upstreams->idle);
    close_all(&upstreams->busy);
}

void upstreams_close_idle(struct upstreams *upstreams, uint64_t idle_ms)
{
    const uint64_t now_ms = uv_now(upstreams->loop);
    struct list_link *next;
    for (struct list_link *link = list_first(&upstreams->idle); link != NULL; link = next) {
        next = list_next(&upstreams->idle, link);
        struct upstream *upstream = CONTAINER_OF(link, struct upstream, link);
        if (now_ms - upstream->idle_since > idle_ms)
            close_upstream(upstream);
    }
}
