"""Proposals: what is checked, in which order, and what many that propose at once can do to each other, which is
nothing."""

import json
import threading

import pytest

from conftest import wait_until
from pools import Pool, ticket
from queues import make_queue
from wire import Crowd, request_bytes, scaled


@pytest.fixture
def pool(daemon):
    """Pairs, proposed from outside."""
    return Pool(daemon, Attributes={"mode": "str", "mmr": "num"})


def race(daemon, pool, proposals):
    """Each on a connection of its own, at the same instant: what each was told."""
    requests = [request_bytes("Tally.ProposeMatches", {"PoolName": pool.name, "Proposals": [proposal]})
                for proposal in proposals]
    with Crowd(daemon.port, len(requests)) as crowd:
        return [answer.json()["Results"][0] for answer in crowd.ask(requests)]


def whys(result):
    return [(member["TicketId"], member["Why"]) for member in result["Members"]]


# --- races ------------------------------------------------------------------------------------------------------------


def test_MR1_of_two_proposals_that_share_a_ticket_one_is_made_and_the_other_is_told_by_whom(pool, daemon):
    for n in range(scaled(30, least=5)):
        left, middle, right = f"l{n}", f"m{n}", f"r{n}"
        pool.offer(left, middle, right)
        first, second = race(daemon, pool, [
            pool.proposal(f"x{n}", (left, 1), (middle, 1)), pool.proposal(f"y{n}", (middle, 1), (right, 1))])
        winner, loser = (first, second) if first["Status"] == "matched" else (second, first)
        assert winner["Status"] == "matched" and loser["Status"] == "conflict", (first, second)
        (member,) = loser["Members"]
        assert (member["TicketId"], member["Why"], member["MatchId"]) == (middle, "matched", winner["MatchId"])
        over = right if winner is first else left
        assert pool.waiting() == [over] and pool.version(over) == 1
        (result,) = pool.take()
        assert result.match == winner["MatchId"] and over not in result.names
        pool.cancel(over)


def test_MR1_the_ticket_that_is_left_over_is_found_by_the_next_who_looks(daemon):
    """M18, with the built-in matcher beside the one outside."""
    pool = Pool(daemon, Attributes={"mode": "str"}, Rules=[{"type": "equal", "attr": "mode"}], Matcher="both")
    pool.offer(ticket("1", mode="x"), ticket("2", mode="y"), ticket("3", mode="z"))
    pool.match("p", "1", "2")  # no verification: the one outside knows better
    assert pool.propose("q", ("2", 1), ("3", 1))["Status"] == "conflict"
    pool.offer(ticket("4", mode="z"))
    assert [result.names for result in pool.wait_for_results(2)] == [["1", "2"], ["3", "4"]]
    pool.check()


def test_MR2_of_many_that_propose_the_same_pair_one_makes_it_and_all_others_learn_its_match(pool, daemon):
    for n in range(scaled(20, least=3)):
        pool.offer(f"a{n}", f"b{n}")
        results = race(daemon, pool, [pool.proposal(f"{n}-{m}", (f"a{n}", 1), (f"b{n}", 1)) for m in range(16)])
        (match,) = [result["MatchId"] for result in results if result["Status"] == "matched"]
        for result in results:
            if result["Status"] != "matched":
                assert result["Status"] == "conflict"
                assert {member["MatchId"] for member in result["Members"]} == {match} and len(result["Members"]) == 2
        assert [result.match for result in pool.take()] == [match]
    described = pool.describe()
    assert described["Conflicts"] == 15 * scaled(20, least=3) and described["Matches"] == scaled(20, least=3)


def test_MR5_a_cancel_that_races_a_proposal_and_only_one_of_them_is_told_that_it_won(pool, daemon):
    outcomes = set()
    for n in range(scaled(80, least=10)):
        a, b = f"a{n}", f"b{n}"
        pool.offer(a, b)
        requests = [request_bytes("Tally.CancelTickets", {"PoolName": "pool", "TicketIds": [a]}), request_bytes(
            "Tally.ProposeMatches", {"PoolName": "pool", "Proposals": [pool.proposal(f"p{n}", (a, 1), (b, 1))]})]
        with Crowd(daemon.port, 2) as crowd:
            answers = crowd.ask(requests[:: 1 if n % 2 else -1])
        cancel, proposal = [answer.json()["Results"][0] for answer in (answers if n % 2 else answers[::-1])]
        outcomes.add(cancel["Status"])
        if cancel["Status"] == "cancelled":
            assert proposal["Status"] == "conflict" and whys(proposal) == [(a, "cancelled")]
            assert pool.status(a) == "cancelled" and pool.status(b) == "waiting"
            pool.offer(f"c{n}")
            pool.match(f"q{n}", b, f"c{n}")  # the partner can still be matched
        else:
            assert (cancel["Status"], cancel["MatchId"]) == ("too-late", proposal["MatchId"])
            assert proposal["Status"] == "matched" and pool.status(a) == pool.status(b) == "matched"
    assert outcomes, outcomes
    assert pool.check()["Waiting"] == 0


def test_MR6_expiry_races_proposals_and_each_ticket_has_one_end(daemon):
    """M9. All have one ttl; what proposes goes on until it is over."""
    pool = Pool(daemon)
    pairs = scaled(400, least=50)
    pool.offer_many(ticket(f"{side}{n}", TtlSeconds=2) for n in range(pairs) for side in "ab")
    line, matched, conflicts = pool.line(), 0, []
    for n in range(pairs):  # as slowly as needed for the end to come in the middle
        result = line.propose(f"p{n}", (f"a{n}", 1), (f"b{n}", 1))
        matched += result["Status"] == "matched"
        if result["Status"] == "conflict":
            conflicts.append(result)
        if n % 10 == 0 and n < pairs / 2:
            threading.Event().wait(2 / (pairs / 10))
    if pairs >= 200:
        wait_until(lambda: pool.status(f"a{pairs - 1}") in ("expired", "matched"), what="the end of the last")
    wait_until(lambda: pool.counts().get("Waiting", 0) == 0, what="the end of all")
    for conflict in conflicts:
        assert all(member["Why"] == "expired" for member in conflict["Members"]), conflict
    ended = [name for name, _ in pool.take_expired()]
    taken = [name for result in pool.take() for name in result.names]
    assert len(taken) == 2 * matched and len(ended) == len(set(ended))
    assert sorted(ended + taken) == sorted(f"{side}{n}" for n in range(pairs) for side in "ab")
    assert pool.check()["Expired"] == len(ended)
    line.close()


def test_MR7_who_knows_an_older_version_matches_nobody(pool):
    """M10."""
    pool.offer(ticket("a", mmr=1), ticket("b", mmr=2))
    pool.update("a", Attributes={"mmr": 900})
    result = pool.propose("p", ("a", 1), ("b", 1))
    assert result["Status"] == "stale" and [(m["TicketId"], m["Version"]) for m in result["Members"]] == [("a", 2)]
    assert pool.counts() == {"Offered": 2, "Waiting": 2} and pool.version("b") == 1 and pool.take() == []
    assert pool.propose("q", ("a", 3), ("b", 1))["Status"] == "stale"  # nor who knows one that there never was
    assert pool.propose("p", ("a", 2), ("b", 1))["Status"] == "matched"  # what was refused is not remembered
    assert pool.describe()["Stale"] == 2


def test_MR7_updates_race_proposals(pool, daemon):
    for n in range(scaled(60, least=10)):
        a, b = f"a{n}", f"b{n}"
        pool.offer(ticket(a, mmr=1), b)
        requests = [request_bytes("Tally.UpdateTicket", {"PoolName": "pool", "TicketId": a, "Attributes": {"mmr": 2}}),
                    request_bytes("Tally.ProposeMatches",
                                  {"PoolName": "pool", "Proposals": [pool.proposal(f"p{n}", (a, 1), (b, 1))]})]
        with Crowd(daemon.port, 2) as crowd:
            update, proposal = [answer.json() for answer in crowd.ask(requests)]
        proposal = proposal["Results"][0]
        if update["Status"] == "waiting":
            assert update["Version"] == 2 and proposal["Status"] == "stale", (update, proposal)
            pool.cancel(a, b)
        else:
            (result,) = pool.take()
            assert update["Status"] == "too-late" and update["MatchId"] == proposal["MatchId"] == result.match
            assert [member["attributes"] for member in result.members if member["ticket"] == a] == [{"mmr": 1}]


def test_MR8_when_one_member_has_gone_the_others_wait_with_their_age(daemon):
    """M4."""
    pool = Pool(daemon, Size=5)
    pool.offer(*"abcde")
    before = {name: pool.get(name) for name in "abde"}
    pool.cancel("c")
    result = pool.propose("p", *((name, 1) for name in "abcde"))
    assert result["Status"] == "conflict" and whys(result) == [("c", "cancelled")]
    assert {name: pool.get(name) for name in "abde"} == before
    assert pool.take() == [] and pool.counts() == {"Offered": 5, "Waiting": 4, "Cancelled": 1}
    pool.offer("f")
    pool.match("p", *"abdef")
    assert pool.take_names() == [list("abdef")]


def test_MR8_conflict_and_stale_at_once_is_a_conflict_that_names_both(daemon):
    pool = Pool(daemon, Attributes={"x": "num"}, Size=4)
    pool.offer(*"abcd")
    pool.cancel("b")
    pool.update("c", Attributes={"x": 1})
    result = pool.propose("p", *((name, 1) for name in "abcd"))
    assert result["Status"] == "conflict" and whys(result) == [("b", "cancelled"), ("c", "stale")], result


def test_MR19_the_same_two_in_either_order_at_once_are_one_match(pool, daemon):
    """M26 speaks of two shards, whose claims could wait for each other. A pool lives in one log, so there is no claim
    that could: this shows what the rule is there for, that crossing proposals end, and with one winner."""
    for n in range(scaled(30, least=5)):
        a, b = f"a{n}", f"b{n}"
        pool.offer(a, b)
        results = race(daemon, pool,
                       [pool.proposal(f"{n}-{m}", *([(a, 1), (b, 1)][:: 1 if m % 2 else -1])) for m in range(8)])
        assert sorted(result["Status"] for result in results) == ["conflict"] * 7 + ["matched"]
    assert len(pool.take()) == scaled(30, least=5) and pool.check()["Waiting"] == 0


def test_MR19_a_ring_of_pairs_each_sharing_a_ticket_with_the_next(pool, daemon):
    """The same for more than two: whoever wins, no ticket is in two, and of neighbours at least one lost only because
    of a winner."""
    for n in range(scaled(20, least=3)):
        names = [f"{n}-{i}" for i in range(16)]
        pool.offer(*names)
        results = race(daemon, pool,
                       [pool.proposal(f"{n}.{i}", (names[i], 1), (names[(i + 1) % 16], 1)) for i in range(16)])
        won = {result["MatchId"] for result in results if result["Status"] == "matched"}
        assert 6 <= len(won) <= 8  # every maximal set of them
        for result in results:
            if result["Status"] != "matched":
                assert {member["MatchId"] for member in result["Members"]} <= won
        taken = [name for result in pool.take() for name in result.names]
        assert len(taken) == len(set(taken)) == 2 * len(won)


def test_MR39_many_matchers_that_take_what_they_like_and_every_ticket_is_in_one_match(daemon):
    """Groups of three of what each last saw, in threads: no round trip is saved for the others. The long run is
    tests/campaign/pool.c."""
    pool = Pool(daemon, Size=3)
    count = scaled(300, least=60) // 3 * 3
    pool.offer_many(f"t{n}" for n in range(count))
    statuses, lock = [], threading.Lock()

    def work(number):
        line, tried = pool.line(), 0
        while True:
            waiting = [name for name, _ in sorted(line.list()[0].items(), key=lambda item: item[1]["OfferedAt"])][:30]
            if len(waiting) < 3:
                break
            start = number * 3 % (len(waiting) - 2)
            tried += 1
            result = line.propose(f"{number}-{tried}", *((name, 1) for name in waiting[start : start + 3]))
            with lock:
                statuses.append(result["Status"])
        line.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {"matched", "conflict"} and statuses.count("matched") == count // 3
    taken = [name for result in pool.take() for name in result.names]
    assert sorted(taken) == sorted(f"t{n}" for n in range(count))
    assert pool.counts() == {"Offered": count, "Matched": count}


# --- keys -------------------------------------------------------------------------------------------------------------


def test_MR3_the_same_proposal_again_has_the_same_answer_and_no_second_result(pool, daemon):
    """M8: at once, from many sides, and after its tickets have long gone."""
    pool.offer("a", "b")
    proposal = pool.proposal("p", ("a", 1), ("b", 1), Score=0.5, Body="text")
    results = race(daemon, pool, [proposal] * 16)
    assert {result["Status"] for result in results} == {"matched"}
    (match,) = {result["MatchId"] for result in results}
    assert pool.propose_all(proposal, proposal) == [results[0], results[0]]
    (result,) = pool.take()
    assert result.match == match and result.body["body"] == "text"
    assert pool.propose_all(proposal)[0]["MatchId"] == match and pool.take() == []
    assert pool.describe()["Matches"] == 1


@pytest.mark.parametrize("other", [
    {"Members": [{"TicketId": "a", "Version": 1}, {"TicketId": "c", "Version": 1}]},
    {"Members": [{"TicketId": "c", "Version": 1}, {"TicketId": "d", "Version": 1}]},
    {"Members": [{"TicketId": "a", "Version": 2}, {"TicketId": "b", "Version": 1}]},
    {"Body": "other"}])
def test_MR4_the_same_key_with_something_else_is_refused(pool, other):
    pool.offer(*"abcd")
    proposal = pool.proposal("p", ("a", 1), ("b", 1), Body="text")
    pool.propose_all(proposal)
    (result,) = pool.propose_all({**proposal, **other})
    assert result["Status"] == "key-reused", result
    assert pool.waiting() == ["c", "d"] and len(pool.take()) == 1


def test_a_proposal_that_was_refused_is_not_remembered(pool):
    pool.offer("a", "b", "c")
    pool.cancel("c")
    assert pool.propose("p", ("a", 1), ("c", 1))["Status"] == "conflict"
    assert pool.propose("p", ("a", 1), ("b", 1))["Status"] == "matched"


def test_many_proposals_in_one_request_are_each_by_itself(pool):
    pool.offer(*(f"t{n}" for n in range(10)))
    results = pool.propose_all(pool.proposal("1", ("t0", 1), ("t1", 1)), pool.proposal("2", ("t1", 1), ("t2", 1)),
                               pool.proposal("3", ("t2", 1), ("t3", 1)), pool.proposal("3", ("t2", 1), ("t4", 1)),
                               pool.proposal("4", ("t4", 1), ("no", 1)), pool.proposal("5", ("t4", 1), ("t5", 1)))
    assert [result["Status"] for result in results] == [
        "matched", "conflict", "matched", "key-reused", "invalid", "matched"]
    assert pool.take_names() == [["t0", "t1"], ["t2", "t3"], ["t4", "t5"]]


# --- shape ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("members", [
    [("a", 1), ("a", 1)], [("a", 1), ("unknown", 1)], [("a", 1), ("of-another", 1)], [("a", 1)],
    [("a", 1), ("b", 1), ("c", 1)],
    [("a", 1), ("heavy", 1)], []],
                         ids=["twice", "unknown", "another-pool", "too-light", "too-many", "too-heavy", "nobody"])
def test_MR36_a_proposal_of_a_wrong_shape_is_invalid_and_nothing_happens(pool, daemon, members):
    other = Pool(daemon, "other", results="other-results", expired="other-expired")
    other.offer("of-another")
    pool.offer("a", "b", "c", ticket("heavy", Weight=2))
    result = pool.propose("p", *members)
    assert result["Status"] == "invalid" and result["Why"], result
    assert pool.counts() == {"Offered": 4, "Waiting": 4} and other.counts() == {"Offered": 1, "Waiting": 1}
    assert pool.take() == [] and pool.describe()["Sequence"] == 4
    assert pool.propose("p", ("heavy", 1))["Status"] == "matched"  # a party may fill a match by itself


def test_MR36_a_weight_that_no_division_into_the_teams_gives(daemon):
    pool = Pool(daemon, Teams=[{"name": "red", "size": 3}, {"name": "blue", "size": 3}])
    pool.offer(*(ticket(f"{n}", Weight=2) for n in range(3)), *(ticket(f"{n}", Weight=1) for n in range(3, 5)),
               ticket("5", Weight=3))
    # 2 + 2 + 2 is six, but a party stays together
    assert pool.propose("p", ("0", 1), ("1", 1), ("2", 1))["Status"] == "invalid"
    pool.match("p", "0", "1", "3", "4")
    (result,) = pool.take()
    weights = {"red": 0, "blue": 0}
    for member in result.members:
        weights[member["team"]] += 2 if member["ticket"] in "01" else 1
    assert weights == {"red": 3, "blue": 3}


def test_MR36_groups_of_any_weight_where_the_size_is_0(daemon):
    pool = Pool(daemon, Size=0)
    pool.offer(*(f"t{n}" for n in range(210)))
    pool.match("one", "t0")
    assert pool.propose("most", *((f"t{n}", 1) for n in range(1, 201)))["Status"] == "matched"
    assert pool.propose("more", *((f"x{n}", 1) for n in range(201)))["Status"] == "invalid"
    assert pool.counts() == {"Offered": 210, "Waiting": 9, "Matched": 201}


def test_MR18_no_proposal_reaches_over_pools_or_namespaces(daemon_factory, tmp_path):
    """M24 and M25 are about matches over several shards, whose members are claimed one after the other. Here there is
    none: a pool lives in one log, a proposal names one pool, and a match is one record (M3). So nothing can be stuck
    half claimed; what is left to show is that two pools with tickets of the same names have nothing to do with each
    other, and that neither do those of two namespaces."""
    daemon = daemon_factory().start()
    pools = [Pool(daemon, name, results=f"{name}-results", expired=f"{name}-expired") for name in ("x", "y")]
    for pool in pools:
        pool.offer("a", "b")
    pools[1].offer("only-here")
    assert pools[0].propose("p", ("a", 1), ("only-here", 1))["Status"] == "invalid"
    first = pools[0].match("p", "a", "b")
    assert pools[1].counts() == {"Offered": 3, "Waiting": 3}
    second = pools[1].match("p", "b", "a")  # the key is each pool's own too
    assert first != second
    assert pools[0].put_back(first) == "put-back"
    assert pools[0].good("PutBackMatch", MatchId=second)["Status"] == "unknown"
    assert pools[0].counts() == {"Offered": 2, "Waiting": 2} and pools[1].counts() == {
        "Offered": 3, "Waiting": 1, "Matched": 2}
    assert [result.match for result in pools[1].take()] == [second] and pools[0].take() == []
    daemon.stop()


# --- a full result queue ----------------------------------------------------------------------------------------------


def test_MR29_a_full_result_queue_refuses_before_anybody_is_retired(daemon):
    """M14."""
    pool = Pool(daemon, ResultsMax=2)
    pool.offer(*(f"t{n}" for n in range(8)))
    results = pool.propose_all(*(pool.proposal(f"p{n}", (f"t{2 * n}", 1), (f"t{2 * n + 1}", 1)) for n in range(4)))
    assert [result["Status"] for result in results] == ["matched", "matched", "result-full", "result-full"]
    assert pool.waiting() == ["t4", "t5", "t6", "t7"] and pool.version("t4") == 1
    assert pool.propose("p0", ("t0", 1), ("t1", 1))["Status"] == "matched"  # a repeat needs no room
    assert pool.propose("p9", ("t0", 1), ("t4", 1))["Status"] == "conflict"  # the members are looked at first
    got = pool.receive()
    assert pool.propose("p2", ("t4", 1), ("t5", 1))["Status"] == "result-full"  # received is not deleted
    pool.delete(got[0])
    assert pool.propose("p2", ("t4", 1), ("t5", 1))["Status"] == "matched"
    assert pool.propose("p3", ("t6", 1), ("t7", 1))["Status"] == "result-full"
    assert pool.put_back(got[1].match) == "put-back"
    assert pool.propose("p3", ("t6", 1), ("t7", 1))["Status"] == "matched"
    assert pool.check()["Matched"] == 6


def test_MR29_the_built_in_matcher_waits_for_room_and_goes_on(daemon):
    pool = Pool(daemon, Matcher="built-in", Attributes={"m": "str"}, Rules=[{"type": "equal", "attr": "m"}],
                ResultsMax=3)
    count = scaled(20, least=10)
    pool.offer(*(ticket(f"t{n}", m="x") for n in range(2 * count)))
    wait_until(lambda: pool.count_results() == 3, what="three results")
    assert pool.counts()["Matched"] == 6
    taken = []
    while len(taken) < count:
        got = wait_until(pool.receive, what="another result")
        assert pool.count_results() <= 3
        for result in got:
            pool.delete(result)
        taken += got
    assert sorted(name for result in taken for name in result.names) == sorted(f"t{n}" for n in range(2 * count))
    assert pool.check()["Waiting"] == 0


# --- the version of the rules -----------------------------------------------------------------------------------------

EQUAL = [{"type": "equal", "attr": "mode"}]
NEAR = [{"type": "near", "attr": "mmr", "max": 10}]


def test_MR35_proposals_under_older_rules_are_stale(pool):
    """M29."""
    pool.offer(ticket("a", mode="x", mmr=1), ticket("b", mode="x", mmr=90), ticket("c"), ticket("d"))
    assert pool.good("UpdatePool", Rules=EQUAL)["RulesVersion"] == 2
    result = pool.propose("p", "a", "b", RulesVersion=1)
    assert (result["Status"], result["RulesVersion"]) == ("stale", 2) and pool.counts() == {"Offered": 4, "Waiting": 4}
    assert pool.propose("p", "c", "d", RulesVersion=0)["Status"] == "matched"  # says that it looked at none
    assert pool.propose("q", "a", "b", RulesVersion=2)["Status"] == "matched"


def test_MR35_with_verify_they_are_held_against_the_new_ones(daemon):
    pool = Pool(daemon, Attributes={"mode": "str", "mmr": "num"}, Rules=EQUAL, Verify=True)
    pool.offer(ticket("a", mode="x", mmr=1), ticket("b", mode="x", mmr=90), ticket("c", mode="x", mmr=5),
               ticket("d", mode="y", mmr=5))
    result = pool.propose("p", "a", "d", RulesVersion=1)
    assert result["Status"] == "invalid" and "mode" in result["Why"], result
    pool.good("UpdatePool", Rules=EQUAL + NEAR)
    result = pool.propose("p", "a", "b", RulesVersion=1)
    assert result["Status"] == "invalid" and "mmr" in result["Why"], result
    assert pool.counts() == {"Offered": 4, "Waiting": 4}
    assert pool.propose("p", "a", "c", RulesVersion=1)["Status"] == "matched"


def test_MR35_new_rules_let_every_waiting_ticket_look_once(daemon):
    pool = Pool(daemon, Attributes={"mode": "str", "mmr": "num"}, Rules=EQUAL, Matcher="built-in")
    count = scaled(1000, least=100)
    pool.offer_many(ticket(f"t{n}", mode=f"m{n}", mmr=n // 2 * 100) for n in range(count))
    pool.wait_until_idle()
    probes = pool.describe()["Probes"]
    assert pool.counts() == {"Offered": count, "Waiting": count}
    pool.good("UpdatePool", Rules=NEAR)
    taken = pool.wait_for_results(count // 2)
    pool.wait_until_idle()
    assert sorted(result.names for result in taken) == sorted(
        sorted([f"t{n}", f"t{n + 1}"]) for n in range(0, count, 2))
    assert count // 2 <= pool.describe()["Probes"] - probes <= count
    # What doesn't change them lets nobody look.
    pool.offer(ticket("u", mode="x", mmr=-1e6))
    pool.wait_until_idle()
    described = pool.describe()
    assert pool.good("UpdatePool", TicketTtlSeconds=3600)["RulesVersion"] == 2
    assert pool.describe()["Probes"] == described["Probes"] and pool.describe()["Seeds"] == 0


# --- the result -------------------------------------------------------------------------------------------------------


def test_the_result_says_who_was_matched_and_how_long_they_waited(pool):
    pool.offer(ticket("a", mode="x", Body="of a"), ticket("b", mmr=2.5))
    match = pool.match("p", "b", "a", Body="of the proposal")
    (result,) = pool.take()
    assert (result.id == result.match == match and result.body["pool"] == "pool"
            and result.body["body"] == "of the proposal")
    by_name = {member["ticket"]: member for member in result.members}
    assert by_name["a"]["attributes"] == {"mode": "x"} and by_name["a"]["body"] == "of a"
    assert by_name["b"]["attributes"] == {"mmr": 2.5} and by_name["b"]["body"] is None
    assert all(isinstance(member["waitedMs"], int) and member["waitedMs"] >= 0 for member in result.members)
    assert json.dumps(result.body)


def test_a_result_queue_that_was_purged_leaves_its_matches_made(pool, daemon):
    pool.offer("a", "b")
    match = pool.match("p", "a", "b")
    make_queue(daemon, "unrelated")
    assert daemon.call("AmazonSQS.PurgeQueue", {"QueueUrl": pool.results})[0] == 200
    wait_until(lambda: pool.count_results() == 0, what="the purge")
    wait_until(lambda: pool.put_back(match) == "acked", what="the end of its message")
    assert pool.counts() == {"Offered": 2, "Matched": 2} and pool.take() == []
