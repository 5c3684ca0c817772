/* A matcher with tickets of its own, for tests. */
#ifndef TALLY_TESTS_UNIT_MATCH_RIG_H
#define TALLY_TESTS_UNIT_MATCH_RIG_H

#include "base/assert.h"
#include "match/matcher.h"
#include "random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct player {
    struct entry entry;
    struct facts *facts_owned; /* NULL: shared ones */
    bool is_here;
};

struct rig {
    struct rules *rules_owned;
    struct slab players;
    struct matcher matcher;
    uint64_t number;
    uint64_t now_ms;
    struct random random;
};

/* JSON with single quotes for double ones. */
static inline char *rig_quote(const char *text)
{
    char *copy = strdup(text);
    for (char *at = copy; (at = strchr(at, '\'')) != NULL;)
        *at = '"';
    return copy;
}

static inline struct rules *rig_rules(const char *text)
{
    char *json = rig_quote(text);
    struct failure failure = {0};
    struct rules *rules = rules_create(bytes_from_string(json), &failure);
    if (rules == NULL)
        print_message("%s\n%s\n", json, failure.text);
    assert_non_null(rules);
    free(json);
    return rules;
}

static inline void rig_init(struct rig *rig, const char *rules, uint64_t window_ms, uint64_t seed)
{
    memset(rig, 0, sizeof(*rig));
    rig->random.state = seed;
    rig->rules_owned = rig_rules(rules);
    slab_init(&rig->players, sizeof(struct player));
    matcher_init(&rig->matcher, rig->rules_owned, &rig->players, offsetof(struct player, entry), window_ms);
}

static inline struct player *rig_at(const struct rig *rig, uint32_t slot)
{
    return slab_at(&rig->players, slot);
}

static inline struct entry *rig_entry(const struct rig *rig, uint32_t slot)
{
    return &rig_at(rig, slot)->entry;
}

/* Facts of a ticket, from JSON objects; `need` may be NULL. */
static inline struct facts *rig_facts(const struct rig *rig, const char *attributes, const char *need)
{
    char *texts[2] = {rig_quote(attributes), need == NULL ? NULL : rig_quote(need)};
    yyjson_doc *documents[2] = {yyjson_read(texts[0], strlen(texts[0]), 0),
                                need == NULL ? NULL : yyjson_read(texts[1], strlen(texts[1]), 0)};
    assert_non_null(documents[0]);
    struct buffer encoded = {0};
    struct failure failure = {0};
    enum error error = facts_encode(rig->rules_owned, yyjson_doc_get_root(documents[0]),
                                    need == NULL ? NULL : yyjson_doc_get_root(documents[1]), &encoded, &failure);
    if (error != OK)
        print_message("%s %s: %s\n", attributes, need == NULL ? "" : need, failure.text);
    assert_int_equal(error, OK);
    struct facts *facts = facts_create(rig->rules_owned, buffer_bytes(&encoded));
    assert_non_null(facts);
    buffer_deinit(&encoded);
    for (unsigned i = 0; i < 2; i++) {
        yyjson_doc_free(documents[i]);
        free(texts[i]);
    }
    return facts;
}

/* A ticket that is offered now; it is not in the matcher yet. */
static inline uint32_t rig_make(struct rig *rig, struct facts *facts_owned, const struct facts *shared)
{
    uint32_t slot = slab_allocate(&rig->players);
    struct player *player = rig_at(rig, slot);
    player->facts_owned = facts_owned;
    player->is_here = true;
    player->entry = (struct entry){
        .number = ++rig->number,
        .offered_at_ms = rig->now_ms,
        .expires_at_ms = UINT64_MAX,
        .facts = facts_owned != NULL ? facts_owned : shared,
        .weight = 1,
    };
    return slot;
}

static inline uint32_t rig_offer(struct rig *rig, const char *attributes, const char *need)
{
    uint32_t slot = rig_make(rig, rig_facts(rig, attributes, need), NULL);
    matcher_add(&rig->matcher, slot, rig->now_ms, true);
    return slot;
}

static inline void rig_remove(struct rig *rig, uint32_t slot)
{
    struct player *player = rig_at(rig, slot);
    assert_true(player->is_here);
    if (matcher_has(&rig->matcher, slot))
        matcher_remove(&rig->matcher, slot);
    free(player->facts_owned);
    memset(player, 0, sizeof(*player));
    slab_free(&rig->players, slot);
}

static inline bool rig_is_here(const struct rig *rig, uint32_t slot)
{
    return slot < rig->players.slot_end && matcher_has(&rig->matcher, slot);
}

/* Looks until a group is found (true) or nothing is left, with a random budget up to budget_max for each call. */
static inline bool rig_look(struct rig *rig, uint32_t budget_max, struct matcher_group *group)
{
    for (unsigned calls = 0;; calls++) {
        assert_true(calls < 1000000);
        uint32_t budget = 1 + random_below(&rig->random, budget_max);
        enum matcher_outcome outcome = matcher_look(&rig->matcher, rig->now_ms, &budget, group);
        if (outcome != MATCHER_TIRED)
            return outcome == MATCHER_FOUND;
    }
}

/* The steps that are due. */
static inline void rig_step(struct rig *rig)
{
    uint32_t slot, level;
    while ((slot = matcher_take_step(&rig->matcher, rig->now_ms, &level)) != 0)
        if (level != rig_entry(rig, slot)->level)
            matcher_widen(&rig->matcher, slot, level, rig->now_ms);
}

static inline void rig_deinit(struct rig *rig)
{
    matcher_check(&rig->matcher);
    for (uint32_t slot = 1; slot < rig->players.slot_end; slot++)
        if (rig_is_here(rig, slot))
            rig_remove(rig, slot);
    matcher_check(&rig->matcher);
    assert_int_equal(rig->matcher.count, 0);
    matcher_deinit(&rig->matcher);
    slab_deinit(&rig->players);
    rules_destroy(rig->rules_owned);
}

static inline bool rig_fits(const struct rig *rig, uint32_t a, uint32_t b)
{
    struct pair_check check = {0};
    return pair_fits(rig->rules_owned, rig_entry(rig, a), rig_entry(rig, b), &check);
}

#endif
