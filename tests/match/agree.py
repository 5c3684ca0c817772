#!/usr/bin/python3
"""Holds the matcher (src/match) against a slow evaluator on random pools: does it find what there is to find, and
nothing else?

The program `replay` says what came of each pool; the evaluator goes through the same arrivals, steps and expiries and
follows it. What must hold:
  - a match is made at an arrival or a step of its first member, and every two of its members fit, at the levels
    that they have then; the whole has the right weight, and its teams are a division that the rules allow (M17);
  - a ticket whose group the evaluator finds is matched then and there, and one for which it finds none is not
    (M18, MR23, MR24);
  - in pools of pairs the partner is the one that priority, pick and age name;
  - after every event no two waiting tickets of a pool of pairs fit each other;
  - expiries and what exclusive sets cancel (MR26) come when they must, and the same tickets wait at the end.

    agree.py REPLAY [--pools 100000] [--seed 0] [--jobs 2]

A pool that fails is shown whole, with its seed. Standard output: a line with counts. Exit status 0: all agree."""

import argparse
import collections
import concurrent.futures
import itertools
import json
import subprocess
import sys
import time

from evaluator import Pool, Ticket, replay
from pools import make_pool

PORTION = 500


class Disagreement(Exception):
    pass


class Judge:
    """Follows what the matcher did in one pool."""

    def __init__(self, given, happened):
        self.pool = Pool(given["pool"])
        self.tickets = [Ticket(i + 1, ticket, self.pool) for i, ticket in enumerate(given["tickets"])]
        self.by_number = {ticket.number: ticket for ticket in self.tickets}
        self.happened = collections.deque(happened)
        self.is_pairs = self.pool.teams == [2] and all(ticket.weight == 1 for ticket in self.tickets)
        self.known = {}  # do two fit, at their levels
        self.counts = collections.Counter(pools=1, tickets=len(self.tickets), pair_pools=self.is_pairs)
        fits = self.pool.fits
        self.pool.fits = lambda a, b: self.remember(fits, a, b)

    def remember(self, fits, a, b):
        key = (a.number, b.number, a.level, b.level) if a.number < b.number else (b.number, a.number, b.level, a.level)
        if key not in self.known:
            self.known[key] = fits(a, b)
        return self.known[key]

    def expect(self, claim, text):
        if not claim:
            raise Disagreement(f"{text}; next the matcher says {self.happened[0] if self.happened else 'nothing'}")

    def judge(self):
        left = replay(self.pool, self.tickets, self.decide, self.tell)
        self.expect(len(self.happened) == 1, "nothing more happens")
        _, numbers = self.happened[0]
        self.expect(sorted(numbers) == [ticket.number for ticket in left], f"{left} wait at the end")
        self.check_idle(left)
        return self.counts

    def check_idle(self, waiting):
        for a, b in itertools.combinations(waiting, 2) if self.is_pairs else ():
            self.expect(not self.pool.fits(a, b), f"{a} and {b} fit, and both wait")

    def decide(self, at, seed, waiting):
        wanted = self.pool.find(seed, waiting)
        what = self.happened[0]
        is_match = what[0] == "match" and what[1] == at and what[2][0] == seed.number
        self.expect(is_match == bool(wanted), f"at {at} ms {seed} of {waiting} finds {wanted}")
        if not wanted:
            self.check_idle(waiting)
            return None
        return self.take_match(seed, waiting, wanted)

    def take_match(self, seed, waiting, wanted):
        _, at, numbers, teams = self.happened[0]
        members = [self.by_number[number] for number in numbers]
        self.expect(len(set(numbers)) == len(numbers) and all(member in waiting for member in members),
                    f"at {at} ms {waiting} wait")
        self.expect(self.pool.is_group(members), f"at {at} ms {members} are no match")
        if len(self.pool.teams) > 1:
            self.expect(tuple(teams) in self.pool.sides(members), f"at {at} ms {members} divide otherwise")
        if self.is_pairs and self.pool.pick != "first":
            self.expect(members == wanted, f"at {at} ms {seed} takes {wanted[1]}")
        self.counts.update(matches=1, members=len(members))
        return members

    def tell(self, what, at, value):
        said = self.happened[0]
        if what != "match":
            self.expect(said == [what, at, value.number], f"at {at} ms {value} is {what}")
            self.counts[what] += 1
        self.happened.popleft()


def run_portion(program, seeds, options):
    pools = [make_pool(seed, **options) for seed in seeds]
    lines = "".join(json.dumps(pool) + "\n" for pool in pools)
    done = subprocess.run([program], input=lines.encode(), capture_output=True, check=False)
    answers = done.stdout.decode().splitlines()
    counts, failures = collections.Counter(), []
    if done.returncode != 0 or len(answers) != len(pools):
        at = min(len(answers), len(pools) - 1)
        failures.append(
            (seeds[at], f"replay ended with {done.returncode}: {done.stderr.decode()[-500:]}", pools[at], None))
    for seed, pool, answer in zip(seeds, pools, answers):
        try:
            happened = json.loads(answer)
            counts += Judge(pool, happened).judge()
        except (Disagreement, ValueError, IndexError) as error:
            failures.append((seed, f"{type(error).__name__}: {error}", pool, answer))
    return counts, failures


def show(failure):
    seed, text, pool, answer = failure
    print(f"seed {seed}: {text}\n  {json.dumps(pool['pool'])}\n  budget {pool['budget']}")
    for number, ticket in enumerate(pool["tickets"], 1):
        print(f"  #{number} {json.dumps(ticket)}")
    print(f"  {answer}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("replay", help="the program: build/release/tests/match/replay")
    parser.add_argument("--pools", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first pool; the others follow")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", type=int, default=3, help="how many disagreements are shown whole")
    given = parser.parse_args()
    began = time.monotonic()
    end = given.seed + given.pools
    portions = [range(at, min(at + PORTION, end)) for at in range(given.seed, end, PORTION)]
    counts, failures = collections.Counter(), []
    with concurrent.futures.ProcessPoolExecutor(given.jobs) as executor:
        for some, failed in executor.map(run_portion, itertools.repeat(given.replay), portions, itertools.repeat({})):
            counts += some
            failures += failed
    for failure in failures[: given.show]:
        show(failure)
    words = ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in (
        "pools", "pair_pools", "tickets", "matches", "members", "expired", "cancelled"))
    print(f"{words}; {len(failures):,} disagreements, {time.monotonic() - began:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
