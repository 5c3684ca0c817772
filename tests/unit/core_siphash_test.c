#include "core/siphash.h"

#include "base/memory.h"
#include "core/digest.h"
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define SIZE_MAX_TRIED 200u

static void the_example_of_its_authors_comes_out(void **state)
{
    (void)state;
    uint8_t key[SIPHASH_KEY_SIZE], text[15];
    for (uint8_t i = 0; i < sizeof(key); i++)
        key[i] = i;
    for (uint8_t i = 0; i < sizeof(text); i++)
        text[i] = i;
    assert_int_equal(siphash_2_4(key, bytes_make(text, sizeof(text))), UINT64_C(0xa129ca6149be45e5));
}

static uint64_t siphash_of_openssl(EVP_MAC_CTX *context, const uint8_t key[SIPHASH_KEY_SIZE], struct bytes data,
                                   unsigned rounds_of_word, unsigned rounds_at_end)
{
    uint8_t tag[8];
    size_t size = sizeof(tag);
    const OSSL_PARAM options[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                                  OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_C_ROUNDS, &rounds_of_word),
                                  OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_D_ROUNDS, &rounds_at_end),
                                  OSSL_PARAM_construct_end()};
    assert_int_equal(EVP_MAC_init(context, key, SIPHASH_KEY_SIZE, options), 1);
    assert_int_equal(EVP_MAC_update(context, data.ptr, data.size), 1);
    assert_int_equal(EVP_MAC_final(context, tag, &size, sizeof(tag)), 1);
    return bytes_get_u64(tag);
}

static void openssl_says_the_same_of_every_size(void **state)
{
    (void)state;
    EVP_MAC *algorithm = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(algorithm);
    uint32_t random = 7;
    for (size_t size = 0; size <= SIZE_MAX_TRIED; size++) {
        uint8_t *text = size == 0 ? NULL : memory_allocate(size); /* just so many: nothing behind them is read */
        uint8_t key[SIPHASH_KEY_SIZE];
        for (size_t i = 0; i < sizeof(key); i++)
            key[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
        for (size_t i = 0; i < size; i++)
            text[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
        struct bytes data = bytes_make(text, size);
        assert_int_equal(siphash_2_4(key, data), siphash_of_openssl(context, key, data, 2, 4));
        assert_int_equal(siphash_1_3(key, data), siphash_of_openssl(context, key, data, 1, 3));
        free(text);
    }
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(algorithm);
}

/* What is told under the namespace's key, as the numbers in ids, says nothing of where a name stands in a table. */
static void names_are_hashed_under_a_key_of_their_own(void **state)
{
    (void)state;
    const uint8_t keys[2][DIGEST_KEY_SIZE] = {{1}, {2}};
    struct digest *one = digest_create(keys[0]), *other = digest_create(keys[1]), *same = digest_create(keys[0]);
    struct bytes name = BYTES("group-1");
    assert_int_equal(digest_name(one, name), digest_name(same, name));
    assert_int_not_equal(digest_name(one, name), digest_name(other, name));
    assert_int_not_equal(digest_name(one, name), digest_keyed(one, name));
    assert_int_not_equal(digest_name(one, name), siphash_1_3(keys[0], name));
    assert_int_not_equal(digest_name(one, name), digest_name(one, BYTES("group-2")));
    digest_destroy(one);
    digest_destroy(other);
    digest_destroy(same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_its_authors_comes_out),
        cmocka_unit_test(openssl_says_the_same_of_every_size),
        cmocka_unit_test(names_are_hashed_under_a_key_of_their_own),
    };
    return cmocka_run_group_tests_name("siphash", tests, NULL, NULL);
}
