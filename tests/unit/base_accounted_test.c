#include "base/accounted.h"

#include "base/heap.h"
#include "base/slab.h"
#include "base/table.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RECORDS 40000u

struct record {
    uint64_t order;
    uint32_t index;
    uint32_t rest[5];
};

static void what_is_allocated_counts_until_it_is_freed(void **state)
{
    (void)state;
    size_t before = accounted_in_use();
    void *some = accounted_allocate(1000), *none = accounted_allocate(0), *zeroed = accounted_allocate_zeroed(3000);
    assert_true(accounted_in_use() >= before + 4000 && accounted_in_use() < before + 4200);
    some = accounted_resize(some, 200000);
    assert_true(accounted_in_use() >= before + 203000 && accounted_in_use() < before + 209000);
    some = accounted_resize(some, 10);
    assert_true(accounted_in_use() < before + 3200 + 4096); /* a page, where it was mapped by itself */
    accounted_free(some);
    accounted_free(none);
    accounted_free(zeroed);
    accounted_free(NULL);
    assert_int_equal(accounted_in_use(), before);
}

static void a_text_that_is_replaced_counts_once(void **state)
{
    (void)state;
    size_t before = accounted_in_use();
    struct bytes owned = {NULL, 0};
    accounted_replace(&owned, BYTES("a text of some length, longer than the least block that there is"));
    accounted_replace(&owned, bytes_make(owned.ptr + 2, 4)); /* a part of itself */
    assert_true(bytes_equal(owned, BYTES("text")));
    assert_true(accounted_in_use() > before && accounted_in_use() < before + 64);
    accounted_replace(&owned, bytes_make(NULL, 0));
    assert_null(owned.ptr);
    assert_int_equal(accounted_in_use(), before);
}

static void a_pool_counts_what_is_used_and_not_what_it_holds_ready(void **state)
{
    (void)state;
    size_t before = accounted_in_use();
    struct slab slab;
    slab_init(&slab, sizeof(struct record));
    for (uint32_t i = 0; i < RECORDS; i++)
        slab_allocate(&slab);
    size_t full = accounted_in_use() - before;
    assert_true(full >= RECORDS * sizeof(struct record) && full < RECORDS * sizeof(struct record) * 101 / 100);
    for (uint32_t slot = 1; slot <= RECORDS; slot++)
        slab_free(&slab, slot);
    assert_true(accounted_in_use() - before < 4096); /* the list of chunks */
    for (uint32_t i = 0; i < RECORDS; i++)
        slab_allocate(&slab);
    assert_int_equal(accounted_in_use() - before, full);
    slab_deinit(&slab);
    assert_int_equal(accounted_in_use(), before);
}

static void a_table_gives_back_what_it_no_longer_needs(void **state)
{
    (void)state;
    size_t before = accounted_in_use();
    struct table table;
    table_init(&table);
    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t slot = 1; slot <= RECORDS; slot++)
            table_insert(&table, table_hash_u64(slot), slot);
        assert_true(accounted_in_use() - before >= RECORDS * 8);
        for (uint32_t slot = 1; slot <= RECORDS; slot++)
            table_remove(&table, table_hash_u64(slot), slot);
        assert_true(accounted_in_use() - before < 1024);
        table_check(&table);
    }
    table_deinit(&table);
    assert_int_equal(accounted_in_use(), before);
}

/* Growing and shrinking in turn, at every size, with everything found that is in it. */
static void a_table_keeps_its_entries_while_it_shrinks(void **state)
{
    (void)state;
    struct random random = {7};
    struct table table;
    uint32_t low = 1, high = 1; /* slots from low on, below high, are in it */
    table_init(&table);
    for (unsigned turn = 0; turn < 60; turn++) {
        uint32_t goal = random_below(&random, turn % 7 == 0 ? 20000 : 600);
        while (high - low < goal) {
            table_insert(&table, table_hash_u64(high), high);
            high++;
        }
        while (high - low > goal) {
            table_remove(&table, table_hash_u64(low), low);
            low++;
        }
        table_check(&table);
        assert_int_equal(table_count(&table), high - low);
        for (uint32_t slot = low; slot < high; slot += 1 + (high - low) / 50) {
            struct table_probe probe = table_probe_start(&table, table_hash_u64(slot));
            bool is_found = false;
            while (!is_found && table_probe_next(&table, &probe))
                is_found = probe.slot == slot;
            assert_true(is_found);
        }
    }
    table_deinit(&table);
}

static void a_heap_gives_back_what_it_no_longer_needs(void **state)
{
    (void)state;
    struct slab slab;
    struct heap heap;
    slab_init(&slab, sizeof(struct record));
    heap_init(&heap, &slab, offsetof(struct record, index), offsetof(struct record, order));
    for (uint32_t slot = 1; slot <= 5 * RECORDS; slot++) {
        struct record *record = slab_at(&slab, slab_allocate(&slab));
        record->order = slot;
    }
    size_t before = accounted_in_use();
    for (uint32_t slot = 1; slot <= 5 * RECORDS; slot++)
        heap_push(&heap, table_hash_u64(slot), slot);
    assert_true(accounted_in_use() - before >= 5 * RECORDS * sizeof(struct heap_entry));
    for (uint32_t slot = 1; slot <= 5 * RECORDS; slot++) {
        heap_remove(&heap, slot);
        if (slot % 10000 == 0)
            heap_check(&heap);
    }
    assert_true(accounted_in_use() - before <= 4096 + 16);
    heap_deinit(&heap);
    assert_int_equal(accounted_in_use(), before);
    slab_deinit(&slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_allocated_counts_until_it_is_freed),
        cmocka_unit_test(a_text_that_is_replaced_counts_once),
        cmocka_unit_test(a_pool_counts_what_is_used_and_not_what_it_holds_ready),
        cmocka_unit_test(a_table_gives_back_what_it_no_longer_needs),
        cmocka_unit_test(a_table_keeps_its_entries_while_it_shrinks),
        cmocka_unit_test(a_heap_gives_back_what_it_no_longer_needs),
    };
    return cmocka_run_group_tests_name("base: kept", tests, NULL, NULL);
}
