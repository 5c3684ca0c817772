/* The content of a message in the log: read long after its frame was checked, so it has a checksum of its own. */
#include "core/messages/content.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct content example = {
    .id = "0123456789abcde",
    .body_md5 = "body md5 ......",
    .attributes_md5 = "attributes md5.",
    .body = {(const uint8_t *)"the body", 8},
    .attributes = {(const uint8_t *)"attributes", 10},
    .group = {(const uint8_t *)"group", 5},
    .sender = {(const uint8_t *)"sender", 6},
    .trace = {(const uint8_t *)"trace", 5},
};

static void expect_example(const struct content *content)
{
    assert_memory_equal(content->id, example.id, sizeof(example.id));
    assert_memory_equal(content->body_md5, example.body_md5, sizeof(example.body_md5));
    assert_memory_equal(content->attributes_md5, example.attributes_md5, sizeof(example.attributes_md5));
    assert_true(bytes_equal(content->body, example.body) && bytes_equal(content->attributes, example.attributes));
    assert_true(bytes_equal(content->group, example.group) && bytes_equal(content->sender, example.sender));
    assert_true(bytes_equal(content->trace, example.trace));
}

static void content_comes_back_as_it_was(void **state)
{
    (void)state;
    struct buffer encoded;
    struct content content;
    buffer_init(&encoded);
    buffer_append_u32(&encoded, 1); /* it may stand anywhere in a frame */
    content_encode(&example, &encoded);
    assert_true(content_decode(bytes_skip(buffer_bytes(&encoded), 4), &content));
    expect_example(&content);
    buffer_truncate(&encoded, 0);
    content_encode(&(struct content){0}, &encoded);
    assert_true(content_decode(buffer_bytes(&encoded), &content));
    assert_int_equal(content.body.size + content.attributes.size + content.group.size, 0);
    buffer_deinit(&encoded);
}

static void every_flipped_bit_and_every_cut_is_found(void **state)
{
    (void)state;
    struct buffer encoded;
    struct content content = example;
    buffer_init(&encoded);
    content_encode(&example, &encoded);
    for (size_t bit = 0; bit < encoded.size * 8; bit++) {
        encoded.data_owned[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(content_decode(buffer_bytes(&encoded), &content));
        encoded.data_owned[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t size = 0; size < encoded.size; size++)
        assert_false(content_decode(bytes_make(encoded.data_owned, size), &content));
    buffer_append_u8(&encoded, 0);
    assert_false(content_decode(buffer_bytes(&encoded), &content));
    expect_example(&content);
    buffer_deinit(&encoded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_comes_back_as_it_was),
        cmocka_unit_test(every_flipped_bit_and_every_cut_is_found),
    };
    return cmocka_run_group_tests_name("core content", tests, NULL, NULL);
}
