/* How much memory this process can use. */
#ifndef TALLY_TALLYD_MACHINE_MEMORY_H
#define TALLY_TALLYD_MACHINE_MEMORY_H

#include <stdint.h>

/* Bytes: the machine's memory, or less if a control group of the process (a container, a unit of systemd) has a
 * limit. */
uint64_t machine_memory(void);

#endif
