"""The feed: what matchers outside know of a pool, also when they are slow, dead, stopped, or told wrongly; and that it
never matters for more than who looks at what."""

import collections
import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from conftest import PATIENCE, clean_environment, wait_until
from pools import Pool, View, ticket
from wire import scaled

LEASE = 10  # seconds: parts of a caller that has not asked for so long are looked after by others
KEPT = 100000  # events


@pytest.fixture
def pool(daemon):
    return Pool(daemon, Attributes={"mode": "str", "mmr": "num"})


def churn(pool, chance, names, count):
    """All kinds of things that happen to tickets."""
    for _ in range(count):
        what = chance.choice(["offer", "offer", "offer", "update", "cancel", "match", "put back"])
        waiting = pool.waiting() if what in ("update", "match") else []
        if what == "offer":
            pool.offer(*(ticket(f"t{next(names)}", mmr=chance.randrange(100)) for _ in range(5)))
        elif what == "update" and waiting:
            pool.update(chance.choice(waiting), Attributes={"mmr": chance.randrange(100)})
        elif what == "cancel":
            pool.cancel(f"t{chance.randrange(next(names) + 1)}")
        elif what == "match" and len(waiting) > 1:
            pool.match(f"p{next(names)}", *chance.sample(waiting, 2))
        elif what == "put back":
            for result in pool.receive(0)[:1]:
                pool.put_back(result.match)


# --- what it says -----------------------------------------------------------------------------------------------------


def test_the_feed_numbers_everything_without_gaps(pool):
    first = pool.feed(0)
    assert first["Events"] == [] and not first.get("Resync")
    start = first["Next"]
    pool.offer(ticket("a", mode="x", Need={"mmr": {"min": 1}}, Priority=2), "b", "c")
    pool.update("a", Attributes={"mode": "y"})
    match = pool.match("p", "a", "b")
    pool.put_back(match)
    pool.cancel("c")
    pool.good("UpdatePool", Rules=[{"type": "equal", "attr": "mode"}])
    answer = pool.feed(start)
    events = answer["Events"]
    assert [event["Sequence"] for event in events] == list(range(start, answer["Next"])) and not answer.get("Resync")
    told = [(event["Type"], event.get("TicketId"), event.get("Version"), event.get("Reason")) for event in events]
    # c has been retired by now, so its offer is told as that; the others wait in a version that came later.
    assert told[0][:2] == ("offer", "a") and told[1][:2] == ("offer", "b") and told[2][:2] == ("retire", "c")
    assert collections.Counter(kind for kind, *_ in told) == {"offer": 5, "retire": 4, "rules": 1}
    assert {event["MatchId"] for event in events if event.get("Reason") == "match"} == {match}
    assert events[-1]["RulesVersion"] == 2 and events[-1]["Rules"] == [{"type": "equal", "attr": "mode"}]
    newest = [event for event in events if event.get("TicketId") == "a" and event["Type"] == "offer"][-1]
    assert newest["Version"] == 3 and newest["Attributes"] == {"mode": "y"} and newest["Need"] == {"mmr": {"min": 1}}
    assert newest["Priority"] == 2 and newest["Weight"] == 1 and newest["Level"] == 0
    assert pool.feed(answer["Next"]) | {"SeedParts": None} == {"Events": [], "Next": answer["Next"], "SeedParts": None}
    assert pool.describe()["Sequence"] == answer["Next"] - 1


def test_a_feed_for_matchers_outside_begins_with_the_pool(pool, daemon):
    """Whoever comes late reads from event 0 on, without the list: also after a restart that replays the pool's whole
    log."""
    pool.offer("a", "b")
    pool.cancel("b")

    def told():
        answer = pool.feed(0)
        assert not answer.get("Resync") and answer["Next"] == 4
        return [(event["Sequence"], event["Type"], event["TicketId"]) for event in answer["Events"]]

    # b has been retired by now, so its offer is told as that.
    assert told() == [(1, "offer", "a"), (2, "retire", "b"), (3, "retire", "b")]
    assert [event["Sequence"] for event in pool.feed(1)["Events"]] == [1, 2, 3]
    daemon.kill9()
    daemon.start()
    assert told() == [(1, "offer", "a"), (2, "retire", "b"), (3, "retire", "b")]


def test_a_feed_that_nobody_was_to_read_begins_with_its_first_reading(daemon):
    pool = Pool(daemon, Attributes={"mode": "str"}, Matcher="built-in")
    pool.offer("a")
    assert pool.feed(0) == {"Events": [], "Next": 2, "Resync": True}
    pool.offer("b")
    assert pool.feed(2)["Events"][0]["TicketId"] == "b"
    assert pool.feed(0)["Resync"] is True  # not all of it is kept
    pool.good("UpdatePool", Matcher="both")
    assert pool.feed(0)["Resync"] is True and len(pool.feed(2)["Events"]) >= 1


def test_a_reader_waits_for_the_next_event(pool):
    import threading

    start = pool.feed(0)["Next"]
    told = []
    reader = threading.Thread(target=lambda: told.append((pool.feed(start, WaitTimeSeconds=20), time.monotonic())))
    reader.start()
    time.sleep(0.3)
    assert not told
    offered = time.monotonic()
    pool.offer("a")
    reader.join()
    (answer, at), = told
    assert [event["TicketId"] for event in answer["Events"]] == ["a"] and at - offered < 5 * PATIENCE
    began = time.monotonic()
    assert pool.feed(answer["Next"], WaitTimeSeconds=1)["Events"] == [] and time.monotonic() - began >= 0.9


def test_max_results_are_the_credit(pool):
    start = pool.feed(0)["Next"]
    pool.offer_many(f"t{n}" for n in range(25))
    seen = []
    while events := (answer := pool.feed(start, MaxResults=10))["Events"]:
        assert len(events) <= 10
        seen += [event["TicketId"] for event in events]
        start = answer["Next"]
    assert seen == [f"t{n}" for n in range(25)]


def test_widening_is_told_by_the_log_and_only_once(daemon):
    """M22: the levels are the log's, so a restart changes none and repeats none."""
    pool = Pool(daemon, Attributes={"mmr": "num"}, Rules=[
        {"type": "near", "attr": "mmr", "max": 1, "expand": [{"after": "500ms", "max": 2}, {"after": "1s", "max": 3}]}])
    view = View(pool)
    start = view.next
    pool.offer_many(ticket(f"t{n}", mmr=10 * n) for n in range(20))
    wait_until(lambda: all(entry["Level"] == 2 for entry in pool.list()[0].values()), what="two steps of all")
    events = view.follow()
    assert collections.Counter(event["Type"] for event in events) == {"offer": 20, "widen": 40}
    assert [event["Sequence"] for event in events] == list(range(start, start + 60))
    view.check()
    sequence = pool.describe()["Sequence"]
    daemon.kill9()
    daemon.start()
    assert pool.describe()["Sequence"] == sequence and {entry["Level"] for entry in pool.list()[0].values()} == {2}
    view.check()


# --- slow, or told wrongly --------------------------------------------------------------------------------------------


def test_MR15_a_reader_that_is_too_slow_is_told_so_and_knows_everything_afterwards(pool):
    """M15. The newest 100,000 events are kept; here there are more, from updates of a few tickets."""
    view = View(pool)
    pool.offer_many(f"t{n}" for n in range(500))
    view.follow()
    behind = view.next
    line = pool.line()
    rounds = KEPT // 2000 + 1
    for n in range(rounds):  # 2,000 events each: offered and cancelled
        names = [f"{n}-{i}" for i in range(1000)]
        line.offer(*names)
        line.cancel(*names)
    pool.offer_many(f"new{n}" for n in range(10))
    pool.cancel("t7")
    answer = pool.feed(behind)
    assert answer["Resync"] is True and answer["Events"] == [] and answer["Next"] > behind + KEPT
    assert view.next == behind and "t7" in view.tickets
    view.check()
    assert view.resyncs == 2 and view.gaps == 0 and "t7" not in view.tickets and "new9" in view.tickets
    # What is just kept is had.
    newest = pool.describe()["Sequence"]
    assert not pool.feed(newest - KEPT + 1).get("Resync") and pool.feed(newest - KEPT)["Resync"] is True
    assert (pool.feed(newest + 1)["Events"] == [] and not pool.feed(newest + 1).get("Resync")
            and pool.feed(newest + 2)["Resync"] is True)
    line.close()


def test_MR15_after_a_restart_a_view_is_the_servers_again(pool, daemon):
    chance, names = random.Random(15), itertools.count()
    view = View(pool)
    for _ in range(scaled(6, least=2)):
        churn(pool, chance, names, 15)
        view.follow()
        churn(pool, chance, names, 5)
        daemon.kill9()
        daemon.start()
        view.check()
        churn(pool, chance, names, 10)
        view.check()
    assert view.gaps == 0


def test_MR15_a_list_that_is_read_while_everything_changes_ends_in_the_servers_view(pool):
    import threading

    chance, names, is_over = random.Random(16), itertools.count(), threading.Event()
    pool.offer_many(f"old{n}" for n in range(3000))

    def work():
        line = pool.line()
        while not is_over.is_set():
            churn(line, chance, names, 5)
        line.close()

    worker = threading.Thread(target=work)
    worker.start()
    views = []
    for _ in range(scaled(10, least=3)):
        views.append(View(pool))
        for view in views:
            view.follow()
    is_over.set()
    worker.join()
    for view in views:
        view.check()
        assert view.gaps == 0


@pytest.mark.parametrize("fault", ["lost", "doubled", "reordered", "all"])
def test_MR16_a_matcher_that_is_told_wrongly_causes_conflicts_and_nothing_else(pool, fault):
    """M2 and M16. Its view loses, doubles and mixes up events; it proposes from that. It may be refused, and that is
    all."""
    chance = random.Random(f"16 {fault}")
    view, honest = View(pool), pool.line()
    statuses, detected = collections.Counter(), 0
    for n in range(scaled(60, least=10)):
        honest.offer(*(f"{n}-{i}" for i in range(8)))
        honest.propose(f"honest-{n}", (f"{n}-0", 1), (f"{n}-1", 1))
        honest.cancel(f"{n}-2")
        honest.update(f"{n}-3", Attributes={"mmr": n})
        events = honest.feed(view.next)["Events"]
        expected = [event["Sequence"] for event in events]
        if fault in ("lost", "all"):
            events = [event for event in events if event["Type"] != "retire" or chance.random() < 0.3]
        if fault in ("doubled", "all"):
            events = [event for event in events for _ in range(chance.choice([1, 1, 2, 3]))]
        if fault in ("reordered", "all"):
            chance.shuffle(events)
        detected += [event["Sequence"] for event in events] != expected
        for event in events:  # without a look at the numbers
            view.apply(event)
        view.next = expected[-1] + 1
        known = sorted(view.tickets)
        for attempt in range(3):
            a, b = chance.sample(known, 2)
            result = pool.propose(f"{n}.{attempt}", (a, view.tickets[a][0]), (b, view.tickets[b][0]))
            statuses[result["Status"]] += 1
    assert set(statuses) <= {"matched", "conflict", "stale"} and statuses["matched"] and statuses["conflict"], statuses
    assert detected  # by the numbers, which are what an honest reader looks at
    taken = [name for result in pool.take() for name in result.names]
    assert len(taken) == len(set(taken)) == pool.check()["Matched"]
    honest.close()


# --- who looks at what ------------------------------------------------------------------------------------------------


def parts_of(pool, part, parts, **more):
    return set(pool.feed(pool.describe()["Sequence"] + 1, Part=part, Parts=parts, **more)["SeedParts"])


def test_MR13_the_part_of_a_matcher_that_died_is_looked_after_by_the_others_within_the_lease(pool):
    """M2: a part says who looks, never who may; so also a late proposal of the dead one meets only the checks of every
    proposal."""
    parts = 4
    pool.offer_many(f"t{n}" for n in range(40))
    for part in range(parts):
        parts_of(pool, part, parts)
    asked = time.monotonic()
    assert [parts_of(pool, part, parts) for part in range(parts)] == [{part} for part in range(parts)]
    # The last one dies; the others go on.
    died = time.monotonic()

    def claim():
        held = [parts_of(pool, part, parts) for part in range(3)]
        return held if set().union(*held) == set(range(parts)) else None

    held = wait_until(claim, LEASE + 8, "a taking over")
    assert LEASE - 1.5 < time.monotonic() - asked and time.monotonic() - died < (LEASE + 5) * PATIENCE
    assert all(part in held[part] for part in range(3))
    # Whose tickets they are is not whose they may be.
    listed, _ = pool.list(Parts=parts)
    (of_the_dead, *_), (of_another, *_) = (
        [name for name, entry in listed.items() if entry["Part"] == part] for part in (3, 0))
    pool.match("taken-over", of_the_dead, of_another)
    late = pool.propose("late", (of_the_dead, 1), (of_another, 1))
    assert late["Status"] == "conflict" and len(pool.take()) == 1
    # It comes back: the part is its own again, at the latest when the others have asked.
    parts_of(pool, 3, parts)
    assert parts_of(pool, 3, parts) == {3} and [parts_of(pool, part, parts) for part in range(3)] == [{0}, {1}, {2}]


def test_MR13_one_alone_looks_after_all_parts_and_each_ticket_has_one(pool):
    pool.offer_many(f"t{n}" for n in range(500))
    wait_until(lambda: parts_of(pool, 2, 8) == set(range(8)), LEASE + 5, "all parts")
    listed, _ = pool.list(Parts=8)
    counts = collections.Counter(entry["Part"] for entry in listed.values())
    assert set(counts) == set(range(8)) and max(counts.values()) < 500 / 8 * 2
    view = pool.feed(pool.describe()["Sequence"] - 99, Parts=8, Part=2)["Events"]
    assert len(view) == 100 and all(event["Part"] == listed[event["TicketId"]]["Part"] for event in view)


MATCHER = """
    import sys, time
    sys.path.insert(0, {here!r})
    from pools import Pool
    class There: port = {port}
    line = Pool(There, make=False).line()
    known = [(name, entry["Version"]) for name, entry in line.list()[0].items()]
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(0, len(known) - 1, 2):
        print(line.propose("slow-%d" % n, known[n], known[n + 1])["Status"], flush=True)
"""


def test_MR14_a_matcher_that_was_stopped_proposes_what_is_long_over_and_changes_nothing(pool, daemon):
    """M2. SIGSTOP between what it read and what it proposes; how long it is stopped makes no difference, because
    nothing expires by that."""
    count = 12
    pool.offer_many(f"t{n}" for n in range(count))
    here = os.path.dirname(os.path.abspath(__file__))
    matcher = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(MATCHER.format(here=here, port=daemon.port))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment())
    try:
        assert matcher.stdout.readline() == "ready\n"
        matcher.send_signal(signal.SIGSTOP)
        matcher.stdin.write("go\n")
        matcher.stdin.flush()
        for n in range(0, 4, 2):
            pool.match(f"p{n}", f"t{n}", f"t{n + 1}")
        put_back = pool.match("put-back", "t4", "t5")
        pool.put_back(put_back)
        pool.update("t6", Attributes={"mmr": 1})
        pool.cancel("t8", "t9", "t10", "t11")
        before = pool.counts(), pool.describe()["Sequence"], [result.names for result in pool.take()]
        time.sleep(1)
        matcher.send_signal(signal.SIGCONT)
        statuses = [matcher.stdout.readline().strip() for _ in range(count // 2)]
    finally:
        matcher.kill()
        matcher.communicate()
    assert set(statuses) == {"conflict", "stale"}, statuses
    assert (pool.counts(), pool.describe()["Sequence"]) == before[:2] and pool.take() == []
    assert pool.waiting() == ["t4", "t5", "t6", "t7"]


def test_MR21_a_ticket_that_moves_to_another_part_is_in_one_match_and_never_out_of_sight(pool):
    """M27. A pool is one log with one index, so there are no partitions of tickets between which one could be lost or
    seen twice; what moves is only who looks after a seed, when the number of matchers changes. So this is weaker than
    the scenario: while the callers go from two parts to five and back, every list has every ticket once, each with one
    part, and what two believe to be theirs is matched once."""
    count = 60
    pool.offer_many(f"t{n}" for n in range(count))
    for n, parts in enumerate([2, 5, 3, 1, 64, 2]):
        seeds = [parts_of(pool, part, parts) for part in range(min(parts, 4))]
        listed, _ = pool.list(Parts=parts)
        assert len(listed) == count - 2 * n and all(0 <= entry["Part"] < parts for entry in listed.values())
        names = sorted(listed)[:2]
        results = [pool.propose(f"{n}.{caller}", *((name, 1) for name in names)) for caller in range(len(seeds) + 1)]
        assert [result["Status"] for result in results] == ["matched"] + ["conflict"] * len(seeds)
    taken = [name for result in pool.take() for name in result.names]
    assert len(taken) == len(set(taken)) == 12 and len(pool.waiting()) == count - 12
