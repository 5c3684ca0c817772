#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void assert_failed(const char *claim, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, claim);
    abort();
}
