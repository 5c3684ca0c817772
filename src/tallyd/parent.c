#include "tallyd/parent.h"

#include "base/assert.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum error parent_check(struct failure *failure)
{
    struct stat status;
    if (fstat(STDIN_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)))
        return OK;
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "exit-with-stdin is on, and standard input is neither a pipe nor a socket: nothing would end "
                       "it. The process that starts tallyd makes a pipe and keeps its other end open.");
}

static void on_input(uv_poll_t *poll, int status, int events)
{
    struct parent *parent = poll->data;
    char thrown_away[1024];
    (void)events;
    const ssize_t size = status == 0 ? read(STDIN_FILENO, thrown_away, sizeof(thrown_away)) : 0;
    if (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    uv_poll_stop(poll);
    parent->gone(parent->context);
}

void parent_watch(struct parent *parent, uv_loop_t *loop, void (*gone)(void *context), void *context)
{
    parent->gone = gone;
    parent->context = context;
    const int status = uv_poll_init(loop, &parent->poll, STDIN_FILENO);
    ASSERT(status == 0); /* parent_check() */
    parent->poll.data = parent;
    uv_poll_start(&parent->poll, UV_READABLE | UV_DISCONNECT, on_input);
    uv_unref((uv_handle_t *)&parent->poll);
    parent->is_watched = true;
}

void parent_close(struct parent *parent)
{
    if (parent->is_watched)
        uv_close((uv_handle_t *)&parent->poll, NULL);
    parent->is_watched = false;
}
