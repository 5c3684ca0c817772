#include "http.h"

#include <stdlib.h>
#include <strings.h>

/* Case-insensitive search for a header that begins a line; NULL if there is none. */
static const char *header_find(struct view head, struct view name)
{
    const char *end = head.ptr + head.size;
    for (const char *line = memchr(head.ptr, '\n', head.size); line != NULL;) {
        line++;
        size_t left = (size_t)(end - line);
        if (left > name.size && strncasecmp(line, name.ptr, name.size) == 0)
            return line + name.size;
        line = memchr(line, '\n', left);
    }
    return NULL;
}

static size_t decimal_read(const char *digits)
{
    size_t value = 0;
    while (*digits == ' ')
        digits++;
    for (; *digits >= '0' && *digits <= '9'; digits++)
        value = value * 10 + (size_t)(*digits - '0');
    return value;
}

bool http_message_find(struct view in, struct http_message *message)
{
    const char *blank = view_find(in, VIEW("\r\n\r\n"));
    if (blank == NULL)
        return false;
    struct view head = {in.ptr, (size_t)(blank + 4 - in.ptr)};
    const char *length = header_find(head, VIEW("content-length:"));
    if (length == NULL && header_find(head, VIEW("transfer-encoding:")) != NULL)
        fatal("a chunked message, and this program reads Content-Length only");
    size_t body_size = length == NULL ? 0 : decimal_read(length);
    if (in.size - head.size < body_size)
        return false;
    bool is_reply = view_starts_with(in, VIEW("HTTP/1.1 "));
    *message = (struct http_message){
        .status = is_reply ? (int)decimal_read(in.ptr + 9) : 0,
        .head = head,
        .body = {in.ptr + head.size, body_size},
        .size = head.size + body_size,
    };
    return true;
}

bool http_reply_find(struct view in, struct http_message *reply)
{
    if (!http_message_find(in, reply))
        return false;
    if (reply->status != 200)
        fatal("expected status 200, got this reply:\n%.*s", (int)reply->size, in.ptr);
    return true;
}

void http_request_begin(struct text *out, const char *target, uint16_t port)
{
    text_append_format(
        out,
        "POST / HTTP/1.1\r\n"
        "Host: 127.0.0.1:%u\r\n"
        "Accept-Encoding: identity\r\n"
        "X-Amz-Target: %s\r\n"
        "Content-Type: application/x-amz-json-1.0\r\n"
        "User-Agent: Boto3/1.34.0 md/Botocore#1.34.0 ua/2.0 os/linux lang/python#3.11.2 Botocore/1.34.0\r\n"
        "X-Amz-Date: 20260101T000000Z\r\n"
        "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20260101/us-east-1/sqs/aws4_request, "
        "SignedHeaders=content-type;host;x-amz-date;x-amz-target, "
        "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7\r\n"
        "amz-sdk-invocation-id: 6e27bb7e-0d54-4a4c-9c0b-7a7d6c1c7f3e\r\n"
        "amz-sdk-request: attempt=1\r\n"
        "Content-Length: ",
        port, target);
}

void http_request_end(struct text *out, struct view body)
{
    text_append_format(out, "%zu\r\n\r\n", body.size);
    text_append(out, body);
}
