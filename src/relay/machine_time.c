#include "relay/machine_time.h"

#include "base/assert.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t read_clock_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void read_boot(char boot[37])
{
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? 0 : read(file, boot, 36);
    boot[size == 36 ? 36 : 0] = '\0';
    if (file >= 0)
        close(file);
}

void machine_time_read(struct machine_time *now)
{
    read_boot(now->boot);
    now->since_boot_ms = read_clock_ms(CLOCK_BOOTTIME);
    now->wall_ms = read_clock_ms(CLOCK_REALTIME);
}

void machine_time_to_text(const struct machine_time *time, char text[MACHINE_TIME_TEXT_SIZE])
{
    int size = snprintf(text, MACHINE_TIME_TEXT_SIZE, "%s %" PRIu64 " %" PRIu64,
                        time->boot[0] == '\0' ? "-" : time->boot, time->since_boot_ms, time->wall_ms);
    ASSERT(size > 0 && size < MACHINE_TIME_TEXT_SIZE);
}

static bool read_text(struct bytes noted, struct machine_time *time)
{
    char text[MACHINE_TIME_TEXT_SIZE];
    if (noted.size == 0 || noted.size >= sizeof(text))
        return false;
    memcpy(text, noted.ptr, noted.size);
    text[noted.size] = '\0';
    return sscanf(text, "%36s %" SCNu64 " %" SCNu64, time->boot, &time->since_boot_ms, &time->wall_ms) == 3;
}

uint64_t machine_time_age_ms(const struct machine_time *now, struct bytes noted, int64_t source_age_ms)
{
    struct machine_time then;
    uint64_t age_ms = source_age_ms < 0 ? 0 : (uint64_t)source_age_ms;
    bool is_noted = read_text(noted, &then);
    if (is_noted && now->boot[0] != '\0' && strcmp(then.boot, now->boot) == 0) {
        if (then.since_boot_ms > now->since_boot_ms)
            return AGE_UNKNOWN_MS; /* a container can have its own offset of that clock */
        uint64_t counted_ms = now->since_boot_ms - then.since_boot_ms;
        return counted_ms > age_ms ? counted_ms : age_ms;
    }
    if (source_age_ms < 0)
        return AGE_UNKNOWN_MS;
    if (is_noted && now->wall_ms > then.wall_ms && now->wall_ms - then.wall_ms > age_ms)
        age_ms = now->wall_ms - then.wall_ms;
    return age_ms;
}
