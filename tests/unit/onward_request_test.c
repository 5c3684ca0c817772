/* Requests of all shapes, passed on: several of them share a connection, so each must be one, and the one that came. */
#include "unit/onward_check.h"
#include "unit/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ROUNDS 200000

static const struct http_limits limits = {.head_size_max = 2048, .body_size_max = 4096};

static const char *const firsts[] = {
    "POST / HTTP/1.1",
    "POST /000000000000/jobs HTTP/1.1",
    "GET /?Action=ListQueues HTTP/1.1",
    "POST /a%20b?x=1&y HTTP/1.1",
    "POST http://one/ HTTP/1.1",
    "POST http://one:80/q?a HTTP/1.1",
    "POST / HTTP/1.0",
    "POST * HTTP/1.1",
    "POST //one/ HTTP/1.1",
    "POST /? HTTP/1.1",
    "GET /\x7f HTTP/1.1",
    "PUT / HTTP/1.1",
};

static const char *const lines[] = {
    "Host: one",
    "Host: one:80",
    "host:one",
    "Host : one",
    "Connection: close",
    "Connection: keep-alive, X-Amz-Target",
    "Content-Length: 5",
    "Content-Length:5",
    "Content-Length : 5",
    "content-length: +5",
    "Content-Length: 5, 5",
    "Transfer-Encoding: chunked",
    "transfer-encoding : chunked",
    "Transfer-Encoding: identity",
    "Tally-Forwarded-By: two 00",
    "Tally-Forwarded-By : two 00",
    "TALLY-FORWARDED-BY:two 00",
    "Tally-Forwarded-For: 10.0.0.2",
    "tally-forwarded-for:",
    "X-Tally-Worker: mail-1/77",
    "x-tally-worker: another",
    "X-Amz-Target: AmazonSQS.SendMessage",
    "X-Amz-Target: AmazonSQS.ReceiveMessage",
    "Content-Type: application/x-amz-json-1.0",
    "Content-Type: application/x-www-form-urlencoded",
    "Accept: application/json",
    "Origin: http://one",
    "Sec-Fetch-Site: same-origin",
    "X-Amzn-Trace-Id: Root=1",
    "Expect: 100-continue",
    "Te: trailers",
    "Trailer: X",
    "Upgrade: h2c",
    "X: a\tb",
    "X:",
    ": x",
    " folded",
    "X: \xff",
    "X: a\rb",
    "X",
};

static const char *const bodies[] = {"",
                                     "hello",
                                     "hello",
                                     "5\r\nhello\r\n0\r\n\r\n",
                                     "0\r\n\r\n",
                                     "hello"
                                     "POST / HTTP/1.1\r\nHost: one\r\n\r\n"};

static void add_any(struct buffer *text, struct random *random, const char *const *texts, size_t count)
{
    const char *one = texts[random_below(random, (uint32_t)count)];
    buffer_append(text, one, strlen(one));
}

static void draw_request(struct buffer *text, struct random *random)
{
    add_any(text, random, firsts, ARRAY_LENGTH(firsts));
    buffer_append_bytes(text, BYTES("\r\n"));
    if (random_below(random, 4) > 0)
        buffer_append_bytes(text, BYTES("Host: one\r\n"));
    for (uint32_t left = random_below(random, 6); left > 0; left--) {
        add_any(text, random, lines, ARRAY_LENGTH(lines));
        buffer_append_bytes(text, random_below(random, 50) > 0 ? BYTES("\r\n") : BYTES("\n"));
    }
    buffer_append_bytes(text, BYTES("\r\n"));
    add_any(text, random, bodies, ARRAY_LENGTH(bodies));
}

static void test_each_is_one_request_and_the_same(void **state)
{
    (void)state;
    struct random random = {.state = 1};
    unsigned passed_on = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct buffer text;
        struct http http;
        struct request request;
        buffer_init(&text);
        draw_request(&text, &random);
        http_init(&http, &limits);
        if (http_feed(&http, text.data_owned, text.size) == HTTP_WHOLE) {
            http_request(&http, text.data_owned, &request);
            passed_on += onward_check(&request);
        }
        buffer_deinit(&text);
    }
    assert_true(passed_on > ROUNDS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_is_one_request_and_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
