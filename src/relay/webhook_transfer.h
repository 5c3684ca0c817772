/* One request to a web hook, from its start to its end. Hides libcurl's easy handle.
 *
 * A request is put on the wire once: libcurl would send it again by itself on a new connection when one that was kept
 * open turns out to be dead, without knowing whether the first had arrived. In at-most-once mode no connection is kept
 * at all. */
#ifndef TALLY_RELAY_WEBHOOK_TRANSFER_H
#define TALLY_RELAY_WEBHOOK_TRANSFER_H

#include "relay/webhook_answer.h"
#include <curl/curl.h>

struct transfer {
    CURL *easy_owned; /* NULL: never used */
    struct curl_slist *headers_owned;
    bool is_used;  /* it has a request */
    bool is_ended; /* and that has come to its end: `result` */
    CURLcode result;
    uint64_t ended_ms; /* when it did, monotonic */
    struct uid uid;    /* of the row */
    unsigned sends;    /* how often libcurl was about to send the request */
    size_t received;   /* bytes of the answer's body */
    char text[WEBHOOK_TEXT_MAX];
    char fault[CURL_ERROR_SIZE];
};

struct transfer_options {
    const char *url;
    unsigned timeout_ms; /* of the whole exchange */
    bool is_single_use;  /* a connection for each request */
};

/* Begins to post the row, of which a copy is taken; the headers are the transfer's then. */
void transfer_start(struct transfer *transfer, CURLM *multi, const struct transfer_options *options,
                    const struct row *row, struct curl_slist *headers);

/* libcurl has said that it ended. Only what transfer_end() tells is kept, not the row. */
void transfer_finish(struct transfer *transfer, CURLM *multi, CURLcode result, uint64_t now_ms);

/* What it came to, once it has ended. Borrowed until transfer_clear(). */
struct webhook_end transfer_end(const struct transfer *transfer);

/* Makes it free for another request; one under way is cut off. */
void transfer_clear(struct transfer *transfer, CURLM *multi);
void transfer_deinit(struct transfer *transfer, CURLM *multi);

#endif
