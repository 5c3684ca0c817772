#include "match/facts.h"

enum error facts_encode(const struct rules *rules, yyjson_val *attributes, yyjson_val *need, struct buffer *out,
                        struct failure *failure)
{
    (void)rules;
    (void)attributes;
    (void)need;
    (void)out;
    return failure_set(failure, ERROR_UNSUPPORTED_OPERATION, "not yet");
}

struct facts *facts_create(const struct rules *rules, struct bytes encoded)
{
    (void)rules;
    (void)encoded;
    return NULL;
}

static const struct fact no_fact = {.is_there = false};

const struct fact *facts_at(const struct facts *facts, uint32_t attribute)
{
    return attribute < facts->fact_count ? &facts->facts[attribute] : &no_fact;
}

bool fact_text_equal(const struct fact_text *a, const struct fact_text *b)
{
    return a->hash == b->hash && bytes_equal(a->bytes, b->bytes);
}

uint32_t fact_set_common(const struct fact_set *a, const struct fact_set *b)
{
    return a->count + b->count;
}

bool facts_meet(const struct facts *facts, const struct facts *other, uint32_t *attribute)
{
    (void)other;
    (void)attribute;
    return facts->need_count == 0;
}
