/* HTTP/1.x requests out of the bytes of a connection: the glue around llhttp.
 *
 * Knows nothing of sockets: it is given the bytes there are, from the first of a request on, again and again until
 * the request is whole; the same code runs under the fuzzer. Keeps offsets, never pointers, because the caller may
 * move the bytes between two calls.
 *
 * Strict where two readers of one request could disagree (request smuggling): no Content-Length beside
 * Transfer-Encoding, none twice, no other transfer coding than "chunked", no bare CR or LF, no folded header line, no
 * blank before a colon, no trailers, no chunk extensions, one Host, which is a plain host and port and that of an
 * absolute request target. Limits are checked before anything is stored. */
#ifndef TALLY_SERVER_HTTP_H
#define TALLY_SERVER_HTTP_H

#include "api/exchange.h"
#include "server/chunks.h"

#include <llhttp.h>

/* llhttp 8, which Debian 12 ships, has its strictness at compile time. It decides in llhttp.c, but whoever builds that
 * file gives us the same flags, so look. */
#if LLHTTP_VERSION_MAJOR < 9 && !LLHTTP_STRICT_MODE
#error                                                                                                                 \
    "llhttp must be built, and used, with -DLLHTTP_STRICT_MODE=1: without it bytes behind a chunk are skipped unseen."
#endif

struct http_limits {
    size_t head_size_max; /* bytes: request line and header fields */
    size_t body_size_max; /* bytes, without the framing of chunks; at most HTTP_BODY_SIZE_LIMIT */
};

/* Offsets are 32 bits wide. */
#define HTTP_BODY_SIZE_LIMIT ((size_t)1 << 30)

/* The header fields we read, or that may not stand twice; all others are checked and passed over. */
enum http_field {
    HTTP_FIELD_HOST,
    HTTP_FIELD_TARGET,
    HTTP_FIELD_CONTENT_TYPE,
    HTTP_FIELD_ACCEPT, /* the one that may stand twice; the first counts */
    HTTP_FIELD_TRACE,
    HTTP_FIELD_EXPECT,
    HTTP_FIELD_TRANSFER_ENCODING,
    HTTP_FIELD_ORIGIN,
    HTTP_FIELD_FETCH_SITE,
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
    HTTP_REFUSED, /* http->error and http->reason say why; nothing behind it can be read */
};

struct http {
    llhttp_t parser;
    const struct http_limits *limits; /* borrowed for the parser's life */
    uint8_t *data;                    /* during http_feed() only */
    size_t size;                      /* HTTP_WHOLE: bytes of the request */
    size_t size_kept;                 /* HTTP_MORE: bytes to keep; more come behind these, over any that were used up */
    size_t size_expected;             /* bytes of the whole request once the head has said so; 0: not known */
    size_t fed;                       /* bytes that llhttp has seen */
    size_t searched;                  /* bytes in which the head does not end */
    size_t head_start;                /* behind empty lines before the request */
    struct http_span url;
    struct http_span fields[HTTP_FIELD_COUNT];
    struct http_span body;
    struct chunks chunks;  /* of a chunked body: what has been read of its framing */
    enum http_field field; /* whose value comes next */
    uint32_t fields_seen;  /* bit per enum http_field */
    bool has_head;         /* the head is there and its lines are sound */
    bool is_in_body;       /* llhttp has seen the head */
    bool is_chunked;
    bool is_form; /* Content-Type says so */
    bool is_whole;
    bool keeps_alive;      /* the connection may go on behind this request */
    bool expects_continue; /* waits for "100 Continue" before it sends the body */
    enum error error;
    const char *reason; /* static text */

    /* What http_reset() keeps: the Host that was found sound last, which most clients go on with. */
    uint8_t host_size;
    uint8_t host[HTTP_HOST_KEPT_SIZE];
};

/* `limits` is borrowed for as long as the parser is used. */
void http_init(struct http *http, const struct http_limits *limits);

/* Gets ready for the next request. */
void http_reset(struct http *http);

/* Looks at the first `size` bytes there are of the request. Moves the pieces of a chunked body together, in place, so
 * that framing never piles up: of what was looked at, the next call needs the first http->size_kept bytes only. */
enum http_result http_feed(struct http *http, uint8_t *data, size_t size);

/* The request that http_feed() found whole in `data`; views into `data`. */
void http_request(const struct http *http, const uint8_t *data, struct request *request);

static inline bool http_is_method(const struct http *http, llhttp_method_t method)
{
    return http->parser.method == method;
}

/* Has its head been read, and does it lack X-Amz-Target or announce a form? Then it is AWS Query, also if it is
 * refused before it is whole. */
static inline bool http_is_query(const struct http *http)
{
    return http->is_in_body && ((http->fields_seen & (UINT32_C(1) << HTTP_FIELD_TARGET)) == 0 || http->is_form);
}

static inline bool http_is_1_0(const struct http *http)
{
    return http->parser.http_minor == 0;
}

#endif
