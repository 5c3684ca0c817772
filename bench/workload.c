#include "workload.h"

static const struct workload *const WORKLOADS[] = {
    &WORKLOAD_HTTP_SEND,     &WORKLOAD_HTTP_STATIC,    &WORKLOAD_HTTP_BATCH,  &WORKLOAD_HTTP_LIFE,
    &WORKLOAD_HTTP_TAKE,     &WORKLOAD_HTTP_DRAIN,     &WORKLOAD_REDIS_LPUSH, &WORKLOAD_REDIS_CLAIM,
    &WORKLOAD_BEANSTALK_PUT, &WORKLOAD_BEANSTALK_LIFE, &WORKLOAD_POOL_OFFER,  &WORKLOAD_POOL_PROPOSE,
    &WORKLOAD_POOL_DUEL,
};

const struct workload *workload_at(unsigned index)
{
    return index < sizeof(WORKLOADS) / sizeof(WORKLOADS[0]) ? WORKLOADS[index] : NULL;
}

const struct workload *workload_find(const char *name)
{
    const struct workload *workload;
    for (unsigned index = 0; (workload = workload_at(index)) != NULL; index++)
        if (strcmp(workload->name, name) == 0)
            return workload;
    return NULL;
}

void workload_body_append(struct text *out, unsigned size)
{
    static const char SAMPLE[] = "The quick brown fox jumps over the lazy dog; 0123456789 pangrams and digits. ";
    text_reserve(out, size);
    for (unsigned at = 0; at < size; at++)
        out->ptr_owned[out->size++] = SAMPLE[at % (sizeof(SAMPLE) - 1)];
}
