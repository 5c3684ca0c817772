/* How matches come about in the core: the commit check, the built-in matcher, and events that don't fit. The MR numbers
 * are those of the design's races and failures. */
#include "core_match.h"

/* --- the commit check --------------------------------------------------------------------------------------------- */

static void MR1_of_two_proposals_with_a_common_ticket_one_is_matched(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    offer_all(&rig, pool, "abcd");
    uint64_t number = match(&rig, pool, "first", "a:1 b:1");
    struct proposal_result result;
    assert_int_equal(pool_rig_propose(&rig, pool, "second", "b:1 c:1", &result), PROPOSAL_CONFLICT);
    assert_true(result.faults[0] == MEMBER_MATCHED && result.faults[1] == MEMBER_IS_GOOD);
    assert_true(ticket_at(&pool->tickets, result.tickets[0])->match == number);
    assert_true(waits(pool, "c", 1) && pool->tally.conflicts == 1 && pool_rig_ticket(pool, "c")->conflicts == 1);
    assert_int_equal(pool_rig_count_messages(&rig, "results"), 1);
    match(&rig, pool, "third", "c:1 d:1"); /* the one that is left over can be found again */
    assert_true(pool->counts.matched == 4 && pool->matches == 2 && pool->counts.waiting == 0);
    close_rig(&rig);
}

static void MR2_one_pair_proposed_by_two_has_one_result(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    offer_all(&rig, pool, "ab");
    uint64_t number = match(&rig, pool, "mine", "a:1 b:1");
    struct proposal_result result;
    assert_int_equal(pool_rig_propose(&rig, pool, "yours", "a:1 b:1", &result), PROPOSAL_CONFLICT);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(result.faults[i], MEMBER_MATCHED);
        assert_true(ticket_at(&pool->tickets, result.tickets[i])->match == number);
    }
    assert_int_equal(count_results(&rig, number), 1);
    close_rig(&rig);
}

static void MR3_MR4_a_proposal_is_known_by_its_id_and_content_as_long_as_its_match_is(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    offer_all(&rig, pool, "abcd");
    uint64_t number = match(&rig, pool, "p", "a:1 b:1");
    assert_true(match(&rig, pool, "p", "a:1 b:1") == number);
    struct proposal_result result;
    static const char *others[] = {"c:1 d:1", "b:1 a:1", "a:1 b:2", "a:1"};
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pool_rig_propose(&rig, pool, "p", others[i], &result), PROPOSAL_KEY_REUSED);
    assert_int_equal(pool_rig_propose_with(&rig, pool, "p", "a:1 b:1", "", 0, &result), PROPOSAL_KEY_REUSED);
    assert_true(waits(pool, "c", 1) && waits(pool, "d", 1));
    assert_int_equal(count_results(&rig, number), 1);

    struct content content;
    struct handle handle;
    assert_true(pool_rig_take(&rig, "results", &content, &handle));
    assert_int_equal(pool_rig_delete(&rig, "results", &handle), OK);
    assert_true(match(&rig, pool, "p", "a:1 b:1") == number); /* its message has gone, but not what is known of it */
    pool_rig_pass(&rig, UINT64_C(86402) * 1000);
    assert_int_equal(pool_rig_propose(&rig, pool, "p", "a:1 b:1", &result), PROPOSAL_INVALID);
    assert_true(result.faults[0] == MEMBER_UNKNOWN && result.faults[1] == MEMBER_UNKNOWN);
    close_rig(&rig);
}

static void MR3_a_proposal_is_known_after_a_restart(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    offer_all(&rig, pool, "abcd");
    uint64_t number = match(&rig, pool, "p", "a:1 b:1");
    struct core *live = rig.core;
    rig.core = core_rig_replay(&rig);
    core_destroy(live);
    pool = ticket_pool_find(rig.core, BYTES("duel"));
    assert_true(match(&rig, pool, "p", "a:1 b:1") == number);
    struct proposal_result result;
    assert_int_equal(pool_rig_propose(&rig, pool, "p", "c:1 d:1", &result), PROPOSAL_KEY_REUSED);
    assert_int_equal(pool_rig_propose(&rig, pool, "q", "a:1 c:1", &result), PROPOSAL_CONFLICT);
    assert_int_equal(count_results(&rig, number), 1);
    close_rig(&rig);
}

static void MR5_of_cancel_and_match_the_first_one_counts(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    offer_all(&rig, pool, "abcd");
    struct proposal_result result;
    assert_int_equal(pool_rig_cancel(&rig, pool, "a"), TICKET_DONE);
    assert_int_equal(pool_rig_propose(&rig, pool, "p", "a:1 b:1", &result), PROPOSAL_CONFLICT);
    assert_int_equal(result.faults[0], MEMBER_CANCELLED);
    uint64_t number = match(&rig, pool, "p", "b:1 c:1"); /* what was refused is not remembered */
    assert_int_equal(pool_rig_cancel(&rig, pool, "b"), TICKET_IS_TAKEN);
    assert_true(pool_rig_ticket(pool, "b")->match == number);
    assert_int_equal(pool_rig_cancel(&rig, pool, "a"), TICKET_IS_CANCELLED);
    close_rig(&rig);
}

static struct pool_spec with_expiries(struct pool_spec spec)
{
    spec.expiry_queue = spec.result_queue + 1;
    return spec;
}

static void MR6_of_expiry_and_match_the_first_one_counts_and_the_expired_are_told_of_once(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, with_expiries, PAIRS);
    const char *keys[] = {"a", "b \"c\"", "d", "e"};
    for (unsigned i = 0; i < 4; i++) {
        const struct pool_rig_ticket ticket = {
            .key = keys[i], .attributes = "{'mmr':1500}", .body = "\"it\\", .ttl_s = 5};
        assert_true(pool_rig_offer(&rig, pool, &ticket) != 0);
    }
    rig.now_ms += 5000; /* its time is over, but the log does not say so: it may still be matched */
    match(&rig, pool, "p", "d:1 e:1");
    pool_rig_pass(&rig, 10);
    struct proposal_result result;
    assert_int_equal(pool_rig_propose(&rig, pool, "q", "a:1 d:1", &result), PROPOSAL_CONFLICT);
    assert_true(result.faults[0] == MEMBER_EXPIRED && result.faults[1] == MEMBER_MATCHED);
    assert_true(state_of(pool, keys[1]) == TICKET_EXPIRED && pool->counts.expired == 2);
    assert_int_equal(pool_rig_count_messages(&rig, "expired"), 2);

    struct content content;
    struct handle handle;
    assert_true(pool_rig_take(&rig, "expired", &content, &handle));
    assert_true(bytes_equal(content.body, BYTES("{\"pool\":\"duel\",\"ticket\":\"a\",\"attributes\":{\"mmr\":1500},"
                                                "\"body\":\"\\\"it\\\\\",\"waitedMs\":5010}")));
    assert_true(pool_rig_take(&rig, "expired", &content, &handle));
    assert_true(bytes_starts_with(content.body, BYTES("{\"pool\":\"duel\",\"ticket\":\"b \\\"c\\\"\",\"attr")));
    assert_false(pool_rig_take(&rig, "expired", &content, &handle));
    close_rig(&rig);
}

static void MR7_a_proposal_of_an_older_version_retires_nothing(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    offer_all(&rig, pool, "abc");
    assert_int_equal(pool_rig_update(&rig, pool, "a", "{'mmr':1600}"), TICKET_DONE);
    struct proposal_result result;
    assert_int_equal(pool_rig_propose(&rig, pool, "p", "a:1 b:1", &result), PROPOSAL_STALE);
    assert_true(result.faults[0] == MEMBER_STALE && result.faults[1] == MEMBER_IS_GOOD && !result.is_stale_rules);
    assert_true(waits(pool, "a", 2) && waits(pool, "b", 1) && pool->tally.stale == 1);
    assert_int_equal(pool_rig_count_messages(&rig, "results"), 0);
    /* Where one is in conflict, those that are stale are named besides. */
    assert_int_equal(pool_rig_cancel(&rig, pool, "c"), TICKET_DONE);
    assert_int_equal(pool_rig_propose(&rig, pool, "p", "c:1 a:1", &result), PROPOSAL_CONFLICT);
    assert_true(result.faults[0] == MEMBER_CANCELLED && result.faults[1] == MEMBER_STALE);
    match(&rig, pool, "p", "a:2 b:1");
    close_rig(&rig);
}

static void MR8_without_one_of_its_members_a_proposal_retires_none(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, NULL, "{'Attributes':{'mmr':'num'},'Size':4}");
    offer_all(&rig, pool, "abcd");
    uint64_t offered_at_ms = pool_rig_ticket(pool, "a")->entry.offered_at_ms;
    rig.now_ms += 777;
    assert_int_equal(pool_rig_cancel(&rig, pool, "d"), TICKET_DONE);
    struct proposal_result result;
    assert_int_equal(pool_rig_propose(&rig, pool, "p", "a:1 b:1 c:1 d:1", &result), PROPOSAL_CONFLICT);
    assert_true(waits(pool, "a", 1) && waits(pool, "b", 1) && waits(pool, "c", 1));
    assert_true(pool_rig_ticket(pool, "a")->entry.offered_at_ms == offered_at_ms);
    assert_int_equal(pool_rig_count_messages(&rig, "results"), 0);
    close_rig(&rig);
}

static void MR36_a_proposal_without_shape_is_invalid(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    struct pool_spec other_spec = pool_rig_spec(&rig, PAIRS);
    struct ticket_pool *other = pool_rig_put(&rig, "other", &other_spec);
    offer_all(&rig, pool, "abc");
    offer(&rig, other, "x");
    static const struct {
        const char *members;
        enum member_fault fault; /* of the second */
    } rows[] = {{"a:1 a:1", MEMBER_TWICE}, {"a:1 z:1", MEMBER_UNKNOWN}, {"a:1 x:1", MEMBER_UNKNOWN},
                {"", MEMBER_IS_GOOD},      {"a:1", MEMBER_IS_GOOD},     {"a:1 b:1 c:1", MEMBER_IS_GOOD}};
    for (unsigned i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct proposal_result result;
        assert_int_equal(pool_rig_propose(&rig, pool, "p", rows[i].members, &result), PROPOSAL_INVALID);
        assert_int_equal(result.faults[1], rows[i].fault);
        assert_int_equal(result.is_wrong_weight, i >= 4);
    }
    assert_true(pool->counts.waiting == 3 && pool_rig_count_messages(&rig, "results") == 0);
    close_rig(&rig);
}

static void MR36_members_that_are_over_for_good_are_a_conflict_whatever_they_weighed(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    offer_all(&rig, pool, "abc");
    match(&rig, pool, "p", "a:1 b:1");
    struct content content;
    struct handle handle;
    assert_true(pool_rig_take(&rig, "results", &content, &handle));
    assert_int_equal(pool_rig_delete(&rig, "results", &handle), OK);
    struct proposal_result result;
    assert_int_equal(pool_rig_propose(&rig, pool, "q", "a:1 c:1", &result), PROPOSAL_CONFLICT);
    assert_int_equal(result.faults[0], MEMBER_MATCHED);
    close_rig(&rig);
}

static void MR29_a_full_result_queue_is_found_before_anything_is_retired(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, full_at_two, PAIRS);
    offer_all(&rig, pool, "abcdef");
    match(&rig, pool, "p", "a:1 b:1");
    match(&rig, pool, "q", "c:1 d:1");
    struct proposal_result result;
    assert_int_equal(pool_rig_propose(&rig, pool, "r", "e:1 f:1", &result), PROPOSAL_RESULT_FULL);
    assert_true(waits(pool, "e", 1) && waits(pool, "f", 1));
    assert_int_equal(pool_rig_propose(&rig, pool, "r", "e:1 a:1", &result), PROPOSAL_CONFLICT);
    struct content content;
    struct handle handle;
    assert_true(pool_rig_take(&rig, "results", &content, &handle));
    assert_int_equal(pool_rig_propose(&rig, pool, "r", "e:1 f:1", &result), PROPOSAL_RESULT_FULL);
    assert_int_equal(pool_rig_delete(&rig, "results", &handle), OK);
    match(&rig, pool, "r", "e:1 f:1");
    close_rig(&rig);
}

static struct pool_spec verifying(struct pool_spec spec)
{
    spec.verifies = true;
    return spec;
}

static void MR34_an_expression_that_fails_for_a_proposal_is_counted(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool =
        open_with(&rig, verifying, "{'attrs':{'mmr':'num'},'rules':[{'type':'expr','expr':'1 / a.mmr + b.mmr > 0'}]}");
    const char *const keys[] = {"one", "two", "zero"}, *const said[] = {"{'mmr':1}", "{'mmr':2}", "{'mmr':0}"};
    for (unsigned i = 0; i < 3; i++)
        pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = keys[i], .attributes = said[i]});
    struct proposal_result result;
    assert_int_equal(pool_rig_propose(&rig, pool, "p", "one:1 zero:1", &result), PROPOSAL_BY_RULES);
    assert_int_equal(pool->matcher.counters.expression_errors, 1);
    match(&rig, pool, "q", "one:1 two:1");
    assert_int_equal(pool->matcher.counters.expression_errors, 1);
    close_rig(&rig);
}

static void MR35_a_proposal_under_older_rules_is_verified_anew_or_stale(void **state)
{
    (void)state;
    for (unsigned verifies = 0; verifies < 2; verifies++) {
        struct core_rig rig;
        struct ticket_pool *pool = open_with(&rig, verifies ? verifying : NULL, PAIRS);
        offer_all(&rig, pool, "ab");
        assert_true(pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = "far", .attributes = "{'mmr':9}"}));
        struct pool_spec spec = pool->spec;
        struct proposal_result result;
        enum proposal_status unfit = pool_rig_propose_with(&rig, pool, "p", "a:1 far:1", NULL, 1, &result);
        assert_int_equal(unfit,
                         verifies ? PROPOSAL_BY_RULES : PROPOSAL_MATCHED); /* else he may propose what he likes */
        if (verifies)
            assert_true(result.check.verdict == PAIR_RULE && result.check.rule == 0);
        else
            offer(&rig, pool, "c");
        spec.rules = pool_rig_spec(&rig, "{'Attributes':{'mode':'str','mmr':'num'}}").rules;
        pool_rig_put(&rig, "duel", &spec);
        const char *members = verifies ? "a:1 b:1" : "b:1 c:1";
        enum proposal_status status = pool_rig_propose_with(&rig, pool, "q", members, NULL, 1, &result);
        assert_int_equal(status, verifies ? PROPOSAL_MATCHED : PROPOSAL_STALE);
        assert_int_equal(result.is_stale_rules, !verifies);
        if (!verifies)
            assert_int_equal(pool_rig_propose_with(&rig, pool, "q", members, NULL, 2, &result), PROPOSAL_MATCHED);
        close_rig(&rig);
    }
}

/* --- the built-in matcher ----------------------------------------------------------------------------------------- */

static struct pool_spec built_in_and_full_at_two(struct pool_spec spec)
{
    return built_in(full_at_two(spec));
}

static void the_built_in_matcher_matches_in_the_frame_of_the_offer(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, built_in, PAIRS);
    offer(&rig, pool, "a");
    size_t frames = rig.frame_count;
    offer(&rig, pool, "b");
    assert_int_equal(rig.frame_count, frames + 1);
    assert_true(state_of(pool, "a") == TICKET_MATCHED && state_of(pool, "b") == TICKET_MATCHED);
    uint64_t number = pool_rig_ticket(pool, "a")->match;
    assert_int_equal(count_results(&rig, number), 1);
    assert_int_equal(pool_rig_put_back(&rig, pool, number), MATCH_DONE);
    pool_rig_pass(&rig, 0); /* both are seeds again, and find each other */
    assert_true(state_of(pool, "a") == TICKET_MATCHED && pool_rig_ticket(pool, "a")->match == number + 1);
    close_rig(&rig);
}

/* Which tickets wait is known to the matcher only when it is filled: an offer that comes before must not take who is in
 * it already. */
static void MR35_behind_new_rules_the_highest_priority_is_taken_though_the_matcher_is_still_filled(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool =
        open_with(&rig, built_in, "{'attrs':{'side':'str'},'rules':[{'type':'expr','expr':'a.side != b.side'}]}");
    pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = "urgent", .attributes = "{'side':'a'}", .priority = 9});
    struct pool_spec spec =
        built_in(pool_rig_spec(&rig, "{'attrs':{'side':'str'},'rules':[{'type':'expr','expr':'b.side != a.side'}]}"));
    assert_ptr_equal(pool_rig_put(&rig, "duel", &spec), pool);
    assert_int_not_equal(pool->index_next, 0);
    pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = "plain", .attributes = "{'side':'a'}"});
    pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = "partner", .attributes = "{'side':'b'}"});
    assert_int_equal(core_due_ms(rig.core), 0);
    pool_rig_pass(&rig, 0);
    assert_true(pool->index_next == 0 && state_of(pool, "urgent") == TICKET_MATCHED && waits(pool, "plain", 1));
    close_rig(&rig);
}

static void MR29_the_built_in_matcher_pauses_while_the_result_queue_is_full(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, built_in_and_full_at_two, PAIRS);
    offer_all(&rig, pool, "abcdefgh");
    assert_true(pool->counts.matched == 4 && pool->counts.waiting == 4 && pool->results == 2);
    pool_rig_pass(&rig, 0);
    assert_true(core_due_ms(rig.core) > rig.now_ms && pool->counts.waiting == 4); /* it does not try again and again */
    struct content content;
    struct handle handle;
    for (unsigned i = 0; i < 2; i++) {
        assert_true(pool_rig_take(&rig, "results", &content, &handle));
        assert_int_equal(pool_rig_delete(&rig, "results", &handle), OK);
        assert_int_equal(core_due_ms(rig.core), 0);
        pool_rig_pass(&rig, 0);
        assert_true(pool->counts.matched == 6 + 2 * i && pool->results == 2);
    }
    close_rig(&rig);
}

static struct pool_spec built_in_and_confirming(struct pool_spec spec)
{
    return built_in(confirming(spec));
}

static void MR26_MR31_the_built_in_matcher_holds_and_passes_over_the_others_of_a_held_set(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, built_in_and_confirming, PAIRS);
    offer_in_set(&rig, pool, "a1", "ann");
    offer(&rig, pool, "b");
    assert_true(state_of(pool, "a1") == TICKET_HELD && state_of(pool, "b") == TICKET_HELD);
    uint64_t number = pool_rig_ticket(pool, "b")->match;
    offer_in_set(&rig, pool, "a2", "ann");
    offer(&rig, pool, "c");
    pool_rig_pass(&rig, 0);
    assert_true(waits(pool, "a2", 1) && waits(pool, "c", 1));
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "a1", false), MATCH_IS_UNDONE);
    pool_rig_pass(&rig, 0);
    assert_int_equal(pool->counts.held, 2); /* a2 and one of those two */
    assert_int_equal(state_of(pool, "a2"), TICKET_HELD);
    assert_true(pool->counts.waiting == 1 && pool->counts.cancelled == 1);
    close_rig(&rig);
}

/* --- events that don't fit ---------------------------------------------------------------------------------------- */

/* Would a replay of all that was logged, and then this, go well? */
static bool fits(const struct core_rig *rig, const struct event *event)
{
    struct buffer payload;
    buffer_init(&payload);
    event_encode(event, &payload);
    struct core *core = core_rig_replay(rig);
    struct failure failure;
    bool is_good = core_replay(core, buffer_bytes(&payload), rig->position, rig->now_ms, &failure);
    if (is_good)
        core_check(core);
    core_destroy(core);
    buffer_deinit(&payload);
    return is_good;
}

static bool matched_fits(const struct core_rig *rig, const struct event_matched *matched)
{
    return fits(rig, &(struct event){.kind = EVENT_MATCHED, .matched = *matched});
}

static void append_member(struct buffer *members, const struct ticket_pool *pool, const char *key, uint32_t version,
                          uint8_t team)
{
    buffer_append_u64(members, pool_rig_ticket(pool, key)->entry.number);
    buffer_append_u32(members, version);
    buffer_append_u8(members, team);
}

static struct bytes members_of(struct buffer *members, const struct ticket_pool *pool, const char *first,
                               const char *second, uint32_t version, uint8_t team)
{
    buffer_truncate(members, 0);
    append_member(members, pool, first, 1, 0);
    append_member(members, pool, second, version, team);
    return buffer_bytes(members);
}

static void a_match_that_does_not_fit_the_state_is_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, confirming, PAIRS);
    offer_all(&rig, pool, "abcd");
    offer_in_set(&rig, pool, "e", "set");
    offer_in_set(&rig, pool, "f", "set");
    match(&rig, pool, "p", "c:1 d:1");
    struct buffer members;
    buffer_init(&members);
    const struct event_matched good = {.pool = pool->id,
                                       .match = 2,
                                       .confirm_by_ms = rig.now_ms + 1,
                                       .count = 2,
                                       .members = members_of(&members, pool, "a", "b", 1, 0)};
    assert_true(matched_fits(&rig, &good));
    struct event_matched wrong[10];
    for (unsigned i = 0; i < ARRAY_LENGTH(wrong); i++)
        wrong[i] = good;
    wrong[0].pool++;
    wrong[1].match++;
    wrong[2].message = 1;
    wrong[3].confirm_by_ms = rig.now_ms;
    wrong[4].count = 1;
    wrong[5].count = 0;
    wrong[6].has_body = 2;
    wrong[7].body = BYTES("b");
    wrong[8].proposal = BYTES("p");
    wrong[9].siblings = BYTES("12345678");
    for (unsigned i = 0; i < ARRAY_LENGTH(wrong); i++)
        assert_false(matched_fits(&rig, &wrong[i]));
    static const struct {
        const char *first, *second;
        uint32_t version;
        uint8_t team;
    } rows[] = {{"a", "a", 1, 0}, {"a", "b", 2, 0}, {"a", "b", 1, 1}, {"a", "c", 1, 0}, {"e", "f", 1, 0}};
    for (unsigned i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct event_matched matched = good;
        matched.members = members_of(&members, pool, rows[i].first, rows[i].second, rows[i].version, rows[i].team);
        assert_false(matched_fits(&rig, &matched));
    }
    buffer_deinit(&members);
    close_rig(&rig);
}

static bool undone_fits(const struct core_rig *rig, uint64_t number, uint8_t reason, struct bytes leavers)
{
    return fits(rig, &(struct event){.kind = EVENT_MATCH_UNDONE,
                                     .match_undone = {.match = number, .reason = reason, .leavers = leavers}});
}

static void an_end_of_a_match_that_does_not_fit_the_state_is_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, confirming, PAIRS);
    offer_all(&rig, pool, "abcd");
    uint64_t held = match(&rig, pool, "p", "a:1 b:1"), made = match(&rig, pool, "q", "c:1 d:1");
    assert_int_equal(pool_rig_confirm(&rig, pool, made, "c", true), MATCH_WAITS);
    assert_int_equal(pool_rig_confirm(&rig, pool, made, "d", true), MATCH_WAS_MADE);
    uint8_t second[8], both[16];
    bytes_put_u64(second, pool_rig_ticket(pool, "b")->entry.number);
    memcpy(both, second, 8); /* not in the order of the members */
    bytes_put_u64(both + 8, pool_rig_ticket(pool, "a")->entry.number);
    struct bytes none = {0}, leaver = bytes_make(second, 8);
    assert_true(undone_fits(&rig, held, MATCH_UNDONE_PUT_BACK, none));
    assert_true(undone_fits(&rig, held, MATCH_UNDONE_REFUSED, leaver));
    assert_false(undone_fits(&rig, held, MATCH_UNDONE_PUT_BACK, leaver));
    assert_false(undone_fits(&rig, held, MATCH_UNDONE_TIMED_OUT, none));
    assert_false(undone_fits(&rig, held, MATCH_UNDONE_TIMED_OUT, bytes_make(both, 16)));
    assert_false(undone_fits(&rig, held, 0, none));
    assert_false(undone_fits(&rig, held, 4, leaver));
    assert_false(undone_fits(&rig, held + 9, MATCH_UNDONE_PUT_BACK, none));
    assert_false(undone_fits(&rig, made, MATCH_UNDONE_PUT_BACK, none)); /* its message is still there */
    assert_false(undone_fits(&rig, made, MATCH_UNDONE_REFUSED, leaver));
    assert_false(fits(&rig, &(struct event){.kind = EVENT_CONFIRMED, .confirmed = {.match = held, .member = 2}}));
    assert_false(fits(&rig, &(struct event){.kind = EVENT_CONFIRMED, .confirmed = {.match = made, .member = 0}}));
    assert_false(fits(&rig, &(struct event){.kind = EVENT_MATCH_MADE, .match_made = {.match = held, .message = 1}}));
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(MR1_of_two_proposals_with_a_common_ticket_one_is_matched),
        cmocka_unit_test(MR2_one_pair_proposed_by_two_has_one_result),
        cmocka_unit_test(MR3_MR4_a_proposal_is_known_by_its_id_and_content_as_long_as_its_match_is),
        cmocka_unit_test(MR3_a_proposal_is_known_after_a_restart),
        cmocka_unit_test(MR5_of_cancel_and_match_the_first_one_counts),
        cmocka_unit_test(MR6_of_expiry_and_match_the_first_one_counts_and_the_expired_are_told_of_once),
        cmocka_unit_test(MR7_a_proposal_of_an_older_version_retires_nothing),
        cmocka_unit_test(MR8_without_one_of_its_members_a_proposal_retires_none),
        cmocka_unit_test(MR36_a_proposal_without_shape_is_invalid),
        cmocka_unit_test(MR36_members_that_are_over_for_good_are_a_conflict_whatever_they_weighed),
        cmocka_unit_test(MR29_a_full_result_queue_is_found_before_anything_is_retired),
        cmocka_unit_test(MR34_an_expression_that_fails_for_a_proposal_is_counted),
        cmocka_unit_test(MR35_a_proposal_under_older_rules_is_verified_anew_or_stale),
        cmocka_unit_test(the_built_in_matcher_matches_in_the_frame_of_the_offer),
        cmocka_unit_test(MR35_behind_new_rules_the_highest_priority_is_taken_though_the_matcher_is_still_filled),
        cmocka_unit_test(MR29_the_built_in_matcher_pauses_while_the_result_queue_is_full),
        cmocka_unit_test(MR26_MR31_the_built_in_matcher_holds_and_passes_over_the_others_of_a_held_set),
        cmocka_unit_test(a_match_that_does_not_fit_the_state_is_refused),
        cmocka_unit_test(an_end_of_a_match_that_does_not_fit_the_state_is_refused),
    };
    return cmocka_run_group_tests_name("core match", tests, NULL, NULL);
}
