#include "tallyd/message_log.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "platform/thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A pipe takes this many bytes in one piece, so lines of several writers do not mix. */
static_assert(MESSAGE_LOG_LINE_SIZE <= PIPE_BUF, "a line is one write");
static_assert(MESSAGE_LOG_LINE_SIZE <= MESSAGE_LOG_SIZE, "a line fits");

struct message_log {
    int descriptor;
    const char *name;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    struct message_format format;
    pthread_cond_t is_given; /* a line came, or the end */
    pthread_cond_t is_idle;  /* everything is written */
    char *ring_owned;        /* MESSAGE_LOG_SIZE bytes: whole lines, each with its newline */
    size_t begin;
    size_t size;
    uint64_t dropped;
    uint64_t dropped_reported; /* in the last line about it */
    bool is_resting;           /* the thread has nothing to write */
    bool is_ending;
};

/* --- the ring ----------------------------------------------------------------------------------------------------- */

static void ring_put(struct message_log *log, const char *line, size_t size)
{
    ASSERT(size <= MESSAGE_LOG_SIZE - log->size);
    const size_t at = (log->begin + log->size) % MESSAGE_LOG_SIZE;
    const size_t first = size < MESSAGE_LOG_SIZE - at ? size : MESSAGE_LOG_SIZE - at;
    memcpy(log->ring_owned + at, line, first);
    memcpy(log->ring_owned, line + first, size - first);
    log->size += size;
}

/* Removes the oldest line; returns its size. */
static size_t ring_take(struct message_log *log, char line[MESSAGE_LOG_LINE_SIZE])
{
    ASSERT(log->size > 0);
    size_t size = 0;
    do
        line[size] = log->ring_owned[(log->begin + size) % MESSAGE_LOG_SIZE];
    while (line[size++] != '\n');
    log->begin = (log->begin + size) % MESSAGE_LOG_SIZE;
    log->size -= size;
    return size;
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* Waits for the reader as long as needed. False: it can't be written at all, because nobody has the other end or the
 * disk is full. */
static bool write_line(int descriptor, const char *line, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t count = write(descriptor, line + done, size - done);
        if (count >= 0) {
            done += (size_t)count;
        } else if (errno == EAGAIN) { /* the parent process made it non-blocking */
            struct pollfd room = {.fd = descriptor, .events = POLLOUT};
            (void)poll(&room, 1, -1);
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* Writes one line without the mutex. */
static bool write_unlocked(struct message_log *log, const char *line, size_t size)
{
    pthread_mutex_unlock(&log->mutex);
    const bool is_written = write_line(log->descriptor, line, size);
    pthread_mutex_lock(&log->mutex);
    return is_written;
}

static void write_next(struct message_log *log)
{
    char line[MESSAGE_LOG_LINE_SIZE];
    const size_t size = ring_take(log, line);
    if (!write_unlocked(log, line, size))
        log->dropped++;
}

static uint64_t wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void report_dropped(struct message_log *log)
{
    char text[256], line[MESSAGE_LOG_LINE_SIZE];
    const uint64_t dropped = log->dropped;
    (void)snprintf(text, sizeof(text),
                   "tallyd: %llu lines are missing here: %s was not read, or refused them. All lines that it "
                   "missed since the start: %llu.",
                   (unsigned long long)(dropped - log->dropped_reported), log->name, (unsigned long long)dropped);
    if (write_unlocked(log, line, message_format_line(&log->format, MESSAGE_WARNING, wall_ms(), text, line)))
        log->dropped_reported = dropped;
}

/* Returns when everything is written. */
static void write_waiting(struct message_log *log)
{
    while (log->size > 0) {
        const uint64_t dropped = log->dropped;
        write_next(log);
        /* Not after a refused line: the next line shows whether lines are taken again. */
        if (log->size == 0 && log->dropped == dropped && log->dropped != log->dropped_reported)
            report_dropped(log);
    }
}

static void *write_all(void *context)
{
    struct message_log *log = context;
    pthread_mutex_lock(&log->mutex);
    for (;;) {
        write_waiting(log);
        if (log->is_ending)
            break;
        log->is_resting = true;
        pthread_cond_broadcast(&log->is_idle);
        pthread_cond_wait(&log->is_given, &log->mutex);
        log->is_resting = false;
    }
    pthread_mutex_unlock(&log->mutex);
    return NULL;
}

/* --- what others do ----------------------------------------------------------------------------------------------- */

struct message_log *message_log_create(int descriptor, const char *name)
{
    struct message_log *log = memory_allocate_zeroed(sizeof(*log));
    log->descriptor = descriptor;
    log->name = name;
    log->ring_owned = memory_allocate(MESSAGE_LOG_SIZE);
    pthread_mutex_init(&log->mutex, NULL);
    pthread_cond_init(&log->is_given, NULL);
    condition_init(&log->is_idle);
    const int failure = thread_start(&log->thread, write_all, log);
    ASSERT(failure == 0);
    return log;
}

void message_log_set_format(struct message_log *log, const struct message_format *format)
{
    pthread_mutex_lock(&log->mutex);
    log->format = *format;
    pthread_mutex_unlock(&log->mutex);
}

__attribute__((format(printf, 3, 0))) static void add(struct message_log *log, enum message_level level,
                                                      const char *format, va_list arguments)
{
    char text[MESSAGE_LOG_LINE_SIZE], line[MESSAGE_LOG_LINE_SIZE];
    const int length = vsnprintf(text, sizeof(text), format, arguments);
    ASSERT(length >= 0);
    const uint64_t at_ms = wall_ms();
    const size_t size_max = level == MESSAGE_NOTICE ? MESSAGE_LOG_SIZE / 2 : MESSAGE_LOG_SIZE;
    pthread_mutex_lock(&log->mutex);
    const size_t size = message_format_line(&log->format, level, at_ms, text, line);
    if (log->size + size <= size_max)
        ring_put(log, line, size);
    else
        log->dropped++;
    pthread_cond_signal(&log->is_given);
    pthread_mutex_unlock(&log->mutex);
}

void message_log_say(struct message_log *log, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(log, log->descriptor == STDERR_FILENO ? MESSAGE_WARNING : MESSAGE_INFO, format, arguments);
    va_end(arguments);
}

void message_log_tell(struct message_log *log, enum message_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(log, level, format, arguments);
    va_end(arguments);
}

bool message_log_flush(struct message_log *log, unsigned wait_ms)
{
    const uint64_t end_ms = monotonic_ms() + wait_ms;
    bool has_time = true;
    pthread_mutex_lock(&log->mutex);
    while ((log->size > 0 || !log->is_resting) && has_time)
        has_time = condition_wait_until(&log->is_idle, &log->mutex, end_ms);
    const bool is_flushed = log->size == 0 && log->is_resting;
    pthread_mutex_unlock(&log->mutex);
    return is_flushed;
}

uint64_t message_log_dropped_count(struct message_log *log)
{
    pthread_mutex_lock(&log->mutex);
    const uint64_t dropped = log->dropped;
    pthread_mutex_unlock(&log->mutex);
    return dropped;
}

void message_log_destroy(struct message_log *log, unsigned wait_ms)
{
    const bool is_flushed = message_log_flush(log, wait_ms);
    pthread_mutex_lock(&log->mutex);
    log->is_ending = true;
    pthread_cond_signal(&log->is_given);
    pthread_mutex_unlock(&log->mutex);
    if (!is_flushed) {
        pthread_detach(log->thread);
        return;
    }
    pthread_join(log->thread, NULL);
    pthread_cond_destroy(&log->is_idle);
    pthread_cond_destroy(&log->is_given);
    pthread_mutex_destroy(&log->mutex);
    free(log->ring_owned);
    free(log);
}
