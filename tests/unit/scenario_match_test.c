/* Matches, however the server is interrupted: killed behind each step, its disk stopped at each operation, so that the
 * log ends before, inside and behind the record of a match (MR9 to MR11). The MR numbers are those of the design's
 * races and failures. */
#include "scenario.h"

#define PAIRS 4u

static void create_pool(struct world *world, const char *more)
{
    world_create_queue(world, "results", "");
    world_create_queue(world, "expired", "");
    struct answer answer = world_call(world, "Tally.CreatePool",
                                      "{'PoolName':'duel','ResultQueueUrl':'results','Attributes':{'mmr':'num'},"
                                      "'Rules':[{'type':'near','attr':'mmr','max':10}]%s}",
                                      more);
    EXPECT(world, answer.error == NULL);
}

static yyjson_val *first_of(struct answer answer, const char *list)
{
    return yyjson_arr_get_first(yyjson_obj_get(answer.root, list));
}

static const char *text_of(yyjson_val *object, const char *name)
{
    const char *text = yyjson_get_str(yyjson_obj_get(object, name));
    return text == NULL ? "" : text;
}

static void offer(struct world *world, char key, unsigned number, const char *more)
{
    struct answer answer = world_call(world, "Tally.OfferTickets",
                                      "{'PoolName':'duel','Tickets':[{'TicketId':'%c%u','Attributes':{'mmr':%u}%s}]}",
                                      key, number, number * 100, more);
    EXPECT(world, answer.error == NULL && text_of(first_of(answer, "Results"), "Status")[0] != 0);
}

static void offer_pair(struct world *world, unsigned number)
{
    offer(world, 'a', number, "");
    offer(world, 'b', number, "");
}

/* What a pair is now. */
struct pair_state {
    char status[16];
    char match[WORLD_ID_SIZE]; /* or "" */
    uint64_t version;
};

static struct pair_state state_of_ticket(struct world *world, char key, unsigned number)
{
    struct pair_state state = {0};
    struct answer answer = world_call(world, "Tally.GetTicket", "{'PoolName':'duel','TicketId':'%c%u'}", key, number);
    EXPECT(world, answer.error == NULL);
    snprintf(state.status, sizeof(state.status), "%s", answer_text(answer, "Status"));
    snprintf(state.match, sizeof(state.match), "%s", answer_text(answer, "MatchId"));
    state.version = answer_number(answer, "Version");
    return state;
}

/* The two of a pair are always the same. */
static struct pair_state state_of(struct world *world, unsigned number)
{
    struct pair_state first = state_of_ticket(world, 'a', number), second = state_of_ticket(world, 'b', number);
    EXPECT(world, strcmp(first.status, second.status) == 0 && strcmp(first.match, second.match) == 0);
    EXPECT(world, first.version == second.version);
    return first;
}

static bool is(struct pair_state state, const char *status)
{
    return strcmp(state.status, status) == 0;
}

/* Proposes the pair; if that is interrupted, then all of it has happened or nothing, and a repeat gets the answer. */
static void propose(struct world *world, unsigned number, uint64_t version, uint64_t results_before,
                    char match[WORLD_ID_SIZE])
{
    struct answer answer;
    unsigned long long version_ = version;
    while (!world_try(world, &answer, "Tally.ProposeMatches",
                      "{'PoolName':'duel','Proposals':[{'ProposalId':'p%u.%llu','Members':["
                      "{'TicketId':'a%u','Version':%llu},{'TicketId':'b%u','Version':%llu}]}]}",
                      number, version_, number, version_, number, version_)) {
        struct pair_state state = state_of(world, number);
        EXPECT(world, is(state, "waiting") || is(state, "matched"));
        EXPECT(world, world_count_messages(world, "results") == results_before + is(state, "matched"));
    }
    yyjson_val *result = first_of(answer, "Results");
    EXPECT(world, strcmp(text_of(result, "Status"), "matched") == 0);
    snprintf(match, WORLD_ID_SIZE, "%s", text_of(result, "MatchId"));
    EXPECT(world, strcmp(state_of(world, number).match, match) == 0);
    EXPECT(world, world_count_messages(world, "results") == results_before + 1);
}

/* Receives and deletes the results, which must be those of just these matches. */
static void take_results(struct world *world, char matches[][WORLD_ID_SIZE], unsigned count)
{
    struct taken held[PAIRS];
    world_hold(world, "results", 60, count, held);
    for (unsigned i = 0; i < count; i++) {
        unsigned found = 0;
        for (unsigned j = 0; j < count; j++)
            found += strcmp(held[j].id, matches[i]) == 0 && strstr(held[j].body, matches[i]) != NULL;
        EXPECT(world, found == 1);
    }
    for (unsigned i = 0; i < count; i++)
        world_delete(world, "results", held[i].handle);
    EXPECT(world, world_count_messages(world, "results") == 0);
}

static const char *put_back(struct world *world, const char *match)
{
    struct answer answer = world_call(world, "Tally.PutBackMatch", "{'PoolName':'duel','MatchId':'%s'}", match);
    EXPECT(world, answer.error == NULL);
    return answer_text(answer, "Status");
}

/* MR3, MR9, MR10, MR11, MR28, MR38 */
static void MR11_a_match_and_its_result_are_in_the_log_or_neither_is(struct world *world)
{
    char matches[PAIRS][WORLD_ID_SIZE], again[WORLD_ID_SIZE];
    create_pool(world, ",'Matcher':'external'");
    for (unsigned i = 0; i < PAIRS; i++) {
        offer_pair(world, i);
        propose(world, i, 1, i, matches[i]);
    }
    world_kill(world);
    propose(world, 2, 1, PAIRS - 1, again);
    EXPECT(world, strcmp(again, matches[2]) == 0);
    take_results(world, matches, PAIRS);
    EXPECT(world, strcmp(put_back(world, matches[0]), "acked") == 0);
    EXPECT(world, is(state_of(world, 0), "matched") && state_of(world, 0).version == 1);
}

static void MR30_a_put_back_and_the_end_of_the_result_are_in_the_log_or_neither_is(struct world *world)
{
    char match[WORLD_ID_SIZE], next[WORLD_ID_SIZE];
    create_pool(world, ",'Matcher':'external'");
    offer_pair(world, 0);
    offer_pair(world, 1);
    for (uint64_t version = 1; version <= 3; version++) {
        propose(world, 0, version, 0, match);
        struct answer answer;
        while (!world_try(world, &answer, "Tally.PutBackMatch", "{'PoolName':'duel','MatchId':'%s'}", match)) {
            struct pair_state state = state_of(world, 0);
            EXPECT(world, (is(state, "matched") && state.version == version) ||
                              (is(state, "waiting") && state.version == version + 1));
            EXPECT(world, world_count_messages(world, "results") == is(state, "matched"));
        }
        EXPECT(world, strcmp(answer_text(answer, "Status"), "put-back") == 0);
        EXPECT(world, strcmp(put_back(world, match), "put-back") == 0);
        EXPECT(world, is(state_of(world, 0), "waiting") && state_of(world, 0).version == version + 1);
    }
    propose(world, 1, 1, 0, next);
    take_results(world, &next, 1);
}

static void confirm(struct world *world, const char *match, char key, unsigned number, const char *more)
{
    struct answer answer =
        world_call(world, "Tally.ConfirmMatch", "{'PoolName':'duel','MatchId':'%s','TicketId':'%c%u'%s}", match, key,
                   number, more);
    EXPECT(world, answer.error == NULL && answer_text(answer, "Status")[0] != 0);
}

static void MR31_MR32_what_is_held_is_matched_by_the_last_yes_and_undone_by_time(struct world *world)
{
    char matches[1][WORLD_ID_SIZE];
    create_pool(world, ",'Matcher':'built-in','ConfirmSeconds':20");
    offer_pair(world, 0);
    offer_pair(world, 1);
    offer_pair(world, 2);
    for (unsigned i = 0; i < 3; i++) {
        world_pass_time(world, 0);
        EXPECT(world, is(state_of(world, i), "held"));
    }
    snprintf(matches[0], WORLD_ID_SIZE, "%s", state_of(world, 0).match);
    char refused[WORLD_ID_SIZE];
    snprintf(refused, sizeof(refused), "%s", state_of(world, 1).match);
    confirm(world, matches[0], 'b', 0, "");
    EXPECT(world, is(state_of(world, 0), "held") && world_count_messages(world, "results") == 0);
    confirm(world, matches[0], 'a', 0, "");
    EXPECT(world, is(state_of(world, 0), "matched") && world_count_messages(world, "results") == 1);
    confirm(world, refused, 'a', 1, ",'Accept':false");
    EXPECT(world, strcmp(state_of_ticket(world, 'a', 1).status, "cancelled") == 0);
    EXPECT(world, strcmp(state_of_ticket(world, 'b', 1).status, "waiting") == 0);
    world_pass_time(world, 20000);
    world_pass_time(world, 20000); /* a restart in the first half gave the hold its time once more */
    EXPECT(world, is(state_of(world, 2), "cancelled"));
    take_results(world, matches, 1);
}

/* MR6: and nothing is told twice. */
static void MR6_the_built_in_matcher_and_expiries_go_on_after_each_interruption(struct world *world)
{
    char matches[PAIRS][WORLD_ID_SIZE];
    create_pool(world, ",'OnExpiryQueueUrl':'expired','TicketTtlSeconds':3600");
    offer(world, 'x', 50, ",'TtlSeconds':3");
    offer(world, 'x', 60, ",'TtlSeconds':3");
    for (unsigned i = 0; i < PAIRS; i++)
        offer_pair(world, i);
    world_pass_time(world, 0);
    for (unsigned i = 0; i < PAIRS; i++) {
        EXPECT(world, is(state_of(world, i), "matched"));
        snprintf(matches[i], sizeof(matches[i]), "%s", state_of(world, i).match);
        for (unsigned j = 0; j < i; j++)
            EXPECT(world, strcmp(matches[j], matches[i]) != 0);
    }
    world_pass_time(world, 3000);
    EXPECT(world, strcmp(state_of_ticket(world, 'x', 50).status, "expired") == 0);
    EXPECT(world, world_count_messages(world, "expired") == 2);
    EXPECT(world, world_count_messages(world, "results") == PAIRS);
    take_results(world, matches, PAIRS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(MR11_a_match_and_its_result_are_in_the_log_or_neither_is),
        SCENARIO(MR30_a_put_back_and_the_end_of_the_result_are_in_the_log_or_neither_is),
        SCENARIO(MR31_MR32_what_is_held_is_matched_by_the_last_yes_and_undone_by_time),
        SCENARIO(MR6_the_built_in_matcher_and_expiries_go_on_after_each_interruption),
    };
    return cmocka_run_group_tests_name("scenario match", tests, NULL, NULL);
}
