#include "server/upstream.h"

#include "base/assert.h"
#include "base/memory.h"
#include "server/answer_reader.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>

#define PIECE_SIZE ((size_t)64 * 1024) /* how much of a request is encrypted at once */
static_assert(PIECE_SIZE >= UPSTREAM_SHARED_SIZE_MAX, "of requests in one write all go, or none is whole");

struct upstream_call {
    struct list_link link;
    struct upstream *upstream;
    struct bytes request; /* borrowed */
    upstream_cb done;     /* NULL: nobody waits for its answer any more */
    void *context;
};

struct upstream {
    uv_tcp_t tcp; /* first: callbacks of libuv find the rest by it */
    uv_connect_t connect;
    uv_write_t write;
    struct list_link link;        /* among the idle or the busy */
    struct list_link unsent_link; /* among the unsent */
    struct upstreams *upstreams;
    struct peer *peer;
    struct sockaddr_storage socket; /* its, to which this one leads */
    uint64_t begun_ms;              /* loop time, like the next */
    uint64_t idle_since_ms;
    struct tls *tls_owned; /* NULL: plain */
    uint64_t certificate;  /* tls_context_loaded_count() when it was made */
    struct buffer unsent;  /* records that libuv has */
    bool is_open;          /* it takes requests */
    bool has_sent;         /* those that it has were given out to be written */
    bool is_closing;
    bool is_writing; /* libuv has `write` */

    /* Of the requests that it has. */
    struct list calls;    /* in the order of their answers */
    size_t count;         /* of them */
    size_t waited_count;  /* of those whose answers somebody waits for */
    size_t size;          /* bytes of them */
    uint64_t key;         /* which further ones may share it until it is written; 0: none */
    struct buffer joined; /* the bytes of several */
    struct bytes request; /* what is left to write */

    struct answer_reader answer;
    size_t counted; /* of its memory, in the budget */
};

static struct upstream *upstream_of(void *handle)
{
    return CONTAINER_OF((uv_tcp_t *)handle, struct upstream, tcp);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

/* Counts `size` bytes for the answer, and what requests and TLS take beyond a session at rest. */
static void count_memory(struct upstream *upstream, size_t size)
{
    size += upstream->joined.capacity + upstream->unsent.capacity +
            (upstream->tls_owned == NULL ? 0 : tls_memory(upstream->tls_owned));
    reply_budget_add(upstream->upstreams->replies, size);
    reply_budget_subtract(upstream->upstreams->replies, upstream->counted);
    upstream->counted = size;
}

static void on_closed(uv_handle_t *handle)
{
    struct upstream *upstream = upstream_of(handle);
    upstream->upstreams->count--;
    upstream->peer->users--;
    reply_budget_subtract(upstream->upstreams->replies, upstream->counted);
    if (upstream->tls_owned != NULL)
        tls_destroy(upstream->tls_owned);
    buffer_deinit(&upstream->joined);
    buffer_deinit(&upstream->unsent);
    answer_reader_deinit(&upstream->answer);
    free(upstream);
}

static void end_opening(struct upstreams *upstreams)
{
    upstreams->opening_count--;
    upstreams->freed(upstreams->context);
}

static struct upstream **slot_of(struct upstreams *upstreams, uint64_t key)
{
    return &upstreams->shared[(key >> 1) % UPSTREAM_SHARED_SLOTS];
}

/* No further request may join those that it has. */
static void end_sharing(struct upstream *upstream)
{
    struct upstream **slot = slot_of(upstream->upstreams, upstream->key);
    if (*slot == upstream)
        *slot = NULL;
    if (list_is_linked(&upstream->unsent_link))
        list_remove(&upstream->unsent_link);
}

static void close_upstream(struct upstream *upstream)
{
    if (upstream->is_closing)
        return;
    upstream->is_closing = true;
    end_sharing(upstream);
    list_remove(&upstream->link);
    uv_close((uv_handle_t *)&upstream->tcp, on_closed);
    if (!upstream->is_open)
        end_opening(upstream->upstreams);
}

static void free_call(struct upstream_call *call)
{
    struct upstream *upstream = call->upstream;
    list_remove(&call->link);
    upstream->count--;
    upstream->size -= call->request.size;
    upstream->waited_count -= call->done != NULL;
    free(call);
}

/* The first of its requests is over, or all are. */
static void end_call(struct upstream *upstream, enum upstream_outcome outcome, const struct upstream_answer *answer)
{
    struct upstream_call *call = CONTAINER_OF(list_first(&upstream->calls), struct upstream_call, link);
    const upstream_cb done = call->done;
    void *context = call->context;
    free_call(call);
    if (done != NULL)
        done(context, outcome, answer);
}

/* Its requests are over without an answer. */
static void fail(struct upstream *upstream, enum upstream_outcome outcome)
{
    close_upstream(upstream);
    while (!list_is_empty(&upstream->calls))
        end_call(upstream, outcome, NULL);
}

/* It could not be made. */
static void fail_opening(struct upstream *upstream, const char *why)
{
    peer_note_failure(upstream->peer, upstream->begun_ms, why);
    fail(upstream, UPSTREAM_NOT_SENT);
}

/* It ended. */
static void fail_broken(struct upstream *upstream, const char *why)
{
    if (!upstream->is_open)
        fail_opening(upstream, why);
    else
        fail(upstream, upstream->has_sent ? UPSTREAM_UNKNOWN : UPSTREAM_NOT_SENT);
}

static void rest(struct upstream *upstream)
{
    upstream->idle_since_ms = uv_now(upstream->upstreams->loop);
    end_sharing(upstream);
    upstream->request = BYTES("");
    buffer_deinit(&upstream->joined);
    buffer_deinit(&upstream->answer.body); /* of one that nobody took */
    count_memory(upstream, 0);
    list_remove(&upstream->link);
    list_prepend(&upstream->upstreams->idle, &upstream->link);
    upstream->upstreams->freed(upstream->upstreams->context);
}

/* One that was not written is as if it had never been added. The answer of another still comes, in its turn. */
void upstream_stop(struct upstream_call *call)
{
    struct upstream *upstream = call->upstream;
    if (upstream->has_sent) {
        call->done = NULL;
        upstream->waited_count--;
        if (upstream->waited_count == 0)
            fail(upstream, UPSTREAM_UNKNOWN);
        return;
    }
    free_call(call);
    if (upstream->count > 0 || upstream->is_closing)
        return;
    if (upstream->is_open)
        rest(upstream);
    else
        close_upstream(upstream);
}

void upstream_give_up(struct upstream_call *call)
{
    struct upstream *upstream = call->upstream;
    upstream_stop(call);
    fail_opening(upstream, "it does not answer");
}

bool upstream_has_sent(const struct upstream_call *call)
{
    return call->upstream->has_sent;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* Connections that were made with another certificate end with their request. */
static bool has_newest_certificate(const struct upstream *upstream)
{
    return upstream->tls_owned == NULL || upstream->certificate == tls_context_loaded_count(upstream->upstreams->tls);
}

/* The last answer may come before its request was written to its end; then the rest of that must not be written any
 * more. */
static bool may_rest(const struct upstream *upstream)
{
    const bool is_written = !upstream->is_writing && upstream->request.size == 0;
    return is_written && has_newest_certificate(upstream);
}

/* Behind an answer that ends a connection nothing was begun (RFC 9112, 9.6). But a node that has lost a log says 503
 * once, for all the requests of a connection that it had begun. One that has nothing to do with the log says so. */
static enum upstream_outcome outcome_behind(unsigned status, bool is_not_owner)
{
    return status == 503 && !is_not_owner ? UPSTREAM_UNKNOWN : UPSTREAM_NOT_BEGUN;
}

/* The first of its requests is answered. */
static void hand_over(struct upstream *upstream)
{
    struct answer_reader *read = &upstream->answer;
    const bool goes_on = answer_reader_keeps_alive(read) && (upstream->count > 1 || may_rest(upstream));
    const unsigned status = answer_reader_status(read);
    const bool is_not_owner = answer_reader_field(read, ANSWER_NOT_OWNER).size > 0;
    const struct upstream_answer answer = {
        .reply = {.status = (int)status,
                  .content_type = answer_reader_field(read, ANSWER_CONTENT_TYPE),
                  .query_error = answer_reader_field(read, ANSWER_QUERY_ERROR),
                  .request_id = answer_reader_field(read, ANSWER_REQUEST_ID),
                  .body = &read->body},
        .is_not_owner = is_not_owner,
    };
    if (!goes_on)
        close_upstream(upstream);
    count_memory(upstream, 0); /* whoever takes it counts it */
    end_call(upstream, UPSTREAM_ANSWERED, &answer);
    if (!goes_on || (upstream->count > 0 && upstream->waited_count == 0))
        fail(upstream, outcome_behind(status, is_not_owner));
    else if (upstream->count == 0 && !upstream->is_closing)
        rest(upstream);
    else
        answer_reader_begin(read);
}

/* A node that says something unasked, or not in HTTP, is left. */
static void take_bytes(struct upstream *upstream, const char *bytes, size_t size)
{
    while (size > 0 && !upstream->is_closing) {
        if (upstream->count == 0 || !upstream->has_sent) {
            fail(upstream, UPSTREAM_NOT_SENT);
            return;
        }
        size_t used;
        const enum answer_result result = answer_reader_feed(&upstream->answer, bytes, size, &used);
        const bool is_too_much = result == ANSWER_WHOLE && upstream->count == 1 && used < size;
        bytes += used;
        size -= used;
        count_memory(upstream, upstream->answer.body.capacity);
        if (result == ANSWER_BROKEN || is_too_much)
            fail(upstream, UPSTREAM_UNKNOWN);
        else if (result == ANSWER_WHOLE)
            hand_over(upstream);
    }
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static bool write_more(struct upstream *upstream);

static void on_written(uv_write_t *write, int status)
{
    struct upstream *upstream = CONTAINER_OF(write, struct upstream, write);
    upstream->is_writing = false;
    if (status == UV_ECANCELED || upstream->is_closing)
        return;
    buffer_deinit(&upstream->unsent);
    if (status != 0 || !write_more(upstream))
        fail_broken(upstream, "the connection broke");
}

/* Writes these bytes; how many of them the socket took at once, or libuv's error. Of a broken connection that is
 * noticed later, by reading. */
static ssize_t write_some(struct upstream *upstream, const void *bytes, size_t size)
{
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)size);
    const int written = uv_try_write((uv_stream_t *)&upstream->tcp, &buf, 1);
    return written == UV_EAGAIN ? 0 : written;
}

static void write_rest(struct upstream *upstream, const void *bytes, size_t size)
{
    const uv_buf_t buf = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)size);
    uv_stream_t *stream = (uv_stream_t *)&upstream->tcp;
    if (size > 0)
        upstream->is_writing = uv_write(&upstream->write, stream, &buf, 1, on_written) == 0;
}

static bool write_plain(struct upstream *upstream)
{
    const struct bytes request = upstream->request;
    if (request.size == 0)
        return true;
    const ssize_t written = write_some(upstream, request.ptr, request.size);
    if (written < 0)
        return false;
    upstream->request = BYTES("");
    write_rest(upstream, request.ptr + written, request.size - (size_t)written);
    return true;
}

/* Records that wait go, and else the next piece of the request. */
static bool write_records(struct upstream *upstream)
{
    struct buffer *records = tls_output(upstream->tls_owned);
    const bool is_piece = records->size == 0 && upstream->is_open && upstream->request.size > 0;
    if (is_piece) {
        const size_t size = upstream->request.size < PIECE_SIZE ? upstream->request.size : PIECE_SIZE;
        if (!tls_write(upstream->tls_owned, upstream->request.ptr, size))
            return false;
        upstream->request = bytes_skip(upstream->request, size);
    }
    if (records->size == 0)
        return true;
    const ssize_t written = write_some(upstream, records->data_owned, records->size);
    if (written < 0)
        return false;
    upstream->unsent = *records; /* its memory moves */
    buffer_init(records);
    write_rest(upstream, upstream->unsent.data_owned + written, upstream->unsent.size - (size_t)written);
    if (!upstream->is_writing)
        buffer_deinit(&upstream->unsent);
    return true;
}

/* Writes what there is to write, as far as the socket takes it; libuv has the rest. False: nothing of it was written,
 * or not its end, because the other end has closed the connection. */
static bool write_more(struct upstream *upstream)
{
    if (upstream->tls_owned == NULL)
        return write_plain(upstream);
    bool is_good = true;
    do {
        is_good = upstream->is_writing || write_records(upstream);
    } while (is_good && !upstream->is_writing && upstream->is_open && upstream->request.size > 0);
    count_memory(upstream, upstream->answer.body.capacity);
    return is_good;
}

/* Writes the requests that it has; from then on it takes no more of them. */
static void flush(struct upstream *upstream)
{
    struct upstream_call *first = CONTAINER_OF(list_first(&upstream->calls), struct upstream_call, link);
    end_sharing(upstream);
    upstream->has_sent = true;
    upstream->upstreams->written_total++;
    upstream->request = first->request;
    if (upstream->count > 1) {
        for (struct list_link *link = &first->link; link != NULL; link = list_next(&upstream->calls, link))
            buffer_append_bytes(&upstream->joined, CONTAINER_OF(link, struct upstream_call, link)->request);
        upstream->request = buffer_bytes(&upstream->joined);
        count_memory(upstream, 0);
    }
    if (!write_more(upstream))
        fail(upstream, UPSTREAM_NOT_SENT);
}

void upstreams_flush(struct upstreams *upstreams)
{
    struct list_link *link;
    while ((link = list_first(&upstreams->unsent)) != NULL)
        flush(CONTAINER_OF(link, struct upstream, unsent_link));
}

/* The connection is made, and both sides know with whom. */
static void open_up(struct upstream *upstream)
{
    upstream->is_open = true;
    end_opening(upstream->upstreams);
    peer_note_reached(upstream->peer);
    flush(upstream);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

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
        fail_broken(upstream, "the connection broke");
}

static void on_records_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    size_t size;
    buf->base = (char *)tls_room(upstream_of(handle)->tls_owned, &size);
    buf->len = size;
}

static void fail_tls(struct upstream *upstream)
{
    char why[PEER_TROUBLE_SIZE];
    tls_explain(upstream->tls_owned, why, sizeof(why));
    upstream->upstreams->handshakes_failed += !upstream->is_open;
    (void)write_more(upstream); /* an alert */
    fail_broken(upstream, why);
}

/* What came inside records is taken, and what the handshake answers is written. */
static enum tls_result take_records(struct upstream *upstream)
{
    enum tls_result result = TLS_MORE;
    char *room = upstream->upstreams->room;
    size_t size = 0;
    while (!upstream->is_closing &&
           (result = tls_read(upstream->tls_owned, (uint8_t *)room, UPSTREAM_READ_SIZE, &size)) == TLS_BYTES)
        take_bytes(upstream, room, size);
    return result;
}

static void on_records(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf)
{
    (void)buf;
    struct upstream *upstream = upstream_of(stream);
    tls_take(upstream->tls_owned, size > 0 ? (size_t)size : 0);
    const enum tls_result result = take_records(upstream);
    if (upstream->is_closing)
        return;
    if (result == TLS_FAILED || result == TLS_PLAIN)
        fail_tls(upstream);
    else if (result == TLS_ENDED || size < 0)
        fail_broken(upstream, "the connection broke");
    else if (!upstream->is_open && tls_is_taken(upstream->tls_owned))
        open_up(upstream);
    else if (!write_more(upstream))
        fail_broken(upstream, "the connection broke");
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

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
    uv_stream_t *stream = (uv_stream_t *)&upstream->tcp;
    const bool is_plain = upstream->tls_owned == NULL;
    if (status == UV_ECANCELED || upstream->is_closing)
        return;
    if (status == 0)
        status =
            is_plain ? uv_read_start(stream, on_allocate, on_read) : uv_read_start(stream, on_records_room, on_records);
    bear_no_silence(upstream);
    if (status != 0)
        fail_opening(upstream, uv_strerror(status));
    else if (is_plain)
        open_up(upstream);
    else if (!write_more(upstream)) /* the first words of the handshake */
        fail_opening(upstream, "the connection broke");
}

static struct upstream *create(struct upstreams *upstreams, struct peer *peer)
{
    struct upstream *upstream = memory_allocate_zeroed(sizeof(*upstream));
    upstream->upstreams = upstreams;
    upstream->peer = peer;
    peer->users++;
    upstream->socket = *peer_socket(peer);
    upstream->begun_ms = uv_now(upstreams->loop);
    if (upstreams->tls != NULL) {
        upstream->tls_owned = tls_connect(upstreams->tls, peer->address.host);
        upstream->certificate = tls_context_loaded_count(upstreams->tls);
    }
    answer_reader_init(&upstream->answer, upstreams->answer_size_max);
    list_init(&upstream->calls);
    buffer_init(&upstream->joined);
    buffer_init(&upstream->unsent);
    const int status = uv_tcp_init(upstreams->loop, &upstream->tcp);
    ASSERT(status == 0); /* makes no socket yet */
    uv_unref((uv_handle_t *)&upstream->tcp);
    list_prepend(&upstreams->busy, &upstream->link);
    upstreams->count++;
    upstreams->opening_count++;
    upstreams->opened_total++;
    return upstream;
}

/* Does it lead to the peer as that is found and known today? */
static bool leads_to(const struct upstream *upstream, const struct peer *peer)
{
    return upstream->peer == peer && peer_has_socket(peer, &upstream->socket) && has_newest_certificate(upstream);
}

static struct upstream *take_idle(struct upstreams *upstreams, struct peer *peer)
{
    for (struct list_link *link = list_first(&upstreams->idle); link != NULL;
         link = list_next(&upstreams->idle, link)) {
        struct upstream *upstream = CONTAINER_OF(link, struct upstream, link);
        if (!leads_to(upstream, peer))
            continue;
        list_remove(link);
        list_prepend(&upstreams->busy, link);
        return upstream;
    }
    return NULL;
}

/* One that takes more requests of this key; NULL: none does. */
static struct upstream *find_shared(struct upstreams *upstreams, const struct peer *peer, uint64_t key, size_t size)
{
    struct upstream *upstream = key == 0 ? NULL : *slot_of(upstreams, key);
    if (upstream == NULL || upstream->key != key || !leads_to(upstream, peer))
        return NULL;
    const bool has_room = upstream->count < UPSTREAM_SHARED_MAX && size <= UPSTREAM_SHARED_SIZE_MAX - upstream->size;
    return has_room ? upstream : NULL;
}

static struct upstream *open_anew(struct upstreams *upstreams, struct peer *peer)
{
    if (upstreams->opening_count >= (upstreams->tls == NULL ? UPSTREAM_OPENING_MAX : UPSTREAM_SHAKING_MAX))
        return NULL;
    struct upstream *upstream = create(upstreams, peer);
    const int status =
        uv_tcp_connect(&upstream->connect, &upstream->tcp, (const struct sockaddr *)&upstream->socket, on_connected);
    if (status == 0) {
        (void)uv_tcp_nodelay(&upstream->tcp, 1);
        return upstream;
    }
    peer_note_failure(peer, upstream->begun_ms, uv_strerror(status));
    close_upstream(upstream);
    return NULL;
}

/* It has its first request. */
static void begin(struct upstream *upstream, uint64_t key, size_t size)
{
    const bool is_shared = key != 0 && size <= UPSTREAM_SHARED_SIZE_MAX;
    upstream->has_sent = false;
    upstream->size = 0;
    upstream->key = is_shared ? key : 0;
    if (is_shared)
        *slot_of(upstream->upstreams, key) = upstream;
    if (upstream->is_open)
        list_append(&upstream->upstreams->unsent, &upstream->unsent_link);
    answer_reader_begin(&upstream->answer);
}

static struct upstream_call *add(struct upstream *upstream, struct bytes request, upstream_cb done, void *context)
{
    struct upstream_call *call = memory_allocate(sizeof(*call));
    *call = (struct upstream_call){.upstream = upstream, .request = request, .done = done, .context = context};
    list_append(&upstream->calls, &call->link);
    upstream->count++;
    upstream->waited_count++;
    upstream->size += request.size;
    return call;
}

struct upstream_call *upstream_send(struct upstreams *upstreams, struct peer *peer, uint64_t key, struct bytes request,
                                    upstream_cb done, void *context)
{
    struct upstream *shared = find_shared(upstreams, peer, key, request.size);
    if (shared != NULL && shared->is_open)
        return add(shared, request, done, context);
    struct upstream *upstream = take_idle(upstreams, peer);
    if (upstream == NULL && shared != NULL)
        return add(shared, request, done, context);
    if (upstream == NULL)
        upstream = open_anew(upstreams, peer);
    if (upstream == NULL)
        return NULL;
    begin(upstream, key, request.size);
    return add(upstream, request, done, context);
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

void upstreams_init(struct upstreams *upstreams, uv_loop_t *loop, const struct tls_context *tls,
                    struct reply_budget *replies, size_t answer_size_max, void (*freed)(void *context), void *context)
{
    upstreams->tls = tls;
    upstreams->loop = loop;
    upstreams->replies = replies;
    upstreams->answer_size_max = answer_size_max;
    upstreams->freed = freed;
    upstreams->context = context;
    list_init(&upstreams->idle);
    list_init(&upstreams->busy);
    list_init(&upstreams->unsent);
}

static void close_all(struct list *list)
{
    struct list_link *link;
    while ((link = list_first(list)) != NULL) {
        struct upstream *upstream = CONTAINER_OF(link, struct upstream, link);
        close_upstream(upstream);
        while (!list_is_empty(&upstream->calls))
            free_call(CONTAINER_OF(list_first(&upstream->calls), struct upstream_call, link));
    }
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
        if (now_ms - upstream->idle_since_ms > idle_ms)
            close_upstream(upstream);
    }
}
