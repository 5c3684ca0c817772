#include "base/table.h"
#include "support/scale.h"

#include "base/assert.h"
#include "random.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SLOT_END 3000

/* The naive model: for each slot whether it is in the table, and under which hash. */
struct model {
    struct table table;
    struct random random;
    uint64_t hashes[SLOT_END];
    bool is_in[SLOT_END];
    uint32_t count;
};

static void model_init(struct model *model, uint64_t seed)
{
    memset(model, 0, sizeof(*model));
    model->random.state = seed;
    table_init(&model->table);
}

static void model_insert(struct model *model, uint32_t slot, uint64_t hash)
{
    table_insert(&model->table, hash, slot);
    model->hashes[slot] = hash;
    model->is_in[slot] = true;
    model->count++;
}

static void model_remove(struct model *model, uint32_t slot)
{
    table_remove(&model->table, model->hashes[slot], slot);
    model->is_in[slot] = false;
    model->count--;
}

/* A search for `hash` must yield exactly the slots whose hash has the same upper half, each once. */
static void model_compare(const struct model *model, uint64_t hash)
{
    static bool is_found[SLOT_END];
    memset(is_found, 0, sizeof(is_found));
    for (struct table_probe probe = table_probe_start(&model->table, hash); table_probe_next(&model->table, &probe);) {
        assert_in_range(probe.slot, 1, SLOT_END - 1);
        assert_false(is_found[probe.slot]);
        is_found[probe.slot] = true;
    }
    for (uint32_t slot = 1; slot < SLOT_END; slot++)
        assert_int_equal(is_found[slot], model->is_in[slot] && model->hashes[slot] >> 32 == hash >> 32);
    assert_int_equal(table_count(&model->table), model->count);
}

/* The ways in which hashes fall; the worst ones are what an enemy or bad luck would choose. */
static uint64_t hash_mixed(struct random *random)
{
    return random_u64(random);
}

static uint64_t hash_of_seven(struct random *random)
{
    return table_hash_u64(random_below(random, 7));
}

static uint64_t hash_equal(struct random *random)
{
    (void)random;
    return UINT64_C(0x0123456789abcdef);
}

static uint64_t hash_at_the_end(struct random *random)
{
    /* Homes in the last three cells of any table: runs wrap around to cell 0. */
    return (UINT64_C(0xffffffff) - random_below(random, 3)) << 32;
}

static uint64_t hash_around_the_border(struct random *random)
{
    /* The same cell of a small table, far apart in a larger one, and both ends. */
    return ((uint64_t)random_below(random, 64) * 1024 + random_below(random, 4) + UINT64_C(0xfffffffe)) << 32;
}

static uint64_t hash_in_sequence(struct random *random)
{
    return (uint64_t)random_below(random, 4000) << 32;
}

/* Fills and empties the table in waves up to `slot_end` - 1 entries, with a check of everything every few steps. */
static void run_waves(uint64_t (*draw)(struct random *), uint32_t slot_end, int steps, int check_every)
{
    static struct model model;
    model_init(&model, 31);
    bool is_rising = true;
    steps = (int)scaled((uint64_t)steps);
    for (int step = 0; step < steps; step++) {
        if (random_below(&model.random, 1000) == 0 || model.count == 0 || model.count == slot_end - 1)
            is_rising = model.count == 0 || (model.count < slot_end - 1 && !is_rising);
        uint32_t slot = 1 + random_below(&model.random, slot_end - 1);
        bool is_insert_wanted = random_below(&model.random, 10) < (is_rising ? 9 : 1);
        if (model.is_in[slot] && !is_insert_wanted)
            model_remove(&model, slot);
        else if (!model.is_in[slot] && is_insert_wanted)
            model_insert(&model, slot, draw(&model.random));
        if (step % check_every == 0) {
            table_check(&model.table);
            model_compare(&model, model.hashes[slot]);
            model_compare(&model, draw(&model.random));
        }
    }
    table_deinit(&model.table);
}

static void random_operations_agree_with_the_model(void **state)
{
    (void)state;
    run_waves(hash_mixed, 40, 20000, 1);
    run_waves(hash_mixed, SLOT_END, 60000, 37);
}

static void adversarial_hashes_agree_with_the_model(void **state)
{
    (void)state;
    static uint64_t (*const draws[])(struct random *) = {
        hash_of_seven, hash_equal, hash_at_the_end, hash_around_the_border, hash_in_sequence,
    };
    for (size_t i = 0; i < ARRAY_LENGTH(draws); i++) {
        run_waves(draws[i], 60, 5000, 1);
        run_waves(draws[i], 500, 10000, 53);
    }
}

/* Every size of the table, growth included: each entry stays to be found, and is removed in the middle of growing. */
static void nothing_is_lost_while_the_table_grows(void **state)
{
    (void)state;
    static struct model model;
    model_init(&model, 32);
    bool has_grown_while_removing = false;
    for (uint32_t slot = 1; slot < SLOT_END; slot++) {
        model_insert(&model, slot, table_hash_u64(slot));
        if (slot % 3 == 0) {
            has_grown_while_removing |= model.table.old.cells_owned != NULL;
            model_remove(&model, slot / 3);
        }
        if (slot % 16 == 0)
            table_check(&model.table);
    }
    assert_true(has_grown_while_removing);
    for (uint32_t slot = 1; slot < SLOT_END; slot++)
        model_compare(&model, table_hash_u64(slot));
    table_deinit(&model.table);
}

/* Many short lives, since a table that has grown does not grow again: each passes through every small size, with
 * removals and searches in the middle of growing. */
static void removals_in_the_middle_of_growing_agree_with_the_model(void **state)
{
    (void)state;
    static uint64_t (*const draws[])(struct random *) = {
        hash_mixed,
        hash_at_the_end,
        hash_around_the_border,
        hash_in_sequence,
    };
    static struct model model;
    int checked = 0;
    for (uint64_t seed = 0; seed < scaled(60); seed++) {
        model_init(&model, seed);
        while (model.count < 420) {
            uint32_t slot = 1 + random_below(&model.random, SLOT_END - 1);
            if (!model.is_in[slot])
                model_insert(&model, slot, draws[seed % ARRAY_LENGTH(draws)](&model.random));
            else
                model_remove(&model, slot);
            if (model.table.old.cells_owned != NULL) {
                table_check(&model.table);
                model_compare(&model, model.hashes[slot]);
                checked++;
            }
        }
        table_deinit(&model.table);
    }
    assert_true(checked > (int)scaled(1000));
}

static void growth_moves_a_bounded_number_of_places_at_a_time(void **state)
{
    (void)state;
    struct table table;
    table_init(&table);
    size_t before = 0;
    size_t capacity = 0;
    for (uint32_t slot = 1; slot < 100000; slot++) {
        table_insert(&table, table_hash_u64(slot), slot);
        if (table.now.capacity == capacity && table.old.cells_owned != NULL)
            assert_int_equal(before - table.old_end, 16);
        before = table.old_end;
        capacity = table.now.capacity;
        assert_true(table_count(&table) <= table.now.capacity / 4 * 3);
    }
    assert_int_equal(table_count(&table), 99999);
    table_deinit(&table);
}

/* Large enough that memory is given back before the growth is over. */
static void a_growing_table_gives_its_old_memory_back_in_pieces(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    struct table table;
    table_init(&table);
    bool is_less_kept = false;
    for (uint32_t slot = 1; slot <= COUNT; slot++) {
        table_insert(&table, table_hash_u64(slot), slot);
        is_less_kept |= table.old_kept < table.old.capacity;
    }
    assert_true(is_less_kept);
    while (table.old.cells_owned == NULL || table.old_kept == table.old.capacity) {
        uint32_t slot = (uint32_t)table_count(&table) + 1;
        table_insert(&table, table_hash_u64(slot), slot);
    }
    table_check(&table);
    for (uint32_t slot = (uint32_t)table_count(&table); slot > 0; slot--) {
        /* To the end, so that both generations are searched. */
        int found = 0;
        struct table_probe probe = table_probe_start(&table, table_hash_u64(slot));
        while (table_probe_next(&table, &probe))
            found += probe.slot == slot;
        assert_int_equal(found, 1);
    }
    for (uint32_t slot = (uint32_t)table_count(&table); slot > 0; slot--)
        table_remove(&table, table_hash_u64(slot), slot);
    table_check(&table);
    table_deinit(&table);
}

static void removals_finish_a_growth_too(void **state)
{
    (void)state;
    struct table table;
    table_init(&table);
    uint32_t slot_end = 1;
    while (table.old.cells_owned == NULL) {
        table_insert(&table, table_hash_u64(slot_end), slot_end);
        slot_end++;
    }
    while (table.old.cells_owned != NULL) {
        slot_end--;
        table_remove(&table, table_hash_u64(slot_end), slot_end);
        table_check(&table);
    }
    assert_true(table_count(&table) > 0);
    assert_int_equal(table_count(&table), slot_end - 1);
    table_deinit(&table);
}

static void an_empty_table_finds_nothing_and_can_be_filled_again(void **state)
{
    (void)state;
    struct table table;
    table_init(&table);
    struct table_probe probe = table_probe_start(&table, 5);
    assert_false(table_probe_next(&table, &probe));
    assert_false(table_probe_next(&table, &probe));
    table_check(&table);
    table_insert(&table, 5, 1);
    table_remove(&table, 5, 1);
    probe = table_probe_start(&table, 5);
    assert_false(table_probe_next(&table, &probe));
    table_insert(&table, 5, UINT32_MAX);
    probe = table_probe_start(&table, 5);
    assert_true(table_probe_next(&table, &probe));
    assert_true(probe.slot == UINT32_MAX);
    assert_false(table_probe_next(&table, &probe));
    table_deinit(&table);
    assert_int_equal(table_count(&table), 0);
}

static void hashes_of_neighbouring_numbers_spread_over_the_places(void **state)
{
    (void)state;
    /* 4,096 numbers into 256 bins by the bits that choose the cell: each bin near 16. */
    uint32_t bins[256] = {0};
    for (uint64_t key = 0; key < 4096; key++)
        bins[table_hash_u64(key) >> 32 & 255]++;
    for (size_t i = 0; i < ARRAY_LENGTH(bins); i++)
        assert_in_range(bins[i], 2, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_agree_with_the_model),
        cmocka_unit_test(adversarial_hashes_agree_with_the_model),
        cmocka_unit_test(nothing_is_lost_while_the_table_grows),
        cmocka_unit_test(removals_in_the_middle_of_growing_agree_with_the_model),
        cmocka_unit_test(growth_moves_a_bounded_number_of_places_at_a_time),
        cmocka_unit_test(a_growing_table_gives_its_old_memory_back_in_pieces),
        cmocka_unit_test(removals_finish_a_growth_too),
        cmocka_unit_test(an_empty_table_finds_nothing_and_can_be_filled_again),
        cmocka_unit_test(hashes_of_neighbouring_numbers_spread_over_the_places),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
