/* Matches in the core that others have to wait for: those that are to be confirmed, and the others of an exclusive set.
 * The MR numbers are those of the design's races and failures. */
#include "core/decide_namespace.h"
#include "core/queues/decide_queue.h"
#include "core_match.h"

#include "support/core_bytes.h"

/* --- confirming --------------------------------------------------------------------------------------------------- */

static void MR32_the_last_yes_makes_the_match_and_there_is_one_result(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, confirming, PAIRS);
    offer_all(&rig, pool, "abc");
    struct proposal_result result;
    assert_int_equal(pool_rig_propose_with(&rig, pool, "p", "a:1 b:1", "hi", 0, &result), PROPOSAL_MATCHED);
    uint64_t number = result.match;
    assert_true(state_of(pool, "a") == TICKET_HELD && pool->counts.held == 2 && pool->matches == 0);
    assert_int_equal(pool_rig_count_messages(&rig, "results"), 0);
    assert_int_equal(pool_rig_propose(&rig, pool, "q", "b:1 c:1", &result), PROPOSAL_CONFLICT);
    assert_true(result.faults[0] == MEMBER_HELD && pool_rig_cancel(&rig, pool, "a") == TICKET_IS_TAKEN);
    pool_rig_check(&rig);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "c", true), MATCH_IS_UNKNOWN);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "a", true), MATCH_WAITS);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "a", true), MATCH_WAITS);
    pool_rig_check(&rig);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "b", true), MATCH_WAS_MADE);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "b", true), MATCH_DONE);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "b", false), MATCH_DONE);
    assert_true(pool->counts.matched == 2 && pool->counts.held == 0 && pool->matches == 1);
    struct content content;
    struct handle handle;
    assert_true(pool_rig_take(&rig, "results", &content, &handle));
    assert_true(bytes_ends_with(content.body, BYTES("],\"body\":\"hi\"}")));
    assert_false(pool_rig_take(&rig, "results", &content, &handle));
    close_rig(&rig);
}

static void MR31_who_refuses_is_cancelled_and_the_others_wait_again(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, confirming, PAIRS);
    offer_all(&rig, pool, "ab");
    uint64_t offered_at_ms = pool_rig_ticket(pool, "b")->entry.offered_at_ms;
    uint64_t number = match(&rig, pool, "p", "a:1 b:1");
    rig.now_ms += 5000;
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "a", false), MATCH_IS_UNDONE);
    assert_true(state_of(pool, "a") == TICKET_CANCELLED && waits(pool, "b", 2));
    assert_true(pool_rig_ticket(pool, "b")->entry.offered_at_ms == offered_at_ms);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "b", true), MATCH_DONE);
    assert_int_equal(pool_rig_put_back(&rig, pool, number), MATCH_DONE);
    assert_true(waits(pool, "b", 2) && pool->put_backs == 0);
    assert_true(pool->counts.offered == pool->counts.waiting + pool->counts.cancelled); /* M28 */
    close_rig(&rig);
}

static void MR31_who_does_not_answer_in_time_is_cancelled(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, confirming, PAIRS);
    offer_all(&rig, pool, "abcd");
    uint64_t first = match(&rig, pool, "p", "a:1 b:1"), second = match(&rig, pool, "q", "c:1 d:1");
    assert_int_equal(pool_rig_confirm(&rig, pool, first, "b", true), MATCH_WAITS);
    pool_rig_pass(&rig, 9999);
    assert_int_equal(state_of(pool, "a"), TICKET_HELD);
    rig.now_ms += 1; /* nobody has come to end it yet, but a yes is too late now */
    assert_int_equal(pool_rig_confirm(&rig, pool, first, "a", true), MATCH_DONE);
    assert_true(state_of(pool, "a") == TICKET_CANCELLED && waits(pool, "b", 2));
    pool_rig_pass(&rig, 0);
    assert_true(state_of(pool, "c") == TICKET_CANCELLED && state_of(pool, "d") == TICKET_CANCELLED);
    assert_int_equal(pool_rig_confirm(&rig, pool, second, "d", true), MATCH_DONE);
    assert_int_equal(pool_rig_count_messages(&rig, "results"), 0);
    close_rig(&rig);
}

static void MR31_those_who_are_to_confirm_have_time_again_after_a_restart(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, confirming, PAIRS);
    offer_all(&rig, pool, "ab");
    uint64_t number = match(&rig, pool, "p", "a:1 b:1");
    decide_restart(core_rig_begin(&rig), 2, rig.now_ms + 60000);
    core_rig_end(&rig);
    rig.now_ms += 60000;
    pool_rig_pass(&rig, 0);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "a", true), MATCH_WAITS);
    pool_rig_pass(&rig, 9999);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "b", true), MATCH_WAS_MADE);
    close_rig(&rig);
}

/* The teams of a held match were those of the rules of then. */
static void MR35_a_held_match_that_new_teams_do_not_have_is_undone_by_its_last_yes(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, confirming,
                                         "{'Attributes':{'mmr':'num'},'Teams':[{'name':'red','size':1},"
                                         "{'name':'green','size':1},{'name':'blue','size':1}]}");
    offer_all(&rig, pool, "abc");
    uint64_t number = match(&rig, pool, "p", "a:1 b:1 c:1");
    struct pool_spec spec = confirming(
        pool_rig_spec(&rig, "{'Attributes':{'mmr':'num'},'Teams':[{'name':'red','size':2},{'name':'blue','size':1}]}"));
    pool_rig_put(&rig, "duel", &spec);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "a", true), MATCH_WAITS);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "b", true), MATCH_WAITS);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "c", true), MATCH_IS_UNDONE);
    assert_true(waits(pool, "a", 2) && waits(pool, "b", 2) && waits(pool, "c", 2));
    assert_int_equal(pool_rig_count_messages(&rig, "results"), 0);
    close_rig(&rig);
}

static void a_held_match_can_be_put_back_and_then_nobody_is_cancelled(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, confirming, PAIRS);
    offer_all(&rig, pool, "ab");
    uint64_t number = match(&rig, pool, "p", "a:1 b:1");
    assert_int_equal(pool_rig_put_back(&rig, pool, number), MATCH_DONE);
    assert_true(waits(pool, "a", 2) && waits(pool, "b", 2));
    pool_rig_pass(&rig, 20000);
    assert_true(waits(pool, "a", 2) && core_due_ms(rig.core) > rig.now_ms);
    close_rig(&rig);
}

static struct pool_spec confirming_and_full_at_two(struct pool_spec spec)
{
    return confirming(full_at_two(spec));
}

static void MR29_a_held_match_has_its_place_in_the_result_queue(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, confirming_and_full_at_two, PAIRS);
    offer_all(&rig, pool, "abcdef");
    uint64_t first = match(&rig, pool, "p", "a:1 b:1");
    uint64_t second = match(&rig, pool, "q", "c:1 d:1");
    struct proposal_result result;
    assert_int_equal(pool_rig_propose(&rig, pool, "r", "e:1 f:1", &result), PROPOSAL_RESULT_FULL);
    assert_int_equal(pool_rig_confirm(&rig, pool, first, "a", true), MATCH_WAITS);
    assert_int_equal(pool_rig_confirm(&rig, pool, first, "b", true), MATCH_WAS_MADE);
    assert_int_equal(pool_rig_propose(&rig, pool, "r", "e:1 f:1", &result), PROPOSAL_RESULT_FULL);
    assert_int_equal(pool_rig_confirm(&rig, pool, second, "c", false), MATCH_IS_UNDONE);
    match(&rig, pool, "r", "e:1 f:1");
    close_rig(&rig);
}

/* --- exclusive sets ----------------------------------------------------------------------------------------------- */

static void MR26_the_record_that_matches_a_ticket_cancels_the_others_of_its_exclusive_set(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    offer_in_set(&rig, pool, "a1", "ann");
    offer_in_set(&rig, pool, "a2", "ann");
    offer_in_set(&rig, pool, "b1", "bob");
    offer_in_set(&rig, pool, "b2", "bob");
    offer_in_set(&rig, pool, "b3", "bob");
    offer(&rig, pool, "c");
    struct proposal_result result;
    assert_int_equal(pool_rig_propose(&rig, pool, "p", "a1:1 a2:1", &result), PROPOSAL_CONFLICT);
    assert_true(result.faults[0] == MEMBER_EXCLUSIVE && result.faults[1] == MEMBER_EXCLUSIVE);
    size_t frames = rig.frame_count;
    uint64_t number = match(&rig, pool, "q", "a1:1 b2:1");
    assert_int_equal(rig.frame_count, frames + 1);
    assert_true(state_of(pool, "a2") == TICKET_CANCELLED && state_of(pool, "b1") == TICKET_CANCELLED);
    assert_true(state_of(pool, "b3") == TICKET_CANCELLED && pool->counts.cancelled == 3);
    assert_int_equal(pool_rig_propose(&rig, pool, "r", "a2:1 c:1", &result), PROPOSAL_CONFLICT);
    assert_int_equal(result.faults[0], MEMBER_CANCELLED);

    /* A newcomer of the set waits until what was matched can no longer come back. */
    offer_in_set(&rig, pool, "a3", "ann");
    assert_int_equal(pool_rig_propose(&rig, pool, "s", "a3:1 c:1", &result), PROPOSAL_CONFLICT);
    assert_int_equal(result.faults[0], MEMBER_EXCLUSIVE);
    pool_rig_check(&rig);
    assert_int_equal(pool_rig_put_back(&rig, pool, number), MATCH_DONE);
    assert_true(waits(pool, "a1", 2) && waits(pool, "a3", 1) && state_of(pool, "a2") == TICKET_CANCELLED);
    match(&rig, pool, "t", "a3:1 c:1");
    assert_true(state_of(pool, "a1") == TICKET_CANCELLED && waits(pool, "b2", 2));
    close_rig(&rig);
}

static void end_result(struct core_rig *rig, unsigned how)
{
    struct content content;
    struct handle handle;
    if (how == 0) {
        assert_true(pool_rig_take(rig, "results", &content, &handle));
        assert_int_equal(pool_rig_delete(rig, "results", &handle), OK);
    } else if (how == 1) {
        core_rig_begin(rig);
        decide_purge_queue(rig->core, core_find_queue(rig->core, BYTES("results")));
        core_rig_end(rig);
        pool_rig_pass(rig, 0);
    } else {
        pool_rig_pass(rig, UINT64_C(345600) * 1000 + 1);
    }
}

static void MR26_who_came_into_a_set_behind_its_match_is_cancelled_when_the_result_ends(void **state)
{
    (void)state;
    for (unsigned how = 0; how < 3; how++) {
        struct core_rig rig;
        struct ticket_pool *pool = open_with(&rig, built_in, PAIRS);
        offer_in_set(&rig, pool, "a1", "ann");
        offer_in_set(&rig, pool, "b1", "bob");
        assert_true(state_of(pool, "a1") == TICKET_MATCHED && state_of(pool, "b1") == TICKET_MATCHED);
        offer_in_set(&rig, pool, "a2", "ann");
        offer_in_set(&rig, pool, "a3", "ann");
        offer_in_set(&rig, pool, "b2", "bob");
        offer(&rig, pool, "c");
        feed_begin(&pool->feed);
        pool_rig_check(&rig);
        end_result(&rig, how);
        assert_true(state_of(pool, "a2") == TICKET_CANCELLED && state_of(pool, "a3") == TICKET_CANCELLED);
        assert_true(state_of(pool, "b2") == TICKET_CANCELLED && pool->counts.cancelled == 3);
        assert_true(waits(pool, "c", 1) && pool->sets.used == 0);
        for (uint64_t number = pool->feed.first; number <= pool->feed.last; number++)
            assert_true(feed_at(&pool->feed, number)->kind == FEED_RETIRE &&
                        feed_at(&pool->feed, number)->reason == FEED_BY_CANCEL);
        assert_int_equal(pool->feed.last - pool->feed.first + 1, 3);
        offer_in_set(&rig, pool, "a4", "ann"); /* the set is a new one */
        assert_true(state_of(pool, "a4") == TICKET_MATCHED && state_of(pool, "c") == TICKET_MATCHED);
        close_rig(&rig);
    }
}

static void MR26_while_one_of_an_exclusive_set_is_held_the_others_wait_and_can_t_be_matched(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, confirming, PAIRS);
    offer_in_set(&rig, pool, "a1", "ann");
    offer_in_set(&rig, pool, "a2", "ann");
    offer_all(&rig, pool, "bc");
    uint64_t number = match(&rig, pool, "p", "a1:1 b:1");
    struct proposal_result result;
    assert_true(waits(pool, "a2", 1));
    assert_int_equal(pool_rig_propose(&rig, pool, "q", "a2:1 c:1", &result), PROPOSAL_CONFLICT);
    assert_int_equal(result.faults[0], MEMBER_EXCLUSIVE);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "b", false), MATCH_IS_UNDONE);
    number = match(&rig, pool, "q", "a2:1 c:1");
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "c", true), MATCH_WAITS);
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "a2", true), MATCH_WAS_MADE);
    assert_int_equal(state_of(pool, "a1"), TICKET_CANCELLED);
    close_rig(&rig);
}

/* Two proposals, of which the second one is given the first one's id. */
static void a_proposal_that_two_matches_have_is_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, confirming, PAIRS);
    offer_all(&rig, pool, "abcd");
    match(&rig, pool, "one proposal", "a:1 b:1");
    match(&rig, pool, "two proposal", "c:1 d:1");
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    uint8_t *id = memmem(encoded.data_owned, encoded.size, "two proposal", 12);
    assert_non_null(id);
    for (unsigned round = 0; round < 2; round++) {
        struct core *core = core_create();
        assert_int_equal(core_bytes_decode(core, buffer_bytes(&encoded)), round == 0);
        core_destroy(core);
        memcpy(id, "one", 3);
    }
    buffer_deinit(&encoded);
    close_rig(&rig);
}

/* Is the state read if the held match of two, whose members begin at `at`, has a third one that is this? */
static bool is_read_with_member(const struct buffer *encoded, size_t at, uint64_t ticket, uint8_t team,
                                uint8_t has_confirmed)
{
    struct buffer longer;
    buffer_init(&longer);
    buffer_append_bytes(&longer, bytes_make(encoded->data_owned, at + 20));
    bytes_put_u32(longer.data_owned + at - 4, 3);
    buffer_append_u64(&longer, ticket);
    buffer_append_u8(&longer, team);
    buffer_append_u8(&longer, has_confirmed);
    buffer_append_bytes(&longer, bytes_make(encoded->data_owned + at + 20, encoded->size - at - 20));
    struct core *core = core_create();
    bool is_read = core_bytes_decode(core, buffer_bytes(&longer));
    core_destroy(core);
    buffer_deinit(&longer);
    return is_read;
}

/* It stands last, so that all would be well again if it were passed over. */
static void a_member_that_a_held_match_can_not_have_is_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, confirming, PAIRS);
    offer_all(&rig, pool, "abcd");
    match(&rig, pool, "p", "a:1 b:1");
    uint64_t first = pool_rig_ticket(pool, "a")->entry.number, second = pool_rig_ticket(pool, "b")->entry.number;
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    uint8_t members[24] = {2}; /* how many; ticket, team, has_confirmed; twice */
    bytes_put_u64(members + 4, first);
    bytes_put_u64(members + 14, second);
    const uint8_t *found = memmem(encoded.data_owned, encoded.size, members, sizeof(members));
    assert_non_null(found);
    size_t at = (size_t)(found - encoded.data_owned) + 4;
    assert_false(is_read_with_member(&encoded, at, first, 0, 0));
    assert_false(is_read_with_member(&encoded, at, second, 0, 0));
    assert_false(is_read_with_member(&encoded, at, pool_rig_ticket(pool, "c")->entry.number, 0, 0));
    assert_false(is_read_with_member(&encoded, at, pool_rig_ticket(pool, "d")->entry.number + 1, 0, 0));
    bytes_put_u32(encoded.data_owned + at - 4, 1); /* b is nobody's then */
    struct core *core = core_create();
    assert_false(core_bytes_decode(core, buffer_bytes(&encoded)));
    core_destroy(core);
    buffer_deinit(&encoded);
    close_rig(&rig);
}

/* --- events on replay --------------------------------------------------------------------------------------------- */

/* Is it refused, with nothing changed? */
static bool is_refused(const struct core_rig *rig, const struct event *event)
{
    struct core *core = core_rig_replay(rig);
    struct buffer payload, before, after;
    buffer_init(&payload);
    buffer_init(&before);
    buffer_init(&after);
    core_rig_encode(core, &before);
    event_encode(event, &payload);
    struct failure failure;
    bool is_taken = core_replay(core, buffer_bytes(&payload), rig->position, rig->now_ms, &failure);
    core_check(core);
    core_rig_encode(core, &after);
    assert_true(is_taken || bytes_equal(buffer_bytes(&before), buffer_bytes(&after)));
    buffer_deinit(&after);
    buffer_deinit(&before);
    buffer_deinit(&payload);
    core_destroy(core);
    return !is_taken;
}

#define EVENT(KIND, kind_, ...) (&(struct event){.kind = EVENT_##KIND, .kind_ = {__VA_ARGS__}})

static void events_of_matches_fit_or_change_nothing(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(&rig, confirming, PAIRS);
    offer_all(&rig, pool, "abcd");
    uint64_t number = match(&rig, pool, "p", "a:1 b:1");
    uint64_t confirm_by_ms = made_match_at(rig.core, made_match_find(rig.core, number))->confirm_by_ms;
    assert_int_equal(confirm_by_ms, rig.now_ms + 10000);
    assert_false(is_refused(&rig, EVENT(HOLD_RENEWED, hold_renewed, number, confirm_by_ms + 1)));
    assert_true(is_refused(&rig, EVENT(HOLD_RENEWED, hold_renewed, number, confirm_by_ms)));
    assert_true(is_refused(&rig, EVENT(HOLD_RENEWED, hold_renewed, number + 1, confirm_by_ms + 1)));
    assert_true(is_refused(&rig, EVENT(MATCH_MADE, match_made, number + 1, 0)));
    assert_true(is_refused(&rig, EVENT(TICKETS_FORGOTTEN, tickets_forgotten, pool->id, 1, 0)));
    assert_true(is_refused(&rig, EVENT(TICKETS_FORGOTTEN, tickets_forgotten, pool->id, 0, 1)));
    assert_int_equal(pool_rig_confirm(&rig, pool, number, "a", false), MATCH_IS_UNDONE);
    assert_int_equal(pool->ended_count, 1);
    assert_int_equal(pool->settled_count, 1);
    assert_false(is_refused(&rig, EVENT(TICKETS_FORGOTTEN, tickets_forgotten, pool->id, 1, 1)));
    assert_true(is_refused(&rig, EVENT(TICKETS_FORGOTTEN, tickets_forgotten, pool->id, 2, 1)));
    assert_true(is_refused(&rig, EVENT(TICKETS_FORGOTTEN, tickets_forgotten, pool->id, 1, 2)));
    assert_true(is_refused(&rig, EVENT(TICKETS_FORGOTTEN, tickets_forgotten, pool->id + 1, 1, 1)));
    assert_true(is_refused(&rig, EVENT(TICKETS_WIDENED, tickets_widened, pool->id, 0)));
    assert_true(is_refused(&rig, EVENT(TICKETS_WIDENED, tickets_widened, pool->id + 1, 0)));
    assert_true(is_refused(&rig, EVENT(HOLD_RENEWED, hold_renewed, number, confirm_by_ms + 1))); /* it is over */
    assert_true(is_refused(&rig, EVENT(MATCH_MADE, match_made, number, 0)));
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(MR32_the_last_yes_makes_the_match_and_there_is_one_result),
        cmocka_unit_test(MR31_who_refuses_is_cancelled_and_the_others_wait_again),
        cmocka_unit_test(MR31_who_does_not_answer_in_time_is_cancelled),
        cmocka_unit_test(MR31_those_who_are_to_confirm_have_time_again_after_a_restart),
        cmocka_unit_test(MR35_a_held_match_that_new_teams_do_not_have_is_undone_by_its_last_yes),
        cmocka_unit_test(a_held_match_can_be_put_back_and_then_nobody_is_cancelled),
        cmocka_unit_test(MR29_a_held_match_has_its_place_in_the_result_queue),
        cmocka_unit_test(MR26_the_record_that_matches_a_ticket_cancels_the_others_of_its_exclusive_set),
        cmocka_unit_test(MR26_who_came_into_a_set_behind_its_match_is_cancelled_when_the_result_ends),
        cmocka_unit_test(MR26_while_one_of_an_exclusive_set_is_held_the_others_wait_and_can_t_be_matched),
        cmocka_unit_test(a_proposal_that_two_matches_have_is_refused),
        cmocka_unit_test(a_member_that_a_held_match_can_not_have_is_refused),
        cmocka_unit_test(events_of_matches_fit_or_change_nothing),
    };
    return cmocka_run_group_tests_name("core match hold", tests, NULL, NULL);
}
