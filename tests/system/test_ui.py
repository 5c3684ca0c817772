"""The dashboard at /ui/: its files over HTTP, and the pages in Debian's Chromium (ui_pages.mjs), against a real daemon
in trouble.

    SHOTS=/tmp/shots    keeps a picture of each page in both themes"""

import datetime
import gzip
import hmac
import json
import os
import pathlib
import re
import shutil
import urllib.parse

import pytest
from clients import needs, run_node, scenarios_of
from conftest import ROOT, Tally

CHROMIUM = shutil.which("chromium")
IS_SNAP = CHROMIUM is not None and "snap" in pathlib.Path(CHROMIUM).resolve().parts
CREDENTIALS = """
AKIAOPS     qZ6mVt1HfN2kLr9eYbU4xC0s    000000000000   read,write,admin
AKIALOOK    Nm3xWq8TgR5vKc7uJp2yHd4a    000000000000   read
AKIANAMES   Xs9dFb1LzQ6wPe8oCt3iMv5k    000000000000   write
"""
A_PAGE = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Site": "none"}


# --- files ------------------------------------------------------------------------------------------------------------


def test_the_page_comes_with_a_strict_policy_and_a_tag(daemon):
    status, headers, body = daemon.request("GET", "/ui/", headers=A_PAGE)
    assert status == 200 and body.startswith(b"<!doctype html>")
    assert headers["Content-Type"] == "text/html; charset=utf-8" and headers["Cache-Control"] == "no-cache"
    policy = headers["Content-Security-Policy"]
    for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
                 "form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'",
                 "require-trusted-types-for 'script'"):
        assert part in policy.split("; "), policy
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert re.fullmatch(r'"[0-9a-f]{32}"', headers["ETag"])

    known = {**A_PAGE, "If-None-Match": headers["ETag"]}
    status, again, body = daemon.request("GET", "/ui/", headers=known)
    assert (status, body, again["ETag"]) == (304, b"", headers["ETag"]) and "Content-Length" not in again
    assert daemon.request("GET", "/ui/", headers={"If-None-Match": '"0"'})[0] == 200

    status, head, body = daemon.request("HEAD", "/ui/")
    assert (status, body, head["Content-Length"]) == (200, b"", headers["Content-Length"])


def test_each_file_comes_zipped_to_who_takes_that(daemon):
    files = [path.name for path in (ROOT / "src/ui/web").iterdir() if path.name != "index.html"]
    total = 0
    for name in ["", *files]:
        source = (ROOT / "src/ui/web" / (name or "index.html")).read_bytes()
        _, plain_headers, plain = daemon.request("GET", f"/ui/{name}", headers={"Accept-Encoding": "gzip;q=0, br"})
        _, headers, zipped = daemon.request("GET", f"/ui/{name}", headers={"Accept-Encoding": "br, gzip, zstd"})
        assert plain == source and gzip.decompress(zipped) == source, name
        assert headers["Content-Encoding"] == "gzip" and plain_headers["Content-Encoding"] is None
        assert headers["ETag"] != plain_headers["ETag"] and headers["Vary"] == "Accept-Encoding"
        total += len(zipped)
    assert total < 60 * 1024, "what the dashboard may take over a slow line"


def test_only_its_files_are_there_and_only_to_be_read(daemon):
    for path in ("/ui/nothing", "/ui/index.html", "/ui/../ui/", "/ui//", "/ui/%2e%2e/"):
        status, headers, body = daemon.request("GET", path)
        assert status == 404 and b"no such file" in body and "Content-Security-Policy" in headers, path
    assert daemon.request("GET", "/uix")[0] == 404 and daemon.request("PUT", "/ui/")[0] == 404
    assert daemon.request("POST", "/ui/")[0] == 404
    assert daemon.request("POST", "/ui/main.js", "{}", {"X-Amz-Target": "AmazonSQS.ListQueues"})[0] == 200


def test_a_browser_at_the_root_is_led_to_it_and_no_client_is(daemon):
    status, headers, _ = daemon.request("GET", "/", headers=A_PAGE)
    assert (status, headers["Location"]) == (302, "ui/")
    assert daemon.request("GET", "/ui", headers=A_PAGE)[1]["Location"] == "ui/"
    assert daemon.request("GET", "/")[0] == 404
    assert daemon.request("GET", "/?Action=ListQueues", headers=A_PAGE)[0] == 200
    target = {**A_PAGE, "X-Amz-Target": "AmazonSQS.ListQueues"}
    assert daemon.request("GET", "/", "{}", target)[0] == 200


def test_a_link_leads_to_it_and_a_name_of_somebody_else_does_not(daemon):
    """A page of another site may link to the dashboard; nothing that this link brings tells anything."""
    assert daemon.request("GET", "/ui/", headers={**A_PAGE, "Sec-Fetch-Site": "cross-site"})[0] == 200
    assert daemon.request("GET", "/health", headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
    status, _, body = daemon.request("GET", "/ui/", headers={**A_PAGE, "Host": f"evil.example:{daemon.port}"})
    assert status == 403 and b"--allow-host evil.example" in body


def config_of(daemon):
    status, headers, body = daemon.request("GET", "/ui/config")
    assert status == 200 and headers["Cache-Control"] == "no-store"
    return json.loads(body)


def test_the_configuration_says_whether_there_is_one(daemon_factory, credentials):
    daemon = daemon_factory().start()
    told = config_of(daemon)
    assert (told["Ui"], told["HasCredentials"]) == ("on", False)
    assert told["Actions"]["Tally.PauseQueue"] == "admin" and told["Actions"]["Tally.GetMessage"] == "read"
    assert told["Actions"]["AmazonSQS.SendMessage"] == "write" and told["Actions"]["Tally.ListGroups"] == "any"
    daemon.stop()

    daemon = daemon_factory("--ui", "read-only", "--credentials", str(credentials)).start()
    told = config_of(daemon)
    assert (told["Ui"], told["HasCredentials"]) == ("read-only", True)
    assert daemon.request("GET", "/ui/", headers=A_PAGE)[0] == 200, "the files are for everybody"
    daemon.stop()

    daemon = daemon_factory("--ui", "off").start()
    assert daemon.request("GET", "/ui/", headers=A_PAGE)[0] == daemon.request("GET", "/", headers=A_PAGE)[0] == 404
    daemon.stop()

    daemon = daemon_factory("--ui", "maybe")
    with pytest.raises(AssertionError, match='ui .from --ui. is "maybe": it must be on, read-only or off'):
        daemon.start()


# --- pages ------------------------------------------------------------------------------------------------------------

HOSTILE = '<img src=x onerror="document.title=1">'
RIGHT_TO_LEFT = "‮evil‬ שלום <b>\"quoted'</b> &amp;"


def call(daemon, target, **members):
    status, answer = daemon.call(target, members)
    assert status == 200, (target, answer)
    return answer


def send(daemon, queue, body, attributes=None, **members):
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in (attributes or {}).items()}
    return call(daemon, "AmazonSQS.SendMessage", QueueUrl=queue, MessageBody=body, MessageAttributes=attributes,
                **members)["MessageId"]


def fail(daemon, queue, reason, count=1, **members):
    for _ in range(count):
        (message,) = call(daemon, "AmazonSQS.ReceiveMessage", QueueUrl=queue)["Messages"]
        call(daemon, "Tally.FailMessage", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], Reason=reason,
             **members)


def create(daemon, name, dead=None, **attributes):
    if dead:
        arn = f"arn:aws:sqs:us-east-1:000000000000:{dead}"
        attributes["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    call(daemon, "AmazonSQS.CreateQueue", QueueName=name, Attributes=attributes)


def make_orders(daemon):
    """order 17 stands in a group that is held; and the same order in three other kinds of trouble."""
    create(daemon, "orders-failed.fifo", FifoQueue="true")
    create(daemon, "orders.fifo", "orders-failed.fifo", FifoQueue="true", **{"Tally.OnGroupFailure": "hold"})
    for number in range(14, 31):
        found = send(daemon, "orders.fifo", json.dumps({"order": number, "customer": "customer-17"}),
                     MessageGroupId="customer-17", MessageDeduplicationId=f"order-{number}")
        if number == 17:
            held = found
    fail(daemon, "orders.fifo", "card declined", Final=True)
    create(daemon, "reports")
    create(daemon, "thumbnails")
    blocked = send(daemon, "reports", "{}", {"Tally.After": f"message:{held}"})
    delayed = send(daemon, "reports", "later", DelaySeconds=900)
    paused = send(daemon, "thumbnails", "{}")
    call(daemon, "Tally.PauseQueue", QueueUrl="thumbnails")
    return {"held": held, "blocked": blocked, "delayed": delayed, "paused": paused}


def make_hostile(daemon):
    create(daemon, "hostile", "hostile-failed")
    huge = send(daemon, "hostile", json.dumps({"text": "x" * 1_000_000}), {"huge": RIGHT_TO_LEFT})
    deep = send(daemon, "hostile", "[" * 5000 + "1" + "]" * 5000)
    exact = send(daemon, "hostile", '{"number": 12345678901234567890, "list": [1, {"a": "b"}], "markup": "<img>"}')
    crlf = send(daemon, "hostile", "one\r\ntwo\r\n")
    mixed = send(daemon, "hostile", "one\r\ntwo\n")
    call(daemon, "Tally.PauseQueue", QueueUrl="hostile")
    call(daemon, "Tally.CreateBatch", BatchId='<b>"x"\'&amp;', Total=3)
    create(daemon, "hostile.fifo", FifoQueue="true", **{"Tally.OnGroupFailure": "hold"})
    markup = send(daemon, "hostile.fifo", HOSTILE, {"a.b": HOSTILE, "rtl": RIGHT_TO_LEFT},
                  MessageGroupId='<img/onerror=">', MessageDeduplicationId="\"'><script>")
    fail(daemon, "hostile.fifo", HOSTILE + RIGHT_TO_LEFT, Final=True)
    return {"huge": huge, "deep": deep, "exact": exact, "markup": markup, "crlf": crlf, "mixed": mixed}


def make_trouble(daemon):
    """A daemon in which something needs a person, on each page."""
    ids = make_orders(daemon)
    create(daemon, "mails-failed")
    create(daemon, "mails", "mails-failed")
    create(daemon, "hostile-failed")
    for number in range(12):
        send(daemon, "mails", f"mail {number}")
    fail(daemon, "mails", "550 mailbox unavailable", 11, Final=True)
    fail(daemon, "mails", "connection reset by peer", 1, Final=True)
    create(daemon, "resize")
    for number in range(9):
        send(daemon, "resize", f"image {number}")
    call(daemon, "Tally.CreateBatch", BatchId="night-42", Total=5, OnComplete={"QueueUrl": "reports"})
    call(daemon, "Tally.AddUnits", BatchId="night-42", Units=["a", "b", "c"])
    ids["unit"] = send(daemon, "resize", "unit of a batch", {"Tally.Batch": "night-42"})
    call(daemon, "Tally.CompleteUnits", BatchId="night-42", Units=[{"Unit": "a"}, {"Unit": "b", "Status": "failed"}])
    call(daemon, "AmazonSQS.ReceiveMessage", QueueUrl="resize", VisibilityTimeout=3600)
    call(daemon, "Tally.PutSchedule", Name="nightly", Cron="0 3 * * *", TimeZone="Europe/Berlin", QueueUrl="reports",
         MessageBody="{}")
    create(daemon, "hooks")
    send(daemon, "hooks", "{}")
    call(daemon, "Tally.CreateRelay", RelayName="billing-hook", Source={"Type": "queue", "QueueUrl": "hooks"},
         Sink={"Type": "http", "Url": "http://127.0.0.1:9/none"})
    create(daemon, "matches")
    call(daemon, "Tally.CreatePool", PoolName="duel", ResultQueueUrl="matches",
         Attributes={"mode": "str", "mmr": "num"},
         Rules=[{"type": "equal", "attr": "mode"}, {"type": "near", "attr": "mmr", "max": 50}])
    call(daemon, "Tally.OfferTickets", PoolName="duel", Tickets=[
        {"TicketId": "ada", "Attributes": {"mode": "ranked", "mmr": 1500}},
        {"TicketId": '<b>"bob', "Attributes": {"mode": "casual", "mmr": 900}}])
    return {**ids, **make_hostile(daemon)}


def browse(daemon, scenario, ids=None, **more):
    needs(CHROMIUM is not None and not IS_SNAP, "chromium")
    run_node("ui_pages.mjs", "playwright-core", daemon.endpoint, scenario, IDS=json.dumps(ids or {}),
             SHOTS=os.environ.get("SHOTS", ""), CHROMIUM=CHROMIUM, **more)


IN_TROUBLE = [name for name in scenarios_of("ui_pages.mjs") if not name.startswith("signed_")]


@pytest.mark.parametrize("scenario", IN_TROUBLE)
def test_pages(daemon, scenario):
    """A scenario that only looks leaves receive counts, leases and tokens as they were."""
    ids = make_trouble(daemon)
    before = daemon.call("Tally.ListMessages", {"QueueUrl": "resize"})
    browse(daemon, scenario, ids)
    if scenario.startswith("each_page"):
        assert daemon.call("Tally.ListMessages", {"QueueUrl": "resize"}) == before


def test_signing_in(guarded):
    """Of the secret nothing leaves the page. A credential sees the buttons that it may press."""
    secrets = dict(line.split()[:2] for line in CREDENTIALS.strip().splitlines())
    browse(guarded, "signed_pages", SECRETS=json.dumps(secrets))


def test_an_address_of_the_tool_signs_in(guarded):
    tally, addresses = Tally(guarded.endpoint), {}
    for key, secret in (line.split()[:2] for line in CREDENTIALS.strip().splitlines()):
        tally.environment.update(AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=secret)
        printed = tally("ui")
        addresses[key] = printed.out.strip()
        assert secret not in printed.out + printed.err and f"may do what {key} may" in printed.err
    browse(guarded, "signed_by_address", ADDRESSES=json.dumps(addresses))


def test_the_tool_knows_the_address_of_the_dashboard(daemon_factory, daemon, guarded):
    assert Tally(daemon.endpoint)("ui").out == f"{daemon.endpoint}/ui/\n"
    assert Tally(daemon.endpoint).json("ui") == [{"Url": f"{daemon.endpoint}/ui/"}]
    unsigned = Tally(guarded.endpoint)("ui")
    assert unsigned.out == f"{guarded.endpoint}/ui/\n" and "the page will ask for them" in unsigned.err
    assert "no browser reaches unix:" in Tally("unix:/tmp/x")("ui", status=2).err
    bare = daemon_factory("--ui", "off").start()
    assert "no dashboard" in Tally(bare.endpoint)("ui", status=1).err
    assert bare.stop() == 0
    tally = Tally(guarded.endpoint)
    tally.environment.update(AWS_ACCESS_KEY_ID="A/B+", AWS_SECRET_ACCESS_KEY="s" * 20, AWS_SESSION_TOKEN="t&=")
    fragment = tally("ui").out.strip().partition("#")[2]
    told = urllib.parse.parse_qs(fragment, strict_parsing=True)
    day = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d")
    key = b"AWS4" + b"s" * 20
    for part in (told["d"][0], "us-east-1", "sqs", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    assert told == {"k": ["A/B+"], "d": [told["d"][0]], "s": [key.hex()], "t": ["t&="]} and told["d"][0] <= day


def test_read_only_shows_no_button_that_changes_something(daemon_factory):
    daemon = daemon_factory("--ui", "read-only").start()
    ids = make_trouble(daemon)
    browse(daemon, "signed_read_only", ids)
    assert daemon.stop() == 0
