/* HTTP for the client: one request, one answer, on a connection that is kept open. Hides libcurl.
 *
 * Knows nothing of JSON, actions or retries. A transport belongs to one thread; only transport_interrupt() may be
 * called from another one. */
#ifndef TALLY_CLIENT_TRANSPORT_H
#define TALLY_CLIENT_TRANSPORT_H

#include "base/buffer.h"

struct transport;

struct transport_options {
    const char *url;     /* where every request goes */
    const char *socket;  /* the path of the Unix socket that leads there; NULL: TCP */
    const char *ca_file; /* PEM: who may vouch for an https server; NULL: whom the system trusts */
    const char *region;
    const char *access_key_id;     /* NULL: requests are not signed */
    const char *secret_access_key; /* NULL as the one before */
    const char *session_token;     /* NULL: none */
    const char *worker;            /* what the client calls itself; NULL: nothing */
    unsigned timeout_ms;           /* for a whole exchange */
};

enum transport_result {
    TRANSPORT_ANSWERED,
    TRANSPORT_NOT_SENT,    /* no byte of the request can have arrived */
    TRANSPORT_LOST,        /* the request may have arrived, no whole answer came */
    TRANSPORT_INTERRUPTED, /* may have arrived, too */
};

#define TRANSPORT_REASON_SIZE 256
#define TRANSPORT_CODE_SIZE 80

struct transport_answer {
    int status;                            /* HTTP status; if answered */
    unsigned retry_after_s;                /* how long the server wants to be left alone; 0: it does not say */
    char query_error[TRANSPORT_CODE_SIZE]; /* x-amzn-query-error, cut to fit; "": there was none */
    bool has_request_id;                   /* x-amzn-RequestId: Tally and Amazon SQS give one with each answer */
    bool was_sent_again;                   /* on another connection, as the first one ended without an answer */
    int64_t date_s;                        /* Date, since the epoch; -1: it does not say */
    bool is_not_tls;                       /* not answered: https was asked for, and something else is spoken there */
    char reason[TRANSPORT_REASON_SIZE];    /* why not; otherwise */
};

/* Copies what the options point to. The caller ends it with transport_destroy(). */
struct transport *transport_create(const struct transport_options *options);
void transport_destroy(struct transport *transport);

/* Posts `body` with X-Amz-Target `target` and appends the answer's body to `text`. With `once`, the request is put on
 * the wire at most once, whatever happens to a connection that had been kept open. */
enum transport_result transport_post(struct transport *transport, const char *target, const char *body,
                                     size_t body_size, bool once, struct buffer *text, struct transport_answer *answer);

/* Asks for the page at `path` and appends it to `text`. The signature, if there is one, is that of another path. */
enum transport_result transport_get(struct transport *transport, const char *path, struct buffer *text,
                                    struct transport_answer *answer);

/* From now on; 1 at least. */
void transport_set_timeout(struct transport *transport, unsigned timeout_ms);

/* Waits; ends early, with false, when interrupted. */
bool transport_sleep(struct transport *transport, unsigned milliseconds);

/* Ends transport_post() and transport_sleep(), now and later, until transport_resume(). Any thread. */
void transport_interrupt(struct transport *transport);
void transport_resume(struct transport *transport);

#endif
