"""Batches that grow from inside, over HTTP, by libtally's tool and beside the other rights
(docs/reference/batches.md)."""

import json
import shlex

import pytest
from wire import Connection


@pytest.fixture
def line(daemon):
    with Connection(daemon.port) as line:
        yield line


@pytest.fixture
def sealed(line):
    """A sealed batch `b` of one message in `pages`, which is held. Gives its entry of Holds or Deletes."""
    line.ok("AmazonSQS.CreateQueue", {"QueueName": "pages", "Attributes": {"Tally.DeduplicationWindow": "-1"}})
    line.ok("AmazonSQS.CreateQueue", {"QueueName": "done"})
    line.ok("Tally.CreateBatch", {"BatchId": "b", "Total": 1, "OnComplete": {"QueueUrl": "done"}})
    line.ok("AmazonSQS.SendMessage", page("seed"))
    return hold(line)


def page(name, batch="b"):
    return {
        "QueueUrl": "pages",
        "MessageBody": name,
        "MessageDeduplicationId": name,
        "MessageAttributes": {"Tally.Batch": {"DataType": "String", "StringValue": batch}},
    }


def hold(line, queue="pages", seconds=60):
    request = {"QueueUrl": queue, "VisibilityTimeout": seconds}
    [message] = line.ok("AmazonSQS.ReceiveMessage", request)["Messages"]
    return {"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"]}


def describe(line):
    batch = line.ok("Tally.DescribeBatch", {"BatchId": "b"})
    return batch["State"], batch["Total"], batch["Succeeded"], batch["Remaining"]


def refused(line, **request):
    answer = line.call("Tally.Commit", request)
    assert answer.status == 400, answer.body
    return answer.json()["__type"].split("#")[1]


def test_a_held_unit_adds_messages_keys_and_a_child_to_its_sealed_batch(line, sealed):
    done = line.ok(
        "Tally.Commit",
        {
            "Holds": [sealed],
            "CreateBatches": [{"BatchId": "child", "Parent": "b", "Total": 1}],
            "AddUnits": [{"BatchId": "b", "Units": ["x", "y"]}],
            "Sends": [page("one"), page("seed"), page("below", "child")],
        },
    )
    assert done["CreateBatches"] == [{"BatchId": "child", "State": "sealed"}]
    assert done["AddUnits"] == [{"BatchId": "b", "Added": 2, "Total": 5}]
    assert len(done["Sends"]) == 3
    assert describe(line) == ("sealed", 5, 0, 5)  # the second seed is a duplicate, and no unit


def test_the_last_unit_ends_and_leaves_another_one(line, sealed):
    for depth in range(5):
        line.ok("Tally.Commit", {"Deletes": [sealed], "Sends": [page(f"depth-{depth}")]})
        assert describe(line) == ("sealed", depth + 2, depth + 1, 1)
        sealed = hold(line)
    line.ok("Tally.Commit", {"Deletes": [sealed]})
    assert describe(line) == ("completed", 6, 6, 0)
    [message] = line.ok("AmazonSQS.ReceiveMessage", {"QueueUrl": "done", "MaxNumberOfMessages": 10})["Messages"]
    assert json.loads(message["Body"])["total"] == 6


def test_without_a_proof_a_sealed_batch_stays_as_it_is(line, sealed):
    line.ok("AmazonSQS.SendMessage",
            {"QueueUrl": "pages", "MessageBody": "no unit", "MessageDeduplicationId": "no-unit"})
    stranger = hold(line)
    for proof in [{}, {"Holds": [stranger]}, {"Deletes": [stranger]}]:
        assert refused(line, Sends=[page("x")], **proof) == "BatchSealed"
        assert refused(line, AddUnits=[{"BatchId": "b", "Count": 1}], **proof) == "BatchSealed"
        assert refused(line, CreateBatches=[{"BatchId": "c", "Parent": "b"}], **proof) == "BatchSealed"
    assert describe(line) == ("sealed", 1, 0, 1)


def test_a_stale_holder_adds_nothing(line, sealed):
    line.ok("AmazonSQS.ChangeMessageVisibility", {**sealed, "VisibilityTimeout": 0})
    assert refused(line, Holds=[sealed], Sends=[page("x")]) == "ReceiptHandleIsInvalid"
    fresh = hold(line)
    assert refused(line, Holds=[sealed], Sends=[page("x")]) == "ReceiptHandleIsInvalid"
    line.ok("Tally.Commit", {"Holds": [fresh], "Sends": [page("x")]})
    assert describe(line) == ("sealed", 2, 0, 2)


def test_growth_survives_a_kill(line, sealed, daemon):
    line.ok("Tally.Commit", {"Holds": [sealed], "AddUnits": [{"BatchId": "b", "Count": 3}]})
    daemon.kill9()
    daemon.start()
    with Connection(daemon.port) as again:
        assert describe(again) == ("sealed", 4, 0, 4)


# --- tally send --from-unit -------------------------------------------------------------------------------------------


@pytest.fixture
def crawl(tally):
    """A batch of one page, whose number of dots says how deep it is."""
    tally("queue", "create", "pages", "--attribute", "Tally.DeduplicationWindow=-1")
    tally("queue", "create", "done")
    tally("batch", "create", "b", "--total", "1", "--on-complete", "done")
    tally("send", "pages", "p", "--batch", "b", "--deduplication-id", "p")


def counts(tally):
    [batch] = tally.json("batch", "show", "b")
    return batch["State"], batch["Total"], batch["Succeeded"]


def work(tally, queue, script):
    """Runs a shell script for each message; `tally` in it is the tool."""
    tool = f"tally() {{ {shlex.join(tally.command())} \"$@\"; }}\n"
    tally("work", "--queue", queue, "--until-empty", "--concurrency", "2", "--", "sh", "-c", tool + script)


def test_a_command_of_work_adds_to_the_batch_of_its_message(tally, crawl):
    work(
        tally,
        "pages",
        """page=$(cat)
        [ ${#page} -lt 5 ] || exit 0
        for link in "$page.a" "$page.b" p; do
            tally send pages "$link" --from-unit --deduplication-id "$link" 2>/dev/null || exit 1
        done""",
    )
    assert counts(tally) == ("completed", 7, 7)


def test_lines_join_ten_in_a_commit(tally, crawl):
    send = "tally send pages - --lines --from-unit --content-based-deduplication"
    work(tally, "pages", f'[ "$(cat)" != p ] || seq 25 | {send}')
    assert counts(tally) == ("completed", 26, 26)


@pytest.mark.parametrize("end", ["exit 1", "kill -KILL $$"])
def test_a_command_that_is_run_again_adds_each_line_once(tally, crawl, end):
    """Also one that two commands add, or one command twice in a Commit."""
    work(
        tally,
        "pages",
        f"""page=$(cat)
        [ "$page" != p ] || {{ seq 15; seq 15; }} | tally send pages - --lines --from-unit --content-based-deduplication
        [ "$page" != 15 ] || seq 12 18 | tally send pages - --lines --from-unit --content-based-deduplication
        [ "$TALLY_RECEIVE_COUNT" -ge 2 ] || {{ case $page in p|15) {end} ;; esac; }}""",
    )
    assert counts(tally) == ("completed", 19, 19)


def test_a_numbered_command_that_is_run_again_adds_each_line_once(tally, crawl):
    """Also where two lines are equal and are two units."""
    work(
        tally,
        "pages",
        """[ "$(cat)" = p ] || exit 0
        printf 'same\\nsame\\n' | tally send pages - --lines --from-unit --producer "$TALLY_MESSAGE_ID" --sequence 1
        [ "$TALLY_RECEIVE_COUNT" -ge 2 ]""",
    )
    assert counts(tally) == ("completed", 3, 3)


def test_lines_from_a_unit_must_be_known_again(tally, crawl, tmp_path):
    work(tally, "pages", f"seq 3 | tally send pages - --lines --from-unit 2>{tmp_path}/said; echo $? >>{tmp_path}/said")
    said = (tmp_path / "said").read_text()
    assert "--content-based-deduplication" in said and "--producer" in said and said.endswith("\n2\n")
    assert counts(tally) == ("completed", 1, 1)


def test_from_unit_says_what_is_missing(tally, crawl, tmp_path):
    said = tally("send", "pages", "x", "--from-unit", status=2).err
    assert "TALLY_RECEIPT_HANDLE" in said and "tally work" in said
    tally("queue", "create", "plain")
    tally("send", "plain", "x")
    work(tally, "plain", f"tally send pages x --from-unit 2>{tmp_path}/said; echo $? >>{tmp_path}/said")
    said = (tmp_path / "said").read_text()
    assert "is no unit of a batch" in said and said.endswith("\n2\n")
    work(tally, "pages", f"tally send pages x --from-unit --batch other 2>{tmp_path}/said; echo $? >>{tmp_path}/said")
    said = (tmp_path / "said").read_text()
    assert "BatchDoesNotExist" in said and said.endswith("\n1\n")
    assert counts(tally) == ("completed", 1, 1)
