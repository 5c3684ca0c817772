#include "client/transport.h"

#include "base/memory.h"
#include "platform/monotonic.h"
#include <curl/curl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>

#define CONNECT_TIMEOUT_MS 5000L
#define RETRY_AFTER_S_MAX 86400

/* More is no answer to any request: ten messages of a mebibyte, each byte of them escaped, take 60 MiB. */
#define ANSWER_SIZE_MAX ((size_t)64 << 20)

struct transport {
    CURL *easy;
    CURLM *multi; /* holds the connection; its poll is what transport_interrupt() wakes */
    atomic_bool is_interrupted;
    char *session_header_owned; /* NULL: none */
    char *worker_header_owned;  /* NULL: none */
    char reason[CURL_ERROR_SIZE];
    char query_error[TRANSPORT_CODE_SIZE];
    bool has_request_id;
    int64_t date_s;
    struct buffer *text; /* where the answer goes; borrowed during transport_post() */
    size_t text_start;   /* what stood there before */
    bool is_too_large;   /* the answer */
    unsigned sends;      /* how often this request was put on the wire */
    bool once;
};

static size_t append_answer(char *data, size_t size, size_t count, void *context)
{
    struct transport *transport = context;
    if (transport->text->size - transport->text_start + size * count > ANSWER_SIZE_MAX) {
        transport->is_too_large = true;
        return 0;
    }
    buffer_append(transport->text, data, size * count);
    return size * count;
}

/* Is the line the header of this name? Then `value` is what it says. */
static bool read_value(struct bytes line, const char *name, struct bytes *value)
{
    const size_t size = strlen(name);
    if (line.size <= size || line.ptr[size] != ':' || strncasecmp((const char *)line.ptr, name, size) != 0)
        return false;
    line = bytes_skip(line, size + 1);
    while (line.size > 0 && (line.ptr[0] == ' ' || line.ptr[0] == '\t'))
        line = bytes_skip(line, 1);
    while (line.size > 0 && line.ptr[line.size - 1] <= ' ')
        line.size--;
    *value = line;
    return true;
}

static int64_t read_date(struct bytes value)
{
    char text[64];
    snprintf(text, sizeof text, "%.*s", BYTES_FORMAT(value));
    return curl_getdate(text, NULL);
}

/* Servers of the JSON protocol name an error as the older one does in a header. */
static size_t read_header(char *line, size_t size, size_t count, void *context)
{
    struct transport *transport = context;
    const struct bytes whole = bytes_make(line, size * count);
    struct bytes value;
    if (read_value(whole, "x-amzn-query-error", &value))
        snprintf(transport->query_error, sizeof transport->query_error, "%.*s", BYTES_FORMAT(value));
    else if (read_value(whole, "x-amzn-requestid", &value))
        transport->has_request_id = true;
    else if (read_value(whole, "date", &value))
        transport->date_s = read_date(value);
    return size * count;
}

/* libcurl calls this each time it is about to send the request: a second time when a kept connection turns out to be
 * dead. It can't know then whether the first one arrived. */
static int before_send(void *context, char *remote_ip, char *local_ip, int remote_port, int local_port)
{
    struct transport *transport = context;
    (void)remote_ip;
    (void)local_ip;
    (void)remote_port;
    (void)local_port;
    transport->sends++;
    return transport->once && transport->sends > 1 ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* A program that uses threads and child processes must not hand connections on: the server would think that a killed
 * client still waits for its answer. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)context;
    (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* "NAME: VALUE". */
static char *make_header(const char *name, const char *value)
{
    const size_t size = strlen(name) + strlen(value) + sizeof ": ";
    char *header = memory_allocate(size);
    snprintf(header, size, "%s: %s", name, value);
    return header;
}

static void set_signature(struct transport *transport, const struct transport_options *options)
{
    char provider[128];
    if (options->access_key_id == NULL)
        return;
    snprintf(provider, sizeof provider, "aws:amz:%s:sqs", options->region);
    curl_easy_setopt(transport->easy, CURLOPT_AWS_SIGV4, provider);
    curl_easy_setopt(transport->easy, CURLOPT_USERNAME, options->access_key_id);
    curl_easy_setopt(transport->easy, CURLOPT_PASSWORD, options->secret_access_key);
    if (options->session_token != NULL)
        transport->session_header_owned = make_header("X-Amz-Security-Token", options->session_token);
}

struct transport *transport_create(const struct transport_options *options)
{
    struct transport *transport = memory_allocate_zeroed(sizeof *transport);
    curl_global_init(CURL_GLOBAL_DEFAULT); /* counted, and undone in transport_destroy() */
    transport->easy = curl_easy_init();
    transport->multi = curl_multi_init();
    if (transport->easy == NULL || transport->multi == NULL)
        abort(); /* out of memory; see base/memory.h */
    curl_easy_setopt(transport->easy, CURLOPT_URL, options->url);
    curl_easy_setopt(transport->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(transport->easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    curl_easy_setopt(transport->easy, CURLOPT_TIMEOUT_MS, (long)options->timeout_ms);
    /* Before a large body libcurl asks whether it may come; a server that does not answer that costs so long. (Taking
     * the header away with "Expect:" would put it among the signed ones.) */
    curl_easy_setopt(transport->easy, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
    curl_easy_setopt(transport->easy, CURLOPT_ERRORBUFFER, transport->reason);
    curl_easy_setopt(transport->easy, CURLOPT_WRITEFUNCTION, append_answer);
    curl_easy_setopt(transport->easy, CURLOPT_WRITEDATA, transport);
    curl_easy_setopt(transport->easy, CURLOPT_HEADERFUNCTION, read_header);
    curl_easy_setopt(transport->easy, CURLOPT_HEADERDATA, transport);
    curl_easy_setopt(transport->easy, CURLOPT_PREREQFUNCTION, before_send);
    curl_easy_setopt(transport->easy, CURLOPT_PREREQDATA, transport);
    curl_easy_setopt(transport->easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(transport->easy, CURLOPT_USERAGENT, "libtally/" TALLY_VERSION);
    if (options->socket != NULL)
        curl_easy_setopt(transport->easy, CURLOPT_UNIX_SOCKET_PATH, options->socket);
    if (options->ca_file != NULL)
        curl_easy_setopt(transport->easy, CURLOPT_CAINFO, options->ca_file);
    set_signature(transport, options);
    if (options->worker != NULL)
        transport->worker_header_owned = make_header("X-Tally-Worker", options->worker);
    return transport;
}

void transport_destroy(struct transport *transport)
{
    curl_easy_cleanup(transport->easy);
    curl_multi_cleanup(transport->multi);
    curl_global_cleanup();
    free(transport->session_header_owned);
    free(transport->worker_header_owned);
    free(transport);
}

/* Runs the exchange that is set up to its end. False if it was interrupted. */
static bool run_exchange(struct transport *transport, CURLcode *result)
{
    int running = 1;
    CURLMsg *message;
    int left;

    *result = CURLE_FAILED_INIT;
    curl_multi_add_handle(transport->multi, transport->easy);
    for (;;) {
        if (atomic_load(&transport->is_interrupted))
            break;
        if (curl_multi_perform(transport->multi, &running) != CURLM_OK || running == 0)
            break;
        curl_multi_poll(transport->multi, NULL, 0, 1000, NULL);
    }
    while ((message = curl_multi_info_read(transport->multi, &left)) != NULL)
        if (message->msg == CURLMSG_DONE)
            *result = message->data.result;
    curl_multi_remove_handle(transport->multi, transport->easy);
    return running == 0;
}

/* Was the answer to our handshake none of TLS? In the words of OpenSSL, and of GnuTLS. */
static bool is_not_tls(CURLcode result, const char *reason)
{
    return result == CURLE_SSL_CONNECT_ERROR &&
           (strstr(reason, "wrong version number") != NULL || strstr(reason, "unexpected TLS packet") != NULL);
}

static enum transport_result judge(const struct transport *transport, CURLcode result, struct transport_answer *answer)
{
    long status = 0;
    curl_off_t retry_after_s = 0;
    if (result == CURLE_OK) {
        curl_easy_getinfo(transport->easy, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_getinfo(transport->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
        answer->status = (int)status;
        snprintf(answer->query_error, sizeof answer->query_error, "%s", transport->query_error);
        answer->has_request_id = transport->has_request_id;
        answer->date_s = transport->date_s;
        answer->was_sent_again = transport->sends > 1;
        answer->retry_after_s = retry_after_s > RETRY_AFTER_S_MAX ? RETRY_AFTER_S_MAX : (unsigned)retry_after_s;
        return TRANSPORT_ANSWERED;
    }
    if (transport->is_too_large)
        snprintf(answer->reason, sizeof answer->reason, "the answer has more than %zu bytes", ANSWER_SIZE_MAX);
    else
        snprintf(answer->reason, sizeof answer->reason, "%s",
                 transport->reason[0] != '\0' ? transport->reason : curl_easy_strerror(result));
    answer->is_not_tls = is_not_tls(result, answer->reason);
    return transport->sends == 0 ? TRANSPORT_NOT_SENT : TRANSPORT_LOST;
}

/* Runs the exchange that is set up, and judges it. */
static enum transport_result exchange(struct transport *transport, bool once, struct buffer *text,
                                      struct transport_answer *answer)
{
    CURLcode result;
    transport->reason[0] = '\0';
    transport->query_error[0] = '\0';
    transport->has_request_id = false;
    transport->date_s = -1;
    transport->text = text;
    transport->text_start = text->size;
    transport->is_too_large = false;
    transport->sends = 0;
    transport->once = once;
    const bool is_finished = run_exchange(transport, &result);
    transport->text = NULL;
    if (!is_finished || result != CURLE_OK)
        buffer_truncate(text, transport->text_start); /* half an answer is none */
    if (is_finished)
        return judge(transport, result, answer);
    snprintf(answer->reason, sizeof answer->reason, "interrupted");
    return TRANSPORT_INTERRUPTED;
}

enum transport_result transport_get(struct transport *transport, const char *path, struct buffer *text,
                                    struct transport_answer *answer)
{
    curl_easy_setopt(transport->easy, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(transport->easy, CURLOPT_REQUEST_TARGET, path);
    const enum transport_result result = exchange(transport, false, text, answer);
    curl_easy_setopt(transport->easy, CURLOPT_REQUEST_TARGET, NULL);
    return result;
}

enum transport_result transport_post(struct transport *transport, const char *target, const char *body,
                                     size_t body_size, bool once, struct buffer *text, struct transport_answer *answer)
{
    struct curl_slist *headers = NULL;
    char header[192];

    snprintf(header, sizeof header, "X-Amz-Target: %s", target);
    headers = curl_slist_append(headers, header);
    headers = curl_slist_append(headers, "Content-Type: application/x-amz-json-1.0");
    if (transport->session_header_owned != NULL)
        headers = curl_slist_append(headers, transport->session_header_owned);
    if (transport->worker_header_owned != NULL)
        headers = curl_slist_append(headers, transport->worker_header_owned);
    curl_easy_setopt(transport->easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(transport->easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(transport->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body_size);
    const enum transport_result result = exchange(transport, once, text, answer);
    curl_easy_setopt(transport->easy, CURLOPT_HTTPHEADER, NULL);
    curl_easy_setopt(transport->easy, CURLOPT_POSTFIELDS, NULL);
    curl_slist_free_all(headers);
    return result;
}

void transport_set_timeout(struct transport *transport, unsigned timeout_ms)
{
    curl_easy_setopt(transport->easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
}

bool transport_sleep(struct transport *transport, unsigned milliseconds)
{
    uint64_t end_ms = monotonic_ms() + milliseconds;
    while (!atomic_load(&transport->is_interrupted)) {
        uint64_t now_ms = monotonic_ms();
        if (now_ms >= end_ms)
            return true;
        curl_multi_poll(transport->multi, NULL, 0, (int)(end_ms - now_ms), NULL);
    }
    return false;
}

void transport_interrupt(struct transport *transport)
{
    atomic_store(&transport->is_interrupted, true);
    curl_multi_wakeup(transport->multi);
}

void transport_resume(struct transport *transport)
{
    atomic_store(&transport->is_interrupted, false);
}
