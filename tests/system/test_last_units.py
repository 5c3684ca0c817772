"""The last units of a batch end on 200 workers at the same instant, round after round: one completion message each
time.

ROUNDS  how many (1,000, half of them with messages as units, half with external units)
"""

import json

import pytest
from wire import Connection, Crowd, request_bytes, scaled

WORKERS = 200
EARLIER = 10  # units that have ended before the rush
ROUNDS = scaled(1000, "ROUNDS", least=4) // 2


def create_batch(line, name, results, **more):
    line.ok("Tally.CreateBatch", {"BatchId": name, "OnComplete": {"QueueUrl": results}, **more})


def completions(line, results):
    """Every completion message that there is, received and deleted: {batch: [MessageId, …]}."""
    found = {}
    while True:
        answer = line.ok(
            "AmazonSQS.ReceiveMessage",
            {"QueueUrl": results, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]},
        )
        if not answer:
            return found
        for message in answer["Messages"]:
            batch = message["MessageAttributes"]["Tally.Batch.Completed"]["StringValue"]
            body = json.loads(message["Body"])
            assert body["batch"] == batch and body["status"] == "succeeded"
            assert body["total"] == body["succeeded"] == WORKERS + EARLIER
            found.setdefault(batch, []).append(message["MessageId"])
        entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(answer["Messages"])]
        assert "Failed" not in line.ok("AmazonSQS.DeleteMessageBatch", {"QueueUrl": results, "Entries": entries})


def check_all_once(line, results, names):
    found = completions(line, results)
    assert sorted(found) == sorted(names)
    assert all(len(ids) == 1 for ids in found.values())
    assert len({ids[0] for ids in found.values()}) == len(names)
    for name in names[:: max(1, len(names) // 20)]:
        described = line.ok("Tally.DescribeBatch", {"BatchId": name})
        assert (described["State"], described["Status"], described["Remaining"]) == ("completed", "succeeded", 0)
        assert described["CompletionMessageId"] == found[name][0]


@pytest.fixture
def line(daemon):
    with Connection(daemon.port) as line:
        yield line


@pytest.fixture
def crowd(daemon):
    with Crowd(daemon.port, WORKERS) as crowd:
        yield crowd


def queue(line, name):
    attributes = {"VisibilityTimeout": "3600"}
    return line.ok("AmazonSQS.CreateQueue", {"QueueName": name, "Attributes": attributes})["QueueUrl"]


def test_200_workers_complete_the_last_200_external_units_at_once(line, crowd):
    results = queue(line, "results")
    names = [f"units-{number}" for number in range(ROUNDS)]
    for name in names:
        create_batch(line, name, results)
        line.ok("Tally.AddUnits", {"BatchId": name, "Count": WORKERS + EARLIER})
        line.ok("Tally.SealBatch", {"BatchId": name})
        early = [{"Unit": str(unit)} for unit in range(EARLIER)]
        assert line.ok("Tally.CompleteUnits", {"BatchId": name, "Units": early})["Remaining"] == WORKERS
        replies = [
            answer.json()
            for answer in crowd.ask(
                [
                    request_bytes("Tally.CompleteUnits", {"BatchId": name, "Units": [{"Unit": str(EARLIER + worker)}]})
                    for worker in range(WORKERS)
                ]
            )
        ]
        assert all(reply["Results"][0]["Recorded"] for reply in replies)
        assert sorted(reply["Remaining"] for reply in replies) == list(range(WORKERS))
        assert [reply["Remaining"] for reply in replies if reply["Completed"]] == [0]
    check_all_once(line, results, names)


def send_units(crowd, jobs, name, count):
    """Sends `count` messages as units, in tens; receives them: a handle each."""
    attributes = {"Tally.Batch": {"DataType": "String", "StringValue": name}}
    for answer in crowd.ask(
        [
            request_bytes(
                "AmazonSQS.SendMessageBatch",
                {
                    "QueueUrl": jobs,
                    "Entries": [
                        {"Id": str(entry), "MessageBody": "unit", "MessageAttributes": attributes}
                        for entry in range(10)
                    ],
                },
            )
            for _ in range(count // 10)
        ]
    ):
        assert answer.status == 200 and len(answer.json()["Successful"]) == 10
    received = crowd.ask(
        [request_bytes("AmazonSQS.ReceiveMessage", {"QueueUrl": jobs, "MaxNumberOfMessages": 10})] * (count // 10)
    )
    handles = [message["ReceiptHandle"] for answer in received for message in answer.json()["Messages"]]
    assert len(set(handles)) == count
    return handles


def test_200_workers_delete_the_last_200_messages_at_once(line, crowd):
    results, jobs = queue(line, "results"), queue(line, "jobs")
    names = [f"messages-{number}" for number in range(ROUNDS)]
    for name in names:
        create_batch(line, name, results, Total=WORKERS + EARLIER)
        handles = send_units(crowd, jobs, name, WORKERS + EARLIER)
        deletes = [
            request_bytes("AmazonSQS.DeleteMessage", {"QueueUrl": jobs, "ReceiptHandle": handle}) for handle in handles
        ]
        assert all(answer.status == 200 for answer in crowd.ask(deletes[WORKERS:]))
        assert all(answer.status == 200 and answer.body == b"" for answer in crowd.ask(deletes[:WORKERS]))
        assert all(answer.status == 200 for answer in crowd.ask(deletes[:3]))  # late repeats change nothing
    check_all_once(line, results, names)
