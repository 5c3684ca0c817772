"""Pools and what is durable: the daemon is killed, its disk fails, its log ends in the middle of a match, snapshots are
taken, clocks jump. What was acknowledged is there afterwards; what was not is there whole or not at all."""

import collections
import contextlib
import json
import random
import shutil
import subprocess
import threading
import time

import pytest

from clock import Clock
from conftest import BIN, PATIENCE, WRAPPER, Daemon, clean_environment, wait_until
from disk import BrokenDisk
from http_proxy import HttpProxy
from pools import Pool, View, ticket
from wire import Connection, Lost, request_bytes, scaled

SMALL = ("--body-max", "64KiB", "--segment-size", "5MiB", "--snapshot-bytes", "1MiB")


def restart(daemon):
    daemon.kill9()
    return daemon.start()


def ask_and_lose(daemon, pool, action, **parameters):
    """Sends a request that has no answer, or one that says that nobody knows what became of it."""
    with contextlib.suppress(Lost):
        answer = Connection(daemon.port, seconds=30).call(f"Tally.{action}", {"PoolName": pool.name, **parameters})
        assert answer.status == 503 and b"This server has lost its log" in answer.body, (answer.status, answer.body)


# --- killed -----------------------------------------------------------------------------------------------------------


def test_MR3_after_a_restart_the_same_proposal_has_the_same_answer(daemon):
    """M8. Also when the tickets have changed since, because the match was put back; and when its result has long been
    deleted."""
    pool = Pool(daemon)
    pool.offer(*(f"t{n}" for n in range(8)))
    proposals = [pool.proposal(f"p{n}", (f"t{2 * n}", 1), (f"t{2 * n + 1}", 1), Body=f"body {n}") for n in range(3)]
    matches = [result["MatchId"] for result in pool.propose_all(*proposals)]
    assert pool.put_back(matches[1]) == "put-back"
    restart(daemon)
    for _ in range(2):
        results = pool.propose_all(*proposals)
        assert [result["MatchId"] for result in results[::2]] == matches[::2]
        assert {result["Status"] for result in results[::2]} == {"matched"}
        assert pool.propose("p0", ("t6", 1), ("t7", 1))["Status"] == "key-reused"
        restart(daemon)
    assert sorted(result.match for result in pool.take()) == sorted(matches[::2])
    restart(daemon)
    assert pool.propose_all(proposals[0])[0]["MatchId"] == matches[0]
    assert pool.take() == [] and pool.counts() == {"Offered": 8, "Waiting": 4, "Matched": 4}


def test_MR9_killed_between_the_log_and_the_reply(daemon):
    """M3 and M5. The proxy keeps the answers: all was durable, and nobody was told."""
    proxy = HttpProxy(daemon.port)
    there = Pool(daemon)
    there.offer("a", "b", "c", "d")
    proxy.keep("Tally.ProposeMatches")
    proposal = there.proposal("p", ("a", 1), ("b", 1))
    port = int(proxy.endpoint.rsplit(":", 1)[1])

    def propose():
        with pytest.raises(Lost):
            Connection(port, seconds=60).call("Tally.ProposeMatches", {"PoolName": "pool", "Proposals": [proposal]})

    asking = threading.Thread(target=propose)
    asking.start()
    wait_until(lambda: proxy.kept == 1, what="a kept answer")
    daemon.kill9()
    proxy.release()
    asking.join()
    daemon.start()
    assert there.counts() == {"Offered": 4, "Waiting": 2, "Matched": 2}
    match = there.get("a")["MatchId"]
    assert there.propose_all(proposal)[0] == {"ProposalId": "p", "Status": "matched", "MatchId": match}
    (result,) = there.take()
    assert result.match == match and result.names == ["a", "b"]
    assert there.take() == [] and there.describe()["Matches"] == 1
    proxy.close()


def test_MR10_killed_before_the_log_has_it(daemon_factory):
    """The disk takes nothing more from when the proposal comes: the daemon had decided, and ends."""
    daemon = daemon_factory()
    disk = BrokenDisk(daemon, "pwrite")
    pool = Pool(daemon)
    pool.offer("a", "b")
    proposal = pool.proposal("p", ("a", 1), ("b", 1))
    disk.breaks()
    ask_and_lose(daemon, pool, "ProposeMatches", Proposals=[proposal])
    disk.wait_for_end()
    daemon.start()
    assert pool.counts() == {"Offered": 2, "Waiting": 2} and pool.version("a") == 1 and pool.take() == []
    assert pool.propose_all(proposal)[0]["Status"] == "matched"
    assert pool.take_names() == [["a", "b"]]
    daemon.stop()


@pytest.mark.parametrize("members", [2, 40])
def test_MR11_a_log_that_ends_inside_a_match_has_nothing_of_it(daemon_factory, members):
    """M3. The disk breaks after the first sector of the record; of forty members it is several kilobytes, and the first
    ones are on the disk."""
    daemon = daemon_factory()
    disk = BrokenDisk(daemon, "pwrite", FAIL_SHORT=1)
    pool = Pool(daemon, Attributes={"mode": "str"}, Size=members)
    names = [f"t{n}" for n in range(members)]
    pool.offer(*(ticket(name, mode="x" * 200, Body="y" * 200) for name in names))
    proposal = pool.proposal("p", *((name, 1) for name in names), Body="z" * 1000)
    disk.breaks()
    ask_and_lose(daemon, pool, "ProposeMatches", Proposals=[proposal])
    disk.wait_for_end()
    daemon.start()
    assert pool.counts() == {"Offered": members, "Waiting": members} and pool.count_results() == 0
    assert {entry["Version"] for entry in pool.list()[0].values()} == {1}
    assert pool.propose_all(proposal)[0]["Status"] == "matched"
    assert pool.take_names() == [sorted(names)]
    daemon.stop()


def test_MR11_a_log_cut_at_any_place_shows_a_match_whole_or_not_at_all(daemon_factory):
    """From each sector on that the match takes: a disk writes them whole or not at all, in any order
    (docs/internals/formats/log.md)."""
    daemon = daemon_factory("--segment-size", "5MiB", "--body-max", "64KiB", "--snapshot-bytes", "0").start()
    pool = Pool(daemon)
    pool.offer(ticket("a", Body="x" * 2000), ticket("b", Body="y" * 2000))
    segment = sorted(daemon.data.rglob("*.segment"))[0]
    end = lambda: -(-len(segment.read_bytes().rstrip(b"\0")) // 512) * 512  # noqa: E731
    before = end()
    match = pool.match("p", ("a", 1), ("b", 1))
    after = end()
    daemon.kill9()
    whole = segment.read_bytes()
    seen = collections.Counter()
    for cut in range(before, after + 1, 512):
        segment.write_bytes(whole[:cut] + bytes(len(whole) - cut))
        daemon.start()
        counts, messages = pool.counts(), pool.count_results()
        seen[messages] += 1
        if messages:
            assert messages == 1 and counts == {"Offered": 2, "Matched": 2} and pool.get("a")["MatchId"] == match
        else:
            assert counts == {"Offered": 2, "Waiting": 2} and pool.version("a") == 1
        daemon.kill9()
    assert seen[0] >= 8 and seen[1], seen


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
@pytest.mark.parametrize("action", ["OfferTickets", "ProposeMatches", "CancelTickets", "PutBackMatch"])
def test_MR12_when_the_disk_fails_the_server_ends_and_nothing_that_it_showed_is_untrue(daemon_factory, call, action):
    """M6. After a failed write nothing of it is there; after a failed sync, what was written may be there or not, but
    whole, and nobody was told. A reader of the feed and one of the queue wait all the while: what they were told
    holds."""
    daemon = daemon_factory()
    disk = BrokenDisk(daemon, call)
    pool = Pool(daemon)
    pool.offer("a", "b", "c", "d")
    match = pool.match("p", "a", "b")
    requests = {"OfferTickets": {"Tickets": [ticket("new")]},
                "ProposeMatches": {"Proposals": [pool.proposal("q", ("c", 1), ("d", 1))]},
                "CancelTickets": {"TicketIds": ["c"]}, "PutBackMatch": {"MatchId": match}}
    start, told = pool.describe()["Sequence"] + 1, []

    def watch(target, parameters):
        with contextlib.suppress(Lost):
            answer = Connection(daemon.port, seconds=60).call(target, parameters)
            if answer.status == 503:
                return
            told.append(answer.json().get("Events") or [
                message["MessageId"] for message in answer.json().get("Messages", []) if message["MessageId"] != match])

    watchers = [threading.Thread(target=watch, args=request) for request in [
        ("Tally.FeedTickets", {"PoolName": "pool", "From": start, "WaitTimeSeconds": 20}),
        ("AmazonSQS.ReceiveMessage", {"QueueUrl": pool.results, "WaitTimeSeconds": 20})]]
    watchers[0].start()
    time.sleep(0.2 * PATIENCE)
    disk.breaks()
    watchers[1].start()
    try:
        ask_and_lose(daemon, pool, action, **requests[action])
    finally:
        disk.wait_for_end()
    for watcher in watchers:
        watcher.join()
    assert not [what for what in told if what], told
    daemon.start()
    counts = pool.check()
    done = {"OfferTickets": ("Offered", 5), "ProposeMatches": ("Matched", 4), "CancelTickets": ("Cancelled", 1),
            "PutBackMatch": ("Matched", 0)}
    state, count = done[action]
    is_done = counts[state] == count
    assert not (is_done and call == "pwrite"), counts
    assert is_done or {state: number for state, number in counts.items() if number and state != "AlreadyOffered"} == {
        "Offered": 4, "Waiting": 2, "Matched": 2}
    pool.good(action, **requests[action])
    assert pool.check()[state] == count
    assert pool.count_results() == {"ProposeMatches": 2, "PutBackMatch": 0}.get(action, 1)
    daemon.stop()


def test_MR12_a_full_disk_refuses_no_member_and_shows_nothing(daemon_factory):
    daemon = daemon_factory()
    disk = BrokenDisk(daemon, "pwrite", FAIL_ERRNO=28)
    pool = Pool(daemon)
    pool.offer("a", "b")
    disk.breaks()
    ask_and_lose(daemon, pool, "OfferTickets", Tickets=[ticket("c")])
    disk.wait_for_end()
    daemon.start()
    assert pool.waiting() == ["a", "b"] and pool.cancel("c")[0]["Status"] == "unknown"
    assert pool.offer("c")[0] == {"TicketId": "c", "Status": "waiting", "Version": 1, "AlreadyOffered": False}
    daemon.stop()


def test_MR17_a_second_daemon_on_the_folder_serves_nobody_and_what_was_acknowledged_is_there(daemon):
    """M23 speaks of an old leader that still answers after another was elected. Tally has one process for a log, not
    replicas that elect one: what fences here is the lock of the folder. So this is weaker than the scenario: that no
    second one can serve the log while the first lives, even while it is stopped; and that the next one, once it has
    died, has all that the first acknowledged and refuses who is retired."""
    pool = Pool(daemon)
    pool.offer("a", "b", "c")
    match = pool.match("p", "a", "b")
    daemon.process.send_signal(19)  # SIGSTOP
    second = subprocess.run(
        [*WRAPPER, str(BIN / "tallyd"), "--data", str(daemon.data), "--listen", "127.0.0.1:0"],
        capture_output=True, text=True, timeout=60 * PATIENCE, env=clean_environment(), check=False)
    assert second.returncode != 0 and "ready" not in second.stdout, second
    restart(daemon)
    result = pool.propose("q", ("b", 1), ("c", 1))
    assert result["Status"] == "conflict" and result["Members"][0]["MatchId"] == match
    assert pool.waiting() == ["c"] and [result.match for result in pool.take()] == [match]


def test_MR17_what_was_acknowledged_is_there_after_kills_under_load(daemon):
    """M5. Clients that note what they were told, and a daemon that is killed at any moment; tests/campaign/pool.c does
    it at length."""
    pool = Pool(daemon)
    is_over, lock, errors = threading.Event(), threading.Lock(), []
    offered, matched, cancelled = set(), {}, set()

    def work(number):
        line = pool.line()

        def again(action, **parameters):
            while True:
                try:
                    return line.good(action, **parameters)
                except Lost:
                    time.sleep(0.01)
                except (ConnectionError, OSError):
                    time.sleep(0.01)

        n = 0
        try:
            while not is_over.is_set():
                n += 1
                names = [f"{number}-{n}-{i}" for i in range(4)]
                again("OfferTickets", Tickets=[ticket(name) for name in names])
                answer = again("ProposeMatches",
                               Proposals=[pool.proposal(f"{number}-{n}", (names[0], 1), (names[1], 1))])["Results"][0]
                dropped = again("CancelTickets", TicketIds=[names[2]])["Results"][0]
                with lock:
                    offered.update(names)
                    matched[answer["MatchId"]] = sorted(names[:2])
                    assert (answer["Status"], dropped["Status"]) == ("matched", "cancelled"), (answer, dropped)
                    cancelled.add(names[2])
        except Exception as error:  # noqa: BLE001 shown below
            errors.append(repr(error))
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    chance = random.Random(17)
    for _ in range(scaled(12, least=2)):
        time.sleep(0.1 + chance.random() * 0.3 * PATIENCE)
        restart(daemon)
    is_over.set()
    for thread in threads:
        thread.join()
    assert not errors, errors
    restart(daemon)
    taken = {result.match: result.names for result in pool.take()}
    assert taken == matched
    counts = pool.check()
    assert (counts["Offered"] == len(offered) and counts["Cancelled"] == len(cancelled)
            and counts["Matched"] == 2 * len(matched))
    assert set(pool.list()[0]) == {name for name in offered if name.endswith("-3")}


# --- the same log, the same state -------------------------------------------------------------------------------------


def state_of(pool):
    """All that can be seen and is not only of this process."""
    described = pool.describe()
    listed, first = pool.list()
    return listed, first["Sequence"], first["RulesVersion"], {
        name: described[name] for name in ("Tickets", "Weight", "Matches", "PutBacks", "Sequence", "RulesVersion")
        if name in described} | {
            "Tickets": {state: count for state, count in described["Tickets"].items() if state != "AlreadyOffered"}}


def some_life(pool, seed, rounds):
    """Offers, updates, cancels, matches, put backs, deletes, expiries. All of it is in the log when this returns."""
    chance = random.Random(seed)
    for n in range(rounds):
        names = [f"{seed}.{n}.{i}" for i in range(10)]
        pool.offer(*(ticket(name, mmr=chance.randrange(1000), mode=chance.choice("xyz"), Body=name * 20, **(
            {"ExclusiveSet": f"set-{n}"} if name.endswith(("8", "9")) else {})) for name in names))
        pool.match(f"{seed}.{n}.a", (names[0], 1), (names[1], 1))
        back = pool.match(f"{seed}.{n}.b", (names[2], 1), (names[3], 1))
        pool.put_back(back)
        pool.update(names[4], Attributes={"mmr": n})
        pool.cancel(names[5])
        pool.match(f"{seed}.{n}.c", (names[8], 1), (names[6], 1))
        if n % 3 == 0:
            for result in pool.receive(0)[:3]:
                pool.delete(result)


def test_MR20_the_same_log_gives_the_same_state_and_the_same_matches(daemon_factory, tmp_path):
    """M22. Not two gatherers of one epoch, for there is one: two copies of a log, each with a daemon of its own, which
    then are told the same. The matches that they make are the same, by id, also those that the built-in matcher
    finds."""
    rules = [{"type": "equal", "attr": "mode"}, {"type": "near", "attr": "mmr", "max": 3}]
    first = daemon_factory().start()
    pool = Pool(first, Attributes={"mode": "str", "mmr": "num"}, Rules=rules, Matcher="external")
    some_life(pool, 20, scaled(20, least=3))
    pool.good("UpdatePool", Matcher="both")
    first.stop()
    second = daemon_factory()
    shutil.copytree(first.data, second.data)
    first.start()
    second.start()
    twin = Pool(second, make=False)
    pools = (pool, twin)
    for one in pools:
        one.wait_until_idle(60)
    assert state_of(pool) == state_of(twin)
    results = []
    for one in pools:
        one.offer(*(ticket(f"late{n}", mode="w", mmr=n // 2 * 50) for n in range(40)))
        one.wait_until_idle(60)
        proposed = one.propose_all(*(one.proposal(f"late{n}", (f"20.{n}.7", 1), (f"20.{n}.4", 2)) for n in range(3)))
        results.append((proposed, sorted((result.match, result.names) for result in one.take())))
    assert results[0] == results[1] and len(results[0][1]) > 20
    assert state_of(pool) == state_of(twin)
    for daemon in (first, second):
        assert daemon.stop() == 0


def test_MR38_snapshots_and_a_trimmed_log_revive_nobody_and_repeat_no_result(daemon_factory):
    """M30. So much happens that the log is trimmed behind snapshots, again and again; versions, ages, levels, sets,
    ended tickets and proposals are then as they were."""
    daemon = daemon_factory(*SMALL).start()
    pool = Pool(daemon, Attributes={"mmr": "num", "mode": "str"}, RetentionSeconds=3600)
    pool.offer(ticket("old", mmr=1, Body="of old", ExclusiveSet="s", TtlSeconds=86400),
               ticket("sibling", ExclusiveSet="s"), "x", "y")
    pool.update("old", Attributes={"mmr": 2})
    kept = pool.match("kept", "x", "y", Body="kept")
    segments = lambda: {path.name for path in daemon.data.rglob("*.segment")}  # noqa: E731
    snapshots = lambda: {path.name for path in daemon.data.rglob("*napshot*")}  # noqa: E731
    first_segment, seen, deadline = min(segments()), set(), time.monotonic() + 60 * PATIENCE
    rounds = 0
    while (len(seen) < 3 or first_segment in segments()) and time.monotonic() < deadline:
        some_life(pool, 100 + rounds, 25)
        for result in pool.take():  # they came out of their bodies' segments
            if result.match == kept:
                raise AssertionError("was received before")
        rounds += 1
        seen |= snapshots()
        if rounds == 1:
            pool.receive(3600)  # `kept` was taken above; see below
    assert len(seen) >= 2 and first_segment not in segments(), (seen, segments())
    before, old = state_of(pool), pool.get("old")
    for stop in (daemon.kill9, daemon.stop):
        stop()
        daemon.start()
        assert state_of(pool) == before
        assert pool.get("old") == old and old["Version"] == 2 and old["Body"] == "of old"
        assert pool.take() == []
        assert pool.propose("kept", ("x", 1), ("y", 1), Body="kept") == {
            "ProposalId": "kept", "Status": "matched", "MatchId": kept}
        assert [result["Status"] for result in pool.offer("x", "y")] == ["matched", "matched"]
        assert pool.cancel("100.0.5")[0]["Status"] == "cancelled" and pool.status("100.0.0") == "matched"
        assert pool.put_back(kept) == "acked"
    pool.match("last", "old", "100.0.7")
    assert pool.status("sibling") == "cancelled"
    assert daemon.stop() == 0


def test_MR38_a_match_that_was_not_taken_is_there_once_after_snapshots_and_can_be_put_back(daemon_factory):
    daemon = daemon_factory(*SMALL).start()
    pool = Pool(daemon, Attributes={"mmr": "num", "mode": "str"})
    other = Pool(daemon, "other", results="other-results", expired="other-expired",
                 Attributes={"mmr": "num", "mode": "str"})
    pool.offer(*(ticket(f"t{n}", mmr=n, Body=f"body {n}") for n in range(6)))
    matches = [pool.match(f"p{n}", f"t{2 * n}", f"t{2 * n + 1}") for n in range(3)]
    offered = pool.get("t0")["OfferedAt"]
    snapshots = set()
    deadline = time.monotonic() + 60 * PATIENCE
    rounds = 0
    while len(snapshots) < 2 and time.monotonic() < deadline:
        some_life(other, rounds, 25)
        other.take()
        snapshots |= {path.name for path in daemon.data.rglob("*napshot*")}
        rounds += 1
    assert len(snapshots) >= 2
    restart(daemon)
    assert pool.put_back(matches[0]) == "put-back"
    got = pool.get("t0")
    assert (got["Status"], got["Version"], got["OfferedAt"], got["Attributes"], got["Body"]) == (
        "waiting", 2, offered, {"mmr": 0}, "body 0")
    restart(daemon)
    assert sorted(result.match for result in pool.take()) == sorted(matches[1:])
    assert pool.put_back(matches[0]) == "put-back" and pool.put_back(matches[1]) == "acked"
    assert pool.counts() == {"Offered": 6, "Waiting": 2, "Matched": 4}
    assert daemon.stop() == 0


# --- results ----------------------------------------------------------------------------------------------------------


def test_MR28_a_consumer_that_dies_before_it_deletes_gets_the_same_match_again_and_nobody_is_offered_anew(daemon):
    """M13."""
    pool = Pool(daemon)
    view = View(pool)
    pool.offer("a", "b")
    match = pool.match("p", "a", "b")
    for attempt in range(1, 4):
        (result,) = wait_until(lambda: pool.receive(1), what="a delivery")
        assert (result.match, result.names, result.count) == (match, ["a", "b"], attempt)
        if attempt == 2:
            restart(daemon)
    view.follow()
    assert view.tickets == {} and pool.counts() == {"Offered": 2, "Matched": 2}
    assert pool.propose("q", ("a", 1), ("b", 1))["Status"] == "conflict"
    (result,) = wait_until(lambda: pool.receive(30), what="a delivery")
    pool.delete(result)
    assert pool.take() == [] and pool.counts() == {"Offered": 2, "Matched": 2}


def test_MR28_a_result_that_ends_in_a_dead_letter_queue_is_still_the_same_match(daemon):
    """And while it is there its match can be put back: its message is not gone."""
    from queues import make_queue

    make_queue(daemon, "dead")
    make_queue(daemon, "results", RedrivePolicy=json.dumps(
        {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": 1}))
    pool = Pool(daemon, make=False)
    make_queue(daemon, "expired")
    pool.good("CreatePool", ResultQueueUrl="results", Matcher="external")
    pool.offer("a", "b", "c", "d")
    first, second = pool.match("p", "a", "b"), pool.match("q", "c", "d")
    wait_until(lambda: len(pool.receive(0)) == 0, what="the end of all attempts")
    there = Pool(daemon, make=False, results="dead")
    assert pool.put_back(first) == "put-back" and pool.version("a") == 2
    (result,) = there.take()
    assert result.body["match"] == second
    wait_until(lambda: pool.put_back(second) == "acked", what="the end of the match")
    assert pool.counts() == {"Offered": 4, "Waiting": 2, "Matched": 2}


def test_MR28_a_result_that_is_moved_back_from_a_dead_letter_queue_keeps_its_id(daemon):
    """A moved message is a new one, but its consumer knows a match by its MessageId; also after a restart."""
    from queues import make_queue

    make_queue(daemon, "dead")
    make_queue(daemon, "results", RedrivePolicy=json.dumps(
        {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": 1}))
    make_queue(daemon, "expired")
    pool = Pool(daemon, make=False)
    pool.good("CreatePool", ResultQueueUrl="results", Matcher="external")
    pool.offer("a", "b")
    match = pool.match("p", "a", "b")
    wait_until(lambda: len(pool.receive(0)) == 0, what="the end of all attempts")
    status, answer = daemon.call(
        "AmazonSQS.StartMessageMoveTask", {"SourceArn": "arn:aws:sqs:us-east-1:000000000000:dead"})
    assert status == 200, answer
    wait_until(lambda: pool.count_results() == 1, what="the move")
    restart(daemon)
    (result,) = pool.receive(30)
    assert result.id == result.match == match  # as Result asserts
    assert pool.put_back(match) == "put-back" and pool.version("a") == 2


def test_MR30_a_put_back_lets_all_wait_again_with_their_age_and_only_once(daemon):
    """M12."""
    pool = Pool(daemon, Size=3, TicketTtlSeconds=3600)
    pool.offer(*"abc")
    before = {name: pool.get(name) for name in "abc"}
    match = pool.match("p", *"abc")
    start = pool.feed(0)["Next"]
    assert pool.put_back(match) == "put-back"
    assert pool.count_results() == 0 and pool.take() == []
    for name in "abc":
        assert pool.get(name) == {**before[name], "Version": 2}
    events = pool.feed(start)["Events"]
    assert [(event["Type"], event["TicketId"], event["Version"]) for event in events] == [
        ("offer", name, 2) for name in "abc"]
    sequence = pool.describe()["Sequence"]
    assert pool.put_back(match) == "put-back"  # again, and nothing happens
    restart(daemon)
    assert pool.put_back(match) == "put-back" and pool.describe()["Sequence"] == sequence
    assert [pool.version(name) for name in "abc"] == [2, 2, 2] and pool.describe()["PutBacks"] == 1
    assert pool.propose("q", *((name, 1) for name in "abc"))["Status"] == "stale"
    again = pool.match("q", *((name, 2) for name in "abc"))
    assert again != match
    assert pool.put_back(match) == "put-back" and pool.status("a") == "matched"  # that was the first match
    (result,) = pool.take()
    assert result.match == again
    assert pool.put_back(again) == "acked" and pool.counts() == {"Offered": 3, "Matched": 3}
    assert pool.good("PutBackMatch", MatchId="00000000-0000-0000-0000-000000000000")["Status"] == "unknown"


def test_MR30_a_match_in_a_consumers_hand_can_be_put_back_and_its_handle_is_nothing_then(daemon):
    pool = Pool(daemon)
    pool.offer("a", "b")
    match = pool.match("p", "a", "b")
    (result,) = pool.receive(30)
    assert pool.put_back(match) == "put-back"
    daemon.call("AmazonSQS.DeleteMessage", {"QueueUrl": pool.results, "ReceiptHandle": result.handle})
    assert pool.counts() == {"Offered": 2, "Waiting": 2} and pool.count_results() == 0
    second = pool.match("q", "a", "b")
    daemon.call("AmazonSQS.DeleteMessage", {"QueueUrl": pool.results, "ReceiptHandle": result.handle})
    assert [result.match for result in pool.take()] == [second]


def test_MR30_deletes_and_put_backs_race_and_one_of_them_wins(daemon):
    from wire import Crowd

    pool = Pool(daemon)
    outcomes = collections.Counter()
    for n in range(scaled(40, least=5)):
        pool.offer(f"a{n}", f"b{n}")
        match = pool.match(f"p{n}", f"a{n}", f"b{n}")
        (result,) = pool.receive(30)
        requests = [request_bytes("Tally.PutBackMatch", {"PoolName": "pool", "MatchId": match}), request_bytes(
            "AmazonSQS.DeleteMessage", {"QueueUrl": pool.results, "ReceiptHandle": result.handle})]
        with Crowd(daemon.port, 2) as crowd:
            answers = crowd.ask(requests[:: 1 if n % 2 else -1])
        status = [answer.json()["Status"] for answer in answers if answer.json().get("Status")][0]
        outcomes[status] += 1
        assert pool.status(f"a{n}") == pool.status(f"b{n}") == {"put-back": "waiting", "acked": "matched"}[status]
        pool.cancel(f"a{n}", f"b{n}")
    assert pool.count_results() == 0 and set(outcomes) <= {"put-back", "acked"}
    pool.check()


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock():
    return Clock()


HOUR = 3600
WIDENING = [{"type": "near", "attr": "mmr", "max": 1, "expand": [{"after": "10m", "max": 1000}]}]


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_MR25_when_the_wall_clock_jumps_nobody_expires_or_widens_and_the_age_goes_on(daemon_factory, clock, jump):
    """M11: age is time of the log."""
    daemon = daemon_factory()
    with clock.around():
        daemon.start()
    pool = Pool(daemon, Attributes={"mmr": "num"}, Rules=WIDENING, Matcher="built-in", TicketTtlSeconds=1800)
    pool.offer_many(ticket(f"t{n}", mmr=10 * n) for n in range(50))
    pool.offer(ticket("short", mmr=-100, TtlSeconds=3))
    began = time.monotonic()
    clock.set(jump)
    time.sleep(0.5)
    pool.offer(ticket("after", mmr=-1000))
    listed, _ = pool.list()
    assert len(listed) == 52 and {entry["Level"] for entry in listed.values()} == {0}
    assert abs(listed["after"]["OfferedAt"] - listed["t0"]["OfferedAt"]) < 600
    wait_until(lambda: pool.status("short") == "expired", what="the end of the short one")
    assert time.monotonic() - began > 2.5  # and not before its time
    assert [name for name, _ in pool.take_expired()] == ["short"]
    clock.set(-jump)
    time.sleep(0.3)
    assert pool.counts() == {"Offered": 52, "Waiting": 51, "Expired": 1}
    assert daemon.stop() == 0


def test_MR25_a_restart_with_the_clock_set_back_goes_on_where_the_log_was(daemon_factory, clock):
    daemon = daemon_factory()
    with clock.around():
        daemon.start()
    pool = Pool(daemon, Attributes={"mmr": "num"}, Rules=WIDENING, Matcher="built-in", TicketTtlSeconds=1800)
    pool.offer_many(ticket(f"t{n}", mmr=10 * n) for n in range(50))
    pool.offer(ticket("short", mmr=-100, TtlSeconds=4))
    before = pool.get("t0")
    daemon.kill9()
    clock.set(-HOUR)
    with clock.around():
        daemon.start()
    assert pool.get("t0") == before
    wait_until(lambda: pool.status("short") == "expired", what="the end of the short one, by the time that passes")
    assert {entry["Level"] for entry in pool.list()[0].values()} == {0} and pool.counts()["Waiting"] == 50
    assert daemon.stop() == 0


def test_MR25_age_goes_on_over_restarts_and_put_backs(daemon):
    pool = Pool(daemon, Attributes={"mmr": "num"}, Matcher="external", Rules=[
        {"type": "near", "attr": "mmr", "max": 1, "expand": [{"after": "2s", "max": 100}]}])
    began = time.monotonic()
    pool.offer(ticket("a", mmr=0), ticket("b", mmr=50), ticket("c", mmr=500, TtlSeconds=3))
    match = pool.match("p", "a", "c")
    restart(daemon)
    pool.put_back(match)
    restart(daemon)
    assert pool.get("a")["Level"] == 0 or time.monotonic() - began >= 2
    pool.good("UpdatePool", Matcher="built-in")
    (result,) = pool.wait_for_results(1)
    assert result.names == ["a", "b"] and result.waited("a") >= 2000 and time.monotonic() - began < 20 * PATIENCE
    wait_until(lambda: pool.status("c") == "expired", what="the end of c, counted from its first offer")
    assert [body["waitedMs"] >= 3000 for _, body in pool.take_expired()] == [True]
