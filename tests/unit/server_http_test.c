#include "server/http.h"

#include "random.h"

#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct http_limits limits = {.head_size_max = 1024, .body_size_max = 4096};

struct reader {
    struct http http;
    uint8_t data[16384];
    size_t size;
    struct request request;
};

static void reader_init(struct reader *reader, struct bytes text)
{
    http_init(&reader->http, &limits);
    assert_in_range(text.size, 0, sizeof(reader->data));
    memcpy(reader->data, text.ptr, text.size);
    reader->size = text.size;
}

static enum http_result reader_feed(struct reader *reader, size_t size)
{
    enum http_result result = http_feed(&reader->http, reader->data, size);
    if (result == HTTP_WHOLE)
        http_request(&reader->http, reader->data, &reader->request);
    return result;
}

static enum http_result read_whole(struct reader *reader, struct bytes text)
{
    reader_init(reader, text);
    return reader_feed(reader, text.size);
}

/* Fed byte by byte, keeping no more than is asked for. */
static enum http_result read_slowly(struct reader *reader, struct bytes text)
{
    enum http_result result = HTTP_MORE;
    reader_init(reader, BYTES(""));
    for (size_t i = 0; i < text.size && result == HTTP_MORE; i++) {
        reader->data[reader->size++] = text.ptr[i];
        result = reader_feed(reader, reader->size);
        if (result == HTTP_MORE) {
            assert_in_range(reader->http.size_kept, 0, reader->size);
            reader->size = reader->http.size_kept;
        }
    }
    return result;
}

static void assert_bytes(struct bytes actual, const char *expected)
{
    assert_int_equal(actual.size, strlen(expected));
    assert_memory_equal(actual.ptr, expected, actual.size);
}

static void a_request_is_read_whatever_the_case_of_its_headers(void **state)
{
    (void)state;
    struct reader reader;
    const struct bytes text =
        BYTES("POST /000000000000/q?Action=x HTTP/1.1\r\nhOST: here:1\r\nx-aMZ-tARGET: AmazonSQS.SendMessage\r\n"
              "CONTENT-TYPE:application/x-amz-json-1.0 \r\nX-Amzn-Trace-Id: Root=1\r\nOther: thing\r\n"
              "Content-Length: 5\r\n\r\nhelloGET");
    assert_int_equal(read_whole(&reader, text), HTTP_WHOLE);
    assert_bytes(reader.request.method, "POST");
    assert_bytes(reader.request.path, "/000000000000/q");
    assert_bytes(reader.request.host, "here:1");
    assert_bytes(reader.request.target, "AmazonSQS.SendMessage");
    assert_bytes(reader.request.trace_header, "Root=1");
    assert_bytes(reader.request.body, "hello");
    assert_int_equal(reader.http.size, text.size - 3);
    assert_true(reader.http.keeps_alive);
}

/* A request never fails because of its trace. */
static void the_headers_of_a_trace_are_read_if_they_stand_once(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        const char *traceparent, *tracestate;
    } cases[] = {
        {"traceparent: 00-1\r\ntracestate: a=1\r\n", "00-1", "a=1"},
        {"TraceParent:\t00-1 \r\n", "00-1", ""},
        {"tracestate: a=1\r\n", "", "a=1"},
        {"traceparent:\r\n", "", ""},
        {"traceparent: 1\r\ntraceparent: 1\r\ntracestate: a=1\r\n", "", "a=1"},
        {"traceparent: 1\r\ntracestate: a=1\r\nTraceState: b=2\r\n", "1", ""},
        {"traceparent: 1\r\ntraceparent: 2\r\ntraceparent: 3\r\n", "", ""},
        {"traceparent:\r\ntraceparent: 2\r\n", "", ""},
        {"traceparen: 1\r\ntraceparent2: 1\r\ntracestat: a=1\r\n", "", ""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char text[256];
        struct reader reader;
        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\n%sOther: b\r\n\r\n", cases[i].lines);
        assert_int_equal(read_whole(&reader, bytes_from_string(text)), HTTP_WHOLE);
        assert_bytes(reader.request.traceparent, cases[i].traceparent);
        assert_bytes(reader.request.tracestate, cases[i].tracestate);
        assert_int_equal(read_slowly(&reader, bytes_from_string(text)), HTTP_WHOLE);
        assert_bytes(reader.request.traceparent, cases[i].traceparent);
        assert_bytes(reader.request.tracestate, cases[i].tracestate);
    }
}

static void what_a_worker_calls_itself_is_read_once(void **state)
{
    (void)state;
    struct reader reader;
    const struct bytes text =
        BYTES("POST / HTTP/1.1\r\nHost: a\r\nx-TALLY-Worker:  mail 1 \r\nX-Tally-Worker: another\r\n"
              "X-Tally-Workers: none\r\nTALLY-forwarded-for: 10.0.0.2\r\n\r\n");
    assert_int_equal(read_whole(&reader, text), HTTP_WHOLE);
    assert_bytes(reader.request.worker, "mail 1");
    assert_bytes(reader.request.address, "10.0.0.2");
    assert_int_equal(read_whole(&reader, BYTES("POST / HTTP/1.1\r\nHost: a\r\n\r\n")), HTTP_WHOLE);
    assert_int_equal(reader.request.worker.size + reader.request.address.size, 0);
    assert_int_equal(read_whole(&reader, BYTES("POST / HTTP/1.1\r\nHost: a\r\nTally-Forwarded-For: b\r\n"
                                               "Tally-Forwarded-For: c\r\n\r\n")),
                     HTTP_REFUSED);
}

static void a_request_may_come_byte_by_byte(void **state)
{
    (void)state;
    struct reader reader;
    const struct bytes text =
        BYTES("\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nX-Amz-Target: T\r\nContent-Length: 10\r\n\r\n0123456789");
    assert_int_equal(read_slowly(&reader, text), HTTP_WHOLE);
    assert_bytes(reader.request.target, "T");
    assert_bytes(reader.request.body, "0123456789");
    assert_int_equal(reader.http.size, text.size);
}

static void the_size_of_a_request_is_known_behind_its_head(void **state)
{
    (void)state;
    struct reader reader;
    const struct bytes head = BYTES("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n");
    reader_init(&reader, head);
    assert_int_equal(reader_feed(&reader, head.size - 1), HTTP_MORE);
    assert_int_equal(reader.http.size_expected, 0);
    assert_int_equal(reader_feed(&reader, head.size), HTTP_MORE);
    assert_int_equal(reader.http.size_expected, head.size + 100);
}

static void the_bytes_may_move_between_two_calls(void **state)
{
    (void)state;
    struct http http;
    struct request request;
    uint8_t first[128], second[128];
    const struct bytes text = BYTES("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd");
    http_init(&http, &limits);
    memcpy(first, text.ptr, text.size);
    assert_int_equal(http_feed(&http, first, text.size - 2), HTTP_MORE);
    memcpy(second, first, text.size);
    memset(first, 'z', sizeof(first));
    assert_int_equal(http_feed(&http, second, text.size), HTTP_WHOLE);
    http_request(&http, second, &request);
    assert_bytes(request.path, "/p");
    assert_bytes(request.body, "abcd");
}

static void chunks_come_together_as_one_body(void **state)
{
    (void)state;
    struct reader reader;
    const struct bytes text = BYTES("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
                                    "5\r\nhello\r\n1\r\n \r\n00A\r\nworld12345\r\n0\r\n\r\nX");
    assert_int_equal(read_whole(&reader, text), HTTP_WHOLE);
    assert_bytes(reader.request.body, "hello world12345");
    assert_int_equal(reader.http.size, text.size - 1);
    assert_int_equal(read_slowly(&reader, text), HTTP_WHOLE);
    assert_bytes(reader.request.body, "hello world12345");
    assert_int_equal(reader.http.size, reader.size); /* the byte behind was not asked for */
}

static void connections_are_kept_as_the_version_and_the_client_say(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool keeps_alive;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct reader reader;
        assert_int_equal(read_whole(&reader, bytes_from_string(cases[i].text)), HTTP_WHOLE);
        assert_int_equal(reader.http.keeps_alive, cases[i].keeps_alive);
    }
}

static void the_path_is_what_stands_between_authority_and_query(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"/", "/", ""},
        {"/a/b", "/a/b", ""},
        {"/a?b=/c", "/a", "b=/c"},
        {"http://host:1/a?b", "/a", "b"},
        {"HTTP://HOST.:1/a", "/a", ""},
        {"http://host:1", "/", ""},
        {"http://host:1?b=/c", "/", "b=/c"},
        {"/?x", "/", "x"},
        {"/?http://other/", "/", "http://other/"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char text[128];
        struct reader reader;
        snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: host:1\r\n\r\n", cases[i][0]);
        assert_int_equal(read_whole(&reader, bytes_from_string(text)), HTTP_WHOLE);
        assert_bytes(reader.request.path, cases[i][1]);
        assert_bytes(reader.request.query, cases[i][2]);
    }
}

/* Whom is it for? Two readers must not see different hosts: request target and Host. */
static void a_request_target_with_a_host_has_that_of_the_header(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        const char *host; /* NULL: HTTP/1.0 without one */
        bool is_taken;
    } cases[] = {
        {"http://a/", "a", true},
        {"http://A./", "a:80", true},
        {"https://a/", "a:443", true},
        {"https://a:443/", "a", true},
        {"http://[::1]:1/", "[0::1]:1", true},
        {"http://a", NULL, true},
        {"http://b/", "a", false},
        {"http://a:1/", "a", false},
        {"http://a/", "a:1", false},
        {"https://a/", "a:80", false},
        {"http://a.b/", "a", false},
        {"http://localhost@evil/", "localhost", false},
        {"http://user@a/", "a", false},
        {"http:///", "a", false},
        {"http://:80/", "a", false},
        {"ftp://a/", "a", false},
        {"http:/a", "a", false},
        {"a", "a", false},
        {"http://127.1/", "127.0.0.1", false},
        {"http://@/", NULL, false},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char text[256];
        struct reader reader;
        bool has_host = cases[i].host != NULL;
        snprintf(text, sizeof(text), "GET %s HTTP/1.%d\r\n%s%s%s\r\n", cases[i].target, has_host,
                 has_host ? "Host: " : "", has_host ? cases[i].host : "", has_host ? "\r\n" : "");
        enum http_result expected = cases[i].is_taken ? HTTP_WHOLE : HTTP_REFUSED;
        if (read_whole(&reader, bytes_from_string(text)) != expected)
            fail_msg("%s", text);
        if (cases[i].is_taken)
            assert_bytes(reader.request.host, has_host ? cases[i].host : "a");
    }
}

/* It stands in queue URLs, so it must be one. */
static void a_host_is_a_name_or_an_address_with_or_without_a_port(void **state)
{
    (void)state;
    static const struct bytes sound[] = {
        BYTES("a"),
        BYTES("a:"),
        BYTES("a:0"),
        BYTES("a:65535"),
        BYTES("a.b-c_d~e."),
        BYTES("127.0.0.1:9324"),
        BYTES("127.1"),
        BYTES("[::1]"),
        BYTES("[::ffff:127.0.0.1]:9324"),
        BYTES("xn--bcher-kva.example"),
        BYTES("a \t"),
    };
    static const struct bytes unsound[] = {
        BYTES(""),
        BYTES(" "),
        BYTES(":1"),
        BYTES("."),
        BYTES("a..b"),
        BYTES(".a"),
        BYTES("a:65536"),
        BYTES("a:-1"),
        BYTES("a:1:2"),
        BYTES("a b"),
        BYTES("a,b"),
        BYTES("a/b"),
        BYTES("a?b"),
        BYTES("a#b"),
        BYTES("u@a"),
        BYTES("a\\b"),
        BYTES("<a>"),
        BYTES("\"a\""),
        BYTES("a%41"),
        BYTES("[::1"),
        BYTES("::1"),
        BYTES("[]"),
        BYTES("[::1]a"),
        BYTES("[127.0.0.1]"),
        BYTES("[fe80::1%25lo]"),
        BYTES("b\xc3\xbc"
              "cher"),
        BYTES("\xff"),
        BYTES("a\x80"),
        BYTES("a\x01"),
        BYTES("a\x7f"),
        BYTES("a:0000080"),
        BYTES("http://a"),
        BYTES("*"),
    };
    struct reader reader;
    for (size_t i = 0; i < ARRAY_LENGTH(sound) + ARRAY_LENGTH(unsound); i++) {
        bool is_sound = i < ARRAY_LENGTH(sound);
        struct bytes host = is_sound ? sound[i] : unsound[i - ARRAY_LENGTH(sound)];
        char text[256];
        int size = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %.*s\r\n\r\n", BYTES_FORMAT(host));
        enum http_result expected = is_sound ? HTTP_WHOLE : HTTP_REFUSED;
        if (read_whole(&reader, bytes_make(text, (size_t)size)) != expected)
            fail_msg("%s", text);
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[] = "GET / HTTP/1.1\r\nHost: a?b\r\n\r\n";
        *strchr(text, '?') = (char)byte;
        enum http_result result = read_whole(&reader, bytes_make(text, sizeof(text) - 1));
        bool is_sound = (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') || byte == '-' ||
                        byte == '.' || byte == '_' || byte == '~';
        assert_int_equal(result, is_sound ? HTTP_WHOLE : HTTP_REFUSED);
    }
}

/* The parser remembers a sound Host from request to request, and nothing of another one. */
static void each_host_of_a_connection_is_looked_at(void **state)
{
    (void)state;
    struct reader reader;
    static const struct {
        struct bytes text;
        enum http_result result;
    } requests[] = {
        {BYTES("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), HTTP_WHOLE},
        {BYTES("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), HTTP_WHOLE},
        {BYTES("GET / HTTP/1.1\r\nHost: ab\r\n\r\n"), HTTP_WHOLE},
        {BYTES("GET / HTTP/1.1\r\nHost: a\xff\r\n\r\n"), HTTP_REFUSED},
    };
    http_init(&reader.http, &limits);
    for (size_t i = 0; i < ARRAY_LENGTH(requests); i++) {
        memcpy(reader.data, requests[i].text.ptr, requests[i].text.size);
        assert_int_equal(reader_feed(&reader, requests[i].text.size), requests[i].result);
        http_reset(&reader.http);
    }
}

static void an_offer_to_upgrade_is_passed_over(void **state)
{
    (void)state;
    struct reader reader;
    const struct bytes text =
        BYTES("POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
              "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nContent-Length: 2\r\n\r\n{}");
    assert_int_equal(read_whole(&reader, text), HTTP_WHOLE);
    assert_bytes(reader.request.body, "{}");
    assert_true(reader.http.keeps_alive);
}

static void a_client_that_expects_to_be_told_to_go_on_is_noticed(void **state)
{
    (void)state;
    struct reader reader;
    assert_int_equal(
        read_whole(&reader, BYTES("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n")),
        HTTP_MORE);
    assert_true(reader.http.expects_continue);
    assert_int_equal(read_whole(&reader, BYTES("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")),
                     HTTP_MORE);
    assert_false(reader.http.expects_continue);
}

/* Each must be refused, however its bytes come. Most are request smuggling: two readers could see different
 * requests. */
static const char *const malformed[] = {
    /* the body's length */
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3 3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999999\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    /* the lines of the head */
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\rContent-Length: 3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\r\nX: y\rContent-Length: 3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\nContent-Length: 3\r\n\r\nabc",
    "POST / HTTP/1.1\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\n Content-Length: 3\r\nHost: a\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n folded\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tContent-Length: 3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\r\n: nameless\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nX-Amz-Target: T\r\nX-Amz-Target: U\r\n\r\n",
    "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    /* the request line */
    "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
    "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
    "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    "GET / HTTP/0.9\r\nHost: a\r\n\r\n",
    "GET /\r\nHost: a\r\n\r\n",
    "GET\r\n\r\n",
    "BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\x16\x03\x01\x02\x01\x01\r\n\r\n",
    /* chunks */
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcXX0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\nabc\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;\nabc\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n",
};

static void what_two_readers_could_read_differently_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(malformed); i++) {
        struct bytes text = bytes_from_string(malformed[i]);
        struct reader reader;
        enum http_result whole = read_whole(&reader, text);
        enum http_result slow = read_slowly(&reader, text);
        if (whole != HTTP_REFUSED || slow != HTTP_REFUSED)
            fail_msg("not refused (%d, %d): %s", whole, slow, malformed[i]);
        assert_int_equal(reader.http.error, ERROR_MALFORMED_REQUEST);
        assert_non_null(reader.http.reason);
    }
}

static void a_zero_byte_in_the_head_is_refused(void **state)
{
    (void)state;
    struct reader reader;
    assert_int_equal(read_whole(&reader, BYTES("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n")), HTTP_REFUSED);
    assert_int_equal(read_whole(&reader, BYTES("GET / HTTP/1.1\r\nHost: a\r\nX: 0123456789abcdef\0b\r\n\r\n")),
                     HTTP_REFUSED);
}

/* A wrong line end must be seen wherever it lies, however the head is cut into blocks. */
static void a_bare_line_end_is_seen_at_every_place(void **state)
{
    (void)state;
    for (size_t padding = 0; padding < 40; padding++) {
        char text[256];
        struct reader reader;
        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nX: %.*s\nY: z\r\n\r\n", (int)padding,
                 "0123456789012345678901234567890123456789");
        assert_int_equal(read_whole(&reader, bytes_from_string(text)), HTTP_REFUSED);
        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nX: %.*s\r\n\r\n", (int)padding,
                 "0123456789012345678901234567890123456789");
        assert_int_equal(read_whole(&reader, bytes_from_string(text)), HTTP_WHOLE);
    }
}

static void a_head_may_be_as_large_as_its_limit_and_no_larger(void **state)
{
    (void)state;
    char text[4096];
    struct reader reader;
    int fixed = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n", "");
    for (size_t size = limits.head_size_max - 1; size <= limits.head_size_max + 1; size++) {
        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nX: %0*d\r\n\r\n", (int)size - fixed, 0);
        enum http_result expected = size <= limits.head_size_max ? HTTP_WHOLE : HTTP_REFUSED;
        assert_int_equal(read_whole(&reader, bytes_from_string(text)), expected);
        assert_int_equal(read_slowly(&reader, bytes_from_string(text)), expected);
    }
    assert_int_equal(reader.http.error, ERROR_REQUEST_TOO_LARGE);
}

static void a_head_that_a_node_passes_on_may_be_longer_by_what_that_adds(void **state)
{
    (void)state;
    char text[4096];
    struct reader reader;
    const size_t size_max = limits.head_size_max + HTTP_NODE_ADDS_MAX;
    const char lines[] = "GET / HTTP/1.1\r\nHost: a\r\nTally-Forwarded-By: b c\r\nX: %0*d\r\n\r\n";
    const int fixed = snprintf(text, sizeof(text), lines, 1, 0) - 1;
    for (size_t size = size_max - 1; size <= size_max + 1; size++) {
        snprintf(text, sizeof(text), lines, (int)size - fixed, 0);
        enum http_result expected = size <= size_max ? HTTP_WHOLE : HTTP_REFUSED;
        assert_int_equal(read_whole(&reader, bytes_from_string(text)), expected);
        assert_int_equal(read_slowly(&reader, bytes_from_string(text)), expected);
    }
    assert_int_equal(reader.http.error, ERROR_REQUEST_TOO_LARGE);
}

static void a_body_may_be_as_large_as_its_limit_and_no_larger(void **state)
{
    (void)state;
    struct reader reader;
    char text[128];
    snprintf(text, sizeof(text), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", limits.body_size_max);
    assert_int_equal(read_whole(&reader, bytes_from_string(text)), HTTP_MORE);
    snprintf(text, sizeof(text), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", limits.body_size_max + 1);
    assert_int_equal(read_whole(&reader, bytes_from_string(text)), HTTP_REFUSED);
    assert_int_equal(reader.http.error, ERROR_REQUEST_TOO_LARGE);
}

static enum http_result read_chunks(struct reader *reader, size_t body_size, size_t chunk_size)
{
    struct bytes head = BYTES("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    uint8_t *data = calloc(1, 8 * body_size + 1024);
    size_t size = head.size;
    memcpy(data, head.ptr, head.size);
    for (size_t left = body_size; left > 0;) {
        size_t now = left < chunk_size ? left : chunk_size;
        size += (size_t)sprintf((char *)data + size, "%zx\r\n", now);
        memset(data + size, 'x', now);
        memcpy(data + size + now, "\r\n", 2);
        size += now + 2;
        left -= now;
    }
    size += (size_t)sprintf((char *)data + size, "0\r\n\r\n");
    http_init(&reader->http, &limits);
    enum http_result result = http_feed(&reader->http, data, size);
    if (result == HTTP_WHOLE)
        assert_int_equal(reader->http.body.size, body_size);
    free(data);
    return result;
}

static void framing_does_not_pile_up(void **state)
{
    (void)state;
    struct reader reader;
    reader_init(&reader, BYTES("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
    size_t head_size = reader.size;
    for (size_t i = 0; i < limits.body_size_max; i++) {
        memcpy(reader.data + reader.size, "1\r\nx\r\n", 6);
        reader.size += 6;
        assert_int_equal(reader_feed(&reader, reader.size), HTTP_MORE);
        reader.size = reader.http.size_kept;
        assert_int_equal(reader.size, head_size + i + 1);
    }
    for (size_t i = 0; i < 10000; i++) {
        reader.data[reader.size++] = '0';
        assert_int_equal(reader_feed(&reader, reader.size), HTTP_MORE);
        reader.size = reader.http.size_kept;
        assert_int_equal(reader.size, head_size + limits.body_size_max);
    }
}

static void chunks_in_sum_may_be_as_large_as_a_body(void **state)
{
    (void)state;
    struct reader reader;
    assert_int_equal(read_chunks(&reader, limits.body_size_max, 100), HTTP_WHOLE);
    assert_int_equal(read_chunks(&reader, limits.body_size_max, 1), HTTP_WHOLE);
    assert_int_equal(read_chunks(&reader, limits.body_size_max + 1, 100), HTTP_REFUSED);
    assert_int_equal(reader.http.error, ERROR_REQUEST_TOO_LARGE);
}

/* Requests one behind the other, cut at random: each is found whole, with its own body. */
static void pipelined_requests_are_told_apart_however_they_are_cut(void **state)
{
    (void)state;
    struct random random = {.state = 7};
    for (int round = 0; round < 200; round++) {
        static char text[16384];
        size_t size = 0;
        uint32_t count = 1 + random_below(&random, 8);
        for (uint32_t i = 0; i < count; i++) {
            if (random_below(&random, 3) == 0) {
                size += (size_t)sprintf(text + size,
                                        "POST /%u HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                        "3\r\nabc\r\n2\r\n%02u\r\n0\r\n\r\n",
                                        i, i);
            } else {
                size += (size_t)sprintf(text + size, "POST /%u HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc%02u",
                                        i, i);
            }
        }
        struct http http;
        http_init(&http, &limits);
        static uint8_t held[sizeof(text)];
        size_t begin = 0, end = 0, taken = 0;
        uint32_t seen = 0;
        while (seen < count) {
            enum http_result result = http_feed(&http, held + begin, end - begin);
            if (result == HTTP_MORE) {
                assert_true(taken < size);
                end = begin + http.size_kept;
                size_t more = 1 + random_below(&random, (uint32_t)(size - taken));
                memcpy(held + end, text + taken, more);
                end += more;
                taken += more;
                continue;
            }
            assert_int_equal(result, HTTP_WHOLE);
            struct request request;
            char path[16], body[16];
            http_request(&http, held + begin, &request);
            snprintf(path, sizeof(path), "/%u", seen);
            snprintf(body, sizeof(body), "abc%02u", seen);
            assert_bytes(request.path, path);
            assert_bytes(request.body, body);
            begin += http.size;
            http_reset(&http);
            seen++;
        }
        assert_true(begin == end && taken == size);
    }
}

static void another_protocol_is_refused_at_its_first_byte(void **state)
{
    static const char first[] = "\x16\x80*\n\0 gz{";
    (void)state;
    struct reader reader;
    for (size_t i = 0; i < sizeof(first) - 1; i++) {
        assert_int_equal(read_whole(&reader, bytes_make(first + i, 1)), HTTP_REFUSED);
        assert_int_equal(reader.http.error, ERROR_MALFORMED_REQUEST);
        assert_true((strstr(reader.http.reason, "This is TLS") != NULL) == (first[i] == 0x16));
    }
    assert_int_equal(read_slowly(&reader, BYTES("\r\n\r\n\x16")), HTTP_REFUSED);
    assert_int_equal(read_whole(&reader, BYTES("\r")), HTTP_MORE);
    assert_int_equal(read_whole(&reader, BYTES("M")), HTTP_MORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read_whatever_the_case_of_its_headers),
        cmocka_unit_test(the_headers_of_a_trace_are_read_if_they_stand_once),
        cmocka_unit_test(what_a_worker_calls_itself_is_read_once),
        cmocka_unit_test(a_request_may_come_byte_by_byte),
        cmocka_unit_test(another_protocol_is_refused_at_its_first_byte),
        cmocka_unit_test(the_size_of_a_request_is_known_behind_its_head),
        cmocka_unit_test(the_bytes_may_move_between_two_calls),
        cmocka_unit_test(chunks_come_together_as_one_body),
        cmocka_unit_test(connections_are_kept_as_the_version_and_the_client_say),
        cmocka_unit_test(the_path_is_what_stands_between_authority_and_query),
        cmocka_unit_test(a_request_target_with_a_host_has_that_of_the_header),
        cmocka_unit_test(a_host_is_a_name_or_an_address_with_or_without_a_port),
        cmocka_unit_test(each_host_of_a_connection_is_looked_at),
        cmocka_unit_test(an_offer_to_upgrade_is_passed_over),
        cmocka_unit_test(a_client_that_expects_to_be_told_to_go_on_is_noticed),
        cmocka_unit_test(what_two_readers_could_read_differently_is_refused),
        cmocka_unit_test(a_zero_byte_in_the_head_is_refused),
        cmocka_unit_test(a_bare_line_end_is_seen_at_every_place),
        cmocka_unit_test(a_head_may_be_as_large_as_its_limit_and_no_larger),
        cmocka_unit_test(a_head_that_a_node_passes_on_may_be_longer_by_what_that_adds),
        cmocka_unit_test(a_body_may_be_as_large_as_its_limit_and_no_larger),
        cmocka_unit_test(framing_does_not_pile_up),
        cmocka_unit_test(chunks_in_sum_may_be_as_large_as_a_body),
        cmocka_unit_test(pipelined_requests_are_told_apart_however_they_are_cut),
    };
    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
