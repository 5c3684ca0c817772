/* Names that the core gives out: unique, reversible by the key alone, and impossible to alter. */
#include "core/identity.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const uint8_t key[DIGEST_KEY_SIZE] = "one namespace";
static const uint8_t other_key[DIGEST_KEY_SIZE] = "another one";

static void a_handle_comes_back_as_it_was(void **state)
{
    (void)state;
    struct digest *digest = digest_create(key);
    struct random random = {.state = 1};
    for (unsigned i = 0; i < 1000; i++) {
        struct handle handle = {
            .queue = (uint32_t)random_u64(&random), .message = random_u64(&random), .delivery = random_u64(&random)};
        struct handle read;
        char text[HANDLE_TEXT_SIZE];
        handle_to_text(digest, &handle, text);
        assert_true(handle_from_text(digest, bytes_make(text, sizeof(text)), &read));
        assert_true(read.queue == handle.queue && read.message == handle.message && read.delivery == handle.delivery);
    }
    digest_destroy(digest);
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void no_other_spelling_of_a_handle_is_taken(void **state)
{
    (void)state;
    struct digest *digest = digest_create(key), *other = digest_create(other_key);
    const struct handle handle = {.queue = 3, .message = 77, .delivery = 123456789};
    struct handle read = {.queue = 9};
    char text[HANDLE_TEXT_SIZE + 1];
    handle_to_text(digest, &handle, text);
    for (size_t at = 0; at < HANDLE_TEXT_SIZE; at++) {
        char old = text[at];
        /* Every digit in its place, so every bit that it stands for, those to spare among them; and every other
         * byte. */
        for (unsigned byte = 0; byte < 256; byte++) {
            text[at] = (char)byte;
            assert_int_equal(handle_from_text(digest, bytes_make(text, HANDLE_TEXT_SIZE), &read), text[at] == old);
        }
        text[at] = old;
    }
    assert_false(handle_from_text(other, bytes_make(text, HANDLE_TEXT_SIZE), &read));
    for (size_t size = 0; size < HANDLE_TEXT_SIZE; size++)
        assert_false(handle_from_text(digest, bytes_make(text, size), &read));
    text[HANDLE_TEXT_SIZE] = 'A';
    assert_false(handle_from_text(digest, bytes_make(text, HANDLE_TEXT_SIZE + 1), &read));
    digest_destroy(digest);
    digest_destroy(other);
}

static void random_texts_are_no_handles(void **state)
{
    (void)state;
    struct digest *digest = digest_create(key);
    struct random random = {.state = 2};
    struct handle read;
    for (unsigned i = 0; i < 100000; i++) {
        char text[HANDLE_TEXT_SIZE];
        for (size_t at = 0; at < sizeof(text); at++)
            text[at] = alphabet[random_below(&random, 64)];
        assert_false(handle_from_text(digest, bytes_make(text, sizeof(text)), &read));
    }
    digest_destroy(digest);
}

static void message_ids_sort_by_age_and_lead_back_to_their_number(void **state)
{
    (void)state;
    struct digest *digest = digest_create(key), *other = digest_create(other_key);
    uint8_t last[MESSAGE_ID_SIZE] = {0};
    static const uint64_t numbers[] = {1,
                                       2,
                                       15,
                                       16,
                                       17,
                                       255,
                                       256,
                                       4095,
                                       4096,
                                       65535,
                                       1u << 20,
                                       UINT64_C(1) << 40,
                                       IDENTITY_NUMBER_MAX - 1,
                                       IDENTITY_NUMBER_MAX};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint8_t id[MESSAGE_ID_SIZE], read[MESSAGE_ID_SIZE];
        char text[IDENTITY_TEXT_SIZE];
        identity_message(digest, numbers[i], id);
        assert_true(memcmp(last, id, sizeof(id)) < 0);
        memcpy(last, id, sizeof(id));
        assert_int_equal(id[6] >> 4, 8); /* version */
        assert_int_equal(id[8] >> 6, 2); /* variant */
        assert_true(identity_message_number(digest, id) == numbers[i]);
        assert_true(identity_message_number(other, id) == 0);
        identity_to_text(id, text);
        assert_true(identity_from_text(bytes_make(text, sizeof(text)), read));
        assert_memory_equal(id, read, sizeof(id));
        for (unsigned bit = 0; bit < MESSAGE_ID_SIZE * 8; bit++) {
            id[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_true(identity_message_number(digest, id) == 0);
            id[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
    digest_destroy(digest);
    digest_destroy(other);
}

static void texts_that_are_no_uuids_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "0123456789abcdef0123456789abcdef",
                                        "01234567-89ab-cdef-0123-456789abcde",
                                        "01234567-89ab-cdef-0123-456789abcdeg",
                                        "01234567089ab-cdef-0123-456789abcdef",
                                        "01234567-89ab-cdef-0123-456789abcdef0"};
    uint8_t id[MESSAGE_ID_SIZE];
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(identity_from_text(bytes_from_string(texts[i]), id));
    assert_true(identity_from_text(BYTES("01234567-89AB-cdef-0123-456789abcdef"), id));
}

/* Invariant B16: two lives of one batch id have different messages. */
static void completion_ids_depend_on_all_they_are_made_of_and_on_no_key(void **state)
{
    (void)state;
    struct digest *digest = digest_create(key), *other = digest_create(other_key);
    uint8_t ids[6][MESSAGE_ID_SIZE], again[MESSAGE_ID_SIZE];
    identity_completion(digest, BYTES("000000000000"), BYTES("b"), 1, 1, ids[0]);
    identity_completion(digest, BYTES("000000000001"), BYTES("b"), 1, 1, ids[1]);
    identity_completion(digest, BYTES("000000000000"), BYTES("c"), 1, 1, ids[2]);
    identity_completion(digest, BYTES("000000000000"), BYTES("b"), 2, 1, ids[3]);
    identity_completion(digest, BYTES("000000000000"), BYTES("b"), 1, 2, ids[4]);
    identity_completion(digest, BYTES("00000000000"), BYTES("0b"), 1, 1, ids[5]);
    for (unsigned i = 0; i < 6; i++)
        for (unsigned k = 0; k < i; k++)
            assert_memory_not_equal(ids[i], ids[k], MESSAGE_ID_SIZE);
    identity_completion(other, BYTES("000000000000"), BYTES("b"), 1, 1, again);
    assert_memory_equal(ids[0], again, MESSAGE_ID_SIZE);
    digest_destroy(digest);
    digest_destroy(other);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static void xor_ids_are_distinct_and_never_zero(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    struct digest *digest = digest_create(key);
    uint64_t *ids = malloc(2 * COUNT * sizeof(*ids));
    assert_non_null(ids);
    for (uint64_t i = 0; i < COUNT; i++) {
        ids[2 * i] = identity_xor_unit(digest, i + 1, false);
        ids[2 * i + 1] = identity_xor_unit(digest, i + 1, true);
    }
    qsort(ids, 2 * COUNT, sizeof(*ids), compare_u64);
    assert_true(ids[0] != 0);
    for (size_t i = 1; i < 2 * COUNT; i++)
        assert_true(ids[i - 1] != ids[i]);
    free(ids);
    digest_destroy(digest);
}

/* MR28, MR38: a match is known by one id, whoever replays and however often its result is delivered. */
static void match_ids_lead_back_to_their_number_and_are_no_message_ids(void **state)
{
    (void)state;
    struct digest *digest = digest_create(key), *other = digest_create(other_key);
    uint8_t before[MESSAGE_ID_SIZE] = {0}, id[MESSAGE_ID_SIZE], again[MESSAGE_ID_SIZE];
    for (uint64_t number = 1; number < 100000; number = number * 3 / 2 + 1) {
        identity_match(digest, number, id);
        identity_match(digest, number, again);
        assert_memory_equal(id, again, sizeof(id));
        assert_true(memcmp(before, id, sizeof(id)) < 0);
        assert_true(identity_match_number(digest, id) == number);
        assert_int_equal(identity_match_number(other, id), 0);
        assert_int_equal(identity_message_number(digest, id), 0);
        assert_true(id[6] >> 4 == 8 && id[8] >> 6 == 2);
        id[9] ^= 1;
        assert_int_equal(identity_match_number(digest, id), 0);
        id[9] ^= 1;
        memcpy(before, id, sizeof(before));
    }
    identity_match(digest, IDENTITY_NUMBER_MAX, id);
    assert_true(identity_match_number(digest, id) == IDENTITY_NUMBER_MAX);
    digest_destroy(digest);
    digest_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_comes_back_as_it_was),
        cmocka_unit_test(no_other_spelling_of_a_handle_is_taken),
        cmocka_unit_test(random_texts_are_no_handles),
        cmocka_unit_test(message_ids_sort_by_age_and_lead_back_to_their_number),
        cmocka_unit_test(texts_that_are_no_uuids_are_refused),
        cmocka_unit_test(completion_ids_depend_on_all_they_are_made_of_and_on_no_key),
        cmocka_unit_test(xor_ids_are_distinct_and_never_zero),
        cmocka_unit_test(match_ids_lead_back_to_their_number_and_are_no_message_ids),
    };
    return cmocka_run_group_tests_name("core identity", tests, NULL, NULL);
}
