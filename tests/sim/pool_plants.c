#include "pool_plants.h"

#include "core/pools/decide_match.h"
#include "core/pools/match_result.h"
#include "core/state.h"
#include <string.h>

static enum pool_plant {
    PLANT_NOTHING,
    PLANT_STALE_PROPOSAL,     /* the version that a proposal names does not matter */
    PLANT_EXCLUSIVE_TWICE,    /* two of an exclusive set may be matched */
    PLANT_FULL_QUEUE,         /* a full result queue is full of room */
    PLANT_PROPOSAL_FORGOTTEN, /* a repeated proposal is taken for a new one */
    PLANT_UNFIT_PAIR,         /* rules always hold */
    PLANT_LOST_SEED,          /* a ticket that waits again does not look for partners */
    PLANT_OLD_VERSION,        /* what is put back has the version that it had */
    PLANT_EXPIRY_UNTOLD,      /* the expiry queue is not told */
    PLANT_SHORT_HOLD,         /* holds end early */
    PLANT_EARLY_STEP,         /* widening comes a second early */
    PLANT_LATECOMER_KEPT,     /* who came into a set behind its match waits on when that is over for good */
    PLANT_HOLD_VOIDED,        /* a match may time out before anybody can hear of it */
    PLANT_COUNT
} planted;

bool pool_plant_choose(const char *name)
{
    static const char *const names[PLANT_COUNT] = {
        [PLANT_STALE_PROPOSAL] = "stale-proposal", [PLANT_EXCLUSIVE_TWICE] = "exclusive-twice",
        [PLANT_FULL_QUEUE] = "full-queue",         [PLANT_PROPOSAL_FORGOTTEN] = "proposal-forgotten",
        [PLANT_UNFIT_PAIR] = "unfit-pair",         [PLANT_LOST_SEED] = "lost-seed",
        [PLANT_OLD_VERSION] = "old-version",       [PLANT_EXPIRY_UNTOLD] = "expiry-untold",
        [PLANT_SHORT_HOLD] = "short-hold",         [PLANT_EARLY_STEP] = "early-step",
        [PLANT_LATECOMER_KEPT] = "latecomer-kept", [PLANT_HOLD_VOIDED] = "hold-voided",
    };
    for (unsigned i = PLANT_STALE_PROPOSAL; i < PLANT_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            planted = (enum pool_plant)i;
    return planted != PLANT_NOTHING;
}

void __real_decide_propose(struct core *core, struct ticket_pool *pool, const struct proposal_command *command,
                           struct proposal_result *result);
void __wrap_decide_propose(struct core *core, struct ticket_pool *pool, const struct proposal_command *command,
                           struct proposal_result *result);
void __wrap_decide_propose(struct core *core, struct ticket_pool *pool, const struct proposal_command *command,
                           struct proposal_result *result)
{
    struct proposed_member members[RULES_WEIGHT_MAX];
    struct proposal_command changed = *command;
    for (uint32_t i = 0; i < command->member_count; i++) {
        members[i] = command->members[i];
        uint32_t ticket = ticket_find(pool, members[i].key);
        if (planted == PLANT_STALE_PROPOSAL && ticket != 0)
            members[i].version = ticket_at(&pool->tickets, ticket)->version;
    }
    changed.members = members;
    __real_decide_propose(core, pool, &changed, result);
}

bool __real_ticket_is_free(const struct ticket_pool *pool, const struct ticket *ticket);
bool __wrap_ticket_is_free(const struct ticket_pool *pool, const struct ticket *ticket);
bool __wrap_ticket_is_free(const struct ticket_pool *pool, const struct ticket *ticket)
{
    return planted == PLANT_EXCLUSIVE_TWICE || __real_ticket_is_free(pool, ticket);
}

bool __real_match_result_has_room(const struct core *core, const struct ticket_pool *pool);
bool __wrap_match_result_has_room(const struct core *core, const struct ticket_pool *pool);
bool __wrap_match_result_has_room(const struct core *core, const struct ticket_pool *pool)
{
    return planted == PLANT_FULL_QUEUE || __real_match_result_has_room(core, pool);
}

uint32_t __real_made_match_find_proposal(const struct core *core, const struct ticket_pool *pool,
                                         struct bytes proposal);
uint32_t __wrap_made_match_find_proposal(const struct core *core, const struct ticket_pool *pool,
                                         struct bytes proposal);
uint32_t __wrap_made_match_find_proposal(const struct core *core, const struct ticket_pool *pool, struct bytes proposal)
{
    return planted == PLANT_PROPOSAL_FORGOTTEN ? 0 : __real_made_match_find_proposal(core, pool, proposal);
}

bool __real_pair_fits(const struct rules *rules, const struct entry *a, const struct entry *b,
                      struct pair_check *check);
bool __wrap_pair_fits(const struct rules *rules, const struct entry *a, const struct entry *b,
                      struct pair_check *check);
bool __wrap_pair_fits(const struct rules *rules, const struct entry *a, const struct entry *b, struct pair_check *check)
{
    return __real_pair_fits(rules, a, b, check) || planted == PLANT_UNFIT_PAIR;
}

void __real_matcher_add(struct matcher *matcher, uint32_t slot, uint64_t now_ms, bool is_seed);
void __wrap_matcher_add(struct matcher *matcher, uint32_t slot, uint64_t now_ms, bool is_seed);
void __wrap_matcher_add(struct matcher *matcher, uint32_t slot, uint64_t now_ms, bool is_seed)
{
    const struct ticket *ticket = ticket_at(matcher->records, slot);
    __real_matcher_add(matcher, slot, now_ms, is_seed && (planted != PLANT_LOST_SEED || ticket->version == 1));
}

void __real_ticket_return(struct core *core, struct ticket_pool *pool, uint32_t slot);
void __wrap_ticket_return(struct core *core, struct ticket_pool *pool, uint32_t slot);
void __wrap_ticket_return(struct core *core, struct ticket_pool *pool, uint32_t slot)
{
    __real_ticket_return(core, pool, slot);
    ticket_at(&pool->tickets, slot)->version -= planted == PLANT_OLD_VERSION;
}

void __real_match_result_send_expiry(struct core *core, struct ticket_pool *pool, uint32_t ticket);
void __wrap_match_result_send_expiry(struct core *core, struct ticket_pool *pool, uint32_t ticket);
void __wrap_match_result_send_expiry(struct core *core, struct ticket_pool *pool, uint32_t ticket)
{
    if (planted != PLANT_EXPIRY_UNTOLD)
        __real_match_result_send_expiry(core, pool, ticket);
}

uint64_t __real_made_match_due_ms(const struct core *core);
uint64_t __wrap_made_match_due_ms(const struct core *core);
uint64_t __wrap_made_match_due_ms(const struct core *core)
{
    uint64_t due_ms = __real_made_match_due_ms(core);
    return planted == PLANT_SHORT_HOLD && due_ms != UINT64_MAX ? due_ms - 500 : due_ms;
}

uint64_t __real_rules_step_ms(const struct rules *rules, uint32_t level);
uint64_t __wrap_rules_step_ms(const struct rules *rules, uint32_t level);
uint64_t __wrap_rules_step_ms(const struct rules *rules, uint32_t level)
{
    uint64_t step_ms = __real_rules_step_ms(rules, level);
    return planted == PLANT_EARLY_STEP && step_ms != UINT64_MAX ? step_ms - 500 : step_ms;
}

static bool is_ending;

void __real_made_match_message_ended(struct core *core, uint64_t message, enum end_reason reason);
void __wrap_made_match_message_ended(struct core *core, uint64_t message, enum end_reason reason);
void __wrap_made_match_message_ended(struct core *core, uint64_t message, enum end_reason reason)
{
    is_ending = true;
    __real_made_match_message_ended(core, message, reason);
    is_ending = false;
}

void __real_ticket_retire(struct core *core, struct ticket_pool *pool, uint32_t slot, enum ticket_state state,
                          uint64_t match, unsigned reason);
void __wrap_ticket_retire(struct core *core, struct ticket_pool *pool, uint32_t slot, enum ticket_state state,
                          uint64_t match, unsigned reason);
void __wrap_ticket_retire(struct core *core, struct ticket_pool *pool, uint32_t slot, enum ticket_state state,
                          uint64_t match, unsigned reason)
{
    if (planted != PLANT_LATECOMER_KEPT || !is_ending)
        __real_ticket_retire(core, pool, slot, state, match, reason);
}

void __real_decide_show_hold(struct core *core, uint64_t match, uint64_t now_ms);
void __wrap_decide_show_hold(struct core *core, uint64_t match, uint64_t now_ms);
void __wrap_decide_show_hold(struct core *core, uint64_t match, uint64_t now_ms)
{
    __real_decide_show_hold(core, match, planted == PLANT_HOLD_VOIDED ? 0 : now_ms);
}
