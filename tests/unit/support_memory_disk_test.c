/* The disk in memory is what the simulator and the tests of the log stand on, so it is tested too: it keeps its
 * promises, breaks only what it may break, and repeats itself for one seed. */
#include "support/memory_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECTORS 8u

/* A durable file "a" of eight sectors of 'o', then 'n' written over all of them. */
static struct disk *disk_make(uint64_t seed, struct disk_file **file)
{
    struct disk *disk = memory_disk_create(seed);
    const struct disk_operations *operations = disk->operations;
    uint8_t old[SECTORS * 512], fresh[SECTORS * 512];
    memset(old, 'o', sizeof(old));
    memset(fresh, 'n', sizeof(fresh));
    assert_int_equal(operations->create(disk, "a", file, NULL), OK);
    assert_int_equal(operations->write(*file, 0, bytes_make(old, sizeof(old)), NULL), OK);
    assert_int_equal(operations->sync(*file, NULL), OK);
    assert_int_equal(operations->sync_folder(disk, NULL), OK);
    assert_int_equal(operations->write(*file, 0, bytes_make(fresh, sizeof(fresh)), NULL), OK);
    return disk;
}

/* Which sectors are new, as bits; asserts that each is wholly old or new. */
static unsigned sectors_new(struct disk *disk)
{
    const struct bytes content = memory_disk_content(disk, "a");
    assert_int_equal(content.size, SECTORS * 512);
    unsigned bits = 0;
    for (unsigned sector = 0; sector < SECTORS; sector++) {
        const uint8_t *bytes = content.ptr + sector * 512;
        assert_true(bytes[0] == 'o' || bytes[0] == 'n');
        assert_memory_equal(bytes, bytes + 1, 511);
        bits |= (bytes[0] == 'n') << sector;
    }
    return bits;
}

static void a_crash_keeps_drops_or_tears_what_was_not_synced(void **state)
{
    (void)state;
    unsigned all = 0, none = 0, some = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct disk_file *file;
        struct disk *disk = disk_make(seed, &file);
        memory_disk_crash(disk);
        const unsigned bits = sectors_new(disk);
        all += bits == 0xff;
        none += bits == 0;
        some += bits != 0 && bits != 0xff;
        disk->operations->close(file);
        memory_disk_destroy(disk);
    }
    assert_true(all > 20 && none > 20 && some > 40);
}

static void one_seed_always_gives_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        unsigned first = 0;
        for (int round = 0; round < 2; round++) {
            struct disk_file *file;
            struct disk *disk = disk_make(seed, &file);
            memory_disk_crash(disk);
            const unsigned bits = sectors_new(disk);
            if (round == 0)
                first = bits;
            assert_int_equal(bits, first);
            disk->operations->close(file);
            memory_disk_destroy(disk);
        }
    }
}

static void what_was_synced_stays(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct disk_file *file;
        struct disk *disk = disk_make(seed, &file);
        assert_int_equal(disk->operations->sync(file, NULL), OK);
        memory_disk_crash(disk);
        assert_int_equal(sectors_new(disk), 0xff);
        disk->operations->close(file);
        memory_disk_destroy(disk);
    }
}

static void a_killed_owner_loses_nothing_until_the_power_goes(void **state)
{
    (void)state;
    unsigned lost = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct disk_file *file;
        struct disk *disk = disk_make(seed, &file);
        memory_disk_kill(disk);
        assert_int_equal(sectors_new(disk), 0xff);
        memory_disk_crash(disk);
        lost += sectors_new(disk) != 0xff;
        disk->operations->close(file);
        memory_disk_destroy(disk);
    }
    assert_true(lost > 10);
}

static void after_a_failed_sync_a_second_one_proves_nothing(void **state)
{
    (void)state;
    unsigned lost = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct disk_file *file;
        struct disk *disk = disk_make(seed, &file);
        memory_disk_fail_after(disk, 0, MEMORY_DISK_FAIL_SYNC);
        assert_int_equal(disk->operations->sync(file, NULL), ERROR_DISK_FAILED);
        assert_int_equal(disk->operations->sync(file, NULL), OK);
        assert_int_equal(sectors_new(disk), 0xff); /* the cache shows it */
        disk->operations->drop_cache(file);
        const unsigned bits = sectors_new(disk);
        lost += bits != 0xff;
        memory_disk_crash(disk);
        assert_int_equal(sectors_new(disk), bits);
        disk->operations->close(file);
        memory_disk_destroy(disk);
    }
    assert_true(lost > 40);
}

static void names_are_durable_after_the_folder_is_synced(void **state)
{
    (void)state;
    unsigned renamed = 0, created = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct disk_file *file, *other;
        struct disk *disk = disk_make(seed, &file);
        assert_int_equal(disk->operations->rename(disk, "a", "b", NULL), OK);
        assert_int_equal(disk->operations->create(disk, "c", &other, NULL), OK);
        assert_true(memory_disk_has(disk, "b") && !memory_disk_has(disk, "a"));
        if (seed % 2 == 0)
            assert_int_equal(disk->operations->sync_folder(disk, NULL), OK);
        memory_disk_crash(disk);
        assert_true(memory_disk_has(disk, "a") != memory_disk_has(disk, "b"));
        if (seed % 2 == 0) {
            assert_true(memory_disk_has(disk, "b") && memory_disk_has(disk, "c"));
        } else {
            renamed += memory_disk_has(disk, "b");
            created += memory_disk_has(disk, "c");
        }
        disk->operations->close(file);
        disk->operations->close(other);
        memory_disk_destroy(disk);
    }
    assert_true(renamed > 10 && renamed < 45 && created > 10 && created < 45);
}

static void a_rename_moves_its_own_file_whatever_had_the_name_before(void **state)
{
    (void)state;
    const struct bytes whole = BYTES("whole");
    unsigned renamed = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct disk *disk = memory_disk_create(seed);
        const struct disk_operations *operations = disk->operations;
        struct disk_file *torn, *file;
        assert_int_equal(operations->create(disk, "a.tmp", &torn, NULL), OK);
        assert_int_equal(operations->write(torn, 0, BYTES("torn"), NULL), OK);
        assert_int_equal(operations->remove(disk, "a.tmp", NULL), OK);
        assert_int_equal(operations->create(disk, "a.tmp", &file, NULL), OK);
        assert_int_equal(operations->write(file, 0, whole, NULL), OK);
        assert_int_equal(operations->sync(file, NULL), OK);
        assert_int_equal(operations->rename(disk, "a.tmp", "a", NULL), OK);
        operations->close(torn);
        operations->close(file);
        memory_disk_crash(disk);
        if (memory_disk_has(disk, "a")) {
            assert_true(bytes_equal(memory_disk_content(disk, "a"), whole));
            renamed++;
        }
        memory_disk_destroy(disk);
    }
    assert_true(renamed > 40);
}

static void a_stopped_disk_does_nothing_until_the_crash(void **state)
{
    (void)state;
    struct disk_file *file, *other;
    struct disk *disk = disk_make(1, &file);
    memory_disk_fail_after(disk, 1, MEMORY_DISK_STOP);
    assert_int_equal(disk->operations->sync(file, NULL), OK);
    assert_false(memory_disk_has_failed(disk));
    assert_int_equal(disk->operations->sync(file, NULL), ERROR_DISK_FAILED);
    assert_true(memory_disk_has_failed(disk));
    assert_int_equal(disk->operations->write(file, 0, BYTES("x"), NULL), ERROR_DISK_FAILED);
    assert_int_equal(disk->operations->create(disk, "c", &other, NULL), ERROR_DISK_FAILED);
    assert_int_equal(disk->operations->remove(disk, "a", NULL), ERROR_DISK_FAILED);
    memory_disk_crash(disk);
    assert_int_equal(sectors_new(disk), 0xff);
    assert_int_equal(disk->operations->write(file, 0, BYTES("x"), NULL), OK);
    disk->operations->close(file);
    memory_disk_destroy(disk);
}

static void a_full_disk_takes_what_does_not_grow(void **state)
{
    (void)state;
    struct disk_file *file, *other;
    struct disk *disk = disk_make(1, &file);
    memory_disk_set_capacity(disk, 5000);
    assert_int_equal(disk->operations->create(disk, "c", &other, NULL), OK);
    assert_int_equal(disk->operations->allocate(other, 905, 905, NULL), ERROR_DISK_FULL);
    assert_int_equal(disk->operations->allocate(other, 1000, 902, NULL), OK); /* the rest is a hole */
    assert_int_equal(disk->operations->allocate(other, 904, 902, NULL), OK);
    struct disk_room room;
    assert_int_equal(disk->operations->room(disk, &room, NULL), OK);
    assert_int_equal(room.free, 2);
    assert_int_equal(disk->operations->reserve(other, 905, NULL), ERROR_DISK_FULL);
    assert_int_equal(disk->operations->reserve(other, 904, NULL), OK);
    assert_int_equal(disk->operations->write(other, 903, BYTES("xy"), NULL), ERROR_DISK_FULL);
    assert_int_equal(disk->operations->write(other, 902, BYTES("xy"), NULL), OK);
    disk->operations->close(other);
    assert_int_equal(disk->operations->remove(disk, "c", NULL), OK);
    assert_int_equal(disk->operations->sync_folder(disk, NULL), OK);
    assert_int_equal(disk->operations->allocate(file, 5000, 0, NULL), OK);
    disk->operations->close(file);
    memory_disk_destroy(disk);
}

static void a_map_shows_later_writes_and_outlives_its_file(void **state)
{
    (void)state;
    struct disk_file *file;
    struct disk *disk = disk_make(1, &file);
    const uint8_t *mapped;
    assert_int_equal(disk->operations->map(file, SECTORS * 512, &mapped, NULL), OK);
    assert_int_equal(mapped[600], 'n');
    assert_int_equal(disk->operations->write(file, 600, BYTES("later"), NULL), OK);
    assert_memory_equal(mapped + 600, "later", 5);
    disk->operations->close(file);
    assert_int_equal(disk->operations->remove(disk, "a", NULL), OK);
    assert_int_equal(disk->operations->sync_folder(disk, NULL), OK);
    assert_memory_equal(mapped + 600, "later", 5);
    disk->operations->unmap(disk, mapped, SECTORS * 512);
    memory_disk_destroy(disk);
}

static void damage_is_exact_and_durable(void **state)
{
    (void)state;
    struct disk_file *file;
    struct disk *disk = disk_make(1, &file);
    assert_int_equal(disk->operations->sync(file, NULL), OK);
    memory_disk_flip_bit(disk, "a", 1000 * 8 + 3);
    memory_disk_crash(disk);
    assert_int_equal(memory_disk_content(disk, "a").ptr[1000], 'n' ^ 8);
    struct disk *clone = memory_disk_clone(disk, 2);
    memory_disk_truncate(disk, "a", 700);
    memory_disk_crash(disk);
    assert_int_equal(memory_disk_content(disk, "a").size, 700);
    assert_int_equal(memory_disk_content(clone, "a").ptr[1000], 'n' ^ 8);
    memory_disk_remove(clone, "a");
    memory_disk_crash(clone);
    assert_false(memory_disk_has(clone, "a"));
    memory_disk_destroy(clone);
    disk->operations->close(file);
    memory_disk_destroy(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_keeps_drops_or_tears_what_was_not_synced),
        cmocka_unit_test(one_seed_always_gives_the_same),
        cmocka_unit_test(what_was_synced_stays),
        cmocka_unit_test(a_killed_owner_loses_nothing_until_the_power_goes),
        cmocka_unit_test(after_a_failed_sync_a_second_one_proves_nothing),
        cmocka_unit_test(names_are_durable_after_the_folder_is_synced),
        cmocka_unit_test(a_rename_moves_its_own_file_whatever_had_the_name_before),
        cmocka_unit_test(a_stopped_disk_does_nothing_until_the_crash),
        cmocka_unit_test(a_full_disk_takes_what_does_not_grow),
        cmocka_unit_test(a_map_shows_later_writes_and_outlives_its_file),
        cmocka_unit_test(damage_is_exact_and_durable),
    };
    return cmocka_run_group_tests_name("memory disk", tests, NULL, NULL);
}
