/* A shim for LD_PRELOAD: the wall clock is as far from the machine's as a file says, and jumps when the file changes.
 *
 *   CLOCK_OFFSET   the file: two signed numbers of this machine, of eight bytes each; the milliseconds to add to the
 *                  wall clock, and to the monotonic ones
 *
 * The second is 0 where an administrator sets the time. It is not where a test wants an hour to be over; deadlines of
 * waits, which the kernel counts, are then set back. The file is mapped, so that a signal handler may ask for the time
 * too. For tests/system/clock.py, which compiles it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Atomic(int64_t) *offset_ms; /* WALL and MONOTONIC */

enum { WALL, MONOTONIC, OFFSETS };

__attribute__((constructor)) static void map_offset(void)
{
    const char *path = getenv("CLOCK_OFFSET");
    const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *mapped = mmap(NULL, OFFSETS * sizeof(*offset_ms), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        offset_ms = mapped;
    close(file);
}

static int64_t offset_of(clockid_t clock)
{
    if (offset_ms == NULL)
        return 0;
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        return atomic_load(&offset_ms[WALL]);
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
        return atomic_load(&offset_ms[MONOTONIC]);
    default:
        return 0;
    }
}

static void add(struct timespec *time, int64_t add_ms)
{
    const int64_t ns = time->tv_nsec + add_ms % 1000 * 1000000;
    time->tv_sec += add_ms / 1000 + (ns >= 1000000000) - (ns < 0);
    time->tv_nsec = (ns + 1000000000) % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0)
        add(now, offset_of(clock));
    return status;
}

/* Of conditions that go by a monotonic clock, as all of Tally's and libuv's do. */
int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec deadline = *until;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    add(&deadline, -offset_of(CLOCK_MONOTONIC));
    return real(condition, mutex, &deadline);
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec exact;
    const int status = clock_gettime(CLOCK_REALTIME, &exact);
    *now = (struct timeval){.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
    return status;
}

time_t time(time_t *now)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now != NULL)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
