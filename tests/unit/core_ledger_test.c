/* The ledger against a naive model: an array of units with names and states. */
#include "core/batches/ledger.h"

#include "base/assert.h"
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

/* A ledger as bytes: what a snapshot may say of it. */
struct form {
    const char *what;
    bool is_read;
    uint32_t counted_end;
    uint32_t span_count;
    uint32_t spans[2][3]; /* first key, count, references before it */
    uint32_t reference_count;
    struct {
        uint8_t kind;
        const char *key; /* NULL: the number */
        uint64_t number;
    } references[2];
    uint32_t unit_count;
    const char *detail; /* NULL: none */
    uint32_t detail_unit;
};

static void append_form(const struct form *form, struct buffer *out)
{
    buffer_append_u32(out, form->counted_end);
    buffer_append_u32(out, form->span_count);
    for (uint32_t i = 0; i < form->span_count; i++)
        for (unsigned k = 0; k < 3; k++)
            buffer_append_u32(out, form->spans[i][k]);
    buffer_append_u32(out, form->reference_count);
    for (unsigned i = 0; i < 2 && form->references[i].kind != 0; i++) {
        buffer_append_u8(out, form->references[i].kind - 1); /* 0 ends them here */
        if (form->references[i].key == NULL)
            buffer_append_u64(out, form->references[i].number);
        else
            buffer_append_sized(out, bytes_from_string(form->references[i].key));
    }
    for (uint32_t i = 0; i < (form->unit_count + 3) / 4; i++)
        buffer_append_u8(out, 0);
    buffer_append_u32(out, form->detail != NULL);
    if (form->detail == NULL)
        return;
    buffer_append_u32(out, form->detail_unit);
    buffer_append_sized(out, bytes_from_string(form->detail));
}

#define KEYED (UNIT_KEYED + 1)
#define MESSAGE (UNIT_MESSAGE + 1)
#define CHILD (UNIT_CHILD + 1)

static void a_ledger_names_each_unit_once(void **state)
{
    static const struct form forms[] = {
        {.what = "empty", .is_read = true},
        {.what = "a span", .is_read = true, .counted_end = 5, .span_count = 1, .spans = {{0, 5, 0}}, .unit_count = 5},
        {.what = "a key behind the counted ones",
         .is_read = false,
         .counted_end = 4,
         .span_count = 1,
         .spans = {{0, 5, 0}},
         .unit_count = 5},
        {.what = "as many as there can be",
         .is_read = true,
         .counted_end = LEDGER_UNITS_MAX,
         .span_count = 1,
         .spans = {{LEDGER_UNITS_MAX - 1, 1, 0}},
         .unit_count = 1},
        {.what = "counted further than there can be", .is_read = false, .counted_end = LEDGER_UNITS_MAX + 1},
        {.what = "a key that there can't be",
         .is_read = false,
         .counted_end = LEDGER_UNITS_MAX,
         .span_count = 1,
         .spans = {{LEDGER_UNITS_MAX, 1, 0}},
         .unit_count = 1},
        {.what = "an empty span", .is_read = false, .counted_end = 5, .span_count = 1, .spans = {{0, 0, 0}}},
        {.what = "two spans",
         .is_read = true,
         .counted_end = 5,
         .span_count = 2,
         .spans = {{0, 2, 0}, {2, 3, 0}},
         .unit_count = 5},
        {.what = "two spans that overlap",
         .is_read = false,
         .counted_end = 5,
         .span_count = 2,
         .spans = {{0, 3, 0}, {2, 3, 0}},
         .unit_count = 6},
        {.what = "two spans the other way round",
         .is_read = false,
         .counted_end = 5,
         .span_count = 2,
         .spans = {{2, 3, 0}, {0, 2, 0}},
         .unit_count = 5},
        {.what = "a key",
         .is_read = true,
         .reference_count = 1,
         .references = {{.kind = KEYED, .key = "x"}},
         .unit_count = 1},
        {.what = "a key before a span",
         .is_read = true,
         .counted_end = 2,
         .span_count = 1,
         .spans = {{0, 2, 1}},
         .reference_count = 1,
         .references = {{.kind = KEYED, .key = "x"}},
         .unit_count = 3},
        {.what = "a key too many before a span",
         .is_read = false,
         .counted_end = 2,
         .span_count = 1,
         .spans = {{0, 2, 1}},
         .reference_count = 0,
         .references = {{.kind = KEYED, .key = "x"}},
         .unit_count = 3},
        {.what = "a key that does not come",
         .is_read = false,
         .counted_end = 2,
         .span_count = 1,
         .spans = {{0, 2, 0}},
         .reference_count = 1,
         .unit_count = 2},
        {.what = "an empty key",
         .is_read = false,
         .reference_count = 1,
         .references = {{.kind = KEYED, .key = ""}},
         .unit_count = 1},
        {.what = "a counted key among the others",
         .is_read = false,
         .reference_count = 1,
         .references = {{.kind = 1, .key = "x"}},
         .unit_count = 1},
        {.what = "a kind that there is not",
         .is_read = false,
         .reference_count = 1,
         .references = {{.kind = CHILD + 1, .key = "x"}},
         .unit_count = 1},
        {.what = "a key twice",
         .is_read = false,
         .reference_count = 2,
         .references = {{.kind = KEYED, .key = "x"}, {.kind = KEYED, .key = "x"}},
         .unit_count = 2},
        {.what = "two keys",
         .is_read = true,
         .reference_count = 2,
         .references = {{.kind = KEYED, .key = "x"}, {.kind = KEYED, .key = "y"}},
         .unit_count = 2},
        {.what = "a child and a key",
         .is_read = true,
         .reference_count = 2,
         .references = {{.kind = CHILD, .key = "x"}, {.kind = KEYED, .key = "x"}},
         .unit_count = 2},
        {.what = "a child of no id",
         .is_read = false,
         .reference_count = 1,
         .references = {{.kind = CHILD, .key = ""}},
         .unit_count = 1},
        {.what = "a message",
         .is_read = true,
         .reference_count = 1,
         .references = {{.kind = MESSAGE, .number = 1}},
         .unit_count = 1},
        {.what = "a message of no number",
         .is_read = false,
         .reference_count = 1,
         .references = {{.kind = MESSAGE, .number = 0}},
         .unit_count = 1},
        {.what = "a key that is counted too",
         .is_read = false,
         .counted_end = 2,
         .span_count = 1,
         .spans = {{0, 2, 1}},
         .reference_count = 1,
         .references = {{.kind = KEYED, .key = "1"}},
         .unit_count = 3},
        {.what = "a key that is counted between",
         .is_read = true,
         .counted_end = 2,
         .span_count = 1,
         .spans = {{0, 1, 1}},
         .reference_count = 1,
         .references = {{.kind = KEYED, .key = "1"}},
         .unit_count = 2},
        {.what = "a key that is not counted yet",
         .is_read = true,
         .counted_end = 2,
         .span_count = 1,
         .spans = {{0, 2, 1}},
         .reference_count = 1,
         .references = {{.kind = KEYED, .key = "2"}},
         .unit_count = 3},
        {.what = "a child whose id is a number",
         .is_read = true,
         .counted_end = 2,
         .span_count = 1,
         .spans = {{0, 2, 1}},
         .reference_count = 1,
         .references = {{.kind = CHILD, .key = "1"}},
         .unit_count = 3},
        {.what = "a detail",
         .is_read = true,
         .counted_end = 2,
         .span_count = 1,
         .spans = {{0, 2, 0}},
         .unit_count = 2,
         .detail = "d",
         .detail_unit = 1},
        {.what = "a detail of no unit",
         .is_read = false,
         .counted_end = 2,
         .span_count = 1,
         .spans = {{0, 2, 0}},
         .unit_count = 2,
         .detail = "d",
         .detail_unit = 2},
        {.what = "an empty detail",
         .is_read = false,
         .counted_end = 2,
         .span_count = 1,
         .spans = {{0, 2, 0}},
         .unit_count = 2,
         .detail = "",
         .detail_unit = 1},
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(forms); i++) {
        struct buffer encoded, again;
        buffer_init(&encoded);
        buffer_init(&again);
        append_form(&forms[i], &encoded);
        struct ledger ledger;
        const bool is_read = ledger_decode(buffer_bytes(&encoded), *state, &ledger);
        if (is_read != forms[i].is_read)
            fail_msg("%s: %s", is_read ? "read" : "refused", forms[i].what);
        if (is_read) {
            ledger_check(&ledger);
            ledger_encode(&ledger, &again);
            assert_true(bytes_equal(buffer_bytes(&encoded), buffer_bytes(&again)));
            ledger_deinit(&ledger);
        }
        buffer_deinit(&again);
        buffer_deinit(&encoded);
    }
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
        cmocka_unit_test(a_ledger_names_each_unit_once),
        cmocka_unit_test(a_million_counted_units_take_a_quarter_of_a_megabyte),
    };
    return cmocka_run_group_tests_name("core ledger", tests, make_digest, destroy_digest);
}
