/* Rules: what a pool says about which tickets fit together (docs/reference/pool-rules.md), read from JSON and
 * compiled.
 *
 * The text is an object with the members attrs (or Attributes), rules (Rules), size (Size) or teams (Teams), and pick
 * (Pick), all optional; others are passed over, so that the same file serves to create a pool and to match with. A
 * rule, a step or a team with a member that is not known is refused: a misspelt one must not be silent. Rules never
 * change; a pool that gets new ones compiles them anew. Pure. */
#ifndef TALLY_MATCH_RULES_H
#define TALLY_MATCH_RULES_H

#include "base/buffer.h"
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

#define RULES_TEXT_SIZE_MAX 65536u
#define RULES_ATTRIBUTES_MAX 32u
#define RULES_MAX 32u
#define RULES_STEPS_MAX 8u   /* of one rule */
#define RULES_LEVELS_MAX 16u /* of all rules together, the level before the first step among them */
#define RULES_PAIRS_MAX 256u /* of one rule */
#define RULES_TEAMS_MAX 16u
#define RULES_WEIGHT_MAX 200u /* of a whole match, and so the most members that one can have */
#define RULES_NAME_SIZE_MAX 80u
#define RULES_DURATION_MAX_MS 31536000000u /* a year */
#define RULES_TEXT_VALUE_SIZE_MAX 256u

struct expression;

enum attribute_type { ATTRIBUTE_NUMBER, ATTRIBUTE_TEXT, ATTRIBUTE_SET };

/* What tickets may say. */
struct ticket_attribute {
    struct bytes name; /* lives as long as the rules, as all views here */
    enum attribute_type type;
};

enum rule_type { RULE_EQUAL, RULE_DIFFER, RULE_PAIRS, RULE_NEAR, RULE_SHARE, RULE_EXPRESSION, RULE_TEAM_NEAR };

/* A bound that is off: the rule does not count at that level. */
#define RULE_OFF (-1.0)

struct rule_pair {
    struct bytes first;
    struct bytes second;
    uint64_t first_hash; /* bytes_hash() */
    uint64_t second_hash;
};

struct rule {
    enum rule_type type;
    uint32_t attribute;             /* its index; of an expression 0 */
    bool may_be_missing;            /* "missing": "any" */
    bool is_either;                 /* "agree": "either" */
    double bound[RULES_LEVELS_MAX]; /* near, team_near: max; share: min; by level; RULE_OFF. All levels are filled */
    struct rule_pair *pairs_owned;
    uint32_t pair_count;
    struct expression *expression_owned;
    struct bytes label; /* for people: "near(mmr)", "expr(a.ping + b.ping <= 150)" */
};

struct team {
    struct bytes name;
    uint32_t size; /* weight */
};

enum pick { PICK_OLDEST, PICK_FIRST, PICK_NEAREST, PICK_SCORE };

struct rules {
    struct bytes text_owned;
    struct ticket_attribute attributes[RULES_ATTRIBUTES_MAX];
    uint32_t attribute_count;
    struct rule rules[RULES_MAX];
    uint32_t rule_count;
    uint64_t after_ms[RULES_LEVELS_MAX]; /* age at which each level begins, rising; [0] is 0 */
    uint32_t level_count;                /* at least 1 */
    struct team teams[RULES_TEAMS_MAX];  /* without "teams" one, without a name */
    uint32_t team_count;
    bool has_teams;
    uint32_t weight;    /* of a whole match; 0: any ("size": 0) */
    uint32_t party_max; /* the greatest weight that a ticket may have */
    enum pick pick;
    uint32_t pick_attribute;             /* PICK_NEAREST */
    struct expression *pick_score_owned; /* PICK_SCORE */
    void *names_owned;                   /* what the views point into */
};

/* Reads and compiles; copies the text. NULL with `failure` filled (ERROR_INVALID_PARAMETER_VALUE, with what is wrong
 * and where, like "rules[2].max must be a number"). O(text). */
struct rules *rules_create(struct bytes json, struct failure *failure);
void rules_destroy(struct rules *rules);

/* Index of the attribute, or -1. */
int rules_attribute(const struct rules *rules, struct bytes name);

/* May tickets made under `old` live on under these: are all of old's attributes here, with the same index and type? */
bool rules_extend(const struct rules *rules, const struct rules *old);

/* The level of a ticket of that age; and the age at which it reaches the level after `level`, UINT64_MAX: never. */
uint32_t rules_level(const struct rules *rules, uint64_t age_ms);
uint64_t rules_step_ms(const struct rules *rules, uint32_t level);

/* How the rules are searched, in words, like "bucket(mode) -> window(mmr) -> filter(user, maps, expr)"; and what should
 * be said about them, nothing if all is well (DescribePool: Plan, Warnings). */
void rules_plan(const struct rules *rules, struct buffer *out);
bool rules_warning(const struct rules *rules, struct buffer *out);

#endif
