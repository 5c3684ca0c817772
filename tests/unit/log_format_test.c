/* The bytes of docs/internals/formats/log.md: a folder written by hand-picked calls looks exactly as the document shows
 * it. If this test fails, the format has changed: it needs a new version number and the document new examples. */
#include "log/log.h"
#include "log/snapshot.h"
#include "support/memory_disk.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* clang-format off */
static const char first_segment[] =
    "0000  54 4c 59 53 01 00 00 00  00 00 00 00 00 00 00 00  |TLYS............|\n"
    "0010  00 20 00 00 00 00 00 00  01 00 00 00 00 00 00 00  |. ..............|\n"
    "0020  01 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n"
    "0030  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n"
    "*\n"
    "01f0  00 00 00 00 00 00 00 00  00 00 00 00 8c 03 42 31  |..............B1|\n"
    "0200  54 4c 59 46 01 01 00 00  05 00 00 00 6d 4d 7e 00  |TLYF........mM~.|\n"
    "0210  01 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00  |................|\n"
    "0220  00 02 00 00 00 00 00 00  00 68 e5 cf 8b 01 00 00  |.........h......|\n"
    "0230  00 00 00 00 00 00 00 00  00 00 00 00 65 6e 93 cb  |............en..|\n"
    "0240  68 68 68 68 68 00 00 00  00 00 00 00 00 00 00 00  |hhhhh...........|\n"
    "0250  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n"
    "*\n"
    "0400  54 4c 59 46 01 01 00 00  6c 07 00 00 94 c9 64 77  |TLYF....l.....dw|\n"
    "0410  01 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00  |................|\n"
    "0420  00 04 00 00 00 00 00 00  01 68 e5 cf 8b 01 00 00  |.........h......|\n"
    "0430  00 00 00 00 00 00 00 00  00 00 00 00 d8 c3 f7 d7  |................|\n"
    "0440  78 78 78 78 78 78 78 78  78 78 78 78 78 78 78 78  |xxxxxxxxxxxxxxxx|\n"
    "*\n"
    "0ba0  78 78 78 78 78 78 78 78  78 78 78 78 00 00 00 00  |xxxxxxxxxxxx....|\n"
    "0bb0  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n"
    "*\n"
    "0c00  54 4c 59 46 01 01 00 00  6c 07 00 00 94 c9 64 77  |TLYF....l.....dw|\n"
    "0c10  01 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00  |................|\n"
    "0c20  00 0c 00 00 00 00 00 00  02 68 e5 cf 8b 01 00 00  |.........h......|\n"
    "0c30  00 00 00 00 00 00 00 00  00 00 00 00 41 18 d3 47  |............A..G|\n"
    "0c40  78 78 78 78 78 78 78 78  78 78 78 78 78 78 78 78  |xxxxxxxxxxxxxxxx|\n"
    "*\n"
    "13a0  78 78 78 78 78 78 78 78  78 78 78 78 00 00 00 00  |xxxxxxxxxxxx....|\n"
    "13b0  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n"
    "*\n"
    "1400  54 4c 59 46 01 02 00 00  00 00 00 00 38 62 d7 33  |TLYF........8b.3|\n"
    "1410  01 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00  |................|\n"
    "1420  00 14 00 00 00 00 00 00  02 68 e5 cf 8b 01 00 00  |.........h......|\n"
    "1430  00 00 00 00 00 00 00 00  00 00 00 00 96 bc 2d 34  |..............-4|\n"
    "1440  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n"
    "*\n"
    "2000\n";

static const char second_segment[] =
    "0000  54 4c 59 53 01 00 00 00  01 00 00 00 00 00 00 00  |TLYS............|\n"
    "0010  00 20 00 00 00 00 00 00  04 00 00 00 00 00 00 00  |. ..............|\n"
    "0020  01 00 00 00 00 00 00 00  96 bc 2d 34 00 00 00 00  |..........-4....|\n"
    "0030  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n"
    "*\n"
    "01f0  00 00 00 00 00 00 00 00  00 00 00 00 61 19 13 55  |............a..U|\n"
    "0200  54 4c 59 46 01 01 00 00  6c 07 00 00 94 c9 64 77  |TLYF....l.....dw|\n"
    "0210  01 00 00 00 00 00 00 00  04 00 00 00 00 00 00 00  |................|\n"
    "0220  00 22 00 00 00 00 00 00  03 68 e5 cf 8b 01 00 00  |.\".......h......|\n"
    "0230  00 00 00 00 00 00 00 00  00 00 00 00 80 d4 35 36  |..............56|\n"
    "0240  78 78 78 78 78 78 78 78  78 78 78 78 78 78 78 78  |xxxxxxxxxxxxxxxx|\n"
    "*\n"
    "09a0  78 78 78 78 78 78 78 78  78 78 78 78 00 00 00 00  |xxxxxxxxxxxx....|\n"
    "09b0  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n"
    "*\n"
    "2000\n";

static const char snapshot_file[] =
    "0000  54 53 4e 50 01 00 00 00  01 00 00 00 00 00 00 00  |TSNP............|\n"
    "0010  04 00 00 00 00 00 00 00  00 2a 00 00 00 00 00 00  |.........*......|\n"
    "0020  03 68 e5 cf 8b 01 00 00  00 00 00 00 00 00 00 00  |.h..............|\n"
    "0030  00 00 00 00 00 00 00 00  00 00 00 00 76 16 2e 82  |............v...|\n"
    "0040  54 42 4c 4b 00 00 00 00  05 00 00 00 df 68 db 66  |TBLK.........h.f|\n"
    "0050  d1 43 d9 a3 73 74 61 74  65 54 54 52 4c 00 00 00  |.C..stateTTRL...|\n"
    "0060  00 05 00 00 00 00 00 00  00 01 00 00 00 00 00 00  |................|\n"
    "0070  00 00 00 00 00 c2 cf 35  59                       |.......5Y|\n"
    "0079\n";

/* clang-format on */

/* One line of hexdump -C with offsets of four digits. */
static void line_append(struct buffer *text, size_t offset, struct bytes line)
{
    buffer_append_format(text, "%04zx", offset);
    for (size_t i = 0; i < 16; i++) {
        buffer_append_format(text, i % 8 == 0 ? "  " : " ");
        if (i < line.size)
            buffer_append_format(text, "%02x", line.ptr[i]);
        else
            buffer_append_format(text, "  ");
    }
    buffer_append_format(text, "  |");
    for (size_t i = 0; i < line.size; i++)
        buffer_append_u8(text, isprint(line.ptr[i]) ? line.ptr[i] : '.');
    buffer_append_format(text, "|\n");
}

static void assert_dump(struct disk *disk, const char *name, const char *expected)
{
    const struct bytes content = memory_disk_content(disk, name);
    struct buffer text;
    buffer_init(&text);
    bool is_squeezed = false;
    for (size_t offset = 0; offset < content.size; offset += 16) {
        const size_t left = content.size - offset;
        const struct bytes line = bytes_make(content.ptr + offset, left < 16 ? left : 16);
        const bool is_repeated = offset > 0 && left >= 16 && memcmp(line.ptr, line.ptr - 16, 16) == 0;
        if (!is_repeated)
            line_append(&text, offset, line);
        else if (!is_squeezed)
            buffer_append_format(&text, "*\n");
        is_squeezed = is_repeated;
    }
    buffer_append_format(&text, "%04zx\n", content.size);
    buffer_append_u8(&text, 0);
    assert_string_equal((const char *)text.data_owned, expected);
    buffer_deinit(&text);
}

/* Seals a frame of `size` bytes of `filling`; returns the position behind it. */
static uint64_t frame_write(struct log *log, uint64_t time_ms, char filling, size_t size)
{
    struct buffer frame;
    buffer_init(&frame);
    frame_begin(&frame);
    memset(buffer_extend(&frame, size), filling, size);
    const struct log_point point = log_next_point(log);
    frame_seal(&frame, FRAME_EVENTS, log_epoch(log), point.sequence, point.position, time_ms);
    log_point_taken(log, frame.size);
    assert_int_equal(log_write(log, buffer_bytes(&frame), NULL), OK);
    const uint64_t end = point.position + frame.size;
    buffer_deinit(&frame);
    return end;
}

static void a_folder_looks_as_the_document_shows_it(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    const struct log_options options = {.segment_size = 8192, .frame_size_max = 3072};
    struct log *log;
    struct buffer snapshot;
    buffer_init(&snapshot);
    bool is_new, is_end;
    struct frame_view view;
    assert_int_equal(log_open(disk, &options, &log, &snapshot, &is_new, NULL), OK);
    assert_int_equal(log_replay_next(log, &view, &is_end, NULL), OK);
    assert_true(is_end);
    (void)frame_write(log, 1700000000000, 'h', 5);
    (void)frame_write(log, 1700000000001, 'x', 1900);
    (void)frame_write(log, 1700000000002, 'x', 1900);
    const uint64_t end = frame_write(log, 1700000000003, 'x', 1900);
    const struct snapshot_point point = {.epoch = 1, .sequence = 4, .position = end, .time_ms = 1700000000003};
    struct snapshot_writer *writer;
    assert_int_equal(snapshot_begin(disk, &point, &writer, NULL), OK);
    assert_int_equal(snapshot_append(writer, BYTES("state"), NULL), OK);
    assert_int_equal(snapshot_finish(writer, NULL), OK);
    assert_int_equal(snapshot_publish(disk, &point, NULL), OK);
    uint64_t size = 0;
    assert_int_equal(snapshot_size(disk, &point, &size, NULL), OK);
    assert_int_equal(size, memory_disk_content(disk, "0000000000002a00.snapshot").size);
    log_close(log);
    assert_dump(disk, "0000000000000000.segment", first_segment);
    assert_dump(disk, "0000000000002000.segment", second_segment);
    assert_dump(disk, "0000000000002a00.snapshot", snapshot_file);
    buffer_deinit(&snapshot);
    memory_disk_destroy(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_looks_as_the_document_shows_it),
    };
    return cmocka_run_group_tests_name("log format", tests, NULL, NULL);
}
