/* A channel: the bytes of one connection, in and out. The connection does not see whether they travel over TCP, over
 * TLS on TCP or over a Unix socket.
 *
 * Bytes come in as from libuv, through a uv_alloc_cb and a uv_read_cb. Over TLS the channel calls the two with the
 * decrypted bytes, and calls them a last time with no bytes. Only one write is in work at a time. Knows nothing of
 * HTTP, except that a client may speak it although TLS was expected. */
#ifndef TALLY_SERVER_CHANNEL_H
#define TALLY_SERVER_CHANNEL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "server/options.h"
#include "server/tls.h"

#include <uv.h>

struct channel;

/* Given to the read callback once, in place of a size: the client speaks plain HTTP although TLS was expected. From
 * then on this channel does so too, in order to answer the client. The bytes that the client has sent are lost. */
#define CHANNEL_PLAIN UV_EPROTOTYPE

/* A write that channel_write() could not finish at once is over; `status` is 0 or libuv's error. */
typedef void (*channel_written_cb)(struct channel *channel, int status);

/* The callbacks of a channel to its connection; the same for all of them. */
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
    struct buffer unsent;  /* the bytes that the socket did not take at once */
    uv_write_t write;
    uint64_t write_begun_ms; /* loop time */
    bool is_reading;         /* bytes are asked for */
    bool is_writing;         /* `unsent` is on its way */
};

/* Prepares to accept from a listener of that kind; `context` is for those with TLS. In zeroed memory. */
void channel_init(struct channel *channel, uv_loop_t *loop, enum listener_kind kind, const struct tls_context *context,
                  const struct channel_events *events);

/* Takes the listener's next connection. After a libuv error the channel must still be closed. */
int channel_accept(struct channel *channel, uv_stream_t *listener);

void channel_read_start(struct channel *channel);
void channel_read_stop(struct channel *channel);

/* Bytes arrived that nobody asked for. After channel_read_start() the caller must let them be delivered soon, because
 * the socket won't bring them again. */
bool channel_has_unread(const struct channel *channel);

/* Calls events->read with the bytes that have arrived, as long as they are asked for. Must not be called from inside
 * that callback. */
void channel_deliver(struct channel *channel);

/* Writes the pieces and does not keep them; only while !is_writing and channel_is_open(). Bytes that the socket does
 * not take at once are copied, and sent as the client reads. A libuv error if the connection is broken. */
int channel_write(struct channel *channel, const uv_buf_t *pieces, unsigned count);

/* Tells the client that nothing more comes; only while !is_writing. Reading may go on. */
void channel_end(struct channel *channel);

/* Closes it at once. `closed` is called later, with the handle; then call channel_deinit(). */
void channel_close(struct channel *channel, uv_close_cb closed);
void channel_deinit(struct channel *channel);

/* Or over a Unix socket? */
static inline bool channel_is_tcp(const struct channel *channel)
{
    return channel->handle.any.type == UV_TCP;
}

/* The host and port at which its client has reached it, in the arena; "localhost" over a Unix socket. */
struct bytes channel_own_name(const struct channel *channel, struct arena *arena);

/* The address of its client: "10.0.0.2"; empty where there is none. */
void channel_client_address(const struct channel *channel, char *text, size_t size);

/* How much memory received bytes take, beyond a channel at rest. */
static inline size_t channel_memory(const struct channel *channel)
{
    return channel->tls_owned == NULL ? 0 : tls_memory(channel->tls_owned);
}

/* Gives back the memory that received bytes do not need, until more come. */
void channel_fit(struct channel *channel);

/* Bytes may be written to it. Always true, except during a TLS handshake. */
static inline bool channel_is_open(const struct channel *channel)
{
    return channel->tls_owned == NULL || tls_is_open(channel->tls_owned);
}

#endif
