/* The canonical request: the text that both sides make of a request and sign.
 * Source: AWS, "Create a signed AWS API request", step 1.
 *
 *     POST                                    method
 *     /000000000000/orders                    path: no . or .. or empty segments, percent-encoded once more
 *     Action=SendMessage&…                    query string: encoded, in order; without X-Amz-Signature
 *     host:127.0.0.1:9324                     each signed header: name, values with commas, blanks made one
 *     x-amz-date:20150830T123600Z
 *                                             an empty line
 *     host;x-amz-date                         their names
 *     e3b0c44298fc1c149a…                     SHA-256 of the body, or UNSIGNED-PAYLOAD */
#ifndef TALLY_AUTH_CANONICAL_H
#define TALLY_AUTH_CANONICAL_H

#include "auth/head.h"
#include "auth/url_query.h"
#include "base/error.h"

#define SIGNED_HEADERS_MAX 100u

/* Appends the path. */
void canonical_path(struct bytes path, struct buffer *out);

/* Appends the signed headers, each ended by a line feed. ERROR_INCOMPLETE_SIGNATURE: there are too many, host is not
 * among them, or an X-Amz-Target is not. ERROR_INVALID_SIGNATURE: the request has no header of a name in the list. */
enum error canonical_headers(const struct head *head, struct bytes signed_headers, struct buffer *out,
                             struct failure *failure);

#endif
