/* SHA-256 and HMAC-SHA-256 (RFC 2104), for many short texts: one context is kept, so that none allocates. */
#ifndef TALLY_AUTH_SHA256_H
#define TALLY_AUTH_SHA256_H

#include "base/bytes.h"
#include <openssl/evp.h>

#define SHA256_SIZE 32u
#define SHA256_HEX_SIZE (2 * SHA256_SIZE)
#define SHA256_BLOCK_SIZE 64u

struct sha256 {
    EVP_MD *algorithm_owned;
    EVP_MD_CTX *context_owned;
};

/* A key, padded: the first block of the inner and of the outer digest. */
struct hmac_key {
    uint8_t inner[SHA256_BLOCK_SIZE];
    uint8_t outer[SHA256_BLOCK_SIZE];
};

void sha256_init(struct sha256 *sha256);
void sha256_deinit(struct sha256 *sha256);

void sha256_digest(struct sha256 *sha256, struct bytes data, uint8_t out[SHA256_SIZE]);

/* The digest in lower-case hexadecimal; writes no NUL. */
void sha256_digest_hex(struct sha256 *sha256, struct bytes data, char out[SHA256_HEX_SIZE]);

struct hmac_key sha256_hmac_key(struct sha256 *sha256, struct bytes key);
void sha256_hmac(struct sha256 *sha256, const struct hmac_key *key, struct bytes data, uint8_t out[SHA256_SIZE]);

#endif
