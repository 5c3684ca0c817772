#include "log/frame.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_reads_back_as_it_was_sealed),
        cmocka_unit_test(a_frame_takes_whole_sectors_and_no_more),
        cmocka_unit_test(every_single_flipped_bit_is_found),
        cmocka_unit_test(a_frame_that_lacks_written_sectors_is_torn),
        cmocka_unit_test(a_whole_frame_that_was_changed_is_not_torn),
        cmocka_unit_test(random_bytes_and_zeros_are_no_header),
        cmocka_unit_test(zeros_are_told_from_anything_else),
    };
    return cmocka_run_group_tests_name("log frame", tests, NULL, NULL);
}
