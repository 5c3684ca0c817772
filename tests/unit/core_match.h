/* What the tests of matches in the core share: pools by their rules and settings, tickets that fit each other, and
 * matches. A rig is closed with a replay and a snapshot that must give the same state. */
#ifndef TALLY_TESTS_UNIT_CORE_MATCH_H
#define TALLY_TESTS_UNIT_CORE_MATCH_H

#include "support/pool_rig.h"

#include "core/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define PAIRS "{'Attributes':{'mode':'str','mmr':'num'},'Rules':[{'type':'near','attr':'mmr','max':100}]}"

static inline struct ticket_pool *open_with(struct core_rig *rig, struct pool_spec (*change)(struct pool_spec spec),
                                            const char *rules)
{
    core_rig_init(rig, 1);
    pool_rig_make_queues(rig);
    struct pool_spec spec = pool_rig_spec(rig, rules);
    if (change != NULL)
        spec = change(spec);
    return pool_rig_put(rig, "duel", &spec);
}

static inline struct pool_spec built_in(struct pool_spec spec)
{
    spec.matcher = MATCHER_BUILT_IN;
    return spec;
}

static inline struct pool_spec full_at_two(struct pool_spec spec)
{
    spec.results_max = 2;
    return spec;
}

static inline struct pool_spec confirming(struct pool_spec spec)
{
    spec.confirm_ms = 10000;
    return spec;
}

static inline struct ticket_pool *open_rig(struct core_rig *rig)
{
    return open_with(rig, NULL, PAIRS);
}

static inline void close_rig(struct core_rig *rig)
{
    pool_rig_check(rig);
    core_rig_deinit(rig);
}

static inline void offer(struct core_rig *rig, struct ticket_pool *pool, const char *key)
{
    assert_true(pool_rig_offer(rig, pool, &(struct pool_rig_ticket){.key = key, .attributes = "{'mmr':1500}"}) != 0);
}

static inline void offer_all(struct core_rig *rig, struct ticket_pool *pool, const char *keys)
{
    for (; *keys != 0; keys++)
        offer(rig, pool, (char[]){*keys, 0});
}

static inline void offer_in_set(struct core_rig *rig, struct ticket_pool *pool, const char *key, const char *set)
{
    const struct pool_rig_ticket ticket = {.key = key, .attributes = "{'mmr':1500}", .set = set};
    assert_true(pool_rig_offer(rig, pool, &ticket) != 0);
}

static inline unsigned state_of(const struct ticket_pool *pool, const char *key)
{
    return pool_rig_ticket(pool, key)->state;
}

static inline bool waits(const struct ticket_pool *pool, const char *key, uint32_t version)
{
    return state_of(pool, key) == TICKET_WAITING && pool_rig_ticket(pool, key)->version == version;
}

/* Proposes what must be matched; its number. */
static inline uint64_t match(struct core_rig *rig, struct ticket_pool *pool, const char *proposal, const char *members)
{
    struct proposal_result result;
    assert_int_equal(pool_rig_propose(rig, pool, proposal, members, &result), PROPOSAL_MATCHED);
    return result.match;
}

/* How many messages say that they are the result of that match. All messages are received for it. */
static inline unsigned count_results(struct core_rig *rig, uint64_t number)
{
    struct content content;
    struct handle handle;
    uint8_t id[MESSAGE_ID_SIZE];
    unsigned count = 0;
    identity_match(core_digest(rig->core), number, id);
    while (pool_rig_take(rig, "results", &content, &handle))
        count += memcmp(id, content.id, sizeof(id)) == 0;
    pool_rig_pass(rig, 30000);
    return count;
}

#endif
