/* Digests, most of them from OpenSSL with one context each, so the hot path neither looks up an algorithm nor
 * allocates.
 *
 * Pure: the result depends on the arguments alone. */
#ifndef TALLY_CORE_DIGEST_H
#define TALLY_CORE_DIGEST_H

#include "base/bytes.h"

#define DIGEST_MD5_SIZE 16
#define DIGEST_SHA256_SIZE 32
#define DIGEST_KEY_SIZE 16

struct digest;

/* `key` is the key of the keyed hashes here, and is copied. */
struct digest *digest_create(const uint8_t key[DIGEST_KEY_SIZE]);
void digest_destroy(struct digest *digest);

/* MD5, with which SQS clients compare bodies and attributes; not for security. */
void digest_md5(struct digest *digest, struct bytes data, uint8_t out[DIGEST_MD5_SIZE]);

void digest_sha256(struct digest *digest, struct bytes data, uint8_t out[DIGEST_SHA256_SIZE]);

/* SipHash-2-4 of the data under the key: nobody can forge it without the key. */
uint64_t digest_keyed(const struct digest *digest, struct bytes data);

/* Hash of a name that a client chose, for tables in memory: SipHash-1-3 under a key derived from the other one. Nobody
 * outside ever sees a result. Somebody who could predict it could choose a hundred thousand names with one hash. Each
 * request with them would then take minutes. */
uint64_t digest_name(const struct digest *digest, struct bytes name);

/* 128 bits: enough that no two compared texts ever have the same hash. */
struct digest_tag {
    uint64_t low;
    uint64_t high;
};

static inline bool digest_tag_equal(struct digest_tag a, struct digest_tag b)
{
    return a.low == b.low && a.high == b.high;
}

/* The same function with a result of 128 bits, over the parts in sequence. The caller must make clear where a part
 * ends. */
struct digest_tag digest_keyed_wide(struct digest *digest, const struct bytes *parts, size_t count);

#endif
