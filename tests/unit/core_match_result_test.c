/* What comes of a match in the core: its result message and how that ends, putting back, and what is left behind. The
 * MR numbers are those of the design's races and failures. */
#include "core/messages/decide_move.h"
#include "core/queues/decide_queue.h"
#include "core_match.h"

/* --- results ------------------------------------------------------------------------------------------------------ */

static void a_result_says_who_is_in_the_match(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_with(
        &rig, NULL, "{'Attributes':{'mmr':'num'},'Teams':[{'name':'red','size':2},{'name':'blue','size':2}]}");
    assert_true(pool_rig_offer(&rig, pool,
                               &(struct pool_rig_ticket){.key = "party", .attributes = "{'mmr':1500}", .weight = 2}));
    rig.now_ms += 1234;
    assert_true(pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = "x\"y", .body = "1\n2"}));
    offer(&rig, pool, "z");
    struct proposal_result result;
    assert_int_equal(pool_rig_propose_with(&rig, pool, "p", "x\"y:1 party:1 z:1", "on \\ on", 0, &result),
                     PROPOSAL_MATCHED);
    struct content content;
    struct handle handle;
    char text[IDENTITY_TEXT_SIZE + 1] = "", expected[1024];
    uint8_t id[MESSAGE_ID_SIZE], md5[DIGEST_MD5_SIZE];
    assert_true(pool_rig_take(&rig, "results", &content, &handle));
    identity_match(core_digest(rig.core), result.match, id);
    identity_to_text(id, text);
    assert_memory_equal(content.id, id, sizeof(id));
    const char *single =
        strstr((const char *)content.body.ptr, "x\\\"y\",\"attributes\":{},\"body\":\"1\\n2\",\"team\":\"red") ? "red"
                                                                                                               : "blue";
    const char *party = strcmp(single, "red") == 0 ? "blue" : "red";
    snprintf(expected, sizeof(expected),
             "{\"pool\":\"duel\",\"match\":\"%s\",\"members\":["
             "{\"ticket\":\"x\\\"y\",\"attributes\":{},\"body\":\"1\\n2\",\"team\":\"%s\",\"waitedMs\":0},"
             "{\"ticket\":\"party\",\"attributes\":{\"mmr\":1500},\"body\":null,\"team\":\"%s\",\"waitedMs\":1234},"
             "{\"ticket\":\"z\",\"attributes\":{\"mmr\":1500},\"body\":null,\"team\":\"%s\",\"waitedMs\":0}],\"body\":"
             "\"on \\\\ on\"}",
             text, single, party, single);
    assert_true(bytes_equal(content.body, bytes_from_string(expected)));
    digest_md5(core_digest(rig.core), content.body, md5);
    assert_memory_equal(content.body_md5, md5, sizeof(md5));
    struct buffer attribute;
    buffer_init(&attribute);
    buffer_append_u16(&attribute, 1);
    buffer_append_sized(&attribute, BYTES("Tally.Match"));
    buffer_append_sized(&attribute, BYTES("String"));
    buffer_append_u8(&attribute, 1);
    buffer_append_sized(&attribute, bytes_from_string(text));
    assert_true(bytes_equal(content.attributes, buffer_bytes(&attribute)));
    buffer_deinit(&attribute);
    close_rig(&rig);
}

static void MR28_a_redelivery_has_the_same_match_and_puts_nobody_back(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    offer_all(&rig, pool, "ab");
    uint64_t number = match(&rig, pool, "p", "a:1 b:1");
    for (unsigned i = 0; i < 3; i++) { /* each consumer dies, and its lease ends */
        assert_int_equal(count_results(&rig, number), 1);
        assert_true(state_of(pool, "a") == TICKET_MATCHED && pool->counts.waiting == 0);
    }
    struct content content;
    struct handle handle;
    assert_true(pool_rig_take(&rig, "results", &content, &handle));
    assert_int_equal(pool_rig_delete(&rig, "results", &handle), OK);
    assert_true(pool_rig_ticket(pool, "a")->is_settled && pool->results == 0 && pool->settled_count == 1);
    assert_int_equal(pool_rig_put_back(&rig, pool, number), MATCH_IS_ACKED);
    close_rig(&rig);
}

static void a_result_that_is_purged_expires_or_is_lost_counts_as_acknowledged(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    offer_all(&rig, pool, "abcd");
    uint64_t purged = match(&rig, pool, "p", "a:1 b:1");
    core_rig_begin(&rig);
    decide_purge_queue(rig.core, core_find_queue(rig.core, BYTES("results")));
    core_rig_end(&rig);
    assert_int_equal(pool_rig_put_back(&rig, pool, purged), MATCH_IS_ACKED); /* though it has not ended yet */
    pool_rig_pass(&rig, 0);
    assert_int_equal(pool_rig_put_back(&rig, pool, purged), MATCH_IS_ACKED);
    uint64_t expired = match(&rig, pool, "q", "c:1 d:1");
    pool_rig_pass(&rig, UINT64_C(345600) * 1000 + 1);
    assert_int_equal(pool_rig_put_back(&rig, pool, expired), MATCH_IS_ACKED);
    assert_true(pool->results == 0 && pool->counts.matched == 4);
    close_rig(&rig);
}

static void a_result_may_be_dead_lettered_and_moved_back_and_is_still_its_match_s(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    struct queue_settings settings = core_rig_settings();
    settings.receive_count_max = 1;
    settings.dead_letter_arn = BYTES("arn:aws:sqs:us-east-1:000000000000:expired");
    core_rig_begin(&rig);
    decide_set_queue(rig.core, core_find_queue(rig.core, BYTES("results")), &settings);
    core_rig_end(&rig);
    offer_all(&rig, pool, "ab");
    uint64_t number = match(&rig, pool, "p", "a:1 b:1");
    assert_int_equal(count_results(&rig, number), 1);
    assert_int_equal(count_results(&rig, number), 0);
    assert_int_equal(pool_rig_count_messages(&rig, "expired"), 1);
    pool_rig_check(&rig);
    core_rig_begin(&rig);
    decide_start_move(rig.core, core_find_queue(rig.core, BYTES("expired")),
                      &(struct move_command){.messages_max = UINT64_MAX});
    core_rig_end(&rig);
    pool_rig_pass(&rig, 0);
    assert_int_equal(pool_rig_count_messages(&rig, "results"), 1);
    pool_rig_check(&rig);
    assert_int_equal(pool_rig_put_back(&rig, pool, number), MATCH_DONE);
    assert_int_equal(pool_rig_count_messages(&rig, "results"), 0);
    assert_true(waits(pool, "a", 2) && waits(pool, "b", 2));
    close_rig(&rig);
}

/* --- putting back ------------------------------------------------------------------------------------------------- */

static void MR30_a_match_is_put_back_once_with_the_age_that_its_tickets_had(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    const struct pool_rig_ticket ticket = {.key = "a", .attributes = "{'mmr':1500}", .ttl_s = 60};
    assert_true(pool_rig_offer(&rig, pool, &ticket) != 0);
    offer(&rig, pool, "b");
    uint64_t offered_at_ms = pool_rig_ticket(pool, "a")->entry.offered_at_ms;
    rig.now_ms += 40000;
    uint64_t number = match(&rig, pool, "p", "a:1 b:1");
    struct content content;
    struct handle handle;
    assert_true(pool_rig_take(&rig, "results", &content, &handle));
    assert_int_equal(pool_rig_put_back(&rig, pool, number), MATCH_DONE);
    assert_true(waits(pool, "a", 2) && waits(pool, "b", 2) && pool->put_backs == 1);
    assert_true(pool_rig_ticket(pool, "a")->entry.offered_at_ms == offered_at_ms);
    assert_int_equal(pool_rig_count_messages(&rig, "results"), 0);
    assert_int_equal(pool_rig_delete(&rig, "results", &handle), OK); /* of a message that has gone */

    assert_int_equal(pool_rig_put_back(&rig, pool, number), MATCH_DONE);
    assert_true(waits(pool, "a", 2) && pool->put_backs == 1);
    assert_true(match(&rig, pool, "p", "a:1 b:1") == number); /* the proposal is known, but its match stays undone */
    assert_true(waits(pool, "a", 2));
    uint64_t next = match(&rig, pool, "q", "a:2 b:2");
    assert_true(next > number);
    assert_int_equal(pool_rig_put_back(&rig, pool, number), MATCH_DONE);
    assert_int_equal(state_of(pool, "a"), TICKET_MATCHED);
    assert_int_equal(pool_rig_put_back(&rig, pool, next), MATCH_DONE);
    assert_int_equal(pool_rig_put_back(&rig, pool, next + 1), MATCH_IS_UNKNOWN);
    pool_rig_pass(&rig, 20000); /* its ttl counts from the first offer */
    assert_true(state_of(pool, "a") == TICKET_EXPIRED && waits(pool, "b", 3));
    close_rig(&rig);
}

static void MR30_a_match_of_another_pool_is_unknown(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    struct pool_spec spec = pool_rig_spec(&rig, PAIRS);
    struct ticket_pool *other = pool_rig_put(&rig, "other", &spec);
    offer_all(&rig, pool, "ab");
    uint64_t number = match(&rig, pool, "p", "a:1 b:1");
    assert_int_equal(pool_rig_put_back(&rig, other, number), MATCH_IS_UNKNOWN);
    assert_int_equal(pool_rig_confirm(&rig, other, number, "a", true), MATCH_IS_UNKNOWN);
    assert_int_equal(state_of(pool, "a"), TICKET_MATCHED);
    close_rig(&rig);
}

/* --- what is left behind ------------------------------------------------------------------------------------------ */

static void messages_outlive_a_pool_that_is_deleted_and_its_matches_are_out_of_reach(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    offer_all(&rig, pool, "abcdefgh");
    match(&rig, pool, "p", "a:1 b:1");
    uint64_t moved = match(&rig, pool, "q", "c:1 d:1");
    match(&rig, pool, "r", "e:1 f:1");
    struct content content;
    struct handle handle;
    assert_true(pool_rig_take(&rig, "results", &content, &handle));
    assert_int_equal(pool_rig_delete(&rig, "results", &handle), OK);
    assert_true(pool_rig_take(&rig, "results", &content, &handle));
    decide_delete_pool(core_rig_begin(&rig), pool);
    core_rig_end(&rig);
    assert_int_equal(made_match_find(rig.core, moved), 0);
    assert_int_equal(pool_rig_delete(&rig, "results", &handle), OK); /* before its memory is given back */
    pool_rig_check(&rig);
    pool_rig_pass(&rig, 0);
    assert_int_equal(rig.core->matches.items.used, 0);
    assert_true(pool_rig_take(&rig, "results", &content, &handle));
    assert_int_equal(pool_rig_delete(&rig, "results", &handle), OK); /* and after */
    struct pool_spec spec = pool_rig_spec(&rig, PAIRS);
    pool = pool_rig_put(&rig, "duel", &spec);
    offer_all(&rig, pool, "ab");
    assert_true(match(&rig, pool, "p", "a:1 b:1") > moved); /* that pool is another one */
    close_rig(&rig);
}

static void MR38_settled_matches_are_forgotten_oldest_first_when_their_time_is_over(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = open_rig(&rig);
    uint64_t numbers[3];
    struct content content;
    struct handle handle;
    for (unsigned i = 0; i < 3; i++) {
        char first[] = {(char)('a' + 2 * i), 0}, second[] = {(char)('b' + 2 * i), 0}, members[16],
             proposal[] = {(char)('p' + i), 0};
        offer(&rig, pool, first);
        offer(&rig, pool, second);
        snprintf(members, sizeof(members), "%s:1 %s:1", first, second);
        numbers[i] = match(&rig, pool, proposal, members);
        assert_true(pool_rig_take(&rig, "results", &content, &handle));
        assert_int_equal(pool_rig_delete(&rig, "results", &handle), OK);
        pool_rig_pass(&rig, 30000000);
    }
    assert_int_equal(made_match_find(rig.core, numbers[0]), 0); /* 90,000 of 86,400 seconds */
    assert_int_equal(pool_rig_put_back(&rig, pool, numbers[0]), MATCH_IS_UNKNOWN);
    assert_int_equal(pool_rig_put_back(&rig, pool, numbers[1]), MATCH_IS_ACKED);
    assert_true(pool->settled_count == 2 && pool->ended_count == 4);
    assert_int_equal(ticket_find(pool, BYTES("a")), 0);
    assert_true(pool->counts.offered == 6 && pool->counts.matched == 6); /* M28 */
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_says_who_is_in_the_match),
        cmocka_unit_test(MR28_a_redelivery_has_the_same_match_and_puts_nobody_back),
        cmocka_unit_test(a_result_that_is_purged_expires_or_is_lost_counts_as_acknowledged),
        cmocka_unit_test(a_result_may_be_dead_lettered_and_moved_back_and_is_still_its_match_s),
        cmocka_unit_test(MR30_a_match_is_put_back_once_with_the_age_that_its_tickets_had),
        cmocka_unit_test(MR30_a_match_of_another_pool_is_unknown),
        cmocka_unit_test(messages_outlive_a_pool_that_is_deleted_and_its_matches_are_out_of_reach),
        cmocka_unit_test(MR38_settled_matches_are_forgotten_oldest_first_when_their_time_is_over),
    };
    return cmocka_run_group_tests_name("core match result", tests, NULL, NULL);
}
