#include "auth/sha256.h"

#include "base/assert.h"

void sha256_init(struct sha256 *sha256)
{
    sha256->algorithm_owned = EVP_MD_fetch(NULL, "SHA256", NULL);
    sha256->context_owned = EVP_MD_CTX_new();
    ASSERT(sha256->algorithm_owned != NULL && sha256->context_owned != NULL);
}

void sha256_deinit(struct sha256 *sha256)
{
    EVP_MD_CTX_free(sha256->context_owned);
    EVP_MD_free(sha256->algorithm_owned);
}

/* The digest of `prefix`, a whole number of blocks, and `data`. */
static void digest_with_prefix(struct sha256 *sha256, struct bytes prefix, struct bytes data, uint8_t out[SHA256_SIZE])
{
    EVP_MD_CTX *context = sha256->context_owned;
    int is_done = EVP_DigestInit_ex2(context, sha256->algorithm_owned, NULL) == 1 &&
                  EVP_DigestUpdate(context, prefix.ptr, prefix.size) == 1 &&
                  EVP_DigestUpdate(context, data.ptr, data.size) == 1 && EVP_DigestFinal_ex(context, out, NULL) == 1;
    ASSERT(is_done);
}

void sha256_digest(struct sha256 *sha256, struct bytes data, uint8_t out[SHA256_SIZE])
{
    digest_with_prefix(sha256, bytes_make(NULL, 0), data, out);
}

void sha256_digest_hex(struct sha256 *sha256, struct bytes data, char out[SHA256_HEX_SIZE])
{
    uint8_t digest[SHA256_SIZE];
    sha256_digest(sha256, data, digest);
    bytes_to_hex(bytes_make(digest, sizeof(digest)), out);
}

struct hmac_key sha256_hmac_key(struct sha256 *sha256, struct bytes key)
{
    uint8_t block[SHA256_BLOCK_SIZE] = {0};
    if (key.size > sizeof(block))
        sha256_digest(sha256, key, block);
    else if (key.size > 0)
        memcpy(block, key.ptr, key.size);
    struct hmac_key padded;
    for (size_t i = 0; i < sizeof(block); i++) {
        padded.inner[i] = block[i] ^ 0x36;
        padded.outer[i] = block[i] ^ 0x5c;
    }
    return padded;
}

void sha256_hmac(struct sha256 *sha256, const struct hmac_key *key, struct bytes data, uint8_t out[SHA256_SIZE])
{
    uint8_t inner[SHA256_SIZE];
    digest_with_prefix(sha256, bytes_make(key->inner, sizeof(key->inner)), data, inner);
    digest_with_prefix(sha256, bytes_make(key->outer, sizeof(key->outer)), bytes_make(inner, sizeof(inner)), out);
}
