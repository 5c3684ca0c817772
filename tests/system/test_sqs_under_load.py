"""SQS with much of it: idle polls, a drain by many, fair tenants, the limit in flight, a kill, and where the
configuration comes from (reference: SQS, Q53, Q55, Q57 to Q60)."""

import json
import os
import subprocess
import time

import pytest
from conftest import BIN, IS_BARE, PATIENCE, SMALL_SEGMENTS, WRAPPER, clean_environment, free_port, wait_until
from sqs import SLOWNESS, Sqs, arn, form, string
from wire import Crowd, request_bytes, scaled


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def waiting(daemon, count):
    return f"\ntally_receives_waiting {count}\n".encode() in daemon.request("GET", "/metrics")[2]


@pytest.mark.skipif(not IS_BARE, reason="it measures the daemon itself")
def test_Q53_idle_polls_cost_nothing(daemon):
    """500 of them on 12 queues for some seconds: under 1 % of a core."""
    polls, seconds = 500, 4
    setup = Sqs(daemon.port)
    for i in range(12):
        setup.make(f"q{i}")
    with Crowd(daemon.port, polls) as crowd:
        for number, connection in enumerate(crowd.connections):
            body = {"QueueUrl": f"q{number % 12}", "WaitTimeSeconds": 20, "MaxNumberOfMessages": 10}
            if number % 2:
                connection.write(request_bytes("AmazonSQS.ReceiveMessage", body))
            else:
                text = form("ReceiveMessage", body)
                connection.write(
                    f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        wait_until(lambda: waiting(daemon, polls), what="all the waits")
        before = cpu_seconds(daemon.pid)
        time.sleep(seconds)
        used = cpu_seconds(daemon.pid) - before
        assert used <= 0.01 * seconds + 0.01, f"{used} s of {seconds} s"  # and a tick of the clock
        # They are still served, the first of a queue first.
        setup.send("q0", "a")
        assert b"<Body>a</Body>" in crowd.connections[0].answer().body
    setup.close()


def fill(port, queue, count, group=None):
    bodies = iter(range(count))
    with Crowd(port, 10) as crowd:
        requests = []
        for at in range(0, count, 10):
            entries = [{"Id": f"e{i}", "MessageBody": str(next(bodies)), **({"MessageGroupId": group} if group else {})}
                       for i in range(min(10, count - at))]
            requests.append(request_bytes("AmazonSQS.SendMessageBatch", {"QueueUrl": queue, "Entries": entries}))
        for answer in crowd.ask_all(requests):
            assert answer.status == 200 and b"Failed" not in answer.body


def test_Q55_a_drain_by_many_gives_each_message_once(daemon):
    count, receivers = scaled(10000, least=200), 30
    setup = Sqs(daemon.port)
    setup.make("q", VisibilityTimeout="300")
    fill(daemon.port, "q", count)
    got, rounds = [], []
    receive = request_bytes("AmazonSQS.ReceiveMessage", {"QueueUrl": "q", "MaxNumberOfMessages": 10})
    with Crowd(daemon.port, receivers) as crowd:
        while True:
            began = time.monotonic()
            answers = crowd.ask([receive] * receivers)
            rounds.append(time.monotonic() - began)
            assert {answer.status for answer in answers} == {200}
            taken = [answer.json().get("Messages", []) for answer in answers]
            deletes = [
                request_bytes("AmazonSQS.DeleteMessageBatch", {"QueueUrl": "q", "Entries": [
                    {"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]})
                for messages in taken
                if messages
            ]
            if not deletes:
                break
            got += [int(message["Body"]) for messages in taken for message in messages]
            # Where there are ten, ten come.
            assert len(got) == count or all(len(messages) == 10 for messages in taken)
            for answer in crowd.ask(deletes):
                assert answer.status == 200 and b"Failed" not in answer.body
    assert sorted(got) == list(range(count))
    assert setup.counts("q") == (0, 0, 0)
    # A round is thirty receives at the same instant, and this client's own work.
    assert sorted(rounds)[len(rounds) // 2] < 0.1 * SLOWNESS, sorted(rounds)
    setup.close()


def lasting_attributes(sqs, name):
    """Of both queues, but for the one that says how much time has passed."""
    return [{key: value for key, value in sqs.attributes(queue).items() if key != "Tally.OldestMessageAge"}
            for queue in [name, f"{name}.fifo"]]


def test_Q57_all_that_was_acknowledged_survives_a_kill(daemon_factory):
    daemon = daemon_factory().start()
    clients = [Sqs(daemon.port, form_name) for form_name in ["json", "query"]]
    for sqs in clients:
        name = sqs.form
        sqs.make(f"dead-{name}")
        policy = json.dumps({"deadLetterTargetArn": arn(f"dead-{name}"), "maxReceiveCount": 3})
        sqs.make(name, VisibilityTimeout="600", RedrivePolicy=policy, MaximumMessageSize="2048")
        sqs.call("TagQueue", QueueUrl=name, Tags={"team": name})
        sqs.call("AddPermission", QueueUrl=name, Label="l", AWSAccountIds=["111111111111"], Actions=["SendMessage"])
        sqs.make(f"{name}.fifo", ContentBasedDeduplication="true")
        sqs.held = {}
        for body in ["held", "kept", "deleted"]:
            sqs.send(name, body, MessageAttributes={"a": string("b\r")})
            (sqs.held[body],) = sqs.receive(name, 1)
        sqs.delete(name, sqs.held["deleted"])
        sqs.send(name, "waiting")
        sqs.send(name, "delayed", DelaySeconds=900)
        sqs.first = sqs.send(f"{name}.fifo", "once", "g", MessageDeduplicationId="once")
        sqs.shown = lasting_attributes(sqs, name)
    daemon.kill9()
    daemon.start()
    for sqs in clients:
        sqs.wire.line.close()
        name = sqs.form
        assert lasting_attributes(sqs, name) == sqs.shown
        assert sqs.call("ListQueueTags", QueueUrl=name)["Tags"] == {"team": name}
        assert sqs.counts(name) == (1, 2, 1)
        assert sqs.bodies(name) == ["waiting"]
        sqs.change(name, sqs.held["kept"], 0)
        sqs.delete(name, sqs.held["held"])
        (kept,) = sqs.receive(name, MessageAttributeNames=["a"], AttributeNames=["ApproximateReceiveCount"])
        assert kept["Body"] == "kept" and kept["MessageAttributes"] == {"a": string("b\r")}
        assert kept["Attributes"] == {"ApproximateReceiveCount": "2"}
        again = sqs.send(f"{name}.fifo", "once", "g", MessageDeduplicationId="once")
        assert (again["MessageId"], again["SequenceNumber"]) == (sqs.first["MessageId"], sqs.first["SequenceNumber"])
        assert sqs.bodies(f"{name}.fifo") == ["once"]
        sqs.close()
    assert daemon.stop() == 0


@pytest.mark.parametrize("way", ["flags", "variables", "file"])
def test_Q58_the_configuration_is_what_was_said(tmp_path, way):
    port, data = free_port(), tmp_path / "some" / "where else"
    data.parent.mkdir()
    said = {"listen": f"127.0.0.1:{port}", "data": str(data), "region": "eu-west-1", "in-flight-max": "1",
            SMALL_SEGMENTS[0][2:]: SMALL_SEGMENTS[1]}
    command, variables = [*WRAPPER, str(BIN / "tallyd")], {}
    if way == "flags":
        command += [f"--{key}={value}" for key, value in said.items()]
    elif way == "variables":
        variables = {"TALLY_" + key.upper().replace("-", "_"): value for key, value in said.items()}
    else:
        (tmp_path / "tally.conf").write_text("".join(f"{key} = {value}\n" for key, value in said.items()))
        command += ["--config", str(tmp_path / "tally.conf")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=clean_environment(**variables), cwd=tmp_path)
    try:
        assert process.stdout.readline().startswith(b"tallyd ready")
        sqs = Sqs(port, "query")
        sqs.make("q")
        assert sqs.attributes("q", "QueueArn")["QueueArn"] == "arn:aws:sqs:eu-west-1:000000000000:q"
        for body in "ab":
            sqs.send("q", body)
        assert len(sqs.bodies("q")) == 1
        sqs.refused("OverLimit", None, "ReceiveMessage", QueueUrl="q")
        sqs.close()
        assert any(data.iterdir())
        process.terminate()
        assert process.wait(30 * PATIENCE) == 0
    finally:
        process.kill()
        process.communicate()


def test_Q59_a_quiet_tenant_comes_next(daemon):
    sqs = Sqs(daemon.port)
    sqs.make("q", VisibilityTimeout="600")
    fill(daemon.port, "q", scaled(10000, least=200), "noisy")
    held = [message for _ in range(4) for message in sqs.receive("q")]
    assert len(held) == 40
    sqs.send("q", "quiet", "B")
    assert sqs.bodies("q", 1) == ["quiet"]
    assert sqs.bodies("q", 1) != []  # and the noisy one goes on
    sqs.close()


@pytest.mark.parametrize("form_name", ["json", "query"])
def test_Q60_too_many_in_flight(daemon_factory, form_name):
    daemon = daemon_factory("--in-flight-max", "12").start()
    sqs = Sqs(daemon.port, form_name)
    for queue in ["q", "q.fifo"]:
        sqs.make(queue, VisibilityTimeout="600")
        for i in range(15):
            sqs.send(queue, str(i), f"g{i}" if queue == "q.fifo" else None)
        held = sqs.receive(queue) + sqs.receive(queue)
        assert len(held) == 12
        if queue == "q":
            assert sqs.refused("OverLimit", None, "ReceiveMessage", QueueUrl=queue).status == 403
        else:
            assert sqs.call("ReceiveMessage", QueueUrl=queue) == {}
        sqs.delete(queue, held[0])
        assert len(sqs.receive(queue)) == 1
    sqs.close()
    assert daemon.stop() == 0
