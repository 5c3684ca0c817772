"""FeedEvents, and the audit on standard error: what people and the server did, who may know it, and what becomes of it
over restarts and in a cluster."""

import http.client
import json
import threading

from conftest import wait_until, write_credentials
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import LEASED
from test_auth import OTHER, OURS, ask, url_of
from test_cluster_nodes import node_of, secret  # noqa: F401 (a fixture)

CREDENTIALS = f"""
BOSS    boss-secret    {OURS}   read,write,admin
READER  reader-secret  {OURS}   read
GUEST   guest-secret   {OTHER}  read,write,admin
"""


def events(daemon, **parameters):
    status, answer = daemon.call("Tally.FeedEvents", parameters)
    assert status == 200, answer
    return answer


def actions(daemon, **parameters):
    return [event["Action"] for event in events(daemon, **parameters)["Events"]]


def test_what_is_done_is_told_and_stands_on_standard_error(daemon):
    url = daemon.call("AmazonSQS.CreateQueue", {"QueueName": "orders"})[1]["QueueUrl"]
    daemon.call("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "x"})
    daemon.call("Tally.PauseGroup", {"QueueUrl": url, "MessageGroupId": "g1"})
    assert daemon.call("AmazonSQS.DeleteQueue", {"QueueUrl": url + "-none"})[0] == 400
    told = events(daemon, After=0)["Events"]
    assert [event["Action"] for event in told] == ["Recovered", "CreateQueue", "PauseGroup", "DeleteQueue"]
    assert told[2] == {**told[2], "Kind": "audit", "Address": "127.0.0.1", "QueueName": "orders", "Target": "g1",
                       "Result": "OK", "Text": "PauseGroup g1 of queue orders: OK"}
    assert told[3]["Result"] == "QueueDoesNotExist" and told[3]["QueueName"] == "orders-none"
    wait_until(lambda: len(daemon.audit()) == 3, what="three lines")
    assert daemon.audit()[:2] == ["127.0.0.1: CreateQueue orders: OK", "127.0.0.1: PauseGroup g1 of queue orders: OK"]
    assert daemon.audit()[2].startswith("127.0.0.1: DeleteQueue orders-none: QueueDoesNotExist: The specified queue")


def test_who_waits_hears_of_the_next_event(daemon):
    after = events(daemon)["Next"]
    heard = []
    waiting = threading.Thread(target=lambda: heard.append(events(daemon, After=after, WaitTimeSeconds=20)))
    waiting.start()
    wait_until(lambda: "tally_http_waiting_bytes 0\n" not in daemon.request("GET", "/metrics")[2].decode(),
               what="the wait")
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    waiting.join(10)
    assert [event["Action"] for event in heard[0]["Events"]] == ["CreateQueue"]
    assert heard[0]["Next"] > after


def test_a_restart_says_that_something_is_missing(daemon):
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    after = events(daemon)["Next"]
    daemon.restart()
    told = events(daemon, After=after)
    assert told["Missed"] is True and [event["Action"] for event in told["Events"]] == ["Recovered"]
    assert "Missed" not in events(daemon, After=told["Next"])


def test_snapshots_are_told(daemon_factory):
    daemon = daemon_factory("--snapshot-bytes", "64KiB", "--snapshot-growth", "1").start()
    url = daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})[1]["QueueUrl"]

    def has_been_written():
        daemon.call("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "x" * 60000})
        return "SnapshotWritten" in actions(daemon, After=0)

    wait_until(has_been_written, what="a snapshot")
    assert daemon.stop() == 0


def test_credentials_and_namespaces(guarded, credentials):
    def ok(key, action, parameters, status=200):
        answer = ask(guarded, "json", action, parameters, key, f"{key.lower()}-secret")
        assert answer.status == status, answer.body
        return json.loads(answer.body) if answer.body else {}

    ok("BOSS", "CreateQueue", {"QueueName": "q"})
    ok("READER", "DeleteQueue", {"QueueUrl": url_of("q")}, 403)
    write_credentials(credentials.parent, CREDENTIALS + f"NEW new-secret {OURS} read\n")
    guarded.process.send_signal(1)
    guarded.wait_said("credentials in force: 4")
    told = ok("NEW", "Tally.FeedEvents", {"After": 0})["Events"]
    assert [(event["Action"], event.get("AccessKeyId"), event.get("Result")) for event in told] == [
        ("Recovered", None, None), ("CreateQueue", "BOSS", "OK"), ("DeleteQueue", "READER", "AccessDeniedException"),
        ("CredentialsReloaded", None, None)]
    # The namespace is the border.
    assert [event["Action"] for event in ok("GUEST", "Tally.FeedEvents", {"After": 0})["Events"]] == [
        "Recovered", "CredentialsReloaded"]
    assert guarded.audit()[0] == "BOSS from 127.0.0.1: CreateQueue q: OK"


def test_a_full_memory_is_told(daemon_factory):
    daemon = daemon_factory("--memory-max", "200KiB").start()
    url = daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})[1]["QueueUrl"]
    while daemon.call("AmazonSQS.SendMessageBatch", {"QueueUrl": url, "Entries": [
            {"Id": str(i), "MessageBody": "x"} for i in range(10)]})[0] == 200:
        pass
    wait_until(lambda: "MemoryIsFull" in actions(daemon), what="the event")
    daemon.call("AmazonSQS.PurgeQueue", {"QueueUrl": url})
    wait_until(lambda: "MemoryHasRoom" in actions(daemon), what="the end of it")
    assert daemon.stop() == 0


def test_in_a_cluster_the_owner_tells_where_the_client_is(cluster, secret):  # noqa: F811
    one = node_of(cluster, "one", secret, lease=LEASED).start().wait_ready()
    two = node_of(cluster, "two", secret, lease=LEASED).start().wait_standing_by()
    for node, address in (one, "127.0.0.3"), (two, "127.0.0.2"):
        line = http.client.HTTPConnection("127.0.0.1", node.port, source_address=(address, 0))
        line.request("POST", "/", json.dumps({"QueueName": f"q-of-{node.name}"}), {
            "X-Amz-Target": "AmazonSQS.CreateQueue", "Tally-Forwarded-For": "10.0.0.66"})
        assert line.getresponse().status == 200
        line.close()
    told = events(one, After=0)["Events"]
    assert [event["Action"] for event in told] == ["TookOver", "CreateQueue", "CreateQueue"]
    assert [event["Address"] for event in told[1:]] == ["127.0.0.3", "127.0.0.2"]
