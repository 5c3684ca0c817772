#include "base/slab.h"

#include "random.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct record {
    uint64_t stamp;
    uint32_t slot;
    uint32_t rest;
};

static void slots_begin_at_one_and_records_are_zeroed(void **state)
{
    (void)state;
    struct slab slab;
    slab_init(&slab, sizeof(struct record));
    for (uint32_t slot = 1; slot < 5000; slot++) {
        assert_int_equal(slab_allocate(&slab), slot);
        const struct record *record = slab_at(&slab, slot);
        assert_true(record->stamp == 0 && record->slot == 0 && record->rest == 0);
    }
    assert_int_equal(slab.used, 4999);
    slab_deinit(&slab);
}

static void freed_slots_come_back_newest_first_and_zeroed(void **state)
{
    (void)state;
    struct slab slab;
    slab_init(&slab, sizeof(struct record));
    for (uint32_t slot = 1; slot <= 10; slot++)
        memset(slab_at(&slab, slab_allocate(&slab)), 0xff, sizeof(struct record));
    slab_free(&slab, 3);
    slab_free(&slab, 8);
    slab_free(&slab, 5);
    assert_int_equal(slab.used, 7);
    static const uint32_t expected[] = {5, 8, 3, 11};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(slab_allocate(&slab), expected[i]);
        const struct record *record = slab_at(&slab, expected[i]);
        assert_true(record->stamp == 0 && record->slot == 0 && record->rest == 0);
    }
    slab_deinit(&slab);
}

static void records_do_not_move_while_the_pool_grows(void **state)
{
    (void)state;
    struct slab slab;
    slab_init(&slab, sizeof(struct record));
    uint32_t first = slab_allocate(&slab);
    struct record *record = slab_at(&slab, first);
    record->stamp = 77;
    for (int i = 0; i < 20000; i++)
        slab_allocate(&slab);
    assert_ptr_equal(slab_at(&slab, first), record);
    assert_int_equal(record->stamp, 77);
    slab_deinit(&slab);
}

static void records_of_any_size_do_not_overlap(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {4, 5, 12, 100};
    for (size_t i = 0; i < 4; i++) {
        struct slab slab;
        slab_init(&slab, sizes[i]);
        for (uint32_t slot = 1; slot < 2100; slot++)
            memset(slab_at(&slab, slab_allocate(&slab)), (int)(slot & 0xff), sizes[i]);
        for (uint32_t slot = 1; slot < 2100; slot++) {
            const uint8_t *raw = slab_at(&slab, slot);
            assert_int_equal(raw[0], slot & 0xff);
            assert_int_equal(raw[sizes[i] - 1], slot & 0xff);
        }
        slab_deinit(&slab);
    }
}

/* So large that it grows in blocks. */
static void records_of_a_large_pool_are_zeroed_and_do_not_overlap(void **state)
{
    (void)state;
    enum { SIZE = 4096 + 12, COUNT = 12 * 1024 };
    struct slab slab;
    slab_init(&slab, SIZE);
    for (uint32_t slot = 1; slot <= COUNT; slot++) {
        assert_int_equal(slab_allocate(&slab), slot);
        uint8_t *raw = slab_at(&slab, slot);
        assert_true(raw[0] == 0 && raw[SIZE / 2] == 0 && raw[SIZE - 1] == 0);
        memcpy(raw, &slot, sizeof(slot));
        memcpy(raw + SIZE - sizeof(slot), &slot, sizeof(slot));
    }
    assert_true(slab.chunk_count > slab.block_begin && slab.block_begin > 0);
    for (uint32_t slot = 1; slot <= COUNT; slot++) {
        const uint8_t *raw = slab_at(&slab, slot);
        assert_memory_equal(raw, &slot, sizeof(slot));
        assert_memory_equal(raw + SIZE - sizeof(slot), &slot, sizeof(slot));
    }
    slab_deinit(&slab);
}

static void random_operations_agree_with_the_model(void **state)
{
    (void)state;
    enum { LIVE_MAX = 3000 };
    static uint32_t live[LIVE_MAX];
    static bool is_live[LIVE_MAX + 2];
    struct random random = {.state = 51};
    struct slab slab;
    slab_init(&slab, sizeof(struct record));
    uint32_t count = 0;
    for (int step = 0; step < 50000; step++) {
        bool is_rising = step / 8000 % 2 == 0;
        if (count < LIVE_MAX && (count == 0 || random_below(&random, 10) < (is_rising ? 7u : 3u))) {
            uint32_t slot = slab_allocate(&slab);
            /* Never more slots than records were ever alive at once. */
            assert_in_range(slot, 1, LIVE_MAX);
            assert_false(is_live[slot]);
            is_live[slot] = true;
            *(struct record *)slab_at(&slab, slot) = (struct record){.stamp = slot * UINT64_C(3), .slot = slot};
            live[count++] = slot;
        } else {
            uint32_t which = random_below(&random, count);
            uint32_t slot = live[which];
            const struct record *record = slab_at(&slab, slot);
            assert_true(record->slot == slot && record->stamp == slot * UINT64_C(3) && record->rest == 0);
            slab_free(&slab, slot);
            is_live[slot] = false;
            live[which] = live[--count];
        }
        assert_int_equal(slab.used, count);
    }
    slab_deinit(&slab);
}

/* May be asked of a freed record. */
POISON_MAY_LOOK static bool is_zero(const uint32_t *number)
{
    return *number == 0;
}

/* Some chunks one by one, then blocks of them; emptied, it keeps a little and serves on. */
static void a_pool_that_was_emptied_gives_its_chunks_back(void **state)
{
    (void)state;
    struct slab slab;
    const uint32_t count = 120000;
    slab_init(&slab, 512);
    for (unsigned round = 0; round < 2; round++) {
        for (uint32_t i = 1; i <= count; i++)
            *(uint32_t *)slab_at(&slab, slab_allocate(&slab)) = i;
        assert_true(slab.chunk_count >= count >> POOL_CHUNK_SHIFT);
        for (uint32_t slot = 1; slot < count; slot++)
            slab_free(&slab, slot);
        assert_true(slab.chunk_count >= count >> POOL_CHUNK_SHIFT); /* one is in use, and nobody moves it */
        assert_int_equal(*(uint32_t *)slab_at(&slab, count), count);
        slab_trim(&slab);
        assert_true(slab.chunk_count >= count >> POOL_CHUNK_SHIFT);
        slab_free(&slab, count);
        assert_true(is_zero((const uint32_t *)slab_at(&slab, count - 1) + 1)); /* still there to be read */
        slab_trim(&slab);
        assert_true(slab.chunk_count < count >> POOL_CHUNK_SHIFT);
        for (unsigned i = 0; i < 200; i++) {
            uint32_t slot = slab_allocate(&slab);
            assert_int_equal(*(uint64_t *)slab_at(&slab, slot), 0);
            slab_free(&slab, slot);
            slab_trim(&slab);
        }
        assert_true(slab.chunk_count <= 20);
    }
    slab_deinit(&slab);
}

/* One that is filled again before all was given back keeps what it uses. Blocks of records of 232 bytes have 256
 * chunks. */
static void a_pool_keeps_what_it_uses_again(void **state)
{
    (void)state;
    struct random random = {5};
    struct slab slab;
    const uint32_t count_max = 420000;
    uint32_t *slots = malloc(count_max * sizeof(*slots));
    slab_init(&slab, 232);
    for (unsigned round = 0; round < 8; round++) {
        uint32_t count = round % 4 == 0 ? count_max : 1 + random_below(&random, count_max / 2);
        for (uint32_t i = 0; i < count; i++) {
            slots[i] = slab_allocate(&slab);
            *(uint32_t *)slab_at(&slab, slots[i]) = i;
            if (i % 5 == 4)
                slab_free(&slab, slots[i]);
        }
        for (uint32_t i = 0; i < count; i++) {
            if (i % 5 == 4)
                continue;
            assert_int_equal(*(uint32_t *)slab_at(&slab, slots[i]), i);
            slab_free(&slab, slots[i]);
        }
        assert_int_equal(slab.used, 0);
        slab_trim(&slab);
        assert_int_equal(slab.slot_end, 1);
    }
    slab_deinit(&slab);
    free(slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_begin_at_one_and_records_are_zeroed),
        cmocka_unit_test(freed_slots_come_back_newest_first_and_zeroed),
        cmocka_unit_test(records_do_not_move_while_the_pool_grows),
        cmocka_unit_test(records_of_any_size_do_not_overlap),
        cmocka_unit_test(records_of_a_large_pool_are_zeroed_and_do_not_overlap),
        cmocka_unit_test(random_operations_agree_with_the_model),
        cmocka_unit_test(a_pool_that_was_emptied_gives_its_chunks_back),
        cmocka_unit_test(a_pool_keeps_what_it_uses_again),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
