/* The table of segments: what is dropped, and what is found afterwards. */
#include "log/segment_table.h"
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

/* As a snapshot does behind a purge: so many that a pass over the rest for each of them would hold up the loop for seconds. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_dropped_is_gone_and_the_rest_is_found),
    };
    return cmocka_run_group_tests_name("table of segments", tests, NULL, NULL);
}
