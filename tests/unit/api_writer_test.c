/* JSON as the api writes it, read by an independent parser. */
#include "api/writer.h"

#include "random.h"
#include <yyjson.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static yyjson_doc *parse(const struct buffer *out)
{
    yyjson_doc *doc = yyjson_read((const char *)out->data_owned, out->size, YYJSON_READ_NOFLAG);
    if (doc == NULL)
        fail_msg("not JSON: %.*s", (int)out->size, (const char *)out->data_owned);
    return doc;
}

static void expect_text(yyjson_val *value, struct bytes expected)
{
    assert_true(yyjson_is_str(value));
    assert_true(bytes_equal(bytes_make(yyjson_get_str(value), yyjson_get_len(value)), expected));
}

/* One random character of UTF-8, at most four bytes: all of ASCII, and some of each length. */
static size_t draw_character(struct random *random, uint8_t *out)
{
    static const char *const longer[] = {"\xc2\x80",     "\xdf\xbf",     "\xe0\xa0\x80",     "\xed\x9f\xbf",
                                         "\xee\x80\x80", "\xef\xbf\xbd", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};
    if (random_below(random, 3) > 0) {
        out[0] = (uint8_t)random_below(random, 128);
        return 1;
    }
    const char *character = longer[random_below(random, 8)];
    memcpy(out, character, strlen(character));
    return strlen(character);
}

static void any_text_comes_back_from_the_parser(void **state)
{
    (void)state;
    struct random random = {.state = 1};
    struct buffer out;
    buffer_init(&out);
    for (unsigned round = 0; round < 20000; round++) {
        uint8_t text[200];
        size_t size = 0;
        size_t characters = random_below(&random, 40);
        while (characters-- > 0)
            size += draw_character(&random, text + size);
        buffer_truncate(&out, 0);
        struct writer writer = writer_make(&out);
        writer_object_begin(&writer, NULL);
        writer_text(&writer, "a", bytes_make(text, size));
        writer_name(&writer, bytes_make(text, size));
        writer_number(&writer, NULL, round);
        writer_object_end(&writer);
        yyjson_doc *doc = parse(&out);
        yyjson_val *root = yyjson_doc_get_root(doc);
        expect_text(yyjson_obj_get(root, "a"), bytes_make(text, size));
        assert_int_equal(yyjson_obj_size(root), 2);
        yyjson_doc_free(doc);
    }
    buffer_deinit(&out);
}

/* The fast path looks at eight bytes at once: each byte at each place, among plain ones. */
static void each_byte_at_each_place_is_escaped_or_not(void **state)
{
    (void)state;
    struct buffer out;
    buffer_init(&out);
    for (unsigned byte = 0; byte < 128; byte++) {
        for (size_t index = 0; index < 19; index++) {
            uint8_t text[19];
            memset(text, byte == '!' ? '#' : '!', sizeof(text));
            text[index] = (uint8_t)byte;
            buffer_truncate(&out, 0);
            struct writer writer = writer_make(&out);
            writer_object_begin(&writer, NULL);
            writer_text(&writer, "a", bytes_make(text, sizeof(text)));
            writer_object_end(&writer);
            yyjson_doc *doc = parse(&out);
            expect_text(yyjson_obj_get(yyjson_doc_get_root(doc), "a"), bytes_make(text, sizeof(text)));
            yyjson_doc_free(doc);
            bool is_plain = byte >= 0x20 && byte != '"' && byte != '\\';
            assert_int_equal(out.size == sizeof(text) + strlen("{\"a\":\"\"}"), is_plain);
        }
    }
    buffer_deinit(&out);
}

static void commas_stand_between_values_and_nowhere_else(void **state)
{
    (void)state;
    struct buffer out;
    buffer_init(&out);
    struct writer writer = writer_make(&out);
    writer_object_begin(&writer, NULL);
    writer_list_begin(&writer, "empty");
    writer_list_end(&writer);
    writer_object_begin(&writer, "none");
    writer_object_end(&writer);
    writer_list_begin(&writer, "list");
    writer_string(&writer, NULL, "x");
    writer_number(&writer, NULL, UINT64_MAX);
    writer_object_begin(&writer, NULL);
    writer_boolean(&writer, "t", true);
    writer_boolean(&writer, "f", false);
    writer_object_end(&writer);
    writer_list_end(&writer);
    writer_time(&writer, "time", 1700000000007);
    writer_hex(&writer, "hex", BYTES("\x01\xab"));
    writer_object_end(&writer);
    assert_true(
        bytes_equal(buffer_bytes(&out),
                    BYTES("{\"empty\":[],\"none\":{},\"list\":[\"x\",18446744073709551615,{\"t\":true,\"f\":false}],"
                          "\"time\":1700000000.007,\"hex\":\"01ab\"}")));
    buffer_deinit(&out);
}

static void base64_is_that_of_the_rfc(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"},
                                           {"\xff\xfe\xfd", "//79"}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct buffer out;
        buffer_init(&out);
        struct writer writer = writer_make(&out);
        writer_list_begin(&writer, NULL);
        writer_base64(&writer, NULL, bytes_from_string(pairs[i][0]));
        writer_list_end(&writer);
        yyjson_doc *doc = parse(&out);
        expect_text(yyjson_arr_get_first(yyjson_doc_get_root(doc)), bytes_from_string(pairs[i][1]));
        yyjson_doc_free(doc);
        buffer_deinit(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_text_comes_back_from_the_parser),
        cmocka_unit_test(each_byte_at_each_place_is_escaped_or_not),
        cmocka_unit_test(commas_stand_between_values_and_nowhere_else),
        cmocka_unit_test(base64_is_that_of_the_rfc),
    };
    return cmocka_run_group_tests_name("api writer", tests, NULL, NULL);
}
