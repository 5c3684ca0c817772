/* A channel: the bytes of one connection, in and out. For the connection it is the same whether they travel over TCP,
 * over TLS on TCP or over a Unix socket.
 *
 * Bytes come in as libuv brings them, through a uv_alloc_cb and a uv_read_cb; over TLS the channel calls the two with
 * what the records say, the last time with no bytes. One write is in work at a time. Knows nothing of HTTP, but that a
 * client may speak it where TLS was expected. */
#ifndef TALLY_SERVER_CHANNEL_H
#define TALLY_SERVER_CHANNEL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "server/options.h"
#include "server/tls.h"

#include <uv.h>

struct channel;

/* What the read callback is told, once, in place of a size: the client speaks plainly where TLS was expected. From then
 * on this channel does so too, in order to tell the client; what the client has sent is gone. */
#define CHANNEL_PLAIN UV_EPROTOTYPE

/* A write that channel_write() could not finish at once is over; `status` is 0 or libuv's error. */
typedef void (*channel_written_cb)(struct channel *channel, int status);

/* What a channel tells its connection; the same for all of them. */
struct channel_events {
    uv_alloc_cb allocate;
    uv_read_cb read;
    channel_written_cb written;
};

struct channel {
    union {
        uv_handle_t any;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } handle; /* first: callbacks of libuv find the channel by it */
    const struct channel_events *events;
    struct tls *tls_owned; /* NULL: plain bytes */
    struct buffer unsent;  /* what the socket did not take at once */
    uv_write_t write;
    uint64_t write_begun_ms; /* loop time */
    bool is_reading;         /* bytes are asked for */
    bool is_writing;         /* `unsent` is on its way */
};

/* Gets ready to accept from a listener of that kind; `context` is for LISTENER_TLS. In zeroed memory. */
void channel_init(struct channel *channel, uv_loop_t *loop, enum listener_kind kind, const struct tls_context *context,
                  const struct channel_events *events);

/* Takes the listener's next connection; a libuv error if that went wrong, and the channel has still to be closed. */
int channel_accept(struct channel *channel, uv_stream_t *listener);

void channel_read_start(struct channel *channel);
void channel_read_stop(struct channel *channel);

/* Bytes arrived that were not asked for: after channel_read_start() the caller must have them delivered soon, for the
 * socket won't bring them a second time. */
bool channel_has_unread(const struct channel *channel);

/* Calls events->read with what has arrived, as long as it is asked for. Not from inside that callback. */
void channel_deliver(struct channel *channel);

/* Writes the pieces, which it does not keep; only while !is_writing and channel_is_open(). What the socket does not
 * take at once is copied, and goes as the client reads. A libuv error if the connection is broken. */
int channel_write(struct channel *channel, const uv_buf_t *pieces, unsigned count);

/* Tells the client that nothing more comes; only while !is_writing. Reading may go on. */
void channel_end(struct channel *channel);

/* Closes it at once; `closed` is called later, on the handle, and then channel_deinit() is due. */
void channel_close(struct channel *channel, uv_close_cb closed);
void channel_deinit(struct channel *channel);

/* Or over a Unix socket? */
static inline bool channel_is_tcp(const struct channel *channel)
{
    return channel->handle.any.type == UV_TCP;
}

/* Host and port where its client has reached it, in the arena; "localhost" over a Unix socket. */
struct bytes channel_own_name(const struct channel *channel, struct arena *arena);

/* Memory beyond a channel at rest that what was received takes. */
static inline size_t channel_memory(const struct channel *channel)
{
    return channel->tls_owned == NULL ? 0 : tls_memory(channel->tls_owned);
}

/* Gives back the memory that bytes which have come do not need, until more come. */
void channel_fit(struct channel *channel);

/* Its bytes may be written: always so, but for a TLS handshake that is not over. */
static inline bool channel_is_open(const struct channel *channel)
{
    return channel->tls_owned == NULL || tls_is_open(channel->tls_owned);
}

#endif
