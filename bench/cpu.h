/* CPU time of this and of other processes. */
#ifndef TALLY_BENCH_CPU_H
#define TALLY_BENCH_CPU_H

/* User and system time of this process. */
double cpu_own_s(void);

/* User and system time of the processes in `pids` ("12,13"), all their threads and children, in steps of the kernel's
 * tick (usually 10 ms); 0 for NULL. Ends the program if one of them is gone. */
double cpu_of_s(const char *pids);

#endif
