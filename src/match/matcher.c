#include "match/matcher.h"

void matcher_init(struct matcher *matcher, const struct rules *rules, const struct pool *records, size_t entry_offset,
                  uint64_t window_ms)
{
    (void)window_ms;
    *matcher = (struct matcher){.rules = rules, .records = records, .entry_offset = (uint32_t)entry_offset};
}

void matcher_deinit(struct matcher *matcher)
{
    (void)matcher;
}

void matcher_reset(struct matcher *matcher, const struct rules *rules, uint64_t window_ms)
{
    (void)window_ms;
    matcher->rules = rules;
}

void matcher_add(struct matcher *matcher, uint32_t slot, uint64_t now_ms, bool is_seed)
{
    (void)matcher;
    (void)slot;
    (void)now_ms;
    (void)is_seed;
}

void matcher_remove(struct matcher *matcher, uint32_t slot)
{
    (void)matcher;
    (void)slot;
}

bool matcher_has(const struct matcher *matcher, uint32_t slot)
{
    (void)matcher;
    (void)slot;
    return false;
}

void matcher_seed(struct matcher *matcher, uint32_t slot)
{
    (void)matcher;
    (void)slot;
}

uint64_t matcher_due_ms(const struct matcher *matcher)
{
    (void)matcher;
    return UINT64_MAX;
}

uint32_t matcher_take_step(struct matcher *matcher, uint64_t now_ms, uint32_t *level)
{
    (void)matcher;
    (void)now_ms;
    (void)level;
    return 0;
}

void matcher_widen(struct matcher *matcher, uint32_t slot, uint32_t level, uint64_t now_ms)
{
    (void)matcher;
    (void)slot;
    (void)level;
    (void)now_ms;
}

enum matcher_outcome matcher_look(struct matcher *matcher, uint64_t now_ms, uint32_t *budget,
                                  struct matcher_group *group)
{
    (void)matcher;
    (void)now_ms;
    (void)budget;
    (void)group;
    return MATCHER_IDLE;
}

bool matcher_has_work(const struct matcher *matcher, uint64_t now_ms)
{
    (void)matcher;
    (void)now_ms;
    return false;
}

uint32_t matcher_seed_count(const struct matcher *matcher)
{
    (void)matcher;
    return 0;
}

bool matcher_survey(const struct matcher *matcher, const struct entry *entry, uint32_t limit,
                    void (*visit)(void *context, uint32_t slot, const struct pair_check *check), void *context)
{
    (void)matcher;
    (void)entry;
    (void)limit;
    (void)visit;
    (void)context;
    return true;
}

void matcher_check(const struct matcher *matcher)
{
    (void)matcher;
}
