/* Digests of OpenSSL behind one context each, so that the hot path neither looks up an algorithm nor allocates.
 *
 * Pure: the result depends on the arguments alone. */
#ifndef TALLY_CORE_DIGEST_H
#define TALLY_CORE_DIGEST_H

#include "base/bytes.h"

#define DIGEST_MD5_SIZE 16
#define DIGEST_SHA256_SIZE 32
#define DIGEST_KEY_SIZE 16

struct digest;

/* `key` seeds digest_keyed() and is copied. */
struct digest *digest_create(const uint8_t key[DIGEST_KEY_SIZE]);
void digest_destroy(struct digest *digest);

/* MD5, which SQS clients compare bodies and attributes with; not for security. */
void digest_md5(struct digest *digest, struct bytes data, uint8_t out[DIGEST_MD5_SIZE]);

void digest_sha256(struct digest *digest, struct bytes data, uint8_t out[DIGEST_SHA256_SIZE]);

/* SipHash-2-4 of the data under the key: who does not know the key can't make one up. */
uint64_t digest_keyed(struct digest *digest, struct bytes data);

#endif
