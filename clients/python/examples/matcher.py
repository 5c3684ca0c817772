#!/usr/bin/env python3
"""Pairs players of a pool whose ratings are at most 100 apart. Several of these share the work.

    matcher.py POOL [PART PARTS]    TALLY_ENDPOINT says where the server is"""

import logging
import sys

import tally

pool = sys.argv[1]
part, parts = map(int, sys.argv[2:]) if len(sys.argv) > 2 else (0, 1)


def find(tickets):
    """Each ticket in one pair at most. Neighbours by rating are the closest."""
    tickets = sorted(tickets, key=lambda ticket: ticket["Attributes"]["rating"])
    while len(tickets) > 1:
        one, other = tickets[:2]
        is_close = other["Attributes"]["rating"] - one["Attributes"]["rating"] <= 100
        if is_close:
            yield one, other
        tickets = tickets[2 if is_close else 1:]


logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)
tally.Matcher(pool, find, part=part, parts=parts).run()
