#include "workload.h"

static const struct workload *const WORKLOADS[] = {
    &WORKLOAD_HTTP_SEND,        &WORKLOAD_HTTP_STATIC, &WORKLOAD_HTTP_BATCH,    &WORKLOAD_HTTP_LIFE,
    &WORKLOAD_HTTP_LIFE_SINGLE, &WORKLOAD_HTTP_TAKE,   &WORKLOAD_HTTP_DRAIN,    &WORKLOAD_REDIS_LPUSH,
    &WORKLOAD_REDIS_CLAIM,      &WORKLOAD_REDIS_LIFE,  &WORKLOAD_BEANSTALK_PUT, &WORKLOAD_BEANSTALK_LIFE,
    &WORKLOAD_NATS_LIFE,        &WORKLOAD_AMQP_LIFE,   &WORKLOAD_POOL_OFFER,    &WORKLOAD_POOL_PROPOSE,
    &WORKLOAD_POOL_DUEL,        &WORKLOAD_LONG_SEND,   &WORKLOAD_LONG_SCATTER,  &WORKLOAD_LONG_DRAIN,
    &WORKLOAD_SOAK_SEND,        &WORKLOAD_SOAK_WORK,
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
