#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { IN_SIZE_MIN = 16 * 1024, CALL_ATTEMPTS_MAX = 12000 };

uint64_t clock_now_ms(void)
{
    return clock_now_ns() / 1000000;
}

void wire_request_write(struct text *request, const char *target, struct view body)
{
    request->size = 0;
    text_append_format(request,
                       "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-amz-json-1.0\r\n"
                       "X-Amz-Target: %s\r\nContent-Length: %zu\r\n\r\n",
                       target, body.size);
    text_append(request, body);
}

int wire_connect(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fatal("can't make a socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

bool wire_write(int fd, struct view bytes)
{
    while (bytes.size > 0) {
        ssize_t size = send(fd, bytes.ptr, bytes.size, MSG_NOSIGNAL);
        if (size < 0)
            return false;
        bytes = (struct view){bytes.ptr + size, bytes.size - (size_t)size};
    }
    return true;
}

bool wire_read(int fd, struct text *in)
{
    text_reserve(in, IN_SIZE_MIN);
    ssize_t size = recv(fd, in->ptr_owned + in->size, in->capacity - in->size, 0);
    if (size <= 0)
        return false;
    in->size += (size_t)size;
    return true;
}

static bool call_once(const struct text *request, uint16_t port, struct text *in, struct http_message *answer)
{
    int fd = wire_connect(port);
    if (fd < 0)
        return false;
    in->size = 0;
    bool is_there = wire_write(fd, text_view(request));
    while (is_there && !http_message_find(text_view(in), answer))
        is_there = wire_read(fd, in);
    close(fd);
    return is_there;
}

int wire_call(uint16_t port, const char *target, struct view body, struct text *reply)
{
    struct text request, in;
    text_init(&request);
    text_init(&in);
    wire_request_write(&request, target, body);
    struct http_message answer = {0};
    unsigned attempts = 0;
    while (!call_once(&request, port, &in, &answer)) {
        if (++attempts >= CALL_ATTEMPTS_MAX)
            fatal("nobody answers %s on port %u", target, port);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    reply->size = 0;
    text_append(reply, answer.body);
    text_deinit(&request);
    text_deinit(&in);
    return answer.status;
}

/* --- Reading replies ---------------------------------------------------------------------------------------------- */

bool wire_value_next(struct view *rest, struct view key, struct view *value)
{
    const char *at = view_find(*rest, key);
    if (at == NULL)
        return false;
    struct view from = view_from(*rest, at + key.size);
    const char *end = from.size == 0 || *from.ptr != '"' ? NULL : memchr(from.ptr + 1, '"', from.size - 1);
    if (end == NULL)
        fatal("no text behind %.*s: %.*s", (int)key.size, key.ptr, (int)from.size, from.ptr);
    *value = (struct view){from.ptr + 1, (size_t)(end - from.ptr) - 1};
    *rest = view_from(*rest, end + 1);
    return true;
}

/* FNV-1a. */
uint32_t wire_digest(struct view text)
{
    uint32_t digest = 2166136261u;
    for (size_t at = 0; at < text.size; at++)
        digest = (digest ^ (uint8_t)text.ptr[at]) * 16777619u;
    return digest == 0 ? 1 : digest;
}

uint32_t wire_number(struct view text)
{
    uint32_t number = 0;
    for (size_t at = 0; at < text.size && text.ptr[at] >= '0' && text.ptr[at] <= '9'; at++)
        number = number * 10 + (uint32_t)(text.ptr[at] - '0');
    return number;
}

struct view wire_part(struct view body, struct view key, struct view other)
{
    const char *begin = view_find(body, key);
    if (begin == NULL)
        return (struct view){body.ptr, 0};
    struct view part = view_from(body, begin);
    const char *end = view_find(part, other);
    return end == NULL ? part : (struct view){begin, (size_t)(end - begin)};
}

const struct view WIRE_SUCCESSFUL = {"\"Successful\":[", 14};
const struct view WIRE_FAILED = {"\"Failed\":[", 10};
