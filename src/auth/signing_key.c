#include "auth/signing_key.h"

#include "base/assert.h"
#include "base/memory.h"
#include <openssl/crypto.h>
#include <stdlib.h>

void signing_keys_init(struct signing_keys *keys, struct bytes service)
{
    keys->service = service;
    keys->cells_owned = memory_allocate_zeroed(SIGNING_KEY_COUNT * sizeof(*keys->cells_owned));
}

void signing_keys_deinit(struct signing_keys *keys)
{
    OPENSSL_cleanse(keys->cells_owned, SIGNING_KEY_COUNT * sizeof(*keys->cells_owned));
    free(keys->cells_owned);
}

static size_t put(uint8_t *at, size_t size, struct bytes view)
{
    memcpy(at + size, view.ptr, view.size);
    return size + view.size;
}

/* One step from the secret to the key: the digest of `data` is the next key. */
static void derive(struct sha256 *sha256, struct bytes key, struct bytes data, uint8_t out[SHA256_SIZE])
{
    struct hmac_key padded = sha256_hmac_key(sha256, key);
    sha256_hmac(sha256, &padded, data, out);
    OPENSSL_cleanse(&padded, sizeof(padded));
}

void signing_key_derive(struct sha256 *sha256, struct bytes secret, const struct signing_scope *scope,
                        uint8_t out[SHA256_SIZE])
{
    ASSERT(secret.size <= CREDENTIAL_WORD_SIZE_MAX);
    uint8_t first[4 + CREDENTIAL_WORD_SIZE_MAX];
    const size_t size = put(first, put(first, 0, BYTES("AWS4")), secret);
    const struct bytes parts[] = {scope->date, scope->region, scope->service, BYTES("aws4_request")};
    derive(sha256, bytes_make(first, size), parts[0], out);
    OPENSSL_cleanse(first, sizeof(first));
    for (size_t i = 1; i < ARRAY_LENGTH(parts); i++)
        derive(sha256, bytes_make(out, SHA256_SIZE), parts[i], out);
}

static struct hmac_key compute(struct sha256 *sha256, struct bytes secret, const struct signing_scope *scope)
{
    uint8_t key[SHA256_SIZE];
    signing_key_derive(sha256, secret, scope, key);
    const struct hmac_key padded = sha256_hmac_key(sha256, bytes_make(key, sizeof(key)));
    OPENSSL_cleanse(key, sizeof(key));
    return padded;
}

const struct hmac_key *signing_keys_get(struct signing_keys *keys, struct sha256 *sha256, struct bytes secret,
                                        struct bytes date, struct bytes region)
{
    ASSERT(date.size == SIGNING_DATE_SIZE && region.size > 0 && region.size <= SIGNING_REGION_SIZE_MAX);
    ASSERT(secret.size > 0 && secret.size <= CREDENTIAL_WORD_SIZE_MAX);
    uint8_t scope[sizeof(keys->cells_owned->scope)];
    size_t size = put(scope, put(scope, 0, date), region);
    scope[size++] = '/'; /* between two texts of any size; a region has none */
    size = put(scope, size, secret);
    struct signing_key *cell = &keys->cells_owned[bytes_hash(bytes_make(scope, size)) % SIGNING_KEY_COUNT];
    if (!bytes_equal(bytes_make(cell->scope, cell->scope_size), bytes_make(scope, size))) {
        cell->key =
            compute(sha256, secret, &(struct signing_scope){.date = date, .region = region, .service = keys->service});
        memcpy(cell->scope, scope, size);
        cell->scope_size = size;
    }
    return &cell->key;
}
