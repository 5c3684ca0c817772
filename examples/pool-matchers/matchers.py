#!/usr/bin/env python3
"""Runs the matchers of this folder against a server, kills one, and checks that every ticket is in one match and that
nobody waits who fits another."""

import json
import os
import pathlib
import random
import subprocess
import sys
import time

from lowest import fits
from pool import Pool, View

HERE = pathlib.Path(__file__).parent
SUFFIX = os.environ.get("TALLY_EXAMPLE_SUFFIX", "")
PLAYERS = 600


def make_pool(name):
    pool = Pool(name + SUFFIX)
    pool.call("AmazonSQS.CreateQueue", QueueName=pool.name)
    url = pool.call("AmazonSQS.GetQueueUrl", QueueName=pool.name)["QueueUrl"]
    pool.call("CreatePool", ResultQueueUrl=url, Matcher="external", Verify=True, Attributes={"mmr": "num"},
              Rules=[{"type": "near", "attr": "mmr", "max": 100}])
    return pool


def offer(pool, first, count):
    players = [{"TicketId": f"player-{i}", "Attributes": {"mmr": random.randint(0, 20_000)}}
               for i in range(first, first + count)]
    pool.call("OfferTickets", Tickets=players)


def start(*words):
    return subprocess.Popen([sys.executable, "-B", HERE / words[0], *map(str, words[1:])], stdout=subprocess.PIPE,
                            text=True)


def matched(pool):
    """The members of all matches, from the result queue."""
    url = pool.call("AmazonSQS.GetQueueUrl", QueueName=pool.name)["QueueUrl"]
    members = []
    while True:
        messages = pool.call("AmazonSQS.ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        if not messages:
            return members
        for message in messages:
            members += [member["ticket"] for member in json.loads(message["Body"])["members"]]
            pool.call("AmazonSQS.DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def check(pool, name):
    view = View(pool)
    view.follow()
    waiting = sorted(view.waiting.values(), key=lambda ticket: ticket["Attributes"]["mmr"])
    members = matched(pool)
    assert len(members) == len(set(members)), "a ticket is in two matches"
    assert len(members) + len(waiting) == PLAYERS, "a ticket is lost"
    assert not any(fits(a, b) for a, b in zip(waiting, waiting[1:])), "two that fit each other still wait"
    print(
        f"{name}: {len(members)} of {PLAYERS} in {len(members) // 2} matches, nobody twice; {len(waiting)} fit nobody")


def main():
    random.seed(7)
    pool = make_pool("brothers")
    offer(pool, 0, PLAYERS // 2)
    brothers = [start("lowest.py", pool.name, "--once") for _ in range(3)]
    time.sleep(0.3)
    brothers[0].kill()  # nothing has to be taken over
    offer(pool, PLAYERS // 2, PLAYERS // 2)
    for brother in brothers:
        brother.communicate()
    start("lowest.py", pool.name, "--once").communicate()  # what came while the last ones ended
    check(pool, "three that decide alike, one of them killed")

    pool = make_pool("parts")
    offer(pool, 0, PLAYERS)
    for _ in range(2):  # the second time for what came back to one that had ended
        parts = [start("widen.py", pool.name, "--part", i, "--parts", 4, "--after", 1, "--once") for i in range(4)]
        for part in parts:
            print("  " + part.communicate()[0].strip())
    check(pool, "four that share the tickets and widen")


if __name__ == "__main__":
    main()
