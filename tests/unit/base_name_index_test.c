#include "base/name_index.h"

#include "base/accounted.h"
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define RECORDS 200u

struct record {
    uint32_t number;
    struct bytes name;
    char text[8];
};

struct fixture {
    struct slab slab;
    struct name_index index;
    uint32_t slots[RECORDS]; /* by number; 0: not in the index */
};

static void begin(struct fixture *fixture)
{
    *fixture = (struct fixture){.slots = {0}};
    slab_init(&fixture->slab, sizeof(struct record));
    name_index_init(&fixture->index, &fixture->slab, offsetof(struct record, name));
}

static void end(struct fixture *fixture)
{
    name_index_deinit(&fixture->index);
    slab_deinit(&fixture->slab);
}

static struct bytes name_of(uint32_t number, char text[8])
{
    return bytes_make(text, (size_t)snprintf(text, 8, "%05u", number));
}

static void add(struct fixture *fixture, uint32_t number)
{
    uint32_t slot = slab_allocate(&fixture->slab);
    struct record *record = slab_at(&fixture->slab, slot);
    record->number = number;
    record->name = name_of(number, record->text);
    name_index_insert(&fixture->index, slot);
    fixture->slots[number] = slot;
}

static void take(struct fixture *fixture, uint32_t number)
{
    name_index_remove(&fixture->index, fixture->slots[number]);
    slab_free(&fixture->slab, fixture->slots[number]);
    fixture->slots[number] = 0;
}

/* Compares the index with what it should have, name by name. */
static void assert_index(const struct fixture *fixture)
{
    uint32_t place = 0;
    for (uint32_t number = 0; number < RECORDS; number++) {
        char text[8];
        struct bytes name = name_of(number, text);
        assert_int_equal(name_index_place(&fixture->index, name), place);
        assert_int_equal(name_index_find(&fixture->index, name), fixture->slots[number]);
        if (fixture->slots[number] != 0)
            assert_int_equal(name_index_at(&fixture->index, place++), fixture->slots[number]);
    }
    assert_int_equal(fixture->index.count, place);
    name_index_check(&fixture->index);
}

static void an_empty_index_finds_nothing(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture);
    assert_index(&fixture);
    end(&fixture);
}

static void names_stay_in_order_whatever_comes_and_goes(void **state)
{
    (void)state;
    const size_t before = accounted_in_use();
    struct fixture fixture;
    begin(&fixture);
    struct random random = {1};
    for (unsigned step = 0; step < 2000; step++) {
        uint32_t number = random_below(&random, RECORDS);
        if (fixture.slots[number] == 0)
            add(&fixture, number);
        else
            take(&fixture, number);
        if (step % 50 == 0)
            assert_index(&fixture);
    }
    assert_index(&fixture);
    end(&fixture);
    assert_int_equal(accounted_in_use(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_index_finds_nothing),
        cmocka_unit_test(names_stay_in_order_whatever_comes_and_goes),
    };
    return cmocka_run_group_tests_name("base_name_index", tests, NULL, NULL);
}
