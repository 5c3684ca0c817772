/* Events on disk: every kind there and back, and nothing less than a whole one is an event. */
#include "core/event.h"

#include "base/cursor.h"
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Every field of every kind gets a value of its own. */
struct filler {
    struct random random;
    uint8_t text[64];
};

static void fill_text(struct filler *filler, struct bytes *text)
{
    *text = bytes_make(filler->text, random_below(&filler->random, sizeof(filler->text)));
}

#define FILL_U8(name) fields->name = (uint8_t)random_u64(&filler->random);
#define FILL_U32(name) fields->name = (uint32_t)random_u64(&filler->random);
#define FILL_U64(name) fields->name = random_u64(&filler->random);
#define FILL_RAW(name, size) random_fill(&filler->random, fields->name, size);
#define FILL_TEXT(name) fill_text(filler, &fields->name);
#define FILL(KIND, kind, number)                                                                                       \
    static void fill_##kind(struct filler *filler, struct event_##kind *fields)                                        \
    {                                                                                                                  \
        EVENT_FIELDS_##kind(FILL_U8, FILL_U32, FILL_U64, FILL_RAW, FILL_TEXT)                                          \
    }
EVENT_LIST(FILL)

#define SAME_NUMBER(name) assert_true(a->name == b->name);
#define SAME_RAW(name, size) assert_memory_equal(a->name, b->name, size);
#define SAME_TEXT(name) assert_true(bytes_equal(a->name, b->name));
#define SAME(KIND, kind, number)                                                                                       \
    static void expect_same_##kind(const struct event_##kind *a, const struct event_##kind *b)                         \
    {                                                                                                                  \
        EVENT_FIELDS_##kind(SAME_NUMBER, SAME_NUMBER, SAME_NUMBER, SAME_RAW, SAME_TEXT)                                \
    }
EVENT_LIST(SAME)

static void expect_round_trip(const struct event *event)
{
    struct buffer encoded;
    struct event decoded;
    buffer_init(&encoded);
    buffer_append_u8(&encoded, 0xaa); /* what stands before it is none of its business */
    event_encode(event, &encoded);
    struct bytes whole = bytes_skip(buffer_bytes(&encoded), 1);
    for (size_t size = 0; size < whole.size; size++) {
        struct bytes source = bytes_make(whole.ptr, size);
        assert_false(event_decode(&source, &decoded));
        assert_true(source.ptr == whole.ptr && source.size == size);
    }
    struct bytes source = whole;
    assert_true(event_decode(&source, &decoded));
    assert_int_equal(source.size, 0);
    assert_int_equal(decoded.kind, event->kind);
    switch (event->kind) {
#define COMPARE_CASE(KIND, kind, number)                                                                               \
    case EVENT_##KIND:                                                                                                 \
        expect_same_##kind(&event->kind, &decoded.kind);                                                               \
        break;
        EVENT_LIST(COMPARE_CASE)
    }
    /* A size that is one too small or too large for the fields. */
    for (int change = -1; change <= 1; change += 2) {
        buffer_append_u8(&encoded, 0);
        uint8_t *at = encoded.data_owned + 1;
        bytes_put_u32(at + 1, bytes_get_u32(at + 1) + (uint32_t)change);
        source = bytes_skip(buffer_bytes(&encoded), 1);
        assert_false(event_decode(&source, &decoded));
        bytes_put_u32(at + 1, bytes_get_u32(at + 1) - (uint32_t)change);
    }
    buffer_deinit(&encoded);
}

static void every_kind_comes_back_and_no_part_of_it_does(void **state)
{
    (void)state;
    struct filler filler = {.random = {.state = 1}};
    random_fill(&filler.random, filler.text, sizeof(filler.text));
    for (unsigned round = 0; round < 50; round++) {
        struct event event;
#define ROUND_TRIP(KIND, kind_name, number)                                                                            \
    event = (struct event){.kind = EVENT_##KIND};                                                                      \
    fill_##kind_name(&filler, &event.kind_name);                                                                       \
    expect_round_trip(&event);
        EVENT_LIST(ROUND_TRIP)
#undef ROUND_TRIP
    }
}

static void unknown_kinds_are_refused_and_have_no_name(void **state)
{
    (void)state;
    unsigned known = 0;
    for (unsigned kind = 0; kind < 256; kind++) {
        uint8_t bytes[EVENT_HEADER_SIZE] = {(uint8_t)kind};
        struct bytes source = bytes_make(bytes, sizeof(bytes));
        struct event event;
        if (event_kind_name(kind) != NULL)
            known++;
        else
            assert_false(event_decode(&source, &event));
    }
#define COUNT_ONE(KIND, kind, number) +1
    assert_int_equal(known, 0 EVENT_LIST(COUNT_ONE));
}

/* The index keeps where the content lies, not the content. */
static void the_content_of_a_sent_event_lies_where_it_is_said_to(void **state)
{
    (void)state;
    struct event event = {.kind = EVENT_SENT, .sent = {.number = 7, .content = BYTES("the content")}};
    struct buffer encoded;
    buffer_init(&encoded);
    event_encode(&event, &encoded);
    struct bytes rest = bytes_skip(buffer_bytes(&encoded), EVENT_HEADER_SIZE + EVENT_SENT_CONTENT_OFFSET);
    assert_true(bytes_equal(rest, BYTES("the content")));
    buffer_deinit(&encoded);
}

/* What a log of today holds: these bytes may never change their meaning. */
static void the_bytes_of_an_event_are_fixed(void **state)
{
    (void)state;
    static const uint8_t expected[] = {33, 26, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5, 0,  0,
                                       0,  8,  7, 6, 5, 4, 3, 2, 1, 1, 1, 0, 0, 0, 'd'};
    const struct event event = {
        .kind = EVENT_UNIT_ENDED,
        .unit_ended = {
            .batch = 2, .unit = 5, .xor_id = UINT64_C(0x0102030405060708), .outcome = 1, .detail = BYTES("d")}};
    struct buffer encoded;
    buffer_init(&encoded);
    event_encode(&event, &encoded);
    assert_int_equal(encoded.size, sizeof(expected));
    assert_memory_equal(encoded.data_owned, expected, sizeof(expected));
    buffer_deinit(&encoded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back_and_no_part_of_it_does),
        cmocka_unit_test(unknown_kinds_are_refused_and_have_no_name),
        cmocka_unit_test(the_content_of_a_sent_event_lies_where_it_is_said_to),
        cmocka_unit_test(the_bytes_of_an_event_are_fixed),
    };
    return cmocka_run_group_tests_name("core event", tests, NULL, NULL);
}
