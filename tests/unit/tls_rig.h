/* A TLS client in memory beside a session of ours, and certificates made on the spot. For the unit tests and the
 * fuzzer. */
#ifndef TALLY_UNIT_TLS_RIG_H
#define TALLY_UNIT_TLS_RIG_H

#include "base/assert.h"
#include "base/buffer.h"
#include "server/tls.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TLS_RIG_PATH_SIZE 64

struct tls_rig {
    char folder[TLS_RIG_PATH_SIZE];
    char certificate[TLS_RIG_PATH_SIZE + 16];
    char key[TLS_RIG_PATH_SIZE + 16];
    struct tls_context *context;
    SSL_CTX *client_context;
    struct tls *tls;
    SSL *client;
};

static inline X509 *tls_rig_certificate(EVP_PKEY *key, const char *name)
{
    X509 *certificate = X509_new();
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
    X509_set_pubkey(certificate, key);
    X509_NAME *subject = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(certificate, subject);
    X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:one.example,IP:10.0.0.1");
    X509_add_ext(certificate, names, -1);
    X509_EXTENSION_free(names);
    int signature_size = X509_sign(certificate, key, EVP_sha256());
    ASSERT(signature_size > 0);
    return certificate;
}

/* Writes a new key and a certificate for it that it has signed itself; with a `password`, the key is encrypted. */
static inline void tls_rig_write_certificate(const struct tls_rig *rig, const char *name, const char *password)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = tls_rig_certificate(key, name);
    FILE *file = fopen(rig->certificate, "w");
    int written = file == NULL ? 0 : PEM_write_X509(file, certificate);
    ASSERT(written == 1);
    fclose(file);
    file = fopen(rig->key, "w");
    const EVP_CIPHER *cipher = password == NULL ? NULL : EVP_aes_128_cbc();
    int password_size = password == NULL ? 0 : (int)strlen(password);
    written = file == NULL
                  ? 0
                  : PEM_write_PrivateKey(file, key, cipher, (const unsigned char *)password, password_size, NULL, NULL);
    ASSERT(written == 1);
    fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static inline enum error tls_rig_load(struct tls_rig *rig, struct failure *failure)
{
    const struct tls_files files = {.certificate = rig->certificate, .key = rig->key};
    return tls_context_load(rig->context, &files, failure);
}

/* A folder, a certificate for "first" in force, and a client that believes everybody and speaks `version` at most. */
static inline void tls_rig_init(struct tls_rig *rig, int version)
{
    *rig = (struct tls_rig){.folder = "/tmp/tally-tls-XXXXXX"};
    const char *folder = mkdtemp(rig->folder);
    ASSERT(folder != NULL);
    snprintf(rig->certificate, sizeof(rig->certificate), "%s/certificate", rig->folder);
    snprintf(rig->key, sizeof(rig->key), "%s/key", rig->folder);
    tls_rig_write_certificate(rig, "first", NULL);
    rig->context = tls_context_create(TLS_FOR_CLIENTS);
    enum error error = tls_rig_load(rig, NULL);
    ASSERT(error == OK);
    rig->client_context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(rig->client_context, 0);
    SSL_CTX_set_min_proto_version(rig->client_context, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(rig->client_context, version);
}

/* A new connection of the client. */
static inline void tls_rig_connect(struct tls_rig *rig)
{
    rig->tls = tls_create(rig->context);
    rig->client = SSL_new(rig->client_context);
    SSL_set_bio(rig->client, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(rig->client);
}

static inline void tls_rig_disconnect(struct tls_rig *rig)
{
    tls_destroy(rig->tls);
    SSL_free(rig->client);
}

static inline void tls_rig_remove_files(const struct tls_rig *rig)
{
    unlink(rig->certificate);
    unlink(rig->key);
    rmdir(rig->folder);
}

static inline void tls_rig_deinit(struct tls_rig *rig)
{
    tls_context_destroy(rig->context);
    SSL_CTX_free(rig->client_context);
    tls_rig_remove_files(rig);
}

/* Moves what the client has to send to the session, at most `size` bytes; how many it was. */
static inline size_t tls_rig_send(struct tls_rig *rig, size_t size)
{
    size_t room_size;
    uint8_t *room = tls_room(rig->tls, &room_size);
    int moved = BIO_read(SSL_get_wbio(rig->client), room, (int)(size < room_size ? size : room_size));
    tls_take(rig->tls, moved > 0 ? (size_t)moved : 0);
    return moved > 0 ? (size_t)moved : 0;
}

/* Moves what the session has to send to the client. */
static inline void tls_rig_answer(struct tls_rig *rig)
{
    struct buffer *output = tls_output(rig->tls);
    if (output->size > 0)
        BIO_write(SSL_get_rbio(rig->client), output->data_owned, (int)output->size);
    buffer_deinit(output);
}

/* Reads all that the session says into `text`. */
static inline enum tls_result tls_rig_read(struct tls_rig *rig, struct buffer *text)
{
    uint8_t room[1000];
    size_t size;
    enum tls_result result;
    while ((result = tls_read(rig->tls, room, sizeof(room), &size)) == TLS_BYTES)
        buffer_append(text, room, size);
    return result;
}

/* The handshake, the client's bytes coming in pieces of `piece`. How it ended: TLS_MORE, and tls_is_open(), if well. */
static inline enum tls_result tls_rig_handshake(struct tls_rig *rig, size_t piece)
{
    enum tls_result result = TLS_MORE;
    struct buffer none;
    buffer_init(&none);
    for (unsigned round = 0; round < 4 && result == TLS_MORE; round++) {
        SSL_do_handshake(rig->client);
        while (result == TLS_MORE && tls_rig_send(rig, piece) > 0)
            result = tls_rig_read(rig, &none);
        tls_rig_answer(rig);
    }
    ASSERT(none.size == 0);
    buffer_deinit(&none);
    return result;
}

#endif
