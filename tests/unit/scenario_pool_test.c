/* Tickets through whatever interrupts a server: each is offered, matched, cancelled or expired once, and its age goes
 * on. */
#include "scenario.h"

#define RULES                                                                                                          \
    "'Attributes':{'mode':'str','mmr':'num'},'Size':2,'Rules':[{'type':'equal','attr':'mode'},"                        \
    "{'type':'near','attr':'mmr','max':50,'expand':[{'after':'10s','max':100},{'after':'30s','max':300}]}]"

static void create_pool(struct world *world, const char *more)
{
    world_create_queue(world, "results", "");
    world_create_queue(world, "expired", "");
    struct answer answer =
        world_call(world, "Tally.CreatePool",
                   "{'PoolName':'duel','ResultQueueUrl':'results','OnExpiryQueueUrl':'expired'," RULES "%s}", more);
    EXPECT(world, answer.error == NULL);
}

/* The answer's first result. */
static struct answer first_result(struct answer answer)
{
    answer.root = yyjson_arr_get_first(yyjson_obj_get(answer.root, "Results"));
    return answer;
}

static struct answer offer(struct world *world, const char *key, unsigned mmr, const char *more)
{
    struct answer answer = world_call(
        world, "Tally.OfferTickets",
        "{'PoolName':'duel','Tickets':[{'TicketId':'%s','Attributes':{'mode':'a','mmr':%u}%s}]}", key, mmr, more);
    EXPECT(world, answer.error == NULL);
    return first_result(answer);
}

static struct answer propose(struct world *world, const char *proposal, const char *members)
{
    struct answer answer =
        world_call(world, "Tally.ProposeMatches",
                   "{'PoolName':'duel','Proposals':[{'ProposalId':'%s','Members':[%s]}]}", proposal, members);
    EXPECT(world, answer.error == NULL);
    return first_result(answer);
}

static struct answer cancel(struct world *world, const char *key)
{
    struct answer answer = world_call(world, "Tally.CancelTickets", "{'PoolName':'duel','TicketIds':['%s']}", key);
    EXPECT(world, answer.error == NULL);
    return first_result(answer);
}

static struct answer get(struct world *world, const char *key)
{
    struct answer answer = world_call(world, "Tally.GetTicket", "{'PoolName':'duel','TicketId':'%s'}", key);
    EXPECT(world, answer.error == NULL);
    return answer;
}

static bool has_status(struct answer answer, const char *status)
{
    return strcmp(answer_text(answer, "Status"), status) == 0;
}

/* The server is away for that long, and then there again. */
static void stay_away(struct world *world, uint64_t ms)
{
    world_pass_time(world, 0);
    world_stop(world, true);
    world->now_ms += ms;
    world_start(world);
    world_pass_time(world, 0);
}

static void MR27_an_offer_counts_once_however_often_it_comes(struct world *world)
{
    create_pool(world, ",'Matcher':'external'");
    struct answer answer = offer(world, "t", 1500, "");
    EXPECT(world, has_status(answer, "waiting") && answer_number(answer, "Version") == 1);
    EXPECT(world, !answer_is_true(answer, "AlreadyOffered") || answer.is_repeat);
    EXPECT(world, answer_is_true(offer(world, "t", 1500, ""), "AlreadyOffered"));
    EXPECT(world, has_status(offer(world, "t", 1501, ""), "key-reused"));
    EXPECT(world, has_status(cancel(world, "t"), "cancelled"));
    answer = offer(world, "t", 1500, "");
    EXPECT(world, has_status(answer, "cancelled") && answer_is_true(answer, "AlreadyOffered"));
    answer = world_call(world, "Tally.DescribePool", "{'PoolName':'duel'}");
    EXPECT(world, answer_number((struct answer){.root = yyjson_obj_get(answer.root, "Tickets")}, "Offered") == 1);
}

static void MR5_cancel_and_match_race_and_the_first_in_the_log_wins(struct world *world)
{
    create_pool(world, ",'Matcher':'external'");
    offer(world, "a", 1500, "");
    offer(world, "b", 1500, "");
    offer(world, "c", 1500, "");
    EXPECT(world, has_status(cancel(world, "a"), "cancelled"));
    EXPECT(world, has_status(cancel(world, "a"), "cancelled"));
    struct answer answer = propose(world, "p1", "{'TicketId':'a','Version':1},{'TicketId':'b','Version':1}");
    EXPECT(world, has_status(answer, "conflict"));
    EXPECT(world, has_status(get(world, "b"), "waiting"));
    answer = propose(world, "p2", "{'TicketId':'b','Version':1},{'TicketId':'c','Version':1}");
    EXPECT(world, has_status(answer, "matched"));
    char match[64];
    snprintf(match, sizeof(match), "%s", answer_text(answer, "MatchId"));
    answer = cancel(world, "b");
    EXPECT(world, has_status(answer, "too-late") && strcmp(answer_text(answer, "MatchId"), match) == 0);
    EXPECT(world, world_count_messages(world, "results") == 1);
}

static void MR6_a_ticket_expires_once_and_the_expiry_queue_hears_of_it(struct world *world)
{
    create_pool(world, ",'Matcher':'external','TicketTtlSeconds':60");
    offer(world, "a", 1500, "");
    offer(world, "b", 1500, "");
    offer(world, "c", 1500, ",'TtlSeconds':0");
    offer(world, "d", 1500, ",'Body':'bye'");
    world_pass_time(world, 59999);
    EXPECT(world, has_status(get(world, "d"), "waiting"));
    EXPECT(world,
           has_status(propose(world, "p1", "{'TicketId':'a','Version':1},{'TicketId':'b','Version':1}"), "matched"));
    world_pass_time(world, 1);
    EXPECT(world, has_status(get(world, "a"), "matched"));
    EXPECT(world, has_status(get(world, "d"), "expired"));
    EXPECT(world,
           has_status(propose(world, "p2", "{'TicketId':'c','Version':1},{'TicketId':'d','Version':1}"), "conflict"));
    EXPECT(world, has_status(cancel(world, "d"), "expired"));
    world_pass_time(world, 600000);
    EXPECT(world, has_status(get(world, "c"), "waiting"));
    EXPECT(world, world_count_messages(world, "expired") == 1);
    struct taken taken;
    world_hold(world, "expired", 30, 1, &taken);
    EXPECT(world, strstr(taken.body, "\"ticket\":\"d\"") != NULL && strstr(taken.body, "\"body\":\"bye\"") != NULL);
}

static void MR7_a_proposal_of_an_older_version_retires_nothing(struct world *world)
{
    create_pool(world, ",'Matcher':'external'");
    offer(world, "a", 1500, "");
    offer(world, "b", 1500, "");
    struct answer answer = world_call(world, "Tally.UpdateTicket",
                                      "{'PoolName':'duel','TicketId':'a','Version':1,'Attributes':{'mode':'b'}}");
    EXPECT(world, answer.error == NULL &&
                      (has_status(answer, "waiting") || (answer.is_repeat && has_status(answer, "stale"))));
    EXPECT(world, answer_number(get(world, "a"), "Version") == 2);
    answer = propose(world, "p", "{'TicketId':'a','Version':1},{'TicketId':'b','Version':1}");
    EXPECT(world, has_status(answer, "stale"));
    EXPECT(world, has_status(get(world, "a"), "waiting") && has_status(get(world, "b"), "waiting"));
    EXPECT(world, world_count_messages(world, "results") == 0);
}

static void MR25_age_goes_on_over_restarts_and_nothing_widens_or_expires_early(struct world *world)
{
    create_pool(world, ",'Matcher':'external','TicketTtlSeconds':60");
    offer(world, "a", 1500, "");
    world_pass_time(world, 9999);
    world_kill(world);
    EXPECT(world, answer_number(get(world, "a"), "Level") == 0);
    world_pass_time(world, 1);
    EXPECT(world, answer_number(get(world, "a"), "Level") == 1);
    world_snapshot(world);
    world_kill(world);
    world_pass_time(world, 0);
    EXPECT(world, answer_number(get(world, "a"), "Level") == 1);
    stay_away(world, 20000);
    EXPECT(world, answer_number(get(world, "a"), "Level") == 2);
    world_pass_time(world, 29999);
    EXPECT(world, has_status(get(world, "a"), "waiting"));
    world_pass_time(world, 1);
    EXPECT(world, has_status(get(world, "a"), "expired"));
    EXPECT(world, world_count_messages(world, "expired") == 1);
}

static void MR35_new_rules_probe_every_waiting_ticket_once(struct world *world)
{
    create_pool(world, "");
    offer(world, "a", 1500, "");
    offer(world, "b", 1700, "");
    offer(world, "c", 3000, "");
    world_pass_time(world, 1000);
    EXPECT(world, has_status(get(world, "a"), "waiting") && has_status(get(world, "b"), "waiting"));
    struct answer answer =
        world_call(world, "Tally.UpdatePool", "{'PoolName':'duel','Rules':[{'type':'near','attr':'mmr','max':200}]}");
    EXPECT(world, answer.error == NULL && answer_number(answer, "RulesVersion") == 2);
    world_pass_time(world, 0);
    EXPECT(world, has_status(get(world, "a"), "matched") && has_status(get(world, "b"), "matched"));
    EXPECT(world, has_status(get(world, "c"), "waiting"));
    EXPECT(world, world_count_messages(world, "results") == 1);
}

static void MR38_a_restart_from_a_snapshot_revives_nothing_and_keeps_versions(struct world *world)
{
    create_pool(world, "");
    offer(world, "a", 1500, "");
    offer(world, "b", 1510, "");
    offer(world, "c", 1900, "");
    offer(world, "d", 2500, "");
    world_call(world, "Tally.UpdateTicket", "{'PoolName':'duel','TicketId':'d','Version':1,'Attributes':{'mmr':2501}}");
    world_pass_time(world, 0); /* behind a restart the matcher first gets to know its tickets */
    EXPECT(world, has_status(get(world, "b"), "matched"));
    EXPECT(world, has_status(cancel(world, "c"), "cancelled"));
    world_snapshot(world);
    stay_away(world, 1000);
    EXPECT(world, has_status(get(world, "a"), "matched") && has_status(get(world, "b"), "matched"));
    EXPECT(world, has_status(get(world, "c"), "cancelled"));
    EXPECT(world, has_status(get(world, "d"), "waiting") && answer_number(get(world, "d"), "Version") == 2);
    EXPECT(world, answer_is_true(offer(world, "a", 1500, ""), "AlreadyOffered"));
    world_pass_time(world, 60000);
    EXPECT(world, world_count_messages(world, "results") == 1);
}

static void a_deleted_pool_takes_its_tickets_along_and_leaves_its_name(struct world *world)
{
    create_pool(world, ",'Matcher':'external'");
    offer(world, "a", 1500, "");
    EXPECT(world, answer_fails(world_call(world, "DeleteQueue", "{'QueueUrl':'results'}"), "QueueInUse"));
    struct answer answer = world_call(world, "Tally.DeletePool", "{'PoolName':'duel'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    create_pool(world, "");
    answer = world_call(world, "Tally.GetTicket", "{'PoolName':'duel','TicketId':'a'}");
    EXPECT(world, answer.error != NULL);
    world_pass_time(world, 1000);
    answer = offer(world, "a", 1500, "");
    EXPECT(world, has_status(answer, "waiting") && answer_number(answer, "Version") == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(MR27_an_offer_counts_once_however_often_it_comes),
        SCENARIO(MR5_cancel_and_match_race_and_the_first_in_the_log_wins),
        SCENARIO(MR6_a_ticket_expires_once_and_the_expiry_queue_hears_of_it),
        SCENARIO(MR7_a_proposal_of_an_older_version_retires_nothing),
        SCENARIO(MR25_age_goes_on_over_restarts_and_nothing_widens_or_expires_early),
        SCENARIO(MR35_new_rules_probe_every_waiting_ticket_once),
        SCENARIO(MR38_a_restart_from_a_snapshot_revives_nothing_and_keeps_versions),
        SCENARIO(a_deleted_pool_takes_its_tickets_along_and_leaves_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
