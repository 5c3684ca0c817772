/* The framing of HTTP with something wrong at each of its places in turn, in every way that a reader might forgive. */
#include "base/assert.h"
#include "server/http.h"

#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct http_limits limits = {.head_size_max = 1024, .body_size_max = 4096};

/* In all of these a | stands for CR LF. */
static const char *const sound[] = {
    "GET /a HTTP/1.1|Host: a||",
    "POST /a HTTP/1.1|Host: a|X: y|Content-Length: 3||abc",
    "POST /a HTTP/1.1|Host: a|Content-Length: 0||",
    "POST /a HTTP/1.1|Host: a|X: y|Transfer-Encoding: chunked||3|abc|1A|01234567890123456789012345|0||",
    "POST /a HTTP/1.1|Host: a|Transfer-Encoding: chunked||0||",
    "POST /a HTTP/1.1|Host: a|Transfer-Encoding: chunked||00000000000000000000003|abc|000||",
};

/* What stands where CR LF should. */
static const char *const wrong_ends[] = {"\n",     "\r",     "\r\r\n", "\n\r", "\n\n",   "\r\r",
                                         "\r\n\n", "\r\n\r", "\n\r\n", "\0",   "\v\r\n", "\f\n"};

/* The same in chunks alone: in a head some of it would be sound. */
static const char *const wrong_chunk_ends[] = {
    " \r\n",         "\t\r\n", "\r\n ", ";\r\n", ";a\r\n",       ";a=b\r\n", ";\n",
    ";a=\"\n\"\r\n", "x\r\n",  "",      "-\r\n", "\r\nX: y\r\n", ".0\r\n",
};

/* A request behind the broken one: who reads it has been smuggled something. */
#define NEXT "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

struct outcome {
    size_t whole_count;
    bool is_smuggled;
    enum http_result last;
    enum error error;
};

struct stream {
    char text[1024];
    size_t size;
};

static void stream_add(struct stream *stream, const char *text, size_t size)
{
    assert_true(stream->size + size <= sizeof(stream->text));
    memcpy(stream->text + stream->size, text, size);
    stream->size += size;
}

/* Adds `text`, with `end` instead of CR LF at its break number `index`; SIZE_MAX: nowhere. False: it has no such
 * break. */
static bool stream_add_text(struct stream *stream, const char *text, size_t index, const char *end)
{
    size_t count = 0;
    for (const char *at = text; *at != '\0'; at++)
        if (*at != '|')
            stream_add(stream, at, 1);
        else if (count++ == index)
            stream_add(stream, end, end[0] == '\0' ? 1 : strlen(end));
        else
            stream_add(stream, "\r\n", 2);
    return index < count;
}

/* Reads requests as a connection does; the bytes come in two pieces cut at `cut`, or one by one where it is 0. */
static struct outcome read_stream(const struct stream *stream, size_t cut)
{
    struct outcome outcome = {.last = HTTP_MORE};
    struct http http;
    uint8_t held[sizeof(stream->text)];
    size_t begin = 0, end = 0, taken = 0;
    http_init(&http, &limits);
    for (;;) {
        outcome.last = http_feed(&http, held + begin, end - begin);
        if (outcome.last == HTTP_WHOLE) {
            struct request request;
            http_request(&http, held + begin, &request);
            outcome.whole_count++;
            outcome.is_smuggled |= bytes_equal(request.path, BYTES("/smuggled"));
            begin += http.size;
            http_reset(&http);
            continue;
        }
        outcome.error = http.error;
        if (outcome.last == HTTP_REFUSED || taken == stream->size)
            return outcome;
        end = begin + http.size_kept;
        size_t more = cut == 0 ? 1 : taken < cut ? cut - taken : stream->size - taken;
        memcpy(held + end, stream->text + taken, more);
        end += more;
        taken += more;
    }
}

static void print_stream(const struct stream *stream, size_t cut)
{
    print_error("cut at %zu: ", cut);
    for (size_t i = 0; i < stream->size; i++) {
        uint8_t byte = (uint8_t)stream->text[i];
        print_error(byte < ' ' || byte >= 0x7f ? "\\x%02x" : "%c", byte);
    }
    print_error("\n");
}

/* However the bytes come, reading ends within the broken request. Returns how often it did not. */
static unsigned count_forgiven(const struct stream *stream)
{
    unsigned forgiven = 0;
    for (size_t cut = 0; cut <= stream->size; cut++) {
        struct outcome outcome = read_stream(stream, cut);
        if (outcome.last == HTTP_REFUSED && !outcome.is_smuggled && outcome.error == ERROR_MALFORMED_REQUEST)
            continue;
        if (forgiven++ == 0)
            print_stream(stream, cut);
    }
    return forgiven;
}

/* Every wrong end at every place from `first` on; each alone and behind a sound request. */
static unsigned count_forgiven_ends(const char *text, size_t first, const char *const *ends, size_t count)
{
    unsigned forgiven = 0;
    for (size_t i = 0; i < count; i++) {
        bool has_place = true;
        for (size_t index = first; has_place; index++) {
            for (size_t before = 0; before < 2; before++) {
                struct stream stream = {.size = 0};
                if (before == 1)
                    stream_add_text(&stream, sound[0], SIZE_MAX, "");
                has_place = stream_add_text(&stream, text, index, ends[i]);
                stream_add(&stream, NEXT, strlen(NEXT));
                if (has_place)
                    forgiven += count_forgiven(&stream) > 0;
            }
        }
    }
    return forgiven;
}

static void each_line_end_of_the_framing_is_cr_lf_or_the_request_is_refused(void **state)
{
    (void)state;
    unsigned forgiven = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(sound); i++)
        forgiven += count_forgiven_ends(sound[i], 0, wrong_ends, ARRAY_LENGTH(wrong_ends));
    if (forgiven > 0)
        fail_msg("%u requests were taken though a line end of theirs is wrong", forgiven);
}

/* How many breaks stand in the head, with the empty line. */
static size_t head_breaks(const char *text)
{
    const char *end = strstr(text, "||");
    size_t count = 2;
    for (const char *at = text; at < end; at++)
        count += *at == '|';
    return count;
}

static void nothing_but_cr_lf_stands_between_the_parts_of_a_chunked_body(void **state)
{
    (void)state;
    unsigned forgiven = 0;
    for (size_t i = 3; i < ARRAY_LENGTH(sound); i++)
        forgiven +=
            count_forgiven_ends(sound[i], head_breaks(sound[i]), wrong_chunk_ends, ARRAY_LENGTH(wrong_chunk_ends));
    if (forgiven > 0)
        fail_msg("%u chunked bodies were taken though their framing is wrong", forgiven);
}

static void sound_framing_is_read_however_it_is_cut(void **state)
{
    (void)state;
    struct stream stream = {.size = 0};
    for (size_t i = 0; i < ARRAY_LENGTH(sound); i++)
        stream_add_text(&stream, sound[i], SIZE_MAX, "");
    stream_add(&stream, NEXT, strlen(NEXT));
    for (size_t cut = 0; cut <= stream.size; cut++) {
        struct outcome outcome = read_stream(&stream, cut);
        assert_int_equal(outcome.last, HTTP_MORE);
        assert_int_equal(outcome.whole_count, ARRAY_LENGTH(sound) + 1);
        assert_true(outcome.is_smuggled);
    }
}

/* Each is the size line of a chunk of three bytes, or not quite. */
static void a_chunk_size_is_hexadecimal_digits_and_nothing_else(void **state)
{
    (void)state;
    static const char *const sizes[] = {
        "+3",
        "-3",
        "0x3",
        "3h",
        " 3",
        "3 ",
        "\t3",
        "",
        "3;",
        "3;a",
        "3;a=b",
        "3,3",
        "3.0",
        "g",
        "3\v",
        "\xff",
        "10000000000000003",
        "ffffffffffffffff3",
        "3\r",
        "#3",
        "\"3\"",
        "3_0",
        "'3",
    };
    unsigned forgiven = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        struct stream stream = {.size = 0};
        char text[256];
        snprintf(text, sizeof(text), "POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked||%s|abc|0||", sizes[i]);
        stream_add_text(&stream, text, SIZE_MAX, "");
        stream_add(&stream, NEXT, strlen(NEXT));
        forgiven += count_forgiven(&stream) > 0;
    }
    assert_int_equal(forgiven, 0);
}

/* A zero byte wherever the framing is: nobody may take it for an end. */
static void a_zero_byte_at_any_place_of_the_framing_is_refused(void **state)
{
    (void)state;
    struct stream whole = {.size = 0};
    stream_add_text(&whole, "POST /a HTTP/1.1|Host: a|Transfer-Encoding: chunked||3|", SIZE_MAX, "");
    unsigned forgiven = 0;
    for (size_t index = 0; index < whole.size; index++) {
        struct stream stream = whole;
        stream.text[index] = '\0';
        stream_add(&stream, "abc\r\n0\r\n\r\n" NEXT, strlen("abc\r\n0\r\n\r\n" NEXT));
        forgiven += count_forgiven(&stream) > 0;
    }
    assert_int_equal(forgiven, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_end_of_the_framing_is_cr_lf_or_the_request_is_refused),
        cmocka_unit_test(nothing_but_cr_lf_stands_between_the_parts_of_a_chunked_body),
        cmocka_unit_test(sound_framing_is_read_however_it_is_cut),
        cmocka_unit_test(a_chunk_size_is_hexadecimal_digits_and_nothing_else),
        cmocka_unit_test(a_zero_byte_at_any_place_of_the_framing_is_refused),
    };
    return cmocka_run_group_tests_name("framing", tests, NULL, NULL);
}
