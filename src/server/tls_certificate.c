#include "server/tls_certificate.h"

#include "base/assert.h"
#include "platform/regular_file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Of TLS 1.2 only ciphers with forward secrecy and without padding oracles; TLS 1.3 has no others. */
#define TLS_1_2_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

/* A daemon can ask nobody for a password. */
static int no_password(char *password, int size, int is_writing, void *context)
{
    (void)password;
    (void)size;
    (void)is_writing;
    (void)context;
    return -1;
}

/* Chooses HTTP/1.1 if the client offers a choice, and refuses a client that offers only other protocols. */
static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_size,
                           const unsigned char *offered, unsigned offered_size, void *context)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *at;
    (void)ssl;
    (void)context;
    if (SSL_select_next_proto(&at, chosen_size, ours, sizeof(ours) - 1, offered, offered_size) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = at;
    return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *create(enum tls_use use, bool connects)
{
    SSL_CTX *made = SSL_CTX_new(connects ? TLS_client_method() : TLS_server_method());
    ASSERT(made != NULL);
    SSL_CTX_set_min_proto_version(made, use == TLS_FOR_NODES ? TLS1_3_VERSION : TLS1_2_VERSION);
    int count = SSL_CTX_set_cipher_list(made, TLS_1_2_CIPHERS);
    ASSERT(count == 1); /* the list is ours */
    SSL_CTX_set_options(made, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                  SSL_OP_PRIORITIZE_CHACHA);
    /* A session at rest gives its buffers back. The client remembers a session that is over (ticket); the server does
     * not. */
    SSL_CTX_set_mode(made, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(made, no_password);
    SSL_CTX_set_alpn_select_cb(made, choose_protocol, NULL);
    return made;
}

static enum error load_failed(struct failure *failure, const char *what, const char *path)
{
    /* The first error in the queue is the cause; the later ones are its results. */
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);
    enum error error = failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "%s %s: %s.", what, path,
                                   reason == NULL ? "it can't be used" : reason);
    ERR_clear_error();
    return error;
}

/* OpenSSL would wait for a FIFO without an end, and the loop with it. What else is wrong it says itself. */
static enum error check_files(const struct tls_files *files, struct failure *failure)
{
    const char *const paths[] = {files->certificate, files->key, files->authority};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        const char *why;
        if (paths[i] == NULL || paths[i][0] == '\0' || regular_file_is_given_open(paths[i]))
            continue;
        const int descriptor = regular_file_open(paths[i], &why);
        if (descriptor >= 0)
            (void)close(descriptor);
        else if (errno == EINVAL)
            return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "can't read %s: %s.", paths[i], why);
    }
    return OK;
}

static enum error load(SSL_CTX *made, const struct tls_files *files, struct failure *failure)
{
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(made, files->certificate) != 1)
        return load_failed(failure, "can't read a certificate in PEM form from", files->certificate);
    if (SSL_CTX_use_PrivateKey_file(made, files->key, SSL_FILETYPE_PEM) != 1)
        return load_failed(failure, "can't read the certificate's private key, in PEM form and not encrypted, from",
                           files->key);
    if (SSL_CTX_check_private_key(made) != 1) /* of another kind than the certificate's */
        return load_failed(failure, "can't use the private key in", files->key);
    return OK;
}

/* Only this authority counts, also where it was itself issued by another one. */
static enum error load_authority(SSL_CTX *made, const struct tls_files *files, struct failure *failure)
{
    if (SSL_CTX_load_verify_locations(made, files->authority, NULL) != 1)
        return load_failed(failure, "can't read the certificate of the cluster's authority, in PEM form, from",
                           files->authority);
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(made), X509_V_FLAG_PARTIAL_CHAIN);
    SSL_CTX_set_verify(made, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_num_tickets(made, 1); /* by which the other node learns that its certificate was taken */
    return OK;
}

enum error tls_certificate_load(enum tls_use use, bool connects, const struct tls_files *files, SSL_CTX **made,
                                struct failure *failure)
{
    SSL_CTX *context = create(use, connects);
    enum error error = check_files(files, failure);
    if (error == OK)
        error = load(context, files, failure);
    if (error == OK && use == TLS_FOR_NODES)
        error = load_authority(context, files, failure);
    if (error == OK)
        *made = context;
    else
        SSL_CTX_free(context);
    return error;
}

/* --- Names -------------------------------------------------------------------------------------------------------- */

static bool is_address(const char *host)
{
    struct in6_addr room;
    return inet_pton(AF_INET, host, &room) == 1 || inet_pton(AF_INET6, host, &room) == 1;
}

static bool names(X509 *certificate, const char *host)
{
    return is_address(host) ? X509_check_ip_asc(certificate, host, 0) == 1
                            : X509_check_host(certificate, host, 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1;
}

int64_t tls_certificate_expires_s(SSL_CTX *context)
{
    struct tm parts;
    X509 *certificate = SSL_CTX_get0_certificate(context);
    if (certificate == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts) != 1)
        return 0;
    return timegm(&parts);
}

bool tls_certificate_suits(SSL_CTX *context, const char *host, char *text, size_t size)
{
    X509 *certificate = SSL_CTX_get0_certificate(context);
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    ASSERT(certificate != NULL && check != NULL);
    X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(context), certificate, NULL);
    STACK_OF(X509) *chain = NULL;
    if (SSL_CTX_get0_chain_certs(context, &chain) == 1)
        X509_STORE_CTX_set0_untrusted(check, chain);
    X509_STORE_CTX_set_flags(check, X509_V_FLAG_PARTIAL_CHAIN);
    bool suits = X509_verify_cert(check) == 1;
    if (!suits)
        (void)snprintf(text, size, "is not valid for cluster-ca: %s",
                       X509_verify_cert_error_string(X509_STORE_CTX_get_error(check)));
    X509_STORE_CTX_free(check);
    if (suits && (X509_check_purpose(certificate, X509_PURPOSE_SSL_SERVER, 0) != 1 ||
                  X509_check_purpose(certificate, X509_PURPOSE_SSL_CLIENT, 0) != 1)) {
        (void)snprintf(text, size, "is not for serverAuth and clientAuth both, as extendedKeyUsage says");
        suits = false;
    }
    if (suits && !names(certificate, host)) {
        (void)snprintf(text, size, "does not name %s, which is in advertise, in its subjectAltName", host);
        suits = false;
    }
    ERR_clear_error();
    return suits;
}

void tls_certificate_expect(SSL *session, const char *host)
{
    X509_VERIFY_PARAM *wanted = SSL_get0_param(session);
    if (is_address(host)) {
        X509_VERIFY_PARAM_set1_ip_asc(wanted, host);
        return;
    }
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    X509_VERIFY_PARAM_set1_host(wanted, host, 0);
    SSL_set_tlsext_host_name(session, host);
}
