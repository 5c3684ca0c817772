/* The system under a simulated node: its clocks, its sleep, its sockets, its random bytes, its locks, its number. The
 * linker's --wrap puts these functions around the C library's; outside a fiber they are the C library's. */
#include "owners.h"
#include "owners_libpq.h"
#include "owners_plants.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define LOCK_LOOK_US 100u

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    const struct process *process = fiber_process();
    if (process == NULL || (id != CLOCK_MONOTONIC && id != CLOCK_BOOTTIME && id != CLOCK_REALTIME))
        return __real_clock_gettime(id, now);
    const bool is_wall = id == CLOCK_REALTIME || owners_plant_is(WALL_CLOCK_LEASE);
    const uint64_t at = sim_now() + (is_wall ? process->wall_ms : process->monotonic_ms) * MS;
    *now = (struct timespec){.tv_sec = (time_t)(at / 1000000), .tv_nsec = (long)(at % 1000000) * 1000};
    return 0;
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
    (void)left;
    const uint64_t until = sim_now() + (uint64_t)pause->tv_sec * 1000000 + (uint64_t)pause->tv_nsec / 1000;
    while (sim_now() < until)
        fiber_wait(until);
    return 0;
}

int __real_poll(struct pollfd *sockets, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *sockets, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *sockets, nfds_t count, int timeout_ms)
{
    return network_has(sockets->fd) ? network_poll(sockets, timeout_ms) : __real_poll(sockets, count, timeout_ms);
}

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    (void)flags;
    owners_draw_bytes(bytes, size);
    return (ssize_t)size;
}

pid_t __real_getpid(void);
pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
    const struct process *process = fiber_process();
    return process == NULL ? __real_getpid() : process->pid;
}

/* A fiber that waits for a lock lets others run. */
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (fiber_current() == NULL)
        return __real_pthread_mutex_lock(mutex);
    while (pthread_mutex_trylock(mutex) != 0)
        fiber_wait(sim_now() + LOCK_LOOK_US);
    return 0;
}

/* The folder of a cache outlives its process. */
struct disk *__wrap_disk_posix_create(const char *folder);
struct disk *__wrap_disk_posix_create(const char *folder)
{
    return owners_find_folder(folder);
}

void __wrap_disk_posix_destroy(struct disk *disk);
void __wrap_disk_posix_destroy(struct disk *disk)
{
    disk->is_hurried = NULL;
}
