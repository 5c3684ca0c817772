/* AWS Signature Version 4: who signed a request, or why nobody did.
 *
 * Given everything as arguments, the time included; calls no clock and no file. A verification allocates nothing once
 * its buffers have grown to the size of the requests. Source: AWS, "AWS Signature Version 4 for API requests"; texts of
 * refusals as SQS gives them. */
#ifndef TALLY_AUTH_SIGV4_H
#define TALLY_AUTH_SIGV4_H

#include "auth/credentials.h"

/* How far the time of a request may be from ours, in either direction. */
#define SIGV4_SKEW_S 900

struct sigv4;

struct signed_request {
    struct bytes method;
    struct bytes path;  /* as on the wire, without the query string */
    struct bytes query; /* as on the wire, behind the ?; empty if there is none */
    struct bytes head;  /* the header lines as on the wire */
    struct bytes body;
};

/* A verifier of signatures for one service ("sqs"; static text). Remembers nothing but signing keys it has computed. */
struct sigv4 *sigv4_create(const char *service);
void sigv4_destroy(struct sigv4 *sigv4);

/* Whose credential signed the request, in the header Authorization or in the query string. `now_s` is the time in
 * seconds since the epoch. Errors, in this order:
 *   ERROR_ACCESS_DENIED          it is not signed
 *   ERROR_INCOMPLETE_SIGNATURE   what says so is malformed, or leaves out what must be signed
 *   ERROR_UNKNOWN_ACCESS_KEY     nobody has that access key, or the session token is not the credential's
 *   ERROR_INVALID_SIGNATURE      another date, service, time, body or secret
 * On success *credential is borrowed from `credentials`. The time it takes does not tell how much of a signature is
 * right. */
enum error sigv4_verify(struct sigv4 *sigv4, const struct credentials *credentials,
                        const struct signed_request *request, int64_t now_s, const struct credential **credential,
                        struct failure *failure);

#endif
