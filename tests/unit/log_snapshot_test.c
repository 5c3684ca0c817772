/* Snapshot files: whole or refused, and a crash at any step leaves one. */
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
        cmocka_unit_test(a_crash_at_any_step_leaves_one_whole_snapshot),
    };
    return cmocka_run_group_tests_name("log snapshot", tests, NULL, NULL);
}
