"""A pool from outside: its actions as HTTP requests, and a view of who waits, kept by the feed."""

import http.client
import json
import os
import urllib.parse


class Pool:
    """Calls actions about one pool."""

    def __init__(self, name, url=None):
        self.name = name
        self.host = urllib.parse.urlsplit(url or os.environ.get("TALLY_URL", "http://127.0.0.1:9324")).netloc
        self.connection = http.client.HTTPConnection(self.host, timeout=60)

    def call(self, action, **request):
        """One action in the JSON form; what stands in **request goes into its body."""
        headers = {"Content-Type": "application/x-amz-json-1.0",
                   "X-Amz-Target": action if "." in action else f"Tally.{action}"}
        body = request if "." in action else {"PoolName": self.name, **request}
        self.connection.request("POST", "/", json.dumps(body), headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{action}: {text.decode()}")
        return json.loads(text) if text else {}

    def propose(self, proposals):
        """Sends (id, members) pairs, where members are tickets of a view; returns the statuses."""
        statuses = []
        for at in range(0, len(proposals), 100):
            results = self.call("ProposeMatches", Proposals=[
                {"ProposalId": name,
                 "Members": [{"TicketId": ticket["TicketId"], "Version": ticket["Version"]} for ticket in members]}
                for name, members in proposals[at : at + 100]])["Results"]
            statuses += [result["Status"] for result in results]
        return statuses


class View:
    """Who waits, as far as the feed has told. It may be behind: the server checks every proposal."""

    def __init__(self, pool):
        self.pool = pool
        self.waiting = {}  # TicketId -> the ticket as its offer says it, in the order of their offers
        self.next = 0

    def follow(self, wait_s=0):
        """Reads on until there is nothing new. Returns whether anything was."""
        is_new = False
        while True:
            answer = self.pool.call("FeedTickets", From=self.next, WaitTimeSeconds=0 if is_new else wait_s)
            if answer.get("Resync"):
                self.read_all()
            for event in answer["Events"]:
                self.take(event)
            is_new = is_new or bool(answer["Events"]) or answer.get("Resync", False)
            self.next = answer["Next"]
            if not answer["Events"]:
                return is_new

    def take(self, event):
        if event["Type"] == "offer":
            self.waiting[event["TicketId"]] = event
        elif event["Type"] == "retire":
            self.waiting.pop(event["TicketId"], None)
        elif event["Type"] == "widen" and event["TicketId"] in self.waiting:
            self.waiting[event["TicketId"]]["Level"] = event["Level"]

    def read_all(self):
        """The feed doesn't reach back far enough: the list of tickets says what it no longer can."""
        self.waiting.clear()
        token = None
        while True:
            page = self.pool.call("ListTickets", **({"NextToken": token} if token else {}))
            for ticket in page["Tickets"]:
                self.waiting[ticket["TicketId"]] = ticket
            token = page.get("NextToken")
            if not token:
                return
