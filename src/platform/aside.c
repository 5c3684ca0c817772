#include "platform/aside.h"

#include <sys/resource.h>

#define NICENESS 10

void aside_begin(void)
{
    (void)setpriority(PRIO_PROCESS, 0, NICENESS);
}
