/* TLS between a socket and a connection: OpenSSL over memory. Knows neither socket nor loop, so unit tests and the
 * fuzzer run the same code.
 *
 *     records from the client   tls_room(), tls_take()  ->  tls_read()    what they say
 *     records for the client    tls_output()            <-  tls_write()   what is to be said
 *
 * TLS 1.2 and 1.3; no renegotiation, no compression, no client certificates, no early data. Of the protocols that a
 * client offers, only HTTP/1.1 is chosen. The handshake happens inside tls_read().
 *
 * The caller bounds the memory: received records wait until tls_read() has asked for all their bytes, and records to
 * send wait until the caller has sent them. A connection at rest holds neither. OpenSSL sees only complete records,
 * because it allocates buffers for the beginning of one. One thread. */
#ifndef TALLY_SERVER_TLS_H
#define TALLY_SERVER_TLS_H

#include "base/buffer.h"
#include "base/error.h"

struct tls_context; /* a certificate with its key, and what all sessions share */
struct tls;         /* one session: one connection's */

enum tls_result {
    TLS_BYTES,  /* some came out */
    TLS_MORE,   /* nothing comes out until more records are taken */
    TLS_ENDED,  /* the client has said that nothing more comes */
    TLS_PLAIN,  /* plain HTTP, judged by its first byte; nothing was read, and there will be no session */
    TLS_FAILED, /* not TLS, or not a version that we speak; tls_output() may have an alert that says so */
};

/* Has no certificate yet: call tls_context_load() before the first session. */
struct tls_context *tls_context_create(void);

/* No session may be used after this call. */
void tls_context_destroy(struct tls_context *context);

/* Reads the certificate, followed by those that vouch for it, and its private key. Both are PEM, and the key is not
 * encrypted. Later sessions use them; existing sessions keep theirs. ERROR_INVALID_PARAMETER_VALUE if a file can't be
 * read or is not valid, or the key does not fit the certificate: then nothing changes. */
enum error tls_context_load(struct tls_context *context, const char *certificate, const char *key,
                            struct failure *failure);

struct tls *tls_create(const struct tls_context *context);
void tls_destroy(struct tls *tls);

/* Room for records from the client, with its size in *size; then, how many bytes came, which may be 0. */
uint8_t *tls_room(struct tls *tls, size_t *size);
void tls_take(struct tls *tls, size_t size);

/* Moves the client's decrypted bytes to `room`; *size is set with TLS_BYTES only. `room_size` is not 0. */
enum tls_result tls_read(struct tls *tls, uint8_t *room, size_t room_size, size_t *size);

/* Its memory beyond a session at rest: waiting records, and what OpenSSL may take for an unfinished handshake. */
size_t tls_memory(const struct tls *tls);

/* Gives back the memory that the waiting records do not need. Call it when no more records come for a while. */
void tls_fit(struct tls *tls);

/* Records were taken that tls_read() has not read yet. */
bool tls_has_unread(const struct tls *tls);

/* Makes records of `data`; only once tls_is_open(). False if the session has failed. */
bool tls_write(struct tls *tls, const void *data, size_t size);

/* Tells the client that nothing more comes (close_notify), if it can still be told. */
void tls_end(struct tls *tls);

/* The records to send. The caller empties it, or takes its memory and leaves an empty buffer. */
struct buffer *tls_output(struct tls *tls);

/* The handshake is over. */
bool tls_is_open(const struct tls *tls);

#endif
