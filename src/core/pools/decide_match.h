/* Decisions (docs/internals/architecture.md, "Decide and apply"). Matches of tickets (docs/reference/pools.md). */
#ifndef TALLY_CORE_POOLS_DECIDE_MATCH_H
#define TALLY_CORE_POOLS_DECIDE_MATCH_H

#include "core/core.h"
#include "core/pools/ticket_pool.h"

/* Lets the built-in matcher search, for at most that many steps (match/matcher.h), and makes the matches that it finds.
 * Stops when the frame is ample. After a start or a change of the rules, it does nothing until the matcher knows all
 * waiting tickets; then decide_due() lets it search. */
void decide_match(struct core *core, struct ticket_pool *pool, uint32_t steps);

struct proposed_member {
    struct bytes key;
    uint32_t version;
};

struct proposal_command {
    struct bytes proposal; /* ProposalId */
    const struct proposed_member *members;
    uint32_t member_count;  /* 1 to RULES_WEIGHT_MAX */
    uint32_t rules_version; /* 0: not checked */
    struct bytes body;
    bool has_body;
};

enum proposal_status {
    PROPOSAL_MATCHED,
    PROPOSAL_KEY_REUSED,
    PROPOSAL_INVALID,
    PROPOSAL_CONFLICT,
    PROPOSAL_STALE,
    PROPOSAL_BY_RULES, /* Verify: also invalid, but the broken rule is known */
    PROPOSAL_RESULT_FULL,
};

enum member_fault {
    MEMBER_IS_GOOD,
    MEMBER_MATCHED,
    MEMBER_HELD,
    MEMBER_CANCELLED,
    MEMBER_EXPIRED,
    MEMBER_STALE,
    MEMBER_EXCLUSIVE,
    MEMBER_UNKNOWN,
    MEMBER_TWICE
};

/* For the check of Verify, in steps (match/matcher.h): some 50 ms. 19,900 pairs, as 200 members have, may take 50 steps
 * each. */
#define PROPOSAL_STEPS_MAX 1000000u

struct proposal_result {
    enum proposal_status status;
    uint64_t match;       /* PROPOSAL_MATCHED: its number */
    bool is_stale_rules;  /* PROPOSAL_STALE: the rules are newer, not a member */
    bool is_wrong_weight; /* PROPOSAL_INVALID: the sum, or no division into teams */
    bool is_too_large;    /* PROPOSAL_INVALID: the members' texts are together larger than TICKET_GROUP_SIZE_MAX */
    /* PROPOSAL_BY_RULES; PROPOSAL_INVALID with PAIR_DEAR, if the check needs more than PROPOSAL_STEPS_MAX; the cost in
     * all cases */
    struct pair_check check;
    uint8_t faults[RULES_WEIGHT_MAX];   /* enum member_fault, by member */
    uint32_t tickets[RULES_WEIGHT_MAX]; /* slots, by member; 0: unknown */
};

/* The commit check, in the order of docs/reference/actions/ProposeMatches.md; on PROPOSAL_MATCHED the match is made (or
 * held), else nothing has changed. O(members + for Verify members^2), PROPOSAL_STEPS_MAX at most. */
void decide_propose(struct core *core, struct ticket_pool *pool, const struct proposal_command *command,
                    struct proposal_result *result);

enum match_outcome { MATCH_DONE, MATCH_WAITS, MATCH_WAS_MADE, MATCH_IS_UNDONE, MATCH_IS_ACKED, MATCH_IS_UNKNOWN };

/* Puts the match back: MATCH_DONE (also if it was before), MATCH_IS_ACKED, MATCH_IS_UNKNOWN. `match` is its number. */
enum match_outcome decide_put_back(struct core *core, struct ticket_pool *pool, uint64_t match);

/* A member of a held match confirms or refuses it. MATCH_WAITS: for others; MATCH_WAS_MADE: by this yes;
 * MATCH_IS_UNDONE: by this no; MATCH_DONE: it had been decided before (too late); MATCH_IS_UNKNOWN: no such match, or
 * no such member. A repeated confirmation gets MATCH_WAITS. */
enum match_outcome decide_confirm(struct core *core, struct ticket_pool *pool, uint64_t match, struct bytes key,
                                  bool accepts);

/* Undoes held matches whose time is over, at most `portion` of them: members that did not answer are cancelled. */
void decide_end_holds(struct core *core, unsigned portion);

/* The record that holds the match is durable, so its members may learn of it. If more than a tenth of their time is
 * over, it begins anew at now_ms. */
void decide_show_hold(struct core *core, uint64_t match, uint64_t now_ms);

#endif
