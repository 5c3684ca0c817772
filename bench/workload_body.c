#include "workload.h"

void workload_body_append(struct text *out, unsigned size)
{
    static const char SAMPLE[] = "The quick brown fox jumps over the lazy dog; 0123456789 pangrams and digits. ";
    text_reserve(out, size);
    for (unsigned at = 0; at < size; at++)
        out->ptr_owned[out->size++] = SAMPLE[at % (sizeof(SAMPLE) - 1)];
}
