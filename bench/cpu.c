#include "cpu.h"
#include "text.h"

#include <stdbool.h>
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
static double cpu_of_process_s(long pid, bool may_be_gone)
{
    char path[64];
    char line[1024];
    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    const bool is_there = file != NULL && fgets(line, sizeof(line), file) != NULL;
    if (file != NULL)
        fclose(file);
    if (!is_there && may_be_gone)
        return 0;
    if (!is_there)
        fatal("process %ld, whose CPU time was asked for, is gone", pid);
    unsigned long user = 0, system = 0, children_user = 0, children_system = 0;
    const char *after_name = strrchr(line, ')');
    if (after_name == NULL || sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu",
                                     &user, &system, &children_user, &children_system) != 4)
        fatal("can't read %s", path);
    return (double)(user + system + children_user + children_system) / (double)sysconf(_SC_CLK_TCK);
}

/* The children of a process that are still there: it has not waited for these. One that ends while we look counts with
 * those. */
static double cpu_of_children_s(long pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", pid, pid);
    FILE *file = fopen(path, "r");
    double seconds = 0;
    long child;
    while (file != NULL && fscanf(file, "%ld", &child) == 1)
        seconds += cpu_of_process_s(child, true);
    if (file != NULL)
        fclose(file);
    return seconds;
}

double cpu_of_s(const char *pids)
{
    double seconds = 0;
    while (pids != NULL && *pids != '\0') {
        char *end;
        const long pid = strtol(pids, &end, 10);
        seconds += cpu_of_process_s(pid, false) + cpu_of_children_s(pid);
        pids = *end == ',' ? end + 1 : "";
    }
    return seconds;
}
