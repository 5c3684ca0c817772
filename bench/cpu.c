#include "cpu.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

double cpu_own_s(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Fields 14 to 17 of /proc/PID/stat: its own time and that of children it has waited for, say for a snapshot. The name
 * in field 2 may hold anything, so count from its closing parenthesis. */
static double cpu_of_process_s(long pid)
{
    char path[64];
    char line[1024];
    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(line, sizeof(line), file) == NULL)
        fatal("process %ld, whose CPU time was asked for, is gone", pid);
    fclose(file);
    unsigned long user = 0, system = 0, children_user = 0, children_system = 0;
    const char *after_name = strrchr(line, ')');
    if (after_name == NULL || sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu",
                                     &user, &system, &children_user, &children_system) != 4)
        fatal("can't read %s", path);
    return (double)(user + system + children_user + children_system) / (double)sysconf(_SC_CLK_TCK);
}

double cpu_of_s(const char *pids)
{
    double seconds = 0;
    while (pids != NULL && *pids != '\0') {
        char *end;
        seconds += cpu_of_process_s(strtol(pids, &end, 10));
        pids = *end == ',' ? end + 1 : "";
    }
    return seconds;
}
