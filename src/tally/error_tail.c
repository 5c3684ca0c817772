#include "tally/error_tail.h"

#include "base/memory.h"
#include "tally/text.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct error_tail {
    pthread_mutex_t mutex; /* guards everything below, and reading */
    int pipe;
    bool is_released;
    bool is_at_end;
    char last[ERROR_TAIL_SIZE]; /* the last whole line that is not empty; closed by NUL */
    char open[ERROR_TAIL_SIZE]; /* the line that has no end yet: its first open_size bytes */
    size_t open_size;
};

/* Writes all of it to our own standard error; what that does not take is lost, as it would be to the command itself. */
static void hand_on(const char *text, size_t size)
{
    while (size > 0) {
        ssize_t written = write(STDERR_FILENO, text, size);
        if (written < 0 && errno != EINTR)
            return;
        text += written > 0 ? written : 0;
        size -= written > 0 ? (size_t)written : 0;
    }
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

/* Reads what is there, with the mutex held. */
static void read_all(struct error_tail *tail)
{
    char text[4096];
    ssize_t size;
    while (!tail->is_at_end && (size = read(tail->pipe, text, sizeof text)) != 0) {
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return; /* EAGAIN: nothing more for now */
        hand_on(text, (size_t)size);
        take(tail, text, (size_t)size);
    }
    tail->is_at_end = true;
}

static void *follow(void *argument)
{
    struct error_tail *tail = argument;
    bool is_over = false;
    while (!is_over) {
        struct pollfd wait = {.fd = tail->pipe, .events = POLLIN};
        poll(&wait, 1, -1);
        pthread_mutex_lock(&tail->mutex);
        read_all(tail);
        is_over = tail->is_at_end;
        pthread_mutex_unlock(&tail->mutex);
    }
    error_tail_release(tail);
    return NULL;
}

/* Both the worker and the thread hold the tail; who releases it last frees it. */
void error_tail_release(struct error_tail *tail)
{
    bool is_last;
    if (tail == NULL)
        return;
    pthread_mutex_lock(&tail->mutex);
    is_last = tail->is_released;
    tail->is_released = true;
    pthread_mutex_unlock(&tail->mutex);
    if (!is_last)
        return;
    close(tail->pipe);
    pthread_mutex_destroy(&tail->mutex);
    free(tail);
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
    if (start_thread(tail)) {
        *file = ends[1];
        return tail;
    }
    close(ends[0]);
    close(ends[1]);
    pthread_mutex_destroy(&tail->mutex);
    free(tail);
    return NULL;
}

void error_tail_line(struct error_tail *tail, char line[ERROR_TAIL_SIZE])
{
    size_t size;
    pthread_mutex_lock(&tail->mutex);
    read_all(tail);
    end_line(tail); /* a last line need not have an end */
    memcpy(line, tail->last, ERROR_TAIL_SIZE);
    pthread_mutex_unlock(&tail->mutex);
    for (char *at = line; *at != '\0'; at += size) {
        size = text_character_size(at);
        if (size == 0) {
            *at = '?';
            size = 1;
        }
    }
}
