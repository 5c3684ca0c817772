"""The npm packages: packed, installed into an empty project without a network, and used as a test suite would.

What they carry here is this build's tallyd, with its one library that no distribution need have; `make dist-check`
tries the whole of it on a machine that has nothing. Most of the time is npm's, and Node.js's starts."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest
from conftest import BIN, IS_BARE, PATIENCE, ROOT, clean_environment, wait_until

NODE_MODULES = ROOT / "tests" / "system" / "node_modules"
PAGE = ROOT / "docs" / "how-to" / "testing-with-tally.md"

pytestmark = pytest.mark.skipif(not IS_BARE, reason="only what is released is packaged")


def make_tree(folder):
    """As packaging/dist would make it, of the programs that are there."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    subprocess.run(["strip", "-o", folder / "bin" / "tallyd", BIN / "tallyd"], check=True)
    for library in (ROOT / "build" / "deps" / "usr" / "lib").glob("*/libyyjson.so.0"):
        shutil.copy(library, folder / "lib")


class Project:
    def __init__(self, folder):
        self.folder = folder
        self.place = folder / "tmp"  # of temporary folders
        self.environment = clean_environment(TMPDIR=str(self.place), npm_config_cache=str(folder / "cache"),
                                             LD_LIBRARY_PATH=str(folder / "tree" / "lib"))

    def run(self, *command, status=0, **more):
        environment = {**self.environment, **more}
        environment = {name: value for name, value in environment.items() if value is not None}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=120 * PATIENCE)
        assert status in (None, done.returncode), f"{done.returncode}: {done.stdout}{done.stderr}"
        return done

    def script(self, text, name="script.mjs", **more):
        """What it printed, as JSON."""
        (self.folder / name).write_text(text)
        return json.loads(self.run("node", name, **more).stdout)

    def start(self, *command):
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_until_nothing_is_left(self, *pids):
        wait_until(lambda: not any(is_alive(pid) for pid in pids), 30, "that the servers have ended")
        assert list(self.place.iterdir()) == []


def is_alive(pid):
    try:
        return "\nState:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    made = Project(tmp_path_factory.mktemp("npm"))
    make_tree(made.folder / "tree")
    made.place.mkdir()
    made.run(ROOT / "packaging" / "npm" / "pack", made.folder / "tree", made.folder / "packed")
    (made.folder / "package.json").write_text('{"private": true}')
    made.run("npm", "install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts",
             *(made.folder / "packed").glob("*.tgz"))
    assert {path.name for path in (made.folder / "node_modules").glob("[@a-z]*")} == {"@tally-queue", "tally-server"}
    for name in ["@aws-sdk", "sqs-consumer"]:
        (made.folder / "node_modules" / name).symlink_to(NODE_MODULES / name)
    return made


START = """
const { startTally } = NEEDED;
(async () => {
  const began = performance.now();
  const tally = await startTally({ queues: ["a", "b.fifo", { name: "c", attributes: { VisibilityTimeout: "7" } }] });
  const took = performance.now() - began;
  const { SQSClient, SendMessageCommand, GetQueueAttributesCommand, ListQueuesCommand } =
    await import("@aws-sdk/client-sqs");
  const sqs = new SQSClient(tally);
  await sqs.send(new SendMessageCommand({ QueueUrl: tally.queueUrl("a"), MessageBody: "hello" }));
  const attributes = async (name) => (await sqs.send(new GetQueueAttributesCommand({
    QueueUrl: tally.queueUrl(name), AttributeNames: ["All"] }))).Attributes;
  const before = [await attributes("a"), await attributes("b.fifo"), await attributes("c")];
  await tally.reset();
  const after = await attributes("a");
  const { QueueUrls } = await sqs.send(new ListQueuesCommand({}));
  const running = require("node:fs").readdirSync(process.env.TMPDIR);
  await Promise.all([tally.stop(), tally[Symbol.asyncDispose]()]);
  sqs.destroy();
  console.log(JSON.stringify({ took, before, after, QueueUrls, running, port: tally.port, pid: tally.pid }));
})();
"""


@pytest.mark.parametrize("kind", ["ESM", "CommonJS"])
def test_start_tally_gives_an_endpoint_that_goes_away(project, kind):
    if kind == "ESM":
        text = ('import * as server from "tally-server";\nimport { createRequire } from "node:module";\n'
                "const require = createRequire(import.meta.url);" + START.replace("NEEDED", "server"))
        said = project.script(text)
    else:
        said = project.script(START.replace("NEEDED", 'require("tally-server")'), "script.cjs")
    a, b, c = said["before"]
    assert a["ApproximateNumberOfMessages"] == "1" and b["FifoQueue"] == "true" and c["VisibilityTimeout"] == "7"
    assert said["after"]["ApproximateNumberOfMessages"] == "0" and len(said["QueueUrls"]) == 3
    # The bar is a second: `make dist-check` holds it, on a machine that does nothing else.
    assert said["took"] < 30_000 * PATIENCE, f"it took {said['took']} ms"
    assert len(said["running"]) == 1
    project.wait_until_nothing_is_left(said["pid"])


def test_the_package_is_of_any_machine_and_its_page_leads_nowhere_else(project):
    folder = project.folder / "node_modules" / "tally-server"
    package = json.loads((folder / "package.json").read_text())
    version = package["version"]
    assert package["optionalDependencies"] == {"@tally-queue/linux-x64": version, "@tally-queue/linux-arm64": version}
    page = (folder / "README.md").read_text()
    assert "npx tally-server" in page and re.findall(r"\]\((?!https?:|#).*?\)", page) == []


def test_many_at_once(project):
    said = project.script("""
import { startTally } from "tally-server";
const all = await Promise.all(Array.from({ length: 8 }, () => startTally()));
await Promise.all(all.slice(1).map((tally) => tally.stop()));
console.log(JSON.stringify({ ports: all.map((tally) => tally.port), pids: all.map((tally) => tally.pid) }));
""")
    assert len(set(said["ports"])) == 8
    project.wait_until_nothing_is_left(*said["pids"])  # the one that nobody stopped, too


HOLD = """
import { startTally } from "tally-server";
const tally = await startTally();
console.log(tally.pid);
setInterval(() => {}, 1000);
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_ends_with_the_process_that_started_it(project, number):
    (project.folder / "hold.mjs").write_text(HOLD)
    for _ in range(3):
        process = project.start("node", "hold.mjs")
        pid = int(process.stdout.readline())
        process.send_signal(number)
        process.communicate(timeout=60)
        project.wait_until_nothing_is_left(pid)


def test_a_server_in_a_worker_thread_outlives_the_thread_that_spawned_it_no_longer_than_it_must(project):
    said = project.script("""
import { startTally } from "tally-server";
import { Worker, isMainThread, parentPort } from "node:worker_threads";
if (isMainThread) {
  const worker = new Worker(new URL(import.meta.url));
  const pid = await new Promise((resolve) => worker.once("message", resolve));
  await worker.terminate();
  console.log(JSON.stringify({ pid }));
} else {
  parentPort.postMessage((await startTally()).pid);
  setInterval(() => {}, 1000);
}
""", "worker.mjs")
    project.wait_until_nothing_is_left(said["pid"])


FAIL = """
import { startTally, TallyError } from "tally-server";
try {
  await startTally(OPTIONS);
} catch (error) {
  const { code, message, stderr } = error;
  console.log(JSON.stringify({ code, message, stderr, isOurs: error instanceof TallyError }));
}
"""


def test_errors_say_what_is_wrong(project):
    def fail(options="{}", **more):
        said = project.script(FAIL.replace("OPTIONS", options), **more)
        assert said["isOurs"]
        return said["code"], said["message"]

    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, text = fail(f"{{ port: {taken.getsockname()[1]} }}")
    assert code == "START_FAILED" and "address already in use" in text
    code, text = fail('{ options: ["--no-such-flag"] }')
    assert code == "START_FAILED" and "ended with status 2" in text and "no-such-flag" in text
    code, text = fail('{ queues: ["not a name"] }')
    assert code == "REQUEST_FAILED" and "CreateQueue met 400" in text
    code, text = fail('{ binary: "/nowhere" }')
    assert code == "START_FAILED" and "/nowhere can't be started" in text
    older = project.folder / "older"
    older.write_text("#!/bin/sh\necho \"$0: /lib/libc.so.6: version \\`GLIBC_2.99' not found\" >&2; exit 1\n")
    other = project.folder / "other"
    other.write_text("#!/no/such/loader\n")
    killed = project.folder / "killed"
    killed.write_text("#!/bin/sh\necho last words >&2; kill -9 $$\n")
    silent = project.folder / "silent"
    silent.write_text("#!/bin/sh\nsleep 60\n")
    for path in [older, other, killed, silent]:
        path.chmod(0o755)
    code, text = fail(TALLY_SERVER_BINARY=str(older))
    assert code == "GLIBC_TOO_OLD" and "needs glibc 2.99 or later" in text
    code, text = fail(TALLY_SERVER_BINARY=str(other))
    assert code == "UNSUPPORTED_PLATFORM" and "as Alpine Linux does" in text
    code, text = fail(TALLY_SERVER_BINARY=str(killed))
    assert code == "START_FAILED" and "ended with SIGKILL" in text and "last words" in text
    code, text = fail("{ timeout: 300 }", TALLY_SERVER_BINARY=str(silent))
    assert code == "START_FAILED" and "did not serve within 300 ms" in text
    code, text = fail(NODE_OPTIONS=f"--require {ROOT / 'tests' / 'system' / 'other_machine.cjs'}")
    assert code == "UNSUPPORTED_PLATFORM" and "no program for darwin-arm64, only for linux-" in text
    own = project.folder / "node_modules" / "@tally-queue"
    own.rename(project.folder / "taken-away")
    try:
        code, text = fail()
    finally:
        (project.folder / "taken-away").rename(own)
    assert code == "BINARY_MISSING" and "is not installed" in text


def test_it_needs_no_home_and_no_right_to_write_where_it_is(project):
    spaced = project.folder / "a place for it"
    spaced.mkdir()
    said = project.script("""
import { startTally } from "tally-server";
import { readdirSync } from "node:fs";
const tally = await startTally();
const there = readdirSync(process.env.TMPDIR);
await tally.stop();
console.log(JSON.stringify({ there, left: readdirSync(process.env.TMPDIR) }));
""", HOME=None, TMPDIR=str(spaced), TALLY_DATA="/nowhere", TALLY_LISTEN="nonsense")
    assert len(said["there"]) == 1 and said["left"] == []


def test_the_command_passes_flags_signals_and_status_on(project):
    program = project.folder / "node_modules" / ".bin" / "tally-server"
    assert re.fullmatch(r"tallyd \S+\n", project.run("npx", "--offline", "tally-server", "--version").stdout)
    done = project.run(program, "--no-such-flag", status=2)
    assert "no-such-flag" in done.stderr
    for number in [signal.SIGTERM, signal.SIGINT, signal.SIGKILL]:
        process = project.start(program, "--listen", "127.0.0.1:0", "--data", "data")
        line = process.stdout.readline()
        assert line.startswith("tallyd ready on http://127.0.0.1:") and " data=data " in line
        (child,) = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(number)
        process.communicate(timeout=60)
        assert process.returncode == (-9 if number == signal.SIGKILL else 0)
        wait_until(lambda pid=child: not is_alive(pid), 30, "that tallyd has ended")
    assert (project.folder / "data" / "000000000000").is_dir()


def test_sqs_consumer_works_with_it(project):
    said = project.script("""
import { startTally } from "tally-server";
import { SQSClient } from "@aws-sdk/client-sqs";
import { Consumer } from "sqs-consumer";
const tally = await startTally({ queues: ["q"] });
const sqs = new SQSClient(tally);
const { SendMessageCommand } = await import("@aws-sdk/client-sqs");
const QueueUrl = tally.queueUrl("q");
for (const MessageBody of ["a", "b"]) await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody }));
const bodies = [];
await new Promise((resolve) => {
  const consumer = Consumer.create({ queueUrl: QueueUrl, sqs, handleMessage: async (message) => {
    bodies.push(message.Body);
    if (bodies.length === 2) consumer.stop();
    return message;
  } });
  consumer.on("stopped", resolve);
  consumer.start();
});
await tally.stop();
sqs.destroy();
console.log(JSON.stringify(bodies.sort()));
""")
    assert said == ["a", "b"]


def test_what_the_page_says_about_node_js_runs(project):
    text = PAGE.read_text()
    program = re.search(r"```js\n// (\S+)\n(.*?)```", text, re.DOTALL)
    (project.folder / program[1]).write_text(program[2])
    commands = re.findall(r"```sh\n(.*?)```", text[text.index("## Node.js") : text.index("## Python")], re.DOTALL)
    assert [command.split()[0] for command in commands] == ["npm", "node", "npx"]
    done = project.run("sh", "-ec", commands[1])
    assert "# pass 1" in done.stdout and "# fail 0" in done.stdout, done.stdout
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = project.start(*commands[2].replace("9324", str(port)).split())
    assert process.stdout.readline().startswith(f"tallyd ready on http://127.0.0.1:{port} data=./queues ")
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
