"""What becomes of tickets: offered, offered again, changed, cancelled, expired; in an exclusive set; and that their
counts always add up."""

import threading

import pytest

from conftest import wait_until
from pools import Pool, ticket
from wire import Crowd, request_bytes, scaled

ATTRIBUTES = {"mode": "str", "mmr": "num", "maps": "set"}


@pytest.fixture
def pool(daemon):
    """Its matchers are outside: nothing is matched by itself."""
    return Pool(daemon, Attributes=ATTRIBUTES)


# --- offering ---------------------------------------------------------------------------------------------------------


def test_what_is_offered_waits_and_is_told_as_it_was_said(pool):
    said = ticket("a", mode="ranked", mmr=1500.5, maps=["x", "y"], Need={"mmr": {"min": 1400}}, Weight=1, Priority=3,
                  ExclusiveSet="player-1", Body="who asked", TtlSeconds=3600)
    (result,) = pool.offer(said)
    assert result == {"TicketId": "a", "Status": "waiting", "Version": 1, "AlreadyOffered": False}
    got = pool.get("a")
    for name, value in said.items():
        assert got.get(name) == value or name == "TtlSeconds", (name, got)
    assert got["Status"] == "waiting" and got["Version"] == 1 and got["Level"] == 0
    assert got["ExpiresAt"] > got["OfferedAt"]
    listed, answer = pool.list()
    assert list(listed) == ["a"] and answer["RulesVersion"] == 1
    assert listed["a"]["Attributes"] == said["Attributes"] and listed["a"]["Need"] == said["Need"]
    assert pool.describe()["Weight"] == 1 and pool.check()["Offered"] == 1


def test_MR27_the_same_ticket_again_is_the_same_ticket_and_counted(pool):
    """M7: in one request, in many, also when it comes with its members in another order."""
    first = pool.offer(ticket("a", mode="x", mmr=1), ticket("a", mode="x", mmr=1), ticket("b"))
    assert [(result["Status"], result["AlreadyOffered"]) for result in first] == [
        ("waiting", False), ("waiting", True), ("waiting", False)]
    (again,) = pool.offer(ticket("a", mmr=1, mode="x"))
    assert again == {"TicketId": "a", "Status": "waiting", "Version": 1, "AlreadyOffered": True}
    assert pool.describe()["Tickets"]["AlreadyOffered"] == 2
    assert pool.check()["Offered"] == 2 and pool.waiting() == ["a", "b"]


def test_MR27_many_that_offer_the_same_at_once_make_one_ticket(pool, daemon):
    requests = [request_bytes("Tally.OfferTickets", {"PoolName": "pool", "Tickets": [ticket("a", mode="x")]})
                for _ in range(32)]
    with Crowd(daemon.port, len(requests)) as crowd:
        results = [answer.json()["Results"][0] for answer in crowd.ask(requests)]
    assert sorted(result["AlreadyOffered"] for result in results) == [False] + [True] * 31
    assert {(result["Status"], result["Version"]) for result in results} == {("waiting", 1)}
    assert pool.check()["Offered"] == 1 and pool.describe()["Tickets"]["AlreadyOffered"] == 31


def test_MR27_a_late_repeat_is_told_what_has_become_of_the_ticket(pool):
    pool.offer("matched", "other", "cancelled", ticket("expired", TtlSeconds=1))
    match = pool.match("p", "matched", "other")
    pool.cancel("cancelled")
    wait_until(lambda: pool.status("expired") == "expired", what="the expiry")
    results = pool.offer("matched", "cancelled", ticket("expired", TtlSeconds=1))
    assert [result["Status"] for result in results] == ["matched", "cancelled", "expired"]
    assert all(result["AlreadyOffered"] for result in results) and results[0]["MatchId"] == match
    pool.take()
    (result,) = pool.offer("matched")  # its match is over for good now
    assert (result["Status"], result["MatchId"], result["AlreadyOffered"]) == ("matched", match, True)
    assert pool.check()["Offered"] == 4 and pool.waiting() == []


@pytest.mark.parametrize("more", [
    {"mode": "y"}, {"mmr": 1}, {"Need": {"mmr": {"min": 1}}}, {"Weight": 2}, {"Priority": 1}, {"TtlSeconds": 9},
    {"ExclusiveSet": "s"},
    {"Body": "b"}, {"Body": ""}])
def test_the_same_id_with_something_else_is_refused_and_changes_nothing(daemon, more):
    pool = Pool(daemon, Attributes=ATTRIBUTES, Size=4)
    pool.offer(ticket("a", mode="x"))
    before = pool.get("a")
    (result,) = pool.offer(ticket("a", **{"mode": "x", **more}))
    assert result["Status"] == "key-reused", result
    assert pool.get("a") == before and pool.check()["Offered"] == 1


@pytest.mark.parametrize("wrong", [
    ticket("w", mode=5), ticket("w", mmr="five"), ticket("w", maps="x"), ticket("w", unknown=1), ticket("w", Weight=0),
    ticket("w", Weight=3), ticket("w", Priority=10), ticket("w", Need={"mmr": {"least": 1}}),
    ticket("w", Need={"unknown": {"eq": 1}}), ticket("w x"), ticket(""), ticket("w" * 129),
    ticket("w", mmr=1, Body="x" * 65536)], ids=range(13))
def test_of_many_offered_at_once_one_that_is_wrong_is_invalid_and_the_others_wait(pool, wrong):
    results = pool.offer(ticket("a"), wrong, ticket("b"))
    assert [result["Status"] for result in results] == ["waiting", "invalid", "waiting"], results
    assert results[1]["Why"]
    assert pool.waiting() == ["a", "b"] and pool.check()["Offered"] == 2


# --- update -----------------------------------------------------------------------------------------------------------


def test_an_update_raises_the_version_and_keeps_id_and_age(pool):
    pool.offer(ticket("a", mode="x", mmr=1, Need={"mmr": {"max": 5}}))
    offered = pool.get("a")["OfferedAt"]
    answer = pool.update("a", Attributes={"mode": "y"})
    assert (answer["Status"], answer["Version"]) == ("waiting", 2)
    got = pool.get("a")
    assert got["Attributes"] == {"mode": "y"} and got["Need"] == {"mmr": {"max": 5}} and got["OfferedAt"] == offered
    assert pool.update("a", Version=1, Need={})["Status"] == "stale"
    assert pool.version("a") == 2
    assert pool.update("a", Version=2, Need={"mmr": {"min": 1}})["Version"] == 3
    pool.cancel("a")
    assert pool.update("a", Attributes={})["Status"] == "cancelled"
    # the offer, not what it became
    assert pool.offer(ticket("a", mode="x", mmr=1, Need={"mmr": {"max": 5}}))[0]["AlreadyOffered"]


def test_MR5_an_update_of_a_matched_ticket_comes_too_late(pool):
    pool.offer("a", "b")
    match = pool.match("p", "a", "b")
    answer = pool.update("a", Attributes={"mode": "x"})
    assert (answer["Status"], answer["MatchId"]) == ("too-late", match)


# --- cancel -----------------------------------------------------------------------------------------------------------


def test_MR5_cancel_says_which_of_the_two_outcomes_it_was(pool):
    """M9: never one word for both."""
    pool.offer("a", "b", "c", ticket("d", TtlSeconds=1))
    match = pool.match("p", "a", "b")
    wait_until(lambda: pool.status("d") == "expired", what="the expiry")
    results = pool.cancel("a", "c", "d", "nobody")
    assert [result["Status"] for result in results] == ["too-late", "cancelled", "expired", "unknown"]
    assert results[0]["MatchId"] == match
    assert [result["Status"] for result in pool.cancel("c", "c")] == ["cancelled", "cancelled"]
    assert pool.counts() == {"Offered": 4, "Matched": 2, "Cancelled": 1, "Expired": 1}


def test_a_cancel_before_the_offer_is_not_remembered(pool):
    assert [result["Status"] for result in pool.cancel("early")] == ["unknown"]
    pool.offer("early")
    assert pool.status("early") == "waiting"


# --- expiry -----------------------------------------------------------------------------------------------------------


def test_MR6_what_expires_is_told_to_the_expiry_queue_exactly_once(daemon):
    """Of the ticket's own ttl, and of the pool's; 0 is none."""
    pool = Pool(daemon, Attributes=ATTRIBUTES, TicketTtlSeconds=2)
    count = scaled(300)
    pool.offer_many(ticket(f"t{n}", mmr=n, TtlSeconds=1) for n in range(count))
    pool.offer(ticket("of-the-pool", mode="x", Body="text"), ticket("for-ever", TtlSeconds=0))
    wait_until(lambda: pool.counts().get("Expired") == count + 1, what="all expiries")
    taken = dict(pool.take_expired())
    assert sorted(taken) == sorted([f"t{n}" for n in range(count)] + ["of-the-pool"])
    of_the_pool = taken["of-the-pool"]
    assert (of_the_pool["pool"] == "pool" and of_the_pool["attributes"] == {"mode": "x"}
            and of_the_pool["body"] == "text")
    assert (2000 <= of_the_pool["waitedMs"] < 20000 and taken["t7"]["waitedMs"] >= 1000
            and taken["t7"]["attributes"] == {"mmr": 7})
    daemon.kill9()
    daemon.start()
    assert pool.take_expired() == [] and pool.waiting() == ["for-ever"]
    assert pool.check() | {"AlreadyOffered": 0} == {"Offered": count + 2, "Waiting": 1, "Held": 0, "Matched": 0,
                                                    "Cancelled": 0, "Expired": count + 1, "AlreadyOffered": 0}


def test_a_queue_that_a_pool_names_is_not_deleted(pool, daemon):
    for queue in (pool.results, pool.expired):
        status, answer = daemon.call("AmazonSQS.DeleteQueue", {"QueueUrl": queue})
        assert status == 400 and answer["__type"].endswith("#QueueInUse"), answer
    pool.good("DeletePool")
    for queue in (pool.results, pool.expired):
        assert daemon.call("AmazonSQS.DeleteQueue", {"QueueUrl": queue})[0] == 200


# --- exclusive sets ---------------------------------------------------------------------------------------------------


def test_a_second_ticket_of_a_set_ends_when_the_first_result_is_deleted(pool):
    """So a set is no name for somebody who comes again."""
    pool.offer(ticket("eve-1", ExclusiveSet="eve"), "b")
    pool.match("p1", "eve-1", "b")
    pool.offer(ticket("eve-2", ExclusiveSet="eve"), ticket("fay-2"))
    assert (pool.status("eve-2"), pool.status("fay-2")) == ("waiting", "waiting")
    pool.take()
    assert (pool.status("eve-2"), pool.status("fay-2")) == ("cancelled", "waiting")


def test_MR26_of_an_exclusive_set_one_is_matched_and_the_record_of_it_cancels_the_others(pool):
    """M21. The sibling is gone in the record of the match: no event of the feed stands between the two that anybody
    else caused."""
    pool.offer(*(ticket(name, ExclusiveSet="player") for name in ("a1", "a2", "a3")), "b", "c")
    before = pool.feed(0)["Next"] - 1
    match = pool.match("p1", "a2", "b")
    result = pool.propose("p2", ("a1", 1), ("c", 1))
    assert result["Status"] == "conflict"
    assert [(member["TicketId"], member["Why"]) for member in result["Members"]] == [("a1", "cancelled")]
    assert {name: pool.status(name) for name in ("a1", "a2", "a3", "c")} == {
        "a1": "cancelled", "a2": "matched", "a3": "cancelled", "c": "waiting"}
    events = pool.feed(before + 1)["Events"]
    assert sorted((event["TicketId"], event["Type"], event["Reason"]) for event in events) == [
        ("a1", "retire", "cancel"), ("a2", "retire", "match"), ("a3", "retire", "cancel"), ("b", "retire", "match")]
    assert pool.counts() == {"Offered": 5, "Waiting": 1, "Matched": 2, "Cancelled": 2}
    assert [result.match for result in pool.take()] == [match]


def test_MR26_two_of_one_set_in_one_proposal_or_in_two_at_once(pool, daemon):
    pool.offer(*(ticket(f"a{n}", ExclusiveSet="player") for n in range(8)), *(f"b{n}" for n in range(8)))
    assert pool.propose("both", ("a0", 1), ("a1", 1))["Status"] == "conflict"
    assert pool.counts() == {"Offered": 16, "Waiting": 16}
    requests = [request_bytes("Tally.ProposeMatches", {"PoolName": "pool", "Proposals": [
        pool.proposal(f"p{n}", (f"a{n}", 1), (f"b{n}", 1))]}) for n in range(8)]
    with Crowd(daemon.port, 8) as crowd:
        statuses = [answer.json()["Results"][0]["Status"] for answer in crowd.ask(requests)]
    assert sorted(statuses) == ["conflict"] * 7 + ["matched"]
    assert pool.counts() == {"Offered": 16, "Waiting": 7, "Matched": 2, "Cancelled": 7}
    assert len(pool.take()) == 1


def test_MR26_the_built_in_matcher_takes_one_of_a_set(daemon):
    pool = Pool(daemon, Attributes={"kind": "str"}, Rules=[{"type": "pairs", "attr": "kind", "allow": [["a", "b"]]}],
                Matcher="built-in")
    count = scaled(200, least=20)
    for n in range(count):  # each player waits for three games
        pool.offer(*(ticket(f"a{n}-{game}", kind="a", ExclusiveSet=f"player-{n}") for game in range(3)))
    pool.offer_many(ticket(f"b{n}", kind="b") for n in range(count))
    results = pool.wait_for_results(count)
    players = [member["ticket"].split("-")[0] for result in results for member in result.members
               if member["ticket"][0] == "a"]
    assert sorted(players) == sorted(f"a{n}" for n in range(count))
    pool.wait_until_idle()
    assert pool.counts() == {"Offered": 4 * count, "Matched": 2 * count, "Cancelled": 2 * count}


# --- all of it at once ------------------------------------------------------------------------------------------------


def test_MR39_the_counts_add_up_at_every_moment_whatever_many_do_at_once(pool):
    """M28 at some of the positions of the log: each DescribePool is one. And at the end."""
    threads, faults, is_over = [], [], threading.Event()

    def work(number):
        line = pool.line()
        for n in range(scaled(60, least=10)):
            names = [f"{number}-{n}-{i}" for i in range(6)]
            line.offer(
                *(ticket(name, ExclusiveSet=f"{number}-{n // 2}") if i == 5 else name for i, name in enumerate(names)))
            line.propose(f"{number}-{n}", (names[0], 1), (names[1], 1))
            line.cancel(names[2])
            line.update(names[3], Attributes={"mmr": n})
            line.propose(f"{number}-{n}-again", (names[3], 2), (names[5], 1))
        line.close()

    def watch():
        line = pool.line()
        while not is_over.is_set():
            counts = line.describe()["Tickets"]
            if counts["Offered"] != sum(
                    counts[state] for state in ("Waiting", "Held", "Matched", "Cancelled", "Expired")):
                faults.append(counts)
        line.close()

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(6):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    is_over.set()
    watcher.join()
    assert not faults
    counts = pool.check()
    names = [name for result in pool.take() for name in result.names]
    assert len(names) == len(set(names)) == counts["Matched"]
