/* A claim: what a request says about who signed it, and how. In the header
 *
 *     Authorization: AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/SERVICE/aws4_request, SignedHeaders=a;b, Signature=HEX
 *
 * with the time in X-Amz-Date or Date, or in the query string ("presigned") as X-Amz-Algorithm, -Credential, -Date,
 * -Expires, -SignedHeaders, -Signature. Nothing in it is believed yet. */
#ifndef TALLY_AUTH_CLAIM_H
#define TALLY_AUTH_CLAIM_H

#include "auth/head.h"
#include "auth/stamp.h"
#include "auth/url_query.h"
#include "base/error.h"

struct claim {
    struct bytes access_key;
    struct bytes date;
    struct bytes region;
    struct bytes service;
    struct bytes terminator;
    struct bytes signed_headers; /* names with semicolons between them, as sent */
    struct bytes signature;
    struct bytes token; /* X-Amz-Security-Token; empty if none */
    struct stamp stamp;
    int64_t expires_s; /* presigned: how long it is good for */
    bool is_presigned;
};

/* Reads it; its views point into the head and the query. ERROR_ACCESS_DENIED: the request is not signed.
 * ERROR_INCOMPLETE_SIGNATURE: it is, but not as above, or in both ways. */
enum error claim_read(const struct head *head, const struct url_query *query, struct claim *claim,
                      struct failure *failure);

#endif
