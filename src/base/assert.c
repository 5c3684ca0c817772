#include "base/assert.h"
#include "base/last_words.h"

#include <stdlib.h>

void assert_failed(const char *claim, const char *file, int line)
{
    last_words_say("%s:%d: assertion failed: %s\n", file, line, claim);
    abort();
}
