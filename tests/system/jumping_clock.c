/* A shim for LD_PRELOAD: the wall clock is as far from the machine's as a file says, and jumps when the file changes.
 *
 *   CLOCK_OFFSET   the file: eight bytes, the milliseconds to add, as a signed number of this machine
 *
 * Only the wall clock: the monotonic ones go on, as where an administrator sets the time. The file is mapped, so that a
 * signal handler may ask for the time too. For tests/system/clock.py, which compiles it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Atomic(int64_t) *offset_ms;

__attribute__((constructor)) static void map_offset(void)
{
    const char *path = getenv("CLOCK_OFFSET");
    const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(*offset_ms), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        offset_ms = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && offset_ms != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        const int64_t add_ms = atomic_load(offset_ms);
        const int64_t ns = now->tv_nsec + add_ms % 1000 * 1000000;
        now->tv_sec += add_ms / 1000 + (ns >= 1000000000) - (ns < 0);
        now->tv_nsec = (ns + 1000000000) % 1000000000;
    }
    return status;
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
