#!/usr/bin/env python3
"""How many proposals are in vain when matchers don't talk to each other? Measured for four ways to choose.

    measure.py [--tickets 2000]

A way is played in rounds without luck: every matcher reads who waits, all choose on that view, then all propose; the
share is that of the proposals that made a match. Standard output: a table in Markdown."""

import argparse
import itertools
import random
import time

from lowest import choose, name_of
from pool import Pool, View
from widen import choose as choose_in_parts

URL = "http://127.0.0.1/queue/measured"
counter = itertools.count()


def make_pool(tickets):
    """A pool of pairs in which everybody fits, with so many tickets."""
    name = f"measure-{next(counter)}-{time.time_ns()}"
    pool = Pool(name)
    pool.call("AmazonSQS.CreateQueue", QueueName="measured")
    url = pool.call("AmazonSQS.GetQueueUrl", QueueName="measured")["QueueUrl"]
    pool.call("CreatePool", ResultQueueUrl=url, Matcher="external", Attributes={"mmr": "num"})
    for at in range(0, tickets, 1000):
        pool.call("OfferTickets",
                  Tickets=[{"TicketId": f"t{i}", "Attributes": {"mmr": 0}} for i in range(at, min(at + 1000, tickets))])
    return pool


def view_of(pool):
    view = View(pool)
    view.follow()
    return list(view.waiting.values())


def own_names(pairs):
    return [(f"p{next(counter)}", pair) for pair in pairs]


def accepted(pool, proposals):
    """The share of them, and how many matches they made."""
    statuses = pool.propose(proposals)
    made = pool.call("DescribePool")["Matches"]
    pool.call("DeletePool")
    return statuses.count("matched") / len(statuses), made


def at_random(tickets, share):
    """m random pairs on one view of n tickets, none knowing of the others."""
    pool = make_pool(tickets)
    view = view_of(pool)
    count = max(1, int(tickets * share / 2))
    return accepted(pool, own_names(random.sample(view, 2) for _ in range(count)))


def oldest_first(tickets, matchers, has_common_names):
    """All choose the same: the oldest."""
    pool = make_pool(tickets)
    pairs = choose(view_of(pool)[:200])
    proposals = []
    for _ in range(matchers):
        proposals += [(name_of(pair), pair) for pair in pairs] if has_common_names else own_names(pairs)
    return accepted(pool, proposals)


def in_parts(tickets, parts, after):
    """Each looks for partners of its own part; after 0: it finds them everywhere, so that only seeds are shared out."""
    pool = make_pool(tickets)
    view = view_of(pool)
    proposals = []
    for part in range(parts):
        chosen = choose_in_parts(view, part, parts, after, time.time())
        proposals += own_names(chosen[: len(view) // parts // 10])
    random.shuffle(proposals)
    return accepted(pool, proposals)


def print_row(name, words, expected, result):
    share, made = result
    print(f"| {name} | {words} | {100 * share:.1f} % | {100 * expected:.1f} % | {made} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tickets", type=int, default=2000)
    tickets = parser.parse_args().tickets
    random.seed(1)
    print("| way | | accepted | expected | matches |\n|---|---|---|---|---|")
    for share in (0.02, 0.1, 0.5, 1.0, 2.0):
        print_row("random pairs", f"2m/n = {share}", 1 / (1 + share), at_random(tickets, share))
    for matchers in (2, 4, 8):
        print_row("oldest first, names of their own", f"N = {matchers}", 1 / matchers,
                  oldest_first(tickets, matchers, False))
    print_row("oldest first, named by members", "N = 8", 1, oldest_first(tickets, 8, True))
    for parts in (2, 8):
        print_row("own part only", f"N = {parts}", 1, in_parts(tickets, parts, 1e9))


if __name__ == "__main__":
    main()
