/* Whose database this is: a row of tally_log.cluster says by which secret its nodes know each other, so that a node of
 * another cluster, which was pointed here by mistake, is refused (K24).
 *
 * The row has no secret, but what scrypt makes of it with a salt of the row's own (RFC 7914; N = 2^15, r = 8: 32 MiB
 * and some 0.1 s for each guess). Who reads the row can test guesses, and pays that much for each. A secret of 32
 * random bytes, as the documentation has it, can't be guessed at any price; the cost is for those that people made
 * up. */
#ifndef TALLY_POSTGRES_CLUSTER_SECRET_H
#define TALLY_POSTGRES_CLUSTER_SECRET_H

#include "postgres/session.h"

#define CLUSTER_FINGERPRINT_SIZE 32u
#define CLUSTER_SALT_SIZE 16u

/* What was found to fit, so that it is not computed for each connection. */
struct cluster_fingerprint {
    bool is_known;
    uint8_t salt[CLUSTER_SALT_SIZE];
    uint8_t bytes[CLUSTER_FINGERPRINT_SIZE];
};

/* Compares the secret with the row, which this node writes where there is none. ERROR_INVALID_PARAMETER_VALUE: it is
 * another cluster's database; `failure` says which, and what to check. ERROR_SERVICE_UNAVAILABLE: try again. */
enum error cluster_secret_check(struct pg_session *session, struct bytes secret, struct cluster_fingerprint *known,
                                uint64_t until_ms, struct failure *failure);

#endif
