/* TLS between a socket and a connection: OpenSSL over memory. Knows neither socket nor loop, so that the same code runs
 * under unit tests and the fuzzer.
 *
 *     records from the client   tls_room(), tls_take()  ->  tls_read()    what they say
 *     records for the client    tls_output()            <-  tls_write()   what is to be said
 *
 * TLS 1.2 and 1.3; no renegotiation, no compression, no client certificates, no early data; of the protocols that a
 * client offers only HTTP/1.1 is chosen. The handshake happens inside tls_read().
 *
 * Memory is bounded by the caller: records that were taken wait until tls_read() has asked for all they say, records to
 * send until the caller has sent them. A connection at rest holds neither. OpenSSL sees only records that are whole,
 * because it takes buffers of its own for the beginning of one. One thread. */
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
    TLS_PLAIN,  /* it is plain HTTP, by its first byte; nothing was read, and there will be no session */
    TLS_FAILED, /* not TLS, or not one that we speak; an alert that says so may be in tls_output() */
};

/* Without a certificate yet: tls_context_load() before the first session. */
struct tls_context *tls_context_create(void);

/* Sessions may outlive it no longer than this call. */
void tls_context_destroy(struct tls_context *context);

/* Reads the certificate, followed by those that vouch for it, and its private key, both PEM and the key not encrypted.
 * Sessions made from now on use them; those that there are keep theirs. ERROR_INVALID_PARAMETER_VALUE if a file can't
 * be read, is not what it should be, or the key is not the certificate's: then nothing changes. */
enum error tls_context_load(struct tls_context *context, const char *certificate, const char *key,
                            struct failure *failure);

struct tls *tls_create(const struct tls_context *context);
void tls_destroy(struct tls *tls);

/* Where records from the client go, and how much in *size; then how many bytes came, which may be 0. */
uint8_t *tls_room(struct tls *tls, size_t *size);
void tls_take(struct tls *tls, size_t size);

/* Moves what the client says to `room`; *size is set with TLS_BYTES only. `room_size` is not 0. */
enum tls_result tls_read(struct tls *tls, uint8_t *room, size_t room_size, size_t *size);

/* What it has beyond a session at rest: records that wait, and what OpenSSL may take for a handshake
 * that has begun and is not over. */
size_t tls_memory(const struct tls *tls);

/* Gives back the memory that the records which wait do not need; for a while nothing is taken. */
void tls_fit(struct tls *tls);

/* Something was taken that tls_read() has not looked at. */
bool tls_has_unread(const struct tls *tls);

/* Makes records of `data`; only once tls_is_open(). False if the session has failed. */
bool tls_write(struct tls *tls, const void *data, size_t size);

/* Says that nothing more comes (close_notify), where there is still somebody to tell. */
void tls_end(struct tls *tls);

/* The records to send. The caller empties it, or takes its memory and leaves an empty buffer. */
struct buffer *tls_output(struct tls *tls);

/* The handshake is over. */
bool tls_is_open(const struct tls *tls);

#endif
