"""The examples of docs/reference, as they stand there: curl, Python and `tally` ask for what the page of an action
says. A recorder answers. What a daemon answers to these requests is in test_service_model.py, which runs the examples
of the model. tests/house/reference holds the pages against the model."""

import http.server
import json
import re
import shlex
import shutil
import subprocess
import threading

import pytest
from clients import needs
from conftest import PATIENCE, ROOT, Tally, clean_environment
from service_model import read

REFERENCE = ROOT / "docs" / "reference"
EXAMPLES = {action: example for action, (example,) in read("examples-1.json")["examples"].items()}
USAGE = 2  # the status of a command that was typed wrongly

# What commands ask for besides.
FILES = {"duel.json": {"attrs": {"mode": "str"}, "rules": [{"type": "equal", "attr": "mode"}]},
         "tickets.jsonl": {"TicketId": "anna", "Attributes": {"mode": "chess", "mmr": 1210}}}
# Members of which a command has a value of its own, because it reads them from files or shows a part of the example.
OF_COMMANDS = {"CreatePool": {"Attributes", "Rules"}, "OfferTickets": {"Tickets"}, "CompleteUnits": {"Units"},
               "Commit": {"Units"}, "FeedEvents": {"MaxResults"}, "FeedTickets": {"MaxResults"},
               "ListTickets": {"MaxResults"}, "GetMessage": {"Body"}, "ReleaseMessage": {"QueueUrl"}}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the reply of the example; a second time with empty lists, so that nobody reads on for ever."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        action = self.headers["X-Amz-Target"].split(".")[1]
        is_first = all(action != asked for asked, _ in self.server.requests)
        self.server.requests.append((action, body))
        reply = EXAMPLES[action]["output"] if action in EXAMPLES else {}
        if not is_first:
            reply = {key: [] if isinstance(value, list) else value for key, value in reply.items()}
            reply.pop("NextToken", None)
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def recorder():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests, server.daemon_threads = [], True
    server.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def blocks(path):
    return re.findall(r"^```(\w+)\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def pages():
    """{action: [(kind, block), …]}"""
    return {action: blocks(REFERENCE / "actions" / f"{action}.md") for action in EXAMPLES}


def words_of(code, endpoint):
    return shlex.split(code.replace("curl http://localhost:9324/", f"curl {endpoint}/").replace("\\\n", " "))


def run(words):
    done = subprocess.run([words[0], "--silent", *words[1:]], capture_output=True, text=True, env=clean_environment(),
                          timeout=30 * PATIENCE)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def test_curl_asks_for_the_example_beside_the_reply(recorder):
    for action, code in pages().items():
        (_, command), (_, reply) = code[:2]
        *words, body = words_of(command, recorder.endpoint)
        assert words == ["curl", f"{recorder.endpoint}/", "-H", f"X-Amz-Target: Tally.{action}", "-d"]
        assert json.loads(body) == EXAMPLES[action]["input"]
        assert json.loads(reply) == EXAMPLES[action]["output"]


class Called:
    """A client that keeps what it is called with."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda **parameters: self.calls.append((name, parameters))


def test_python_asks_for_the_example():
    from botocore import xform_name

    tally = Called()
    for action, code in pages().items():
        (call,) = [block for kind, block in code if kind == "python"]
        exec(call, {"tally": tally})
        assert tally.calls.pop() == (xform_name(action), EXAMPLES[action]["input"])


def commands():
    """{action: its command}"""
    return {action: code[3][1].strip() for action, code in pages().items() if len(code) > 3}


def by_name(request):
    """With the names of queues in place of their URLs."""
    return json.loads(json.dumps(request).replace("http://localhost:9324/000000000000/", ""))


def test_the_tool_asks_for_the_example(recorder, tmp_path):
    tally = Tally(recorder.endpoint)
    for name, content in FILES.items():
        (tmp_path / name).write_text(json.dumps(content) + "\n")
    for action, command in commands().items():
        recorder.requests.clear()
        words = [word.replace("/var/backups", str(tmp_path)) for word in shlex.split(command)]
        done = tally(*words[1:], status=None, cwd=tmp_path)
        assert done.returncode != USAGE, done.err
        asked = [body for asked, body in recorder.requests if asked == action]
        assert asked, f"{command} asks for {[asked for asked, _ in recorder.requests]}: {done.err}"
        request, example = by_name(asked[0]), by_name(EXAMPLES[action]["input"])
        for member in example.keys() - OF_COMMANDS.get(action, set()):
            assert request.get(member) == example[member], f"{command} asks for {request}"


def test_commands_of_the_themes_are_typed_rightly(recorder, tmp_path):
    tally = Tally(recorder.endpoint)
    for name, content in FILES.items():
        (tmp_path / name).write_text(json.dumps(content) + "\n")
    seen = 0
    for path in sorted(REFERENCE.glob("*.md")):
        for line in (line for kind, code in blocks(path) if kind == "sh" for line in code.splitlines()):
            if line.startswith("tally ") and not re.search(r"--follow|\brelay run\b", line):  # these don't end
                recorder.requests.clear()
                words = [word.replace("/var/backups", str(tmp_path)) for word in shlex.split(line, comments=True)]
                done = tally(*words[1:], status=None, cwd=tmp_path)
                assert done.returncode != USAGE, f"{path.name}: {line}: {done.err}"
                seen += 1
    assert seen > 15


def test_a_daemon_takes_what_curl_sends(daemon):
    """curl calls any body a form."""
    needs(shutil.which("curl"), "curl")
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "done"})
    for action in "CreateBatch", "AddUnits":
        (_, command), (_, reply) = pages()[action][:2]
        assert json.loads(run(words_of(command, daemon.endpoint))) == json.loads(reply)
    (_, code), *_ = blocks(REFERENCE / "batches.md")
    replies = [json.loads(run(words_of(command, daemon.endpoint))) for command in re.split(r"\n(?=curl )", code)]
    assert [reply.get("Completed") for reply in replies] == [None, None, False, True]
