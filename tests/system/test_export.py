"""`tally export`, `tally import` and `tally apply`: what goes through a file comes out as it was, each message once,
however often an import is killed and repeated. docs/how-to/export.md tells it, and its commands are run here."""

import base64
import json
import os
import random
import re
import subprocess
import threading
import time

import pytest
from clock import Clock
from conftest import BIN, PATIENCE, ROOT, Tally, clean_environment, hang_up_until, wait_until
from fake_sqs import AnswersAll
from queues import count_messages, count_visible, make_queue
from wire import scaled

DOCUMENT = (ROOT / "docs/how-to/export.md").read_text()


def ok(daemon, target, **body):
    status, answer = daemon.call(target, body)
    assert status == 200, answer
    return answer


def send(daemon, queue, body, **more):
    return ok(daemon, "AmazonSQS.SendMessage", QueueUrl=queue, MessageBody=body, **more)


def listed(daemon, queue):
    """The messages of a queue, the oldest first."""
    messages, token = [], {}
    while True:
        page = ok(daemon, "Tally.ListMessages", QueueUrl=queue, Body="full", **token)
        messages += page["Messages"]
        if "NextToken" not in page:
            return messages
        token = {"NextToken": page["NextToken"]}


def bodies(daemon, queue):
    return [message["Body"] for message in listed(daemon, queue)]


def attributes(message):
    """Without the one by which an import is found."""
    given = message.get("MessageAttributes", {})
    return {name: value for name, value in given.items() if name != "Tally.OutboxId"}


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def as_text(lines):
    return "".join(json.dumps(line) + "\n" for line in lines)


def numbered(count, queue="q", export="e", **more):
    return [{"export": export, "number": number, "queue": queue, "body": f"body {number}", **more}
            for number in range(1, count + 1)]


# --- the round trip ---------------------------------------------------------------------------------------------------


def test_what_a_message_has_comes_out_as_it_was(daemon, tally):
    make_queue(daemon, "from")
    make_queue(daemon, "to")
    given = {"text": {"DataType": "String", "StringValue": "ä\n\t\"\\"},
             "kind": {"DataType": "String.mine", "StringValue": "x"},
             "number": {"DataType": "Number", "StringValue": "-2.50"},
             "bytes": {"DataType": "Binary.x", "BinaryValue": base64.b64encode(bytes(range(256))).decode()},
             "Tally.Priority": {"DataType": "Number", "StringValue": "7"}}
    header = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}
    send(daemon, "from", "a", MessageAttributes=given, MessageGroupId="g", MessageDeduplicationId="id-1",
         MessageSystemAttributes=header)
    send(daemon, "from", "\U0001f600 \u2028 {\"x\": \"\\u0000\"}" + "y" * 100000)
    text = tally("export", "from").out
    assert tally("import", "--queue", "to", stdin=text).out == "sent 2, known 0\n"
    before, after = listed(daemon, "from"), listed(daemon, "to")
    for member in ("Body", "MessageGroupId", "MessageDeduplicationId", "AWSTraceHeader"):
        assert [one.get(member) for one in before] == [one.get(member) for one in after]
    assert [attributes(one) for one in after] == [given, {}]
    assert [one["MessageAttributes"]["Tally.OutboxId"]["StringValue"] for one in after] == [
        one["MessageId"] for one in before]
    assert tally("import", "--queue", "to", "--json", stdin=text).out == '{"Sent":0,"Known":2}\n'
    assert count_messages(daemon, "to") == 2


def test_the_largest_message_goes_through(daemon, tally):
    make_queue(daemon, "from")
    make_queue(daemon, "to")
    send(daemon, "from", "\n" * 1048576)
    send(daemon, "from", "x" * 1048576)
    assert tally("import", "--queue", "to", stdin=tally("export", "from").out).out == "sent 2, known 0\n"
    assert bodies(daemon, "to") == ["\n" * 1048576, "x" * 1048576]


def test_a_delay_goes_on_and_one_that_is_over_is_over(daemon, tally):
    make_queue(daemon, "from")
    make_queue(daemon, "to")
    send(daemon, "from", "later", DelaySeconds=300)
    send(daemon, "from", "now")
    lines = lines_of(tally("export", "from").out)
    assert 290 < lines[0]["delayedUntil"] - time.time() < 301 and "delayedUntil" not in lines[1]
    lines += numbered(1, delayedUntil=time.time() - 5)
    tally("import", "--queue", "to", stdin=as_text(lines))
    left = [one["Why"][0]["Until"] - time.time() for one in listed(daemon, "to") if one["State"] == "delayed"]
    assert len(left) == 1 and 280 < left[0] < 303 and count_visible(daemon, "to") == 2


def test_an_export_touches_nothing_and_counts_what_a_line_cant_give_again(daemon, tally):
    make_queue(daemon, "dead")
    make_queue(daemon, "q", RedrivePolicy=json.dumps(
        {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": 5}))
    ok(daemon, "Tally.CreateBatch", BatchId="b")
    text = {"DataType": "String"}
    first = send(daemon, "q", "in flight")["MessageId"]
    handle = ok(daemon, "AmazonSQS.ReceiveMessage", QueueUrl="q")["Messages"][0]["ReceiptHandle"]
    send(daemon, "q", "unit", MessageAttributes={"Tally.Batch": {**text, "StringValue": "b"}})
    send(daemon, "q", "waits", MessageAttributes={"Tally.After": {**text, "StringValue": f"message:{first}"}})
    send(daemon, "q", "numbered", MessageAttributes={
        "Tally.Producer": {**text, "StringValue": "p"}, "Tally.Sequence": {"DataType": "Number", "StringValue": "4"}})
    failed = send(daemon, "q", "failed", MessageGroupId="last")["MessageId"]
    taken = ok(daemon, "AmazonSQS.ReceiveMessage", QueueUrl="q", MaxNumberOfMessages=10)["Messages"]
    ok(daemon, "Tally.FailMessage", QueueUrl="q", Final=True, Reason="no",
       ReceiptHandle=next(one["ReceiptHandle"] for one in taken if one["MessageId"] == failed))
    before = listed(daemon, "q"), listed(daemon, "dead")
    done = tally("export", "--all")
    assert (listed(daemon, "q"), listed(daemon, "dead")) == before
    for said in ("5 messages exported", "3 of them: in flight", "1 of them: a unit of a batch",
                 "1 of them: sent to wait", "1 of them: numbered", "1 of them: a dead letter"):
        assert said in done.err
    lines = {line["body"]: line for line in lines_of(done.out)}
    assert lines["failed"]["failureReason"] == "no" and lines["failed"]["deadLetterSource"] == "q"
    assert (lines["in flight"]["state"], lines["in flight"]["receiveCount"], lines["unit"]["batch"]) == (
        "in-flight", 1, "b")
    make_queue(daemon, "to")
    assert tally("import", "--queue", "to", stdin=done.out).out == "sent 5, known 0\n"
    assert count_visible(daemon, "to") == 5 and not any(attributes(one) for one in listed(daemon, "to"))
    ok(daemon, "AmazonSQS.DeleteMessage", QueueUrl="q", ReceiptHandle=handle)


def test_two_messages_of_one_id_are_two(daemon, tally):
    """The queue had forgotten the id when the second one came. The import must not take that for a duplicate."""
    make_queue(daemon, "from.fifo", **{"Tally.DeduplicationWindow": "0"})
    make_queue(daemon, "to.fifo")
    for body in ("one", "two", "three"):
        send(daemon, "from.fifo", body, MessageGroupId="g", MessageDeduplicationId="x" if body != "three" else "y")
    text = tally("export", "from.fifo").out
    assert tally("import", "--queue", "to.fifo", stdin=text).out == "sent 3, known 0\n"
    after = listed(daemon, "to.fifo")
    assert [one["Body"] for one in after] == ["one", "two", "three"]
    assert [one["MessageDeduplicationId"] for one in after] == ["x", lines_of(text)[1]["messageId"], "y"]
    make_queue(daemon, "parts.fifo")
    for line in reversed(text.splitlines()):  # the file may be sorted and split
        assert tally("import", "--queue", "parts.fifo", stdin=line).out == "sent 1, known 0\n"


def test_a_list_that_changes_gives_once_what_is_there_all_the_time(daemon, tally):
    make_queue(daemon, "q")
    count = scaled(9000, least=2500)
    tally("import", stdin=as_text(numbered(count)))
    stays = {f"body {number}" for number in range(1, count + 1, 2)}
    stop = threading.Event()

    def change():
        chance = random.Random(5)
        while not stop.is_set():
            send(daemon, "q", f"new {chance.random()}")
            for one in ok(daemon, "AmazonSQS.ReceiveMessage", QueueUrl="q", MaxNumberOfMessages=10).get("Messages", []):
                if one["Body"] not in stays:
                    ok(daemon, "AmazonSQS.DeleteMessage", QueueUrl="q", ReceiptHandle=one["ReceiptHandle"])

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(3):
            found = [line["body"] for line in lines_of(tally("export", "q").out)]
            assert len(found) == len(set(found)) and stays <= set(found)
    finally:
        stop.set()
        changer.join()


# --- repeated ---------------------------------------------------------------------------------------------------------


def test_an_import_that_is_killed_and_begun_again_sends_each_once_in_order(daemon, tally, tmp_path):
    make_queue(daemon, "q")
    count, chance = scaled(20000, least=5000), random.Random(7)
    path = tmp_path / "lines"
    path.write_text(as_text(numbered(count)))
    for _ in range(scaled(20, least=6)):
        running = tally.start("import", path)
        there = count_messages(daemon, "q")
        if chance.random() < 0.5:
            wait_until(lambda: running.poll() is not None or count_messages(daemon, "q") > there)  # noqa: B023
        time.sleep(chance.random() * 0.02)
        running.kill9()
    done = tally("import", path).out
    sent, known = map(int, re.findall(r"\d+", done))
    assert sent + known == count
    assert bodies(daemon, "q") == [f"body {number}" for number in range(1, count + 1)]
    assert tally("import", path).out == f"sent 0, known {count}\n"


def test_an_import_is_known_when_its_rows_are_forgotten(daemon_factory, tmp_path):
    """Ten minutes after it the server knows the numbers of the rows only. A restart changes nothing."""
    clock = Clock()
    with clock.around():
        daemon = daemon_factory().start()
        tally = Tally(daemon.endpoint)
        make_queue(daemon, "q")
        text = as_text(numbered(2500))
        assert tally("import", stdin=text).out == "sent 2500, known 0\n"
        clock.spend(1200)
        send(daemon, "q", "time goes on")
        daemon.restart()
        assert tally("import", stdin=text).out == "sent 0, known 2500\n"
        shuffled = text.splitlines(keepends=True)[::7] + [as_text(numbered(2501)[2500:])]
        assert tally("import", stdin="".join(shuffled)).out == f"sent 1, known {len(shuffled) - 1}\n"
        assert tally("import", "--run", "second", stdin=text).out == "sent 2500, known 0\n"


def test_of_two_imports_of_a_file_the_second_takes_over(daemon, tally):
    make_queue(daemon, "q")
    lines = numbered(3000)
    first = subprocess.Popen(tally.command("import"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=tally.environment)
    first.stdin.write(as_text(lines[:2500]).encode())
    first.stdin.flush()
    wait_until(lambda: count_messages(daemon, "q") >= 1000)
    assert "known" in tally("import", stdin=as_text(lines)).out
    out, err = first.communicate(as_text(lines[2500:]).encode(), timeout=60 * PATIENCE)
    assert first.returncode == 1 and b"another import of this file has begun" in err, out
    assert bodies(daemon, "q") == [line["body"] for line in lines]


# --- bad lines --------------------------------------------------------------------------------------------------------


def test_a_bad_line_stops_it_and_a_second_run_goes_on(daemon, tally):
    make_queue(daemon, "q")
    lines = numbered(2200)
    lines[1500]["body"] = "\0"
    done = tally("import", stdin=as_text(lines), status=1)
    assert "line 1501: InvalidMessageContents" in done.err and done.out == "sent 1500, known 0\n"
    assert count_messages(daemon, "q") == 1500
    lines[1500]["body"] = "mended"
    assert tally("import", stdin=as_text(lines)).out == "sent 700, known 1500\n"
    assert bodies(daemon, "q") == [line["body"] for line in lines]


@pytest.mark.parametrize("line, said", [
    (b"no", "not an object of JSON"),
    (b"[]", "not an object of JSON"),
    (b'{"body": "\xff", "deduplicationId": "x"}', "not an object of JSON"),
    (b'{"body": "\\ud800", "deduplicationId": "x"}', "not an object of JSON"),
    (b'{"body": "a\\u0000", "deduplicationId": "x"}', "InvalidMessageContents"),
    (b'{"body": "a\\u0001", "export": "e", "number": 1}', "InvalidMessageContents"),
    (b'{"body": "", "deduplicationId": "x"}', "MessageBody"),
    (b'{"body": 1, "deduplicationId": "x"}', "body must be a text"),
    (b'{"deduplicationId": "x"}', "it has no body"),
    (b'{"body": "a"}', "nothing tells it from others"),
    (b'{"body": "a", "deduplicationId": "x\\u0000"}', "deduplicationId holds a NUL"),
    (b'{"body": "a", "deduplicationId": "x y"}', "MessageDeduplicationId"),
    (b'{"body": "a", "deduplicationId": "x", "grp": "g"}', 'a line has no member "grp"'),
    (b'{"body": "a", "deduplicationId": "x", "body": "b"}', "body is given twice"),
    (b'{"body": "a", "deduplicationId": "x", "queue": 1}', "queue must be a text"),
    (b'{"body": "a", "deduplicationId": "x", "attributes": {"a": 1}}', "attribute a must be a text"),
    (b'{"body": "a", "deduplicationId": "x", "attributes": {"a": {"type": "Binary", "value": "!"}}}', "not base64"),
    (b'{"body": "a", "deduplicationId": "x", "attributes": {"a\\u0000b": "c"}}', "a"),
    (b'{"body": "a", "deduplicationId": "x", "delayedUntil": 99999999999}', "more than 900 s ahead"),
    (b'{"body": "a", "export": "e"}', "export and number go together"),
    (b'{"body": "a", "export": "e", "number": 0}', "number must be an integer"),
    (b'{"body": "a", "export": "e", "number": 1.5}', "number must be an integer"),
    (b'{"body": "a", "export": "e", "number": 1000000001}', "number must be an integer from 1 to 1000000000"),
])
def test_what_is_no_line_is_refused_with_its_number(daemon, tally, line, said):
    make_queue(daemon, "q", **{"Tally.DeduplicationWindow": "-1"})
    good = b'{"body": "good", "deduplicationId": "g"}\n'
    done = tally("import", "--queue", "q", stdin=good + b"\r\n\n" + line + b"\n" + good, status=1)
    assert f"line 4: " in done.err and said in done.err, done.err
    assert bodies(daemon, "q") == ["good"]


def test_a_bad_line_ends_it_although_more_may_come(daemon, tally):
    make_queue(daemon, "q")
    process = subprocess.Popen(tally.command("import"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=tally.environment)
    process.stdin.write((as_text(numbered(2)) + "bad\n").encode())
    process.stdin.flush()
    assert process.wait(20 * PATIENCE) == 1 and count_messages(daemon, "q") == 2
    assert "UTF-8" in tally("import", "--queue", b"\xff", stdin=as_text(numbered(1)), status=1).err


def test_a_line_may_not_be_endless(daemon, tally):
    assert "line 1 of standard input is longer than" in tally("import", stdin=b"x" * (17 << 20), status=5).err


def test_an_import_waits_for_room(daemon_factory, tmp_path):
    config = tmp_path / "config"
    config.write_text("memory-max = 1GiB\n")
    daemon = daemon_factory("--config", str(config)).start()
    tally = Tally(daemon.endpoint)

    def limit_memory(size, then):
        config.write_text(f"memory-max = {size}\n")
        one = {"QueueUrl": "q", "MessageBody": "a"}
        hang_up_until(daemon, lambda: daemon.call("AmazonSQS.SendMessage", one)[0] == then, f"that a send gets {then}")

    make_queue(daemon, "q")
    limit_memory("10B", 503)
    running = [subprocess.Popen(tally.command("import", "--queue", "q", *more), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=tally.environment)
               for more in ([], ["--run", "new"])]
    for one in running:
        one.stdin.write(as_text(numbered(1500)).encode())
        one.stdin.close()
    assert all(b"MemoryIsFull" in one.stderr.readline() for one in running)
    limit_memory("1GiB", 200)
    assert [one.wait(60 * PATIENCE) for one in running] == [0, 0]
    assert [one.stdout.read() for one in running] == [b"sent 1500, known 0\n"] * 2


@pytest.mark.parametrize("stored, results, sent", [
    (1, [{"Id": 2, "Status": "refused", "Code": "Refused", "Message": "so"}, {"Id": 3, "Status": "held"}], 1),
    (2, [{"Id": 77, "Status": "refused", "Code": "Refused"}], 0),
    (0, [{"Id": 1, "Status": "duplicate"}] * 3, 0),
    (0, [{"Id": 1, "Status": "duplicate"}] * 9, 0),
    (2, [], 0),
    (3, None, 0),
])
def test_an_answer_that_does_not_account_for_all_rows_is_none(stored, results, sent):
    opened, answer = {"Accepted": True, "Epoch": 1, "LastBatch": 0}, {"Stored": stored, "Results": results}
    liar = AnswersAll(lambda headers, _: (200, json.dumps(
        opened if headers["X-Amz-Target"].endswith("OpenPublisher") else answer).encode(), {}))
    try:
        done = Tally(liar.endpoint)("import", stdin=as_text(numbered(3)), status=1 if sent else 3)
    finally:
        liar.stop()
    assert done.out == f"sent {sent}, known 0\n"
    assert ("line 2: Refused: so" if sent else "lacks what this action answers") in done.err


def test_a_queue_that_is_not_there_is_made_on_demand(daemon, tally):
    lines = numbered(2) + numbered(2, queue="p.fifo", export="f", group="g")
    assert "line 1: " in (said := tally("import", stdin=as_text(lines), status=1).err) and "--create makes it" in said
    assert tally("import", "--create", stdin=as_text(lines)).out == "sent 4, known 0\n"
    assert bodies(daemon, "p.fifo") == ["body 1", "body 2"]
    assert "names no queue" in tally("import", stdin='{"body": "a", "deduplicationId": "x"}', status=1).err
    assert "is not the name of a queue" in tally("import", stdin=as_text(numbered(1, queue="a/b\"")), status=1).err
    assert "can't open" in tally("import", "nowhere", status=5).err
    assert tally("import", "--queue", f"{daemon.endpoint}/000000000000/u", "--create", stdin=as_text(lines)).out == (
        "sent 4, known 0\n")
    assert len(lines_of(tally("export", f"{daemon.endpoint}/000000000000/u").out)) == 4


def test_what_makes_no_sense_is_said(tally, tmp_path):
    for words in ([], ["--all", "q"], ["--all", "--definitions"], ["--definitions", "q"]):
        assert "give either queues" in tally("export", *words, status=2).err
    assert "QueueDoesNotExist" in tally("export", "nowhere", status=1).err
    assert "can't read" in tally("import", tmp_path, status=5).err
    assert "can't open" in tally("apply", tmp_path / "nothing", status=5).err


def test_an_export_ends_when_nobody_reads_it(daemon, tally):
    make_queue(daemon, "q")
    tally("import", stdin=as_text(numbered(5000, body="x" * 1000)))
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(tally.command("export", "q"), stdout=full, stderr=subprocess.PIPE, env=tally.environment,
                              text=True, check=False)
    assert done.returncode == 5 and "can't write to standard output" in done.stderr
    exported = int(re.search(r"(\d+) messages exported", done.stderr)[1])
    assert exported < 5000


# --- lines that somebody else made ------------------------------------------------------------------------------------


def test_a_line_of_ones_own_is_known_by_its_deduplication_id(daemon, tally):
    lines = [{"body": f"{number}", "deduplicationId": f"old-{number}"} for number in range(1500)]
    make_queue(daemon, "q")
    refused = tally("import", "--queue", "q", stdin=as_text(lines), status=1).err
    assert "remembers deduplication ids for 300 s" in refused and count_messages(daemon, "q") == 0
    ok(daemon, "AmazonSQS.SetQueueAttributes", QueueUrl="q", Attributes={"Tally.DeduplicationWindow": "86400"})
    assert tally("import", "--queue", "q", stdin=as_text(lines[:700])).out == "sent 700, known 0\n"
    assert tally("import", "--queue", "q", stdin=as_text(reversed(lines))).out == "sent 800, known 700\n"
    tally("import", "--queue", "new", "--create", stdin=as_text(lines[:1]))
    shown = ok(daemon, "AmazonSQS.GetQueueAttributes", QueueUrl="new", AttributeNames=["All"])["Attributes"]
    assert shown["Tally.DeduplicationWindow"] == "1209600"


def test_once_takes_any_line_and_any_queue(daemon, tally):
    make_queue(daemon, "q")
    for _ in range(2):
        assert tally("import", "--queue", "q", "--once", stdin='{"body": "a"}').out == "sent 1, known 0\n"
    assert bodies(daemon, "q") == ["a", "a"]


def test_imports_into_one_queue_run_beside_each_other(daemon, tally):
    make_queue(daemon, "q", **{"Tally.DeduplicationWindow": "-1"})
    running = [tally.start("import", "--queue", "q", stdin=as_text(
        {"body": f"{part}.{number}", "deduplicationId": f"{part}.{number}"} for number in range(3000)))
        for part in range(4)]
    assert [one.finish().out for one in running] == ["sent 3000, known 0\n"] * 4
    assert len(set(bodies(daemon, "q"))) == 12000


# --- definitions ------------------------------------------------------------------------------------------------------


def define_all(daemon):
    """One of each, with everything that it can have."""
    arn = "arn:aws:sqs:eu-west-1:000000000000:"
    make_queue(daemon, "dead.fifo")
    make_queue(daemon, "dead", RedriveAllowPolicy=json.dumps(
        {"redrivePermission": "byQueue", "sourceQueueArns": [f"{arn}a", f"{arn}nowhere"]}))
    make_queue(daemon, "a", DelaySeconds="3", MaximumMessageSize="2000", MessageRetentionPeriod="90",
               VisibilityTimeout="7", ReceiveMessageWaitTimeSeconds="4", KmsMasterKeyId="key",
               KmsDataKeyReusePeriodSeconds="600",
               RedrivePolicy=json.dumps({"deadLetterTargetArn": f"{arn}dead", "maxReceiveCount": 5}),
               **{"Tally.Backoff": '{"min": 3}', "Tally.RateLimit": '{"queue": {"rate": 1.5}}',
                  "Tally.GroupConcurrency": "4", "Tally.DeduplicationWindow": "-1", "Tally.StaleReceipts": "refuse"})
    ok(daemon, "AmazonSQS.TagQueue", QueueUrl="a", Tags={"team": "billing", "ä": ""})
    ok(daemon, "AmazonSQS.AddPermission", QueueUrl="a", Label="x", AWSAccountIds=["000000000002"],
       Actions=["SendMessage"])
    make_queue(daemon, "b.fifo", ContentBasedDeduplication="true", DeduplicationScope="messageGroup",
               FifoThroughputLimit="perMessageGroupId", RedrivePolicy=json.dumps(
                   {"deadLetterTargetArn": f"{arn}dead.fifo", "maxReceiveCount": 1}),
               **{"Tally.OnGroupFailure": "cancel-rest"})
    make_queue(daemon, "c.fifo", **{"Tally.StrictOrder": "false", "Tally.DeduplicationWindow": "9"})
    make_queue(daemon, "d", **{"Tally.DeliveryMode": "at-most-once", "SqsManagedSseEnabled": "false"})
    ok(daemon, "Tally.PauseQueue", QueueUrl="d")
    ok(daemon, "Tally.PutTypeOrder", Name="t", Types=["post", "comment"])
    ok(daemon, "Tally.PutTypeOrder", Name="u", Types=["x", "y", "z"], Require=True, RetentionSeconds=77)
    ok(daemon, "Tally.PutSchedule", Name="s", Cron="0 3 * * *", TimeZone="Europe/Berlin", QueueUrl="a",
       MessageBody="ä", CatchUp="none", MessageAttributes={"n": {"DataType": "Number", "StringValue": "1"},
                                          "b": {"DataType": "Binary", "BinaryValue": "AAE="}})
    ok(daemon, "Tally.PutSchedule", Name="v", Cron="@daily", QueueUrl="b.fifo", MessageGroupId="g", MessageBody="x")
    ok(daemon, "Tally.PauseSchedule", Name="v")
    rules = [{"type": "near", "attr": "m", "max": 5, "agree": "both", "expand": [{"after": "10s", "max": 100}]}]
    ok(daemon, "Tally.CreatePool", PoolName="p", ResultQueueUrl="dead", Attributes={"m": "num"}, Rules=rules)
    ok(daemon, "Tally.CreatePool", PoolName="w", ResultQueueUrl="dead", OnExpiryQueueUrl="a", Attributes={"m": "num"},
       Rules=rules, Teams=[{"name": "l", "size": 2}, {"name": "r", "size": 2}], Pick="nearest:m", TicketTtlSeconds=60,
       ConfirmSeconds=9, Verify=True, ResultsMax=10, RetentionSeconds=600, WindowMilliseconds=5)
    ok(daemon, "Tally.CreateRelay", RelayName="y", Order="strict", Sink={"Type": "queue", "QueueUrl": "a"},
       Source={"Type": "postgres", "Connection": "host=/nowhere user=x password=hidden", "LeaseSeconds": 9})
    ok(daemon, "Tally.CreateRelay", RelayName="z",
       Sink={"Type": "http", "Url": "http://127.0.0.1:1/", "TimeoutSeconds": 3},
       Source={"Type": "queue", "QueueUrl": f"{daemon.endpoint}/000000000000/dead"})
    ok(daemon, "Tally.PauseRelay", RelayName="z")
    return ("queue dead.fifo", "queue dead", "queue a", "queue b.fifo", "queue c.fifo", "queue d", "type order t",
            "type order u", "schedule s", "schedule v", "pool p", "pool w", "relay y", "relay z")


def test_definitions_make_an_empty_server_alike(daemon, tally, daemon_factory, tmp_path):
    things = define_all(daemon)
    exported = tally("export", "--definitions")
    assert "secrets of relays are not exported" in exported.err and "hidden" not in exported.out
    path = tmp_path / "definitions"
    path.write_text(exported.out)
    other = daemon_factory().start()
    there = Tally(other.endpoint)
    dry = there("apply", path, "--dry-run").out
    assert sorted(dry.splitlines()) == sorted(f"create {thing}" for thing in things)
    assert json.loads(there("export", "--definitions").out)["queues"] == []
    assert there("apply", path).out == dry
    assert json.loads(there("export", "--definitions").out) == json.loads(exported.out)
    for endpoint in (other.endpoint, daemon.endpoint):
        again = tally("apply", path, "--endpoint", endpoint).out
        assert sorted(again.splitlines()) == sorted(f"same   {thing}" for thing in things)
    other.kill9()


def test_apply_changes_what_differs_and_nothing_else(daemon, tally):
    define_all(daemon)
    before = json.loads(tally("export", "--definitions").out)
    document = {
        "version": 1,
        "queues": [{"QueueName": "a", "Attributes": {"VisibilityTimeout": 8, "DelaySeconds": "3", "KmsMasterKeyId": "",
                                                     "RedrivePolicy": ""}, "tags": {"team": "mail"}, "Paused": True},
                   {"QueueName": "d", "Paused": False,
                    "Attributes": {"RedrivePolicy": {"deadLetterTargetArn": "e", "maxReceiveCount": 2}}},
                   {"QueueName": "e"}],
        "typeOrders": [{"Name": "t", "Types": ["post", "like"]}],
        "schedules": [{"Name": "s", "Cron": "0 4 * * *", "QueueUrl": "a", "MessageBody": "ä"}],
        "pools": [{"PoolName": "w", "ResultQueueUrl": "dead", "ResultsMax": 11}],
        "relays": [{"RelayName": "z", "Source": before["relays"][1]["Source"], "Sink": before["relays"][1]["Sink"],
                    "Paused": False}],
    }
    said = ["create queue e", "change queue a: VisibilityTimeout, KmsMasterKeyId", "change queue a: tags",
            "change queue a: Paused", "change queue d: Paused", "change queue a: RedrivePolicy",
            "change queue d: RedrivePolicy", "change type order t: Types",
            "change schedule s: Cron, TimeZone, MessageAttributes, CatchUp", "change pool w: ResultsMax",
            "change relay z: Paused"]
    assert tally("apply", "-", "--dry-run", stdin=json.dumps(document)).out.splitlines() == said
    assert json.loads(tally("export", "--definitions").out) == before
    assert tally("apply", "-", stdin=json.dumps(document)).out.splitlines() == said
    after = json.loads(tally("export", "--definitions").out)
    a, b = ({row["QueueName"]: row for row in one["queues"]} for one in (before, after))
    assert b["a"]["tags"] == {"team": "mail", "ä": ""} and b["a"]["Paused"] and "Paused" not in b["d"]
    assert b["a"]["Attributes"]["VisibilityTimeout"] == "8"
    assert b["d"]["Attributes"]["RedrivePolicy"]["deadLetterTargetArn"] == "e"
    assert b["a"]["Attributes"]["Tally.Backoff"] == a["a"]["Attributes"]["Tally.Backoff"] and b["b.fifo"] == a["b.fifo"]
    assert [len(after[kind]) for kind in after if kind != "version"] == [7, 2, 2, 2, 2]
    again = tally("apply", "-", stdin=json.dumps(document)).out
    assert {line.split()[0] for line in again.splitlines()} == {"same"}, again
    shown = tally.json("apply", "-", "--dry-run", stdin=json.dumps(document))[0]
    assert shown == {"Outcome": "same", "Kind": "queue", "Name": "a"}


@pytest.mark.parametrize("document, said, status", [
    ({"queues": []}, '"version": 1', 2),
    ({"version": 2}, '"version": 1', 2),
    ({"version": 1, "kues": []}, 'a member "kues"', 2),
    ({"version": 1, "queues": {}}, "queues: it must be a list", 2),
    ({"version": 1, "queues": [{"QueueName": "new"}, {"Name": "x"}]}, "queues[1]: it must be an object", 2),
    ({"version": 1, "queues": [{"QueueName": "x", "Pausd": 1}]}, 'queues[0] (x), member "Pausd"', 2),
    ({"version": 1, "relays": [{"RelayName": "r", "Sink": {"Type": "http", "Url": "http://x/?…"}}]}, "relays[0]", 2),
    ({"version": 1, "queues": [{"QueueName": "new"}, {"QueueName": "b!"}]}, "queues[1] (b!)", 1),
    ({"version": 1, "queues": [{"QueueName": "new", "Attributes": {"RedrivePolicy": {
        "deadLetterTargetArn": "nowhere", "maxReceiveCount": 1}}}]}, "queues[0] (new)", 1),
    ({"version": 1, "queues": [{"QueueName": "new"}], "schedules": [
        {"Name": "s", "Cron": "x", "QueueUrl": "new", "MessageBody": "b"}]}, "schedules[0] (s)", 1),
    ({"version": 1, "queues": [{"QueueName": "new"}], "relays": [{"RelayName": "r", "Source": {"Type": "queue"}}]},
     "relays[0] (r)", 1),
])
def test_a_document_is_refused_with_the_place(daemon, tally, document, said, status):
    """Of a wrong form nothing is done; of what the server refuses, what was told."""
    done = tally("apply", "-", stdin=json.dumps(document), status=status)
    assert said in done.err
    assert done.out == ("create queue new\n" if status == 1 else "")
    assert len(json.loads(tally("export", "--definitions").out)["queues"]) == (status == 1)


def test_what_a_document_says_is_not_passed_over(daemon, tally):
    """A relay whose Paused was no boolean began at once; of a member that is there twice the second meant nothing."""
    relay = {"RelayName": "r", "Source": {"Type": "queue", "QueueUrl": "q"}}
    for members, said in [
        ('"queues": [{"QueueName": "q"}], "queues": []', "queues is given twice"),
        ('"queues": [{"QueueName": "q", "tags": {}, "tags": {"a": "b"}}]', '"tags" of a queue: it is given twice'),
        ('"queues": [{"QueueName": "q"}, {"QueueName": "p"}, {"QueueName": "q"}]', "the queue q is there twice"),
        ('"queues": [{"QueueName": "q\\u0000"}]', "it holds a NUL"),
        ('"queues": [{"QueueName": "q", "Paused": "true"}]', 'queues[0] (q), member "Paused" of a queue: it must'),
        ('"queues": [{"QueueName": "q", "Attributes": ["VisibilityTimeout"]}]', "it must be an object"),
        ('"queues": [{"QueueName": "q", "tags": "a=b"}]', "it must be an object"),
        (f'"queues": [{{"QueueName": "q"}}], "relays": [{json.dumps({**relay, "Paused": "true"})}]', "relays[0] (r)"),
    ]:
        assert said in tally("apply", "-", stdin=f'{{"version": 1, {members}}}', status=2).err
    assert '"version": 1' in tally("apply", "-", stdin='{"version": 1.5}', status=2).err
    assert json.loads(tally("export", "--definitions").out)["queues"] == []


def test_a_relay_that_says_something_else_is_not_changed(daemon, tally):
    define_all(daemon)
    document = json.loads(tally("export", "--definitions").out)
    document["relays"][0]["Source"]["Connection"] = "host=/nowhere user=x password=hidden"
    assert "same   relay y" in tally("apply", "-", stdin=json.dumps(document), status=None).out
    document["relays"][0]["Order"] = "group"
    assert "differ relay y: " in tally("apply", "-", "--dry-run", stdin=json.dumps(document)).out
    done = tally("apply", "-", stdin=json.dumps(document), status=1)
    assert "RelayAlreadyExists" in done.err and "relays[0] (y)" in done.err


# --- rights -----------------------------------------------------------------------------------------------------------

CREDENTIALS = """
ALL   all-secret   000000000000  read,write,admin
PART  part-secret  000000000000  read,write,admin  queues=mine-*
"""


def test_a_confined_credential_exports_what_it_sees(guarded, tally_of):
    everybody, part = tally_of("ALL", "all-secret"), tally_of("PART", "part-secret")
    for queue in ("mine-a", "other"):
        everybody("queue", "create", queue)
        everybody("send", queue, queue)
    everybody("type-order", "put", "t", "x", "y")
    exported = part("export", "--all").out
    assert [line["body"] for line in lines_of(exported)] == ["mine-a"]
    document = part("export", "--definitions")
    assert [row["QueueName"] for row in json.loads(document.out)["queues"]] == ["mine-a"]
    assert "typeOrders are left out" in document.err and "relays are left out" in document.err
    assert part("import", "--queue", "mine-b", "--create", stdin=exported).out == "sent 1, known 0\n"
    assert "other" in part("import", "--queue", "other", "--run", "x", stdin=exported, status=1).err
    assert "other" in part("export", "other", status=1).err


@pytest.fixture
def tally_of(guarded):
    def make(key, secret):
        made = Tally(guarded.endpoint)
        made.environment.update(AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=secret)
        return made

    return make


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_commands_of_the_page_work(daemon, tally, daemon_factory, tmp_path):
    other = daemon_factory().start()
    for queue in ("orders", "mails"):
        make_queue(daemon, queue)
        send(daemon, queue, f"of {queue}")
    commands = re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL)
    assert len(commands) == 5
    for command in commands:
        environment = clean_environment(TALLY_ENDPOINT=daemon.endpoint, NEW=other.endpoint,
                                        PATH=f"{BIN}:{os.environ['PATH']}")
        done = subprocess.run(["sh", "-euc", command], cwd=tmp_path, capture_output=True, text=True,
                              timeout=60 * PATIENCE, check=False, env=environment)
        assert done.returncode == 0, command + done.stdout + done.stderr
    assert (bodies(other, "orders"), bodies(other, "mails")) == (["of orders"], ["of mails"])
    assert bodies(daemon, "orders-again") == ["of orders"]
    other.kill9()


def test_the_examples_of_the_page_are_taken(daemon, tally):
    line, own, definitions = re.findall(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)
    assert tally("import", "--create", stdin=line).out == "sent 1, known 0\n"
    ok(daemon, "AmazonSQS.SetQueueAttributes", QueueUrl="orders", Attributes={"Tally.DeduplicationWindow": "1209600"})
    assert tally("import", stdin=own).out == "sent 1, known 0\n"
    tally("apply", "-", stdin=definitions)
    assert json.loads(tally("export", "--definitions").out)["relays"][0]["RelayName"] == "archive"
    exported = lines_of(tally("export", "orders").out)[0]
    assert set(exported) <= set(re.findall(r"`(\w+)`", DOCUMENT))
