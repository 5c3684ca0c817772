"""The commands for pools: `tally pool …`, `tally match`, and what `tally pool simulate` makes of the worked examples of
the rule language."""

import json

import pytest

from conftest import Tally, wait_until
from http_proxy import HttpProxy

DUEL = {
    "attrs": {"mode": "str", "mmr": "num"},
    "size": 2,
    "pick": "nearest:mmr",
    "rules": [
        {"type": "equal", "attr": "mode"},
        {"type": "near", "attr": "mmr", "max": 50, "expand": [{"after": "1s", "max": 400}]},
    ],
    "result": "duels",
    "ttl": "10m",
}

# The three worked examples of the rule language: (pool, tickets by t, expected lines of --matches, who is left).
KINDS = {
    "attrs": {"kind": "str", "qty": "num"},
    "size": 2,
    "pick": "oldest",
    "ttl": "10m",
    "rules": [{"type": "pairs", "attr": "kind", "allow": [["A", "B"], ["C", "E"], ["D", "F"]]}],
}
KINDS_TICKETS = [
    {"key": str(i + 1), "t": i, "attrs": {"kind": kind, "qty": qty}, **more}
    for i, (kind, qty, more) in enumerate(
        [("A", 5, {}), ("C", 1, {}), ("A", 20, {}), ("B", 7, {"need": {"qty": {"min": 10}}}),
         ("E", 1, {}), ("B", 3, {}), ("F", 1, {}), ("D", 1, {})]
    )
]
WIDENING = {
    "attrs": {"mode": "str", "user": "str", "mmr": "num", "maps": "set", "ping": "num"},
    "size": 2,
    "pick": "nearest:mmr",
    "ttl": "2m",
    "rules": [
        {"type": "equal", "attr": "mode"},
        {"type": "differ", "attr": "user"},
        {"type": "near", "attr": "mmr", "max": 50, "agree": "both",
         "expand": [{"after": "10s", "max": 100}, {"after": "30s", "max": 300}]},
        {"type": "share", "attr": "maps", "min": 1},
        {"type": "expr", "expr": "a.ping + b.ping <= 150"},
    ],
}
WIDENING_TICKETS = [
    {"key": str(i + 1), "t": t, "attrs": {"mode": "r", "user": f"u{i}", "mmr": mmr, "maps": maps, "ping": ping}}
    for i, (t, mmr, maps, ping) in enumerate(
        [(0, 1500, ["x", "y"], 40), (2, 1580, ["y"], 50), (4, 1495, ["z"], 30), (15, 1700, ["z"], 130)]
    )
]
TEAMS = {
    "attrs": {"region": "str", "mmr": "num"},
    "teams": [{"name": "red", "size": 2}, {"name": "blue", "size": 2}],
    "pick": "oldest",
    "ttl": "5m",
    "rules": [
        {"type": "equal", "attr": "region"},
        {"type": "near", "attr": "mmr", "max": 200, "agree": "both", "expand": [{"after": "20s", "max": 400}]},
        {"type": "team_near", "scope": "match", "attr": "mmr", "max": 60},
    ],
}
TEAMS_TICKETS = [
    {"key": str(i + 1), "t": t, "attrs": {"region": region, "mmr": mmr}, "n": n}
    for i, (t, n, region, mmr) in enumerate(
        [(0, 2, "eu", 1510), (3, 1, "eu", 1480), (5, 1, "us", 1500), (8, 1, "eu", 1600), (9, 1, "eu", 1535)]
    )
]


def lines(tickets):
    return "".join(json.dumps(ticket) + "\n" for ticket in tickets)


def matches_of(text):
    return [(round(match["t"], 3), sorted(member["ticket"] for member in match["members"]))
            for match in map(json.loads, text.splitlines()) if "members" in match]


@pytest.fixture
def duel(tally, tmp_path):
    """A pool of duels, matched by the server; returns the path of its file."""
    path = tmp_path / "duel.json"
    path.write_text(json.dumps(DUEL))
    tally("queue", "create", "duels")
    tally("pool", "create", "duel", "--rules", path)
    return path


def player(key, mmr, mode="ranked", **more):
    return {"key": key, "attrs": {"mode": mode, "mmr": mmr}, **more}


# --- simulate ---------------------------------------------------------------------------------------------------------


def simulate(tally, tmp_path, pool, tickets, *more):
    path = tmp_path / "pool.json"
    path.write_text(json.dumps(pool))
    return tally("pool", "simulate", "--rules", path, "--matches", *more, stdin=lines(tickets)).out


def test_simulate_gives_kinds_with_an_own_requirement(tally, tmp_path):
    out = simulate(tally, tmp_path, KINDS, KINDS_TICKETS)
    assert matches_of("\n".join(out.splitlines()[:4])) == [
        (3, ["3", "4"]), (4, ["2", "5"]), (5, ["1", "6"]), (7, ["7", "8"])]
    assert "8 (100.0 %) in 4 matches" in out


def test_simulate_gives_the_duel_that_widens(tally, tmp_path):
    out = simulate(tally, tmp_path, WIDENING, WIDENING_TICKETS, "--json").splitlines()
    assert matches_of(out[0]) == [(12, ["1", "2"])]
    summary = json.loads(out[1])
    assert summary["Tickets"] == 4 and summary["Matched"] == 2 and summary["Expired"] == 2
    assert summary["WaitedMs"] == {"Tickets": 2, "P50": 10_000, "P90": 12_000, "P99": 12_000, "Max": 12_000}
    assert [level["Tickets"] for level in summary["Levels"]] == [0, 2, 0]
    assert summary["Distances"]["mmr"] == {"Mean": 80, "P90": 80}


def test_simulate_gives_the_duel_in_which_the_longer_waiter_decides(tally, tmp_path):
    either = json.loads(json.dumps(WIDENING).replace('"both"', '"either"'))
    assert matches_of(simulate(tally, tmp_path, either, WIDENING_TICKETS).splitlines()[0]) == [(10, ["1", "2"])]


def test_simulate_gives_two_teams_with_a_party(tally, tmp_path):
    out = simulate(tally, tmp_path, TEAMS, TEAMS_TICKETS, "--until", 120, "--json").splitlines()
    match = json.loads(out[0])
    assert match["t"] == 8
    teams = {member["ticket"]: member["team"] for member in match["members"]}
    assert set(teams) == {"1", "2", "4"} and teams["2"] == teams["4"] != teams["1"]
    assert json.loads(out[1])["Waiting"] == 2 and json.loads(out[1])["Expired"] == 0


def test_simulate_says_which_line_is_no_ticket(tally, tmp_path):
    path = tmp_path / "pool.json"
    path.write_text(json.dumps(KINDS))
    done = tally("pool", "simulate", "--rules", path, status=1,
                 stdin='{"key": "a", "t": 1, "attrs": {"kind": "A"}}\nno\n{"t": 0}\n{"t": 2, "attrs": {"height": 3}}\n')
    assert "ticket number 2: it is no JSON" in done.err and "ticket number 3: its t is below" in done.err
    assert "ticket number 4:" in done.err and "height" in done.err and "refused     3" in done.out


def test_simulate_takes_a_key_once_and_a_version_that_it_has_not_seen(tally, tmp_path):
    tickets = [{"key": "1", "t": 0, "attrs": {"kind": "A"}}, {"key": "1", "t": 1, "attrs": {"kind": "B"}},
               {"key": "bad", "t": 1, "attrs": {"height": 1}}, {"key": "bad", "t": 2, "attrs": {"kind": "A"}},
               {"Type": "offer", "TicketId": "late", "Version": 3, "OfferedAt": 3, "Attributes": {"kind": "B"}},
               {"Type": "offer", "TicketId": "late", "Version": 4, "OfferedAt": 3, "Attributes": {"kind": "B"}},
               {"Type": "retire", "TicketId": "late", "Reason": "match"}]
    path = tmp_path / "pool.json"
    path.write_text(json.dumps(KINDS))
    done = tally("pool", "simulate", "--rules", path, "--matches", "--json", stdin=lines(tickets), status=1)
    assert matches_of(done.out) == [(3, ["1", "late"])]
    summary = json.loads(done.out.splitlines()[-1])
    assert (summary["Tickets"], summary["Repeated"], summary["Refused"], summary["Matched"]) == (3, 2, 1, 2)


# --- pools and tickets ------------------------------------------------------------------------------------------------


def test_a_pool_from_create_to_delete(tally, duel):
    tally("pool", "create", "duel", "--rules", duel)  # the same again
    assert "PoolAlreadyExists" in tally("pool", "create", "duel", "--rules", duel, "--size", 4, status=1).err
    assert tally("pool", "list").out.split() == ["0", "waiting", "duel"]
    shown = tally("pool", "show", "duel").out
    assert "duels" in shown and '"near"' in shown and "plan " in shown and "waiting     0" in shown
    tally("pool", "update", "duel", "--ttl", "5m")
    (pool,) = tally.json("pool", "show", "duel")
    assert pool["TicketTtlSeconds"] == 300 and pool["Size"] == 2 and pool["Pick"] == "nearest:mmr"
    tally("pool", "delete", "duel")
    assert "PoolDoesNotExist" in tally("pool", "show", "duel", status=1).err


def test_what_show_prints_is_a_file_for_update_and_create(tally, duel, tmp_path):
    tally("pool", "update", "duel", "--window", "200ms", "--retention", "2h", "--verify", "yes")
    (pool,) = tally.json("pool", "show", "duel")
    pool["Rules"][1]["max"] = 60
    pool["TicketTtlSeconds"] = 77
    path = tmp_path / "shown.json"
    path.write_text(json.dumps(pool))
    tally("pool", "update", "duel", "--rules", path)
    tally("pool", "create", "again", "--rules", path)
    (updated,), (created,) = tally.json("pool", "show", "duel"), tally.json("pool", "show", "again")
    assert updated["Rules"][1]["max"] == 60 and updated["TicketTtlSeconds"] == 77
    settings = ("Attributes", "Rules", "Size", "Pick", "ResultQueueUrl", "Matcher", "Verify", "WindowMilliseconds",
                "TicketTtlSeconds", "ConfirmSeconds", "ResultsMax", "RetentionSeconds")
    assert [updated[name] for name in settings] == [created[name] for name in settings]
    out = tally("pool", "simulate", "--rules", path, "--json",
                stdin=lines([{"t": 0, "attrs": {"mode": "r", "mmr": 1}}])).out
    assert json.loads(out)["Expired"] == 1  # 77 s without an end of the recording


@pytest.mark.parametrize("more, said", [
    ({"rule": []}, 'a pool has no "rule"'), ({"Expand": []}, 'a pool has no "Expand"'),
    ({"Rules": []}, '"rules" and "Rules" say the same'),
    ({"TicketTtlSeconds": "1m", "ttl": None}, '"TicketTtlSeconds" and "ttl" say the same')])
def test_a_file_with_what_no_pool_has_is_refused(tally, duel, tmp_path, more, said):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**{name: value for name, value in DUEL.items() if name != "ttl"}, **more}))
    for command in (("pool", "update", "duel"), ("pool", "create", "other"), ("pool", "simulate"),
                    ("match", "--pool", "duel", "--once")):
        assert said in tally(*command, "--rules", path, status=None).err, command
    assert tally.json("pool", "show", "duel")[0]["RulesVersion"] == 1


@pytest.mark.parametrize("ttl, seconds", [("90", 90), ("0", 0), ("1500ms", None), ("soon", None), (7, None)])
def test_create_and_simulate_take_the_same_durations(tally, duel, tmp_path, ttl, seconds):
    path = tmp_path / "durations.json"
    path.write_text(json.dumps({**DUEL, "ttl": ttl}))
    created = tally("pool", "create", "other", "--rules", path, status=None)
    out = tally("pool", "simulate", "--rules", path, "--json", status=None,
                stdin=lines([{"t": 0, "attrs": {"mode": "r", "mmr": 1}}]))
    if seconds is None:
        assert created.returncode == out.returncode == 2 and "ttl takes" in created.err and "ttl takes" in out.err
        return
    assert tally.json("pool", "show", "other")[0]["TicketTtlSeconds"] == seconds
    assert json.loads(out.out)["Expired"] == (seconds > 0) and json.loads(out.out)["Waiting"] == (seconds == 0)


def test_options_stand_for_what_the_file_says(tally, duel):
    tally("queue", "create", "late")
    tally("queue", "create", "others")
    tally("pool", "create", "second", "--rules", duel, "--result", "others", "--on-expiry", "late", "--matcher",
          "external", "--ttl", 90, "--confirm", "15s", "--verify", "yes", "--window", "200ms", "--results-max", 9)
    (pool,) = tally.json("pool", "show", "second")
    assert (pool["Matcher"], pool["TicketTtlSeconds"], pool["ConfirmSeconds"], pool["Verify"]) == (
        "external", 90, 15, True)
    assert (pool["WindowMilliseconds"], pool["ResultsMax"]) == (200, 9)
    assert pool["ResultQueueUrl"].endswith("others") and pool["OnExpiryQueueUrl"].endswith("late")
    assert "whole seconds" in tally("pool", "update", "second", "--ttl", "1500ms", status=2).err


def test_offered_tickets_are_matched_and_their_match_is_a_message(tally, duel):
    done = tally("pool", "offer", "duel",
                 stdin=lines([player("ann", 1500, body="hello"), player("bob", 1520), player("cem", 1900)]))
    assert done.out == "1 waiting, 2 matched\n" or done.out.startswith("2 waiting, 1 matched")
    (message,) = tally.json("receive", "duels", "--delete", "--wait", 5)
    match = json.loads(message["Body"])
    assert sorted(member["ticket"] for member in match["members"]) == ["ann", "bob"]
    assert tally.json("pool", "ticket", "duel", "ann")[0]["Status"] == "matched"
    assert "state       waiting" in tally("pool", "ticket", "duel", "cem").out


def test_offers_are_repeated_without_harm_and_faults_are_named(tally, duel, tmp_path):
    path = tmp_path / "tickets.jsonl"
    path.write_text(lines([player(f"player-{i}", i * 1000) for i in range(2500)]))
    assert tally("pool", "offer", "duel", "--tickets", path).out == "2500 waiting, 0 matched\n"
    again = tally("pool", "offer", "duel", "--tickets", path)
    assert again.out == "2500 waiting, 0 matched; 2500 of them had been offered before\n"
    assert "2500 of 2500" in again.err
    bad = tally("pool", "offer", "duel", status=1,
                stdin=lines([player("player-1", 7), {"attrs": {}}, player("x", "tall")]))
    assert ("ticket player-1: key-reused" in bad.err and "number 2: it has no key" in bad.err
            and "ticket x: invalid" in bad.err)
    assert "3 refused" in bad.out
    assert tally("pool", "count", "duel").out == "2500 tickets, weight 2500\n"
    assert tally("pool", "count", "duel", '{"mmr": {"max": 9000}}').out == "10 tickets, weight 10\n"
    assert len(tally.json("pool", "tickets", "duel")) == 2500


def test_cancel_and_put_back(tally, duel):
    tally("pool", "offer", "duel", stdin=lines([player("ann", 1500), player("bob", 1520), player("cem", 1900)]))
    match = wait_until(lambda: tally.json("pool", "ticket", "duel", "ann")[0].get("MatchId"))
    assert tally("pool", "cancel", "duel", "cem").out == "cancelled  cem\n"
    late = tally("pool", "cancel", "duel", "ann", "nobody", "cem", status=1).out.splitlines()
    assert late == [f"too-late   ann match {match}", "unknown    nobody", "cancelled  cem"]
    assert tally("pool", "putback", "duel", match).out == "put-back\n"
    assert tally("pool", "putback", "duel", "00000000-0000-0000-0000-000000000000", status=1).out == "unknown\n"


def test_explain_says_why_a_ticket_is_not_matched(tally, duel):
    tally("pool", "offer", "duel",
          stdin=lines([player("ann", 1500, ttl="9m"), *(player(f"far-{i}", 5000 + 900 * i) for i in range(3))]))
    text = tally("pool", "explain", "duel", "ann").out
    assert "why " in text and "asks        equal(mode)" in text and "near(mmr)" in text and "expires " in text
    (answer,) = tally.json("pool", "explain", "duel", "ann")
    assert answer["Status"] == "waiting" and answer["Fits"] == 0


def test_feed_prints_what_happens(tally, duel):
    tally("pool", "feed", "duel", "--from", 1)  # somebody reads: from now on events are kept
    tally("pool", "offer", "duel", stdin=lines([player("ann", 1500)]))
    tally("pool", "cancel", "duel", "ann")
    events = tally.json("pool", "feed", "duel", "--from", 1)
    kinds = [(event["Type"], event.get("TicketId")) for event in events]
    assert kinds[-1] == ("retire", "ann") and [event["Sequence"] for event in events] == sorted(
        event["Sequence"] for event in events)
    assert "cancel" in tally("pool", "feed", "duel", "--from", events[-1]["Sequence"]).out


# --- tally match ------------------------------------------------------------------------------------------------------


@pytest.fixture
def outside(tally, tmp_path):
    """A pool that the server doesn't match in."""
    path = tmp_path / "outside.json"
    path.write_text(json.dumps(DUEL))
    tally("queue", "create", "duels")
    tally("pool", "create", "outside", "--rules", path, "--matcher", "external", "--verify", "yes")
    return path


def members_of(tally):
    """Who is in the messages of the result queue: a list for each."""
    found = []
    while True:
        messages = tally.json("receive", "duels", "--max", 10, "--delete")
        if not messages:
            return found
        found += [sorted(member["ticket"] for member in json.loads(message["Body"])["members"]) for message in messages]


def test_a_matcher_outside_matches_what_waits_and_what_comes(tally, outside):
    tally("pool", "offer", "outside", stdin=lines([player(f"a{i}", 100 * i) for i in range(20)]))
    matcher = tally.start("match", "--pool", "outside")
    tally("pool", "offer", "outside", stdin=lines([player(f"b{i}", 100 * i + 30) for i in range(20)]))
    wait_until(lambda: tally("pool", "count", "outside").out.startswith("0 tickets"), what="everybody is matched")
    matcher.stop()
    assert "% accepted" in matcher.out
    assert sorted(members_of(tally)) == sorted([f"a{i}", f"b{i}"] for i in range(20))


def test_a_matcher_outside_follows_widening(tally, outside):
    matcher = tally.start("match", "--pool", "outside")
    tally("pool", "offer", "outside", stdin=lines([player("ann", 1000), player("bob", 1300)]))
    wait_until(lambda: tally("pool", "count", "outside").out.startswith("0 tickets"), what="the wider match")
    matcher.stop()
    assert members_of(tally) == [["ann", "bob"]]


def test_matchers_that_share_the_seeds_match_every_ticket_once(tally, outside):
    count = 400
    tally("pool", "offer", "outside", stdin=lines(
        [player(f"{side}{i}", 1000 * i + 10 * place) for place, side in enumerate("ab") for i in range(count)]))
    matchers = [tally.start("match", "--pool", "outside", "--part", f"{i}/3", "--json") for i in (1, 2, 3)]
    wait_until(lambda: tally("pool", "count", "outside").out.startswith("0 tickets"), seconds=40,
               what="everybody is matched")
    reports = [json.loads(matcher.stop().out.splitlines()[-1]) for matcher in matchers]
    assert sum(report["Outcomes"]["matched"] for report in reports) == count
    assert all(report["Outcomes"]["invalid"] == 0 for report in reports)
    assert sorted(members_of(tally)) == sorted([f"a{i}", f"b{i}"] for i in range(count))


def test_a_matcher_ends_when_nothing_is_left_if_it_is_told_to(tally, outside, tmp_path):
    tally("pool", "offer", "outside", stdin=lines([player("ann", 1000), player("bob", 1300)]))
    strict = tmp_path / "strict.json"
    strict.write_text(json.dumps({**DUEL, "rules": [{"type": "near", "attr": "mmr", "max": 10}]}))
    done = tally("match", "--pool", "outside", "--rules", strict, "--once")
    assert done.out.startswith("2 waiting, 0 seeds, 0 proposals")
    assert "PoolDoesNotExist" in tally("match", "--pool", "nothing", status=1).err
    assert "--part is like 1/4" in tally("match", "--pool", "outside", "--part", "5/4", status=2).err


def test_a_matcher_goes_on_after_a_restart_of_the_server(daemon, tally, outside):
    matcher = tally.start("match", "--pool", "outside")
    tally("pool", "offer", "outside", stdin=lines([player("ann", 1000)]))
    daemon.restart()
    tally("pool", "offer", "outside", stdin=lines([player("bob", 1010)]))
    wait_until(lambda: tally("pool", "count", "outside").out.startswith("0 tickets"), seconds=40, what="the match")
    matcher.stop()
    assert members_of(tally) == [["ann", "bob"]]


def test_a_matcher_asks_again_while_the_server_can_not_answer(daemon, tally, outside):
    proxy = HttpProxy(daemon.port)
    tool = Tally(proxy.endpoint)
    failures, failed = (
        ["Tally.FeedTickets", "Tally.DescribePool", "Tally.ListTickets", "Tally.ProposeMatches"] * 2, set())

    def fail(target, body):
        """Each is answered with a fault twice; the first DescribePool is to see whether there is the pool, and is asked
        once."""
        if proxy.bodies_of("Tally.FeedTickets") and target in failures:
            failures.remove(target)
            failed.add(target)
            return 503, b'{"__type": "ServiceUnavailable", "message": "not now"}'
        return None

    proxy.answer = fail
    tally("pool", "offer", "outside", stdin=lines([player("ann", 1000), player("bob", 1010)]))
    try:
        matcher = tool.start("match", "--pool", "outside")
        wait_until(lambda: tally("pool", "count", "outside").out.startswith("0 tickets"), what="the match")
        failures += ["Tally.FeedTickets"] * 1000
        matcher.stop(seconds=10)
    finally:
        tool.kill_started()
        proxy.close()
    assert len(failed) == 4 and members_of(tally) == [["ann", "bob"]]
    assert matcher.err.count("not now") >= 1 and "the server is there again" in matcher.err


def test_a_matcher_knows_no_level_of_older_rules(daemon, tally, outside, tmp_path):
    """Between its first reading of the feed and that of the rules, two tickets widen, and then the rules are others:
    neither is wide any more."""
    tally("pool", "update", "outside", "--verify", "no")
    late = tmp_path / "late.json"
    late.write_text(json.dumps({"rules": [{**DUEL["rules"][1], "expand": [{"after": "1000s", "max": 400}]}]}))
    proxy = HttpProxy(daemon.port)
    tool = Tally(proxy.endpoint)

    def meanwhile(target, body):
        if target == "Tally.DescribePool" and len(proxy.bodies_of(target)) == 1:
            tally("pool", "offer", "outside", stdin=lines([player("ann", 1000), player("bob", 1300)]))
            wait_until(lambda: [ticket["Level"] for ticket in tally.json("pool", "tickets", "outside")] == [1, 1],
                       what="the steps")
            tally("pool", "update", "outside", "--rules", late)

    proxy.watch = meanwhile
    try:
        done = tool("match", "--pool", "outside", "--once")
    finally:
        proxy.close()
    assert (done.out.startswith("2 waiting, 0 seeds, 0 proposals")
            and proxy.bodies_of("Tally.FeedTickets")[1]["From"] > 0)


def test_a_matcher_that_searches_sends_what_it_found_and_hears_the_signal(tally, tmp_path):
    """Nobody of one bucket fits anybody, so that all pairs are looked at, but for the two oldest."""
    path = tmp_path / "slow.json"
    path.write_text(json.dumps({
        "attrs": {"mode": "str", "x": "num"}, "size": 2, "result": "duels",
        "rules": [{"type": "equal", "attr": "mode"}, {"type": "expr", "expr": "a.x + b.x == 3"}]}))
    tally("queue", "create", "duels")
    tally("pool", "create", "slow", "--rules", path, "--matcher", "external")
    tally("pool", "offer", "slow", stdin=lines(
        [{"key": f"{i}", "attrs": {"mode": "r", "x": max(0, 2 - i)}} for i in range(25000)]))
    matcher = tally.start("match", "--pool", "slow", "--json")
    wait_until(lambda: tally("pool", "count", "slow").out.startswith("24998 tickets"),
               what="the match of those who fit")
    report = json.loads(matcher.stop(seconds=5).out.splitlines()[-1])
    assert report["Outcomes"]["matched"] == 1 and report["Seeds"] > 0, "it was to be in the middle of its search"
    assert members_of(tally) == [["0", "1"]]


def test_explain_counts_what_each_rule_rejects(tally):
    rules = {"attrs": {"mode": "str", "mmr": "num"},
             "rules": [{"type": "equal", "attr": "mode"}, {"type": "near", "attr": "mmr", "max": 50}]}
    tally("queue", "create", "made")
    tally("pool", "create", "few", "--rules", "-", "--result", "made", stdin=json.dumps(rules))
    tickets = [("a", "x", 1, None), ("far", "x", 300, None), ("other", "y", 100, None), ("s1", "z", 1, "s"),
               ("z", "z", 1, None), ("s2", "z", 1, "s")]
    for key, mode, mmr, xid in tickets:  # s1 and z are matched; s2 comes behind that match
        tally("pool", "offer", "few",
              stdin=lines([{"key": key, "attrs": {"mode": mode, "mmr": mmr}, **({"xid": xid} if xid else {})}]))
    (said,) = tally.json("pool", "explain", "few", "a")
    assert {reject["Rule"]: reject["Count"] for reject in said["Rejects"]} == {
        "near(mmr)": 1, "equal(mode)": 1, "exclusive-set": 1}
    (said,) = tally.json("pool", "explain", "few", "s2")
    assert {reject["Rule"]: reject["Count"] for reject in said["Rejects"]} == {"exclusive-set": 3}


def test_explain_names_what_a_ticket_lacks(tally):
    rules = {"attrs": {"kind": "str", "size": "num", "room": "num"},
             "rules": [{"type": "differ", "attr": "kind"}, {"type": "expr", "expr": "a.room >= b.size"}]}
    tally("queue", "create", "made")
    tally("pool", "create", "vans", "--rules", "-", "--result", "made", stdin=json.dumps(rules))
    tally("pool", "offer", "vans", stdin=lines([{"key": "order", "attrs": {"kind": "order", "size": 2}},
                                                {"key": "van", "attrs": {"kind": "van", "room": 3}},
                                                {"key": "bare", "attrs": {}}]))
    text = tally("pool", "explain", "vans", "order").out
    lacks = "by expr(a.room >= b.size); errors: 1; this ticket has no room\n"
    assert f"1 {lacks}" in text and "1 by differ(kind); a candidate has no kind\n" in text, text
    tally("pool", "cancel", "vans", "bare")
    text = tally("pool", "explain", "vans", "van").out
    why = "candidates: 1; rejected by expr(a.room >= b.size): 1; errors: 1; a candidate has no room"
    assert f"why         {why}\n" in text, text
    tally("pool", "offer", "vans", stdin=lines([{"key": "alone", "attrs": {}}]))
    assert "asks        differ(kind); this ticket has no kind\n" in tally("pool", "explain", "vans", "alone").out
