#include "server/listener.h"

#include "base/assert.h"
#include "base/bytes.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LISTENER_BACKLOG 4096
#define SOCKET_MODE 0660
#define PRIVATE_SOCKET_MODE 0600

/* --- TCP ---------------------------------------------------------------------------------------------------------- */

static int parse_address(const struct listener_options *options, struct sockaddr_storage *address)
{
    if (uv_ip4_addr(options->address, options->port, (struct sockaddr_in *)address) == 0)
        return 0;
    return uv_ip6_addr(options->address, options->port, (struct sockaddr_in6 *)address);
}

static int listen_on_address(struct listener *listener, const struct listener_options *options,
                             uv_connection_cb on_connection)
{
    struct sockaddr_storage address = {0};
    int status = parse_address(options, &address);
    if (status == 0)
        status = uv_tcp_bind(&listener->handle.tcp, (const struct sockaddr *)&address, 0);
    if (status == 0)
        status = uv_listen(&listener->handle.stream, LISTENER_BACKLOG, on_connection);
    int size = sizeof(address);
    if (status == 0)
        status = uv_tcp_getsockname(&listener->handle.tcp, (struct sockaddr *)&address, &size);
    /* The port is at the same offset in both kinds of address. */
    listener->port = ntohs(((const struct sockaddr_in *)&address)->sin_port);
    return status;
}

static enum error open_address(struct listener *listener, const struct listener_options *options,
                               uv_connection_cb on_connection, struct failure *failure)
{
    int status = listen_on_address(listener, options, on_connection);
    if (status == 0)
        return OK;
    return failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "can't listen on %s port %u: %s.%s", options->address,
                       options->port, uv_strerror(status),
                       status == UV_EADDRINUSE ? " Another program has it: choose another port, 0 for a free one."
                                               : "");
}

/* --- Unix socket -------------------------------------------------------------------------------------------------- */

/* A socket file at which nobody listens any more. */
static bool is_left_behind(const struct sockaddr_un *address)
{
    struct stat status;
    if (lstat(address->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode))
        return false;
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_refused =
        probe >= 0 && connect(probe, (const struct sockaddr *)address, sizeof(*address)) != 0 && errno == ECONNREFUSED;
    if (probe >= 0)
        close(probe);
    return is_refused;
}

static mode_t mode_of(const struct listener *listener)
{
    return listener->kind == LISTENER_PRIVATE ? PRIVATE_SOCKET_MODE : SOCKET_MODE;
}

/* Binds a socket whose file never allows more than its mode: Linux creates it with the mode of the socket, less the
 * umask. 0 or an errno. */
static int bind_socket(int socket, const struct sockaddr_un *address, mode_t mode)
{
    if (fchmod(socket, mode) != 0)
        return errno;
    int status = bind(socket, (const struct sockaddr *)address, sizeof(*address)) == 0 ? 0 : errno;
    if (status == EADDRINUSE && is_left_behind(address) && unlink(address->sun_path) == 0)
        status = bind(socket, (const struct sockaddr *)address, sizeof(*address)) == 0 ? 0 : errno;
    return status;
}

static int note_file(struct listener *listener, const char *path)
{
    struct stat status;
    if (chmod(path, mode_of(listener)) != 0 || lstat(path, &status) != 0)
        return errno;
    listener->path = path;
    listener->device = status.st_dev;
    listener->inode = status.st_ino;
    return 0;
}

static int listen_on_path(struct listener *listener, const char *path, uv_connection_cb on_connection)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path));
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        return errno;
    int status = bind_socket(descriptor, &address, mode_of(listener));
    if (status == 0)
        status = note_file(listener, path);
    if (status == 0)
        status = -uv_pipe_open(&listener->handle.pipe, descriptor); /* libuv's errors are negative errnos */
    if (status != 0) {
        close(descriptor);
        return status;
    }
    return -uv_listen(&listener->handle.stream, LISTENER_BACKLOG, on_connection);
}

static enum error open_path(struct listener *listener, const char *path, uv_connection_cb on_connection,
                            struct failure *failure)
{
    int status = listen_on_path(listener, path, on_connection);
    if (status == 0)
        return OK;
    if (status == EADDRINUSE)
        return failure_set(
            failure, ERROR_SERVICE_UNAVAILABLE,
            "can't listen on %s: another program listens there, or it is no socket. Choose another path, "
            "or take away what is there.",
            path);
    return failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "can't listen on %s: %s.", path, uv_strerror(-status));
}

/* --- Life --------------------------------------------------------------------------------------------------------- */

enum error listener_open(struct listener *listener, uv_loop_t *loop, enum listener_kind kind,
                         const struct listener_options *options, uv_connection_cb on_connection, void *context,
                         struct failure *failure)
{
    ASSERT(options->address != NULL);
    *listener = (struct listener){.kind = kind};
    int status = listener_is_path(kind) ? uv_pipe_init(loop, &listener->handle.pipe, 0)
                                        : uv_tcp_init(loop, &listener->handle.tcp);
    ASSERT(status == 0); /* it makes no socket yet, so it can't fail */
    listener->handle.any.data = context;
    listener->is_open = true;
    return listener_is_path(kind) ? open_path(listener, options->address, on_connection, failure)
                                  : open_address(listener, options, on_connection, failure);
}

/* The file may belong to another process by now, if somebody removed ours. */
static void remove_file(const struct listener *listener)
{
    struct stat status;
    if (lstat(listener->path, &status) == 0 && status.st_dev == listener->device && status.st_ino == listener->inode)
        unlink(listener->path);
}

/* A snapshot's child process may hold a copy of the socket. Without this, connections would arrive there while that
 * process lives, and nobody would serve them. Connections that were not accepted yet are cut off; a Unix socket keeps
 * them until they are accepted. */
static void stop_listening(const struct listener *listener)
{
    uv_os_fd_t listening;
    if (uv_fileno(&listener->handle.any, &listening) != 0)
        return; /* it never came to a socket */
    (void)shutdown(listening, SHUT_RD);
    int taken; /* the socket does not block */
    while ((taken = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        (void)close(taken);
}

void listener_close(struct listener *listener)
{
    if (!listener->is_open)
        return;
    listener->is_open = false;
    if (listener->path != NULL)
        remove_file(listener);
    stop_listening(listener);
    uv_close(&listener->handle.any, NULL);
}
