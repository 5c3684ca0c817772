/* AWS Signature Version 4 for requests that the tool writes itself, with the keys that libtally takes from the
 * environment. */
#ifndef TALLY_TALLY_SIGNATURE_H
#define TALLY_TALLY_SIGNATURE_H

#include "auth/sha256.h"
#include "base/buffer.h"

struct signature {
    struct sha256 sha256;
    const char *access_key; /* borrowed, as are the others */
    const char *secret;
    const char *token; /* NULL: none */
    const char *region;
};

/* False: there are no keys, so requests are not signed; nothing is to be deinit'ed then. */
bool signature_init(struct signature *signature);
void signature_deinit(struct signature *signature);

/* Appends the header lines that sign a POST of `body` to the path /. They also name `host`, `content_type` and `target`
 * to the server: each of these lines is part of what is signed. `now_s` is the time in seconds since the epoch; servers
 * take the signature for 15 minutes. */
void signature_append_headers(struct signature *signature, const char *host, const char *content_type,
                              const char *target, struct bytes body, int64_t now_s, struct buffer *out);

#endif
