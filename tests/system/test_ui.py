"""The dashboard at /ui/: its files over HTTP, and the pages in Debian's Chromium (ui_pages.mjs), against a daemon with
a million messages and 5,000 queues in which something is wrong on each page (shop.py).

    TALLY_TEST_SCALE=0.1    takes a tenth of the messages and queues; the default is all of them"""

import datetime
import gzip
import hmac
import json
import pathlib
import re
import shutil
import statistics
import time
import urllib.parse

import pytest
from browser import Browser
from clients import scenarios_of
from clock import Clock
from conftest import ROOT, Daemon, Tally
from shop import Shop
from wire import Connection, scaled

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
    assert total < 72 * 1024, "what the dashboard may take over a slow line"


def test_who_refuses_gzip_gets_plain_files(daemon):
    for encodings, is_zipped in [
        ("gzip", True), ("gzip;q=1.0", True), ("gzip ; q=1", True), ("br,\tgzip", True),
        ("gzip; q=0", False), ("gzip ;q=0.0", False), ("gzip;\tq=0, br", False), ("xgzip", False), ("gzipped", False),
    ]:  # fmt: skip
        _, headers, _ = daemon.request("GET", "/ui/", headers={"Accept-Encoding": encodings})
        assert (headers["Content-Encoding"] == "gzip") == is_zipped, encodings


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


class Dashboard(Browser):
    def run(self, daemon, scenario, ids=None, **more):
        return super().run(scenario, endpoint=daemon.endpoint, ids=ids or {}, **more)


@pytest.fixture(scope="module")
def browser():
    running = Dashboard("ui_pages.mjs")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A shop that has had a bad hour. Its daemon must stop cleanly."""
    clock = Clock()
    clock.set(-3600)
    daemon = Daemon(tmp_path_factory.mktemp("shop"), ["--slow-request", "150"])
    with clock.around():
        daemon.start()
    made = Shop(daemon, clock)
    began = time.monotonic()
    made.fill(scaled(1_000_000), queues=scaled(5000))
    print(f"filled within {time.monotonic() - began:.1f} s")
    made.get_into_trouble()
    made.get_hostile()
    made.get_long()
    yield made
    made.close()
    try:
        assert daemon.stop() == 0, daemon.error_text()
    finally:
        daemon.kill9()
        shutil.rmtree(daemon.data, ignore_errors=True)


def queue_of(answer, name):
    """That of ListQueueStats."""
    return next(queue for queue in answer["Queues"] if queue["QueueName"] == name)


# What is asked at three in the morning (what the operator wants to know, the page and what can be read there, the
# command and what it prints, the action and what of its reply says the same). <held> is the id of a message.
QUESTIONS = [
    ("is anything wrong, and since when",
     "#/", r"orders\.fifo group customer-17 is held: card declined\.\s+16 messages wait behind it\.\s+54 min",
     ["status"], r"orders\.fifo: 1 group is held",
     "Tally.ListQueueStats", {"QueueNamePrefix": "orders.fifo"},
     lambda told: queue_of(told, "orders.fifo")["HeldGroups"] == 1),
    ("which queue is behind, and is anybody working",
     "#/queues?prefix=resize", r"resize\s+41 min\s+9\s+1\s",
     ["top", "--once", "--prefix", "resize"], r"41 min\s+9\s+1\s.*resize",
     "Tally.ListQueueStats", {"SortBy": "age", "QueueNamePrefix": "resize"},
     lambda told: (queue_of(told, "resize")["Visible"], queue_of(told, "resize")["InFlight"]) == (9, 1)
     and queue_of(told, "resize")["OldestDeliverableAge"] // 60 == 41),
    ("what is in a queue, and why does it not come",
     "#/queue/reports", r"blocked\s+\{\"report\": \"orders of the day\"\}\s+0\s+It waits for message",
     ["messages", "reports"], r"blocked .*\n?.*waits for message <held>",
     "Tally.ListMessages", {"QueueUrl": "reports"},
     lambda told: told["Messages"][0]["State"] == "blocked"),
    ("where is order 17, why is it stuck, what waits for it",
     "#/message/<held>", r"Its group is held since .*: card declined[\s\S]*1 message waits for this one",
     ["peek", "<held>"], r"card declined",
     "Tally.ExplainMessage", {"MessageId": "<held>"},
     lambda told: told["State"] == "held" and any(why.get("Reason") == "card declined" for why in told["Why"])),
    ("where is the order of which a person knows only a text",
     "#/find?q=order+4227",
     r"Messages with this text[\s\S]*orders\.fifo\s+held\s+customer-17\s+\{\"order\": 17",
     ["find", "--queue", "orders.fifo", "--text", '"order": 17,'], r"orders\.fifo +held .*<held>",
     "Tally.FindMessage", {"QueueUrl": "orders.fifo", "Text": '"order": 17,'},
     lambda told: [one["State"] for one in told["Messages"]] == ["held"]),
    ("what failed, with which error",
     "#/dead-letters?queue=mails-failed",
     r"12 messages, from mails[\s\S]*\b11\s+550 mailbox unavailable[\s\S]*\"to\": \"customer-",
     ["failures", "mails-failed"], r"11 .*550 mailbox unavailable",
     "Tally.SummarizeFailures", {"QueueUrl": "mails-failed"},
     lambda told: (told["Reasons"][0]["Count"], told["Reasons"][0]["Reason"]) == (11, "550 mailbox unavailable")),
    ("which customer is blocked, by what",
     "#/groups?queue=orders.fifo&group=customer-17", r"The group is held for 54 min : card declined",
     ["group", "list", "orders.fifo", "--group", "customer-17"], r"held +17 +customer-17 .*card declined",
     "Tally.ListGroups", {"QueueUrl": "orders.fifo", "MessageGroupId": "customer-17"},
     lambda told: (told["Groups"][0]["State"], told["Groups"][0]["Messages"]) == ("held", 17)),
    ("how far is the batch, and what is missing",
     "#/batch/night-42", r"Outstanding\s+3[\s\S]*nobody has reported it[\s\S]*night-42-mails\s+outstanding",
     ["batch", "units", "night-42", "--state", "outstanding"], r"asia[\s\S]*night-42-mails",
     "Tally.ListUnits", {"BatchId": "night-42", "State": "outstanding"},
     lambda told: len(told["Units"]) == 3 and any(unit.get("BatchId") == "night-42-mails" for unit in told["Units"])),
    ("who holds what, since when, until when",
     "#/in-flight?queue=orders.fifo", r"orders\.fifo\s+customer-9\s+pay-7[\s\S]*\b(\d+ s|\d min) in 5\d min",
     ["inflight", "orders.fifo"], r"orders\.fifo +pay-7",
     "Tally.ListInFlight", {"QueueUrl": "orders.fifo"},
     lambda told: [one["Holder"]["Worker"] for one in told["Messages"]] == ["pay-7"]),
    ("what fires next, and what was missed",
     "#/schedules", r"nightly-report\s+in [\d]+ (h|min|s)[\s\S]*0 3 \* \* \* Europe/Berlin",
     ["schedule", "list"], r"nightly-report.*0 3 \* \* \*",
     "Tally.ListSchedules", {"Prefix": "nightly"},
     lambda told: told["Schedules"][0]["NextAt"] > 0),
    ("which rows are in doubt, and why is a relay blocked",
     "#/relays", r"billing-hook\s+blocked[\s\S]*payments\s+[\s\S]*\b3\s+3\b",
     ["relay", "list"], r"blocked +billing-hook",
     "Tally.ListDoubts", {"RelayName": "payments"},
     lambda told: len(told["Doubts"]) == 3 and all(doubt["IsInDoubt"] for doubt in told["Doubts"])),
    ("who waits for whom, and why does nobody fit",
     "#/pool/couriers?ticket=ada", r"Why ticket ada waits[\s\S]*rejected by equal\(zone\)",
     ["pool", "explain", "couriers", "ada"], r"zone",
     "Tally.ExplainTicket", {"PoolName": "couriers", "TicketId": "ada"},
     lambda told: any("zone" in one["Rule"] for one in told["Rejects"])),
    ("who pressed what, and what did the server do",
     "#/activity?word=thumbnails", r"54 min\s+PauseQueue\s+thumbnails",
     ["events", "--limit", "1000"], r"PauseQueue.*thumbnails",
     "Tally.FeedEvents", {"After": 0, "MaxResults": 1},
     lambda told: told["Events"][0]["Action"] == "Recovered"),
    ("what is this server, and how near is it to its limits",
     "#/server", r"Memory\s+[\d.]+ [MG]iB[\s\S]*slow-request\s+150 ?m?s?\s+set",
     ["call", "Tally.DescribeServer", "{}"], r"slow-request",
     "Tally.DescribeServer", {},
     lambda told: {"Name": "slow-request", "Value": "150", "IsDefault": False} in told["Config"]),
]


def with_ids(value, ids):
    return json.loads(json.dumps(value).replace("<held>", ids["held"]))


def test_each_question_has_a_page_a_command_and_an_action(shop, browser):
    tally = Tally(shop.daemon.endpoint)
    texts = browser.run(shop.daemon, "texts_of_pages", shop.ids,
                        pages=[with_ids(page, shop.ids) for _, page, *_ in QUESTIONS])
    texts = {page: re.sub(r"\s*, \d{4}-\d\d-\d\d [\d:]{8} UTC\s*", " ", text) for page, text in texts.items()}
    wrong = []
    for question, page, on_page, command, printed, action, members, is_told in with_held(shop.ids):
        if not re.search(on_page, texts[page]):
            wrong.append(f"{question}: {page} does not say {on_page}, but:\n{texts[page][:3000]}")
        out = tally(*command, status=None).out
        if not re.search(printed, out):
            wrong.append(f"{question}: tally {command} does not say {printed}, but:\n{out[:3000]}")
        told = shop.call(action, **members)
        if not is_told(told):
            wrong.append(f"{question}: {action} does not tell it, but {str(told)[:3000]}")
    assert not wrong, "\n\n".join(wrong)


def with_held(ids):
    """The questions, about the message with that id."""
    for *row, is_told in QUESTIONS:
        yield *with_ids(row, ids), is_told


# Of what docs/how-to/dashboard.md has pictures.
PICTURES = {
    "overview": "#/",
    "queues": "#/queues",
    "queue": "#/queue/receipts",
    "message": "#/message/<held>",
    "dead-letters": "#/dead-letters",
    "groups": "#/groups",
    "group": "#/groups?queue=orders.fifo&group=customer-17",
    "batches": "#/batches",
    "batch": "#/batch/night-42",
    "in-flight": "#/in-flight",
    "schedules": "#/schedules",
    "relays": "#/relays",
    "relay": "#/relay/payments",
    "pools": "#/pools",
    "pool": "#/pool/couriers?ticket=ada",
    "activity": "#/activity",
    "server": "#/server",
    "find": "#/find?q=customer-17",
}


def test_the_guide_shows_each_page_in_both_themes():
    """tests/system/ui_pictures.py draws them."""
    guide, folder = (ROOT / "docs/how-to/dashboard.md").read_text(), ROOT / "docs/ui"
    pictures = {path.name for path in folder.iterdir()}
    named = set(re.findall(r"ui/([\w-]+\.png)", guide))
    assert named == pictures
    assert {f"{name}-{theme}.png" for name in PICTURES for theme in ("light", "dark")} <= pictures
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2_000_000


SIGNED = [name for name in scenarios_of("ui_pages.mjs") if name.startswith("signed_")]
GIVEN = {"texts_of_pages", "pictures", *SIGNED}  # what other tests run


def loop_seconds(daemon):
    """The time of a processor that the daemon's loop has had. Other processes make no difference to it."""
    thread = pathlib.Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/schedstat")
    return int(thread.read_text().split()[0]) / 1e9


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def test_no_call_of_a_page_takes_long(shop, browser):
    """All pages, by keys and in two widths; and then each call that they made, again and again."""
    asked = browser.run(shop.daemon, "each_page_fits_and_is_walked_by_keys", shop.ids)
    calls = sorted({(target, body) for target, body in asked if '"DryRun"' not in body})
    assert len(calls) > 60
    took, waited = {}, {}
    with Connection(shop.daemon.port) as connection:
        for call in calls:
            before, began = loop_seconds(shop.daemon), time.monotonic()
            for _ in range(10):
                connection.call(call[0], call[1].encode())
            took[call] = (loop_seconds(shop.daemon) - before) / 10
            waited[call] = (time.monotonic() - began) / 10
    worst = sorted(took, key=took.get, reverse=True)[:8]
    print(f"{len(calls)} calls, in ms of the loop: median {1000 * statistics.median(took.values()):.2f}, "
          f"p99 {1000 * percentile(took.values(), 0.99):.1f}; with the way there and back: "
          f"p99 {1000 * percentile(waited.values(), 0.99):.1f}")
    for call in worst:
        print(f"{1000 * took[call]:8.2f} {call[0]} {call[1][:100]}")
    assert percentile(took.values(), 0.99) < 0.05, "of the loop, in which everybody waits"


@pytest.mark.parametrize("scenario", [name for name in scenarios_of("ui_pages.mjs")
                                      if name not in GIVEN and name != "each_page_fits_and_is_walked_by_keys"])
def test_pages(shop, browser, scenario):
    browser.run(shop.daemon, scenario, shop.ids)


def test_looking_leaves_everything_as_it_is(shop, browser):
    """Receive counts, leases and tokens."""
    before = shop.call("Tally.ListMessages", QueueUrl="resize")
    browser.run(shop.daemon, "texts_of_pages", shop.ids, pages=["#/queue/resize", f"#/message/{shop.ids['unit']}"])
    assert shop.call("Tally.ListMessages", QueueUrl="resize") == before


def test_signing_in(guarded, browser):
    """Of the secret nothing leaves the page. A credential sees the buttons that it may press."""
    secrets = dict(line.split()[:2] for line in CREDENTIALS.strip().splitlines())
    browser.run(guarded, "signed_pages", secrets=secrets)


def test_an_address_of_the_tool_signs_in(guarded, browser):
    tally, addresses = Tally(guarded.endpoint), {}
    for key, secret in (line.split()[:2] for line in CREDENTIALS.strip().splitlines()):
        tally.environment.update(AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=secret)
        printed = tally("ui")
        addresses[key] = printed.out.strip()
        assert secret not in printed.out + printed.err and f"may do what {key} may" in printed.err
    browser.run(guarded, "signed_by_address", addresses=addresses)


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


def test_read_only_shows_no_button_that_changes_something(daemon_factory, browser):
    daemon = daemon_factory("--ui", "read-only").start()
    shop = Shop(daemon, Clock())
    shop.get_into_trouble()
    shop.get_hostile()
    browser.run(daemon, "signed_read_only", shop.ids)
    shop.close()
    assert daemon.stop() == 0
