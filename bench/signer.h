/* AWS signatures, version 4, on the requests of http.h: as a client makes them, with nothing of Tally. */
#ifndef TALLY_BENCH_SIGNER_H
#define TALLY_BENCH_SIGNER_H

#include "text.h"

#include <time.h>

/* The credential with which everything is signed: the one of AWS's documentation. Another access key with the same
 * secret makes the same signatures, because they don't cover it. */
#define SIGNER_ACCESS_KEY "AKIAIOSFODNN7EXAMPLE"
#define SIGNER_SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

enum { SIGNER_DIGEST_SIZE = 32, SIGNER_STAMP_SIZE = 16 };

/* The time of the signatures, which servers take for 15 minutes, and the key of its day. */
struct signer {
    const char *access_key;            /* as long as SIGNER_ACCESS_KEY; borrowed */
    char stamp[SIGNER_STAMP_SIZE + 1]; /* 20260101T000000Z */
    unsigned char key[SIGNER_DIGEST_SIZE];
};

/* `now` is the time by the wall clock. */
void signer_init(struct signer *signer, time_t now, const char *access_key);

/* Puts access key, time, day and signature in place of those that http_request_begin() wrote. `request` is whole; no
 * other byte changes. */
void signer_sign(const struct signer *signer, struct text *request);

#endif
