/* Snapshot files: whole or refused, and a crash at any step leaves one. */
#include "base/crc32c.h"
#include "log/snapshot.h"
#include "support/memory_disk.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MIB (1u << 20)

static struct snapshot_point point_make(uint64_t number)
{
    return (struct snapshot_point){
        .epoch = 2, .sequence = 10 * number, .position = 4096 * number, .time_ms = 99 * number};
}

static void payload_make(struct buffer *payload, uint64_t number, size_t size)
{
    struct random random = {.state = number};
    buffer_truncate(payload, 0);
    if (size > 0)
        random_fill(&random, buffer_extend(payload, size), size);
}

/* Begins, appends in uneven pieces, finishes and publishes. */
static enum error snapshot_put(struct disk *disk, uint64_t number, struct bytes payload, struct failure *failure)
{
    const struct snapshot_point point = point_make(number);
    struct snapshot_writer *writer;
    enum error error = snapshot_begin(disk, &point, &writer, failure);
    if (error != OK)
        return error;
    for (size_t piece = 1; payload.size > 0; piece = piece * 3 + 1) {
        const size_t size = piece < payload.size ? piece : payload.size;
        error = snapshot_append(writer, bytes_make(payload.ptr, size), failure);
        payload = bytes_skip(payload, size);
    }
    const enum error finished = snapshot_finish(writer, failure);
    assert_true(error == OK || finished == error);
    error = finished != OK ? finished : snapshot_publish(disk, &point, failure);
    return error == OK ? snapshot_remove_older(disk, &point, failure) : error;
}

/* Loads, and expects the snapshot with this number. */
static void assert_loads(struct disk *disk, uint64_t number, struct bytes payload)
{
    struct failure failure = {.error = OK};
    struct snapshot_point point = {0};
    struct buffer loaded;
    buffer_init(&loaded);
    bool is_found = false;
    if (snapshot_load(disk, &point, &loaded, &is_found, &failure) != OK)
        fail_msg("%s", failure.text);
    assert_true(is_found);
    const struct snapshot_point expected = point_make(number);
    assert_int_equal(point.epoch, expected.epoch);
    assert_int_equal(point.sequence, expected.sequence);
    assert_int_equal(point.position, expected.position);
    assert_int_equal(point.time_ms, expected.time_ms);
    assert_true(bytes_equal(buffer_bytes(&loaded), payload));
    buffer_deinit(&loaded);
}

static void assert_refused(struct disk *disk, const char *text)
{
    struct failure failure = {.error = OK};
    struct snapshot_point point = {.sequence = 77};
    struct buffer loaded;
    buffer_init(&loaded);
    bool is_found = false;
    assert_int_equal(snapshot_load(disk, &point, &loaded, &is_found, &failure), ERROR_LOG_DAMAGED);
    if (strstr(failure.text, text) == NULL || strstr(failure.text, "0000000000001000.snapshot") == NULL)
        fail_msg("expected \"%s\" in: %s", text, failure.text);
    assert_false(is_found);
    assert_int_equal(point.sequence, 77);
    assert_int_equal(loaded.size, 0);
    buffer_deinit(&loaded);
}

static void a_folder_without_a_snapshot_has_none(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    struct snapshot_point point;
    struct buffer payload;
    buffer_init(&payload);
    bool is_found = true;
    assert_int_equal(snapshot_load(disk, &point, &payload, &is_found, NULL), OK);
    assert_false(is_found);
    buffer_deinit(&payload);
    memory_disk_destroy(disk);
}

static void a_snapshot_loads_as_it_was_written(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 1000, MIB - 1, MIB, MIB + 1, 3 * MIB, 5 * MIB + 123};
    struct buffer payload;
    buffer_init(&payload);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct disk *disk = memory_disk_create(1);
        payload_make(&payload, i, sizes[i]);
        assert_int_equal(snapshot_put(disk, 1, buffer_bytes(&payload), NULL), OK);
        assert_loads(disk, 1, buffer_bytes(&payload));
        memory_disk_destroy(disk);
    }
    buffer_deinit(&payload);
}

static void a_newer_snapshot_replaces_the_older_one(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    assert_int_equal(snapshot_put(disk, 1, BYTES("one"), NULL), OK);
    assert_int_equal(snapshot_put(disk, 2, BYTES("two"), NULL), OK);
    assert_false(memory_disk_has(disk, "0000000000001000.snapshot"));
    assert_loads(disk, 2, BYTES("two"));
    assert_int_equal(snapshot_put(disk, 2, BYTES("again"), NULL), OK);
    assert_loads(disk, 2, BYTES("again"));
    memory_disk_destroy(disk);
}

static void what_is_not_published_does_not_count_and_is_removed(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    assert_int_equal(snapshot_put(disk, 1, BYTES("one"), NULL), OK);
    const struct snapshot_point point = point_make(2);
    for (int round = 0; round < 2; round++) { /* a second try begins where the first one left its file */
        struct snapshot_writer *writer;
        assert_int_equal(snapshot_begin(disk, &point, &writer, NULL), OK);
        assert_int_equal(snapshot_append(writer, BYTES("two"), NULL), OK);
        assert_int_equal(snapshot_finish(writer, NULL), OK);
    }
    assert_true(memory_disk_has(disk, "0000000000002000.snapshot.tmp"));
    assert_loads(disk, 1, BYTES("one"));
    assert_false(memory_disk_has(disk, "0000000000002000.snapshot.tmp"));
    memory_disk_put(disk, "0000000000002000.snapshot.tmp", BYTES("half"));
    snapshot_discard(disk);
    assert_false(memory_disk_has(disk, "0000000000002000.snapshot.tmp"));
    snapshot_discard(disk);
    memory_disk_destroy(disk);
}

static void any_flipped_bit_is_refused(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    struct buffer payload;
    buffer_init(&payload);
    payload_make(&payload, 1, 700);
    assert_int_equal(snapshot_put(disk, 1, buffer_bytes(&payload), NULL), OK);
    const char *name = "0000000000001000.snapshot";
    const uint64_t size = memory_disk_content(disk, name).size;
    assert_int_equal(size, 64 + 20 + 700 + 32);
    for (uint64_t bit = 0; bit < size * 8; bit++) {
        memory_disk_flip_bit(disk, name, bit);
        if (bit < 64 * 8)
            assert_refused(disk, "header");
        else if (bit < 84 * 8)
            assert_refused(disk, "block 0 of the snapshot has a damaged header");
        else if (bit < 784 * 8)
            assert_refused(disk, "block 0 of the snapshot, 700 bytes, has a wrong checksum");
        else
            assert_refused(disk, "trailer");
        memory_disk_flip_bit(disk, name, bit);
    }
    assert_loads(disk, 1, buffer_bytes(&payload));
    buffer_deinit(&payload);
    memory_disk_destroy(disk);
}

static void a_truncated_or_longer_file_is_refused(void **state)
{
    (void)state;
    struct disk *whole = memory_disk_create(1);
    struct buffer payload;
    buffer_init(&payload);
    payload_make(&payload, 1, 700);
    assert_int_equal(snapshot_put(whole, 1, buffer_bytes(&payload), NULL), OK);
    const char *name = "0000000000001000.snapshot";
    const struct bytes content = memory_disk_content(whole, name);
    for (uint64_t size = 0; size < content.size; size++) {
        struct disk *disk = memory_disk_clone(whole, 1);
        memory_disk_truncate(disk, name, size);
        assert_refused(disk, "");
        memory_disk_destroy(disk);
    }
    for (size_t more = 1; more < 100; more++) {
        uint8_t longer[1000] = {0};
        memcpy(longer, content.ptr, content.size);
        struct disk *disk = memory_disk_clone(whole, 1);
        memory_disk_put(disk, name, bytes_make(longer, content.size + more));
        assert_refused(disk, "");
        memory_disk_destroy(disk);
    }
    buffer_deinit(&payload);
    memory_disk_destroy(whole);
}

static void blocks_in_another_order_are_refused(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    struct buffer payload;
    buffer_init(&payload);
    payload_make(&payload, 1, 2 * MIB);
    assert_int_equal(snapshot_put(disk, 1, buffer_bytes(&payload), NULL), OK);
    const char *name = "0000000000001000.snapshot";
    const struct bytes content = memory_disk_content(disk, name);
    uint8_t *copy = malloc(content.size);
    memcpy(copy, content.ptr, content.size);
    memcpy(copy + 64, content.ptr + 64 + 20 + MIB, 20 + MIB);
    memcpy(copy + 64 + 20 + MIB, content.ptr + 64, 20 + MIB);
    memory_disk_put(disk, name, bytes_make(copy, content.size));
    assert_refused(disk, "expected block 0 of the snapshot, found block 1");
    /* One block missing altogether. */
    assert_int_equal(snapshot_put(disk, 1, buffer_bytes(&payload), NULL), OK);
    const struct bytes whole = memory_disk_content(disk, name);
    memcpy(copy, whole.ptr, 64 + 20 + MIB);
    memcpy(copy + 64 + 20 + MIB, whole.ptr + whole.size - 32, 32);
    memory_disk_put(disk, name, bytes_make(copy, 64 + 20 + MIB + 32));
    assert_refused(disk, "expected 2097152 bytes in 2 blocks, found 1048576 in 1");
    free(copy);
    buffer_deinit(&payload);
    memory_disk_destroy(disk);
}

static void a_snapshot_under_the_name_of_another_is_refused(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    assert_int_equal(snapshot_put(disk, 2, BYTES("two"), NULL), OK);
    memory_disk_put(disk, "0000000000001000.snapshot", memory_disk_content(disk, "0000000000002000.snapshot"));
    memory_disk_remove(disk, "0000000000002000.snapshot");
    assert_refused(disk, "the header speaks of position 8192, the file's name of 4096");
    memory_disk_destroy(disk);
}

/* The damaged newest one is no reason to fall back: segments that the older one needs may be gone already. */
static void an_older_snapshot_does_not_stand_in_for_a_damaged_newer_one(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    assert_int_equal(snapshot_put(disk, 1, BYTES("one"), NULL), OK);
    memory_disk_put(disk, "0000000000000800.snapshot", BYTES("older"));
    memory_disk_flip_bit(disk, "0000000000001000.snapshot", 85 * 8);
    assert_refused(disk, "block 0");
    assert_true(memory_disk_has(disk, "0000000000000800.snapshot"));
    memory_disk_destroy(disk);
}

static void a_failure_while_writing_leaves_the_older_one(void **state)
{
    (void)state;
    const enum memory_disk_fault faults[] = {MEMORY_DISK_FAIL_WRITE, MEMORY_DISK_FAIL_SYNC, MEMORY_DISK_FULL};
    struct buffer payload;
    buffer_init(&payload);
    payload_make(&payload, 2, 3 * MIB);
    struct disk *whole = memory_disk_create(1);
    assert_int_equal(snapshot_put(whole, 1, BYTES("one"), NULL), OK);
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t after = 0;; after++) {
            struct disk *disk = memory_disk_clone(whole, after);
            memory_disk_fail_after(disk, after, faults[i]);
            struct failure failure = {.error = OK};
            const enum error error = snapshot_put(disk, 2, buffer_bytes(&payload), &failure);
            const bool has_failed = memory_disk_has_failed(disk);
            assert_int_equal(has_failed, error != OK);
            if (!has_failed) {
                assert_loads(disk, 2, buffer_bytes(&payload));
            } else {
                assert_int_equal(error, faults[i] == MEMORY_DISK_FULL ? ERROR_DISK_FULL : ERROR_DISK_FAILED);
                assert_int_equal(failure.error, error);
                if (memory_disk_has(disk, "0000000000001000.snapshot") &&
                    !memory_disk_has(disk, "0000000000002000.snapshot"))
                    assert_loads(disk, 1, BYTES("one"));
                else
                    assert_loads(disk, 2, buffer_bytes(&payload)); /* it failed while publishing */
            }
            memory_disk_destroy(disk);
            if (!has_failed)
                break;
        }
    }
    memory_disk_destroy(whole);
    buffer_deinit(&payload);
}

static void a_crash_at_any_step_leaves_one_whole_snapshot(void **state)
{
    (void)state;
    struct buffer payload;
    buffer_init(&payload);
    payload_make(&payload, 2, MIB + 1000);
    struct disk *whole = memory_disk_create(1);
    assert_int_equal(snapshot_put(whole, 1, BYTES("one"), NULL), OK);
    for (uint64_t seed = 0; seed < 20; seed++) {
        for (uint64_t operations = 0;; operations++) {
            struct disk *disk = memory_disk_clone(whole, seed);
            memory_disk_fail_after(disk, operations, MEMORY_DISK_STOP);
            const enum error error = snapshot_put(disk, 2, buffer_bytes(&payload), NULL);
            const bool has_failed = memory_disk_has_failed(disk);
            assert_int_equal(has_failed, error != OK);
            memory_disk_crash(disk);
            struct snapshot_point point;
            struct buffer loaded;
            buffer_init(&loaded);
            bool is_found = false;
            assert_int_equal(snapshot_load(disk, &point, &loaded, &is_found, NULL), OK);
            assert_true(is_found);
            if (error == OK || point.sequence == 20)
                assert_true(bytes_equal(buffer_bytes(&loaded), buffer_bytes(&payload)));
            else
                assert_true(bytes_equal(buffer_bytes(&loaded), BYTES("one")));
            assert_int_equal(point.sequence, loaded.size == 3 ? 10 : 20);
            buffer_deinit(&loaded);
            memory_disk_destroy(disk);
            if (!has_failed)
                break;
        }
    }
    memory_disk_destroy(whole);
    buffer_deinit(&payload);
}

/* What a salvage is told of snapshots that are not whole. */
struct told {
    uint64_t positions[4];
    size_t sizes[4]; /* of the payload before the damage */
    char text[1024]; /* of the last one */
    unsigned count;
};

static void on_damaged(void *context, uint64_t position, const char *text, struct bytes payload)
{
    struct told *told = context;
    told->positions[told->count] = position;
    told->sizes[told->count++] = payload.size;
    (void)snprintf(told->text, sizeof(told->text), "%s", text);
}

/* Where the parts of a snapshot with MIB + 1000 bytes stand. */
#define BLOCK_0 64u
#define BLOCK_1 (BLOCK_0 + 20 + MIB)
#define TRAILER (BLOCK_1 + 20 + 1000)
#define WHOLE (TRAILER + 32)

/* `put` goes to `at`, and the checksum of `part`, in its last four bytes, is made right. */
static const struct spoiled {
    uint32_t part, part_size, at, put;
    uint32_t cut; /* the size that is left; 0: all */
    uint32_t offset;
    size_t payload; /* before the damage */
    const char *what;
} spoiled[] = {
    {0, 0, 0, 0, 95, 95, 0, "the snapshot is truncated"},
    {0, 0, 0, 0, 96, 64, 0, "the snapshot's trailer is missing or has a wrong checksum"},
    {0, 64, 0, 1, 0, 0, 0, "the snapshot's header has a wrong checksum"},
    {0, 0, 8, 77, 0, 0, 0, "the snapshot's header has a wrong checksum"},
    {0, 64, 4, 3, 0, 4, 0, "expected format version 2, found 3 (a newer program wrote it?)"},
    {0, 64, 4, 0, 0, 4, 0, "expected format version 2, found 0 (a newer program wrote it?)"},
    {0, 64, 24, 8192, 0, 24, 0, "the header speaks of position 8192, the file's name of 4096"},
    {BLOCK_0, 20, BLOCK_0 + 8, MIB + 1, 0, BLOCK_0, 0, "block 0 of the snapshot has a damaged header"},
    {BLOCK_1, 20, BLOCK_1, 1, 0, BLOCK_1, MIB, "block 1 of the snapshot has a damaged header"},
    {BLOCK_1, 20, BLOCK_1 + 8, 0, 0, BLOCK_1, MIB, "block 1 of the snapshot has a damaged header"},
    {0, 0, BLOCK_1 + 12, 1, 0, BLOCK_1, MIB, "block 1 of the snapshot has a damaged header"},
    {BLOCK_1, 20, BLOCK_1 + 4, 5, 0, BLOCK_1 + 4, MIB, "expected block 1 of the snapshot, found block 5"},
    {BLOCK_1, 20, BLOCK_1 + 12, 5, 0, BLOCK_1 + 20, MIB, "block 1 of the snapshot, 1000 bytes, has a wrong checksum"},
    {TRAILER, 32, TRAILER, 1, 0, TRAILER, MIB + 1000, "the snapshot's trailer is missing or has a wrong checksum"},
    {0, 0, TRAILER + 8, 1, 0, TRAILER, MIB + 1000, "the snapshot's trailer is missing or has a wrong checksum"},
    {TRAILER, 32, TRAILER + 8, 7, 0, TRAILER, MIB + 1000, "expected 7 bytes in 2 blocks, found 1049576 in 2"},
    {TRAILER, 32, TRAILER + 16, 3, 0, TRAILER, MIB + 1000, "expected 1049576 bytes in 3 blocks, found 1049576 in 2"},
    {0, 0, 0, 0, TRAILER + 31, TRAILER + 31, MIB + 1000, "the snapshot is truncated: its trailer is missing"},
};

/* Replaces the snapshot with this number by one of which a part is as `row` has it; `content` is the whole one. */
static void spoil(struct disk *disk, const char *name, struct bytes content, const struct spoiled *row)
{
    uint8_t *copy_owned = malloc(content.size);
    memcpy(copy_owned, content.ptr, content.size);
    if (row->cut == 0)
        bytes_put_u32(copy_owned + row->at, row->put);
    if (row->part_size > 0)
        bytes_put_u32(copy_owned + row->part + row->part_size - 4,
                      crc32c(0, bytes_make(copy_owned + row->part, row->part_size - 4)));
    memory_disk_put(disk, name, bytes_make(copy_owned, row->cut == 0 ? content.size : row->cut));
    free(copy_owned);
}

static void what_is_wrong_with_a_snapshot_is_told_with_its_place(void **state)
{
    (void)state;
    static const char name[] = "0000000000001000.snapshot";
    struct buffer payload, loaded;
    buffer_init(&payload);
    buffer_init(&loaded);
    payload_make(&payload, 5, MIB + 1000);
    struct disk *disk = memory_disk_create(1);
    assert_int_equal(snapshot_put(disk, 1, buffer_bytes(&payload), NULL), OK);
    assert_int_equal(memory_disk_content(disk, name).size, WHOLE);
    struct disk *whole = memory_disk_clone(disk, 2);
    const struct bytes content = memory_disk_content(whole, name);
    struct snapshot_point point = point_make(7);
    for (size_t i = 0; i < sizeof(spoiled) / sizeof(spoiled[0]); i++) {
        spoil(disk, name, content, &spoiled[i]);
        char text[1024];
        (void)snprintf(text, sizeof(text),
                       "memory/%s is damaged at offset %u: %s. Restore the whole folder from a backup or a replica. "
                       "Without one: \"tallyd --verify memory\" says what is affected, and \"tallyd --salvage memory "
                       "--to NEW\" saves what can be read into a new data folder.",
                       name, spoiled[i].offset, spoiled[i].what);
        struct failure failure = {.error = OK};
        bool is_found = false;
        assert_int_equal(snapshot_load(disk, &point, &loaded, &is_found, &failure), ERROR_LOG_DAMAGED);
        assert_string_equal(failure.text, text);
        struct told told = {.count = 0};
        is_found = true;
        assert_int_equal(snapshot_load_readable(disk, &point, &loaded, &is_found, on_damaged, &told, &failure), OK);
        assert_false(is_found);
        assert_int_equal(told.count, 1);
        assert_int_equal(told.positions[0], 4096);
        assert_int_equal(told.sizes[0], spoiled[i].payload);
        assert_string_equal(told.text, text);
        assert_int_equal(loaded.size, 0);
        assert_int_equal(point.sequence, 70);
    }

    /* A file that is longer than its snapshot says where that ends. */
    for (unsigned beyond = 0; beyond < 4; beyond++) {
        const uint32_t sizes[] = {95, WHOLE + 1001, WHOLE, WHOLE + 1000};
        uint8_t *longer_owned = calloc(1, WHOLE + 1000);
        memcpy(longer_owned, content.ptr, WHOLE);
        bytes_put_u32(longer_owned + 4, 2);
        bytes_put_u64(longer_owned + 40, sizes[beyond]);
        bytes_put_u32(longer_owned + 60, crc32c(0, bytes_make(longer_owned, 60)));
        memory_disk_put(disk, name, bytes_make(longer_owned, WHOLE + 1000));
        free(longer_owned);
        char text[128];
        (void)snprintf(text, sizeof(text),
                       "is damaged at offset %u: the snapshot is truncated: its header speaks of %u bytes.",
                       WHOLE + 1000, sizes[beyond]);
        struct failure failure = {.error = OK};
        const struct snapshot_point first = point_make(1);
        uint64_t size = 1;
        const enum error error = snapshot_size(disk, &first, &size, &failure);
        assert_int_equal(error, beyond < 2 ? ERROR_LOG_DAMAGED : OK);
        if (beyond < 2)
            assert_non_null(strstr(failure.text, text));
        assert_int_equal(size, beyond < 2 ? 1 : sizes[beyond]);
    }
    memory_disk_destroy(disk);
    memory_disk_destroy(whole);
    buffer_deinit(&payload);
    buffer_deinit(&loaded);
}

/* A salvage takes what there is, the newest first, and no file whose name is only nearly that of a snapshot. */
static void a_salvage_takes_the_newest_whole_snapshot(void **state)
{
    (void)state;
    struct buffer payload, loaded;
    buffer_init(&payload);
    buffer_init(&loaded);
    struct disk *disk = memory_disk_create(1);
    static const char *const names[] = {"0000000000001000.snapshot", "0000000000002000.snapshot",
                                        "0000000000003000.snapshot", "000000000000a000.snapshot"};
    static const uint64_t numbers[] = {1, 2, 3, 10};
    struct disk *others[4];
    for (unsigned i = 0; i < 4; i++) {
        others[i] = memory_disk_create(1);
        payload_make(&payload, numbers[i], 1000 * numbers[i]);
        assert_int_equal(snapshot_put(others[i], numbers[i], buffer_bytes(&payload), NULL), OK);
        memory_disk_put(disk, names[i], memory_disk_content(others[i], names[i]));
    }
    static const char *const nearly[] = {"000000000000B000.snapshot", "000000000000g000.snapshot",
                                         "00000000000f0000.snapshot.old", "0000000000f000.snapshot",
                                         "00000000000f0000.Snapshot"};
    for (unsigned i = 0; i < 5; i++)
        memory_disk_put(disk, nearly[i], BYTES("mine"));
    for (unsigned spoiled_count = 0; spoiled_count <= 4; spoiled_count++) {
        struct snapshot_point point = point_make(7);
        struct told told = {.count = 0};
        bool is_found = false;
        assert_int_equal(snapshot_load_readable(disk, &point, &loaded, &is_found, on_damaged, &told, NULL), OK);
        assert_int_equal(told.count, spoiled_count);
        for (unsigned i = 0; i < spoiled_count; i++)
            assert_int_equal(told.positions[i], 4096 * numbers[3 - i]);
        assert_true(is_found == (spoiled_count < 4));
        if (is_found) {
            payload_make(&payload, numbers[3 - spoiled_count], 1000 * numbers[3 - spoiled_count]);
            assert_true(bytes_equal(buffer_bytes(&payload), buffer_bytes(&loaded)));
            assert_int_equal(point.sequence, 10 * numbers[3 - spoiled_count]);
            memory_disk_flip_bit(disk, names[3 - spoiled_count], 100 * 8);
        }
        buffer_truncate(&loaded, 0);
    }
    for (unsigned i = 0; i < 4; i++)
        memory_disk_destroy(others[i]);
    memory_disk_destroy(disk);
    buffer_deinit(&payload);
    buffer_deinit(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_without_a_snapshot_has_none),
        cmocka_unit_test(a_snapshot_loads_as_it_was_written),
        cmocka_unit_test(a_newer_snapshot_replaces_the_older_one),
        cmocka_unit_test(what_is_not_published_does_not_count_and_is_removed),
        cmocka_unit_test(any_flipped_bit_is_refused),
        cmocka_unit_test(a_truncated_or_longer_file_is_refused),
        cmocka_unit_test(blocks_in_another_order_are_refused),
        cmocka_unit_test(a_snapshot_under_the_name_of_another_is_refused),
        cmocka_unit_test(an_older_snapshot_does_not_stand_in_for_a_damaged_newer_one),
        cmocka_unit_test(a_failure_while_writing_leaves_the_older_one),
        cmocka_unit_test(what_is_wrong_with_a_snapshot_is_told_with_its_place),
        cmocka_unit_test(a_salvage_takes_the_newest_whole_snapshot),
        cmocka_unit_test(a_crash_at_any_step_leaves_one_whole_snapshot),
    };
    return cmocka_run_group_tests_name("log snapshot", tests, NULL, NULL);
}
