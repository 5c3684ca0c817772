/* The ledger against a naive model: an array of units with names and states. */
#include "core/batches/ledger.h"

#include "core/digest.h"
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

struct model_unit {
    enum unit_kind kind;
    char key[16];
    uint64_t number;
    enum unit_state state;
    bool has_detail;
};

#define UNITS_MAX 4000u

struct model {
    struct model_unit units[UNITS_MAX];
    uint32_t count;
    uint32_t counted_end;
};

static struct bytes key_of(const char *text)
{
    return bytes_from_string(text);
}

/* External units only: a child batch has an id, which is no key. */
static uint32_t model_find(const struct model *model, const char *key)
{
    for (uint32_t i = 0; i < model->count; i++)
        if ((model->units[i].kind == UNIT_KEYED || model->units[i].kind == UNIT_COUNTED) &&
            strcmp(model->units[i].key, key) == 0)
            return i;
    return LEDGER_NO_UNIT;
}

static void model_add(struct model *model, enum unit_kind kind, const char *key, uint64_t number)
{
    struct model_unit *unit = &model->units[model->count++];
    *unit = (struct model_unit){.kind = kind, .number = number};
    snprintf(unit->key, sizeof(unit->key), "%s", key);
}

static uint32_t model_count(struct model *model, uint32_t count, bool is_dry)
{
    uint32_t added = 0;
    for (uint32_t i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof(key), "%u", i);
        if (model_find(model, key) != LEDGER_NO_UNIT)
            continue;
        added++;
        if (!is_dry)
            model_add(model, UNIT_COUNTED, key, i);
    }
    if (!is_dry && count > model->counted_end)
        model->counted_end = count;
    return added;
}

static void draw_key(struct random *random, char key[16])
{
    static const char *const odd[] = {"",  "00",        "01",       "-1",         "1 ",
                                      "x", "100000000", "99999999", "4294967296", "18446744073709551616"};
    if (random_below(random, 4) == 0)
        snprintf(key, 16, "k%u", random_below(random, 60));
    else if (random_below(random, 10) == 0)
        snprintf(key, 16, "%.15s", odd[random_below(random, 10)]);
    else
        snprintf(key, 16, "%u", random_below(random, 80));
    if (key[0] == '\0')
        snprintf(key, 16, "-");
}

static void add_something(struct ledger *ledger, struct model *model, struct random *random)
{
    char key[16];
    draw_key(random, key);
    uint32_t count = random_below(random, 60);
    switch (random_below(random, 6)) {
    case 0:
        assert_int_equal(ledger_count_would_add(ledger, count), model_count(model, count, true));
        ledger_add_counted(ledger, count);
        (void)model_count(model, count, false);
        break;
    case 1:
        assert_int_equal(ledger_add_message(ledger, 1000 + model->count), model->count);
        model_add(model, UNIT_MESSAGE, "", 1000 + model->count);
        break;
    case 2:
        assert_int_equal(ledger_add_key(ledger, key_of(key), UNIT_CHILD), model->count);
        model_add(model, UNIT_CHILD, key, 0);
        break;
    default:
        assert_int_equal(ledger_find(ledger, key_of(key)), model_find(model, key));
        if (model_find(model, key) != LEDGER_NO_UNIT)
            break;
        assert_int_equal(ledger_add_key(ledger, key_of(key), UNIT_KEYED), model->count);
        model_add(model, UNIT_KEYED, key, 0);
    }
}

static void end_something(struct ledger *ledger, struct model *model, struct random *random)
{
    if (model->count == 0)
        return;
    uint32_t unit = random_below(random, model->count);
    struct model_unit *known = &model->units[unit];
    assert_int_equal(ledger_state(ledger, unit), known->state);
    if (known->state != UNIT_OUTSTANDING)
        return;
    known->state = (enum unit_state)(1 + random_below(random, 3));
    known->has_detail = random_below(random, 3) == 0;
    ledger_end(ledger, unit, known->state, known->has_detail ? BYTES("why") : BYTES(""));
}

static void expect_same(const struct ledger *ledger, const struct model *model)
{
    uint32_t counts[4] = {0};
    assert_int_equal(ledger->count, model->count);
    for (uint32_t i = 0; i < model->count; i++) {
        const struct model_unit *unit = &model->units[i];
        struct bytes key = {NULL, 0};
        uint64_t number = 0;
        counts[unit->state]++;
        assert_int_equal(ledger_name(ledger, i, &key, &number), unit->kind);
        if (unit->kind == UNIT_KEYED || unit->kind == UNIT_CHILD)
            assert_true(bytes_equal(key, key_of(unit->key)));
        else
            assert_int_equal(number, unit->number);
        assert_int_equal(ledger_state(ledger, i), unit->state);
        assert_int_equal(ledger_detail(ledger, i).size, unit->has_detail ? 3 : 0);
        if (unit->kind == UNIT_KEYED || unit->kind == UNIT_COUNTED)
            assert_int_equal(ledger_find(ledger, key_of(unit->key)), i);
    }
    assert_int_equal(ledger->succeeded, counts[UNIT_SUCCEEDED]);
    assert_int_equal(ledger->failed, counts[UNIT_FAILED]);
    assert_int_equal(ledger->cancelled, counts[UNIT_CANCELLED]);
    assert_int_equal(ledger_outstanding(ledger), counts[UNIT_OUTSTANDING]);
    ledger_check(ledger);
}

static void random_registrations_and_ends_agree_with_a_model(void **state)
{
    static struct model model;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct random random = {.state = seed};
        struct ledger ledger;
        model.count = model.counted_end = 0;
        ledger_init(&ledger, *state);
        for (unsigned step = 0; step < 300 && model.count < UNITS_MAX - 100; step++) {
            add_something(&ledger, &model, &random);
            end_something(&ledger, &model, &random);
            if (step % 50 == 0)
                expect_same(&ledger, &model);
        }
        expect_same(&ledger, &model);
        struct buffer encoded, again;
        buffer_init(&encoded);
        buffer_init(&again);
        ledger_encode(&ledger, &encoded);
        struct ledger decoded;
        assert_true(ledger_decode(buffer_bytes(&encoded), *state, &decoded));
        expect_same(&decoded, &model);
        ledger_encode(&decoded, &again);
        assert_true(bytes_equal(buffer_bytes(&encoded), buffer_bytes(&again)));
        /* What was decoded goes on as before. */
        for (unsigned step = 0; step < 50 && model.count < UNITS_MAX - 100; step++) {
            add_something(&decoded, &model, &random);
            end_something(&decoded, &model, &random);
        }
        expect_same(&decoded, &model);
        ledger_deinit(&decoded);
        ledger_deinit(&ledger);
        buffer_deinit(&encoded);
        buffer_deinit(&again);
    }
}

static void a_truncated_or_flipped_ledger_is_refused_or_sound(void **state)
{
    static struct model model;
    struct random random = {.state = 3};
    struct ledger ledger, decoded;
    model.count = model.counted_end = 0;
    ledger_init(&ledger, *state);
    for (unsigned step = 0; step < 60; step++) {
        add_something(&ledger, &model, &random);
        end_something(&ledger, &model, &random);
    }
    struct buffer encoded;
    buffer_init(&encoded);
    ledger_encode(&ledger, &encoded);
    for (size_t size = 0; size < encoded.size; size++)
        assert_false(ledger_decode(bytes_make(encoded.data_owned, size), *state, &decoded));
    for (size_t bit = 0; bit < encoded.size * 8; bit++) {
        encoded.data_owned[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (ledger_decode(buffer_bytes(&encoded), *state, &decoded)) {
            ledger_check(&decoded);
            ledger_deinit(&decoded);
        }
        encoded.data_owned[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    buffer_deinit(&encoded);
    ledger_deinit(&ledger);
}

static void a_million_counted_units_take_a_quarter_of_a_megabyte(void **state)
{
    struct ledger ledger;
    ledger_init(&ledger, *state);
    ledger_add_counted(&ledger, 1000000);
    assert_int_equal(ledger.count, 1000000);
    assert_in_range(ledger.states_capacity, 250000, 500000);
    assert_int_equal(ledger.span_count, 1);
    assert_int_equal(ledger.reference_count, 0);
    assert_int_equal(ledger_find(&ledger, BYTES("999999")), 999999);
    assert_int_equal(ledger_find(&ledger, BYTES("1000000")), LEDGER_NO_UNIT);
    ledger_deinit(&ledger);
}

/* A few keys that look like counted ones must not make a count walk a hundred million of them. */
static void a_few_numeric_keys_do_not_make_a_large_count_slow(void **state)
{
    struct ledger ledger;
    ledger_init(&ledger, *state);
    ledger_add_key(&ledger, BYTES("99999998"), UNIT_KEYED);
    ledger_add_key(&ledger, BYTES("7"), UNIT_KEYED);
    clock_t start = clock();
    assert_int_equal(ledger_count_would_add(&ledger, 99999999), 99999997);
    ledger_add_counted(&ledger, 99999999);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    print_message("counting around two numeric keys: %.3f s\n", seconds);
    assert_true(seconds < 1.5); /* 4 s when it walked */
    assert_int_equal(ledger.count, 99999999);
    assert_int_equal(ledger.span_count, 2);
    assert_int_equal(ledger_find(&ledger, BYTES("99999998")), 0);
    assert_int_equal(ledger_find(&ledger, BYTES("7")), 1);
    assert_int_equal(ledger_find(&ledger, BYTES("6")), 2 + 6);
    assert_int_equal(ledger_find(&ledger, BYTES("8")), 2 + 7);
    assert_int_equal(ledger_find(&ledger, BYTES("99999997")), 99999998);
    assert_int_equal(ledger_find(&ledger, BYTES("99999999")), LEDGER_NO_UNIT);
    ledger_deinit(&ledger);
}

/* What all tests get as their state: whose key the hashes of names are under. */
static int make_digest(void **state)
{
    const uint8_t key[DIGEST_KEY_SIZE] = {1, 2, 3};
    *state = digest_create(key);
    return 0;
}

static int destroy_digest(void **state)
{
    digest_destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_registrations_and_ends_agree_with_a_model),
        cmocka_unit_test(a_truncated_or_flipped_ledger_is_refused_or_sound),
        cmocka_unit_test(a_few_numeric_keys_do_not_make_a_large_count_slow),
        cmocka_unit_test(a_million_counted_units_take_a_quarter_of_a_megabyte),
    };
    return cmocka_run_group_tests_name("core ledger", tests, make_digest, destroy_digest);
}
