#include "core/digest.h"

#include "base/accounted.h"
#include "base/assert.h"
#include "base/buffer.h"
#include "core/siphash.h"
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>

struct digest {
    EVP_MD *md5_owned;
    EVP_MD *sha256_owned;
    EVP_MD_CTX *md5_context_owned;
    EVP_MD_CTX *sha256_context_owned;
    uint8_t key[DIGEST_KEY_SIZE];
    uint8_t name_key[SIPHASH_KEY_SIZE];
    EVP_MAC_CTX *keyed_wide_context_owned;
};

static EVP_MAC_CTX *keyed_wide_context_create(const uint8_t key[DIGEST_KEY_SIZE])
{
    size_t size = sizeof(struct digest_tag);
    EVP_MAC *algorithm = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    ASSERT(algorithm != NULL);
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(algorithm);
    EVP_MAC_free(algorithm);
    const OSSL_PARAM options[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size), OSSL_PARAM_construct_end()};
    int is_ready = context != NULL && EVP_MAC_init(context, key, DIGEST_KEY_SIZE, options) == 1;
    ASSERT(is_ready);
    return context;
}

struct digest *digest_create(const uint8_t key[DIGEST_KEY_SIZE])
{
    struct digest *digest = accounted_allocate(sizeof(*digest));
    digest->md5_owned = EVP_MD_fetch(NULL, "MD5", NULL);
    digest->sha256_owned = EVP_MD_fetch(NULL, "SHA256", NULL);
    digest->md5_context_owned = EVP_MD_CTX_new();
    digest->sha256_context_owned = EVP_MD_CTX_new();
    ASSERT(digest->md5_owned != NULL && digest->sha256_owned != NULL);
    memcpy(digest->key, key, sizeof(digest->key));
    digest->keyed_wide_context_owned = keyed_wide_context_create(key);
    ASSERT(digest->md5_context_owned != NULL && digest->sha256_context_owned != NULL);
    struct digest_tag names = digest_keyed_wide(digest, &BYTES("names"), 1);
    bytes_put_u64(digest->name_key, names.low);
    bytes_put_u64(digest->name_key + sizeof(names.low), names.high);
    return digest;
}

void digest_destroy(struct digest *digest)
{
    EVP_MD_CTX_free(digest->md5_context_owned);
    EVP_MD_CTX_free(digest->sha256_context_owned);
    EVP_MAC_CTX_free(digest->keyed_wide_context_owned);
    EVP_MD_free(digest->md5_owned);
    EVP_MD_free(digest->sha256_owned);
    accounted_free(digest);
}

static void digest_compute(EVP_MD_CTX *context, const EVP_MD *algorithm, struct bytes data, uint8_t *out)
{
    int is_done = EVP_DigestInit_ex2(context, algorithm, NULL) == 1 &&
                  EVP_DigestUpdate(context, data.ptr, data.size) == 1 && EVP_DigestFinal_ex(context, out, NULL) == 1;
    ASSERT(is_done);
}

void digest_md5(struct digest *digest, struct bytes data, uint8_t out[DIGEST_MD5_SIZE])
{
    digest_compute(digest->md5_context_owned, digest->md5_owned, data, out);
}

void digest_sha256(struct digest *digest, struct bytes data, uint8_t out[DIGEST_SHA256_SIZE])
{
    digest_compute(digest->sha256_context_owned, digest->sha256_owned, data, out);
}

uint64_t digest_keyed(const struct digest *digest, struct bytes data)
{
    return siphash_2_4(digest->key, data);
}

uint64_t digest_name(const struct digest *digest, struct bytes name)
{
    return siphash_1_3(digest->name_key, name);
}

struct digest_tag digest_keyed_wide(struct digest *digest, const struct bytes *parts, size_t count)
{
    uint8_t tag[2 * sizeof(uint64_t)];
    size_t size = 0;
    EVP_MAC_CTX *context = digest->keyed_wide_context_owned;
    int is_done = EVP_MAC_init(context, NULL, 0, NULL) == 1;
    for (size_t i = 0; i < count; i++)
        is_done = is_done && EVP_MAC_update(context, parts[i].ptr, parts[i].size) == 1;
    is_done = is_done && EVP_MAC_final(context, tag, &size, sizeof(tag)) == 1;
    ASSERT(is_done && size == sizeof(tag));
    return (struct digest_tag){.low = bytes_get_u64(tag), .high = bytes_get_u64(tag + sizeof(uint64_t))};
}
