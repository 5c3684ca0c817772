#include "base/assert.h"
#include "base/abort_message.h"

#include <stdlib.h>

void assert_failed(const char *claim, const char *file, int line)
{
    abort_message_write("%s:%d: assertion failed: %s\n", file, line, claim);
    abort();
}
