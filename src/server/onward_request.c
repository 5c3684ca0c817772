#include "server/onward_request.h"

#include "base/memory.h"

#include <strings.h>

/* `name` is in lower case. Most lines differ at the first letter: looking at that first is five times as fast. */
static bool is_field(struct bytes line, struct bytes name)
{
    return line.size >= name.size && (line.ptr[0] | 0x20) == name.ptr[0] &&
           strncasecmp((const char *)line.ptr, (const char *)name.ptr, name.size) == 0;
}

/* About the client's connection, not about the request; or said anew. */
static bool is_left_out(struct bytes line)
{
    static const struct bytes names[] = {
        BYTES("connection:"), BYTES("keep-alive:"),     BYTES("proxy-connection:"),   BYTES("te:"),
        BYTES("upgrade:"),    BYTES("content-length:"), BYTES("transfer-encoding:"),  BYTES("trailer:"),
        BYTES("expect:"),     BYTES("http2-settings:"), BYTES("tally-forwarded-by:"), BYTES("tally-forwarded-for:")};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (is_field(line, names[i]))
            return true;
    return false;
}

static void copy_head(struct buffer *out, const struct request *request)
{
    struct bytes head = request->head;
    bool has_host = false;
    while (head.size > 2) { /* the empty line is its end */
        const uint8_t *end = memchr(head.ptr, '\n', head.size);
        const struct bytes line = bytes_make(head.ptr, (size_t)(end - head.ptr) + 1);
        has_host = has_host || is_field(line, BYTES("host:"));
        if (!is_left_out(line))
            buffer_append_bytes(out, line);
        head = bytes_skip(head, line.size);
    }
    if (!has_host) /* of HTTP/1.0 */
        buffer_append_format(out, "Host: %.*s\r\n", BYTES_FORMAT(request->host));
}

void onward_request_write(struct buffer *out, const struct request *request, const char *node, const char *proof)
{
    buffer_append_format(out, "%.*s %.*s%s%.*s HTTP/1.1\r\n", BYTES_FORMAT(request->method),
                         BYTES_FORMAT(request->path), request->query.size > 0 ? "?" : "", BYTES_FORMAT(request->query));
    copy_head(out, request);
    buffer_append_format(out, "Tally-Forwarded-By: %s %s\r\n", node, proof);
    if (request->address.size > 0)
        buffer_append_format(out, "Tally-Forwarded-For: %.*s\r\n", BYTES_FORMAT(request->address));
    buffer_append_format(out, "Content-Length: %zu\r\n\r\n", request->body.size);
    buffer_append_bytes(out, request->body);
}
