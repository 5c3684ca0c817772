/* What a request becomes that is passed on, for unit tests and the fuzzer. */
#ifndef TALLY_UNIT_ONWARD_CHECK_H
#define TALLY_UNIT_ONWARD_CHECK_H

#include "base/assert.h"
#include "server/http.h"
#include "server/onward_request.h"

/* As long as they get. */
#define ONWARD_NODE "a-node-whose-name-is-as-long-as-a-name-of-a-node-may-be-sixty-3"
#define ONWARD_ADDRESS "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255"
#define ONWARD_PROOF "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Of a request that names its host in the target only. */
static inline size_t onward_head_size(const struct request *request)
{
    const size_t target_size = request->path.size + 1 + request->query.size + request->host.size;
    return request->method.size + target_size + sizeof(" http:// HTTP/1.1") + request->head.size;
}

/* Passed on, a request is one request, and the same, and its head little longer. False: it is of a kind that is not
 * passed on. */
static inline bool onward_check(const struct request *request)
{
    static const struct http_limits limits = {.head_size_max = 65536, .body_size_max = 65536};
    const bool is_asked = bytes_equal(request->method, BYTES("GET")) || bytes_equal(request->method, BYTES("POST"));
    struct buffer text;
    struct http http;
    struct request found;
    if (!is_asked || request->host.size == 0)
        return false;
    struct request asked = *request;
    asked.address = BYTES(ONWARD_ADDRESS);
    buffer_init(&text);
    onward_request_write(&text, &asked, ONWARD_NODE, ONWARD_PROOF);
    ASSERT(text.size - request->body.size <= onward_head_size(request) + HTTP_NODE_ADDS_MAX);
    http_init(&http, &limits);
    ASSERT(http_feed(&http, text.data_owned, text.size) == HTTP_WHOLE && http.size == text.size && http.keeps_alive);
    http_request(&http, text.data_owned, &found);
    ASSERT(bytes_equal(found.method, request->method) && bytes_equal(found.path, request->path));
    ASSERT(bytes_equal(found.query, request->query) && bytes_equal(found.host, request->host));
    ASSERT(bytes_equal(found.target, request->target) && bytes_equal(found.origin, request->origin));
    ASSERT(bytes_equal(found.fetch_site, request->fetch_site) && bytes_equal(found.body, request->body));
    ASSERT(bytes_equal(found.trace_header, request->trace_header));
    ASSERT(found.is_form == request->is_form && found.takes_json == request->takes_json);
    ASSERT(bytes_equal(found.forwarded_by, BYTES(ONWARD_NODE " " ONWARD_PROOF)));
    ASSERT(bytes_equal(found.address, BYTES(ONWARD_ADDRESS)) && bytes_equal(found.worker, request->worker));
    buffer_deinit(&text);
    return true;
}

#endif
