#include "match/window.h"

#include "base/assert.h"

bool window_proposes(const struct matcher *matcher)
{
    const struct matcher_private *private = matcher->private_owned;
    return private->window_ms > 0 && private->finds_pairs &&
           (matcher->rules->pick == PICK_NEAREST || matcher->rules->pick == PICK_SCORE);
}

static bool window_is_waited_for(const struct matcher *matcher)
{
    const struct matcher_private *private = matcher->private_owned;
    return private->proposals.count > 0 || (!window_proposes(matcher) && matcher->seeds.count > 0);
}

bool window_is_over(const struct matcher *matcher, uint64_t now_ms)
{
    const struct matcher_private *private = matcher->private_owned;
    return private->window_ends_ms != 0 && now_ms >= private->window_ends_ms && window_is_waited_for(matcher);
}

uint64_t window_due_ms(const struct matcher *matcher)
{
    const struct matcher_private *private = matcher->private_owned;
    return private->window_ends_ms != 0 && window_is_waited_for(matcher) ? private->window_ends_ms : UINT64_MAX;
}

bool window_lets_look(struct matcher *matcher, uint64_t now_ms)
{
    struct matcher_private *private = matcher->private_owned;
    if (private->window_ms == 0)
        return true;
    if (!window_proposes(matcher) && window_is_over(matcher, now_ms) && !private->window_is_left)
        return true;
    private->window_is_left = false;
    if (private->window_ends_ms == 0 || now_ms >= private->window_ends_ms)
    private->window_ends_ms = now_ms + private->window_ms;
    return window_proposes(matcher);
}

/* The best rank first, then the lowest tickets. */
static struct ordered_key window_key(const struct matcher *matcher, const struct look *look)
{
    const struct choice *choice = &look->choices[look->choice];
    uint64_t seed = matcher_entry(matcher, look->seed)->number;
    return (struct ordered_key){
        .bucket = ordered_sort_key(choice->rank),
        .sort_key = seed < choice->number ? seed : choice->number,
        .number = seed,
    };
}

void window_propose(struct matcher *matcher, struct look *look)
{
    ASSERT(!look->is_proposal && look->choice < look->choice_count);
    struct ordered_key key = window_key(matcher, look);
    ordered_insert(&matcher->private_owned->proposals, &key, matcher_entry(matcher, look->seed)->probe);
    look->is_proposal = true;
}

void window_withdraw(struct matcher *matcher, struct look *look)
{
    ASSERT(look->is_proposal);
    struct ordered_key key = window_key(matcher, look);
    ordered_remove(&matcher->private_owned->proposals, &key);
    look->is_proposal = false;
}

/* Is the partner still there, and does it still fit? */
static bool window_holds(struct matcher *matcher, const struct look *look)
{
    return look_holds(matcher, matcher_entry(matcher, look->seed), &look->choices[look->choice]);
}

struct look *window_take(struct matcher *matcher, uint32_t *budget)
{
    struct matcher_private *private = matcher->private_owned;
    while (private->proposals.count > 0 && *budget > 0) {
        struct ordered_cursor first = ordered_seek(&private->proposals, &(struct ordered_key){.bucket = 0});
        struct look *look = slab_at(&private->looks, ordered_slot(first));
        window_withdraw(matcher, look);
        bool holds = window_holds(matcher, look);
        look_charge(matcher, look_cost(matcher, 1), budget);
        if (holds)
            return look;
        if (++look->choice < look->choice_count)
            window_propose(matcher, look);
        else
            matcher_seed(matcher, look->seed);
    }
    return NULL;
}

void window_rest(struct matcher *matcher, uint64_t now_ms)
{
    struct matcher_private *private = matcher->private_owned;
    if (now_ms >= private->window_ends_ms && !window_is_waited_for(matcher))
    private->window_ends_ms = 0;
}
