#include "platform/random.h"

#include "base/assert.h"
#include <sys/random.h>

void random_fill(void *bytes, size_t size)
{
    ASSERT(size <= RANDOM_SIZE_MAX); /* so few come at once, whatever signals do */
    const ssize_t filled = getrandom(bytes, size, 0);
    ASSERT(filled == (ssize_t)size);
}
