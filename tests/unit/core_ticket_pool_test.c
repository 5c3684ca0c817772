/* Pools and tickets: what is offered, changed, cancelled, widened, expired and forgotten, and that a replay and a
 * snapshot give the live state. M28 (offered is the sum of all states) is asserted by core_check(), behind every
 * step. */
#include "base/accounted.h"
#include "core/decide_namespace.h"
#include "core/queues/decide_queue.h"
#include "support/core_bytes.h"
#include "support/pool_rig.h"
#include "support/scale.h"

#include "random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define DUEL                                                                                                           \
    "{'attrs':{'mode':'str','mmr':'num'},'size':2,'rules':[{'type':'equal','attr':'mode'},"                            \
    "{'type':'near','attr':'mmr','max':50,'expand':[{'after':'10s','max':100},{'after':'30s','max':300}]}]}"
#define DUEL_WIDE                                                                                                      \
    "{'attrs':{'mode':'str','mmr':'num','maps':'set'},'size':2,'rules':[{'type':'equal','attr':'mode'},"               \
    "{'type':'near','attr':'mmr','max':70,'expand':[{'after':'5s','max':500}]}]}"

static struct ticket_pool *make_pool(struct core_rig *rig, const char *name)
{
    struct pool_spec spec = pool_rig_spec(rig, DUEL);
    spec.expiry_queue = core_find_queue(rig->core, BYTES("expired"))->id;
    return pool_rig_put(rig, name, &spec);
}

static struct ticket_pool *begin(struct core_rig *rig)
{
    core_rig_init(rig, 1);
    pool_rig_make_queues(rig);
    return make_pool(rig, "duel");
}

static uint32_t offer(struct core_rig *rig, struct ticket_pool *pool, const char *key, uint32_t ttl_s)
{
    return pool_rig_offer(rig, pool,
                          &(struct pool_rig_ticket){
                              .key = key, .attributes = "{'mode':'a','mmr':1500}", .body = "hello", .ttl_s = ttl_s});
}

static unsigned state_of(const struct ticket_pool *pool, const char *key)
{
    return pool_rig_ticket(pool, key)->state;
}

/* The server stops and starts again, from a snapshot. */
static struct ticket_pool *restart(struct core_rig *rig, const char *name)
{
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig->core, &encoded);
    core_destroy(rig->core);
    rig->core = core_create();
    assert_true(core_bytes_decode(rig->core, buffer_bytes(&encoded)));
    buffer_deinit(&encoded);
    decide_restart(core_rig_begin(rig), 2, rig->now_ms);
    core_rig_end(rig);
    return ticket_pool_find(rig->core, bytes_from_string(name));
}

/* --- pools -------------------------------------------------------------------------------------------------------- */

static void pools_are_found_by_name_and_id_and_stand_in_order(void **state)
{
    (void)state;
    struct core_rig rig;
    begin(&rig);
    make_pool(&rig, "b");
    make_pool(&rig, "a");
    assert_int_equal(ticket_pool_count(rig.core), 3);
    assert_true(bytes_equal(ticket_pool_at(rig.core, 0)->name_owned, BYTES("a")));
    assert_true(bytes_equal(ticket_pool_at(rig.core, 2)->name_owned, BYTES("duel")));
    assert_ptr_equal(ticket_pool_find(rig.core, BYTES("b")), ticket_pool_find_by_id(rig.core, 2));
    assert_null(ticket_pool_find(rig.core, BYTES("c")));
    pool_rig_check(&rig);
    core_rig_deinit(&rig);
}

static void a_queue_that_a_pool_names_can_not_be_deleted(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = begin(&rig);
    struct queue *results = core_find_queue(rig.core, BYTES("results"));
    struct queue *expired = core_find_queue(rig.core, BYTES("expired"));
    core_rig_begin(&rig);
    assert_int_equal(decide_delete_queue(rig.core, results), ERROR_QUEUE_IN_USE);
    assert_int_equal(decide_delete_queue(rig.core, expired), ERROR_QUEUE_IN_USE);
    core_rig_end(&rig);
    struct pool_spec spec = pool_rig_spec(&rig, DUEL); /* without an expiry queue */
    assert_ptr_equal(pool_rig_put(&rig, "duel", &spec), pool);
    core_rig_begin(&rig);
    assert_int_equal(decide_delete_queue(rig.core, expired), OK);
    decide_delete_pool(rig.core, pool);
    assert_int_equal(decide_delete_queue(rig.core, results), OK);
    core_rig_end(&rig);
    pool_rig_check(&rig);
    core_rig_deinit(&rig);
}

static void a_deleted_pool_is_gone_at_once_and_its_memory_in_portions(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = begin(&rig);
    char key[16];
    for (unsigned i = 0; i < 10000; i++) {
        (void)snprintf(key, sizeof(key), "t%u", i);
        offer(&rig, pool, key, 0);
    }
    uint32_t id = pool->id;
    decide_delete_pool(core_rig_begin(&rig), pool);
    core_rig_end(&rig);
    assert_null(ticket_pool_find(rig.core, BYTES("duel")));
    assert_null(ticket_pool_find_by_id(rig.core, id));
    assert_int_equal(core_due_ms(rig.core), 0);
    pool = make_pool(&rig, "duel"); /* another one */
    assert_true(pool->id > id && pool->counts.offered == 0);
    pool_rig_check(&rig);
    pool_rig_pass(&rig, 0);
    assert_true(core_due_ms(rig.core) > rig.now_ms);
    assert_int_equal(offer(&rig, pool, "t1", 0) != 0, true);
    pool_rig_check(&rig);
    core_rig_deinit(&rig);
}

static void there_are_a_thousand_pools_at_most(void **state)
{
    (void)state;
    struct core_rig rig;
    begin(&rig);
    char name[16];
    struct pool_spec spec = pool_rig_spec(&rig, "{}");
    for (unsigned i = 1; i < TICKET_POOLS_MAX; i++) {
        (void)snprintf(name, sizeof(name), "pool%u", i);
        pool_rig_put(&rig, name, &spec);
    }
    struct ticket_pool *pool;
    core_rig_begin(&rig);
    assert_int_equal(decide_put_pool(rig.core, BYTES("more"), &spec, &pool), ERROR_OVER_LIMIT);
    core_rig_end(&rig);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

/* --- offers ------------------------------------------------------------------------------------------------------- */

static void MR27_an_offer_that_is_repeated_finds_its_ticket_and_is_counted(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = begin(&rig);
    uint32_t slot = offer(&rig, pool, "one", 60);
    uint64_t number = ticket_at(&pool->tickets, slot)->entry.number;
    size_t frames = rig.frame_count;
    assert_int_equal(offer(&rig, pool, "one", 60), slot);
    assert_int_equal(rig.frame_count, frames); /* nothing was logged */
    assert_int_equal(pool->tally.already_offered, 1);
    assert_int_equal(pool->counts.offered, 1);
    assert_int_equal(offer(&rig, pool, "one", 61), 0); /* reused for another ticket */
    pool_rig_cancel(&rig, pool, "one");
    pool = restart(&rig, "duel");
    slot = offer(&rig, pool, "one", 60);
    assert_int_equal(ticket_at(&pool->tickets, slot)->entry.number, number);
    assert_int_equal(ticket_at(&pool->tickets, slot)->state, TICKET_CANCELLED);
    assert_int_equal(pool->counts.offered, 1);
    pool_rig_check(&rig);
    core_rig_deinit(&rig);
}

static void everything_that_an_offer_says_tells_it_from_another_one(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = begin(&rig);
    const struct pool_rig_ticket first = {.key = "t",
                                          .attributes = "{'mode':'a','mmr':1}",
                                          .need = "{'mmr':{'min':1}}",
                                          .set = "s",
                                          .body = "b",
                                          .weight = 2,
                                          .ttl_s = 60,
                                          .priority = 1};
    assert_int_not_equal(pool_rig_offer(&rig, pool, &first), 0);
    struct pool_rig_ticket others[8];
    for (unsigned i = 0; i < 8; i++)
        others[i] = first;
    others[0].attributes = "{'mode':'a','mmr':2}";
    others[1].need = "{'mmr':{'min':2}}";
    others[2].set = "s2";
    others[3].body = NULL;
    others[4].weight = 1;
    others[5].ttl_s = 0;
    others[6].priority = 0;
    others[7].body = "";
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(pool_rig_offer(&rig, pool, &others[i]), 0);
    struct pool_rig_ticket same = first;
    same.attributes = "{'mmr':1,'mode':'a'}"; /* the order of an object's members means nothing */
    assert_int_not_equal(pool_rig_offer(&rig, pool, &same), 0);
    assert_int_equal(pool->tally.already_offered, 1);
    pool_rig_check(&rig);
    core_rig_deinit(&rig);
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

static void MR5_cancel_and_match_race_and_the_first_in_the_log_wins(void **state)
{
    (void)state;
    struct core_rig rig;
    struct proposal_result result;
    struct ticket_pool *pool = begin(&rig);
    offer(&rig, pool, "a", 0);
    offer(&rig, pool, "b", 0);
    offer(&rig, pool, "c", 0);
    assert_int_equal(pool_rig_cancel(&rig, pool, "a"), TICKET_DONE);
    assert_int_equal(pool_rig_cancel(&rig, pool, "a"), TICKET_IS_CANCELLED);
    assert_int_equal(pool_rig_propose(&rig, pool, "p1", "a:1 b:1", &result), PROPOSAL_CONFLICT);
    assert_int_equal(result.faults[0], MEMBER_CANCELLED);
    assert_int_equal(state_of(pool, "b"), TICKET_WAITING); /* its partners still find it */
    assert_int_equal(pool_rig_propose(&rig, pool, "p2", "b:1 c:1", &result), PROPOSAL_MATCHED);
    assert_int_equal(pool_rig_cancel(&rig, pool, "b"), TICKET_IS_TAKEN);
    assert_int_equal(pool_rig_ticket(pool, "b")->match, result.match);
    pool_rig_check(&rig);
    core_rig_deinit(&rig);
}

static void MR6_a_ticket_expires_at_its_ttl_once_and_the_expiry_queue_hears_of_it(void **state)
{
    (void)state;
    struct core_rig rig;
    struct proposal_result result;
    struct ticket_pool *pool = begin(&rig);
    offer(&rig, pool, "a", 60);
    offer(&rig, pool, "b", 60);
    offer(&rig, pool, "c", 0);
    offer(&rig, pool, "d", 60);
    pool_rig_pass(&rig, 59999);
    assert_int_equal(state_of(pool, "a"), TICKET_WAITING);
    assert_int_equal(core_due_ms(rig.core), rig.now_ms + 1);
    assert_int_equal(pool_rig_propose(&rig, pool, "p1", "a:1 b:1", &result), PROPOSAL_MATCHED);
    pool_rig_pass(&rig, 1);
    assert_int_equal(state_of(pool, "a"), TICKET_MATCHED);
    assert_int_equal(state_of(pool, "d"), TICKET_EXPIRED);
    assert_int_equal(pool_rig_count_messages(&rig, "expired"), 1);
    assert_int_equal(pool_rig_propose(&rig, pool, "p2", "c:1 d:1", &result), PROPOSAL_CONFLICT);
    assert_int_equal(result.faults[1], MEMBER_EXPIRED);
    assert_int_equal(pool_rig_cancel(&rig, pool, "d"), TICKET_IS_EXPIRED);
    pool_rig_pass(&rig, 600000);
    pool = restart(&rig, "duel");
    pool_rig_pass(&rig, 600000);
    assert_int_equal(pool_rig_count_messages(&rig, "expired"), 1);
    assert_int_equal(state_of(pool, "c"), TICKET_WAITING);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

static void MR25_age_goes_on_over_a_restart_and_nothing_expires_by_it(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = begin(&rig);
    offer(&rig, pool, "a", 60);
    pool_rig_pass(&rig, 10000);
    assert_int_equal(ticket_level(pool, pool_rig_ticket(pool, "a")), 1);
    pool = restart(&rig, "duel");
    pool_rig_pass(&rig, 0);
    assert_int_equal(state_of(pool, "a"), TICKET_WAITING);
    assert_int_equal(ticket_level(pool, pool_rig_ticket(pool, "a")), 1); /* no step early */
    pool_rig_pass(&rig, 19999);
    assert_int_equal(ticket_level(pool, pool_rig_ticket(pool, "a")), 1);
    pool_rig_pass(&rig, 1);
    assert_int_equal(ticket_level(pool, pool_rig_ticket(pool, "a")), 2);
    pool_rig_pass(&rig, 29999);
    assert_int_equal(state_of(pool, "a"), TICKET_WAITING);
    pool_rig_pass(&rig, 1);
    assert_int_equal(state_of(pool, "a"), TICKET_EXPIRED);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

static void what_is_over_is_forgotten_behind_its_retention(void **state)
{
    (void)state;
    struct core_rig rig;
    begin(&rig);
    struct pool_spec spec = pool_rig_spec(&rig, DUEL);
    spec.retention_s = 100;
    struct ticket_pool *pool = pool_rig_put(&rig, "duel", &spec);
    offer(&rig, pool, "a", 0);
    offer(&rig, pool, "b", 0);
    pool_rig_cancel(&rig, pool, "a");
    pool_rig_pass(&rig, 50000);
    pool_rig_cancel(&rig, pool, "b");
    pool_rig_pass(&rig, 50000);
    assert_int_not_equal(ticket_find(pool, BYTES("a")), 0);
    pool_rig_pass(&rig, 1000);
    assert_int_equal(ticket_find(pool, BYTES("a")), 0);
    assert_int_not_equal(ticket_find(pool, BYTES("b")), 0);
    assert_int_equal(pool->ended_count, 1);
    pool_rig_pass(&rig, 60000);
    assert_int_equal(pool->ended_count, 0);
    assert_int_equal(pool->counts.cancelled, 2);
    assert_int_not_equal(offer(&rig, pool, "a", 0), 0); /* another one */
    pool_rig_check(&rig);
    core_rig_deinit(&rig);
}

/* A pool in which tickets come and go faster than their retention ends remembers the newest that are over. */
static void of_those_that_are_over_a_pool_remembers_so_many_and_no_more(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = begin(&rig);
    static const char *const keys[] = {"a", "b", "c", "d", "e"};
    for (unsigned i = 0; i < ARRAY_LENGTH(keys); i++)
        offer(&rig, pool, keys[i], 0);
    for (unsigned i = 0; i < 3; i++)
        pool_rig_cancel(&rig, pool, keys[i]);
    pool->ended_count += TICKET_POOL_ENDED_MAX - 3; /* as if so many others had come behind them */
    pool_rig_pass(&rig, 0);
    assert_int_not_equal(ticket_find(pool, BYTES("a")), 0);
    pool_rig_cancel(&rig, pool, "d");
    pool_rig_cancel(&rig, pool, "e");
    pool_rig_pass(&rig, 0);
    assert_int_equal(pool->ended_count, TICKET_POOL_ENDED_MAX);
    pool->ended_count -= TICKET_POOL_ENDED_MAX - 3;
    assert_int_equal(ticket_find(pool, BYTES("a")), 0);
    assert_int_equal(ticket_find(pool, BYTES("b")), 0);
    assert_int_not_equal(ticket_find(pool, BYTES("c")), 0);
    pool_rig_check(&rig);
    core_rig_deinit(&rig);
}

/* --- changes ------------------------------------------------------------------------------------------------------ */

static void MR7_an_update_raises_the_version_and_a_proposal_of_an_older_one_retires_nothing(void **state)
{
    (void)state;
    struct core_rig rig;
    struct proposal_result result;
    struct ticket_pool *pool = begin(&rig);
    offer(&rig, pool, "a", 0);
    offer(&rig, pool, "b", 0);
    uint64_t offered_at_ms = pool_rig_ticket(pool, "a")->entry.offered_at_ms;
    pool_rig_pass(&rig, 5000);
    assert_int_equal(pool_rig_update(&rig, pool, "a", "{'mode':'b','mmr':1600}"), TICKET_DONE);
    assert_int_equal(pool_rig_ticket(pool, "a")->version, 2);
    assert_int_equal(pool_rig_ticket(pool, "a")->entry.offered_at_ms, offered_at_ms);
    assert_true(bytes_equal(pool_rig_ticket(pool, "a")->content.body, BYTES("hello")));
    assert_true(bytes_equal(pool_rig_ticket(pool, "a")->content.attributes, BYTES("{\"mode\":\"b\",\"mmr\":1600}")));
    assert_int_equal(pool_rig_propose(&rig, pool, "p", "a:1 b:1", &result), PROPOSAL_STALE);
    assert_int_equal(result.faults[0], MEMBER_STALE);
    assert_int_equal(state_of(pool, "a"), TICKET_WAITING);
    assert_int_equal(state_of(pool, "b"), TICKET_WAITING);
    assert_int_equal(pool_rig_propose(&rig, pool, "p", "a:2 b:1", &result), PROPOSAL_MATCHED);
    assert_int_equal(pool_rig_update(&rig, pool, "a", "{}"), TICKET_IS_TAKEN);
    pool_rig_check(&rig);
    core_rig_deinit(&rig);
}

static void a_widening_step_is_told_once_whatever_restarts(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = begin(&rig);
    offer(&rig, pool, "a", 0);
    pool_rig_pass(&rig, 9999);
    assert_int_equal(pool->feed.last, 1);
    pool_rig_pass(&rig, 1);
    assert_int_equal(pool->feed.last, 2);
    const struct feed_event *event = feed_at(&pool->feed, 2);
    assert_true(event->kind == FEED_WIDEN && event->level == 1);
    assert_true(pool->feed.is_whole);
    pool = restart(&rig, "duel");
    assert_false(pool->feed.is_whole); /* a snapshot has the numbers, not the events */
    assert_null(feed_at(&pool->feed, 2));
    pool_rig_pass(&rig, 10000);
    assert_int_equal(pool->feed.last, 2);
    pool_rig_pass(&rig, 10000);
    assert_int_equal(pool->feed.last, 3);
    pool_rig_pass(&rig, 1000000);
    assert_int_equal(pool->feed.last, 3);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

static void MR35_other_rules_raise_their_version_and_every_waiting_ticket_is_probed_once(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = begin(&rig);
    struct pool_spec spec = pool->spec;
    spec.matcher = MATCHER_BUILT_IN;
    pool = pool_rig_put(&rig, "duel", &spec);
    char key[16], attributes[64];
    for (unsigned i = 0; i < 3000; i++) {
        (void)snprintf(key, sizeof(key), "t%u", i);
        (void)snprintf(attributes, sizeof(attributes), "{'mode':'m%u','mmr':1500}", i); /* nobody fits */
        pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = key, .attributes = attributes});
    }
    pool_rig_pass(&rig, 20000);
    assert_int_equal(ticket_level(pool, pool_rig_ticket(pool, "t7")), 1);
    uint64_t told = pool->feed.last, probes = pool->matcher.counters.probes;
    uint32_t version = pool->rules_version;
    struct pool_spec wider = pool_rig_spec(&rig, DUEL_WIDE);
    wider.matcher = MATCHER_BUILT_IN;
    assert_ptr_equal(pool_rig_put(&rig, "duel", &wider), pool);
    assert_int_equal(pool->rules_version, version + 1);
    assert_int_equal(pool->feed.last, told + 1);
    assert_int_equal(ticket_level(pool, pool_rig_ticket(pool, "t7")), 0); /* it has taken no step under these */
    pool_rig_check(&rig);
    pool_rig_pass(&rig, 0);
    assert_int_equal(ticket_level(pool, pool_rig_ticket(pool, "t7")), 1);
    assert_int_equal(pool->feed.last, told + 1 + 3000);
    assert_in_range(pool->matcher.counters.probes - probes, 3000, 6000); /* once, or again for its step */
    assert_int_equal(matcher_seed_count(&pool->matcher), 0);
    pool_rig_check(&rig);
    assert_ptr_equal(pool_rig_put(&rig, "duel", &wider), pool);
    assert_int_equal(pool->rules_version, version + 1); /* the same again is no change */
    core_rig_deinit(&rig);
}

static void MR26_one_of_an_exclusive_set_is_matched_and_the_others_go_in_the_same_frame(void **state)
{
    (void)state;
    struct core_rig rig;
    struct proposal_result result;
    struct ticket_pool *pool = begin(&rig);
    const char *const keys[] = {"a1", "a2", "a3", "b"};
    for (unsigned i = 0; i < 4; i++)
        pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = keys[i], .set = i < 3 ? "a" : NULL});
    assert_int_equal(pool_rig_propose(&rig, pool, "p0", "a1:1 a2:1", &result) != PROPOSAL_MATCHED, true);
    assert_int_equal(state_of(pool, "a1"), TICKET_WAITING);
    size_t frames = rig.frame_count;
    assert_int_equal(pool_rig_propose(&rig, pool, "p1", "a2:1 b:1", &result), PROPOSAL_MATCHED);
    assert_int_equal(rig.frame_count, frames + 1);
    assert_int_equal(state_of(pool, "a1"), TICKET_CANCELLED);
    assert_int_equal(state_of(pool, "a2"), TICKET_MATCHED);
    assert_int_equal(state_of(pool, "a3"), TICKET_CANCELLED);
    assert_int_equal(pool->counts.cancelled, 2);
    /* While that may be put back, a later one of the set waits, and no match takes it. */
    pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = "a4", .set = "a"});
    pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = "c"});
    assert_false(ticket_is_free(pool, pool_rig_ticket(pool, "a4")));
    assert_int_equal(pool_rig_propose(&rig, pool, "p2", "a4:1 c:1", &result), PROPOSAL_CONFLICT);
    assert_int_equal(result.faults[0], MEMBER_EXCLUSIVE);
    pool_rig_check(&rig);
    struct content content;
    struct handle handle;
    assert_true(pool_rig_take(&rig, "results", &content, &handle));
    assert_int_equal(pool_rig_delete(&rig, "results", &handle), OK);
    /* When it may not any more, that one is cancelled, and the name of the set is a new one's. */
    assert_int_equal(state_of(pool, "a4"), TICKET_CANCELLED);
    pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = "a5", .set = "a"});
    assert_int_equal(pool_rig_propose(&rig, pool, "p3", "a5:1 c:1", &result), PROPOSAL_MATCHED);
    pool_rig_check(&rig);
    core_rig_deinit(&rig);
}

static void a_step_that_ends_at_the_ttl_may_still_match(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = begin(&rig);
    struct pool_spec spec = pool->spec;
    spec.matcher = MATCHER_BUILT_IN;
    pool = pool_rig_put(&rig, "duel", &spec);
    pool_rig_offer(&rig, pool,
                   &(struct pool_rig_ticket){.key = "a", .attributes = "{'mode':'a','mmr':1500}", .ttl_s = 10});
    pool_rig_offer(&rig, pool,
                   &(struct pool_rig_ticket){.key = "b", .attributes = "{'mode':'a','mmr':1580}", .ttl_s = 10});
    pool_rig_offer(&rig, pool,
                   &(struct pool_rig_ticket){.key = "c", .attributes = "{'mode':'b','mmr':1580}", .ttl_s = 10});
    pool_rig_pass(&rig, 10000);
    assert_int_equal(state_of(pool, "a"), TICKET_MATCHED);
    assert_int_equal(state_of(pool, "b"), TICKET_MATCHED);
    assert_int_equal(state_of(pool, "c"), TICKET_EXPIRED);
    pool_rig_check(&rig);
    core_rig_deinit(&rig);
}

/* The step and the ttl are both due, and the matcher has others to look at first: nobody expires before a last look. */
static void MR6_a_ticket_does_not_expire_before_the_matcher_had_its_look(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = begin(&rig);
    struct pool_spec spec = pool->spec;
    spec.matcher = MATCHER_BUILT_IN;
    pool = pool_rig_put(&rig, "duel", &spec);
    for (unsigned i = 0; i < 20; i++) {
        char key[16], attributes[40];
        (void)snprintf(key, sizeof(key), "t%u", i);
        (void)snprintf(attributes, sizeof(attributes), "{'mode':'a','mmr':%u}", 1000 + 80 * i);
        pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = key, .attributes = attributes, .ttl_s = 10});
    }
    rig.now_ms += 10000;
    unsigned calls = 0;
    for (uint32_t waiting = 20; pool->counts.matched < 20; waiting = pool->counts.waiting) {
        ticket_pool_do_due(core_rig_begin(&rig), 500, 0); /* a few steps of the matcher */
        core_rig_end(&rig);
        assert_int_equal(pool->counts.expired, 0);
        assert_true(pool->counts.waiting <= waiting && ++calls < 10000);
    }
    assert_true(calls > 1);
    pool_rig_check(&rig);
    core_rig_deinit(&rig);
}

/* A busy matcher holds up an expiry for a second, no longer; and a pool whose share is one expires one at a time. */
static void an_expiry_waits_for_a_busy_matcher_for_a_second(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = begin(&rig);
    struct pool_spec spec = pool->spec;
    spec.matcher = MATCHER_BUILT_IN;
    pool = pool_rig_put(&rig, "duel", &spec);
    pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = "a", .attributes = "{'mode':'a'}", .ttl_s = 10});
    for (unsigned i = 0; i < 20; i++) {
        char key[16], attributes[40];
        (void)snprintf(key, sizeof(key), "t%u", i);
        (void)snprintf(attributes, sizeof(attributes), "{'mode':'b','mmr':%u}", 1000 + 400 * i);
        pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = key, .attributes = attributes, .ttl_s = 30});
    }
    rig.now_ms += 10999;
    ticket_pool_do_due(core_rig_begin(&rig), 500, 0);
    core_rig_end(&rig);
    assert_int_equal(state_of(pool, "a"), TICKET_WAITING);
    rig.now_ms += 1;
    ticket_pool_do_due(core_rig_begin(&rig), 500, 0);
    core_rig_end(&rig);
    assert_int_equal(state_of(pool, "a"), TICKET_EXPIRED);
    pool_rig_pass(&rig, 0);
    rig.now_ms += 60000;
    pool_rig_pass(&rig, 0);
    assert_int_equal(pool->counts.expired, 21);
    static const char *const late[] = {"{'mode':'x'}", "{'mode':'y'}", "{'mode':'z'}"};
    for (unsigned i = 0; i < ARRAY_LENGTH(late); i++)
        pool_rig_offer(&rig, pool, &(struct pool_rig_ticket){.key = late[i], .attributes = late[i], .ttl_s = 1});
    rig.now_ms += 5000;
    uint64_t expired = pool->counts.expired;
    for (unsigned calls = 0; calls < 8; calls++) {
        uint64_t before = pool->counts.expired;
        ticket_pool_do_due(core_rig_begin(&rig), 0, 500);
        core_rig_end(&rig);
        assert_true(pool->counts.expired <= before + 1);
    }
    assert_int_equal(pool->counts.expired, expired + 3);
    core_rig_deinit(&rig);
}

/* --- feed and waits ----------------------------------------------------------------------------------------------- */

static void a_feed_numbers_without_gaps_and_keeps_the_newest(void **state)
{
    (void)state;
    struct feed feed;
    feed_init(&feed);
    feed_add(&feed, &(struct feed_event){.ticket = 1});
    assert_null(feed_at(&feed, 1)); /* nobody had asked */
    size_t before = accounted_in_use();
    feed_begin(&feed);
    assert_true(accounted_in_use() - before < (64u << 10)); /* it grows with what happens */
    for (uint64_t number = 2; number <= FEED_EVENTS_MAX + 5; number++) {
        feed_add(&feed, &(struct feed_event){.ticket = number});
        assert_int_equal(feed_at(&feed, 2) == NULL ? 0 : feed_at(&feed, 2)->ticket,
                         number <= FEED_EVENTS_MAX + 1 ? 2 : 0);
    }
    assert_true(accounted_in_use() - before < FEED_EVENTS_MAX * sizeof(struct feed_event) + 8192);
    assert_int_equal(feed.last, FEED_EVENTS_MAX + 5);
    assert_int_equal(feed.first, 6);
    assert_null(feed_at(&feed, 5));
    assert_null(feed_at(&feed, feed.last + 1));
    for (uint64_t number = feed.first; number <= feed.last; number++)
        assert_int_equal(feed_at(&feed, number)->ticket, number);
    feed_deinit(&feed);
}

static void waits_are_told_within_an_eighth(void **state)
{
    (void)state;
    struct waits *waits = calloc(1, sizeof(*waits));
    for (uint32_t bucket = 1; bucket < WAITS_BUCKETS; bucket++)
        assert_true(waits_bucket_end_ms(bucket) > waits_bucket_end_ms(bucket - 1));
    for (uint64_t waited_ms = 1; waited_ms <= 100000; waited_ms++)
        waits_add(waits, waited_ms % 3 == 0 ? 1 : 0, waited_ms);
    assert_int_equal(waits_count(waits, 1), 33333);
    assert_int_equal(waits_count(waits, RULES_LEVELS_MAX), 100000);
    assert_in_range(waits_quantile_ms(waits, RULES_LEVELS_MAX, 0.5), 50000, 50000 + 50000 / 8);
    assert_in_range(waits_quantile_ms(waits, 0, 0.99), 99000, 100000);
    assert_int_equal(waits_max_ms(waits, RULES_LEVELS_MAX), 100000);
    assert_int_equal(waits_quantile_ms(waits, 5, 0.5), 0);
    free(waits);
}

/* --- lives -------------------------------------------------------------------------------------------------------- */

static void draw_ticket(struct core_rig *rig, struct pool_rig_ticket *ticket, char texts[3][64])
{
    (void)snprintf(texts[0], sizeof(texts[0]), "t%u", core_rig_draw(rig, 60));
    (void)snprintf(texts[1], sizeof(texts[1]), "{'mode':'m%u','mmr':%u}", core_rig_draw(rig, 3),
                   1000 + core_rig_draw(rig, 1000));
    (void)snprintf(texts[2], sizeof(texts[2]), "s%u", core_rig_draw(rig, 5));
    *ticket = (struct pool_rig_ticket){.key = texts[0],
                                       .attributes = core_rig_draw(rig, 8) == 0 ? NULL : texts[1],
                                       .set = core_rig_draw(rig, 3) == 0 ? texts[2] : NULL,
                                       .body = core_rig_draw(rig, 2) == 0 ? "body" : NULL,
                                       .ttl_s = core_rig_draw(rig, 2) == 0 ? 1 + core_rig_draw(rig, 40) : 0,
                                       .priority = (uint8_t)core_rig_draw(rig, 10)};
}

/* Any two tickets that are there, at versions that are mostly theirs. */
static void propose_some(struct core_rig *rig, struct ticket_pool *pool)
{
    char members[128], proposal[16];
    struct proposal_result result;
    unsigned first = core_rig_draw(rig, 60), second = core_rig_draw(rig, 60);
    char keys[2][16];
    (void)snprintf(keys[0], sizeof(keys[0]), "t%u", first);
    (void)snprintf(keys[1], sizeof(keys[1]), "t%u", second);
    uint32_t slots[2];
    for (unsigned i = 0; i < 2; i++)
        slots[i] = ticket_find(pool, bytes_from_string(keys[i]));
    if (slots[0] == 0 || slots[1] == 0)
        return;
    (void)snprintf(members, sizeof(members), "%s:%u %s:%u", keys[0],
                   ticket_at(&pool->tickets, slots[0])->version + (core_rig_draw(rig, 9) == 0), keys[1],
                   ticket_at(&pool->tickets, slots[1])->version);
    (void)snprintf(proposal, sizeof(proposal), "p%u", core_rig_draw(rig, 400));
    (void)pool_rig_propose(rig, pool, proposal, members, &result);
}

static void finish_some(struct core_rig *rig, struct ticket_pool *pool)
{
    struct content content;
    struct handle handle;
    uint64_t match = core_rig_draw(rig, 60);
    switch (core_rig_draw(rig, 4)) {
    case 0:
        (void)pool_rig_put_back(rig, pool, match);
        break;
    case 1: {
        char key[16];
        (void)snprintf(key, sizeof(key), "t%u", core_rig_draw(rig, 60));
        (void)pool_rig_confirm(rig, pool, match, key, core_rig_draw(rig, 4) > 0);
        break;
    }
    default:
        if (pool_rig_take(rig, "results", &content, &handle))
            (void)pool_rig_delete(rig, "results", &handle);
    }
}

static struct ticket_pool *change_pool(struct core_rig *rig, struct ticket_pool *pool)
{
    if (core_rig_draw(rig, 30) == 0) {
        decide_delete_pool(core_rig_begin(rig), pool);
        core_rig_end(rig);
        pool = make_pool(rig, "duel");
    }
    bool is_wide = pool->rules_owned->attribute_count == 3 || core_rig_draw(rig, 3) == 0;
    struct pool_spec spec = pool_rig_spec(rig, is_wide ? DUEL_WIDE : DUEL);
    spec.matcher = (enum matcher_kind)(MATCHER_BUILT_IN + core_rig_draw(rig, 3));
    spec.retention_s = 60 + core_rig_draw(rig, 60);
    spec.confirm_ms = core_rig_draw(rig, 2) == 0 ? 5000 : 0;
    spec.window_ms = core_rig_draw(rig, 3) == 0 ? 300 : 0;
    spec.results_max = core_rig_draw(rig, 3) == 0 ? 3 : 0;
    spec.verifies = core_rig_draw(rig, 3) == 0;
    if (core_rig_draw(rig, 2) == 0)
        spec.expiry_queue = core_find_queue(rig->core, BYTES("expired"))->id;
    return pool_rig_put(rig, "duel", &spec);
}

static bool waits_freely(const struct ticket_pool *pool, uint32_t slot)
{
    const struct ticket *ticket = ticket_at(&pool->tickets, slot);
    return ticket->state == TICKET_WAITING && ticket_is_free(pool, ticket);
}

/* M18: where the built-in matcher has nothing left to do, no two tickets that could be matched fit each other. */
static void expect_idle(const struct ticket_pool *pool)
{
    if (pool->spec.matcher == MATCHER_EXTERNAL || pool->spec.window_ms != 0 || pool->spec.results_max != 0)
        return;
    for (uint32_t a = pool->live_first; a != 0; a = ticket_at(&pool->tickets, a)->next) {
        for (uint32_t b = pool->live_first; b != a; b = ticket_at(&pool->tickets, b)->next) {
            struct pair_check check = {0};
            if (waits_freely(pool, a) && waits_freely(pool, b))
                assert_false(pair_fits(pool->rules_owned, ticket_entry(pool, a), ticket_entry(pool, b), &check));
        }
    }
}

static struct ticket_pool *step(struct core_rig *rig, struct ticket_pool *pool)
{
    char texts[3][64];
    struct pool_rig_ticket ticket;
    draw_ticket(rig, &ticket, texts);
    bool is_there = ticket_find(pool, bytes_from_string(ticket.key)) != 0;
    switch (core_rig_draw(rig, 16)) {
    case 0:
    case 1:
    case 2:
        if (is_there)
            (void)pool_rig_cancel(rig, pool, ticket.key);
        break;
    case 3:
        if (is_there)
            (void)pool_rig_update(rig, pool, ticket.key, texts[1]);
        break;
    case 4:
    case 5:
        pool_rig_pass(rig, core_rig_draw(rig, 4) == 0 ? core_rig_draw(rig, 60000) : core_rig_draw(rig, 3000));
        expect_idle(pool);
        break;
    case 6:
        return change_pool(rig, pool);
    case 7:
    case 8:
        propose_some(rig, pool);
        break;
    case 9:
    case 10:
        finish_some(rig, pool);
        break;
    default:
        (void)pool_rig_offer(rig, pool, &ticket);
    }
    return pool;
}

static void MR38_a_replay_and_a_snapshot_give_the_live_state_behind_every_operation(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= scaled(12); seed++) {
        struct core_rig rig;
        core_rig_init(&rig, seed);
        pool_rig_make_queues(&rig);
        struct ticket_pool *pool = make_pool(&rig, "duel");
        for (unsigned i = 0; i < 250; i++) {
            pool = step(&rig, pool);
            pool_rig_check(&rig);
        }
        core_rig_deinit(&rig);
    }
}

static void MR38_a_server_that_starts_from_a_snapshot_goes_on_as_it_was(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= scaled(12); seed++) {
        struct core_rig rig;
        core_rig_init(&rig, seed);
        pool_rig_make_queues(&rig);
        struct ticket_pool *pool = make_pool(&rig, "duel");
        for (unsigned i = 0; i < 600; i++) {
            pool = step(&rig, pool);
            core_check(rig.core);
            if (core_rig_draw(&rig, 20) == 0)
                pool = restart(&rig, "duel");
        }
        core_rig_deinit(&rig);
    }
}

static void no_damage_crashes_the_decoder(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 5);
    pool_rig_make_queues(&rig);
    struct ticket_pool *pool = make_pool(&rig, "duel");
    for (unsigned i = 0; i < 120; i++)
        pool = step(&rig, pool);
    assert_true(core_rig_damage_part(&rig, ticket_pool_encode_all, scaled(20000)) > scaled(5000));
    core_rig_deinit(&rig);
}

static void no_damage_of_an_event_crashes_the_replay(void **state)
{
    (void)state;
    struct random random = {1};
    struct core_rig rig;
    core_rig_init(&rig, 6);
    pool_rig_make_queues(&rig);
    struct ticket_pool *pool = make_pool(&rig, "duel");
    for (unsigned i = 0; i < 120; i++)
        pool = step(&rig, pool);
    unsigned refused = 0;
    for (unsigned round = 0; round < scaled(3000); round++) {
        size_t at = random_below(&random, (uint32_t)rig.log.size);
        uint8_t byte = rig.log.data_owned[at];
        rig.log.data_owned[at] = (uint8_t)random_u64(&random);
        struct core *core = core_create();
        bool is_good = true;
        for (size_t i = 0; is_good && i < rig.frame_count; i++) {
            const struct core_rig_frame *frame = &rig.frames_owned[i];
            struct failure failure;
            is_good = core_replay(core, bytes_make(rig.log.data_owned + frame->offset, frame->size), frame->position,
                                  frame->time_ms, &failure);
        }
        if (is_good)
            core_check(core);
        refused += !is_good;
        core_destroy(core);
        rig.log.data_owned[at] = byte;
    }
    assert_true(refused > scaled(300));
    core_rig_deinit(&rig);
}

/* Does a replay of all that was logged, and then this, go well? */
static bool put_fits(const struct core_rig *rig, uint32_t id, const char *name, const struct pool_spec *spec)
{
    struct buffer payload, encoded;
    buffer_init(&payload);
    buffer_init(&encoded);
    pool_spec_encode(spec, &encoded);
    event_encode(
        &(struct event){.kind = EVENT_POOL_PUT,
                        .pool_put = {.pool = id, .name = bytes_from_string(name), .spec = buffer_bytes(&encoded)}},
        &payload);
    struct core *core = core_rig_replay(rig);
    struct failure failure;
    bool is_good = core_replay(core, buffer_bytes(&payload), rig->position, rig->now_ms, &failure);
    core_check(core);
    core_destroy(core);
    buffer_deinit(&payload);
    buffer_deinit(&encoded);
    return is_good;
}

static void a_pool_of_a_log_that_there_can_not_be_is_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = begin(&rig);
    const struct pool_spec good = pool->spec;
    char name[TICKET_POOL_NAME_SIZE_MAX + 2] = "";
    memset(name, 'n', TICKET_POOL_NAME_SIZE_MAX);
    assert_true(put_fits(&rig, 1, "duel", &good));
    assert_true(put_fits(&rig, 2, name, &good));
    name[TICKET_POOL_NAME_SIZE_MAX] = 'n';
    assert_false(put_fits(&rig, 2, name, &good));
    assert_false(put_fits(&rig, 2, "", &good));
    assert_false(put_fits(&rig, 2, "duel", &good));
    assert_false(put_fits(&rig, 1, "other", &good));
    assert_false(put_fits(&rig, 3, "other", &good));
    struct pool_spec wrong[4] = {good, good, good, good};
    wrong[0].rules = BYTES("{");
    wrong[1].matcher = (enum matcher_kind)(MATCHER_BOTH + 1);
    wrong[2].result_queue = 99;
    wrong[3].expiry_queue = 99;
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        assert_false(put_fits(&rig, 1, "duel", &wrong[i]));
        assert_false(put_fits(&rig, 2, "other", &wrong[i]));
    }
    struct pool_spec narrow = pool_rig_spec(&rig, "{'attrs':{'mode':'num'},'size':2,'rules':[]}");
    assert_false(put_fits(&rig, 1, "duel", &narrow)); /* its tickets say it otherwise */
    assert_true(put_fits(&rig, 2, "other", &narrow));
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_are_found_by_name_and_id_and_stand_in_order),
        cmocka_unit_test(a_queue_that_a_pool_names_can_not_be_deleted),
        cmocka_unit_test(a_deleted_pool_is_gone_at_once_and_its_memory_in_portions),
        cmocka_unit_test(there_are_a_thousand_pools_at_most),
        cmocka_unit_test(MR27_an_offer_that_is_repeated_finds_its_ticket_and_is_counted),
        cmocka_unit_test(everything_that_an_offer_says_tells_it_from_another_one),
        cmocka_unit_test(MR5_cancel_and_match_race_and_the_first_in_the_log_wins),
        cmocka_unit_test(MR6_a_ticket_expires_at_its_ttl_once_and_the_expiry_queue_hears_of_it),
        cmocka_unit_test(MR25_age_goes_on_over_a_restart_and_nothing_expires_by_it),
        cmocka_unit_test(what_is_over_is_forgotten_behind_its_retention),
        cmocka_unit_test(of_those_that_are_over_a_pool_remembers_so_many_and_no_more),
        cmocka_unit_test(MR7_an_update_raises_the_version_and_a_proposal_of_an_older_one_retires_nothing),
        cmocka_unit_test(a_widening_step_is_told_once_whatever_restarts),
        cmocka_unit_test(MR35_other_rules_raise_their_version_and_every_waiting_ticket_is_probed_once),
        cmocka_unit_test(MR26_one_of_an_exclusive_set_is_matched_and_the_others_go_in_the_same_frame),
        cmocka_unit_test(a_step_that_ends_at_the_ttl_may_still_match),
        cmocka_unit_test(a_feed_numbers_without_gaps_and_keeps_the_newest),
        cmocka_unit_test(waits_are_told_within_an_eighth),
        cmocka_unit_test(MR38_a_replay_and_a_snapshot_give_the_live_state_behind_every_operation),
        cmocka_unit_test(MR38_a_server_that_starts_from_a_snapshot_goes_on_as_it_was),
        cmocka_unit_test(no_damage_crashes_the_decoder),
        cmocka_unit_test(no_damage_of_an_event_crashes_the_replay),
        cmocka_unit_test(MR6_a_ticket_does_not_expire_before_the_matcher_had_its_look),
        cmocka_unit_test(an_expiry_waits_for_a_busy_matcher_for_a_second),
        cmocka_unit_test(a_pool_of_a_log_that_there_can_not_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
