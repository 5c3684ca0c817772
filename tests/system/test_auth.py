"""Who asks, and what they may: signatures in both wire forms, rights, patterns, namespaces and policies, and the file
of credentials. Signed by boto3 where it can, and by a signer of our own where something has to be wrong."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as tree

import pytest
from clients import run_node
from conftest import BIN, PATIENCE, ROOT, WRAPPER, Tally, clean_environment, hang_up_until, wait_until
from signing import hashed, signed_headers

MODEL = pathlib.Path(os.environ.get("SQS_MODEL") or ROOT.parent / "shared" / "data" / "sqs-model")
FORMS = ["json", "query"]
OURS, OTHER = "000000000000", "111111111111"

CREDENTIALS = f"""
# access key  secret          namespace  rights
BOSS          boss-secret     {OURS}     read,write,admin
READER        reader-secret   {OURS}     read
WRITER        writer-secret   {OURS}     write
KEEPER        keeper-secret   {OURS}     admin
SHOP          shop-secret     {OURS}     read,write,admin  queues=shop-*,common
TOKEN         token-secret    {OURS}     read,write,admin  token=session/one==
GUEST         guest-secret    {OTHER}    read,write,admin
POOR          poor-secret     {OTHER}    read
"""
SECRETS = dict(line.split()[:2] for line in CREDENTIALS.splitlines() if line and not line.startswith("#"))


# --- Requests ---


def written(form, action, parameters, path="/"):
    """Body and headers of a request. Query: the parameters are fields already."""
    if form == "json":
        target = action if "." in action else f"AmazonSQS.{action}"
        return json.dumps(parameters), {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0"}
    fields = {"Action": action, "Version": "2012-11-05", **parameters}
    return urllib.parse.urlencode(fields), {"Content-Type": "application/x-www-form-urlencoded"}


class Answer:
    """What came back, whatever its form."""

    def __init__(self, form, status, headers, body):
        self.form, self.status, self.headers, self.body = form, status, headers, body.decode()

    @property
    def code(self):
        if self.form == "json":
            return (self.headers["x-amzn-query-error"] or "").split(";")[0]
        return next((item.text for item in tree.fromstring(self.body).iter() if item.tag.endswith("}Code")), None)

    @property
    def type(self):
        return json.loads(self.body)["__type"]

    @property
    def text(self):
        if self.form == "json":
            return json.loads(self.body)["message"]
        return next(item.text for item in tree.fromstring(self.body).iter() if item.tag.endswith("}Message"))


def ask(daemon, form, action, parameters=None, key="BOSS", secret=None, headers=None, host=None, **how):
    """A request that we sign ourselves; `how` goes to the signer, `headers` are added unsigned."""
    body, own = written(form, action, parameters or {})
    own["Host"] = host or f"127.0.0.1:{daemon.port}"
    own = signed_headers("/", body, own, key, secret or SECRETS.get(key, "none"), **how)
    return Answer(form, *daemon.request("POST", "/", body, {**own, **(headers or {})}))


def unsigned(daemon, form, action, parameters=None, headers=None):
    body, own = written(form, action, parameters or {})
    return Answer(form, *daemon.request("POST", "/", body, {**own, **(headers or {})}))


def call(daemon, key, action, parameters=None):
    """An action in JSON, signed by `key`: (status, JSON)."""
    answer = ask(daemon, "json", action, parameters, key)
    return answer.status, json.loads(answer.body) if answer.body else {}


def ok(daemon, key, action, parameters=None):
    status, answer = call(daemon, key, action, parameters)
    assert status == 200, f"{key} {action}: {answer}"
    return answer


def denied(daemon, key, action, parameters=None):
    """The text of the refusal that must come."""
    status, answer = call(daemon, key, action, parameters)
    assert status == 403 and answer["__type"].endswith("#AccessDeniedException"), f"{key} {action}: {status} {answer}"
    return answer["message"]


# --- Who is it ---


@pytest.mark.parametrize("form", FORMS)
def test_q15_each_kind_of_wrong_signature_has_its_error(guarded, form):
    def check(answer, name, code, status, words=""):
        assert (answer.status, answer.code) == (status, code), answer.body
        assert words in answer.text
        if form == "json":
            assert answer.type == f"com.amazon.coral.service#{name}"

    check(unsigned(guarded, form, "ListQueues"), "AccessDeniedException", "AccessDenied", 403, "not signed")
    unknown = ("UnrecognizedClientException", "InvalidClientTokenId", 403)
    check(ask(guarded, form, "ListQueues", key="NOBODY"), *unknown)
    wrong = ("InvalidSignatureException", "SignatureDoesNotMatch", 403)
    check(ask(guarded, form, "ListQueues", secret="other"), *wrong)
    check(ask(guarded, form, "ListQueues", at=time.time() - 16 * 60), *wrong, "Signature expired")
    check(ask(guarded, form, "ListQueues", at=time.time() + 16 * 60), *wrong, "not yet current")
    check(ask(guarded, form, "ListQueues", service="sns"), *wrong, "'sqs'")
    malformed = ("IncompleteSignatureException", "IncompleteSignature", 400)
    check(unsigned(guarded, form, "ListQueues", headers={"Authorization": "Basic eDp5"}), *malformed)
    short = {"Authorization": "AWS4-HMAC-SHA256 Credential=BOSS/20261120/x/sqs/aws4_request"}
    check(unsigned(guarded, form, "ListQueues", headers=short), *malformed, "'Signature'")
    assert ask(guarded, form, "ListQueues").status == 200
    assert ask(guarded, form, "ListQueues", at=time.time() - 14 * 60).status == 200


@pytest.mark.parametrize("form", FORMS)
def test_q15_without_credentials_every_signature_passes(daemon, form):
    assert unsigned(daemon, form, "ListQueues").status == 200
    assert unsigned(daemon, form, "ListQueues", headers={"Authorization": "garbage"}).status == 200
    assert ask(daemon, form, "ListQueues", key="NOBODY", at=0).status == 200


def test_the_signature_is_checked_before_the_action_and_the_form(guarded):
    assert unsigned(guarded, "json", "NoSuchAction").code == "AccessDenied"
    assert ask(guarded, "json", "NoSuchAction").code == "InvalidAction"
    status, _, body = guarded.request("POST", "/", "{", {"X-Amz-Target": "AmazonSQS.ListQueues"})
    assert status == 403 and b"AccessDenied" in body


def test_health_and_metrics_are_for_everybody(guarded):
    assert guarded.request("GET", "/health")[0] == 200
    assert guarded.request("GET", "/metrics")[0] == 200
    assert guarded.request("GET", "/")[0] == 403


def test_with_credentials_the_name_is_what_was_signed(guarded):
    """Whoever can sign is no page. What needs no signature answers everybody, as load balancers and Prometheus ask for
    it."""
    assert ask(guarded, "json", "ListQueues", host="evil.example").status == 200
    assert ask(guarded, "json", "ListQueues",
               headers={"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}).status == 200
    for path in "/health", "/metrics":
        assert guarded.request("GET", path, None, {"Host": "tally:9324"})[0] == 200
    assert guarded.request("GET", "/health", None, {"Host": b"\xff"})[0] == 400


def test_a_proxy_that_rewrites_host_breaks_the_signature(guarded):
    assert ask(guarded, "json", "ListQueues", host="queues.example").status == 200
    rewritten = ask(guarded, "json", "ListQueues", host="queues.example", headers={"Host": "backend:9324"})
    assert rewritten.code == "SignatureDoesNotMatch" and "Host" in rewritten.text


def test_a_body_that_was_changed_is_refused(guarded):
    body, own = written("json", "CreateQueue", {"QueueName": "mine"})
    own["Host"] = f"127.0.0.1:{guarded.port}"
    own = signed_headers("/", body, own, "BOSS", SECRETS["BOSS"])
    assert guarded.request("POST", "/", body.replace("mine", "mime"), own)[0] == 403
    assert guarded.request("POST", "/", body, {**own, "X-Amz-Target": "AmazonSQS.DeleteQueue"})[0] == 403
    assert guarded.request("POST", "/", body, own)[0] == 200


def test_unsigned_payload_leaves_the_body_out(guarded):
    body, own = written("json", "ListQueues", {})
    own |= {"Host": f"127.0.0.1:{guarded.port}", "X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD"}
    own = signed_headers("/", body, own, "BOSS", SECRETS["BOSS"], payload="UNSIGNED-PAYLOAD")
    assert guarded.request("POST", "/", '{"QueueNamePrefix":"x"}', own)[0] == 200
    wrong = {**own, "X-Amz-Content-Sha256": hashed("other")}
    assert b"x-amz-content-sha256" in guarded.request("POST", "/", body, wrong)[2]


def test_a_token_must_be_the_credentials_own(guarded):
    assert ask(guarded, "json", "ListQueues", key="TOKEN").code == "InvalidClientTokenId"
    for token, status in ("session/one==", 200), ("session/two==", 403):
        assert ask(guarded, "json", "ListQueues", key="TOKEN", headers={"X-Amz-Security-Token": token}).status == status
    assert ask(guarded, "json", "ListQueues", headers={"X-Amz-Security-Token": "passed over"}).status == 200


# --- boto3 ---


def client(daemon, form, tmp_path, monkeypatch, key="BOSS", secret=None):
    boto3 = pytest.importorskip("boto3")
    from botocore.session import Session

    monkeypatch.delenv("AWS_DATA_PATH", raising=False)
    if form == "json" and (MODEL / "2012-11-05" / "service-2.json").exists():
        models = tmp_path / "models"
        models.mkdir(exist_ok=True)
        if not (models / "sqs").exists():
            (models / "sqs").symlink_to(MODEL)
        monkeypatch.setenv("AWS_DATA_PATH", str(models))
    for name in ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"]:
        monkeypatch.setenv(name, str(tmp_path / "none"))
    session = boto3.Session(
        botocore_session=Session(),
        aws_access_key_id=key,
        aws_secret_access_key=secret or SECRETS[key],
        region_name="eu-west-3",
    )
    made = session.client("sqs", endpoint_url=daemon.endpoint)
    if made.meta.service_model.metadata["protocol"] != form:
        pytest.skip(f"there is no boto3 here that speaks {form}")
    return made


@pytest.mark.parametrize("form", FORMS)
def test_boto3_signs_what_is_accepted(guarded, form, tmp_path, monkeypatch):
    sqs = client(guarded, form, tmp_path, monkeypatch)
    url = sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "5"})["QueueUrl"]
    body = 'Grüße & "more" + % <'
    sqs.send_message(QueueUrl=url, MessageBody=body)
    (message,) = sqs.receive_message(QueueUrl=url, AttributeNames=["SenderId"], WaitTimeSeconds=5)["Messages"]
    assert message["Body"] == body and message["Attributes"] == {"SenderId": "BOSS"}
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert sqs.list_queues()["QueueUrls"] == [url]


@pytest.mark.parametrize("form", FORMS)
def test_boto3_is_told_what_is_wrong(guarded, form, tmp_path, monkeypatch):
    pytest.importorskip("boto3")
    from botocore.exceptions import ClientError

    for key, secret, code in [
        ("BOSS", "other", "SignatureDoesNotMatch"),
        ("NOBODY", "other", "InvalidClientTokenId"),
        ("WRITER", None, "AccessDenied"),
    ]:
        sqs = client(guarded, form, tmp_path, monkeypatch, key, secret)
        with pytest.raises(ClientError) as caught:
            sqs.create_queue(QueueName="q")
        assert caught.value.response["Error"]["Code"].startswith((code, "com.")), caught.value
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=10 * PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_presigned_urls_of_boto3(guarded, tmp_path, monkeypatch):
    sqs = client(guarded, "query", tmp_path, monkeypatch)
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    parameters = {"QueueUrl": url, "MessageBody": "by a link: a/b c+d%"}
    link = sqs.generate_presigned_url("send_message", Params=parameters, ExpiresIn=60, HttpMethod="GET")
    assert get(link)[0] == 200
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    assert message["Body"] == parameters["MessageBody"]
    for old, new in [("link", "wink"), ("SendMessage", "PurgeQueue"), ("Expires=60", "Expires=61"), ("BOSS", "SHOP")]:
        assert old in link
        status, body = get(link.replace(old, new))
        assert status == 403 and "SignatureDoesNotMatch" in body, body
    assert "IncompleteSignature" in get(link.replace("Expires=60", "Expires=604801"))[1]
    request = urllib.request.Request(link, headers={"X-Amz-Target": "AmazonSQS.ListQueues"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=10 * PATIENCE)
    assert caught.value.code == 400 and b"X-Amz-Target" in caught.value.read()
    brief = sqs.generate_presigned_url("list_queues", ExpiresIn=1, HttpMethod="GET")
    assert wait_until(lambda: "Signature expired" in get(brief)[1], what="the link's end")


# --- Others who sign ---


@pytest.mark.parametrize("scenario", ["queues", "messages", "batches_of_sqs", "dead_letters_and_purge"])
def test_the_sdk_for_javascript_signs_what_is_accepted(daemon_factory, credentials, scenario):
    credentials.write_text(f"any thing {OURS} read,write,admin\n")  # whom sdk_life.mjs says it is
    running = daemon_factory("--credentials", str(credentials)).start()
    run_node("sdk_life.mjs", "@aws-sdk/client-sqs", running.endpoint, scenario)
    assert running.stop() == 0


def test_libtally_signs_what_is_accepted(guarded):
    tool = Tally(guarded.endpoint)
    said = tool("queue", "list", status=None).err
    assert "not signed" in said
    tool.environment |= {"AWS_ACCESS_KEY_ID": "BOSS", "AWS_SECRET_ACCESS_KEY": "other", "AWS_REGION": "eu-west-1"}
    assert "InvalidSignature" in tool("queue", "list", status=None).err
    tool.environment["AWS_SECRET_ACCESS_KEY"] = SECRETS["BOSS"]
    tool("queue", "create", "q")
    tool("send", "q", "hällo   world")
    assert tool("receive", "q", "--delete").out.startswith("hällo   world")
    tool.environment |= {"AWS_ACCESS_KEY_ID": "TOKEN", "AWS_SECRET_ACCESS_KEY": SECRETS["TOKEN"]}
    tool.environment["AWS_SESSION_TOKEN"] = "session/one=="
    assert tool("queue", "list").out == "q\n"


def test_curl_signs_what_is_accepted(guarded):
    curl = shutil.which("curl")
    known = b"" if curl is None else subprocess.run([curl, "--help", "all"], capture_output=True, check=True).stdout
    if b"--aws-sigv4" not in known:
        pytest.skip("there is no curl that signs")
    link = f"{guarded.endpoint}/?Action=CreateQueue&QueueName=q"
    signing = ["--aws-sigv4", "aws:amz:eu-west-1:sqs", "--user", f"BOSS:{SECRETS['BOSS']}"]
    done = subprocess.run([curl, "-s", *signing, link], capture_output=True, check=True, env=clean_environment())
    assert b"<QueueUrl>" in done.stdout


# --- May they ---


def url_of(name, namespace=OURS):
    return f"http://127.0.0.1/{namespace}/{name}"


def arn(name):
    return f"arn:aws:sqs:us-east-1:{OURS}:{name}"


Q = {"QueueUrl": url_of("q")}
ENTRY = [{"Id": "1", "MessageBody": "m", "ReceiptHandle": "x", "VisibilityTimeout": 1}]

# The right that each action needs, and parameters that get past its first checks. None: any of the three.
NEEDED = {
    "SendMessage": ("write", {**Q, "MessageBody": "m"}),
    "SendMessageBatch": ("write", {**Q, "Entries": ENTRY}),
    "ReceiveMessage": ("read", Q),
    "DeleteMessage": ("read", {**Q, "ReceiptHandle": "x"}),
    "DeleteMessageBatch": ("read", {**Q, "Entries": ENTRY}),
    "ChangeMessageVisibility": ("read", {**Q, "ReceiptHandle": "x", "VisibilityTimeout": 1}),
    "ChangeMessageVisibilityBatch": ("read", {**Q, "Entries": ENTRY}),
    "Tally.FailMessage": ("read", {**Q, "ReceiptHandle": "x"}),
    "CreateQueue": ("admin", {"QueueName": "new"}),
    "DeleteQueue": ("admin", {"QueueUrl": url_of("none")}),
    "PurgeQueue": ("admin", Q),
    "SetQueueAttributes": ("admin", {**Q, "Attributes": {"DelaySeconds": "0"}}),
    "TagQueue": ("admin", {**Q, "Tags": {"a": "b"}}),
    "UntagQueue": ("admin", {**Q, "TagKeys": ["a"]}),
    "AddPermission": ("admin", {**Q, "Label": "l", "AWSAccountIds": [OTHER], "Actions": ["SendMessage"]}),
    "RemovePermission": ("admin", {**Q, "Label": "l"}),
    "StartMessageMoveTask": ("admin", {"SourceArn": arn("q")}),
    "CancelMessageMoveTask": ("admin", {"TaskHandle": "x"}),
    "Tally.DeleteMessages": ("admin", {**Q, "Reason": "x"}),
    "Tally.ReleaseMessage": ("admin", {**Q, "MessageId": "x"}),
    "Tally.ReplaceMessage": ("admin", {**Q, "MessageId": "x", "MessageBody": "m"}),
    "Tally.PauseQueue": ("admin", Q),
    "Tally.ResumeQueue": ("admin", Q),
    "Tally.PauseGroup": ("admin", {**Q, "MessageGroupId": "g"}),
    "Tally.ResumeGroup": ("admin", {**Q, "MessageGroupId": "g"}),
    "Tally.ReleaseGroup": ("admin", {**Q, "MessageGroupId": "g", "Action": "skip"}),
    "Tally.PutSchedule": ("admin", {**Q, "Name": "s", "Cron": "* * * * *", "MessageBody": "m"}),
    "Tally.PauseSchedule": ("admin", {"Name": "s"}),
    "Tally.ResumeSchedule": ("admin", {"Name": "s"}),
    "Tally.FireSchedule": ("admin", {"Name": "s"}),
    "Tally.DeleteSchedule": ("admin", {"Name": "s"}),
    "Tally.CreateRelay": ("admin", {"RelayName": "r"}),
    "Tally.PauseRelay": ("admin", {"RelayName": "r"}),
    "Tally.ResumeRelay": ("admin", {"RelayName": "r"}),
    "Tally.DeleteRelay": ("admin", {"RelayName": "r"}),
    "Tally.ResolveDoubt": ("admin", {"RelayName": "r"}),
    "Tally.PutTypeOrder": ("admin", {"Name": "o", "Types": ["a", "b"]}),
    "Tally.DeleteTypeOrder": ("admin", {"Name": "o"}),
    "Tally.CreatePool": ("admin", {"PoolName": "p"}),
    "Tally.UpdatePool": ("admin", {"PoolName": "p"}),
    "Tally.DeletePool": ("admin", {"PoolName": "p"}),
    "Tally.OfferTickets": ("write", {"PoolName": "p"}),
    "Tally.UpdateTicket": ("write", {"PoolName": "p"}),
    "Tally.CancelTickets": ("write", {"PoolName": "p"}),
    "Tally.ProposeMatches": ("write", {"PoolName": "p"}),
    "Tally.PutBackMatch": ("write", {"PoolName": "p"}),
    "Tally.ConfirmMatch": ("write", {"PoolName": "p"}),
    "Tally.FeedTickets": ("read", {"PoolName": "p"}),
    "Tally.ListTickets": ("read", {"PoolName": "p"}),
    "Tally.GetTicket": ("read", {"PoolName": "p"}),
    "Tally.CountTickets": ("read", {"PoolName": "p"}),
    "Tally.ExplainTicket": ("read", {"PoolName": "p"}),
    "Tally.CreateBatch": ("write", {"BatchId": "b"}),
    "Tally.AddUnits": ("write", {"BatchId": "b", "Units": ["u"]}),
    "Tally.CompleteUnits": ("write", {"BatchId": "b", "Units": [{"Unit": "u"}]}),
    "Tally.XorUnits": ("write", {"BatchId": "b", "Value": "0"}),
    "Tally.SealBatch": ("write", {"BatchId": "b"}),
    "Tally.CancelBatch": ("write", {"BatchId": "b"}),
    "Tally.DeleteBatch": ("write", {"BatchId": "b"}),
    "Tally.Commit": (None, {"Sends": []}),
    "Tally.OpenPublisher": ("write", {}),
    "Tally.Publish": ("write", {}),
    "GetQueueUrl": (None, {"QueueName": "q"}),
    "GetQueueAttributes": (None, Q),
    "ListQueues": (None, {}),
    "ListQueueTags": (None, Q),
    "ListDeadLetterSourceQueues": (None, Q),
    "ListMessageMoveTasks": (None, {"SourceArn": arn("q")}),
    "Tally.DescribeBatch": (None, {"BatchId": "b"}),
    "Tally.ListBatches": (None, {}),
    "Tally.ListUnits": (None, {"BatchId": "b"}),
    "Tally.ListTypeOrders": (None, {}),
    "Tally.DescribeSchedule": (None, {"Name": "s"}),
    "Tally.ListSchedules": (None, {}),
    "Tally.DescribeRelay": (None, {"RelayName": "r"}),
    "Tally.ListRelays": (None, {}),
    "Tally.ListDoubts": (None, {"RelayName": "r"}),
    "Tally.DescribePool": (None, {"PoolName": "p"}),
    "Tally.ListPools": (None, {}),
    "Tally.ListGroups": (None, Q),
    "Tally.ExplainMessage": (None, {**Q, "MessageId": "x"}),
    "Tally.ListMessages": ("read", Q),
    "Tally.GetSeries": (None, {**Q, "Period": 5}),
    "Tally.ListInFlight": (None, {}),
    "Tally.ListDependents": (None, {"MessageId": "x"}),
    "Tally.ListQueueStats": (None, {}),
    "Tally.GetMessage": ("read", {"MessageId": "x"}),
    "Tally.FindMessage": ("read", {"MessageId": "x"}),
    "Tally.SummarizeFailures": ("read", Q),
    "Tally.FeedEvents": (None, {}),
    "Tally.DescribeServer": (None, {}),
    "Tally.StartBackup": ("admin", {}),
    "Tally.DescribeBackup": ("admin", {}),
    "Tally.DeleteBackup": ("admin", {"BackupId": "b"}),
}


def test_each_action_needs_its_right(guarded):
    ok(guarded, "BOSS", "CreateQueue", {"QueueName": "q"})
    metrics = guarded.request("GET", "/metrics")[2].decode()
    there = {line.split('action="')[1].split('"')[0] for line in metrics.splitlines() if 'result="ok"' in line}
    needed = {name if "." in name else f"AmazonSQS.{name}": row for name, row in NEEDED.items()}
    assert not there - set(needed), "actions that this table forgets"
    for name in sorted(there):
        right, parameters = needed[name]
        for key, its in ("READER", "read"), ("WRITER", "write"), ("KEEPER", "admin"):
            status, answer = call(guarded, key, name, parameters)
            is_denied = status == 403 and answer.get("__type", "").endswith("#AccessDeniedException")
            assert is_denied == (right not in (None, its)), f"{key} {name}: {status} {answer}"
            assert not is_denied or f"'{right}'" in answer["message"]


def test_the_parts_of_a_commit_need_their_own_rights(guarded):
    ok(guarded, "BOSS", "CreateQueue", {"QueueName": "q"})
    sends = {"Sends": [{**Q, "MessageBody": "m"}]}
    units = {"Units": [{"BatchId": "b", "Unit": "u"}]}
    deletes = {"Deletes": [{**Q, "ReceiptHandle": "x"}]}
    for parts, right, without in (sends, "write", "READER"), (units, "write", "KEEPER"), (deletes, "read", "WRITER"):
        assert f"'{right}'" in denied(guarded, without, "Tally.Commit", parts)
    assert "'read'" in denied(guarded, "WRITER", "Tally.Commit", {**sends, **deletes})
    ok(guarded, "WRITER", "Tally.Commit", sends)
    status, answer = call(guarded, "READER", "Tally.Commit", deletes)
    assert (status, answer["__type"]) == (400, "com.tally#ReceiptHandleIsInvalid")


def test_rows_that_the_caller_may_not_publish_are_blocked(guarded):
    """One by one: a queue that the credential does not cover, one that is missing, a message that it may not delete."""
    for name in "shop-1", "bank":
        ok(guarded, "BOSS", "CreateQueue", {"QueueName": name})
        ok(guarded, "BOSS", "SendMessage", {"QueueUrl": url_of(name), "MessageBody": "m"})
    uuid = "00000000-0000-4000-8000-00000000000%d"
    handles = [ok(guarded, "BOSS", "ReceiveMessage", {"QueueUrl": url_of(name)})["Messages"][0]["ReceiptHandle"]
               for name in ("shop-1", "bank")]
    for i, (key, blocked) in enumerate([("SHOP", [2, 3, 5]), ("WRITER", [3, 4, 5])]):
        claim = {"Publisher": uuid % i, "Epoch": 1, "Owner": uuid % 9}
        rows = [
            {"QueueUrl": url_of("shop-1"), "MessageBody": "m"},
            {"QueueUrl": "bank", "MessageBody": "m"},
            {"QueueUrl": "common", "MessageBody": "m"},
            *[{"ReceiptHandle": handle} for handle in handles],
        ]
        rows = [{"Id": k + 1, "Uid": uuid % k, **row} for k, row in enumerate(rows)]
        assert ok(guarded, key, "Tally.OpenPublisher", claim)["Accepted"]
        results = ok(guarded, key, "Tally.Publish", {**claim, "Batch": 1, "ConfirmedBatch": 0, "Rows": rows})["Results"]
        assert [(result["Id"], result["Status"]) for result in results] == [(k, "blocked") for k in blocked], results
        codes = {result["Code"] for result in results}
        assert codes == {"AccessDenied", "AWS.SimpleQueueService.NonExistentQueue"}
    assert OURS in denied(guarded, "GUEST", "Tally.Publish", {
        **claim, "Batch": 2, "ConfirmedBatch": 0, "Rows": [{"QueueUrl": url_of("bank")}], "QueueUrl": url_of("bank")})


def test_patterns_bound_the_queues_wherever_one_is_named(guarded):
    for name in "shop-1", "shop-2", "common", "bank":
        ok(guarded, "BOSS", "CreateQueue", {"QueueName": name})
    schedule = {"Name": "rent", "Cron": "* * * * *", "MessageBody": "m"}
    ok(guarded, "BOSS", "Tally.PutSchedule", {**schedule, "QueueUrl": url_of("bank")})
    ok(guarded, "BOSS", "Tally.CreatePool", {"PoolName": "loans", "ResultQueueUrl": url_of("bank")})
    ok(guarded, "BOSS", "Tally.CreatePool",
       {"PoolName": "late", "ResultQueueUrl": url_of("shop-1"), "OnExpiryQueueUrl": url_of("bank")})
    ok(guarded, "SHOP", "Tally.CreatePool", {"PoolName": "mine", "ResultQueueUrl": url_of("shop-1")})
    names = [url.split("/")[-1] for url in ok(guarded, "SHOP", "ListQueues")["QueueUrls"]]
    assert names == ["common", "shop-1", "shop-2"]
    pages, token = [], {}
    while True:
        page = ok(guarded, "SHOP", "ListQueues", {"MaxResults": 2, **token})
        pages += page["QueueUrls"]
        if "NextToken" not in page:
            break
        token = {"NextToken": page["NextToken"]}
    assert len(pages) == 3
    message = {"MessageBody": "m"}
    ok(guarded, "SHOP", "SendMessage", {**message, "QueueUrl": url_of("shop-1")})
    ok(guarded, "SHOP", "SendMessage", {**message, "QueueUrl": "common"})
    bank = {"QueueUrl": url_of("bank")}
    to_bank = json.dumps({"deadLetterTargetArn": arn("bank"), "maxReceiveCount": 1})
    task_handle = base64.b64encode(json.dumps({"taskId": "x", "sourceArn": arn("bank")}).encode()).decode()
    for name in "shop-2", "bank":
        redrive = json.dumps({"deadLetterTargetArn": arn("shop-1"), "maxReceiveCount": 1})
        ok(guarded, "BOSS", "SetQueueAttributes", {"QueueUrl": url_of(name), "Attributes": {"RedrivePolicy": redrive}})
    sources = ok(guarded, "SHOP", "ListDeadLetterSourceQueues", {"QueueUrl": url_of("shop-1")})["queueUrls"]
    assert [url.split("/")[-1] for url in sources] == ["shop-2"]
    after = {"Tally.After": {"DataType": "String", "StringValue": "dedup:bank/one"}}
    for action, parameters in [
        ("SendMessage", {**message, "QueueUrl": "common", "MessageAttributes": after}),
        ("SendMessage", {**message, **bank}),
        ("SendMessage", {**message, "QueueUrl": "bank"}),
        ("SendMessage", {**message, "QueueUrl": "http://h/queue/bank"}),
        ("SendMessage", {**message, "QueueUrl": url_of("not-there")}),
        ("ReceiveMessage", bank),
        ("GetQueueUrl", {"QueueName": "bank"}),
        ("GetQueueAttributes", bank),
        ("CreateQueue", {"QueueName": "bank"}),
        ("CreateQueue", {"QueueName": "another"}),
        ("DeleteQueue", bank),
        ("Tally.ListGroups", bank),
        ("Tally.Commit", {"Sends": [{**message, **bank}]}),
        ("Tally.Commit", {"Deletes": [{"ReceiptHandle": "x", **bank}]}),
        ("Tally.CreateBatch", {"BatchId": "b", "OnComplete": {**message, **bank}}),
        ("Tally.PutSchedule", {**schedule, **bank}),
        ("Tally.PutSchedule", {**schedule, "QueueUrl": url_of("shop-1")}),
        ("SetQueueAttributes", {"QueueUrl": url_of("shop-1"), "Attributes": {"RedrivePolicy": to_bank}}),
        ("CreateQueue", {"QueueName": "shop-4", "Attributes": {"RedrivePolicy": to_bank}}),
        ("ListMessageMoveTasks", {"SourceArn": arn("bank")}),
        ("StartMessageMoveTask", {"SourceArn": arn("shop-1"), "DestinationArn": arn("bank")}),
        ("CancelMessageMoveTask", {"TaskHandle": task_handle}),
        ("Tally.CreatePool", {"PoolName": "new", "ResultQueueUrl": url_of("bank")}),
        ("Tally.CreatePool",
         {"PoolName": "new", "ResultQueueUrl": url_of("shop-1"), "OnExpiryQueueUrl": url_of("bank")}),
        ("Tally.UpdatePool", {"PoolName": "mine", "ResultQueueUrl": url_of("bank")}),
    ]:
        assert "does not cover" in denied(guarded, "SHOP", action, parameters)
    taken = call(guarded, "SHOP", "Tally.CreatePool", {"PoolName": "loans", "ResultQueueUrl": url_of("shop-1")})[1]
    assert taken["__type"] == "com.tally#PoolAlreadyExists"
    absent_schedules = [(f"Tally.{action}", {"Name": "rent"})
                        for action in ("DescribeSchedule", "PauseSchedule", "ResumeSchedule", "FireSchedule",
                                       "DeleteSchedule")]
    absent_pools = [
        (f"Tally.{action}", {"PoolName": pool, "ResultQueueUrl": url_of("shop-1")})
        for pool in ("loans", "late")
        for action in ("DescribePool", "UpdatePool", "DeletePool", "OfferTickets", "CancelTickets", "GetTicket",
                       "ListTickets", "CountTickets",
                       "FeedTickets", "ProposeMatches", "PutBackMatch", "ConfirmMatch", "UpdateTicket", "ExplainTicket")
    ]
    for action, parameters in absent_schedules + absent_pools:
        status, answer = call(guarded, "SHOP", action, parameters)
        assert status == 400 and answer["__type"].endswith("DoesNotExist"), f"{action}: {answer}"
        assert "within the queues of this credential" in answer["message"], answer
    assert ok(guarded, "SHOP", "Tally.ListSchedules") == {"Schedules": []}
    assert len(ok(guarded, "BOSS", "Tally.ListSchedules")["Schedules"]) == 1
    assert [pool["PoolName"] for pool in ok(guarded, "SHOP", "Tally.ListPools")["Pools"]] == ["mine"]
    assert len(ok(guarded, "BOSS", "Tally.ListPools")["Pools"]) == 3
    assert ok(guarded, "SHOP", "Tally.OfferTickets",
              {"PoolName": "mine", "Tickets": [{"TicketId": "t"}]})["Results"][0]["Status"] == "waiting"
    ok(guarded, "SHOP", "CreateQueue", {"QueueName": "shop-3"})
    missing = call(guarded, "SHOP", "SendMessage", {**message, "QueueUrl": url_of("shop-9")})[1]
    assert missing["__type"].endswith("#QueueDoesNotExist")


def policy(*actions, account=OTHER, effect="Allow", name="open"):
    return {
        "Effect": effect,
        "Principal": {"AWS": account},
        "Action": [f"SQS:{action}" for action in actions],
        "Resource": arn(name),
    }


def test_another_namespace_needs_the_queues_policy(guarded):
    for name in "open", "closed":
        ok(guarded, "BOSS", "CreateQueue", {"QueueName": name})
    opened = {"QueueUrl": url_of("open")}
    text = json.dumps({"Version": "2012-10-17", "Statement": [policy("SendMessage", "GetQueueUrl")]})
    assert "policy" in denied(guarded, "GUEST", "SendMessage", {**opened, "MessageBody": "m"})
    ok(guarded, "BOSS", "SetQueueAttributes", {**opened, "Attributes": {"Policy": text}})
    ok(guarded, "GUEST", "SendMessage", {**opened, "MessageBody": "m"})
    ok(guarded, "GUEST", "SendMessageBatch", {**opened, "Entries": [{"Id": "1", "MessageBody": "m"}]})
    ok(guarded, "GUEST", "GetQueueUrl", {"QueueName": "open", "QueueOwnerAWSAccountId": OURS})
    for queue in "closed", "not-there":
        text = denied(guarded, "GUEST", "SendMessage", {"QueueUrl": url_of(queue), "MessageBody": "m"})
        assert OTHER in text and queue in text
    assert "policy" in denied(guarded, "GUEST", "ReceiveMessage", opened)
    assert "policy" in denied(guarded, "GUEST", "PurgeQueue", opened)
    assert "'write'" in denied(guarded, "POOR", "SendMessage", {**opened, "MessageBody": "m"})
    messages = ok(guarded, "BOSS", "ReceiveMessage", {**opened, "AttributeNames": ["SenderId"]})["Messages"]
    assert messages[0]["Attributes"]["SenderId"] == "GUEST"


def test_a_shared_queue_lets_nobody_reach_beyond_it(guarded):
    """Batches, dependencies and type orders are the whole namespace's: a policy of one queue opens none of them."""
    ok(guarded, "BOSS", "CreateQueue", {"QueueName": "open"})
    opened = {"QueueUrl": url_of("open")}
    text = json.dumps({"Version": "2012-10-17", "Statement": [policy("SendMessage")]})
    ok(guarded, "BOSS", "SetQueueAttributes", {**opened, "Attributes": {"Policy": text}})
    ok(guarded, "BOSS", "Tally.CreateBatch", {"BatchId": "b"})
    for name, value in ("Tally.Batch", "b"), ("Tally.After", "dedup:open/x"), ("Tally.Type", "t"):
        message = {"MessageBody": "m", "MessageAttributes": {name: {"DataType": "String", "StringValue": value}}}
        assert name in denied(guarded, "GUEST", "SendMessage", {**opened, **message})
        failed = ok(guarded, "GUEST", "SendMessageBatch", {**opened, "Entries": [{"Id": "1", **message}]})["Failed"]
        assert [entry["Code"] for entry in failed] == ["AccessDenied"]
    assert ok(guarded, "BOSS", "Tally.DescribeBatch", {"BatchId": "b"})["Total"] == 0
    priority = {"Tally.Priority": {"DataType": "Number", "StringValue": "1"}}
    ok(guarded, "GUEST", "SendMessage", {**opened, "MessageBody": "m", "MessageAttributes": priority})


def test_some_actions_are_never_shared(guarded):
    ok(guarded, "BOSS", "CreateQueue", {"QueueName": "open"})
    opened = {"QueueUrl": url_of("open")}
    everything = {**policy(), "Action": "SQS:*", "Principal": "*"}
    text = json.dumps({"Version": "2012-10-17", "Statement": everything})
    ok(guarded, "BOSS", "SetQueueAttributes", {**opened, "Attributes": {"Policy": text}})
    ok(guarded, "GUEST", "ReceiveMessage", opened)
    for action, parameters in [
        ("DeleteQueue", opened),
        ("SetQueueAttributes", {**opened, "Attributes": {"Policy": ""}}),
        ("ListQueueTags", opened),
        ("AddPermission", {**opened, "Label": "l", "AWSAccountIds": [OTHER], "Actions": ["SendMessage"]}),
        ("Tally.PauseQueue", opened),
    ]:
        assert OURS in denied(guarded, "GUEST", action, parameters)
    # A Commit is one namespace's, the caller's own, where there is no such queue.
    commit = call(guarded, "GUEST", "Tally.Commit", {"Sends": [{**opened, "MessageBody": "m"}]})[1]
    assert commit["__type"].endswith("#QueueDoesNotExist")
    assert unsigned(guarded, "json", "ReceiveMessage", opened).code == "AccessDenied"


# --- The file ---


def hang_up(daemon, words):
    """Sends SIGHUP and waits for what is said of it."""
    before = len(daemon.error_text())
    hang_up_until(daemon, lambda: words in daemon.error_text()[before:], words)


def test_sighup_reads_the_file_again(guarded, credentials):
    assert ask(guarded, "json", "ListQueues", key="NEW", secret="new-secret").code == "InvalidClientTokenId"
    text = CREDENTIALS.replace("boss-secret", "boss-changed")
    credentials.write_text(f"{text}\nNEW new-secret {OURS} read\n".replace("READER", "READER2"))
    assert ask(guarded, "json", "ListQueues").status == 200
    hang_up(guarded, "in force: 9.")
    assert ask(guarded, "json", "ListQueues", key="NEW", secret="new-secret").status == 200
    assert ask(guarded, "json", "ListQueues").code == "SignatureDoesNotMatch"
    assert ask(guarded, "json", "ListQueues", secret="boss-changed").status == 200
    assert ask(guarded, "json", "ListQueues", key="READER").code == "InvalidClientTokenId"


def test_a_file_that_is_wrong_leaves_the_old_credentials_in_force(guarded, credentials):
    for text, words in ("BOSS hidden 12 read", "line 1"), ("", "no credential"):
        credentials.write_text(text)
        hang_up(guarded, words)
        assert ask(guarded, "json", "ListQueues").status == 200
    credentials.unlink()
    hang_up(guarded, "No such file")
    assert ask(guarded, "json", "ListQueues").status == 200
    assert "hidden" not in guarded.error_text()


def test_receives_that_wait_outlive_a_new_file_with_their_credential(guarded, credentials):
    ok(guarded, "BOSS", "CreateQueue", {"QueueName": "q"})
    body, own = written("json", "ReceiveMessage", {**Q, "WaitTimeSeconds": 20})
    own = signed_headers("/", body, {**own, "Host": f"127.0.0.1:{guarded.port}"}, "READER", SECRETS["READER"])
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(guarded.request("POST", "/", body, own)))
    waiting.start()
    wait_until(lambda: b'tally_receives_waiting{namespace="000000000000"} 1' in guarded.request("GET", "/metrics")[2],
               what="the receive")
    credentials.write_text(f"BOSS boss-secret {OURS} read,write,admin\nREADER reader-secret {OURS} read\n")
    hang_up(guarded, "in force: 2.")
    ok(guarded, "BOSS", "SendMessage", {**Q, "MessageBody": "m"})
    waiting.join()
    assert answers[0][0] == 200 and b'"Body":"m"' in answers[0][2]


def refused_start(*options):
    """What a daemon says that does not start."""
    command = [*WRAPPER, str(BIN / "tallyd"), *map(str, options)]
    done = subprocess.run(command, capture_output=True, timeout=30 * PATIENCE, env=clean_environment(), check=False)
    assert done.returncode != 0 and not done.stdout
    return done.stderr.decode()


def test_a_daemon_does_not_start_without_its_credentials(tmp_path):
    data = ("--data", tmp_path / "data", "--listen", "127.0.0.1:0")
    assert "No such file" in refused_start(*data, "--credentials", tmp_path / "none")
    assert "no ordinary file" in refused_start(*data, "--credentials", tmp_path)
    wrong = tmp_path / "wrong"
    wrong.write_text("# fine\nBOSS top-secret 12 read\n")
    said = refused_start(*data, "--credentials", wrong)
    assert f"{wrong}: line 2: the namespace" in said and "top-secret" not in said
    assert not (tmp_path / "data").exists()


def test_a_file_that_others_may_read_is_warned_of(daemon_factory, credentials):
    credentials.chmod(0o644)
    running = daemon_factory("--credentials", str(credentials)).start()
    running.wait_said(f"chmod o-r {credentials}")
    assert ask(running, "json", "ListQueues").status == 200


def test_any_address_may_be_served_with_credentials_only(daemon_factory, credentials, tmp_path):
    said = refused_start("--data", tmp_path / "data", "--listen", "0.0.0.0:0")
    assert "--credentials" in said and "--insecure-any-address" in said
    running = daemon_factory("--credentials", str(credentials))
    running.options += ["--listen", f"0.0.0.0:{running.port}"]
    running.start()
    assert running.ready_line.startswith("tallyd ready on http://0.0.0.0:")
    assert ask(running, "json", "ListQueues").status == 200
    assert unsigned(running, "json", "ListQueues").status == 403


def test_any_address_may_be_served_by_who_says_that_it_is_open(daemon_factory):
    """As a container needs it, whose port is published to this machine. Web pages are kept away all the same."""
    running = daemon_factory("--insecure-any-address")
    running.options += ["--listen", f"0.0.0.0:{running.port}"]
    running.start()
    assert unsigned(running, "json", "ListQueues").status == 200
    assert unsigned(running, "json", "ListQueues", headers={"Host": "tally:9324"}).status == 403
    running.wait_said(f"there are no credentials: whoever reaches 0.0.0.0:{running.port} may do everything")


def test_what_serves_this_machine_only_is_not_warned_of(daemon_factory):
    running = daemon_factory("--insecure-any-address").start()
    assert "may do everything" not in running.error_text()
