"""Pools of a daemon by their actions, in one line each; and a matcher's view of a pool.

    pool = Pool(daemon)                        # two queues and a pool of pairs whose matchers are outside
    pool = Pool(daemon, Size=0, Rules=…)       # any other pool
    pool.offer("a", ticket("b", mmr=1500))     # by name, or with attributes; what OfferTickets says of each
    pool.propose("p1", "a", ("b", 2))          # one proposal: of the version that the ticket has, or of that one
    pool.match("p1", "a", "b")                 # one that must be accepted: its MatchId
    pool.take()                                # the result messages, received and deleted until none is left
    pool.check()                               # no ticket is in two states, or in none (M28)

    view = View(pool)                          # what a matcher knows that reads the feed
    view.follow(), view.tickets
"""

import json

from conftest import wait_until
from queues import count_messages, make_queue
from wire import Connection

STATES = ("Waiting", "Held", "Matched", "Cancelled", "Expired")


def ticket(name, /, Need=None, **attributes):
    """A ticket as OfferTickets wants it; what begins with a capital letter is its own, the rest its attributes."""
    own = {key: value for key, value in attributes.items() if key[0].isupper()}
    said = {key: value for key, value in attributes.items() if not key[0].isupper()}
    return {"TicketId": name, **({"Attributes": said} if said else {}), **({"Need": Need} if Need else {}), **own}


class Result:
    """A result message."""

    def __init__(self, message):
        self.id = message["MessageId"]
        self.handle = message["ReceiptHandle"]
        self.count = int(message["Attributes"]["ApproximateReceiveCount"])
        self.body = json.loads(message["Body"])
        self.match = self.body["match"]
        self.members = self.body["members"]
        self.names = sorted(member["ticket"] for member in self.members)
        assert self.id == self.match == message["MessageAttributes"]["Tally.Match"]["StringValue"], message

    def waited(self, name):
        (member,) = [member for member in self.members if member["ticket"] == name]
        return member["waitedMs"]


class Pool:
    """Of one daemon, over its restarts; each thread needs a Pool of its own, or its line()."""

    def __init__(self, daemon, name="pool", make=True, results="results", expired="expired", **options):
        self.daemon, self.name, self.results, self.expired = daemon, name, results, expired
        if make:
            make_queue(daemon, results)
            make_queue(daemon, expired)
            self.created = self.good("CreatePool", **{
                "ResultQueueUrl": results, "OnExpiryQueueUrl": expired, "Matcher": "external", **options})

    def line(self):
        """The same pool for another thread, with a kept connection."""
        return Line(self.daemon, self.name, make=False, results=self.results, expired=self.expired)

    # --- actions ------------------------------------------------------------------------------------------------------

    def ask(self, action, **parameters):
        """(HTTP status, JSON)"""
        return self.daemon.call(f"Tally.{action}", {"PoolName": self.name, **parameters})

    def good(self, action, **parameters):
        status, answer = self.ask(action, **parameters)
        assert status == 200, f"{action}: {status} {answer}"
        return answer

    def refused(self, action, **parameters):
        """One that must be: the error's name."""
        status, answer = self.ask(action, **parameters)
        assert status == 400, f"{action}: {status} {answer}"
        return answer["__type"].split("#")[1]

    def offer(self, *tickets):
        tickets = [entry if isinstance(entry, dict) else ticket(entry) for entry in tickets]
        results = self.good("OfferTickets", Tickets=tickets)["Results"]
        assert [result["TicketId"] for result in results] == [entry["TicketId"] for entry in tickets]
        return results

    def offer_many(self, tickets, portion=1000):
        tickets = list(tickets)
        for at in range(0, len(tickets), portion):
            for result in self.offer(*tickets[at : at + portion]):
                assert result["Status"] in ("waiting", "matched"), result

    def update(self, name, **parameters):
        return self.good("UpdateTicket", TicketId=name, **parameters)

    def cancel(self, *names):
        results = self.good("CancelTickets", TicketIds=list(names))["Results"]
        assert [result["TicketId"] for result in results] == list(names)
        return results

    def get(self, name):
        return self.good("GetTicket", TicketId=name)

    def status(self, name):
        return self.get(name)["Status"]

    def version(self, name):
        return self.get(name)["Version"]

    def propose_all(self, *proposals):
        results = self.good("ProposeMatches", Proposals=list(proposals))["Results"]
        assert [result["ProposalId"] for result in results] == [proposal["ProposalId"] for proposal in proposals]
        return results

    def propose(self, proposal, *members, **more):
        """What ProposeMatches says of one proposal."""
        return self.propose_all(self.proposal(proposal, *members, **more))[0]

    def proposal(self, proposal, *members, **more):
        members = [member if isinstance(member, tuple) else (member, self.version(member)) for member in members]
        return {"ProposalId": proposal,
                "Members": [{"TicketId": name, "Version": version} for name, version in members], **more}

    def match(self, proposal, *members, **more):
        result = self.propose(proposal, *members, **more)
        assert result["Status"] == "matched" and result["MatchId"], result
        return result["MatchId"]

    def put_back(self, match):
        answer = self.good("PutBackMatch", MatchId=match)
        assert answer["MatchId"] == match
        return answer["Status"]

    def confirm(self, match, name, accept=True):
        return self.good("ConfirmMatch", MatchId=match, TicketId=name, Accept=accept)["Status"]

    def feed(self, first, **more):
        return self.good("FeedTickets", From=first, **more)

    def list(self, **more):
        """All pages: {name: ticket}, and the first page's answer."""
        found, token, first = {}, None, None
        while True:
            answer = self.good("ListTickets", **more, **({"NextToken": token} if token else {}))
            first = first or answer
            for entry in answer["Tickets"]:
                found[entry["TicketId"]] = entry
            token = answer.get("NextToken")
            if not token:
                return found, first

    def waiting(self):
        """The names of those that wait."""
        return sorted(self.list()[0])

    def describe(self):
        return self.good("DescribePool")

    def counts(self):
        """{state: tickets}, of those that are not 0."""
        return {
            state: count for state, count in self.describe()["Tickets"].items() if count and state != "AlreadyOffered"}

    # --- results ------------------------------------------------------------------------------------------------------

    def receive(self, seconds=30):
        """Up to ten result messages, which others then don't see for so long."""
        status, answer = self.daemon.call("AmazonSQS.ReceiveMessage", {
            "QueueUrl": self.results, "MaxNumberOfMessages": 10, "VisibilityTimeout": seconds,
            "AttributeNames": ["All"], "MessageAttributeNames": ["All"]})
        assert status == 200, answer
        return [Result(message) for message in answer.get("Messages", [])]

    def delete(self, result):
        status, answer = self.daemon.call(
            "AmazonSQS.DeleteMessage", {"QueueUrl": self.results, "ReceiptHandle": result.handle})
        assert status == 200, answer

    def take(self):
        """All that can be had, received and deleted."""
        taken = []
        while got := self.receive():
            status, answer = self.daemon.call("AmazonSQS.DeleteMessageBatch", {"QueueUrl": self.results, "Entries": [
                {"Id": str(n), "ReceiptHandle": result.handle} for n, result in enumerate(got)]})
            assert status == 200 and not answer.get("Failed"), answer
            taken += got
        return taken

    def take_names(self):
        return sorted(result.names for result in self.take())

    def wait_for_results(self, count, seconds=20):
        """Until so many result messages have come: they, deleted."""
        taken = []

        def claim():
            taken.extend(self.take())
            return len(taken) >= count

        wait_until(claim, seconds, f"the {count}th result")
        return taken

    def count_results(self):
        return count_messages(self.daemon, self.results)

    def take_expired(self):
        """The expiry queue's messages: [(ticket, body)], received and deleted."""
        taken = []
        while True:
            status, answer = self.daemon.call("AmazonSQS.ReceiveMessage", {
                "QueueUrl": self.expired, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]})
            assert status == 200, answer
            if not answer.get("Messages"):
                return taken
            for message in answer["Messages"]:
                body = json.loads(message["Body"])
                assert message["MessageAttributes"]["Tally.Ticket"]["StringValue"] == body["ticket"]
                taken.append((body["ticket"], body))
                self.daemon.call(
                    "AmazonSQS.DeleteMessage", {"QueueUrl": self.expired, "ReceiptHandle": message["ReceiptHandle"]})

    # --- what always holds --------------------------------------------------------------------------------------------

    def check(self):
        """M28; and what is listed is what is counted. Returns the counts."""
        described = self.describe()
        counts = described["Tickets"]
        assert counts["Offered"] == sum(counts[state] for state in STATES), counts
        listed, _ = self.list()
        assert len(listed) == counts["Waiting"], (len(listed), counts)
        assert sum(entry["Weight"] for entry in listed.values()) == described["Weight"]
        return counts

    def wait_until_idle(self, seconds=20):
        """Until the built-in matcher has nothing left to do."""
        wait_until(lambda: self.describe()["Seeds"] == 0, seconds, "a matcher without seeds")


class Line(Pool):
    """A pool over one kept connection. Raises wire.Lost where the server goes away."""

    connection = None

    def ask(self, action, **parameters):
        self.connection = self.connection or Connection(self.daemon.port, seconds=30)
        answer = self.connection.call(f"Tally.{action}", {"PoolName": self.name, **parameters})
        return answer.status, answer.json()

    def close(self):
        if self.connection:
            self.connection.close()


class View:
    """What a matcher knows of a pool: {name: (version, level, attributes)}, from the list and the feed.

    deliver(events) is what a test may lose, double or reorder; the numbers tell whether something is missing."""

    def __init__(self, pool, **parts):
        self.pool, self.parts = pool, parts
        self.tickets, self.retired = {}, {}
        self.rules_version = 0
        self.resyncs = 0
        self.gaps = 0
        self.next = 0
        self.seed_parts = None
        self.resync(pool.feed(0, **parts)["Next"])

    def resync(self, following):
        """A snapshot; what happens meanwhile the feed tells from `following` on."""
        self.resyncs += 1
        listed, first = self.pool.list()
        self.tickets = {name: self._known(entry) for name, entry in listed.items()}
        self.rules_version = first["RulesVersion"]
        self.next = following

    @staticmethod
    def _known(entry):
        return entry["Version"], entry["Level"], entry.get("Attributes", {})

    def follow(self, **more):
        """Everything that there is; returns the events."""
        events = []
        while True:
            answer = self.pool.feed(self.next, **self.parts, **more)
            self.seed_parts = answer.get("SeedParts", self.seed_parts)
            if answer.get("Resync"):
                assert not answer["Events"], answer
                self.resync(answer["Next"])
                continue
            self.deliver(answer["Events"])
            events += answer["Events"]
            if not answer["Events"]:
                assert answer["Next"] == self.next, answer
                return events

    def deliver(self, events):
        for event in events:
            if event["Sequence"] < self.next:
                continue
            self.gaps += event["Sequence"] > self.next
            self.next = event["Sequence"] + 1
            self.apply(event)

    def apply(self, event):
        name, kind = event.get("TicketId"), event["Type"]
        known = self.tickets.get(name)
        if kind == "offer":
            if known is None or event["Version"] >= known[0]:
                self.tickets[name] = self._known(event)
        elif kind == "retire":
            self.tickets.pop(name, None)
            self.retired[name] = event["Reason"], event.get("MatchId")
        elif kind == "widen":
            if known is not None:
                self.tickets[name] = known[0], max(known[1], event["Level"]), known[2]
        elif event["RulesVersion"] > self.rules_version:
            self.rules_version = event["RulesVersion"]
            self.tickets = {name: (version, 0, said) for name, (version, _, said) in self.tickets.items()}

    def is_true(self):
        """Does the server say the same? Only while nobody else does anything."""
        listed, _ = self.pool.list()
        return self.tickets == {name: self._known(entry) for name, entry in listed.items()}

    def check(self):
        self.follow()
        listed, _ = self.pool.list()
        assert self.tickets == {name: self._known(entry) for name, entry in listed.items()}
