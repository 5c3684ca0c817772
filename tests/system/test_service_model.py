"""The service model of Tally's actions against a real daemon: each operation, each member, each example, each error,
paginators and waiters; boto3 and the AWS CLI with it. tests/house/model holds the model against the sources."""

import contextlib
import re
import subprocess
import sys

import pytest
from certificates import Certificate
from clients import needs
from conftest import PATIENCE, ROOT, Daemon, clean_environment, free_port, wait_until
from service_model import FOLDER, MODELS, Model, ModelClient, forbidden, read
from service_model_story import Story, TEXT, uuid
from test_clients_aws_cli import PROGRAM

# Members that no reply of these tests has, and why.
UNSEEN = {
    ("DescribeBackupResult", "FailureReason"): "a backup must fail",
    ("DescribeScheduleResult", "LastAt"): "it takes up to a minute until a schedule fires",
    ("DescribeScheduleResult", "LastMessageId"): "the same",
    ("Schedule", "LastAt"): "the same",
    ("Schedule", "LastMessageId"): "the same",
    ("FoundMessage", "IsDamaged"): "a log must be damaged",
    ("GetMessageResult", "IsDamaged"): "the same",
    ("ListedMessage", "IsDamaged"): "the same",
    ("DescribeServerResult", "Node"): "only nodes of a cluster have it",
    ("DescribeServerResult", "Nodes"): "the same",
    **{("Node", member): "the same" for member in ["Address", "Node", "Owned", "State", "Version", "Wanted"]},
    ("SnapshotState", "Bytes"): "a segment of the log must be full",
    ("SnapshotState", "LastAt"): "the same",
    ("RelayCredentials", "SecretAccessKey"): "a secret is never shown",
    ("RelayCredentials", "SessionToken"): "the same",
    ("RelaySink", "Secret"): "the same",
}

# Errors that no request of these tests meets, and why.
UNMET = {
    "DependencyTooDeep": "it takes 100,000 messages that wait",
    "PublisherIsFull": "it takes 100,000 rows",
}

# Values that the model forbids, and that the daemon takes on purpose.
TAKEN = {("ConfirmMatchRequest", "TicketId"): "a ticket that can't be answers unknown, as one that is not there"}

CREDENTIALS = """
READER reader-secret 000000000000 read
CONFINED confined-secret 000000000000 read,write,admin queues=mine*
OWNER owner-secret 000000000000 read,write,admin
"""


def keys(name):
    return {"aws_access_key_id": name.upper(), "aws_secret_access_key": f"{name.lower()}-secret"}


@contextlib.contextmanager
def started(folder, *options, prefix=()):
    folder.mkdir(exist_ok=True)
    daemon = Daemon(folder, options)
    daemon.prefix = list(prefix)
    daemon.start()
    try:
        yield daemon
        assert daemon.stop() == 0, daemon.error_text()
    finally:
        daemon.kill9()


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The story, once it is told; its daemon runs on."""
    folder = tmp_path_factory.mktemp("model")
    with started(folder / "daemon", "--slow-request", "1ms") as daemon:
        story = Story(daemon, folder)
        story.run()
        yield story


# --- what was told ----------------------------------------------------------------------------------------------------


def test_each_member_of_each_request_has_been_sent(told):
    assert sorted(told.client.model.members("input") - told.client.sent) == []


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Clients of servers that are not as usual: what they have seen, and which errors they met."""
    folder = tmp_path_factory.mktemp("elsewhere")
    return [*clients_with_credentials(folder), *clients_of_a_restart(folder), *clients_of_the_full(folder)]


def test_each_member_of_each_reply_has_been_seen(told, elsewhere):
    seen = told.client.seen.union(*(client.seen for client in elsewhere))
    unseen = told.client.model.members("output") - seen
    assert unseen <= UNSEEN.keys(), unseen - UNSEEN.keys()
    assert UNSEEN.keys() & seen == set(), "they can be seen after all"


def clients_with_credentials(folder):
    """Of a server with credentials and a certificate."""
    (folder / "credentials").write_text(CREDENTIALS)
    certificate = Certificate(folder)
    options = ["--credentials", folder / "credentials", *certificate.options(free_port()), "--slow-request", "1ms"]
    with started(folder / "guarded", *options) as daemon:
        owner, confined = (ModelClient(daemon.endpoint, **keys(name)) for name in ["owner", "confined"])
        owner.call("PutTypeOrder", Name="o", Types=["a", "b"])
        owner.call("FeedEvents")

        boto = boto3_client("sqs", daemon.endpoint, **keys("owner"))
        boto.create_queue(QueueName="mine")

        def shows_a_slow_one():
            boto.send_message(QueueUrl="mine", MessageBody="m" * 900_000)
            return any("AccessKeyId" in request for request in owner.call("DescribeServer")["SlowRequests"])

        wait_until(shows_a_slow_one, what="a signed request that takes a millisecond")
        confined.call("DescribeServer")
        boto.receive_message(QueueUrl="mine")
        owner.call("ListInFlight")
        return [owner, confined, *refuse_access(daemon, owner, confined)]


def clients_of_a_restart(folder):
    """Of a server whose time zones have gone."""
    with started(folder / "zones") as daemon:
        client = ModelClient(daemon.endpoint)
        daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
        schedule = {"Cron": "@daily", "TimeZone": "Europe/Berlin", "QueueUrl": "q", "MessageBody": "m"}
        for name in "ab":
            client.call("PutSchedule", Name=name, **schedule)
        client.call("PauseSchedule", Name="a")
    with started(folder / "zones", prefix=["env", "TZDIR=/nowhere"]) as daemon:
        client = ModelClient(daemon.endpoint)
        client.call("DescribeSchedule", Name="b")
        client.call("ListSchedules")
        client.call("DescribeServer")
        assert client.refused("ResumeSchedule", Name="a") == "ServiceUnavailable"
        return [client]


def clients_of_the_full(folder):
    for option, error in [(("--memory-max", "1"), "MemoryIsFull"), (("--disk-min-free", "100000GiB"), "DiskIsFull")]:
        with started(folder / error, *option) as daemon:
            client = ModelClient(daemon.endpoint)
            assert client.refused("CreateBatch") == error
            yield client


def boto3_client(service, endpoint, **more):
    import boto3

    return boto3.client(service, endpoint_url=endpoint, region_name="eu-central-1", **more)


def test_each_example_ran_as_it_stands(told):
    assert told.run_examples == set(told.client.model.operations)
    for action, (example,) in told.examples.items():
        for side in ["input", "output"]:
            shape = told.client.model.side(action, side)
            assert shape is None or not list(told.client.model.faults(shape, example[side], action))
        assert example["title"] and example["description"].endswith(".")


def test_what_the_model_forbids_the_daemon_refuses(told):
    assert [taken for taken in told.taken if taken[1:3] not in TAKEN] == []
    assert len(told.tried) > 250


def test_the_checker_finds_what_is_wrong():
    model = Model()
    whole = {"BatchId": "b", "State": "open", "Remaining": 1, "Completed": False}
    wrong = [{**whole, "New": 1}, {**whole, "State": "shut"}, {**whole, "Remaining": -1}, {**whole, "Remaining": "1"},
             {**whole, "Completed": 1}, {key: whole[key] for key in ["State", "Remaining"]}]
    del whole["BatchId"]
    assert not list(model.faults("SealBatchResult", whole))
    for reply in wrong:
        assert list(model.faults("SealBatchResult", reply)), reply
    assert list(forbidden({"type": "integer", "min": 1, "max": 5}, 3, True)) == [0, 6]


# --- errors -----------------------------------------------------------------------------------------------------------

def text(value):
    return {**TEXT, "StringValue": value}


def after(name, **more):
    attributes = {"Tally.After": text(name), **more}
    return {"Sends": [{"QueueUrl": "done", "MessageBody": "m", "MessageAttributes": attributes}]}


NOBODY = "00000000-0000-4000-8000-00000000000f"
CLAIM = {**{key: value for key, value in read("examples-1.json")["examples"]["Publish"][0]["input"].items()
            if key in ("Publisher", "Epoch", "Owner")}, "ConfirmedBatch": 0}
ROW = {"Id": 99, "Uid": NOBODY, "QueueUrl": "done", "MessageBody": "m"}
QUEUES = {"Source": {"Type": "queue", "QueueUrl": "done"}, "Sink": {"Type": "queue", "QueueUrl": "many"}}
POOL = {"PoolName": "teams", "ResultQueueUrl": "results"}

# After the story, of which they name things.
MET = [
    ("QueueDoesNotExist", "PauseQueue", {"QueueUrl": "none"}),
    ("EmptyBatchRequest", "Commit", {}),
    ("TooManyEntriesInBatchRequest", "Commit", {"Deletes": [{"QueueUrl": "done", "ReceiptHandle": "h"}] * 11}),
    ("BatchRequestTooLong", "Commit", {"Sends": [{"QueueUrl": "done", "MessageBody": "x" * 600000}] * 2}),
    ("UnsupportedOperation", "AddUnits", {"BatchId": "crawl", "Count": 1}),
    ("OverLimit", "AddUnits", {"BatchId": "outer", "Count": 100000000}),
    ("ReceiptHandleIsInvalid", "FailMessage", {"QueueUrl": "done", "ReceiptHandle": "h"}),
    ("InvalidMessageContents", "PutSchedule",
     {"Name": "s", "Cron": "@daily", "QueueUrl": "done", "MessageBody": "\u0001"}),
    ("InvalidParameterValueException", "ListBatches", {"MaxResults": 1001}),
    ("MissingRequiredParameterException", "SealBatch", {}),
    ("SerializationException", "SealBatch", {"BatchId": 7}),
    ("RequestTooLarge", "FindMessage", {"Text": "x" * (9 << 20)}),
    ("BatchDoesNotExist", "SealBatch", {"BatchId": "none"}),
    ("BatchAlreadyExists", "CreateBatch", {"BatchId": "import-42"}),
    ("BatchSealed", "AddUnits", {"BatchId": "parent", "Count": 1}),
    ("BatchTotalExceeded", "AddUnits", {"BatchId": "inner", "Count": 50}),
    ("BatchNotCompleted", "DeleteBatch", {"BatchId": "outer"}),
    ("UnitDoesNotExist", "CompleteUnits", {"BatchId": "outer", "Units": [{"Unit": "none"}]}),
    ("GroupNotHeld", "ReleaseGroup", {"QueueUrl": "done", "MessageGroupId": "g", "Action": "skip"}),
    ("DependencyDoesNotExist", "Commit", after("batch:none")),
    ("DependencyCycle", "Commit", after("batch:outer", **{"Tally.Batch": text("outer")})),
    ("TypeOrderConflict", "PutTypeOrder", {"Name": "turned", "Types": ["b", "a"]}),
    ("TypeOrderDoesNotExist", "DeleteTypeOrder", {"Name": "none"}),
    ("ScheduleDoesNotExist", "FireSchedule", {"Name": "none"}),
    ("BackupDoesNotExist", "DescribeBackup", {"BackupId": "none"}),
    ("RelayDoesNotExist", "PauseRelay", {"RelayName": "none"}),
    ("RelayAlreadyExists", "CreateRelay", {"RelayName": "r", **QUEUES, "Order": "group", "Source": {
        "Type": "queue", "QueueUrl": "dead"}}),
    ("DoubtDoesNotExist", "ResolveDoubt", {"RelayName": "r", "Id": 1, "Action": "drop"}),
    ("PublisherFenced", "Publish", {**CLAIM, "Owner": NOBODY, "Batch": 3, "Rows": [ROW]}),
    ("PublisherBatchOutOfOrder", "Publish", {**CLAIM, "Batch": 9, "Rows": [ROW]}),
    ("PublisherBatchConflict", "Publish", {**CLAIM, "Batch": 2, "Rows": [ROW]}),
    ("PoolDoesNotExist", "ListTickets", {"PoolName": "none"}),
    ("PoolAlreadyExists", "CreatePool", POOL),
    ("TicketDoesNotExist", "GetTicket", {"PoolName": "teams", "TicketId": "none"}),
]


def refuse_access(daemon, owner, confined):
    confined.refused("StartBackup")
    reader = ModelClient(daemon.endpoint, **keys("reader"))
    assert reader.refused("CreateBatch") == "AccessDeniedException"
    unknown = ModelClient(daemon.endpoint, **{**keys("owner"), "aws_access_key_id": "NOBODY"})
    assert unknown.refused("ListPools") == "UnrecognizedClientException"
    wrong = ModelClient(daemon.endpoint, **{**keys("owner"), "aws_secret_access_key": "wrong"})
    assert wrong.refused("ListPools") == "InvalidSignatureException"
    owner.boto.meta.events.register("before-send.tally", lambda request, **_: request.headers.update(
        {"Authorization": "AWS4-HMAC-SHA256 nothing"}))
    assert owner.refused("ListPools") == "IncompleteSignatureException"
    return [reader, unknown, wrong]


def test_each_error_is_what_the_model_says(told, elsewhere):
    client = ModelClient(told.daemon.endpoint, unchecked=True)
    client.call("CreateRelay", RelayName="r", **QUEUES)
    for error, action, parameters in MET:
        assert client.refused(action, **parameters) == error
    client.call("StartBackup")
    assert client.refused("StartBackup") == "BackupInProgress"
    client.boto.meta.events.register("before-call.tally", lambda params, **_: params["headers"].update(
        {"X-Amz-Target": "Tally.Nothing"}))
    assert client.refused("ListPools") == "UnknownOperationException"
    met = client.errors.union(*(other.errors for other in elsewhere))
    named = {name for name, shape in client.model.shapes.items() if shape.get("exception")}
    assert named - met == set(UNMET)


# --- pages and waiters ------------------------------------------------------------------------------------------------

PAGED = {
    "FindMessage": {"Text": "same", "QueueUrl": "many"},
    "ListBatches": {},
    "ListDependents": {"BatchId": "outer"},
    "ListGroups": {"QueueUrl": "posts.fifo"},
    "ListInFlight": {},
    "ListMessages": {"QueueUrl": "done"},
    "ListPools": {},
    "ListQueueStats": {"QueueNamePrefix": "d"},
    "ListRelays": {},
    "ListSchedules": {},
    "ListTickets": {"PoolName": "all"},
    "ListTypeOrders": {},
    "ListUnits": {"BatchId": "child"},
}


def test_paginators_go_through_all_pages(told):
    paginators = read("paginators-1.json")["pagination"]
    assert paginators.keys() - PAGED.keys() == {"ListDoubts"}, "that one is in the story"
    told.call("PutTypeOrder", Name="second", Types=["x", "y"])
    told.call("PutSchedule", Name="second", Cron="@daily", QueueUrl="done", MessageBody="m")
    for name in "first", "second":
        told.send("done", Tally_After="batch:outer")
        told.call("CreateRelay", RelayName=name, **QUEUES)
    told.queue("held", VisibilityTimeout="600")  # the story's leases may be over
    for _ in range(2):
        told.send("held")
        told.take("held")
    for action, parameters in PAGED.items():
        method, key = told.client.method(action), paginators[action]["result_key"]
        size = {"MaxResults": 1000} if "limit_key" in paginators[action] else {}
        whole = method(**parameters, **size)[key]
        pages = told.client.boto.get_paginator(method.__name__).paginate(
            **parameters, PaginationConfig={"PageSize": 1} if size else {})
        assert len(pages.build_full_result()[key]) >= max(2, len(whole)), action


def test_all_pages_together_say_what_one_page_says(told):
    """What botocore makes of a list, and the AWS CLI prints, has more than the rows."""
    result, model = told.client.boto.get_paginator, told.client.model
    of_a_page = {"IsComplete", "Looked", "QueuesLooked", "QueueCount"}  # whether it is the last, and how far it came
    for action, told_of in read("paginators-1.json")["pagination"].items():
        members = set(model.shapes[model.side(action, "output")]["members"])
        kept = {told_of["result_key"], told_of["output_token"], *told_of.get("non_aggregate_keys", [])}
        assert members - kept <= of_a_page, action
    assert result("find_message").paginate(OutboxId=uuid(4)).build_full_result()["IsPublished"]
    tickets = result("list_tickets").paginate(PoolName="all", PaginationConfig={"PageSize": 1}).build_full_result()
    assert tickets["RulesVersion"] and tickets["Sequence"]


def test_waiters_wait_for_what_they_say(told):
    from botocore.exceptions import WaiterError

    boto = told.client.boto
    ended = told.send("many")
    told.sqs("PurgeQueue", QueueUrl="many")
    rows = [("batch_completed", {"BatchId": "import-42"}, True), ("batch_succeeded", {"BatchId": "small"}, True),
            ("batch_succeeded", {"BatchId": "import-42"}, False), ("message_ended", {"MessageId": ended}, True),
            ("message_ended", {"MessageId": NOBODY}, False),
            ("ticket_matched", {"PoolName": "plain", "TicketId": "b"}, True),
            ("ticket_matched", {"PoolName": "all", "TicketId": "t0"}, False)]
    in_story = {"relay_active", "backup_finished"}
    assert {name for name, _, _ in rows} | in_story == set(boto.waiter_names)
    for name, parameters, is_good in rows:
        with contextlib.nullcontext() if is_good else pytest.raises(WaiterError):
            boto.get_waiter(name).wait(**parameters, WaiterConfig={"Delay": 0.1, "MaxAttempts": 50})


def test_a_batch_that_has_failed_is_waited_for_while_its_units_are_tried_again(told):
    from botocore.exceptions import WaiterError

    told.queue("tried", RedrivePolicy=told.redrive(told.queue("tried-dead"), 1))
    told.call("CreateBatch", BatchId="again")
    told.send("tried", Tally_Batch="again")
    told.call("SealBatch", BatchId="again")
    told.call("FailMessage", QueueUrl="tried", ReceiptHandle=told.take("tried"), Final=True)
    waiter = told.client.boto.get_waiter("batch_succeeded")
    with pytest.raises(WaiterError, match="matched expected path: \"failed\""):
        waiter.wait(BatchId="again", WaiterConfig={"Delay": 0.1, "MaxAttempts": 50})
    told.sqs("StartMessageMoveTask", SourceArn=told.arn("tried-dead"))
    wait_until(lambda: told.call("DescribeBatch", BatchId="again")["Remaining"] == 1, what="the redrive")
    with pytest.raises(WaiterError, match="Max attempts exceeded"):
        waiter.wait(BatchId="again", WaiterConfig={"Delay": 0.1, "MaxAttempts": 3})
    told.sqs("DeleteMessage", QueueUrl="tried", ReceiptHandle=told.take("tried"))
    waiter.wait(BatchId="again", WaiterConfig={"Delay": 0.1, "MaxAttempts": 50})


def test_a_paused_relay_is_not_waited_for_and_a_blocked_one_is(told):
    from botocore.exceptions import WaiterError

    def wait(attempts=100):
        waiter.wait(RelayName="paused", WaiterConfig={"Delay": 0.1, "MaxAttempts": attempts})

    waiter = told.client.boto.get_waiter("relay_active")
    told.queue("paused")
    told.call("CreateRelay", RelayName="paused", Source={"Type": "queue", "QueueUrl": "paused"},
              Sink={"Type": "http", "Url": "http://127.0.0.1:9/away"})
    wait()
    told.call("PauseRelay", RelayName="paused")
    with pytest.raises(WaiterError, match='expression "Paused" we matched expected path: "True"') as caught:
        wait()
    assert caught.value.last_response["Paused"]
    told.call("ResumeRelay", RelayName="paused")
    wait()
    told.send("paused")
    wait_until(lambda: told.call("DescribeRelay", RelayName="paused")["State"] == "blocked", what="the block")
    with pytest.raises(WaiterError, match="Max attempts exceeded"):
        wait(3)
    told.call("DeleteRelay", RelayName="paused")


# --- clients of others ------------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "how-to" / "tally-actions-in-boto3.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run_of_page(command, **more):
    environment = clean_environment(AWS_MAX_ATTEMPTS="1", **more)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def here(daemon, block):
    return block.replace("http://127.0.0.1:9324", daemon.endpoint).replace("/usr/share/tally/models", str(MODELS))


def test_boto3_does_what_the_page_shows(told):
    (code,) = [block for kind, block in BLOCKS if kind == "python"]
    shown = BLOCKS[BLOCKS.index(("python", code)) + 1]
    command = [sys.executable, "-B", "-c", here(told.daemon, code)]
    assert ("", run_of_page(command, AWS_DATA_PATH=str(MODELS))) == shown


def test_the_aws_cli_does_what_the_page_shows(told, tmp_path):
    needs(PROGRAM, "awscli")
    code = "".join(block for kind, block in BLOCKS if kind == "sh" and "aws " in block)
    command = ["sh", "-ec", f'aws() {{ {PROGRAM} "$@"; }}\n' + here(told.daemon, code)]
    assert ("", run_of_page(command, HOME=str(tmp_path))) == BLOCKS[-1]
    installed = tmp_path / ".aws" / "models" / "tally" / FOLDER.name
    assert {path.name for path in installed.iterdir()} == {path.name for path in FOLDER.iterdir()}


def test_without_an_endpoint_a_client_goes_where_tallyd_serves_by_default():
    asked = []

    def answer(request, **_):
        asked.append(request.url)
        return Nothing()

    client = ModelClient(None)
    client.boto.meta.events.register("before-send.tally", answer)
    client.method("ListPools")()
    assert asked == ["http://127.0.0.1:9324/"]


class Nothing:
    """An answer that comes from nobody."""

    status_code, headers, content, raw = 200, {}, b"{}", None


def test_the_page_names_every_file_and_how_long_every_waiter_waits():
    from botocore import xform_name

    assert set(re.findall(r"^\| `([\w.-]+\.json)`", PAGE, re.MULTILINE)) == {path.name for path in FOLDER.iterdir()}
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\d+) s \| (\d+) minutes? \|$", PAGE, re.MULTILINE)
    waiters = {xform_name(name): waiter for name, waiter in read("waiters-2.json")["waiters"].items()}
    assert {name for name, _, _ in rows} == waiters.keys()
    for name, delay_s, minutes in rows:
        waiter = waiters[name]
        assert (int(delay_s), 60 * int(minutes)) == (waiter["delay"], waiter["delay"] * waiter["maxAttempts"]), name
