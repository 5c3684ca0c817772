#include "server/tls.h"

#include "base/assert.h"
#include "base/memory.h"
#include "server/tls_certificate.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
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

/* Of alerts: those about certificates (RFC 8446, 6.2), and where OpenSSL's reasons for them begin. */
#define ALERT_CERTIFICATE_MIN 42
#define ALERT_CERTIFICATE_MAX 49
#define ALERT_CERTIFICATE_REQUIRED 116

struct tls_context {
    enum tls_use use;
    SSL_CTX *accept_owned;  /* NULL: no certificate yet; counts the sessions that use it, as the next does */
    SSL_CTX *connect_owned; /* TLS_FOR_NODES */
    BIO_METHOD *method_owned;
    uint64_t loaded_count;
};

struct tls {
    SSL *ssl_owned;
    char *host_owned;      /* that the certificate of the other side has to name; NULL: none */
    struct buffer trouble; /* why the session failed, for people */
    struct buffer input;   /* records from the client */
    size_t input_used;     /* bytes of `input` that OpenSSL has */
    size_t input_whole;    /* bytes of `input` that OpenSSL may have: complete records */
    struct buffer output;  /* records for the client */
    size_t message_left;   /* of the message of a handshake that is arriving */
    bool has_begun;        /* OpenSSL has seen something */
    bool has_changed_keys; /* records of the handshake may be encrypted now */
    bool is_open;
    bool has_judged; /* and refused the certificate of the other side */
    bool is_taken;   /* the node that we connected to has said that it takes our certificate */
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

/* Of a certificate of the other side that can't be trusted: notes which one, and why. */
static int on_verified(int is_good, X509_STORE_CTX *check)
{
    if (is_good == 1)
        return 1;
    const SSL *ssl = X509_STORE_CTX_get_ex_data(check, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls *tls = SSL_get_app_data(ssl);
    const X509 *certificate = X509_STORE_CTX_get_current_cert(check);
    const int error = X509_STORE_CTX_get_error(check);
    char subject[128] = "";
    if (certificate != NULL)
        X509_NAME_oneline(X509_get_subject_name(certificate), subject, sizeof(subject));
    tls->has_judged = true;
    buffer_truncate(&tls->trouble, 0);
    if (error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH)
        buffer_append_format(&tls->trouble, "its certificate (%s) does not name %s in its subjectAltName", subject,
                             tls->host_owned);
    else
        buffer_append_format(&tls->trouble, "its certificate (%s) is not taken: %s", subject,
                             X509_verify_cert_error_string(error));
    return 0;
}

/* The node that we connected to sends a ticket once it has seen our certificate. */
static int on_ticket(SSL *ssl, SSL_SESSION *session)
{
    struct tls *tls = SSL_get_app_data(ssl);
    (void)session;
    tls->is_taken = true;
    return 0; /* it is not kept */
}

struct tls_context *tls_context_create(enum tls_use use)
{
    struct tls_context *context = memory_allocate_zeroed(sizeof(*context));
    context->use = use;
    context->method_owned = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tally connection");
    ASSERT(context->method_owned != NULL); /* fails only without memory, as below */
    BIO_meth_set_read(context->method_owned, memory_read);
    BIO_meth_set_write(context->method_owned, memory_write);
    BIO_meth_set_ctrl(context->method_owned, memory_control);
    return context;
}

static void tls_context_drop(struct tls_context *context)
{
    SSL_CTX_free(context->accept_owned);
    SSL_CTX_free(context->connect_owned);
    context->accept_owned = context->connect_owned = NULL;
}

void tls_context_destroy(struct tls_context *context)
{
    tls_context_drop(context);
    BIO_meth_free(context->method_owned);
    free(context);
}

static void tls_context_watch(SSL_CTX *accept, SSL_CTX *connect)
{
    SSL_CTX_set_verify(accept, SSL_CTX_get_verify_mode(accept), on_verified);
    SSL_CTX_set_verify(connect, SSL_CTX_get_verify_mode(connect), on_verified);
    SSL_CTX_set_session_cache_mode(connect, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(connect, on_ticket);
}

enum error tls_context_load(struct tls_context *context, const struct tls_files *files, struct failure *failure)
{
    SSL_CTX *accept = NULL, *connect = NULL;
    enum error error = tls_certificate_load(context->use, false, files, &accept, failure);
    if (error == OK && context->use == TLS_FOR_NODES)
        error = tls_certificate_load(context->use, true, files, &connect, failure);
    if (error != OK) {
        SSL_CTX_free(accept);
        return error;
    }
    if (connect != NULL)
        tls_context_watch(accept, connect);
    tls_context_drop(context);
    context->accept_owned = accept;
    context->connect_owned = connect;
    context->loaded_count++;
    return OK;
}

bool tls_context_suits(const struct tls_context *context, const char *host, char *text, size_t size)
{
    return tls_certificate_suits(context->accept_owned, host, text, size);
}

int64_t tls_context_expires_s(const struct tls_context *context)
{
    return context->accept_owned == NULL ? 0 : tls_certificate_expires_s(context->accept_owned);
}

uint64_t tls_context_loaded_count(const struct tls_context *context)
{
    return context->loaded_count;
}

/* --- Session ------------------------------------------------------------------------------------------------------ */

static struct tls *tls_make(const struct tls_context *context, SSL_CTX *ssl_context)
{
    ASSERT(ssl_context != NULL);
    struct tls *tls = memory_allocate_zeroed(sizeof(*tls));
    BIO *bio = BIO_new(context->method_owned);
    tls->ssl_owned = SSL_new(ssl_context);
    ASSERT(bio != NULL && tls->ssl_owned != NULL);
    SSL_set_app_data(tls->ssl_owned, tls);
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl_owned, bio, bio);
    return tls;
}

struct tls *tls_create(const struct tls_context *context)
{
    struct tls *tls = tls_make(context, context->accept_owned);
    SSL_set_accept_state(tls->ssl_owned);
    return tls;
}

struct tls *tls_connect(const struct tls_context *context, const char *host)
{
    ASSERT(context->use == TLS_FOR_NODES);
    struct tls *tls = tls_make(context, context->connect_owned);
    const size_t size = strlen(host) + 1;
    tls->host_owned = memory_allocate(size);
    memcpy(tls->host_owned, host, size);
    tls_certificate_expect(tls->ssl_owned, host);
    SSL_set_connect_state(tls->ssl_owned);
    ERR_clear_error();
    const int result = SSL_do_handshake(tls->ssl_owned); /* the first words are ours */
    tls->has_failed = SSL_get_error(tls->ssl_owned, result) != SSL_ERROR_WANT_READ;
    return tls;
}

void tls_destroy(struct tls *tls)
{
    SSL_free(tls->ssl_owned); /* with its BIO */
    buffer_deinit(&tls->input);
    buffer_deinit(&tls->output);
    buffer_deinit(&tls->trouble);
    free(tls->host_owned);
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

/* Says why OpenSSL has given the session up, where a certificate has not said so before. */
static void tls_note_trouble(struct tls *tls, unsigned long code)
{
    const int alert = ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET;
    const char *reason = ERR_reason_error_string(code);
    if (tls->trouble.size > 0)
        return;
    if (ERR_GET_LIB(code) == ERR_LIB_SSL &&
        ((alert >= ALERT_CERTIFICATE_MIN && alert <= ALERT_CERTIFICATE_MAX) || alert == ALERT_CERTIFICATE_REQUIRED))
        buffer_append_format(&tls->trouble, "it does not take the certificate of this node: %s",
                             SSL_alert_desc_string_long(alert));
    else if (ERR_GET_REASON(code) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
        buffer_append_format(&tls->trouble, "it has shown no certificate");
    else
        buffer_append_format(&tls->trouble, "TLS failed: %s", reason == NULL ? "it is not TLS" : reason);
}

void tls_explain(const struct tls *tls, char *text, size_t size)
{
    const struct bytes trouble = buffer_bytes(&tls->trouble);
    if (tls->is_plain)
        (void)snprintf(text, size, "it does not speak TLS");
    else if (trouble.size > 0)
        (void)snprintf(text, size, "%.*s", BYTES_FORMAT(trouble));
    else
        (void)snprintf(text, size, "%s", tls->has_failed ? "TLS failed: it is not TLS" : "");
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
        tls_note_trouble(tls, ERR_peek_error());
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

bool tls_has_judged(const struct tls *tls)
{
    return tls->has_judged;
}

bool tls_is_taken(const struct tls *tls)
{
    return tls->is_open && tls->is_taken;
}
