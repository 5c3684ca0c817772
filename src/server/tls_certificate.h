/* Certificates in files, and what OpenSSL makes of them: what all sessions share that use one. Knows no session. */
#ifndef TALLY_SERVER_TLS_CERTIFICATE_H
#define TALLY_SERVER_TLS_CERTIFICATE_H

#include "base/error.h"
#include "server/tls_files.h"

#include <openssl/ssl.h>
#include <stdint.h>

/* For the side that accepts, or for the one that connects. ERROR_INVALID_PARAMETER_VALUE if a file can't be read or is
 * not valid, or the key does not fit the certificate; then there is nothing to free. */
enum error tls_certificate_load(enum tls_use use, bool connects, const struct tls_files *files, SSL_CTX **made,
                                struct failure *failure);

/* Would another node, which has the same authority, take this certificate from a node that it reaches at `host`? False:
 * `text` says why not, as in "has expired". */
bool tls_certificate_suits(SSL_CTX *context, const char *host, char *text, size_t size);

/* When it expires, in seconds since the epoch; 0: there is no certificate. */
int64_t tls_certificate_expires_s(SSL_CTX *context);

/* Has the certificate of the other side name this host in its subjectAltName. */
void tls_certificate_expect(SSL *session, const char *host);

#endif
