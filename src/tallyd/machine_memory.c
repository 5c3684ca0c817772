/* Control groups, both versions. A limit counts for all groups below. So the smallest limit from the process's own
 * group up to the root is in force. In a container the path that the process sees may not exist; then the group mounted
 * at the root is its own. Source: Linux, Documentation/admin-guide/cgroup-v2.rst (memory.max) and cgroup-v1/memory.rst
 * (memory.limit_in_bytes). */
#include "tallyd/machine_memory.h"

#include "base/bytes.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE 4096

/* The number in a file; UINT64_MAX if there is none ("max", or no such file). */
static uint64_t read_limit(const char *path)
{
    char text[32] = "";
    uint64_t limit;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return UINT64_MAX;
    size_t size = fread(text, 1, sizeof(text), file);
    fclose(file);
    while (size > 0 && text[size - 1] == '\n')
        size--;
    return bytes_to_u64(bytes_make(text, size), &limit) ? limit : UINT64_MAX;
}

/* The smallest limit of the group and of all groups above it. `group` begins with a slash, and is overwritten. */
static uint64_t least_limit(const char *mount, char *group, const char *file)
{
    uint64_t least = UINT64_MAX;
    char path[2 * PATH_SIZE];
    for (;;) {
        snprintf(path, sizeof(path), "%s%s/%s", mount, group, file);
        uint64_t limit = read_limit(path);
        least = limit < least ? limit : least;
        char *slash = strrchr(group, '/');
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

/* A line of /proc/self/cgroup: "0::/group" or "7:cpu,memory:/group". */
static uint64_t limit_of_line(char *line)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group == NULL)
        return UINT64_MAX;
    *group++ = '\0';
    controllers++;
    if (controllers[0] == '\0')
        return least_limit("/sys/fs/cgroup", group, "memory.max");
    return strstr(controllers, "memory") == NULL ? UINT64_MAX
                                                 : least_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
}

static uint64_t group_limit(void)
{
    uint64_t least = UINT64_MAX;
    char line[PATH_SIZE];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        uint64_t limit = limit_of_line(line);
        least = limit < least ? limit : least;
    }
    if (file != NULL)
        fclose(file);
    return least;
}

uint64_t machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGESIZE);
    uint64_t installed = pages > 0 && page_size > 0 ? (uint64_t)pages * (uint64_t)page_size : UINT64_MAX;
    uint64_t limit = group_limit();
    return limit < installed ? limit : installed;
}
