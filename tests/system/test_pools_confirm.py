"""Matches that are confirmed before they are made: each ticket says yes, or one says no, or the time is over."""

import pytest

from conftest import wait_until
from pools import Pool, View, ticket
from wire import Crowd, request_bytes, scaled


@pytest.fixture
def pool(daemon):
    return Pool(daemon, Attributes={"mode": "str"}, Size=3, ConfirmSeconds=60)


def test_a_match_is_made_when_the_last_has_said_yes(pool):
    pool.offer(*(ticket(name, mode="x") for name in "abc"))
    view = View(pool)
    result = pool.propose("p", "a", "b", "c", Body="text")
    match = result["MatchId"]
    assert result["Status"] == "matched"
    view.follow()
    assert view.tickets == {} and view.retired == {name: ("hold", match) for name in "abc"}
    assert [(pool.get(name)["Status"], pool.get(name)["MatchId"]) for name in "abc"] == [("held", match)] * 3
    assert pool.take() == [] and pool.counts() == {"Offered": 3, "Held": 3}
    (other,) = pool.propose("q", ("a", 1), ("b", 1), ("c", 1))["Members"][:1]
    assert other["Why"] == "held"
    assert [cancelled["Status"] for cancelled in pool.cancel("a")] == ["too-late"]
    assert pool.confirm(match, "a") == "held" and pool.confirm(match, "a") == "held"
    assert pool.confirm(match, "b") == "held" and pool.take() == []
    assert pool.confirm(match, "c") == "matched"
    (made,) = pool.take()
    assert made.match == match and made.names == ["a", "b", "c"] and made.body["body"] == "text"
    assert pool.check()["Matched"] == 3
    assert pool.confirm(match, "a") in ("matched", "too-late") and pool.confirm(match, "a", accept=False) == "too-late"
    assert pool.propose_all(pool.proposal("p", ("a", 1), ("b", 1), ("c", 1), Body="text"))[0]["MatchId"] == match


def test_MR31_who_refuses_is_out_and_the_others_wait_with_their_age(pool):
    pool.offer(*"abcd")
    before = {name: pool.get(name)["OfferedAt"] for name in "abc"}
    match = pool.match("p", "a", "b", "c")
    assert pool.confirm(match, "a") == "held"
    assert pool.confirm(match, "b", accept=False) == "refused"
    assert pool.status("b") == "cancelled"
    for name in "ac":
        got = pool.get(name)
        assert (got["Status"], got["Version"], got["OfferedAt"]) == ("waiting", 2, before[name])
        assert not got.get("MatchId")
    assert [pool.confirm(match, name) for name in "ac"] == ["too-late"] * 2
    assert pool.counts() == {"Offered": 4, "Waiting": 3, "Cancelled": 1} and pool.take() == []
    again = pool.match("again", "a", "c", "d")
    for name in "acd":
        status = pool.confirm(again, name)
    assert status == "matched" and pool.take_names() == [["a", "c", "d"]]
    pool.check()


def test_MR31_who_does_not_answer_in_time_is_out_and_a_late_yes_comes_too_late(daemon):
    pool = Pool(daemon, ConfirmSeconds=1)
    pool.offer("a", "b")
    before = pool.get("a")["OfferedAt"]
    match = pool.match("p", "a", "b")
    assert pool.confirm(match, "a") == "held"
    wait_until(lambda: pool.status("b") == "cancelled", what="the end of the hold")
    got = pool.get("a")
    assert (got["Status"], got["Version"], got["OfferedAt"]) == ("waiting", 2, before)
    assert pool.confirm(match, "b") == pool.confirm(match, "a") == "too-late"
    pool.offer("c")
    other = pool.match("q", "a", "c")
    assert other != match
    assert pool.confirm(match, "a") == "too-late"  # that was another match
    assert pool.confirm(other, "a") == "held" and pool.confirm(other, "c") == "matched"
    assert pool.take_names() == [["a", "c"]]
    assert pool.check()["Cancelled"] == 1


def test_MR31_a_hold_survives_a_kill_and_ends_after_it(daemon):
    pool = Pool(daemon, ConfirmSeconds=2)
    pool.offer("a", "b", "c", "d")
    first, second = pool.match("p", "a", "b"), pool.match("q", "c", "d")
    pool.confirm(first, "a")
    pool.confirm(second, "c")
    daemon.kill9()
    daemon.start()
    assert pool.confirm(first, "b") == "matched"
    assert [result.match for result in pool.take()] == [first]
    wait_until(lambda: pool.status("d") == "cancelled", what="the end of the hold")
    assert pool.status("c") == "waiting" and pool.version("c") == 2 and pool.confirm(second, "d") == "too-late"
    assert pool.counts() == {"Offered": 4, "Waiting": 1, "Matched": 2, "Cancelled": 1}


def test_MR31_a_held_match_can_be_put_back(pool):
    pool.offer(*"abc")
    match = pool.match("p", *"abc")
    assert pool.put_back(match) == pool.put_back(match) == "put-back"
    assert [(pool.status(name), pool.version(name)) for name in "abc"] == [("waiting", 2)] * 3
    assert pool.confirm(match, "a") == "too-late" and pool.counts() == {"Offered": 3, "Waiting": 3}


def test_MR31_others_of_an_exclusive_set_wait_while_one_is_held(daemon):
    pool = Pool(daemon, ConfirmSeconds=60)
    pool.offer(ticket("a1", ExclusiveSet="player"), ticket("a2", ExclusiveSet="player"), "b", "c")
    match = pool.match("p", "a1", "b")
    assert pool.status("a2") == "waiting"
    result = pool.propose("q", "a2", "c")
    assert result["Status"] == "conflict" and [member["Why"] for member in result["Members"]] == ["exclusive-set"]
    assert pool.confirm(match, "b", accept=False) == "refused"
    second = pool.match("q", "a2", "c")
    assert pool.status("a1") == "waiting"
    pool.confirm(second, "a2")
    assert pool.confirm(second, "c") == "matched"
    assert pool.status("a1") == "cancelled"
    assert pool.counts() == {"Offered": 4, "Matched": 2, "Cancelled": 2}


def test_MR32_when_all_say_yes_at_the_same_moment_there_is_one_result(daemon):
    pool = Pool(daemon, Size=4, ConfirmSeconds=60)
    for n in range(scaled(30, least=4)):
        names = [f"{n}-{i}" for i in range(4)]
        pool.offer(*names)
        match = pool.match(f"p{n}", *names)
        requests = [request_bytes("Tally.ConfirmMatch", {"PoolName": "pool", "MatchId": match, "TicketId": name})
                    for name in names * 2]
        with Crowd(daemon.port, len(requests)) as crowd:
            statuses = [answer.json()["Status"] for answer in crowd.ask(requests)]
        assert "matched" in statuses and set(statuses) <= {"held", "matched", "too-late"}
        (result,) = pool.take()
        assert result.match == match and result.names == names
    assert pool.check()["Matched"] == 4 * scaled(30, least=4)


def test_MR32_a_yes_and_a_no_at_the_same_moment_have_one_outcome(daemon):
    pool = Pool(daemon, ConfirmSeconds=60)
    outcomes = set()
    for n in range(scaled(30, least=4)):
        a, b = f"a{n}", f"b{n}"
        pool.offer(a, b)
        match = pool.match(f"p{n}", a, b)
        pool.confirm(match, a)
        requests = [
            request_bytes("Tally.ConfirmMatch", {"PoolName": "pool", "MatchId": match, "TicketId": b, "Accept": accept})
            for accept in (True, False)]
        with Crowd(daemon.port, 2) as crowd:
            statuses = {answer.json()["Status"] for answer in crowd.ask(requests[:: 1 if n % 2 else -1])}
        results = pool.take()
        outcomes.add(pool.status(b))
        if pool.status(b) == "matched":
            assert statuses == {"matched", "too-late"} and [result.match for result in results] == [match]
        else:
            assert statuses == {"refused", "too-late"} and results == [] and pool.status(a) == "waiting"
            pool.cancel(a)
    assert outcomes <= {"matched", "cancelled"}
    pool.check()
