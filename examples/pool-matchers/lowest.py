#!/usr/bin/env python3
"""A matcher that decides as all its brothers do: the oldest ticket is matched with the oldest that fits it, and so on.

Any number of them may run; none waits for another. Those that see the same tickets choose the same matches, and because
a proposal is named by its members, the second one that comes is a repeat: it gets the same match, and nothing happens.
So brothers cost nothing but their own work, and when one of them is killed there is nothing to take over. They don't
share the work: for that see widen.py, or parts.

    lowest.py POOL [--once]"""

import sys

from pool import Pool, View


def fits(a, b):
    """What the pool's rules ask: here, of duels."""
    return abs(a["Attributes"].get("mmr", 0) - b["Attributes"].get("mmr", 0)) <= 100


def choose(tickets):
    """Pairs, decided by nothing but who waits: from the oldest on, each with the oldest that fits and is free."""
    pairs, free = [], list(tickets)
    while free:
        first = free.pop(0)
        partner = next((other for other in free if fits(first, other)), None)
        if partner:
            free.remove(partner)
            pairs.append((first, partner))
    return pairs


def name_of(members):
    """The same for all who propose the same."""
    return "+".join(f"{ticket['TicketId']}:{ticket['Version']}" for ticket in members)


def run(name, is_once):
    pool = Pool(name)
    view = View(pool)
    while True:
        view.follow(wait_s=1 if is_once else 20)
        pairs = choose(list(view.waiting.values()))
        statuses = pool.propose([(name_of(pair), pair) for pair in pairs])
        print(f"{len(view.waiting)} wait, {len(pairs)} proposed, {statuses.count('matched')} matched", flush=True)
        if is_once and not pairs:
            return


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    run(sys.argv[1], "--once" in sys.argv)
