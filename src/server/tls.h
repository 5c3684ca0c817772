/* TLS between a socket and a connection: OpenSSL over memory. Knows neither socket nor loop, so unit tests and the
 * fuzzer run the same code.
 *
 *     records from the client   tls_room(), tls_take()  ->  tls_read()    what they say
 *     records for the client    tls_output()            <-  tls_write()   what is to be said
 *
 * TLS 1.2 and 1.3; no renegotiation, no compression, no early data. Clients show no certificates. Of the protocols that
 * a client offers, only HTTP/1.1 is chosen. The handshake happens inside tls_read().
 *
 * Between two nodes of a cluster it is TLS 1.3. Each shows a certificate that the cluster's own authority has issued,
 * and that of the node which is connected to names the host by which it is reached. Such sessions are not resumed:
 * connections are kept, so handshakes are rare, and a session that is resumed would outlive its certificate. Where the
 * following says "client", it is then the other node.
 *
 * The caller bounds the memory: received records wait until tls_read() has asked for all their bytes, and records to
 * send wait until the caller has sent them. A connection at rest holds neither. OpenSSL sees only complete records,
 * because it allocates buffers for the beginning of one. One thread. */
#ifndef TALLY_SERVER_TLS_H
#define TALLY_SERVER_TLS_H

#include "base/buffer.h"
#include "base/error.h"
#include "server/tls_files.h"

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
struct tls_context *tls_context_create(enum tls_use use);

/* No session may be used after this call. */
void tls_context_destroy(struct tls_context *context);

/* Reads the files. Later sessions use them; existing sessions keep what they have. ERROR_INVALID_PARAMETER_VALUE if a
 * file can't be read or is not valid, or the key does not fit the certificate: then nothing changes. */
enum error tls_context_load(struct tls_context *context, const struct tls_files *files, struct failure *failure);

/* Would other nodes take the certificate from a node at `host`? As tls_certificate_suits(). TLS_FOR_NODES. */
bool tls_context_suits(const struct tls_context *context, const char *host, char *text, size_t size);

/* When the certificate expires, in seconds since the epoch; 0: there is none. */
int64_t tls_context_expires_s(const struct tls_context *context);

/* How often certificates came into force: sessions from before have others. */
uint64_t tls_context_loaded_count(const struct tls_context *context);

/* Accepts; or, with TLS_FOR_NODES, connects to the node at `host`, a name or an IP address without brackets. The first
 * records are in tls_output() then. */
struct tls *tls_create(const struct tls_context *context);
struct tls *tls_connect(const struct tls_context *context, const char *host);
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

/* Of one that has connected: the other node has taken our certificate, too. What is written before may be lost. */
bool tls_is_taken(const struct tls *tls);

/* Did the other side show a certificate that can't be trusted? */
bool tls_has_judged(const struct tls *tls);

/* Why it failed, as a clause about the other side: "it has shown no certificate". Empty: it has not failed. */
void tls_explain(const struct tls *tls, char *text, size_t size);

#endif
