"""A matcher: reads the feed of a pool, and proposes the groups that a function finds among the tickets that wait."""

from __future__ import annotations

import hashlib
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ._client import CallError, Client, client as make_client, is_outage, pauses

log = logging.getLogger("tally.matcher")

FEED_WAIT_S = 20
PROPOSALS_MAX = 100

Ticket = dict[str, Any]
Find = Callable[[list[Ticket]], Iterable[Sequence[Ticket]]]


class Matcher:
    """Proposes matches of a pool whose Matcher is `external` or `both`.

    find(tickets) gets the tickets that wait, the oldest offer first, and gives groups of them. A ticket is a dict as an
    offer in the feed has it: TicketId, Version, Part, Attributes, Need, Weight, Priority, OfferedAt, Level. A ticket
    may be in several groups: the first that the server takes counts. find() is called when something has changed, and
    every 20 seconds.

    The server judges each proposal when it is decided, so a matcher that is late or runs twice can cost a conflict, and
    nothing else. It keeps nothing that must be saved: a process with a matcher may be killed.

    part, parts   several matchers share the work: of `parts` (up to 64) this is number `part`, from 0 on. It proposes
                  the groups whose first ticket is its own. When a matcher dies, others get its part after 10 seconds
    """

    def __init__(self, pool: str, find: Find, *, client: Client | None = None, part: int = 0, parts: int = 1) -> None:
        if not 0 <= part < parts <= 64:
            raise ValueError(f"part must be 0 to parts - 1, and parts 1 to 64, not {part} and {parts}")
        self.pool, self._find, self._client = pool, find, client or make_client()
        self._parts = {"Part": part, "Parts": parts}
        self._waiting: dict[str, Ticket] = {}  # by TicketId, the oldest offer first; perhaps behind the server
        self._next = 0
        self._own_parts: set[int] = set()
        self._refused: set[str] = set()  # proposals that can't become matches
        self._is_stopped = False

    def run(self) -> None:
        """Matches until stop() is called. While the server can't be reached it tries again, with longer and longer
        pauses. Errors: those of FeedTickets, ListTickets and ProposeMatches, such as PoolDoesNotExist."""
        wait = pauses()
        while not self._is_stopped:
            try:
                self.match()
                wait = pauses()
            except CallError as error:
                if not is_outage(error):
                    raise
                log.warning("%s; trying again until it works", error)
                time.sleep(next(wait))

    def stop(self) -> None:
        """Ends run() when the request that is under way is answered: in 20 seconds at most. Any thread."""
        self._is_stopped = True

    def match(self, wait: int = FEED_WAIT_S) -> int:
        """Reads what is new, waiting up to so many seconds (0 to 20) for something, and proposes until nothing more is
        found. Returns how many matches were made. Errors: as run(), and those of a server that is away."""
        self._follow(wait)
        count, before = 0, None
        while proposals := self._proposals():
            for at in range(0, len(proposals), PROPOSALS_MAX):
                count += self._propose(proposals[at : at + PROPOSALS_MAX])
            self._follow(0)  # it tells who is gone, or has a newer version
            known = self._next, len(self._refused)
            if known == before:
                break  # a full result queue, or a ticket of an ExclusiveSet of which one is held: later
            before = known
        return count

    def _follow(self, wait: int) -> None:
        """Reads the feed to its end."""
        while True:
            reply = self._client.feed_tickets(PoolName=self.pool, From=self._next, WaitTimeSeconds=wait, **self._parts)
            if reply.get("Resync"):
                self._read_all()
            for event in reply["Events"]:
                self._learn(event)
            self._next, self._own_parts = reply["Next"], set(reply["SeedParts"])
            if not reply["Events"]:
                return
            wait = 0

    def _read_all(self) -> None:
        """The feed doesn't reach back so far, as after a restart of the server."""
        self._waiting.clear()
        pages = self._client.get_paginator("list_tickets").paginate(PoolName=self.pool, Parts=self._parts["Parts"])
        tickets = [ticket for page in pages for ticket in page["Tickets"]]
        self._waiting = {ticket["TicketId"]: ticket for ticket in sorted(tickets, key=lambda one: one["OfferedAt"])}

    def _learn(self, event: dict[str, Any]) -> None:
        ticket_id = event.get("TicketId", "")
        known = self._waiting.get(ticket_id)
        if event["Type"] == "rules":
            self._refused.clear()
        elif event["Type"] == "retire":
            self._waiting.pop(ticket_id, None)
        elif event["Type"] == "widen" and known:
            known["Level"] = event["Level"]
        elif event["Type"] == "offer" and (known is None or event["Version"] >= known["Version"]):
            self._waiting[ticket_id] = event

    def _proposals(self) -> list[dict[str, Any]]:
        """Of the groups that are found: those that are ours, and were not refused for good."""
        groups = (list(group) for group in self._find(list(self._waiting.values())))
        proposals = (_proposal(group) for group in groups if group and group[0]["Part"] in self._own_parts)
        return [proposal for proposal in proposals if proposal["ProposalId"] not in self._refused]

    def _propose(self, proposals: list[dict[str, Any]]) -> int:
        results = self._client.propose_matches(PoolName=self.pool, Proposals=proposals)["Results"]
        for proposal, result in zip(proposals, results):
            if result["Status"] in ("invalid", "key-reused"):
                self._refused.add(proposal["ProposalId"])
                log.warning("pool %s: a proposal is %s: %s", self.pool, result["Status"],
                            result.get("Why") or result.get("Members"))
        return sum(result["Status"] == "matched" for result in results)


def _proposal(group: list[Ticket]) -> dict[str, Any]:
    """Named by its members, so that a repeat after a lost answer, or of another matcher, gets the same match."""
    members = [{"TicketId": ticket["TicketId"], "Version": ticket["Version"]} for ticket in group]
    texts = itertools.chain.from_iterable((member["TicketId"], str(member["Version"])) for member in members)
    return {"ProposalId": hashlib.sha256("\0".join(texts).encode()).hexdigest(), "Members": members}
