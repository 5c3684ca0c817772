#include "match/rules.h"

#include "base/assert.h"

struct rules *rules_create(struct bytes json, struct failure *failure)
{
    (void)json;
    failure_set(failure, ERROR_UNSUPPORTED_OPERATION, "not yet");
    return NULL;
}

void rules_destroy(struct rules *rules)
{
    (void)rules;
}

int rules_attribute(const struct rules *rules, struct bytes name)
{
    (void)rules;
    (void)name;
    return -1;
}

bool rules_extend(const struct rules *rules, const struct rules *old)
{
    return rules == old;
}

uint32_t rules_level(const struct rules *rules, uint64_t age_ms)
{
    (void)rules;
    (void)age_ms;
    return 0;
}

uint64_t rules_step_ms(const struct rules *rules, uint32_t level)
{
    (void)rules;
    (void)level;
    return UINT64_MAX;
}

void rules_plan(const struct rules *rules, struct buffer *out)
{
    (void)rules;
    (void)out;
}

bool rules_warning(const struct rules *rules, struct buffer *out)
{
    (void)rules;
    (void)out;
    return false;
}
