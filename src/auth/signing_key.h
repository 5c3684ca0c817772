/* Signing keys: what a secret becomes for one day, region and service, by four HMACs. A pure function of those, so what
 * was computed is kept, in a bounded number of places where a newer one takes over from an older one. Source: AWS,
 * "Create a signed AWS API request", step 4. */
#ifndef TALLY_AUTH_SIGNING_KEY_H
#define TALLY_AUTH_SIGNING_KEY_H

#include "auth/credentials.h"
#include "auth/sha256.h"

#define SIGNING_DATE_SIZE 8u
#define SIGNING_REGION_SIZE_MAX 64u
#define SIGNING_KEY_COUNT 256u

/* What a signing key is good for. */
struct signing_scope {
    struct bytes date; /* SIGNING_DATE_SIZE digits */
    struct bytes region;
    struct bytes service;
};

/* The key of a secret, which has at most CREDENTIAL_WORD_SIZE_MAX bytes, for one scope. */
void signing_key_derive(struct sha256 *sha256, struct bytes secret, const struct signing_scope *scope,
                        uint8_t out[SHA256_SIZE]);

struct signing_key {
    uint8_t scope[SIGNING_DATE_SIZE + SIGNING_REGION_SIZE_MAX + 1 + CREDENTIAL_WORD_SIZE_MAX];
    size_t scope_size; /* 0: nothing kept here */
    struct hmac_key key;
};

struct signing_keys {
    struct bytes service;            /* static text */
    struct signing_key *cells_owned; /* SIGNING_KEY_COUNT */
};

void signing_keys_init(struct signing_keys *keys, struct bytes service);

/* Wipes the keys. */
void signing_keys_deinit(struct signing_keys *keys);

/* The key of a secret for that day (SIGNING_DATE_SIZE digits) and region (at most SIGNING_REGION_SIZE_MAX bytes).
 * Borrowed until the next call. O(1). */
const struct hmac_key *signing_keys_get(struct signing_keys *keys, struct sha256 *sha256, struct bytes secret,
                                        struct bytes date, struct bytes region);

#endif
