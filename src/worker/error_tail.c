#include "worker/error_tail.h"

#include "base/memory.h"
#include "platform/monotonic.h"
#include "worker/standard_error.h"
#include "worker/text.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BLOCK_SIZE 4096
#define FINISH_WAIT_MS 1000
#define ROOM_WAIT_MS 100  /* one wait for room */
#define ROOM_WAITS_MAX 10 /* once the command has ended, it gives up after so many waits in vain */

struct error_tail {
    atomic_bool is_over;     /* the command has ended */
    unsigned waits;          /* of the thread, in vain, since our standard error took something */
    pthread_mutex_t mutex;   /* guards everything below, and reading; not held while anything is written */
    pthread_cond_t advanced; /* the thread has handed something on */
    int pipe;
    bool is_released;
    uint64_t read_size;   /* bytes that came out of the pipe … */
    uint64_t handed_size; /* … of which the thread is done with so many */
    char *rest_owned;     /* what error_tail_finish() has read and the thread is still to hand on; NULL: nothing */
    size_t rest_size;
    char last[ERROR_TAIL_SIZE]; /* the last whole line that is not empty; closed by NUL */
    char open[ERROR_TAIL_SIZE]; /* the line that has no end yet: its first open_size bytes */
    size_t open_size;
};

/* Writes all of it to our own standard error, however long that takes while the command runs. Then what is not taken
 * within a second is lost, or else threads without end could wait for a reader. */
static void hand_on(struct error_tail *tail, const char *text, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const size_t some = standard_error_write(text + done, size - done, ROOM_WAIT_MS);
        done += some;
        tail->waits = some > 0 ? 0 : tail->waits + 1;
        if (tail->waits >= ROOM_WAITS_MAX && atomic_load(&tail->is_over))
            break;
    }
    standard_error_lose(text + done, size - done);
}

static void end_line(struct error_tail *tail)
{
    while (tail->open_size > 0 && strchr(" \t\r", tail->open[tail->open_size - 1]) != NULL)
        tail->open_size--;
    if (tail->open_size > 0) {
        memcpy(tail->last, tail->open, tail->open_size);
        tail->last[tail->open_size] = '\0';
    }
    tail->open_size = 0;
}

static void take(struct error_tail *tail, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\n')
            end_line(tail);
        else if (tail->open_size < ERROR_TAIL_SIZE - 1)
            tail->open[tail->open_size++] = text[i] == '\0' ? '?' : text[i];
}

/* Reads what is there, at most so much and no more than a block, with the mutex held. What read() returned. */
static ssize_t read_some(struct error_tail *tail, char *text, size_t most)
{
    ssize_t size = read(tail->pipe, text, most < BLOCK_SIZE ? most : BLOCK_SIZE);
    if (size > 0) {
        take(tail, text, (size_t)size);
        tail->read_size += (uint64_t)size;
    }
    return size;
}

/* Both the worker and the thread hold the tail; who releases it last frees it. */
static void release(struct error_tail *tail)
{
    bool is_last;
    pthread_mutex_lock(&tail->mutex);
    is_last = tail->is_released;
    tail->is_released = true;
    pthread_mutex_unlock(&tail->mutex);
    if (!is_last)
        return;
    close(tail->pipe);
    pthread_cond_destroy(&tail->advanced);
    pthread_mutex_destroy(&tail->mutex);
    free(tail);
}

static void *follow(void *argument)
{
    struct error_tail *tail = argument;
    char text[BLOCK_SIZE];
    ssize_t size = -1;
    bool has_rest = false;
    while (size != 0 || has_rest) {
        struct pollfd wait = {.fd = tail->pipe, .events = POLLIN};
        poll(&wait, 1, has_rest ? 0 : -1);
        pthread_mutex_lock(&tail->mutex);
        char *rest_owned = tail->rest_owned; /* it came before what we read now */
        const size_t rest_size = rest_owned == NULL ? 0 : tail->rest_size;
        tail->rest_owned = NULL;
        size = read_some(tail, text, BLOCK_SIZE);
        const uint64_t read_size = tail->read_size;
        pthread_mutex_unlock(&tail->mutex);

        hand_on(tail, rest_owned, rest_size);
        free(rest_owned);
        hand_on(tail, text, size > 0 ? (size_t)size : 0);

        pthread_mutex_lock(&tail->mutex);
        tail->handed_size = read_size;
        has_rest = tail->rest_owned != NULL;
        pthread_cond_signal(&tail->advanced);
        pthread_mutex_unlock(&tail->mutex);
    }
    release(tail);
    return NULL;
}

static bool start_thread(struct error_tail *tail)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int failed;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    failed = pthread_create(&thread, &attributes, follow, tail);
    pthread_attr_destroy(&attributes);
    return failed == 0;
}

struct error_tail *error_tail_create(int *file)
{
    struct error_tail *tail;
    int ends[2];

    *file = -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return NULL;
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* our end only: the command's must block as it expects */
    tail = memory_allocate_zeroed(sizeof *tail);
    tail->pipe = ends[0];
    pthread_mutex_init(&tail->mutex, NULL);
    condition_init(&tail->advanced);
    if (start_thread(tail)) {
        *file = ends[1];
        return tail;
    }
    close(ends[0]);
    close(ends[1]);
    pthread_cond_destroy(&tail->advanced);
    pthread_mutex_destroy(&tail->mutex);
    free(tail);
    return NULL;
}

/* Waits until the thread has handed on all that came out of the pipe up to that byte, or time runs out. With the mutex
 * held. */
static void await_handed(struct error_tail *tail, uint64_t end)
{
    const uint64_t until_ms = monotonic_ms() + FINISH_WAIT_MS;
    while (tail->handed_size < end)
        if (!condition_wait_until(&tail->advanced, &tail->mutex, until_ms))
            return;
}

/* Reads the pipe up to that byte for the thread, which still waits for whoever reads our standard error: the last
 * line is wanted now. With the mutex held. */
static void read_rest(struct error_tail *tail, uint64_t end)
{
    ssize_t size = 1;
    tail->rest_owned = memory_allocate((size_t)(end - tail->read_size) + 1);
    while (tail->read_size < end && size > 0) {
        size = read_some(tail, tail->rest_owned + tail->rest_size, (size_t)(end - tail->read_size));
        tail->rest_size += size > 0 ? (size_t)size : 0;
    }
}

void error_tail_finish(struct error_tail *tail, char line[ERROR_TAIL_SIZE])
{
    int waiting = 0;
    size_t size;
    *line = '\0';
    if (tail == NULL)
        return;
    pthread_mutex_lock(&tail->mutex);
    (void)ioctl(tail->pipe, FIONREAD, &waiting);
    /* Not until the pipe is empty: what the command left running may write faster than anybody reads. */
    const uint64_t end = tail->read_size + (uint64_t)waiting;
    await_handed(tail, end);
    if (tail->handed_size < end)
        read_rest(tail, end);
    atomic_store(&tail->is_over, true);
    end_line(tail); /* a last line need not have an end */
    memcpy(line, tail->last, ERROR_TAIL_SIZE);
    pthread_mutex_unlock(&tail->mutex);
    release(tail);
    for (char *at = line; *at != '\0'; at += size) {
        size = text_character_size(at);
        if (size == 0) {
            *at = '?';
            size = 1;
        }
    }
}
