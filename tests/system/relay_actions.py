"""Relays of a daemon by its actions, in one line each.

    good(daemon, "PauseRelay", RelayName="orders")       # an action of Tally's own that must succeed; its answer
    refused(daemon, "CreateRelay", …)                    # one that must not: (the error's name, what it says)
    create(daemon, postgres)                             # from there to the queues that rows name; with a lease of 1 s
    describe(daemon)["State"], wait_for(daemon, "active", "orders")
"""

from conftest import wait_until


def good(daemon, action, **parameters):
    status, answer = daemon.call(f"Tally.{action}", parameters)
    assert status == 200, f"{action}: {answer}"
    return answer


def refused(daemon, action, **parameters):
    """(its name, what it says)"""
    status, answer = daemon.call(f"Tally.{action}", parameters)
    assert status == 400, f"{action}: {status} {answer}"
    return answer["__type"].split("#")[1], answer["message"]


def create(daemon, postgres, name="orders", **more):
    source = {"Type": "postgres", "Connection": postgres.uri, "LeaseSeconds": 1, **more.pop("Source", {})}
    return good(daemon, "CreateRelay", RelayName=name, Source=source, **{"Sink": {"Type": "queue"}, **more})


def describe(daemon, name="orders"):
    return good(daemon, "DescribeRelay", RelayName=name)


def wait_for(daemon, state, name="orders", seconds=20, error=""):
    """Until its State is that one, and its newest error says that; what DescribeRelay then says."""
    seen = {}

    def claim():
        seen.update(describe(daemon, name))
        return seen["State"] == state and error in seen.get("LastError", "")

    try:
        wait_until(claim, seconds, f"state {state}")
    except AssertionError as late:
        raise AssertionError(f"{late}: {seen}") from None
    return seen
