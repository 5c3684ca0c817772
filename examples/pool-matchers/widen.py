#!/usr/bin/env python3
"""A matcher of several that share the tickets: each looks in its own part first, and in larger parts later.

A ticket's part is a hash of its id. In stage 0 two tickets meet only within one part, which belongs to one matcher:
there are no conflicts. A ticket that waits longer than --after seconds goes into stage 1, where parts are joined by
twos, then by fours, and at last all are one. The stages nest, so two tickets that may meet in some stage may meet in
all later ones, however they were offered. A pair is proposed by the matcher of its older ticket.

    widen.py POOL --part 0 --parts 4 [--after 5] [--once]"""

import argparse
import time
import zlib

from lowest import fits
from pool import Pool, View


def part_of(ticket, parts):
    return zlib.crc32(ticket["TicketId"].encode()) % parts


def stage_of(ticket, now, after, stages):
    return min(int((now - ticket["OfferedAt"]) / after), stages) if after > 0 else stages


def may_meet(a, b, now, after, parts):
    """In the stage of the one that is less far, so that nobody is drawn from his part early."""
    stages = (parts - 1).bit_length()
    stage = min(stage_of(a, now, after, stages), stage_of(b, now, after, stages))
    return part_of(a, parts) >> stage == part_of(b, parts) >> stage


def choose(tickets, part, parts, after, now):
    pairs, taken = [], set()
    for place, first in enumerate(tickets):  # the oldest first
        if first["TicketId"] in taken or part_of(first, parts) != part:
            continue
        for other in tickets[place + 1 :]:
            if other["TicketId"] not in taken and may_meet(first, other, now, after, parts) and fits(first, other):
                taken |= {first["TicketId"], other["TicketId"]}
                pairs.append((first, other))
                break
    return pairs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pool")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--after", type=float, default=5)
    parser.add_argument("--once", action="store_true", help="end when nothing is left that may still meet")
    given = parser.parse_args()
    pool = Pool(given.pool)
    view = View(pool)
    attempt, proposed, matched, quiet = 0, 0, 0, 0
    while not (given.once and quiet > given.after * (given.parts - 1).bit_length() + 2):
        view.follow(wait_s=1)
        now = time.time()
        pairs = choose(sorted(view.waiting.values(), key=lambda ticket: ticket["OfferedAt"]), given.part, given.parts,
                       given.after, now)
        proposals = [(f"{now}-{given.part}-{attempt + i}", pair) for i, pair in enumerate(pairs)]
        attempt += len(pairs)
        matched += pool.propose(proposals).count("matched")
        proposed += len(pairs)
        quiet = 0 if pairs else quiet + 1
    print(f"part {given.part}: {proposed} proposed, {matched} matched")


if __name__ == "__main__":
    main()
