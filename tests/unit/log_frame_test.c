#include "log/frame.h"

#include "base/crc32c.h"
#include "log/segment.h"
#include "support/log_rig.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const size_t payload_sizes[] = {0, 1, 447, 448, 449, 960, 961, 2000};

static void frame_make(struct buffer *frame, size_t payload_size)
{
    buffer_truncate(frame, 0);
    frame_begin(frame);
    if (payload_size > 0)
        log_rig_payload(7, payload_size, buffer_extend(frame, payload_size));
    frame_seal(frame, FRAME_EVENTS, 3, 7, 1024, 1700000000000);
}

/* Whole: the header can be read and the body is what it says. */
static bool frame_is_good(struct bytes frame)
{
    struct frame_header header;
    return frame_header_decode(frame, &header) && header.size == frame.size && frame_is_whole(&header, frame);
}

static void a_frame_reads_back_as_it_was_sealed(void **state)
{
    (void)state;
    struct buffer frame;
    buffer_init(&frame);
    for (size_t i = 0; i < sizeof(payload_sizes) / sizeof(payload_sizes[0]); i++) {
        frame_make(&frame, payload_sizes[i]);
        struct frame_header header;
        assert_true(frame_header_decode(buffer_bytes(&frame), &header));
        assert_int_equal(header.kind, FRAME_EVENTS);
        assert_int_equal(header.epoch, 3);
        assert_int_equal(header.sequence, 7);
        assert_int_equal(header.position, 1024);
        assert_int_equal(header.time_ms, 1700000000000);
        assert_int_equal(header.payload_size, payload_sizes[i]);
        assert_int_equal(header.size, frame.size);
        assert_int_equal(header.zero_sectors, 0);
        assert_true(frame_is_whole(&header, buffer_bytes(&frame)));
    }
    buffer_deinit(&frame);
}

static void a_frame_takes_whole_sectors_and_no_more(void **state)
{
    (void)state;
    assert_int_equal(frame_size(0), 512);
    assert_int_equal(frame_size(448), 512);
    assert_int_equal(frame_size(449), 1024);
    assert_int_equal(frame_size(960), 1024);
    assert_int_equal(frame_size(961), 1536);
}

static void every_single_flipped_bit_is_found(void **state)
{
    (void)state;
    struct buffer frame;
    buffer_init(&frame);
    for (size_t i = 0; i < sizeof(payload_sizes) / sizeof(payload_sizes[0]); i++) {
        frame_make(&frame, payload_sizes[i]);
        assert_true(frame_is_good(buffer_bytes(&frame)));
        for (size_t bit = 0; bit < frame.size * 8; bit++) {
            frame.data_owned[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_false(frame_is_good(buffer_bytes(&frame)));
            frame.data_owned[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
    buffer_deinit(&frame);
}

/* Any set of sectors may be missing after a crash, also when the payload itself has sectors of zeros. */
static void a_frame_that_lacks_written_sectors_is_torn(void **state)
{
    (void)state;
    struct buffer frame;
    buffer_init(&frame);
    frame_begin(&frame);
    memset(buffer_extend(&frame, 2900), 0, 2900); /* sectors 0 to 5; 2 and 5 keep their zeros */
    frame.data_owned[700] = 1;
    frame.data_owned[1700] = 2;
    frame.data_owned[2500] = 3;
    frame_seal(&frame, FRAME_EVENTS, 1, 1, 512, 1);
    assert_int_equal(frame.size, 6 * FRAME_SECTOR_SIZE);
    struct frame_header header;
    assert_true(frame_header_decode(buffer_bytes(&frame), &header));
    assert_int_equal(header.zero_sectors, 2);

    uint8_t *torn = malloc(frame.size);
    for (unsigned kept = 1; kept < 64; kept += 2) { /* the header's sector is there */
        memcpy(torn, frame.data_owned, frame.size);
        for (unsigned sector = 0; sector < 6; sector++)
            if ((kept & 1u << sector) == 0)
                memset(torn + sector * FRAME_SECTOR_SIZE, 0, FRAME_SECTOR_SIZE);
        const struct bytes view = bytes_make(torn, frame.size);
        const unsigned written = 1 | 2 | 8 | 16;
        if ((kept & written) == written)
            assert_true(frame_is_whole(&header, view));
        else
            assert_true(!frame_is_whole(&header, view) && frame_is_torn(&header, view));
    }
    free(torn);
    buffer_deinit(&frame);
}

static void a_whole_frame_that_was_changed_is_not_torn(void **state)
{
    (void)state;
    struct random random = {.state = 5};
    struct buffer frame;
    buffer_init(&frame);
    frame_make(&frame, 2000);
    struct frame_header header;
    assert_true(frame_header_decode(buffer_bytes(&frame), &header));
    for (int round = 0; round < 1000; round++) {
        const uint32_t bit =
            FRAME_HEADER_SIZE * 8 + random_below(&random, (uint32_t)(frame.size - FRAME_HEADER_SIZE) * 8);
        frame.data_owned[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(frame_is_whole(&header, buffer_bytes(&frame)));
        assert_false(frame_is_torn(&header, buffer_bytes(&frame)));
        frame.data_owned[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    buffer_deinit(&frame);
}

static void random_bytes_and_zeros_are_no_header(void **state)
{
    (void)state;
    struct random random = {.state = 6};
    uint8_t sector[FRAME_SECTOR_SIZE] = {0};
    struct frame_header header = {.sequence = 99};
    assert_false(frame_header_decode(bytes_make(sector, sizeof(sector)), &header));
    for (int round = 0; round < 1000; round++) {
        random_fill(&random, sector, sizeof(sector));
        assert_false(frame_header_decode(bytes_make(sector, sizeof(sector)), &header));
    }
    assert_int_equal(header.sequence, 99);
}

static void zeros_are_told_from_anything_else(void **state)
{
    (void)state;
    uint8_t sector[FRAME_SECTOR_SIZE] = {0};
    assert_true(frame_bytes_are_zero(bytes_make(sector, 0)));
    assert_true(frame_bytes_are_zero(bytes_make(sector, sizeof(sector))));
    for (size_t i = 0; i < sizeof(sector); i++) {
        sector[i] = 0x80;
        assert_false(frame_bytes_are_zero(bytes_make(sector, sizeof(sector))));
        sector[i] = 0;
    }
}

/* Changes a number of `size` bytes at `offset` of the header and gives it a good checksum again. */
static bool is_decoded_with(struct bytes frame, size_t offset, unsigned size, uint64_t value)
{
    uint8_t sector[FRAME_SECTOR_SIZE];
    memcpy(sector, frame.ptr, sizeof(sector));
    for (unsigned i = 0; i < size; i++)
        sector[offset + i] = (uint8_t)(value >> 8 * i);
    bytes_put_u32(sector + 60, crc32c(0, bytes_make(sector, 60)));
    struct frame_header header;
    return frame_header_decode(bytes_make(sector, sizeof(sector)), &header);
}

/* Offsets and sizes are those of docs/internals/formats/log.md. */
static void a_header_with_a_good_checksum_and_a_bad_field_is_none(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        unsigned size;
        uint64_t value;
        bool is_good;
    } rows[] = {
        {0, 1, 'T', true},   {0, 1, 'U', false},        {3, 1, 'G', false},
        {4, 1, 1, true},     {4, 1, 0, false},          {4, 1, 2, false},
        {5, 1, 0, false},    {5, 1, 1, true},           {5, 1, 3, false},
        {5, 1, 2, false},    {6, 2, 1, false},          {6, 2, 0x100, false},
        {8, 4, 0, true},     {8, 4, 449, true},         {8, 4, FRAME_PAYLOAD_SIZE_MAX, true},
        {12, 4, 77, true},   {16, 8, UINT64_MAX, true}, {8, 4, FRAME_PAYLOAD_SIZE_MAX + 1, false},
        {24, 8, 0, true},    {32, 8, 0, true},          {32, 8, 512, true},
        {32, 8, 511, false}, {32, 8, 513, false},       {40, 8, 0, true},
        {48, 4, 9, true},    {52, 8, 1, false},         {52, 8, UINT64_C(1) << 56, false},
    };
    struct buffer frame;
    buffer_init(&frame);
    frame_make(&frame, 100);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (is_decoded_with(buffer_bytes(&frame), rows[i].offset, rows[i].size, rows[i].value) != rows[i].is_good)
            fail_msg("%llu at offset %zu", (unsigned long long)rows[i].value, rows[i].offset);
    buffer_truncate(&frame, 0);
    frame_begin(&frame);
    frame_seal(&frame, FRAME_SEGMENT_END, 3, 7, 1024, 1700000000000);
    assert_true(is_decoded_with(buffer_bytes(&frame), 8, 4, 0));
    assert_false(is_decoded_with(buffer_bytes(&frame), 8, 4, 1));
    buffer_deinit(&frame);
}

static void a_frame_of_another_version_is_known_by_magic_version_and_checksum(void **state)
{
    (void)state;
    struct buffer frame;
    buffer_init(&frame);
    frame_make(&frame, 100);
    uint8_t sector[FRAME_SECTOR_SIZE];
    const struct bytes view = bytes_make(sector, sizeof(sector));
    memcpy(sector, frame.data_owned, sizeof(sector));
    unsigned version = 77;
    assert_false(frame_is_of_other_version(view, &version));
    sector[4] = 2;
    sector[52] = 1; /* what is zero now may have a meaning then */
    assert_false(frame_is_of_other_version(view, &version));
    bytes_put_u32(sector + 60, crc32c(0, bytes_make(sector, 60)));
    assert_int_equal(version, 77);
    assert_true(frame_is_of_other_version(view, &version));
    assert_int_equal(version, 2);
    sector[0] ^= 1;
    bytes_put_u32(sector + 60, crc32c(0, bytes_make(sector, 60)));
    assert_false(frame_is_of_other_version(view, &version));
    buffer_deinit(&frame);
}

/* --- segments ----------------------------------------------------------------------------------------------------- */

static void a_segment_has_one_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool is_one;
        uint64_t start;
    } rows[] = {
        {"0000000000000000.segment", true, 0},
        {"0000000000010000.segment", true, 0x10000},
        {"0123456789abcdef.segment", true, 0x0123456789abcdef},
        {"fedcba9876543210.segment", true, 0xfedcba9876543210},
        {"fedcba9876543210.segmenT", false, 0},
        {"fedcba9876543210.segment ", false, 0},
        {"fedcba9876543210.segmen", false, 0},
        {"fedcba987654321.segment", false, 0},
        {"fedcba98765432100.segment", false, 0},
        {"FEDCBA9876543210.segment", false, 0},
        {"fedcba987654321g.segment", false, 0},
        {"fedcba9876543210-segment", false, 0},
        {"", false, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint64_t start = 77;
        assert_int_equal(segment_name_decode(rows[i].name, &start), rows[i].is_one);
        assert_int_equal(start, rows[i].is_one ? rows[i].start : 77);
        char name[SEGMENT_NAME_SIZE];
        segment_name(rows[i].start, name);
        if (rows[i].is_one)
            assert_string_equal(name, rows[i].name);
    }
}

static void the_header_of_a_segment_reads_back_and_any_changed_bit_is_found(void **state)
{
    (void)state;
    const struct segment_header header = {.version = SEGMENT_VERSION,
                                          .ordinal = 0x1112131415161718,
                                          .segment_size = SEGMENT_SIZE_MIN,
                                          .sequence = 0x2122232425262728,
                                          .epoch = 0x3132333435363738,
                                          .link = 0x41424344};
    uint8_t sector[SEGMENT_HEADER_SIZE];
    memset(sector, 0xff, sizeof(sector));
    segment_header_encode(&header, sector);
    struct segment_header read = {.ordinal = 77};
    for (size_t bit = 0; bit < sizeof(sector) * 8; bit++) {
        sector[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(segment_header_decode(bytes_make(sector, sizeof(sector)), &read));
        assert_int_equal(read.ordinal, 77);
        sector[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(segment_header_decode(bytes_make(sector, sizeof(sector)), &read));
    assert_int_equal(read.version, header.version);
    assert_int_equal(read.ordinal, header.ordinal);
    assert_int_equal(read.segment_size, header.segment_size);
    assert_int_equal(read.sequence, header.sequence);
    assert_int_equal(read.epoch, header.epoch);
    assert_int_equal(read.link, header.link);
    assert_true(frame_bytes_are_zero(bytes_make(sector + 44, 508 - 44)));
    /* Another magic with a good checksum is no header. */
    sector[0]++;
    bytes_put_u32(sector + 508, crc32c(0, bytes_make(sector, 508)));
    assert_false(segment_header_decode(bytes_make(sector, sizeof(sector)), &read));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_of_another_version_is_known_by_magic_version_and_checksum),
        cmocka_unit_test(a_frame_reads_back_as_it_was_sealed),
        cmocka_unit_test(a_frame_takes_whole_sectors_and_no_more),
        cmocka_unit_test(every_single_flipped_bit_is_found),
        cmocka_unit_test(a_frame_that_lacks_written_sectors_is_torn),
        cmocka_unit_test(a_whole_frame_that_was_changed_is_not_torn),
        cmocka_unit_test(random_bytes_and_zeros_are_no_header),
        cmocka_unit_test(zeros_are_told_from_anything_else),
        cmocka_unit_test(a_header_with_a_good_checksum_and_a_bad_field_is_none),
        cmocka_unit_test(a_segment_has_one_name),
        cmocka_unit_test(the_header_of_a_segment_reads_back_and_any_changed_bit_is_found),
    };
    return cmocka_run_group_tests_name("log frame", tests, NULL, NULL);
}
