#include "server/tls.h"

#include "base/assert.h"
#include "base/memory.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>

/* The most that one read from a socket brings: a record and its framing, and as much of the next. */
#define TLS_ROOM_SIZE ((size_t)32 * 1024)

/* Of a record: the size of type, version and length; the known types; and the largest length (RFC 5246, 6.2.3). */
#define RECORD_HEAD_SIZE 5u
#define RECORD_TYPE_MIN 20u
#define RECORD_TYPE_MAX 24u
#define RECORD_VERSION_MAJOR 3u
#define RECORD_SIZE_MAX (16384u + 2048u)
#define RECORD_CHANGE_KEYS 20u
#define RECORD_HANDSHAKE 22u

/* Of a message of a handshake: the size of type and length; and how much we read of one. */
#define MESSAGE_HEAD_SIZE 4u
#define MESSAGE_SIZE_MAX 16384u

/* The memory that OpenSSL takes for a handshake, beyond a session at rest; and that once its messages can't be read
 * here. */
#define HANDSHAKE_SIZE ((size_t)48 * 1024)
#define HANDSHAKE_HIDDEN_SIZE ((size_t)192 * 1024)

/* Of TLS 1.2 only ciphers with forward secrecy and without padding oracles; TLS 1.3 has no others. */
#define TLS_1_2_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

struct tls_context {
    SSL_CTX *ssl_context_owned; /* NULL: no certificate yet; counts the sessions that use it */
    BIO_METHOD *method_owned;
};

struct tls {
    SSL *ssl_owned;
    struct buffer input;   /* records from the client */
    size_t input_used;     /* bytes of `input` that OpenSSL has */
    size_t input_whole;    /* bytes of `input` that OpenSSL may have: complete records */
    struct buffer output;  /* records for the client */
    size_t message_left;   /* of the message of a handshake that is arriving */
    bool has_begun;        /* OpenSSL has seen something */
    bool has_changed_keys; /* records of the handshake may be encrypted now */
    bool is_open;
    bool has_ended;  /* we have said so */
    bool is_plain;   /* the client's first byte was that of an HTTP method */
    bool has_failed; /* OpenSSL must not be called again */
};

/* --- The input and output of OpenSSL ------------------------------------------------------------------------------ */

static int memory_read(BIO *bio, char *data, int size)
{
    struct tls *tls = BIO_get_data(bio);
    size_t there = tls->input_whole - tls->input_used;
    size_t taken = there < (size_t)size ? there : (size_t)size;
    BIO_clear_retry_flags(bio);
    tls->has_begun |= taken > 0;
    if (taken == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(data, tls->input.data_owned + tls->input_used, taken);
    tls->input_used += taken;
    return (int)taken;
}

static int memory_write(BIO *bio, const char *data, int size)
{
    struct tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    buffer_append(&tls->output, data, (size_t)size);
    return size;
}

static long memory_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/* --- Certificate -------------------------------------------------------------------------------------------------- */

struct tls_context *tls_context_create(void)
{
    struct tls_context *context = memory_allocate_zeroed(sizeof(*context));
    context->method_owned = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tally connection");
    ASSERT(context->method_owned != NULL); /* fails only without memory, as below */
    BIO_meth_set_read(context->method_owned, memory_read);
    BIO_meth_set_write(context->method_owned, memory_write);
    BIO_meth_set_ctrl(context->method_owned, memory_control);
    return context;
}

void tls_context_destroy(struct tls_context *context)
{
    SSL_CTX_free(context->ssl_context_owned);
    BIO_meth_free(context->method_owned);
    free(context);
}

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

static SSL_CTX *ssl_context_create(void)
{
    SSL_CTX *ssl_context = SSL_CTX_new(TLS_server_method());
    ASSERT(ssl_context != NULL);
    SSL_CTX_set_min_proto_version(ssl_context, TLS1_2_VERSION);
    int count = SSL_CTX_set_cipher_list(ssl_context, TLS_1_2_CIPHERS);
    ASSERT(count == 1); /* the list is ours */
    SSL_CTX_set_options(ssl_context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                         SSL_OP_PRIORITIZE_CHACHA);
    /* A session at rest gives its buffers back. The client remembers a session that is over (ticket); the server does
     * not. */
    SSL_CTX_set_mode(ssl_context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ssl_context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(ssl_context, no_password);
    SSL_CTX_set_alpn_select_cb(ssl_context, choose_protocol, NULL);
    return ssl_context;
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

static enum error ssl_context_load(SSL_CTX *ssl_context, const char *certificate, const char *key,
                                   struct failure *failure)
{
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(ssl_context, certificate) != 1)
        return load_failed(failure, "can't read a certificate in PEM form from", certificate);
    if (SSL_CTX_use_PrivateKey_file(ssl_context, key, SSL_FILETYPE_PEM) != 1)
        return load_failed(failure, "can't read the certificate's private key, in PEM form and not encrypted, from",
                           key);
    if (SSL_CTX_check_private_key(ssl_context) != 1) /* of another kind than the certificate's */
        return load_failed(failure, "can't use the private key in", key);
    return OK;
}

enum error tls_context_load(struct tls_context *context, const char *certificate, const char *key,
                            struct failure *failure)
{
    SSL_CTX *ssl_context = ssl_context_create();
    enum error error = ssl_context_load(ssl_context, certificate, key, failure);
    if (error != OK) {
        SSL_CTX_free(ssl_context);
        return error;
    }
    SSL_CTX_free(context->ssl_context_owned);
    context->ssl_context_owned = ssl_context;
    return OK;
}

/* --- Session ------------------------------------------------------------------------------------------------------ */

struct tls *tls_create(const struct tls_context *context)
{
    ASSERT(context->ssl_context_owned != NULL);
    struct tls *tls = memory_allocate_zeroed(sizeof(*tls));
    BIO *bio = BIO_new(context->method_owned);
    tls->ssl_owned = SSL_new(context->ssl_context_owned);
    ASSERT(bio != NULL && tls->ssl_owned != NULL);
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl_owned, bio, bio);
    SSL_set_accept_state(tls->ssl_owned);
    return tls;
}

void tls_destroy(struct tls *tls)
{
    SSL_free(tls->ssl_owned); /* with its BIO */
    buffer_deinit(&tls->input);
    buffer_deinit(&tls->output);
    free(tls);
}

/* Moves the bytes that OpenSSL has not seen to the front. */
static void tls_drop_used(struct tls *tls)
{
    struct buffer *input = &tls->input;
    if (tls->input_used == 0)
        return;
    memmove(input->data_owned, input->data_owned + tls->input_used, input->size - tls->input_used);
    buffer_truncate(input, input->size - tls->input_used);
    tls->input_whole -= tls->input_used;
    tls->input_used = 0;
}

uint8_t *tls_room(struct tls *tls, size_t *size)
{
    tls_drop_used(tls);
    *size = TLS_ROOM_SIZE;
    return buffer_reserve(&tls->input, TLS_ROOM_SIZE);
}

/* Keeps memory only if there are bytes in it. */
static void tls_free_used(struct tls *tls)
{
    if (tls->input_used == tls->input.size) {
        buffer_deinit(&tls->input);
        tls->input_used = tls->input_whole = 0;
    }
}

/* Before keys are agreed on, the messages of a handshake can be read here. OpenSSL reserves as much memory as the head
 * of a message announces, up to 128 KiB. No client of ours has a message of more than a few KiB. False: this message is
 * too long. */
static bool tls_check_handshake(struct tls *tls, struct bytes record)
{
    while (record.size > 0) {
        if (tls->message_left == 0) {
            if (record.size < MESSAGE_HEAD_SIZE)
                return false;
            tls->message_left = (size_t)record.ptr[1] << 16 | (size_t)record.ptr[2] << 8 | record.ptr[3];
            record = bytes_skip(record, MESSAGE_HEAD_SIZE);
        }
        if (tls->message_left > MESSAGE_SIZE_MAX)
            return false;
        size_t size = record.size < tls->message_left ? record.size : tls->message_left;
        tls->message_left -= size;
        record = bytes_skip(record, size);
    }
    return true;
}

static void tls_note_record(struct tls *tls, uint8_t type, struct bytes record)
{
    if (tls->is_open)
        return;
    if (type == RECORD_CHANGE_KEYS)
        tls->has_changed_keys = true;
    else if (type == RECORD_HANDSHAKE && !tls->has_changed_keys && !tls_check_handshake(tls, record))
        tls->has_failed = true;
}

static bool tls_may_be_record(struct bytes bytes)
{
    return bytes.ptr[0] >= RECORD_TYPE_MIN && bytes.ptr[0] <= RECORD_TYPE_MAX &&
           (bytes.size < 2 || bytes.ptr[1] == RECORD_VERSION_MAJOR);
}

/* A first byte that is a letter means another protocol: no record begins with one, but a method of HTTP does. */
static void tls_note_first(struct tls *tls)
{
    if (tls->has_begun || tls->input.size == 0 || tls->input_whole > 0)
        return;
    uint8_t first = tls->input.data_owned[0];
    tls->is_plain = first >= 'A' && first <= 'Z';
    tls->has_failed |= tls->is_plain;
}

/* Finds the end of the last complete record. Bytes that are no record count as complete at once, so that OpenSSL
 * reports the fault. */
static void tls_find_whole(struct tls *tls)
{
    struct bytes left = bytes_skip(buffer_bytes(&tls->input), tls->input_whole);
    while (left.size > 0) {
        bool is_record = tls_may_be_record(left);
        if (is_record && left.size < RECORD_HEAD_SIZE)
            break;
        size_t size = is_record ? (size_t)left.ptr[3] << 8 | left.ptr[4] : SIZE_MAX;
        if (size > RECORD_SIZE_MAX) {
            left.size = 0;
            break;
        }
        if (left.size < RECORD_HEAD_SIZE + size)
            break;
        tls_note_record(tls, left.ptr[0], bytes_make(left.ptr + RECORD_HEAD_SIZE, size));
        left = bytes_skip(left, RECORD_HEAD_SIZE + size);
    }
    tls->input_whole = tls->input.size - left.size;
}

void tls_take(struct tls *tls, size_t size)
{
    ASSERT(size <= tls->input.capacity - tls->input.size);
    tls->input.size += size;
    tls_free_used(tls);
    tls_note_first(tls);
    tls_find_whole(tls);
}

void tls_fit(struct tls *tls)
{
    tls_drop_used(tls);
    buffer_fit(&tls->input);
}

size_t tls_memory(const struct tls *tls)
{
    if (!tls->has_begun)
        return tls->input.capacity;
    if (!tls->is_open)
        return tls->input.capacity + (tls->has_changed_keys ? HANDSHAKE_HIDDEN_SIZE : HANDSHAKE_SIZE);
    return tls->input.capacity + (SSL_pending(tls->ssl_owned) > 0 ? RECORD_SIZE_MAX : 0);
}

bool tls_has_unread(const struct tls *tls)
{
    return !tls->has_failed && (tls->input_whole > tls->input_used || SSL_pending(tls->ssl_owned) > 0);
}

enum tls_result tls_read(struct tls *tls, uint8_t *room, size_t room_size, size_t *size)
{
    ASSERT(room_size > 0);
    if (tls->has_failed)
        return tls->is_plain ? TLS_PLAIN : TLS_FAILED;
    if (!tls_has_unread(tls))
        return TLS_MORE; /* OpenSSL would allocate buffers only to find that out */
    ERR_clear_error();
    bool has_bytes = SSL_read_ex(tls->ssl_owned, room, room_size, size) == 1;
    tls->is_open = tls->is_open || SSL_is_init_finished(tls->ssl_owned);
    tls_free_used(tls);
    if (has_bytes)
        return TLS_BYTES;
    switch (SSL_get_error(tls->ssl_owned, 0)) {
    case SSL_ERROR_WANT_READ:
        return TLS_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_ENDED;
    default:
        tls->has_failed = true;
        return TLS_FAILED;
    }
}

bool tls_write(struct tls *tls, const void *data, size_t size)
{
    size_t written;
    ASSERT(tls->is_open && size > 0);
    if (tls->has_failed || tls->has_ended)
        return false;
    ERR_clear_error();
    tls->has_failed = SSL_write_ex(tls->ssl_owned, data, size, &written) != 1;
    return !tls->has_failed;
}

void tls_end(struct tls *tls)
{
    if (!tls->is_open || tls->has_failed || tls->has_ended)
        return;
    ERR_clear_error();
    tls->has_ended = true;
    tls->has_failed = SSL_shutdown(tls->ssl_owned) < 0;
}

struct buffer *tls_output(struct tls *tls)
{
    return &tls->output;
}

bool tls_is_open(const struct tls *tls)
{
    return tls->is_open;
}
