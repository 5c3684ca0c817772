/* Reads HTTP/1.x requests from the bytes of a connection: the code around llhttp.
 *
 * Knows nothing of sockets. It is given all bytes from the start of a request, again and again, until the request is
 * complete. The fuzzer runs the same code. Keeps offsets, never pointers, because the caller may move the bytes between
 * two calls.
 *
 * Strict if two readers of one request could disagree (request smuggling): no Content-Length beside Transfer-Encoding,
 * none twice, no other transfer coding than "chunked", no bare CR or LF, no folded header line, no blank before a
 * colon, no trailers, no chunk extensions, one Host. Host is a plain host and port, the same as in an absolute request
 * target. Limits are checked before anything is stored. */
#ifndef TALLY_SERVER_HTTP_H
#define TALLY_SERVER_HTTP_H

#include "api/exchange.h"
#include "server/chunks.h"

#include <llhttp.h>

/* llhttp 8, which Debian 12 ships, sets its strictness at compile time. That happens in llhttp.c. Whoever builds that
 * file gives us the same flags, so check them here. */
#if LLHTTP_VERSION_MAJOR < 9 && !LLHTTP_STRICT_MODE
#error                                                                                                                 \
    "llhttp must be built, and used, with -DLLHTTP_STRICT_MODE=1: without it bytes behind a chunk are skipped unseen."
#endif

struct http_limits {
    size_t head_size_max; /* bytes: request line and header fields, before another node adds its own */
    size_t body_size_max; /* bytes, without the framing of chunks; at most HTTP_BODY_SIZE_LIMIT */
};

/* Bytes that a node may add to the head of a request that it passes on (onward_request.h). */
#define HTTP_NODE_ADDS_MAX 320u

/* Offsets are 32 bits wide. */
#define HTTP_BODY_SIZE_LIMIT ((size_t)1 << 30)

/* The header fields that we read, or that may not appear twice. All others are checked and ignored. */
enum http_field {
    HTTP_FIELD_HOST,
    HTTP_FIELD_TARGET,
    HTTP_FIELD_CONTENT_TYPE,
    HTTP_FIELD_ACCEPT, /* may appear twice, like HTTP_FIELD_WORKER; the first counts */
    HTTP_FIELD_TRACE,
    HTTP_FIELD_TRACEPARENT, /* like the next, may appear twice; then it counts as absent */
    HTTP_FIELD_TRACESTATE,
    HTTP_FIELD_EXPECT,
    HTTP_FIELD_TRANSFER_ENCODING,
    HTTP_FIELD_ORIGIN,
    HTTP_FIELD_FETCH_SITE,
    HTTP_FIELD_FORWARDED_BY,
    HTTP_FIELD_FORWARDED_FOR,
    HTTP_FIELD_WORKER,
    HTTP_FIELD_COUNT,
    HTTP_FIELD_OTHER = HTTP_FIELD_COUNT,
};

#define HTTP_HOST_KEPT_SIZE 63u

struct http_span {
    uint32_t offset; /* from the first byte of the request */
    uint32_t size;
};

enum http_result {
    HTTP_MORE,    /* the request is not whole yet; see http->size_kept */
    HTTP_WHOLE,   /* http_request() may be called; http->size bytes belong to the request */
    HTTP_REFUSED, /* http->error and http->reason say why; the rest can't be read */
};

struct http {
    llhttp_t parser;
    const struct http_limits *limits; /* borrowed for the parser's life */
    uint8_t *data;                    /* during http_feed() only */
    size_t size;                      /* HTTP_WHOLE: bytes of the request */
    size_t size_kept;                 /* HTTP_MORE: how many bytes to keep; further bytes go after these, over those
                                       * that were used up */
    size_t size_expected;             /* size of the whole request once the head has given it; 0: not known */
    size_t fed;                       /* bytes that llhttp has seen */
    size_t searched;                  /* bytes already searched for the end of the head */
    size_t head_start;                /* after empty lines before the request */
    struct http_span url;
    struct http_span fields[HTTP_FIELD_COUNT];
    struct http_span body;
    struct chunks chunks;  /* of a chunked body: the state of its framing */
    enum http_field field; /* whose value comes next */
    uint32_t fields_seen;  /* bit per enum http_field */
    bool has_head;         /* the head is complete and its lines are valid */
    bool is_in_body;       /* llhttp has seen the head */
    bool is_chunked;
    bool is_form; /* Content-Type says so */
    bool is_whole;
    bool keeps_alive;      /* the connection may go on after this request */
    bool expects_continue; /* the client waits for "100 Continue" before it sends the body */
    enum error error;
    const char *reason; /* static text */

    /* Kept by http_reset(): the last valid Host, because most clients repeat it. */
    uint8_t host_size;
    uint8_t host[HTTP_HOST_KEPT_SIZE];
};

/* `limits` is borrowed for as long as the parser is used. */
void http_init(struct http *http, const struct http_limits *limits);

/* Prepares for the next request. */
void http_reset(struct http *http);

/* Reads the first `size` bytes of the request. Joins the pieces of a chunked body in place, so that framing never piles
 * up. The next call needs only the first http->size_kept of these bytes. */
enum http_result http_feed(struct http *http, uint8_t *data, size_t size);

/* The complete request that http_feed() found in `data`; views into `data`. Its address is what Tally-Forwarded-For
 * says: only another node is to be believed there. */
void http_request(const struct http *http, const uint8_t *data, struct request *request);

static inline bool http_is_method(const struct http *http, llhttp_method_t method)
{
    return http->parser.method == method;
}

/* Was its head read, and does it lack X-Amz-Target or announce a form? Then it is AWS Query, even if it is refused
 * before it is complete. */
static inline bool http_is_query(const struct http *http)
{
    return http->is_in_body && ((http->fields_seen & (UINT32_C(1) << HTTP_FIELD_TARGET)) == 0 || http->is_form);
}

static inline bool http_is_1_0(const struct http *http)
{
    return http->parser.http_minor == 0;
}

#endif
