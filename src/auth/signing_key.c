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
static struct hmac_key derive(struct sha256 *sha256, const struct hmac_key *key, struct bytes data)
{
    uint8_t digest[SHA256_SIZE];
    sha256_hmac(sha256, key, data, digest);
    struct hmac_key next = sha256_hmac_key(sha256, bytes_make(digest, sizeof(digest)));
    OPENSSL_cleanse(digest, sizeof(digest));
    return next;
}

static struct hmac_key compute(const struct signing_keys *keys, struct sha256 *sha256, struct bytes secret,
                               struct bytes date, struct bytes region)
{
    uint8_t first[4 + CREDENTIAL_WORD_SIZE_MAX];
    size_t size = put(first, put(first, 0, BYTES("AWS4")), secret);
    struct hmac_key key = sha256_hmac_key(sha256, bytes_make(first, size));
    OPENSSL_cleanse(first, sizeof(first));
    key = derive(sha256, &key, date);
    key = derive(sha256, &key, region);
    key = derive(sha256, &key, keys->service);
    return derive(sha256, &key, BYTES("aws4_request"));
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
        cell->key = compute(keys, sha256, secret, date, region);
        memcpy(cell->scope, scope, size);
        cell->scope_size = size;
    }
    return &cell->key;
}
