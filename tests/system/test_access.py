"""What a credential with queues= may do and see: each action of docs/reference/access.md, within its reach and out
of it, with each right; and what becomes of requests that wait when credentials or policies change."""

import base64
import json
import re
import threading

import pytest
from conftest import ROOT, Daemon, hang_up_until, wait_until, write_credentials
from test_auth import OTHER, OURS, arn, ask, url_of

CREDENTIALS = f"""
BOSS    boss-secret    {OURS}   read,write,admin
ALL     all-secret     {OURS}   read,write
MINE    mine-secret    {OURS}   read,write,admin  queues=mine-*
MINER   miner-secret   {OURS}   read              queues=mine-*
MINEW   minew-secret   {OURS}   write             queues=mine-*
MINEA   minea-secret   {OURS}   admin             queues=mine-*
WIDE    wide-secret    {OURS}   read,write        queues=mine-*,more-*
GUEST   guest-secret   {OTHER}  read,write,admin
"""
KEYS = {"MINER": "read", "MINEW": "write", "MINEA": "admin"}
UUID = "00000000-0000-4000-8000-00000000000%d"


def call(daemon, key, action, parameters=None):
    """An action in JSON, signed by `key`: (status, JSON)."""
    answer = ask(daemon, "json", action, parameters, key, f"{key.lower()}-secret")
    return answer.status, json.loads(answer.body) if answer.body else {}


def ok(daemon, key, action, parameters=None):
    status, answer = call(daemon, key, action, parameters)
    assert status == 200, f"{key} {action}: {answer}"
    return answer


def refused(daemon, key, error, action, parameters=None):
    """The text of the refusal, which must have that name."""
    status, answer = call(daemon, key, action, parameters)
    assert status >= 400 and answer["__type"].split("#")[1].removesuffix("Exception") == error, (
        f"{key} {action}: {status} {answer}")
    return answer["message"]


# --- The table ---


def table_of_docs():
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (\w+) \|", (ROOT / "docs" / "reference" / "access.md").read_text(), re.M)
    return {action: (right, reach) for action, right, reach in rows if action != "action"}


def table_of_code():
    row = (r'\{"(?:AmazonSQS|Tally)\.(\w+)",\s*REPLY_\w+,\s*\w+,\s*RIGHT_(\w+),\s*(?:NULL|"\w+"),\s*'
           r'GROWTH_\w+,\s*REACH_(\w+)\}')
    text = (ROOT / "src" / "api" / "actions.c").read_text()
    rows = {action: (right.lower(), reach.lower()) for action, right, reach in re.findall(row, text)}
    assert len(rows) == text.count('{"'), "a row that this test can't read"
    return rows


def text(value, kind="String"):
    return {"DataType": kind, "StringValue": value}


def send(queue, **attributes):
    return {"QueueUrl": url_of(queue), "MessageBody": "m",
            "MessageAttributes": {f"Tally.{name}": text(value) for name, value in attributes.items()}}


def target(queue):
    return {"QueueUrl": url_of(queue), "MessageBody": "done"}


def redrive(queue):
    return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn(queue), "maxReceiveCount": 1})}


def receive(daemon, queue, **more):
    return ok(daemon, "BOSS", "ReceiveMessage", {"QueueUrl": url_of(queue), **more}).get("Messages", [])


class World:
    """Two halves of a namespace that know nothing of each other, mine-* and bank-*, and what joins both."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.ids = {}
        for half in "mine", "bank":
            for name in "one", "two", "dead", "gone":
                self.boss("CreateQueue", QueueName=f"{half}-{name}")
            self.boss("SetQueueAttributes", QueueUrl=url_of(f"{half}-one"), Attributes=redrive(f"{half}-dead"))
            self.boss("Tally.CreateBatch", BatchId=f"{half}-batch", OnComplete=target(f"{half}-two"))
            self.boss("Tally.AddUnits", BatchId=f"{half}-batch", Units=["u", "v", "w"])
            self.boss("Tally.CreateBatch", BatchId=f"{half}-xor", Tracking="xor", OnComplete=target(f"{half}-two"))
            self.boss("Tally.CreateBatch", BatchId=f"{half}-over", Total=0, OnComplete=target(f"{half}-two"))
            self.boss("Tally.PutSchedule", Name=f"{half}-schedule", Cron="0 0 1 1 *", MessageBody="m",
                      QueueUrl=url_of(f"{half}-two"))
            self.boss("Tally.CreatePool", PoolName=f"{half}-pool", Matcher="external",
                      ResultQueueUrl=url_of(f"{half}-two"))
            self.boss("Tally.OfferTickets", PoolName=f"{half}-pool", Tickets=[{"TicketId": "t"}])
            self.ids[half] = self.boss("SendMessage", **send(f"{half}-one", Batch=f"{half}-batch"))["MessageId"]
            self.boss("SendMessage", **send(f"{half}-one", After=f"batch:{half}-batch"))
            self.claim(half)
        self.boss("Tally.CreateBatch", BatchId="mixed", OnComplete=target("mine-two"))
        self.boss("SendMessage", **send("bank-one", Batch="mixed"))
        self.boss("Tally.CreateBatch", BatchId="parent", OnComplete=target("mine-two"))
        self.boss("Tally.CreateBatch", BatchId="child", Parent="parent", OnComplete=target("bank-two"))
        self.boss("Tally.CreateBatch", BatchId="loose")
        self.boss("Tally.PutTypeOrder", Name="order", Types=["first", "second"])

    def boss(self, action, **parameters):
        return ok(self.daemon, "BOSS", action, parameters)

    def claim(self, half, epoch=1):
        """The publisher of that half, which has sent a row to its second queue."""
        claim = {"Publisher": UUID % (half == "bank"), "Epoch": epoch, "Owner": UUID % 9}
        opened = self.boss("Tally.OpenPublisher", **claim)
        row = {"Id": 1, "Uid": UUID % 5, "QueueUrl": url_of(f"{half}-two"), "MessageBody": "row"}
        if opened["LastBatch"] == 0:
            self.boss("Tally.Publish", **claim, Batch=1, ConfirmedBatch=0, Rows=[row])
        return claim

    def foreign(self):
        """What must not change, whatever the one half does."""
        seen = [self.boss("Tally.DescribeBatch", BatchId=name)
                for name in ("bank-batch", "bank-xor", "bank-over", "mixed", "parent", "child", "loose")]
        seen += [self.boss("Tally.ListUnits", BatchId=name) for name in ("bank-batch", "mixed", "parent")]
        seen += [self.boss("Tally.DescribeSchedule", Name="bank-schedule"),
                 self.boss("Tally.ListTickets", PoolName="bank-pool")["Tickets"]]
        seen += [self.boss("ListQueueTags", QueueUrl=url_of("bank-one")), self.boss("Tally.ListTypeOrders"),
                 self.boss("Tally.ListRelays")]
        seen += [self.boss("Tally.OpenPublisher", Publisher=UUID % 1, Epoch=1, Owner=UUID % 9)]
        for queue in "bank-one", "bank-two", "bank-dead", "bank-gone":
            attributes = self.boss("GetQueueAttributes", QueueUrl=url_of(queue), AttributeNames=["All"])["Attributes"]
            attributes.pop("Tally.OldestMessageAge", None)  # grows by itself
            seen.append(attributes)
        return seen


def of_queue(**parameters):
    return lambda half: {"QueueUrl": url_of(f"{half}-one"), **parameters}


def of_batch(name="batch", **parameters):
    return lambda half: {"BatchId": f"{half}-{name}", **parameters}


def of_pool(**parameters):
    return lambda half: {"PoolName": f"{half}-pool", **parameters}


def of_schedule(**parameters):
    return lambda half: {"Name": f"{half}-schedule", **parameters}


def of_publisher(**parameters):
    return lambda half: {"Publisher": UUID % (half == "bank"), "Epoch": 1, "Owner": UUID % 9, **parameters}


ENTRY = {"Id": "1", "MessageBody": "m", "ReceiptHandle": "x", "VisibilityTimeout": 1}
ROWS = [{"Id": 1, "Uid": UUID % 5, "QueueUrl": "mine-two", "MessageBody": "row"}]

# Each action's parameters, by which half of the world they are about; in this order, since some end what others look
# at.
CELLS = {
    "SendMessage": of_queue(MessageBody="m"),
    "SendMessageBatch": of_queue(Entries=[ENTRY]),
    "ReceiveMessage": of_queue(VisibilityTimeout=0),
    "DeleteMessage": of_queue(ReceiptHandle="x"),
    "DeleteMessageBatch": of_queue(Entries=[ENTRY]),
    "ChangeMessageVisibility": of_queue(ReceiptHandle="x", VisibilityTimeout=1),
    "ChangeMessageVisibilityBatch": of_queue(Entries=[ENTRY]),
    "FailMessage": of_queue(ReceiptHandle="x"),
    "CreateQueue": lambda half: {"QueueName": f"{half}-new"},
    "GetQueueUrl": lambda half: {"QueueName": f"{half}-one"},
    "GetQueueAttributes": of_queue(AttributeNames=["All"]),
    "SetQueueAttributes": of_queue(Attributes={"DelaySeconds": "0"}),
    "TagQueue": of_queue(Tags={"a": "b"}),
    "UntagQueue": of_queue(TagKeys=["a"]),
    "ListQueueTags": of_queue(),
    "AddPermission": of_queue(Label="l", AWSAccountIds=[OTHER], Actions=["SendMessage"]),
    "RemovePermission": of_queue(Label="l"),
    "ListDeadLetterSourceQueues": lambda half: {"QueueUrl": url_of(f"{half}-dead")},
    "StartMessageMoveTask": lambda half: {"SourceArn": arn(f"{half}-dead")},
    "CancelMessageMoveTask": lambda half: {"TaskHandle": handle_of_task(f"{half}-dead")},
    "ListMessageMoveTasks": lambda half: {"SourceArn": arn(f"{half}-dead")},
    "DeleteMessages": of_queue(Reason="none has it"),
    "PauseQueue": of_queue(),
    "ResumeQueue": of_queue(),
    "PauseGroup": of_queue(MessageGroupId="g"),
    "ResumeGroup": of_queue(MessageGroupId="g"),
    "ReleaseGroup": of_queue(MessageGroupId="g", Action="skip"),
    "ListGroups": of_queue(),
    "GetSeries": of_queue(Period=5),
    "ExplainMessage": of_queue(MessageId=UUID % 1),
    "ListMessages": of_queue(Body="full"),
    "GetMessage": lambda half: {"MessageId": UUID % 1},
    "ReleaseMessage": of_queue(MessageId=UUID % 1),
    "ReplaceMessage": of_queue(MessageId=UUID % 1, MessageBody="m"),
    "FindMessage": of_queue(MessageDeduplicationId="d"),
    "SummarizeFailures": of_queue(),
    "ListInFlight": of_queue(),
    "ListDependents": of_batch(),
    "CreateBatch": lambda half: {"BatchId": f"new-{half}", "OnComplete": target(f"{half}-two")},
    "AddUnits": of_batch(Units=["x"]),
    "CompleteUnits": of_batch(Units=[{"Unit": "u"}]),
    "XorUnits": of_batch("xor", Value="0" * 16, RequestToken="token"),
    "DescribeBatch": of_batch(),
    "ListUnits": of_batch(),
    "Commit": lambda half: {"Units": [{"BatchId": f"{half}-batch", "Unit": "v"}]},
    "SealBatch": of_batch("xor"),
    "CancelBatch": of_batch(),
    "DeleteBatch": of_batch("over"),
    "OpenPublisher": of_publisher(),
    "Publish": of_publisher(Batch=1, ConfirmedBatch=0, Rows=ROWS),
    "PutSchedule": lambda half: {"Name": f"{half}-schedule", "Cron": "0 0 1 1 *", "MessageBody": "m",
                                 "QueueUrl": url_of("mine-two")},
    "DescribeSchedule": of_schedule(),
    "PauseSchedule": of_schedule(),
    "ResumeSchedule": of_schedule(),
    "FireSchedule": of_schedule(),
    "CreatePool": lambda half: {"PoolName": f"new-{half}", "ResultQueueUrl": url_of(f"{half}-two")},
    "UpdatePool": of_pool(ResultQueueUrl=url_of("mine-two")),
    "DescribePool": of_pool(),
    "OfferTickets": of_pool(Tickets=[{"TicketId": "t"}]),
    "UpdateTicket": of_pool(TicketId="t", Attributes={}),
    "GetTicket": of_pool(TicketId="t"),
    "ListTickets": of_pool(),
    "CountTickets": of_pool(),
    "FeedTickets": of_pool(From=0),
    "ProposeMatches": of_pool(Proposals=[{"Tickets": [{"TicketId": "t", "Version": 1}]}]),
    "PutBackMatch": of_pool(MatchId=UUID % 1),
    "ConfirmMatch": of_pool(MatchId=UUID % 1, TicketId="t"),
    "ExplainTicket": of_pool(TicketId="t"),
    "CancelTickets": of_pool(TicketIds=["t"]),
    "CreateRelay": lambda _: {"RelayName": "r", "Source": {"Type": "queue", "QueueUrl": "mine-one"},
                              "Sink": {"Type": "queue"}},
    "PutTypeOrder": lambda _: {"Name": "order", "Types": ["second", "first"]},
    "DeleteTypeOrder": lambda _: {"Name": "order"},
    **{action: lambda _: {"RelayName": "r"}
       for action in ("DescribeRelay", "PauseRelay", "ResumeRelay", "DeleteRelay", "ListDoubts")},
    "ResolveDoubt": lambda _: {"RelayName": "r", "Id": 1, "Action": "send"},
    **{action: lambda _: {} for action in ("ListQueues", "ListQueueStats", "ListBatches", "ListSchedules", "ListPools",
                                           "ListTypeOrders", "ListRelays", "FeedEvents", "DescribeServer",
                                           "StartBackup", "DescribeBackup")},
    "DeleteBackup": lambda _: {"BackupId": "b"},
    "DeletePool": of_pool(),
    "DeleteSchedule": of_schedule(),
    "PurgeQueue": of_queue(),
    "DeleteQueue": lambda half: {"QueueUrl": url_of(f"{half}-gone")},
}
LISTS = {"ListQueues": "mine-one", "ListQueueStats": "mine-one", "ListBatches": "mine-batch",
         "ListSchedules": "mine-schedule", "ListPools": "mine-pool", "FeedEvents": "mine-one",
         "DescribeServer": "mine-*"}

# How what is out of reach is refused, where it is not as the reach of its action says.
REFUSED = {"queue": "AccessDenied", "publisher": "AccessDenied", "namespace": "AccessDenied"}
ABSENT = {"batch": "BatchDoesNotExist", "pool": "PoolDoesNotExist", "schedule": "ScheduleDoesNotExist",
          "each": "BatchDoesNotExist"}
ODD = {action: "AccessDenied"
       for action in ("CreateBatch", "ExplainMessage", "FindMessage", "GetSeries", "ListInFlight")}
UNKNOWN = {"GetMessage": {"State": "unknown", "Why": []}}  # it answers all the same


def handle_of_task(source):
    return base64.b64encode(json.dumps({"taskId": "x", "sourceArn": arn(source)}).encode()).decode()


def target_of(action):
    return action if action in SQS else f"Tally.{action}"


SQS = {
    action for action in CELLS
    if re.search(f'"AmazonSQS.{action}"', (ROOT / "src" / "api" / "actions.c").read_text())
}


def test_the_table_of_the_docs_is_that_of_the_code():
    assert table_of_docs() == table_of_code()
    assert set(CELLS) == set(table_of_code()), "an action that the test of all cells forgets"


def is_about_access(answer):
    return (answer.get("__type", "").endswith("#AccessDeniedException")
            or "within the queues of this credential" in answer.get("message", ""))


@pytest.mark.parametrize("action", sorted(CELLS))
def test_an_action_out_of_reach_is_refused_and_changes_nothing(world_out, action):
    """Whatever the right: without it, for that; with it, because of the reach. Lists show nothing of the other half."""
    right, reach = table_of_code()[action]
    parameters = CELLS[action]("bank")
    before = world_out.foreign()
    for key in [*KEYS, "MINE"]:
        status, answer = call(world_out.daemon, key, target_of(action), parameters)
        if action in LISTS:
            assert (status == 200 and "bank" not in json.dumps(answer)
                    and LISTS[action] in json.dumps(answer)), f"{key}: {answer}"
            assert not re.search("mixed|loose|parent|child", json.dumps(answer)), f"{key}: {answer}"
            continue
        if action in UNKNOWN and right in KEYS.get(key, right):
            assert answer == UNKNOWN[action], f"{key}: {answer}"
            continue
        assert status >= 400, f"{key} {action}: {answer}"
        error = answer["__type"].split("#")[1].removesuffix("Exception")
        if right not in (KEYS.get(key, right), "any"):
            assert error == "AccessDenied" and f"'{right}'" in answer["message"]
        elif action != "Commit" or key in ("MINEW", "MINE"):
            assert error == ODD.get(action, REFUSED.get(reach) or ABSENT[reach]), f"{key} {action}: {answer}"
            assert is_about_access(answer), answer
    assert world_out.foreign() == before


def test_an_action_within_reach_is_not_refused_for_its_reach(guarded):
    """In the order of CELLS: with the right, and with none of the others."""
    world = World(guarded)
    before = world.foreign()
    table = table_of_code()
    for action, parameters in CELLS.items():
        right, reach = table[action]
        if reach == "namespace":
            continue
        for key, its in KEYS.items():
            status, answer = call(guarded, key, target_of(action), parameters("mine"))
            is_allowed = right in (its, "any") and (action != "Commit" or its == "write")
            assert is_about_access(answer) == (not is_allowed), f"{key} {action}: {status} {answer}"
            assert "bank" not in json.dumps(answer), f"{key} {action}: {answer}"
            if action not in ROUGH:
                assert (status == 200) == is_allowed, f"{key} {action}: {status} {answer}"
    after = world.foreign()
    assert after == before


# Parameters that name nothing that is there: past the checks of access they fail.
ROUGH = {
    "DeleteMessage", "ChangeMessageVisibility", "FailMessage", "CancelMessageMoveTask", "ReleaseGroup",
    "RemovePermission",
    "PutBackMatch", "ConfirmMatch", "XorUnits", "Publish", "DeleteMessageBatch", "ChangeMessageVisibilityBatch",
    "UpdateTicket", "ReleaseMessage", "ReplaceMessage",
}


@pytest.fixture(scope="module")
def world_out(tmp_path_factory):
    """One daemon for all cells out of reach: none of them may change anything."""
    folder = tmp_path_factory.mktemp("access")
    daemon = Daemon(folder, ["--credentials", str(write_credentials(folder, CREDENTIALS))]).start()
    yield World(daemon)
    assert daemon.stop() == 0, daemon.error_text()


# --- What actions reach indirectly ---


@pytest.fixture
def world(guarded):
    return World(guarded)


FOREIGN_BATCHES = ["bank-batch", "mixed", "parent", "child", "loose"]


@pytest.mark.parametrize("batch", FOREIGN_BATCHES)
def test_a_batch_with_a_queue_out_of_reach_or_with_none_is_not_there(world, batch):
    """Targets, units and children count; and one that no queue belongs to is the namespace's."""
    before = world.foreign()
    for action in "DescribeBatch", "ListUnits", "SealBatch", "CancelBatch", "DeleteBatch":
        refused(world.daemon, "MINE", "BatchDoesNotExist", f"Tally.{action}", {"BatchId": batch})
    refused(world.daemon, "MINE", "BatchDoesNotExist", "Tally.AddUnits", {"BatchId": batch, "Units": ["x"]})
    refused(world.daemon, "MINE", "BatchDoesNotExist", "Tally.CompleteUnits",
            {"BatchId": batch, "Units": [{"Unit": "x"}]})
    refused(world.daemon, "MINE", "BatchDoesNotExist", "Tally.Commit", {"Units": [{"BatchId": batch, "Unit": "x"}]})
    refused(world.daemon, "MINE", "BatchDoesNotExist", "SendMessage", send("mine-one", Batch=batch))
    refused(world.daemon, "MINE", "BatchDoesNotExist", "Tally.Commit", {"Sends": [send("mine-one", Batch=batch)]})
    refused(world.daemon, "MINE", "DependencyDoesNotExist", "SendMessage", send("mine-one", After=f"batch:{batch}"))
    refused(world.daemon, "MINE", "BatchDoesNotExist", "Tally.CreateBatch",
            {"BatchId": "x", "Parent": batch, "OnComplete": target("mine-two")})
    refused(world.daemon, "MINE", "BatchAlreadyExists", "Tally.CreateBatch",
            {"BatchId": batch, "OnComplete": target("mine-two")})
    absent = refused(world.daemon, "MINE", "BatchDoesNotExist", "Tally.DescribeBatch", {"BatchId": "x"})
    hidden = refused(world.daemon, "MINE", "BatchDoesNotExist", "Tally.DescribeBatch", {"BatchId": batch})
    assert absent == hidden.replace(batch, "x")
    assert world.foreign() == before


def test_the_queues_of_a_batch_are_known_behind_a_restart(world):
    world.daemon.restart()
    for batch in FOREIGN_BATCHES:
        refused(world.daemon, "MINE", "BatchDoesNotExist", "Tally.DescribeBatch", {"BatchId": batch})
    assert ok(world.daemon, "MINE", "Tally.DescribeBatch", {"BatchId": "mine-batch"})["Total"] == 4


def test_a_confined_credential_works_with_batches_of_its_own(world):
    assert "OnComplete" in refused(world.daemon, "MINE", "AccessDenied", "Tally.CreateBatch", {"BatchId": "loose-too"})
    ok(world.daemon, "MINE", "Tally.CreateBatch", {"BatchId": "job", "OnComplete": target("mine-two")})
    ok(world.daemon, "MINE", "Tally.CreateBatch",
       {"BatchId": "part", "Parent": "job", "OnComplete": target("mine-two")})
    ok(world.daemon, "MINE", "SendMessage", send("mine-two", Batch="part"))
    ok(world.daemon, "MINE", "Tally.SealBatch", {"BatchId": "part"})
    ok(world.daemon, "MINE", "Tally.SealBatch", {"BatchId": "job"})
    assert ok(world.daemon, "MINE", "Tally.DescribeBatch", {"BatchId": "job"})["Remaining"] == 1
    world.boss("Tally.CreateBatch", BatchId="later", OnComplete=target("mine-two"))
    world.boss("SendMessage", **send("mine-one", Batch="later"))
    ok(world.daemon, "MINE", "Tally.DescribeBatch", {"BatchId": "later"})
    world.boss("SendMessage", **send("bank-one", Batch="later"))
    refused(world.daemon, "MINE", "BatchDoesNotExist", "Tally.CancelBatch", {"BatchId": "later"})


def test_pages_of_batches_do_not_tell_of_those_out_of_reach(world):
    page = ok(world.daemon, "MINE", "Tally.ListBatches", {"MaxResults": 3})
    assert [batch["BatchId"] for batch in page["Batches"]] == ["mine-batch", "mine-xor",
        "mine-over"] and "NextToken" not in page
    page = ok(world.daemon, "MINE", "Tally.ListBatches", {"MaxResults": 2})
    rest = ok(world.daemon, "MINE", "Tally.ListBatches", {"MaxResults": 2, "NextToken": page["NextToken"]})
    assert [batch["BatchId"] for batch in rest["Batches"]] == ["mine-over"] and "NextToken" not in rest


def test_pages_of_dependents_do_not_tell_of_those_out_of_reach(world):
    for queue in "mine-two", "bank-two", "mine-two", "bank-two":
        world.boss("SendMessage", **send(queue, After=f"message:{world.ids['mine']}"))
    about = {"MessageId": world.ids["mine"], "MaxResults": 1}
    page = ok(world.daemon, "MINE", "Tally.ListDependents", about)
    last = ok(world.daemon, "MINE", "Tally.ListDependents", {**about, "NextToken": page["NextToken"]})
    assert [len(one["Dependents"]) for one in (page, last)] == [1, 1] and "NextToken" not in last
    assert len(world.boss("Tally.ListDependents", MessageId=world.ids["mine"])["Dependents"]) == 4


def test_a_message_waits_only_for_what_its_sender_reaches(world):
    world.boss("CreateQueue", QueueName="mine-once", Attributes={"Tally.DeduplicationWindow": "600"})
    alive = world.boss("SendMessage", **send("mine-one"))["MessageId"]
    once = world.boss("SendMessage", **send("mine-once"), MessageDeduplicationId="first")["MessageId"]
    ok(world.daemon, "MINE", "SendMessage",
       send("mine-two", After=f"message:{alive}, message:{world.ids['mine']}, batch:mine-batch"))
    for item in f"message:{world.ids['bank']}", "batch:bank-batch", f"message:{UUID % 1}", "batch:none":
        refused(world.daemon, "MINE", "DependencyDoesNotExist", "SendMessage",
                send("mine-two", After=f"message:{alive},{item}"))
    refused(world.daemon, "MINE", "AccessDenied", "SendMessage", send("mine-two", After="dedup:bank-one/first"))
    handle = receive(world.daemon, "mine-once")[0]["ReceiptHandle"]
    world.boss("DeleteMessage", QueueUrl=url_of("mine-once"), ReceiptHandle=handle)
    ended = refused(world.daemon, "MINE", "DependencyDoesNotExist", "SendMessage",
                    send("mine-two", After=f"message:{once}"))
    assert "dedup:" in ended
    ok(world.daemon, "MINE", "SendMessage", send("mine-two", After="dedup:mine-once/first"))
    ok(world.daemon, "ALL", "SendMessage", send("mine-two", After=f"message:{once}"))


def test_types_are_for_credentials_that_cover_every_queue(world):
    typed = {**send("mine-one", Type="first"), "MessageGroupId": "g"}
    assert "Tally.Type" in refused(world.daemon, "MINE", "AccessDenied", "SendMessage", typed)
    ok(world.daemon, "ALL", "SendMessage", typed)


# What a Commit names in each of its lists, by which half of the world it is about, and how it is refused out of reach.
# `held`: the entry of a message of that half's first queue which is in flight.
COMMITS = {
    "Sends": (lambda half, held: {"Sends": [send(f"{half}-two")]}, "AccessDenied"),
    "Sends, Tally.Batch": (lambda half, held: {"Sends": [send("mine-two", Batch=f"{half}-batch")]},
                           "BatchDoesNotExist"),
    "Sends, Tally.After": (lambda half, held: {"Sends": [send("mine-two", After=f"batch:{half}-batch")]},
                           "DependencyDoesNotExist"),
    "Units": (lambda half, held: {"Units": [{"BatchId": f"{half}-batch", "Unit": "v"}]}, "BatchDoesNotExist"),
    "Deletes": (lambda half, held: {"Deletes": [held]}, "AccessDenied"),
    "Holds": (lambda half, held: {"Holds": [held], "Sends": [send("mine-two")]}, "AccessDenied"),
    "AddUnits": (lambda half, held: {"AddUnits": [{"BatchId": f"{half}-batch", "Units": ["new"]}]},
                 "BatchDoesNotExist"),
    "CreateBatches, target": (
        lambda half, held: {"CreateBatches": [{"BatchId": "new", "OnComplete": target(f"{half}-two")}]},
        "AccessDenied"),
    "CreateBatches, Parent": (
        lambda half, held: {"CreateBatches": [{"BatchId": "new", "Parent": f"{half}-batch",
                                               "OnComplete": target("mine-two")}]},
        "BatchDoesNotExist"),
    "CreateBatches, the name": (
        lambda half, held: {"CreateBatches": [{"BatchId": "new" if half == "mine" else "bank-batch",
                                               "OnComplete": target("mine-two")}]},
        "BatchAlreadyExists"),
    "CreateBatches and AddUnits": (
        lambda half, held: {"CreateBatches": [{"BatchId": "new", "OnComplete": target("mine-two")}],
                            "AddUnits": [{"BatchId": "new", "Units": ["x"]},
                                         {"BatchId": f"{half}-batch", "Units": ["x"]}]},
        "BatchDoesNotExist"),
}


@pytest.mark.parametrize("part", COMMITS)
def test_each_list_of_a_commit_is_held_against_the_reach(world, part):
    """Whatever else it names is within reach: nothing of it is done, and of what is foreign nothing is told."""
    of, error = COMMITS[part]
    held = {}
    for half in "mine", "bank":
        [message] = receive(world.daemon, f"{half}-one", VisibilityTimeout=600)
        held[half] = {"QueueUrl": url_of(f"{half}-one"), "ReceiptHandle": message["ReceiptHandle"]}
    before = world.foreign()
    said = refused(world.daemon, "MINE", error, "Tally.Commit", of("bank", held["bank"]))
    assert is_about_access({"__type": f"x#{error}Exception", "message": said}) or error in (
        "BatchAlreadyExists", "DependencyDoesNotExist"), said
    assert world.foreign() == before
    refused(world.daemon, "BOSS", "BatchDoesNotExist", "Tally.DescribeBatch", {"BatchId": "new"})
    answer = ok(world.daemon, "MINE", "Tally.Commit", of("mine", held["mine"]))
    assert "bank" not in json.dumps(answer)
    assert world.foreign() == before


def test_a_commit_needs_the_right_of_each_of_its_lists(world):
    [message] = receive(world.daemon, "mine-one", VisibilityTimeout=600)
    held = {"QueueUrl": url_of("mine-one"), "ReceiptHandle": message["ReceiptHandle"]}
    for parts, right in [({"Sends": [send("mine-two")]}, "write"), ({"Deletes": [held]}, "read"),
                         ({"Units": [{"BatchId": "mine-batch", "Unit": "v"}]}, "write"),
                         ({"AddUnits": [{"BatchId": "mine-batch", "Units": ["x"]}]}, "write"),
                         ({"CreateBatches": [{"BatchId": "new", "OnComplete": target("mine-two")}]}, "write")]:
        for key, its in KEYS.items():
            if its != right:
                assert f"'{right}'" in refused(world.daemon, key, "AccessDenied", "Tally.Commit", parts)
    both = {"Holds": [held], "Sends": [send("mine-two")]}
    for key in "MINEW", "MINER", "MINEA":
        refused(world.daemon, key, "AccessDenied", "Tally.Commit", both)
    ok(world.daemon, "MINE", "Tally.Commit", both)


def test_a_failure_sends_messages_only_where_its_caller_may_send(world):
    """DeadLetterQueueUrl of FailMessage is a send."""
    [message] = receive(world.daemon, "mine-one", VisibilityTimeout=600)
    failure = {"QueueUrl": url_of("mine-one"), "ReceiptHandle": message["ReceiptHandle"], "Final": True}
    before = world.foreign()
    for key in "MINE", "MINER":
        refused(world.daemon, key, "AccessDenied", "Tally.FailMessage",
                {**failure, "DeadLetterQueueUrl": url_of("bank-dead")})
    to_own = {**failure, "DeadLetterQueueUrl": url_of("mine-dead")}
    assert "'write'" in refused(world.daemon, "MINER", "AccessDenied", "Tally.FailMessage", to_own)
    assert ok(world.daemon, "MINE", "Tally.FailMessage", to_own)["QueueName"] == "mine-dead"
    assert world.foreign() == before


def test_a_failure_does_not_name_a_dead_letter_queue_out_of_reach(world):
    world.boss("SetQueueAttributes", QueueUrl=url_of("mine-one"), Attributes=redrive("bank-dead"))
    [message] = receive(world.daemon, "mine-one", VisibilityTimeout=600)
    failed = ok(world.daemon, "MINE", "Tally.FailMessage",
                {"QueueUrl": url_of("mine-one"), "ReceiptHandle": message["ReceiptHandle"], "Final": True})
    assert failed["Outcome"] == "dead-lettered" and "bank" not in json.dumps(failed)


HIDDEN = (
    "It waits for something that this credential may not see: it has ended, "
    "or it has to do with queues that the credential does not cover."
)


def explained(world, message, key="MINE", queue="mine-two"):
    return ok(world.daemon, key, "Tally.ExplainMessage", {"QueueUrl": url_of(queue), "MessageId": message})


def test_explain_message_tells_nothing_of_messages_of_other_queues(world):
    assert explained(world, world.ids["bank"]) == {"State": "unknown", "Why": []}
    ended = world.boss("SendMessage", **send("bank-two"))["MessageId"]
    for message in receive(world.daemon, "bank-two", MaxNumberOfMessages=10):
        world.boss("DeleteMessage", QueueUrl=url_of("bank-two"), ReceiptHandle=message["ReceiptHandle"])
    assert explained(world, ended, "BOSS")["State"] == "ended"
    assert explained(world, ended) == explained(world, UUID % 1) == {"State": "unknown", "Why": []}


def test_a_message_is_looked_at_only_where_its_queue_is_covered(world):
    bank, mine = world.ids["bank"], world.ids["mine"]
    assert ok(world.daemon, "BOSS", "Tally.GetMessage", {"MessageId": bank})["State"] != "unknown"
    assert ok(world.daemon, "MINE", "Tally.GetMessage", {"MessageId": bank}) == UNKNOWN["GetMessage"]
    assert ok(world.daemon, "MINE", "Tally.ExplainMessage", {"MessageId": bank}) == UNKNOWN["GetMessage"]
    assert ok(world.daemon, "MINE", "Tally.GetMessage", {"MessageId": mine})["MessageId"] == mine
    assert ok(world.daemon, "MINE", "Tally.ExplainMessage", {"MessageId": mine})["State"] != "unknown"
    world.boss("SetQueueAttributes", QueueUrl=url_of("bank-two"), Attributes=redrive("mine-dead"))
    dead_letter(world, "bank-two")
    letters = ok(world.daemon, "MINE", "Tally.ListMessages", {"QueueUrl": url_of("mine-dead")})["Messages"]
    assert letters and "bank" not in json.dumps(letters)
    letters = world.boss("Tally.ListMessages", QueueUrl=url_of("mine-dead"))["Messages"]
    assert {"bank-two"} <= {letter.get("DeadLetterQueueSource") for letter in letters}


@pytest.mark.parametrize("after, code",
                         [("message:{bank}", "Message"), ("batch:bank-batch", "Batch"), ("batch:mixed", "Batch")])
def test_explain_message_names_nothing_that_is_out_of_reach(world, after, code):
    """The sender covered both halves; who asks covers one."""
    waits = world.boss("SendMessage", **send("mine-two", After=after.format(**world.ids)))["MessageId"]
    answer = explained(world, waits)
    assert answer["State"] == "blocked"
    assert answer["Why"] == [{"Code": code, "Text": HIDDEN}]
    assert len(explained(world, waits, "BOSS")["Why"][0]) > 2
    own = world.boss("SendMessage", **send("mine-two", After=f"message:{world.ids['mine']}"))["MessageId"]
    assert explained(world, own)["Why"][0]["MessageId"] == world.ids["mine"]


def test_groups_are_not_explained_by_what_is_out_of_reach(world):
    world.boss("CreateQueue", QueueName="mine-line.fifo", Attributes={"FifoQueue": "true"})
    ids = {"MessageGroupId": "g", "MessageDeduplicationId": "1"}
    world.boss("SendMessage", **send("mine-line.fifo", After="batch:bank-batch"), **ids)
    [group] = ok(world.daemon, "MINE", "Tally.ListGroups", {"QueueUrl": url_of("mine-line.fifo")})["Groups"]
    assert group["Reason"] == HIDDEN
    [group] = world.boss("Tally.ListGroups", QueueUrl=url_of("mine-line.fifo"))["Groups"]
    assert "bank-batch" in group["Reason"]


def dead_letter(world, queue):
    """A message of the queue goes to its dead-letter queue."""
    world.boss("SendMessage", QueueUrl=url_of(queue), MessageBody="letter")
    for _ in range(2):
        receive(world.daemon, queue, MaxNumberOfMessages=10, VisibilityTimeout=0)


def test_what_is_found_is_in_queues_that_are_covered(world):
    def found(key, **search):
        return ok(world.daemon, key, "Tally.FindMessage", search)

    assert found("MINE", MessageId=world.ids["bank"]) == {"Messages": [], "IsComplete": True}
    assert [one["MessageId"] for one in found("MINE", MessageId=world.ids["mine"])["Messages"]] == [world.ids["mine"]]
    assert len(found("BOSS", OutboxId=UUID % 5)["Messages"]) == 2 and found("BOSS", OutboxId=UUID % 5)["IsPublished"]
    answer = found("MINE", OutboxId=UUID % 5)
    assert [one["QueueUrl"].rsplit("/", 1)[1] for one in answer["Messages"]] == ["mine-two"]
    assert "IsPublished" not in answer
    world.boss("SendMessage", **send("mine-two"), MessageDeduplicationId="order-17")
    world.boss("SetQueueAttributes", QueueUrl=url_of("mine-two"), Attributes=redrive("bank-dead"))
    dead_letter(world, "mine-two")
    order = {"QueueUrl": url_of("mine-two"), "MessageDeduplicationId": "order-17"}
    assert found("BOSS", **order)["Messages"][0]["QueueUrl"].endswith("/bank-dead")
    [gone] = found("MINE", **order)["Messages"]
    assert gone["State"] == "ended" and "QueueUrl" not in gone and "bank" not in json.dumps(gone)


def test_a_batch_names_its_parent_only_within_reach(world):
    world.boss("Tally.CreateBatch", BatchId="inner", Parent="parent", OnComplete=target("mine-two"))
    assert world.boss("Tally.DescribeBatch", BatchId="inner")["Parent"] == "parent"
    answer = ok(world.daemon, "MINE", "Tally.DescribeBatch", {"BatchId": "inner"})  # a sibling is of the bank
    assert "Parent" not in answer and answer["OnComplete"]["QueueUrl"].endswith("/mine-two")


def test_the_worst_queues_are_those_that_are_covered(world):
    answer = ok(world.daemon, "MINE", "Tally.ListQueueStats", {"SortBy": "age"})
    assert answer["Queues"] and all(queue["QueueName"].startswith("mine-") for queue in answer["Queues"])


def test_dead_letters_of_queues_out_of_reach(world):
    """They are read where they are, without the name of their queue, and go back only with those who cover that
    queue."""
    world.boss("SetQueueAttributes", QueueUrl=url_of("bank-two"), Attributes=redrive("mine-dead"))
    start = {"SourceArn": arn("mine-dead")}
    ok(world.daemon, "MINE", "StartMessageMoveTask", start)
    dead_letter(world, "bank-two")
    asked = {"QueueUrl": url_of("mine-dead"), "AttributeNames": ["All"], "VisibilityTimeout": 0}
    letters = ok(world.daemon, "MINE", "ReceiveMessage", asked)["Messages"]
    assert letters and not any("DeadLetterQueueSourceArn" in letter["Attributes"] for letter in letters)
    letters = ok(world.daemon, "BOSS", "ReceiveMessage", asked)["Messages"]
    assert [letter["Attributes"]["DeadLetterQueueSourceArn"] for letter in letters] == [arn("bank-two")]
    assert "DestinationArn" in refused(world.daemon, "MINE", "AccessDenied", "StartMessageMoveTask", start)
    world.daemon.restart()
    refused(world.daemon, "MINE", "AccessDenied", "StartMessageMoveTask", start)
    world.boss("StartMessageMoveTask", **start, DestinationArn=arn("bank-two"))
    wait_until(lambda: world.boss("ListMessageMoveTasks", **start)["Results"][0]["Status"] == "COMPLETED",
               what="the move")
    assert "bank" not in json.dumps(ok(world.daemon, "MINE", "ListMessageMoveTasks", start))
    assert "bank" in json.dumps(world.boss("ListMessageMoveTasks", **start))
    ok(world.daemon, "MINE", "StartMessageMoveTask", {**start, "DestinationArn": arn("mine-two")})


def test_a_dead_letter_to_be_replaced_does_not_tell_where_it_failed(world):
    world.boss("CreateQueue", QueueName="mine-flat")
    for queue in "bank-two", "bank-gone":
        world.boss("SetQueueAttributes", QueueUrl=url_of(queue), Attributes=redrive("mine-flat"))
        dead_letter(world, queue)
    world.boss("DeleteQueue", QueueUrl=url_of("bank-gone"))
    letters = world.boss("Tally.ListMessages", QueueUrl=url_of("mine-flat"))["Messages"]
    copies = [{"QueueUrl": url_of("mine-flat"), "MessageId": letter["MessageId"], "MessageBody": "right"}
              for letter in letters]
    assert len(copies) >= 2
    said = {refused(world.daemon, "MINE", "AccessDenied", "Tally.ReplaceMessage", copy) for copy in copies}
    assert len(said) == 1 and "bank" not in said.pop()
    back = [copy for copy, letter in zip(copies, letters) if letter.get("DeadLetterQueueSource") == "bank-two"]
    assert back and world.boss("Tally.ReplaceMessage", **back[0])["QueueUrl"].endswith("/bank-two")


def test_a_message_in_flight_elsewhere_is_released_by_nobody_who_does_not_cover_its_queue(world):
    sent = world.boss("SendMessage", QueueUrl=url_of("bank-one"), MessageBody="m")["MessageId"]
    world.boss("ReceiveMessage", QueueUrl=url_of("bank-one"), MaxNumberOfMessages=10)
    hidden, absent = (refused(world.daemon, "MINE", "InvalidParameterValue", "Tally.ReleaseMessage",
                              {"MessageId": name}) for name in (sent, UUID % 1))
    assert hidden.replace(sent, "") == absent.replace(UUID % 1, "")
    assert world.boss("Tally.GetMessage", MessageId=sent)["State"] == "in-flight"
    assert world.boss("Tally.ReleaseMessage", MessageId=sent)["Outcome"] == "dead-lettered"


def test_whether_there_is_a_batch_is_not_told_by_the_id_of_its_message(world):
    """Who knows the name of a batch can compute the MessageId of its message."""
    ids = [world.boss("Tally.DescribeBatch", BatchId=name)["CompletionMessageId"]
           for name in ("mine-over", "bank-over")]
    delete = {"QueueUrl": url_of("mine-one"), "DryRun": True}
    answer = ok(world.daemon, "MINE", "Tally.DeleteMessages", {**delete, "MessageIds": [ids[0]]})
    assert answer["Refusals"] == [{"MessageId": ids[0], "Reason": "not-in-queue"}]
    hidden, absent = (refused(world.daemon, "MINE", "InvalidParameterValue", "Tally.DeleteMessages",
                              {**delete, "MessageIds": [name]}) for name in (ids[1], UUID % 1))
    assert hidden.replace(ids[1], "") == absent.replace(UUID % 1, "")


# --- Publishers ---


def opening(publisher, epoch, owner=9):
    return {"Publisher": UUID % publisher, "Epoch": epoch, "Owner": UUID % owner}


def publish(daemon, key, claim, batch, queue):
    row = {"Id": batch, "Uid": UUID % batch, "QueueUrl": url_of(queue), "MessageBody": "row"}
    return ok(daemon, key, "Tally.Publish", {**claim, "Batch": batch, "ConfirmedBatch": 0, "Rows": [row]})


def test_a_publisher_is_for_those_who_cover_the_queues_that_its_rows_name(world):
    claim = opening(7, 1)
    assert ok(world.daemon, "MINE", "Tally.OpenPublisher", claim)["Accepted"]
    refused(world.daemon, "WIDE", "AccessDenied", "Tally.OpenPublisher", opening(7, 2, 8))
    assert publish(world.daemon, "MINE", claim, 1, "mine-one")["Stored"] == 1
    assert not ok(world.daemon, "WIDE", "Tally.OpenPublisher", opening(7, 1, 8))["Accepted"]
    assert publish(world.daemon, "MINE", claim, 2, "bank-one")["Results"][0]["Status"] == "blocked"
    ok(world.daemon, "MINE", "Tally.OpenPublisher", claim)
    assert publish(world.daemon, "BOSS", claim, 3, "bank-one")["Stored"] == 1
    world.daemon.restart()
    for key in "MINE", "WIDE":
        refused(world.daemon, key, "AccessDenied", "Tally.OpenPublisher", opening(7, 2, 8))
        rows = [{"Id": 9, "Uid": UUID % 6, "QueueUrl": url_of("mine-one"), "MessageBody": "row"}]
        refused(world.daemon, key, "AccessDenied", "Tally.Publish",
                {**claim, "Batch": 4, "ConfirmedBatch": 0, "Rows": rows})


def test_what_acknowledges_counts_as_naming_its_queue(world):
    claim = opening(7, 1)
    ok(world.daemon, "MINE", "Tally.OpenPublisher", claim)
    handle = receive(world.daemon, "bank-one")[0]["ReceiptHandle"]
    row = {"Id": 1, "Uid": UUID % 1, "ReceiptHandle": handle}
    blocked = ok(world.daemon, "MINE", "Tally.Publish",
                 {**claim, "Batch": 1, "ConfirmedBatch": 0, "Rows": [row]})["Results"][0]
    assert blocked["Status"] == "blocked" and "bank" not in blocked["Message"]
    ok(world.daemon, "BOSS", "Tally.Publish", {**claim, "Batch": 2, "ConfirmedBatch": 0, "Rows": [row]})
    refused(world.daemon, "MINE", "AccessDenied", "Tally.OpenPublisher", opening(7, 2, 8))


def test_a_publisher_that_was_opened_by_one_who_covers_all_is_the_namespaces(world):
    ok(world.daemon, "ALL", "Tally.OpenPublisher", opening(7, 1))
    refused(world.daemon, "MINE", "AccessDenied", "Tally.OpenPublisher", opening(7, 2, 8))
    publish(world.daemon, "ALL", opening(7, 1), 1, "mine-one")
    assert ok(world.daemon, "MINE", "Tally.OpenPublisher", opening(7, 2, 8))["Accepted"]


STEP_MAX, FIRST_MAX, EPOCH_MAX = 2**20, 2**62, 2**63 - 1


def test_an_epoch_can_not_fence_an_owner_for_ever(world):
    """A takeover goes one above what the queue knows; so nobody but an administrator can leave it no room."""
    for key in "ALL", "MINE":
        said = refused(world.daemon, key, "InvalidParameterValue", "Tally.OpenPublisher", opening(7, FIRST_MAX + 1))
        assert str(FIRST_MAX) in said and "'admin'" in said
    assert ok(world.daemon, "ALL", "Tally.OpenPublisher", opening(7, 7))["Accepted"]
    for epoch in 7 + STEP_MAX + 1, EPOCH_MAX:
        said = refused(world.daemon, "ALL", "InvalidParameterValue", "Tally.OpenPublisher", opening(7, epoch, 8))
        assert str(STEP_MAX) in said and str(epoch) in said
    assert ok(world.daemon, "ALL", "Tally.OpenPublisher", opening(7, 8))["Accepted"]
    assert ok(world.daemon, "ALL", "Tally.OpenPublisher", opening(7, 8 + STEP_MAX, 8))["Accepted"]
    assert ok(world.daemon, "ALL", "Tally.OpenPublisher", opening(7, 9 + STEP_MAX))["Accepted"]
    assert ok(world.daemon, "BOSS", "Tally.OpenPublisher", opening(7, EPOCH_MAX))["Accepted"]


# --- Requests that wait ---


class Waiting:
    """A request that waits, on a thread of its own."""

    def __init__(self, daemon, key, action, parameters):
        self.daemon = daemon
        self.answer = None
        before = self.count()
        self.thread = threading.Thread(target=lambda: setattr(self, "answer", call(daemon, key, action, parameters)))
        self.thread.start()
        wait_until(lambda: self.count() > before, what="the wait")

    def count(self):
        lines = self.daemon.request("GET", "/metrics")[2].decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if re.match("tally_(receives|feeds)_waiting", line))

    @property
    def is_over(self):
        return self.answer is not None

    def ends(self):
        wait_until(lambda: self.is_over, what="the end of the wait")
        self.thread.join()
        return self.answer


def renew(daemon, credentials, text):
    credentials.write_text(text)
    before = len(daemon.error_text())
    words = f"in force: {sum(1 for line in text.splitlines() if line)}."
    hang_up_until(daemon, lambda: words in daemon.error_text()[before:], words)


def of_error(answer, error):
    return answer[0] >= 400 and answer[1]["__type"].split("#")[1].removesuffix("Exception") == error


POLL = {"QueueUrl": url_of("mine-one"), "WaitTimeSeconds": 20}
CHANGES = {
    "gone": ("MINER ", "OTHER ", "UnrecognizedClient"),
    "another secret": ("miner-secret", "other-secret", "InvalidSignature"),
    "another token": ("queues=mine-*\nMINEW", "queues=mine-* token=t\nMINEW", "UnrecognizedClient"),
    "another right": ("miner-secret   000000000000   read ", "miner-secret   000000000000   write ", "AccessDenied"),
    "fewer queues": ("queues=mine-*\nMINEW", "queues=mine-two\nMINEW", "AccessDenied"),
    "another namespace": ("miner-secret   000000000000", "miner-secret   111111111111", "AccessDenied"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_receive_that_waits_ends_when_its_credential_would_be_refused(guarded, credentials, change):
    old, new, error = CHANGES[change]
    ok(guarded, "BOSS", "CreateQueue", {"QueueName": "mine-one"})
    polls = [Waiting(guarded, "MINER", "ReceiveMessage", POLL) for _ in range(3)]
    kept = Waiting(guarded, "MINE", "ReceiveMessage", POLL)
    assert CREDENTIALS.count(old) == 1
    renew(guarded, credentials, CREDENTIALS.replace(old, new))
    for poll in polls:
        assert of_error(poll.ends(), error), poll.answer
    assert not kept.is_over
    ok(guarded, "BOSS", "SendMessage", {"QueueUrl": url_of("mine-one"), "MessageBody": "later"})
    assert kept.ends()[1]["Messages"][0]["Body"] == "later"


def test_a_feed_that_waits_ends_when_its_credential_would_be_refused(guarded, credentials):
    ok(guarded, "BOSS", "CreateQueue", {"QueueName": "mine-one"})
    ok(guarded, "BOSS", "Tally.CreatePool",
       {"PoolName": "pool", "Matcher": "external", "ResultQueueUrl": url_of("mine-one")})
    feed = {"PoolName": "pool", "From": 1, "WaitTimeSeconds": 20}
    gone, kept = (Waiting(guarded, key, "Tally.FeedTickets", feed) for key in ("MINER", "MINE"))
    renew(guarded, credentials, CREDENTIALS.replace("queues=mine-*\nMINEW", "queues=mine-two\nMINEW"))
    assert of_error(gone.ends(), "PoolDoesNotExist"), gone.answer
    assert not kept.is_over
    ok(guarded, "BOSS", "Tally.OfferTickets", {"PoolName": "pool", "Tickets": [{"TicketId": "t"}]})
    assert kept.ends()[0] == 200


def test_a_feed_of_a_pool_that_sends_elsewhere_now_is_not_told_what_comes(guarded):
    for name in "mine-one", "bank-one":
        ok(guarded, "BOSS", "CreateQueue", {"QueueName": name})
    ok(guarded, "BOSS", "Tally.CreatePool",
       {"PoolName": "pool", "Matcher": "external", "ResultQueueUrl": url_of("mine-one")})
    feed = Waiting(guarded, "MINER", "Tally.FeedTickets", {"PoolName": "pool", "From": 1, "WaitTimeSeconds": 20})
    ok(guarded, "BOSS", "Tally.UpdatePool", {"PoolName": "pool", "ResultQueueUrl": url_of("bank-one")})
    ok(guarded, "BOSS", "Tally.OfferTickets", {"PoolName": "pool", "Tickets": [{"TicketId": "t"}]})
    assert of_error(feed.ends(), "PoolDoesNotExist"), feed.answer


@pytest.mark.parametrize("how", ["SetQueueAttributes", "RemovePermission"])
def test_a_receive_of_another_namespace_ends_when_the_policy_lets_it_in_no_more(guarded, how):
    queue = {"QueueUrl": url_of("mine-one")}
    ok(guarded, "BOSS", "CreateQueue", {"QueueName": "mine-one"})
    ok(guarded, "BOSS", "AddPermission",
       {**queue, "Label": "l", "AWSAccountIds": [OTHER], "Actions": ["ReceiveMessage"]})
    guest, own = (Waiting(guarded, key, "ReceiveMessage", POLL) for key in ("GUEST", "MINER"))
    ok(guarded, "BOSS", "SetQueueAttributes", {**queue, "Attributes": {"DelaySeconds": "0"}})
    ok(guarded, "BOSS", "AddPermission", {**queue, "Label": "m", "AWSAccountIds": [OTHER], "Actions": ["SendMessage"]})
    assert not guest.is_over
    if how == "RemovePermission":
        ok(guarded, "BOSS", how, {**queue, "Label": "l"})
    else:
        ok(guarded, "BOSS", how, {**queue, "Attributes": {"Policy": ""}})
    assert of_error(guest.ends(), "AccessDenied") and "policy" in guest.answer[1]["message"]
    assert not own.is_over
    ok(guarded, "BOSS", "SendMessage", {**queue, "MessageBody": "later"})
    assert own.ends()[1]["Messages"][0]["Body"] == "later"
