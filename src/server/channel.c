#include "server/channel.h"

#include "base/assert.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Records that only answer the client's records (alerts, new keys) pile up while the client does not read. A client
 * that makes us produce more than this is hostile. */
#define CHANNEL_ANSWERS_MAX ((size_t)4 * 1024)

static struct channel *channel_of(uv_handle_t *handle)
{
    return CONTAINER_OF(handle, struct channel, handle.any);
}

void channel_init(struct channel *channel, uv_loop_t *loop, enum listener_kind kind, const struct tls_context *context,
                  const struct channel_events *events)
{
    channel->events = events;
    if (listener_has_tls(kind))
        channel->tls_owned = tls_create(context);
    int status =
        listener_is_path(kind) ? uv_pipe_init(loop, &channel->handle.pipe, 0) : uv_tcp_init(loop, &channel->handle.tcp);
    ASSERT(status == 0); /* it makes no socket yet, so it can't fail */
}

int channel_accept(struct channel *channel, uv_stream_t *listener)
{
    int status = uv_accept(listener, &channel->handle.stream);
    if (status == 0 && channel->handle.any.type == UV_TCP)
        uv_tcp_nodelay(&channel->handle.tcp, 1);
    return status;
}

/* --- Out ---------------------------------------------------------------------------------------------------------- */

static void on_written(uv_write_t *request, int status);

/* Lets libuv write `unsent` as the client reads. */
static int channel_write_unsent(struct channel *channel)
{
    uv_buf_t buf = uv_buf_init((char *)channel->unsent.data_owned, (unsigned)channel->unsent.size);
    channel->write_begun_ms = uv_now(channel->handle.any.loop);
    int status = uv_write(&channel->write, &channel->handle.stream, &buf, 1, on_written);
    channel->is_writing = status == 0;
    return status;
}

static size_t pieces_size(const uv_buf_t *pieces, unsigned count)
{
    size_t size = 0;
    for (unsigned i = 0; i < count; i++)
        size += pieces[i].len;
    return size;
}

/* Appends to `rest` the bytes after the first `written` ones. */
static void copy_rest(const uv_buf_t *pieces, unsigned count, size_t written, struct buffer *rest)
{
    for (unsigned i = 0; i < count; i++) {
        if (written >= pieces[i].len) {
            written -= pieces[i].len;
        } else {
            buffer_append(rest, pieces[i].base + written, pieces[i].len - written);
            written = 0;
        }
    }
}

/* How many bytes the socket takes at once, or libuv's error. uv_try_write() does the same with write(), which works for
 * any file; send() needs a fifth less time for a socket. */
static ssize_t channel_send(struct channel *channel, const uv_buf_t *pieces, unsigned count)
{
    uv_os_fd_t socket;
    int status = uv_fileno(&channel->handle.any, &socket);
    if (status != 0)
        return status;
    static_assert(sizeof(uv_buf_t) == sizeof(struct iovec), "libuv promises that they are laid out alike");
    const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces, .msg_iovlen = count};
    ssize_t sent;
    do {
        sent = count == 1 ? send(socket, pieces->base, pieces->len, MSG_DONTWAIT | MSG_NOSIGNAL)
                          : sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return sent;
    return errno == ENOBUFS ? UV_EAGAIN : uv_translate_sys_error(errno); /* libuv, too, tries again later */
}

static int channel_write_plain(struct channel *channel, const uv_buf_t *pieces, unsigned count)
{
    ssize_t result = channel_send(channel, pieces, count);
    if (result < 0 && result != UV_EAGAIN)
        return (int)result;
    size_t written = result < 0 ? 0 : (size_t)result;
    if (written == pieces_size(pieces, count))
        return 0;
    ASSERT(channel->unsent.size == 0);
    (void)buffer_reserve(&channel->unsent, pieces_size(pieces, count) - written); /* at once, because it may be
                                                                                   * megabytes */
    copy_rest(pieces, count, written, &channel->unsent);
    return channel_write_unsent(channel);
}

/* Sends the records that TLS has ready, after those that are being sent, if there are any. */
static int channel_write_records(struct channel *channel)
{
    struct buffer *records = tls_output(channel->tls_owned);
    if (channel->is_writing)
        return records->size > CHANNEL_ANSWERS_MAX ? UV_EPROTO : 0;
    if (records->size == 0)
        return 0;
    uv_buf_t buf = uv_buf_init((char *)records->data_owned, (unsigned)records->size);
    int status = channel_write_plain(channel, &buf, 1);
    buffer_deinit(records);
    return status;
}

int channel_write(struct channel *channel, const uv_buf_t *pieces, unsigned count)
{
    ASSERT(!channel->is_writing && channel_is_open(channel));
    if (channel->tls_owned == NULL)
        return channel_write_plain(channel, pieces, count);
    for (unsigned i = 0; i < count; i++)
        if (!tls_write(channel->tls_owned, pieces[i].base, pieces[i].len))
            return UV_EPROTO;
    return channel_write_records(channel);
}

static void on_written(uv_write_t *request, int status)
{
    struct channel *channel = channel_of((uv_handle_t *)request->handle);
    channel->is_writing = false;
    buffer_deinit(&channel->unsent);
    if (status == 0 && channel->tls_owned != NULL)
        status = channel_write_records(channel);
    if (!channel->is_writing)
        channel->events->written(channel, status);
}

static void channel_shut_down(struct channel *channel, int how)
{
    uv_os_fd_t socket;
    if (uv_fileno(&channel->handle.any, &socket) == 0)
        shutdown(socket, how);
}

static void channel_end_records(struct channel *channel)
{
    if (channel->tls_owned != NULL && !channel->is_writing) {
        tls_end(channel->tls_owned);
        struct buffer *records = tls_output(channel->tls_owned);
        uv_buf_t buf = uv_buf_init((char *)records->data_owned, (unsigned)records->size);
        if (records->size > 0)
            uv_try_write(&channel->handle.stream, &buf, 1); /* so few bytes that they may be dropped if the socket is
                                                             * full */
        buffer_deinit(records);
    }
}

void channel_end(struct channel *channel)
{
    ASSERT(!channel->is_writing);
    channel_end_records(channel);
    channel_shut_down(channel, SHUT_WR);
}

static void channel_free_tls(struct channel *channel)
{
    if (channel->tls_owned != NULL)
        tls_destroy(channel->tls_owned);
    channel->tls_owned = NULL;
}

void channel_close(struct channel *channel, uv_close_cb closed)
{
    channel_end_records(channel);
    /* A snapshot's child process may hold a copy of the socket. Without this, the client would see the end only when
     * that process ends. */
    channel_shut_down(channel, SHUT_RDWR);
    channel->is_reading = false;
    /* Now: `closed` is called only after all that is ready has been read, which may be thousands of handshakes. */
    channel_free_tls(channel);
    uv_close(&channel->handle.any, closed);
}

void channel_deinit(struct channel *channel)
{
    buffer_deinit(&channel->unsent);
    channel_free_tls(channel);
}

/* --- In ----------------------------------------------------------------------------------------------------------- */

static void on_records_room(uv_handle_t *handle, size_t suggested_size, uv_buf_t *buf)
{
    (void)suggested_size;
    size_t size;
    buf->base = (char *)tls_room(channel_of(handle)->tls_owned, &size);
    buf->len = size;
}

/* The next bytes inside the records: their number, or the status that libuv would give instead. */
static ssize_t channel_read_records(struct channel *channel, const uv_buf_t *buf)
{
    size_t size = 0;
    enum tls_result result = tls_read(channel->tls_owned, (uint8_t *)buf->base, buf->len, &size);
    int status = channel_write_records(channel); /* the answer of the handshake, or an alert */
    if (status != 0)
        return status;
    if (result == TLS_ENDED)
        return UV_EOF;
    if (result == TLS_PLAIN) {
        channel_free_tls(channel);
        return CHANNEL_PLAIN;
    }
    return result == TLS_FAILED ? UV_EPROTO : (ssize_t)size;
}

void channel_deliver(struct channel *channel)
{
    ssize_t size = 1;
    while (channel->is_reading && size > 0) {
        uv_buf_t buf = uv_buf_init(NULL, 0);
        channel->events->allocate(&channel->handle.any, 0, &buf);
        size = buf.len == 0 ? UV_ENOBUFS : channel_read_records(channel, &buf);
        if (size < 0 && size != UV_ENOBUFS)
            channel_read_stop(channel);
        channel->events->read(&channel->handle.stream, size, &buf);
    }
}

static void on_records(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf)
{
    struct channel *channel = channel_of((uv_handle_t *)stream);
    tls_take(channel->tls_owned, size > 0 ? (size_t)size : 0);
    channel_deliver(channel);
    /* An end without a close_notify counts as an end, too: HTTP's lengths show whether something was cut off. */
    if (size < 0 && channel->is_reading) {
        channel->is_reading = false;
        channel->events->read(stream, size, buf);
    }
}

bool channel_has_unread(const struct channel *channel)
{
    return channel->tls_owned != NULL && tls_has_unread(channel->tls_owned);
}

void channel_fit(struct channel *channel)
{
    if (channel->tls_owned != NULL)
        tls_fit(channel->tls_owned);
}

void channel_read_start(struct channel *channel)
{
    channel->is_reading = true;
    if (channel->tls_owned != NULL)
        uv_read_start(&channel->handle.stream, on_records_room, on_records);
    else
        uv_read_start(&channel->handle.stream, channel->events->allocate, channel->events->read);
}

void channel_read_stop(struct channel *channel)
{
    channel->is_reading = false;
    uv_read_stop(&channel->handle.stream);
}

struct bytes channel_own_name(const struct channel *channel, struct arena *arena)
{
    struct sockaddr_storage address;
    int size = sizeof(address);
    char host[INET6_ADDRSTRLEN];
    if (!channel_is_tcp(channel) || uv_tcp_getsockname(&channel->handle.tcp, (struct sockaddr *)&address, &size) != 0 ||
        uv_ip_name((const struct sockaddr *)&address, host, sizeof(host)) != 0)
        return BYTES("localhost");
    /* The port is at the same offset in both kinds of address. */
    unsigned port = ntohs(((const struct sockaddr_in *)&address)->sin_port);
    if (address.ss_family == AF_INET6)
        return arena_format(arena, "[%s]:%u", host, port);
    return arena_format(arena, "%s:%u", host, port);
}

#define MAPPED "::ffff:" /* before an address of IPv4, at a listener of IPv6 */

void channel_client_address(const struct channel *channel, char *text, size_t size)
{
    struct sockaddr_storage address;
    int address_size = sizeof(address);
    text[0] = '\0';
    if (channel_is_tcp(channel) &&
        uv_tcp_getpeername(&channel->handle.tcp, (struct sockaddr *)&address, &address_size) == 0)
        (void)uv_ip_name((const struct sockaddr *)&address, text, size);
    if (strncmp(text, MAPPED, strlen(MAPPED)) == 0 && strchr(text, '.') != NULL)
        memmove(text, text + strlen(MAPPED), strlen(text + strlen(MAPPED)) + 1);
}
