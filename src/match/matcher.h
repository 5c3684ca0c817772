/* The matcher: an order book of waiting tickets. It keeps their index and knows which ticket to find partners for next.
 * It only finds groups and never makes a match. Its owner (the server's core, `tally match`, `tally pool simulate`)
 * makes the match and removes the members.
 *
 * What must hold (M18): in a pool of pairs no two tickets that are in it fit each other, once no seeds are left. Only
 * an arrival, an own widening step, a put back, an update and new rules can break that, so a ticket becomes a seed then
 * and at no other time. Everything is in memory only and can be built anew. Pure: time is an argument.
 *
 * Deterministic: what it finds depends on the entries, on the order of the calls and on the budgets, not on slots. */
#ifndef TALLY_MATCH_MATCHER_H
#define TALLY_MATCH_MATCHER_H

#include "base/heap.h"
#include "base/slab.h"
#include "match/ordered.h"
#include "match/pair.h"

#define MATCHER_PROBE_MAX 4096u /* steps of one look; then others go first */
#define MATCHER_URGENT_SHARE 10u

struct matcher_counters {
    uint64_t probes;     /* looks begun */
    uint64_t candidates; /* visited */
    uint64_t cost;       /* steps that were charged */
    uint64_t budget_stops;
    uint64_t expression_errors;
};

struct matcher_private; /* index and looks that have stopped: look.h */

struct matcher {
    const struct rules *rules;  /* borrowed */
    const struct slab *records; /* borrowed: where the entries live */
    uint32_t entry_offset;
    uint32_t generation; /* entries with this one are in it */
    uint32_t count;      /* of those */
    struct heap seeds;
    struct heap steps; /* entries by their next step: a widening, or becoming urgent */
    struct matcher_counters counters;
    struct matcher_private *private_owned;
};

/* A group that fits. */
struct matcher_group {
    uint32_t count;
    double score;
    uint32_t slots[RULES_WEIGHT_MAX]; /* the seed first */
    uint8_t teams[RULES_WEIGHT_MAX];
};

/* `records` hold a struct entry at `entry_offset` each; zeroed records are in no matcher. window_ms: 0, or how long
 * what is found is collected before the best is given out. */
void matcher_init(struct matcher *matcher, const struct rules *rules, const struct slab *records, size_t entry_offset,
                  uint64_t window_ms);
void matcher_deinit(struct matcher *matcher);

/* Empties it and sets new rules. The entries are not changed and count as being in no matcher. O(nodes of the index),
 * not O(n). */
void matcher_reset(struct matcher *matcher, const struct rules *rules, uint64_t window_ms);

/* Puts an entry, of which everything but the matcher's own is set, into the index. `is_seed`: it looks for partners.
 * O(log n). */
void matcher_add(struct matcher *matcher, uint32_t slot, uint64_t now_ms, bool is_seed);
/* Takes it out. It must be in. O(log n). */
void matcher_remove(struct matcher *matcher, uint32_t slot);
/* May be called for a freed record, too. */
bool matcher_has(const struct matcher *matcher, uint32_t slot);

/* Makes an entry of the matcher a seed (again). */
void matcher_seed(struct matcher *matcher, uint32_t slot);

/* When a step falls due or a window ends; UINT64_MAX: never. O(1). */
uint64_t matcher_due_ms(const struct matcher *matcher);

/* The next entry whose step is due by now_ms, 0: none. If the step is a widening *level is its new level: the caller
 * makes it known and calls matcher_widen(), perhaps after having taken the steps of others; until then it has no next
 * step. If it only becomes urgent, that happens here: *level is its present level, and it is a seed. */
uint32_t matcher_take_step(struct matcher *matcher, uint64_t now_ms, uint32_t *level);
/* Sets the level, in entry and index; the entry is a seed then. */
void matcher_widen(struct matcher *matcher, uint32_t slot, uint32_t level, uint64_t now_ms);

enum matcher_outcome {
    MATCHER_FOUND, /* *group fits: its owner makes the match and removes the members, before the next look */
    MATCHER_IDLE,  /* no seed is left (but perhaps a window is open) */
    MATCHER_TIRED, /* *budget is used up, and something is left to do */
};

/* Looks on until a group is found or the budget, in steps, is used up. A candidate visited is a step, and so many more
 * as its check takes work (pair_check.work); a look that begins is one, and what its streams take to open comes upon
 * its first candidate. What is begun is done: the budget is overdrawn by one candidate at most. A look for a group of
 * more than two is not interrupted: it goes on to its end or to MATCHER_PROBE_MAX steps, whatever the budget says. What
 * is found and not removed is not looked for again before matcher_seed(). */
enum matcher_outcome matcher_look(struct matcher *matcher, uint64_t now_ms, uint32_t *budget,
                                  struct matcher_group *group);

/* Is something left to do now, by matcher_look()? */
bool matcher_has_work(const struct matcher *matcher, uint64_t now_ms);
uint32_t matcher_seed_count(const struct matcher *matcher);

/* Looks at candidates of an entry, or of one that is in no matcher, for up to `limit` steps, and says of each whether
 * it fits. Changes nothing. Returns whether that was all of them. For explaining. */
bool matcher_survey(const struct matcher *matcher, const struct entry *entry, uint32_t limit,
                    void (*visit)(void *context, uint32_t slot, const struct pair_check *check), void *context);

/* Asserts that index, heaps and entries agree. O(n). */
void matcher_check(const struct matcher *matcher);

#endif
