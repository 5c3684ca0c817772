#include "server/http.h"

#include "base/assert.h"
#include "server/authority.h"

struct field_row {
    struct bytes name; /* lower case */
    enum http_field field;
};

static const char not_well_formed[] = "This is not a well-formed HTTP/1.1 request.";

static int http_refuse(struct http *http, enum error error, const char *reason)
{
    if (http->error == OK) {
        http->error = error;
        http->reason = reason;
    }
    return HPE_USER;
}

static struct http *http_of(llhttp_t *parser)
{
    return CONTAINER_OF(parser, struct http, parser);
}

/* Is `text` equal to `lower`, ignoring the case of ASCII letters? `lower` holds only letters, digits and hyphens, so
 * case changes only one bit. */
static bool http_text_equal(const char *text, size_t size, struct bytes lower)
{
    if (size != lower.size)
        return false;
    uint8_t difference = 0;
    for (size_t i = 0; i < size; i++)
        difference |= (uint8_t)(((uint8_t)text[i] | 0x20) ^ lower.ptr[i]);
    return difference == 0;
}

#define LETTER(letter) (UINT32_C(1) << ((letter)&31))

static enum http_field http_field_find(const char *name, size_t size)
{
    static const struct field_row rows[] = {
        {BYTES("host"), HTTP_FIELD_HOST},
        {BYTES("x-amz-target"), HTTP_FIELD_TARGET},
        {BYTES("content-type"), HTTP_FIELD_CONTENT_TYPE},
        {BYTES("accept"), HTTP_FIELD_ACCEPT},
        {BYTES("x-amzn-trace-id"), HTTP_FIELD_TRACE},
        {BYTES("traceparent"), HTTP_FIELD_TRACEPARENT},
        {BYTES("tracestate"), HTTP_FIELD_TRACESTATE},
        {BYTES("expect"), HTTP_FIELD_EXPECT},
        {BYTES("transfer-encoding"), HTTP_FIELD_TRANSFER_ENCODING},
        {BYTES("origin"), HTTP_FIELD_ORIGIN},
        {BYTES("sec-fetch-site"), HTTP_FIELD_FETCH_SITE},
        {BYTES("tally-forwarded-by"), HTTP_FIELD_FORWARDED_BY},
        {BYTES("tally-forwarded-for"), HTTP_FIELD_FORWARDED_FOR},
        {BYTES("x-tally-worker"), HTTP_FIELD_WORKER},
    };
    /* By the size of a name, with which letters those of that size begin. Most fields of a request are none of them. */
    static const uint32_t letters[] = {
        [4] = LETTER('h'),
        [6] = LETTER('a') | LETTER('e') | LETTER('o'),
        [10] = LETTER('t'),
        [11] = LETTER('t'),
        [12] = LETTER('x') | LETTER('c'),
        [14] = LETTER('s') | LETTER('x'),
        [15] = LETTER('x'),
        [17] = LETTER('t'),
        [18] = LETTER('t'),
        [19] = LETTER('t'),
    };
    const uint8_t first = (uint8_t)name[0] | 0x20;
    if (size >= ARRAY_LENGTH(letters) || (letters[size] & LETTER(first)) == 0)
        return HTTP_FIELD_OTHER;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        if (size == rows[i].name.size && first == rows[i].name.ptr[0] && http_text_equal(name, size, rows[i].name))
            return rows[i].field;
    return HTTP_FIELD_OTHER;
}

static void http_span_extend(const struct http *http, struct http_span *span, const char *at, size_t size)
{
    if (span->size == 0)
        span->offset = (uint32_t)((const uint8_t *)at - http->data);
    span->size += (uint32_t)size;
}

static int on_url(llhttp_t *parser, const char *at, size_t size)
{
    struct http *http = http_of(parser);
    http_span_extend(http, &http->url, at, size);
    return 0;
}

/* The field that comes next has been there before. */
static int http_repeat_field(struct http *http)
{
    const enum http_field field = http->field;
    http->field = HTTP_FIELD_OTHER;
    if (field == HTTP_FIELD_ACCEPT || field == HTTP_FIELD_WORKER)
        return 0;
    if (field != HTTP_FIELD_TRACEPARENT && field != HTTP_FIELD_TRACESTATE)
        return http_refuse(http, ERROR_MALFORMED_REQUEST, "A header field that may stand once stands twice.");
    /* A request never fails because of its trace: given twice, the field counts as absent. */
    http->fields[field] = (struct http_span){0};
    return 0;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t size)
{
    struct http *http = http_of(parser);
    if (http->is_in_body)
        return http_refuse(http, ERROR_MALFORMED_REQUEST, "Trailer fields behind a chunked body are not accepted.");
    if (size == 0)
        return http_refuse(http, ERROR_MALFORMED_REQUEST, "A header field has no name.");
    http->field = http_field_find(at, size);
    if (http->field == HTTP_FIELD_OTHER)
        return 0;
    uint32_t bit = UINT32_C(1) << http->field;
    if ((http->fields_seen & bit) != 0)
        return http_repeat_field(http);
    http->fields_seen |= bit;
    return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t size)
{
    struct http *http = http_of(parser);
    if (http->field != HTTP_FIELD_OTHER)
        http_span_extend(http, &http->fields[http->field], at, size);
    return 0;
}

static bool http_has_field(const struct http *http, enum http_field field)
{
    return (http->fields_seen & (UINT32_C(1) << field)) != 0;
}

static bool http_field_is(const struct http *http, enum http_field field, struct bytes lower)
{
    const struct http_span *span = &http->fields[field];
    return http_text_equal((const char *)http->data + span->offset, span->size, lower);
}

/* Its bytes, without the blanks after them. llhttp leaves out the blanks before them. */
static struct bytes http_view(const uint8_t *data, const struct http_span *span)
{
    size_t size = span->size;
    while (size > 0 && (data[span->offset + size - 1] == ' ' || data[span->offset + size - 1] == '\t'))
        size--;
    return bytes_make(data + span->offset, size);
}

/* Clients that use us as a proxy send a whole URL as the request target. Its host and port must be those of Host.
 * HTTP/1.0 may lack Host; then the URL's host and port replace it. */
static int http_check_target(struct http *http, struct bytes url)
{
    struct authority named, host;
    struct bytes rest = url;
    if (bytes_starts_with(url, BYTES("/")) || bytes_equal(url, BYTES("*")) || http_is_method(http, HTTP_CONNECT))
        return 0;
    if (!authority_take_url(&rest, &named))
        return http_refuse(http, ERROR_MALFORMED_REQUEST, "The request target is neither a path nor a URL of HTTP.");
    struct http_span *span = &http->fields[HTTP_FIELD_HOST];
    if (!http_has_field(http, HTTP_FIELD_HOST)) {
        uint32_t scheme_size = (url.ptr[4] | 0x20) == 's' ? 8 : 7;
        span->offset = http->url.offset + scheme_size;
        span->size = (uint32_t)(url.size - rest.size) - scheme_size;
        return 0;
    }
    if (!authority_parse(http_view(http->data, span), &host))
        return 0; /* refused by http_check_host() */
    if (host.port == 0)
        host.port = (url.ptr[4] | 0x20) == 's' ? 443 : 80;
    if (!authority_is_same_host(&named, &host) || named.port != host.port)
        return http_refuse(http, ERROR_MALFORMED_REQUEST,
                           "The request target names another host or port than the header field Host.");
    return 0;
}

/* Host becomes part of the queue URLs that we make, and says whom the request is for. */
static int http_check_host(struct http *http)
{
    struct authority authority;
    if (!http_has_field(http, HTTP_FIELD_HOST)) {
        if (http_is_1_0(http))
            return 0;
        return http_refuse(http, ERROR_MALFORMED_REQUEST, "The header field Host is missing.");
    }
    struct bytes text = http_view(http->data, &http->fields[HTTP_FIELD_HOST]);
    if (bytes_equal(text, bytes_make(http->host, http->host_size)) && text.size > 0)
        return 0;
    if (!authority_parse(text, &authority))
        return http_refuse(http, ERROR_MALFORMED_REQUEST,
                           "The header field Host is not a host name or an IP address, with or without a port.");
    if (text.size <= sizeof(http->host)) {
        memcpy(http->host, text.ptr, text.size);
        http->host_size = (uint8_t)text.size;
    }
    return 0;
}

/* Is a value that media type, whatever its parameters? */
static bool is_media_type(struct bytes value, struct bytes lower)
{
    if (value.size > lower.size && memchr("; \t", value.ptr[lower.size], 3) == NULL)
        return false;
    return value.size >= lower.size && http_text_equal((const char *)value.ptr, lower.size, lower);
}

/* Does Accept name JSON before XML? True: it does, and JSON is not refused by it. */
static bool takes_json(struct bytes accept)
{
    while (accept.size > 0) {
        const uint8_t *comma = memchr(accept.ptr, ',', accept.size);
        size_t size = comma == NULL ? accept.size : (size_t)(comma - accept.ptr);
        struct bytes range = bytes_make(accept.ptr, size);
        while (range.size > 0 && (range.ptr[0] == ' ' || range.ptr[0] == '\t'))
            range = bytes_skip(range, 1);
        if (is_media_type(range, BYTES("application/json")))
            return !bytes_ends_with(range, BYTES("q=0"));
        if (is_media_type(range, BYTES("text/xml")) || is_media_type(range, BYTES("application/xml")))
            return false;
        accept = bytes_skip(accept, comma == NULL ? size : size + 1);
    }
    return false;
}

/* What the head says about the body, and whether we can trust it. */
static int http_check_framing(struct http *http)
{
    const llhttp_t *parser = &http->parser;
    if (http_has_field(http, HTTP_FIELD_TRANSFER_ENCODING)) {
        if (parser->flags & F_CONTENT_LENGTH)
            return http_refuse(http, ERROR_MALFORMED_REQUEST, "Content-Length beside Transfer-Encoding.");
        if (http_is_1_0(http) || !http_field_is(http, HTTP_FIELD_TRANSFER_ENCODING, BYTES("chunked")))
            return http_refuse(http, ERROR_MALFORMED_REQUEST, "The only transfer coding accepted is \"chunked\".");
        http->is_chunked = true;
        return 0;
    }
    if (parser->content_length > http->limits->body_size_max)
        return http_refuse(http, ERROR_REQUEST_TOO_LARGE, "The body of the request is too large.");
    return 0;
}

static int http_refuse_large_head(struct http *http)
{
    return http_refuse(http, ERROR_REQUEST_TOO_LARGE, "The header of the request is too large.");
}

static int on_headers_complete(llhttp_t *parser)
{
    struct http *http = http_of(parser);
    if (http->body.offset > http->limits->head_size_max && !http_has_field(http, HTTP_FIELD_FORWARDED_BY))
        return http_refuse_large_head(http);
    http->is_in_body = true;
    http->is_form = is_media_type(http_view(http->data, &http->fields[HTTP_FIELD_CONTENT_TYPE]),
                                  BYTES("application/x-www-form-urlencoded"));
    if (parser->http_major != 1 || parser->http_minor > 1)
        return http_refuse(http, ERROR_MALFORMED_REQUEST, "Only HTTP/1.1 and HTTP/1.0 are spoken here.");
    int refused = http_check_host(http);
    if (refused == 0)
        refused = http_check_target(http, http_view(http->data, &http->url));
    if (refused == 0)
        refused = http_check_framing(http);
    if (refused != 0)
        return refused;
    if (http_has_field(http, HTTP_FIELD_EXPECT) && !http_is_1_0(http))
        http->expects_continue = http_field_is(http, HTTP_FIELD_EXPECT, BYTES("100-continue"));
    /* An offer to change the protocol, such as h2c of Java's client, may be ignored (RFC 9110, 7.8): read on. */
    parser->upgrade = 0;
    return http->is_chunked ? HPE_PAUSED : 0; /* so that http_execute() sees chunks before llhttp does */
}

static int on_body(llhttp_t *parser, const char *at, size_t size)
{
    struct http *http = http_of(parser);
    const uint8_t *piece = (const uint8_t *)at;
    if (size > http->limits->body_size_max - http->body.size)
        return http_refuse(http, ERROR_REQUEST_TOO_LARGE, "The body of the request is too large.");
    /* Moves pieces of a chunked body up to the head, over framing that llhttp has already read. */
    uint8_t *end = http->data + http->body.offset + http->body.size;
    if (end != piece)
        memmove(end, piece, size);
    http->body.size += (uint32_t)size;
    return 0;
}

static int on_chunk_extension(llhttp_t *parser, const char *at, size_t size)
{
    (void)at;
    (void)size;
    return http_refuse(http_of(parser), ERROR_MALFORMED_REQUEST, "Chunk extensions are not accepted.");
}

static int on_message_complete(llhttp_t *parser)
{
    struct http *http = http_of(parser);
    http->is_whole = true;
    http->keeps_alive = llhttp_should_keep_alive(parser);
    return HPE_PAUSED; /* what follows belongs to the next request */
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_chunk_extension_name = on_chunk_extension,
    .on_message_complete = on_message_complete,
};

void http_init(struct http *http, const struct http_limits *limits)
{
    ASSERT(limits->body_size_max <= HTTP_BODY_SIZE_LIMIT);
    *http = (struct http){.limits = limits};
    llhttp_init(&http->parser, HTTP_REQUEST, &settings);
}

void http_reset(struct http *http)
{
    const struct http_limits *limits = http->limits;
    memset(http, 0, offsetof(struct http, host_size));
    http->limits = limits;
    llhttp_init(&http->parser, HTTP_REQUEST, &settings);
}

#define HEAD_BLOCK 16

/* A comparison of two of them sets all bits of the bytes that compare true. */
typedef int8_t head_block __attribute__((vector_size(HEAD_BLOCK)));

/* Does every line of the head end with CR LF and nothing else, and does no line begin with a blank? Such a line would
 * be folded, or hidden from readers that fold. llhttp checks most of this, but not all of it in each version. This code
 * checks 16 bytes at a time. `size` counts the empty line at the end. */
static bool http_head_is_sound(const uint8_t *head, size_t size)
{
    ASSERT(size >= 4);
    uint8_t is_bad = 0;
    size_t i = 0;
    head_block bad = {0};
    for (; i + HEAD_BLOCK < size; i += HEAD_BLOCK) {
        head_block here, next;
        memcpy(&here, head + i, HEAD_BLOCK);
        memcpy(&next, head + i + 1, HEAD_BLOCK);
        bad |= (here == '\r') ^ (next == '\n');
        bad |= (here == '\n') & ((next == ' ') | (next == '\t'));
        bad |= here == 0;
    }
    for (size_t j = 0; j < HEAD_BLOCK; j++)
        is_bad |= bad[j] != 0;
    for (; i + 1 < size; i++) {
        bool is_blank = head[i + 1] == ' ' || head[i + 1] == '\t';
        is_bad |= (head[i] == '\r') != (head[i + 1] == '\n') || (head[i] == '\n' && is_blank) || head[i] == 0;
    }
    return !is_bad && head[0] != '\n';
}

/* Where the CR LF CR LF that ends a head begins, or NULL. Steps from line to line. A head has a dozen lines, and memchr
 * checks 32 bytes at a time while memmem checks one. */
static const uint8_t *http_find_end(const uint8_t *from, const uint8_t *end)
{
    const uint8_t *start = from;
    const uint8_t *line_feed;
    while ((line_feed = memchr(from, '\n', (size_t)(end - from))) != NULL) {
        bool is_empty_line = end - line_feed > 2 && line_feed[1] == '\r' && line_feed[2] == '\n';
        if (is_empty_line && line_feed > start && line_feed[-1] == '\r')
            return line_feed - 1;
        from = line_feed + 1;
    }
    return NULL;
}

#define TLS_HANDSHAKE 0x16

/* A client with another protocol would wait for an answer, while we wait for the end of a head that never comes. A
 * method consists of capital letters; a CR may belong to an empty line. False: refused. */
static bool http_check_first(struct http *http, uint8_t first)
{
    if ((first >= 'A' && first <= 'Z') || first == '\r')
        return true;
    http_refuse(http, ERROR_MALFORMED_REQUEST,
                first == TLS_HANDSHAKE
                    ? "This is TLS, but this port speaks plain HTTP: begin the address with http://, "
                      "not with https://."
                    : not_well_formed);
    return false;
}

/* Searches for the end of the head; HTTP_WHOLE: it is there and valid. */
static enum http_result http_find_head(struct http *http, const uint8_t *data, size_t size)
{
    /* RFC 9112, 2.2: an empty line before the request line is ignored. */
    while (size - http->head_start >= 2 && memcmp(data + http->head_start, "\r\n", 2) == 0)
        http->head_start += 2;
    if (size > http->head_start && !http_check_first(http, data[http->head_start]))
        return HTTP_REFUSED;
    size_t from = http->searched > http->head_start ? http->searched : http->head_start;
    const uint8_t *end = http_find_end(data + from, data + size);
    size_t head_end = end == NULL ? size : (size_t)(end - data) + 4;
    if (head_end > http->limits->head_size_max + HTTP_NODE_ADDS_MAX) {
        http_refuse_large_head(http);
        return HTTP_REFUSED;
    }
    if (end == NULL) {
        http->searched = size < 3 ? 0 : size - 3;
        return HTTP_MORE;
    }
    if (!http_head_is_sound(data + http->head_start, head_end - http->head_start)) {
        http_refuse(http, ERROR_MALFORMED_REQUEST, "A header line does not end with CR LF, or is folded.");
        return HTTP_REFUSED;
    }
    http->has_head = true;
    http->fed = http->head_start;
    http->body.offset = (uint32_t)head_end;
    return HTTP_WHOLE;
}

static int http_refuse_head_end(struct http *http)
{
    return http_refuse(http, ERROR_MALFORMED_REQUEST, "The head of the request does not end where its lines do.");
}

/* llhttp has read all there is and wants more. */
static enum http_result http_wait(struct http *http, size_t size)
{
    if (!http->is_in_body) {
        http_refuse_head_end(http);
        return HTTP_REFUSED;
    }
    if (http->is_chunked)
        http->fed = http->size_kept = http->body.offset + http->body.size;
    else if (http->size_expected == 0)
        http->size_expected = size + (size_t)http->parser.content_length;
    return HTTP_MORE;
}

/* Checks the new bytes of a chunked body, from `from` on, and then lets llhttp read them. */
static llhttp_errno_t http_execute_chunks(struct http *http, const uint8_t *data, size_t from, size_t size)
{
    const char *reason = chunks_read(&http->chunks, bytes_make(data + from, size - from));
    if (reason != NULL)
        return (llhttp_errno_t)http_refuse(http, ERROR_MALFORMED_REQUEST, reason);
    return llhttp_execute(&http->parser, (const char *)data + from, size - from);
}

static llhttp_errno_t http_execute(struct http *http, const uint8_t *data, size_t size)
{
    if (http->is_chunked)
        return http_execute_chunks(http, data, http->fed, size);
    llhttp_errno_t outcome = llhttp_execute(&http->parser, (const char *)data + http->fed, size - http->fed);
    if (outcome != HPE_PAUSED || http->is_whole)
        return outcome;
    ASSERT(http->is_chunked); /* nothing else pauses */
    if ((const uint8_t *)llhttp_get_error_pos(&http->parser) != data + http->body.offset)
        return (llhttp_errno_t)http_refuse_head_end(http);
    llhttp_resume(&http->parser);
    return http_execute_chunks(http, data, http->body.offset, size);
}

enum http_result http_feed(struct http *http, uint8_t *data, size_t size)
{
    if (http->error != OK)
        return HTTP_REFUSED;
    http->size_kept = size;
    if (!http->has_head) {
        enum http_result result = http_find_head(http, data, size);
        if (result != HTTP_WHOLE)
            return result;
    }
    http->data = data;
    llhttp_errno_t outcome = http_execute(http, data, size);
    http->data = NULL;
    if (http->is_whole) {
        http->size = (size_t)((const uint8_t *)llhttp_get_error_pos(&http->parser) - data);
        return HTTP_WHOLE;
    }
    http->fed = size;
    if (outcome != HPE_OK) {
        http_refuse(http, ERROR_MALFORMED_REQUEST, not_well_formed);
        return HTTP_REFUSED;
    }
    return http_wait(http, size);
}

/* Path and query of a request target: without scheme and authority, and without a fragment. */
static void http_divide(struct bytes url, struct request *request)
{
    struct authority ignored;
    (void)authority_take_url(&url, &ignored); /* a path has none */
    const uint8_t *fragment = url.size == 0 ? NULL : memchr(url.ptr, '#', url.size);
    if (fragment != NULL)
        url.size = (size_t)(fragment - url.ptr);
    const uint8_t *mark = url.size == 0 ? NULL : memchr(url.ptr, '?', url.size);
    request->path = bytes_make(url.ptr, mark == NULL ? url.size : (size_t)(mark - url.ptr));
    request->query = mark == NULL ? BYTES("") : bytes_skip(url, request->path.size + 1);
    if (request->path.size == 0)
        request->path = BYTES("/");
}

static struct bytes http_method(const struct http *http)
{
    switch (http->parser.method) {
    case HTTP_POST:
        return BYTES("POST");
    case HTTP_GET:
        return BYTES("GET");
    default:
        return bytes_from_string(llhttp_method_name((llhttp_method_t)http->parser.method));
    }
}

/* The header lines: the text between the request line and the body. */
static struct bytes http_head_lines(const struct http *http, const uint8_t *data)
{
    const uint8_t *end = data + http->body.offset;
    const uint8_t *start = data + http->head_start;
    start =
        (const uint8_t *)memchr(start, '\n', (size_t)(end - start)) + 1; /* http_find_head() has found the head's end */
    return bytes_make(start, (size_t)(end - start));
}

void http_request(const struct http *http, const uint8_t *data, struct request *request)
{
    ASSERT(http->is_whole);
    *request = (struct request){
        .method = http_method(http),
        .head = http_head_lines(http, data),
        .host = http_view(data, &http->fields[HTTP_FIELD_HOST]),
        .target = http_view(data, &http->fields[HTTP_FIELD_TARGET]),
        .trace_header = http_view(data, &http->fields[HTTP_FIELD_TRACE]),
        .traceparent = http_view(data, &http->fields[HTTP_FIELD_TRACEPARENT]),
        .tracestate = http_view(data, &http->fields[HTTP_FIELD_TRACESTATE]),
        .origin = http_view(data, &http->fields[HTTP_FIELD_ORIGIN]),
        .fetch_site = http_view(data, &http->fields[HTTP_FIELD_FETCH_SITE]),
        .forwarded_by = http_view(data, &http->fields[HTTP_FIELD_FORWARDED_BY]),
        .worker = http_view(data, &http->fields[HTTP_FIELD_WORKER]),
        .address = http_view(data, &http->fields[HTTP_FIELD_FORWARDED_FOR]),
        .is_form = http->is_form,
        .takes_json = takes_json(http_view(data, &http->fields[HTTP_FIELD_ACCEPT])),
        .body = bytes_make(data + http->body.offset, http->body.size),
    };
    http_divide(http_view(data, &http->url), request);
}
