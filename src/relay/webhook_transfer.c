#include "relay/webhook_transfer.h"

#include "base/assert.h"
#include <stdlib.h>
#include <sys/socket.h>

#define CONNECT_TIMEOUT_MS 5000L
/* What is read of an answer; the connection of a longer one is closed. */
#define ANSWER_SIZE_MAX 65536u

/* Keeps the beginning and drops the rest. */
static size_t take_answer(char *data, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    size_t taken = size * count;
    if (transfer->received < sizeof(transfer->text)) {
        size_t room = sizeof(transfer->text) - transfer->received;
        memcpy(transfer->text + transfer->received, data, taken < room ? taken : room);
    }
    transfer->received += taken;
    return transfer->received > ANSWER_SIZE_MAX ? 0 : taken;
}

/* libcurl calls this each time it is about to send the request. */
static int before_send(void *context, char *remote_ip, char *local_ip, int remote_port, int local_port)
{
    struct transfer *transfer = context;
    (void)remote_ip;
    (void)local_ip;
    (void)remote_port;
    (void)local_port;
    if (transfer->sends > 0)
        return CURL_PREREQFUNC_ABORT;
    transfer->sends++;
    return CURL_PREREQFUNC_OK;
}

/* A program that starts others must not hand connections on. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)context;
    (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* What holds for every request of this handle. */
static CURL *open_easy(struct transfer *transfer)
{
    CURL *easy = curl_easy_init();
    if (easy == NULL)
        abort(); /* out of memory; see base/memory.h */
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* nobody in between by a variable of the environment */
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->fault);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_answer);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_send);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "Tally/" TALLY_VERSION);
    return easy;
}

void transfer_start(struct transfer *transfer, CURLM *multi, const struct transfer_options *options,
                    const struct row *row, struct curl_slist *headers)
{
    ASSERT(!transfer->is_used);
    if (transfer->easy_owned == NULL)
        transfer->easy_owned = open_easy(transfer);
    CURL *easy = transfer->easy_owned;
    transfer->headers_owned = headers;
    transfer->is_used = true;
    transfer->is_ended = false;
    transfer->uid = row->uid;
    transfer->sends = 0;
    transfer->received = 0;
    transfer->fault[0] = '\0';
    curl_easy_setopt(easy, CURLOPT_URL, options->url);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)options->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, options->is_single_use ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, options->is_single_use ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)row->body.size);
    CURLcode copied = curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, (const char *)row->body.ptr);
    if (copied != CURLE_OK || curl_multi_add_handle(multi, easy) != CURLM_OK)
        abort(); /* out of memory */
}

/* Takes it from libcurl; what is known of its end stays. */
static void release(struct transfer *transfer, CURLM *multi)
{
    curl_multi_remove_handle(multi, transfer->easy_owned);
    curl_easy_setopt(transfer->easy_owned, CURLOPT_HTTPHEADER, NULL);
    curl_easy_setopt(transfer->easy_owned, CURLOPT_POSTFIELDS, NULL);
    curl_slist_free_all(transfer->headers_owned);
    transfer->headers_owned = NULL;
}

void transfer_finish(struct transfer *transfer, CURLM *multi, CURLcode result, uint64_t now_ms)
{
    ASSERT(transfer->is_used && !transfer->is_ended);
    release(transfer, multi);
    transfer->result = result;
    transfer->ended_ms = now_ms;
    transfer->is_ended = true;
}

struct webhook_end transfer_end(const struct transfer *transfer)
{
    long status = 0;
    curl_off_t retry_after_s = 0;
    ASSERT(transfer->is_used && transfer->is_ended);
    curl_easy_getinfo(transfer->easy_owned, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(transfer->easy_owned, CURLINFO_RETRY_AFTER, &retry_after_s);
    const char *fault = transfer->fault[0] != '\0' ? transfer->fault : curl_easy_strerror(transfer->result);
    if (transfer->result == CURLE_ABORTED_BY_CALLBACK)
        fault = "the connection, which had been kept open, turned out to be closed";
    size_t size = transfer->received < sizeof(transfer->text) ? transfer->received : sizeof(transfer->text);
    return (struct webhook_end){
        .status = status < 200 ? 0 : (int)status, /* a 100 says only that one will come */
        .was_sent = transfer->sends > 0,
        .retry_after_s = retry_after_s > 0 ? (uint64_t)retry_after_s : 0,
        .text = bytes_make(transfer->text, size),
        .fault = fault,
    };
}

void transfer_clear(struct transfer *transfer, CURLM *multi)
{
    if (transfer->is_used && !transfer->is_ended)
        release(transfer, multi);
    transfer->is_used = false;
}

void transfer_deinit(struct transfer *transfer, CURLM *multi)
{
    transfer_clear(transfer, multi);
    curl_easy_cleanup(transfer->easy_owned);
    transfer->easy_owned = NULL;
}
