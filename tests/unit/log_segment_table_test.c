/* The table of segments: what is dropped, and what is found afterwards. */
#include "log/segment_table.h"

#include "log/segment.h"
#include "support/memory_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT 50000u

static void make_table(struct segment_table *table, struct disk *disk)
{
    segment_table_init(table, disk);
    segment_table_set_size(table, 65536);
    for (uint64_t ordinal = 0; ordinal < COUNT; ordinal++) {
        segment_table_add(table, ordinal);
        segment_table_set_overhang(table, ordinal % 3);
    }
}

/* As a snapshot does behind a purge: so many that a pass over the rest for each of them would hold up the loop for
 * seconds. */
static void what_is_dropped_is_gone_and_the_rest_is_found(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    struct segment_table table;
    make_table(&table, disk);
    uint64_t overhang = 0;
    for (size_t i = 0; i < table.count; i++)
        if (i % 1000 != 7)
            segment_table_drop(&table, i);
        else
            overhang += table.entries_owned[i].overhang;
    segment_table_pack(&table);
    assert_int_equal(table.count, COUNT / 1000);
    assert_int_equal(table.overhang, overhang);
    for (uint64_t ordinal = 0; ordinal < COUNT; ordinal++)
        assert_int_equal(segment_table_has(&table, ordinal), ordinal % 1000 == 7);
    segment_table_add(&table, COUNT);
    segment_table_remove_newest(&table);
    assert_int_equal(table.count, COUNT / 1000);
    assert_false(segment_table_has(&table, COUNT));
    segment_table_deinit(&table);
    memory_disk_destroy(disk);
}

/* A process may have some 65,000 maps; one more would be refused, and a body that can be read count as damaged. */
static void no_more_are_mapped_than_may_be_and_all_are_read(void **state)
{
    (void)state;
    const unsigned count = SEGMENT_MAPS_MAX + 100;
    struct disk *disk = memory_disk_create(1);
    struct segment_table table;
    segment_table_init(&table, disk);
    segment_table_set_size(&table, SEGMENT_SIZE_MIN);
    uint8_t content[SEGMENT_SIZE_MIN] = {0};
    for (unsigned ordinal = 0; ordinal < count; ordinal++) {
        char name[SEGMENT_NAME_SIZE];
        segment_name((uint64_t)ordinal * SEGMENT_SIZE_MIN, name);
        memcpy(content, &ordinal, sizeof(ordinal));
        memory_disk_put(disk, name, bytes_make(content, sizeof(content)));
        segment_table_add(&table, ordinal);
    }
    for (unsigned turn = 0; turn < 3; turn++)
        for (unsigned ordinal = turn; ordinal < count; ordinal += turn + 1) {
            const uint8_t *memory = segment_table_memory(&table, ordinal);
            assert_non_null(memory);
            assert_memory_equal(memory, &ordinal, sizeof(ordinal));
            assert_in_range(table.mapped_count, 1, SEGMENT_MAPS_MAX);
        }
    assert_int_equal(table.mapped_count, SEGMENT_MAPS_MAX);
    for (size_t i = 0; i < table.count; i++)
        segment_table_drop(&table, i);
    segment_table_pack(&table);
    assert_int_equal(table.mapped_count, 0);
    segment_table_deinit(&table);
    memory_disk_destroy(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_dropped_is_gone_and_the_rest_is_found),
        cmocka_unit_test(no_more_are_mapped_than_may_be_and_all_are_read),
    };
    return cmocka_run_group_tests_name("table of segments", tests, NULL, NULL);
}
