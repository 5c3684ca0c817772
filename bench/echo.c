/* echo: the least that a server can do, as a reference for what is left to anything real.
 *
 * It answers the requests of `load` with fixed replies in the shape of Tally's. With --fdatasync it first writes 512
 * bytes for each request of this turn of the loop into a prepared file and flushes once: on one connection a bare round
 * trip plus one fdatasync, on many the barest group commit. */
#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TEN = 10,
    EVENTS_MAX = 256,
    FDS_MAX = 16384,
    RECORD_SIZE = 512,
    FILE_SIZE = 64 * 1024 * 1024,
};

struct reply {
    struct view action; /* what X-Amz-Target must contain */
    struct text bytes;
};

struct echo {
    int listen_fd;
    int epoll_fd;
    int file_fd; /* -1: nothing is written */
    off_t file_at;
    struct reply replies[4];
    struct text in_of_fd[FDS_MAX];
};

static void reply_wrap(struct reply *reply, struct view action, const struct text *body)
{
    reply->action = action;
    text_init(&reply->bytes);
    text_append_format(&reply->bytes,
                       "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
                       "x-amzn-RequestId: 8b0c2f6e-5d3a-4c1b-9f00-000000000000\r\nContent-Length: %zu\r\n\r\n",
                       body->size);
    text_append(&reply->bytes, text_view(body));
}

static void reply_send_build(struct reply *reply)
{
    struct text body;
    text_init(&body);
    text_append(&body, VIEW("{\"MD5OfMessageBody\":\"d41d8cd98f00b204e9800998ecf8427e\","
                            "\"MessageId\":\"00000000-0000-4000-8000-000000000000\"}"));
    reply_wrap(reply, VIEW("AmazonSQS.SendMessage\r"), &body);
    text_deinit(&body);
}

/* A list of ten entries made from `pattern`, in which `#` stands for the entry's number. */
static void reply_list_build(struct reply *reply, struct view action, struct view key, struct view pattern)
{
    struct text body;
    text_init(&body);
    text_append(&body, key);
    for (char digit = '0'; digit < '0' + TEN; digit++) {
        text_append(&body, digit == '0' ? VIEW("[") : VIEW(","));
        size_t begin = body.size;
        text_append(&body, pattern);
        for (size_t at = begin; at < body.size; at++)
            if (body.ptr_owned[at] == '#')
                body.ptr_owned[at] = digit;
    }
    text_append(&body, VIEW("]}"));
    reply_wrap(reply, action, &body);
    text_deinit(&body);
}

static void replies_build(struct echo *echo)
{
    reply_send_build(&echo->replies[0]);
    reply_list_build(&echo->replies[1], VIEW("AmazonSQS.SendMessageBatch\r"), VIEW("{\"Successful\":"),
                     VIEW("{\"Id\":\"#\",\"MD5OfMessageBody\":\"d41d8cd98f00b204e9800998ecf8427e\","
                          "\"MessageId\":\"00000000-0000-4000-8000-00000000000#\"}"));
    reply_list_build(&echo->replies[2], VIEW("AmazonSQS.ReceiveMessage\r"), VIEW("{\"Messages\":"),
                     VIEW("{\"MessageId\":\"00000000-0000-4000-8000-00000000000#\",\"ReceiptHandle\":"
                          "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\","
                          "\"MD5OfBody\":\"d41d8cd98f00b204e9800998ecf8427e\",\"Body\":\""
                          "01234567890123456789012345678901234567890123456789"
                          "01234567890123456789012345678901234567890123456789"
                          "01234567890123456789012345678901234567890123456789"
                          "01234567890123456789012345678901234567890123456789\"}"));
    reply_list_build(&echo->replies[3], VIEW("AmazonSQS.DeleteMessageBatch\r"), VIEW("{\"Successful\":"),
                     VIEW("{\"Id\":\"#\"}"));
}

static void file_open(struct echo *echo, const char *path)
{
    static const char BLOCK[64 * 1024];
    echo->file_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (echo->file_fd < 0)
        fatal("can't open %s: %s", path, strerror(errno));
    for (off_t at = 0; at < FILE_SIZE; at += (off_t)sizeof(BLOCK))
        if (pwrite(echo->file_fd, BLOCK, sizeof(BLOCK), at) != (ssize_t)sizeof(BLOCK))
            fatal("can't write %s: %s", path, strerror(errno));
    if (fsync(echo->file_fd) != 0)
        fatal("can't sync %s: %s", path, strerror(errno));
}

static void echo_listen(struct echo *echo, uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int on = 1;
    echo->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(echo->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(echo->listen_fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(echo->listen_fd, 1024) != 0)
        fatal("can't listen on port %u: %s", port, strerror(errno));
    echo->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = echo->listen_fd};
    epoll_ctl(echo->epoll_fd, EPOLL_CTL_ADD, echo->listen_fd, &event);
    printf("echo ready on http://127.0.0.1:%u\n", port);
    fflush(stdout);
}

static void echo_accept(struct echo *echo)
{
    int fd;
    while ((fd = accept4(echo->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (fd >= FDS_MAX)
            fatal("more than %d connections", FDS_MAX);
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (echo->in_of_fd[fd].ptr_owned == NULL)
            text_init(&echo->in_of_fd[fd]);
        echo->in_of_fd[fd].size = 0;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(echo->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    }
}

/* Reads what has come; true when a request is whole, which then is all of the connection's bytes. */
static bool request_read(struct echo *echo, int fd)
{
    struct text *in = &echo->in_of_fd[fd];
    text_reserve(in, 8 * 1024);
    ssize_t size = recv(fd, in->ptr_owned + in->size, in->capacity - in->size, 0);
    if (size < 0 && errno == EAGAIN)
        return false;
    if (size <= 0) {
        close(fd);
        return false;
    }
    in->size += (size_t)size;
    struct http_message request;
    return http_message_find(text_view(in), &request);
}

static void request_answer(struct echo *echo, int fd)
{
    struct text *in = &echo->in_of_fd[fd];
    for (unsigned at = 0; at < sizeof(echo->replies) / sizeof(echo->replies[0]); at++) {
        const struct reply *reply = &echo->replies[at];
        if (view_find((struct view){in->ptr_owned, in->size < 256 ? in->size : 256}, reply->action) == NULL)
            continue;
        in->size = 0;
        if (send(fd, reply->bytes.ptr_owned, reply->bytes.size, MSG_NOSIGNAL) != (ssize_t)reply->bytes.size)
            fatal("can't send a reply: %s", strerror(errno));
        return;
    }
    fatal("no reply for this request: %.*s", (int)in->size, in->ptr_owned);
}

static void records_sync(struct echo *echo, unsigned count)
{
    static const char RECORDS[EVENTS_MAX * RECORD_SIZE];
    size_t size = (size_t)count * RECORD_SIZE;
    if (echo->file_at + (off_t)size > FILE_SIZE)
        echo->file_at = 0;
    if (pwrite(echo->file_fd, RECORDS, size, echo->file_at) != (ssize_t)size || fdatasync(echo->file_fd) != 0)
        fatal("can't write and sync: %s", strerror(errno));
    echo->file_at += (off_t)size;
}

static void echo_turn(struct echo *echo)
{
    struct epoll_event events[EVENTS_MAX];
    int whole[EVENTS_MAX];
    unsigned whole_count = 0;
    int count = epoll_wait(echo->epoll_fd, events, EVENTS_MAX, -1);
    for (int at = 0; at < count; at++) {
        int fd = events[at].data.fd;
        if (fd == echo->listen_fd)
            echo_accept(echo);
        else if (request_read(echo, fd))
            whole[whole_count++] = fd;
    }
    if (whole_count > 0 && echo->file_fd >= 0)
        records_sync(echo, whole_count);
    for (unsigned at = 0; at < whole_count; at++)
        request_answer(echo, whole[at]);
}

int main(int argc, char **argv)
{
    static struct echo echo = {.file_fd = -1};
    const char *address = NULL;
    for (int at = 1; at < argc; at++)
        if (strcmp(argv[at], "--listen") == 0 && at + 1 < argc)
            address = argv[++at];
        else if (strcmp(argv[at], "--fdatasync") == 0 && at + 1 < argc)
            file_open(&echo, argv[++at]);
        else
            fatal("usage: echo --listen 127.0.0.1:PORT [--fdatasync FILE]");
    const char *port = address == NULL ? NULL : strrchr(address, ':');
    if (port == NULL)
        fatal("--listen 127.0.0.1:PORT is missing");
    replies_build(&echo);
    echo_listen(&echo, (uint16_t)strtoul(port + 1, NULL, 10));
    for (;;)
        echo_turn(&echo);
}
