"""clients/javascript: @tally-queue/client against a real daemon, with kills. Its README runs word for word."""

import base64
import json
import os
import re
import signal
import subprocess
import time

import pytest
from clients import mysql_server
from conftest import IS_BARE, PATIENCE, ROOT, Daemon, clean_environment, wait_until
from javascript import PACKAGE, make_project, run, start
from relay import install_outbox, outbox_schema
from service_model import Model, ModelClient
from service_model_story import Story

pytestmark = pytest.mark.skipif(not IS_BARE, reason="the client is the same, whatever the server runs in")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A daemon for the tests that kill none."""
    daemon = Daemon(tmp_path_factory.mktemp("shared")).start()
    yield daemon
    assert daemon.stop() == 0, daemon.error_text()


@pytest.fixture(scope="module")
def database(server):
    """The environment of a database with the inbox, in which `payment` is empty."""
    server.sql("CREATE DATABASE shop")
    server.sql("CREATE DATABASE readme")
    return {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "tally", "PGDATABASE": "shop"}


# --- the package ------------------------------------------------------------------------------------------------------


def test_what_is_made_of_the_model_is_up_to_date():
    done = subprocess.run(["node", PACKAGE / "make-actions.mjs", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_its_version_is_that_of_the_server():
    (server,) = re.findall(r"^  version: '(.*)'", (ROOT / "meson.build").read_text(), re.MULTILINE)
    assert json.loads((PACKAGE / "package.json").read_text())["version"] == server


def test_every_public_name_has_a_type(project):
    program = 'import * as tally from "@tally-queue/client"; console.log(Object.keys(tally).join(" "))'
    names = run(project, "--input-type=module", "-e", program).split()
    types = (PACKAGE / "src" / "index.d.ts").read_text()
    assert len(names) >= 12
    for name in names:
        assert re.search(rf"^export (class|const|function|interface) {name}\b", types, re.MULTILINE), name


def test_the_readme_runs_word_for_word(project, running, database):
    text = (PACKAGE / "README.md").read_text()
    examples = re.findall(r"```js\n(.*?)```\n```\n(.*?)```", text, re.DOTALL)
    assert len(examples) == text.count("```js") == 7
    for number, (program, output) in enumerate(examples):
        (project / f"readme{number}.mjs").write_text(program.replace("http://127.0.0.1:9324", running.endpoint))
        assert run(project, f"readme{number}.mjs", TALLY_ENDPOINT=running.endpoint,
                   **{**database, "PGDATABASE": "readme"}) == output


def test_what_the_readme_installs_stays_a_copy(tmp_path):
    """A link would find the SDK beside Tally's sources only, where it is not."""
    (block,) = re.findall(r"```sh\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    configure, install, _ = block.splitlines()
    assert install.startswith("npm install TALLY/clients/javascript @aws-sdk/")
    other, project = tmp_path / "other", tmp_path / "shop"
    for folder in (other, project):
        folder.mkdir()
        (folder / "package.json").write_text(json.dumps({"name": folder.name, "version": "1.0.0"}))
    # Without a network the SDK can't come; the package is the same without it.
    environment = clean_environment(npm_config_cache=str(tmp_path / "cache"), npm_config_legacy_peer_deps="true",
                                    npm_config_offline="true", npm_config_audit="false")
    for command in (configure, f"npm install {PACKAGE}", f"npm install {other}"):
        done = subprocess.run(["bash", "-c", command], cwd=project, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        if command != configure:
            copy = project / "node_modules" / "@tally-queue" / "client"
            assert (copy / "src" / "index.js").is_file() and not copy.is_symlink(), command


def test_what_is_rejected_on_a_queue_that_holds_is_held_and_no_dead_letter(project, running):
    running.call("AmazonSQS.CreateQueue", {"QueueName": "bad.fifo", "Attributes": {"FifoQueue": "true"}})
    arn = running.call("AmazonSQS.GetQueueAttributes", {"QueueUrl": "bad.fifo", "AttributeNames": ["QueueArn"]})[1]
    policy = json.dumps({"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": 9})
    running.call("AmazonSQS.CreateQueue", {"QueueName": "kept.fifo", "Attributes": {
        "FifoQueue": "true", "Tally.OnGroupFailure": "hold", "RedrivePolicy": policy}})
    for body in ("bad", "next"):
        running.call("AmazonSQS.SendMessage", {"QueueUrl": "kept.fifo", "MessageBody": body, "MessageGroupId": "g",
                                               "MessageDeduplicationId": body})
    program = """import { Reject, Worker } from "@tally-queue/client";
        const handler = () => { throw new Reject("no such parcel"); };
        await new Worker({ queue: "kept.fifo", handler, untilEmpty: true, log: (text) => console.log(text) }).run();"""
    said = run(project, "--input-type=module", "-e", program, TALLY_ENDPOINT=running.endpoint)
    assert said.splitlines()[0].endswith("no such parcel; attempt 1 was the last, its group is held"), said
    group, = running.call("Tally.ListGroups", {"QueueUrl": "kept.fifo"})[1]["Groups"]
    assert (group["State"], group["Messages"], group["Reason"]) == ("held", 2, "no such parcel")
    assert not running.call("AmazonSQS.ReceiveMessage", {"QueueUrl": "bad.fifo"})[1].get("Messages")
    running.call("Tally.ReleaseGroup", {"QueueUrl": "kept.fifo", "MessageGroupId": "g", "Action": "skip"})
    (message,) = running.call("AmazonSQS.ReceiveMessage", {"QueueUrl": "bad.fifo"})[1]["Messages"]
    assert message["Body"] == "bad"


def test_an_error_after_a_commit_changes_nothing(project, running):
    for name in ("source", "target"):
        running.call("AmazonSQS.CreateQueue", {"QueueName": name})
    for body in ("good", "late"):
        running.call("AmazonSQS.SendMessage", {"QueueUrl": "source", "MessageBody": body})
    program = """import { createClient, Worker } from "@tally-queue/client";
        const client = createClient();
        async function handler({ queue: QueueUrl, body: MessageBody, receiptHandle: ReceiptHandle }) {
          const Sends = [{ QueueUrl: "target", MessageBody }];
          await client.commit({ Sends, Deletes: [{ QueueUrl, ReceiptHandle }] });
          if (MessageBody === "late") throw new Error("after the commit");
        }
        const log = (text) => console.log(text);
        await new Worker({ queue: "source", handler, client, untilEmpty: true, log }).run();"""
    (line,) = run(project, "--input-type=module", "-e", program, TALLY_ENDPOINT=running.endpoint).splitlines()
    assert line.endswith("Error: after the commit; it had ended before"), line
    received = running.call("AmazonSQS.ReceiveMessage", {"QueueUrl": "target", "MaxNumberOfMessages": 10})[1]
    assert sorted(message["Body"] for message in received["Messages"]) == ["good", "late"]


# --- the actions ------------------------------------------------------------------------------------------------------


class NodeClient(ModelClient):
    """Calls through the client for JavaScript what the story calls."""

    def __init__(self, endpoint, process):
        super().__init__(endpoint)
        self.process, self.called = process, set()

    def call(self, action, **parameters):
        request = json.dumps({"action": action, "input": parameters},
                             default=lambda value: {"$bytes": base64.b64encode(value).decode()})
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer.get("status") == 200, f"{request}: {answer}"
        self.called.add(action)
        shape = self.model.side(action, "output")
        reply = self.plain(shape, answer["reply"]) if shape else answer["reply"]
        faults = list(self.model.faults(shape, reply, action, self.seen)) if shape else reply
        assert not faults, f"{action} {parameters}: {faults}"
        return reply

    def plain(self, name, value):
        """As it came over the wire. A time must have been a Date, and bytes an Uint8Array."""
        shape = self.model.shapes[name]
        if shape["type"] in ("timestamp", "blob"):
            (untagged,) = value.values()
            assert list(value) == ["$date" if shape["type"] == "timestamp" else "$bytes"], value
            return untagged
        if shape["type"] == "structure" and not shape.get("document"):
            return {key: self.plain(shape["members"][key]["shape"], item) for key, item in value.items()}
        if shape["type"] == "map":
            return {key: self.plain(shape["value"]["shape"], item) for key, item in value.items()}
        return [item if item is None else self.plain(shape["member"]["shape"], item) for item in value
                ] if shape["type"] == "list" else value


class PlainStory(Story):
    """Without requests that must be refused: those are for the model's own test."""

    def call(self, action, **parameters):
        return self.client.call(action, **parameters)


def test_each_action_is_a_method_that_answers_as_the_model_says(project, tmp_path, daemon_factory):
    daemon = daemon_factory("--slow-request", "1ms").start()
    story = PlainStory(daemon, tmp_path)
    process = start(project, "client_js_calls.mjs", TALLY_ENDPOINT=daemon.endpoint)
    story.client = NodeClient(daemon.endpoint, process)
    story.run()
    _, err = process.communicate(timeout=10 * PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert story.client.called == story.run_examples == set(Model().operations)


def test_credentials_and_the_worker_name(project, daemon_factory, tmp_path):
    (tmp_path / "credentials").write_text("FRONT secret 000000000000 read,write,admin\n")
    daemon = daemon_factory("--credentials", tmp_path / "credentials").start()
    program = """
        import { createClient } from "@tally-queue/client";
        const [endpoint] = process.argv.slice(1);
        const refused = createClient({ endpoint }).listBatches().catch((error) => error);
        console.log((await refused).name, (await refused).status, (await refused).code);
        const credentials = { accessKeyId: "FRONT", secretAccessKey: "secret" };
        const client = createClient({ endpoint, credentials, name: "front" });
        await client.sqs.createQueue({ QueueName: "q" });
        await client.sqs.sendMessage({ QueueUrl: "q", MessageBody: "m" });
        await client.sqs.receiveMessage({ QueueUrl: "q" });
        for await (const { Holder } of client.each.listInFlight()) console.log(Holder.Worker, Holder.AccessKeyId);
    """
    environment = {"AWS_ACCESS_KEY_ID": "", "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    assert run(project, "--input-type=module", "-e", program, daemon.endpoint, **environment) == (
        "UnrecognizedClientException 403 InvalidClientTokenId\nfront FRONT\n")


# --- workers, batches, matchers, once ---------------------------------------------------------------------------------


def test_workers_batches_and_matchers(project, running):
    run(project, "client_js.mjs", TALLY_ENDPOINT=running.endpoint)


def test_once(project, server, database):
    server.sql("CREATE DATABASE once")
    environment = {**database, "PGDATABASE": "once"}
    run_schema(environment)
    run(project, "client_js_once.mjs", SQLITE_SCHEMA=outbox_schema("sqlite"), **environment)


def test_once_in_mysql(project):
    from outbox_mysql import MysqlOutbox

    with mysql_server() as server:
        run(project, "client_js_once_mysql.mjs", MysqlOutbox(server).source)


def run_schema(environment):
    subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1"], input=outbox_schema("postgres"), check=True, text=True,
                   env=clean_environment(**environment), stdout=subprocess.DEVNULL)


def test_the_example_of_a_batch(project, running):
    assert run(project, "batch.mjs", "20", TALLY_ENDPOINT=running.endpoint) == (
        "succeeded: 20 of 20, the sum of their squares is 2470\n")


def test_the_example_of_a_matcher(project, running):
    running.call("AmazonSQS.CreateQueue", {"QueueName": "games"})
    pool = {"PoolName": "games", "ResultQueueUrl": "games", "Attributes": {"rating": "num"}, "Matcher": "external"}
    assert running.call("Tally.CreatePool", pool)[0] == 200
    tickets = [{"TicketId": str(n), "Attributes": {"rating": n}} for n in (1000, 1300, 1080, 1390, 2000)]
    running.call("Tally.OfferTickets", {"PoolName": "games", "Tickets": tickets})
    process = start(project, "matcher.mjs", "games", TALLY_ENDPOINT=running.endpoint)
    wait_until(lambda: running.call("Tally.CountTickets", {"PoolName": "games"})[1]["Tickets"] == 1, 20)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=10 * PATIENCE)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_worker_that_stood_still_leaves_its_message_to_others(project, running):
    for action, request in [("CreateQueue", {"QueueName": "still"}),
                            ("SendMessage", {"QueueUrl": "still", "MessageBody": "m"})]:
        running.call(f"AmazonSQS.{action}", request)
    program = """
        import { Worker } from "@tally-queue/client";
        async function handler({ isHeld, signal }) {
          console.log(isHeld);
          signal.addEventListener("abort", () => { console.log(signal.reason.message); worker.stop(); });
          await new Promise((resolve) => setTimeout(resolve, 4000));
          signal.throwIfAborted();
        }
        const worker = new Worker({ queue: "still", handler, visibility: 1 });
        await worker.run();
    """
    process = start(project, "--input-type=module", "-e", program, TALLY_ENDPOINT=running.endpoint)
    assert process.stdout.readline() == "true\n"
    process.send_signal(signal.SIGSTOP)
    request = {"QueueUrl": "still", "WaitTimeSeconds": 10, "VisibilityTimeout": 60}
    assert running.call("AmazonSQS.ReceiveMessage", request)[1]["Messages"]
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=20 * PATIENCE)
    assert (process.returncode, out) == (0, "its heartbeat came too late\n"), err
    assert "its lease is lost, so another worker may have it: its heartbeat came too late" in err
    (held,) = running.call("Tally.ListInFlight", {"QueueUrl": "still"})[1]["Messages"]
    assert held["VisibleAt"] - held["ReceivedAt"] > 50


def test_a_heartbeat_without_a_reply_does_not_hold_up_the_end(project, daemon, http_proxy):
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "m"})
    http_proxy.keep("AmazonSQS.ChangeMessageVisibility")
    program = """
        import { Worker } from "@tally-queue/client";
        const handler = ({ signal }) => new Promise((resolve, reject) => signal.addEventListener("abort", reject));
        await new Worker({ queue: "q", handler, visibility: 24, grace: 0 }).run();
    """
    process = start(project, "--input-type=module", "-e", program, TALLY_ENDPOINT=http_proxy.endpoint)
    wait_until(lambda: http_proxy.kept == 1, 20)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=6 * PATIENCE)  # three of them are for the handler
    assert process.returncode == 0 and "did not end in time" in err, err


@pytest.mark.parametrize("signals, words", [(1, "begun\nended\n"), (2, "begun\nAbortError\n")])
def test_signals_stop_a_worker(project, running, signals, words):
    queue = f"signals-{signals}"
    running.call("AmazonSQS.CreateQueue", {"QueueName": queue})
    running.call("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": "m"})
    program = """
        import { setTimeout as sleep } from "node:timers/promises";
        import { Worker } from "@tally-queue/client";
        async function handler({ signal }) {
          console.log("begun");
          await sleep(1000, undefined, { signal }).catch((error) => { console.log(error.name); throw error });
          console.log("ended");
        }
        await new Worker({ queue: process.argv[1], handler }).run();
    """
    process = start(project, "--input-type=module", "-e", program, queue, TALLY_ENDPOINT=running.endpoint)
    first = process.stdout.readline()
    for number in [signal.SIGTERM, signal.SIGINT][:signals]:
        process.send_signal(number)
        time.sleep(0.1)
    out, err = process.communicate(timeout=10 * PATIENCE)
    assert (process.returncode, first + out, err) == (0, words, "")
    _, stats = running.call("Tally.ListQueueStats", {"QueueNamePrefix": queue})
    assert stats["Queues"][0]["Visible"] == signals - 1


def test_each_payment_is_booked_once_whoever_is_killed(project, daemon_factory, server, database):
    """The example of a worker. kill -9 of the daemon and of workers, which are started again."""
    server.sql("CREATE DATABASE kills")
    environment = {**database, "PGDATABASE": "kills"}
    run_schema(environment)
    connection = server.connect(dbname="kills")
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE payment (account text, amount int)")

    def booked():
        cursor.execute("SELECT count(*), count(DISTINCT amount) FROM payment")
        return cursor.fetchone()

    book_while_killing(project, daemon_factory().start(), booked, "worker.mjs", "payments", **environment)
    connection.close()


def test_each_payment_is_booked_once_in_mysql_whoever_is_killed(project, daemon_factory):
    from outbox_mysql import MysqlOutbox

    with mysql_server() as server:
        outbox = MysqlOutbox(server)
        outbox.ask("CREATE TABLE payment (account TEXT, amount INT)")
        book_while_killing(project, daemon_factory().start(),
                           lambda: outbox.ask("SELECT count(*), count(DISTINCT amount) FROM payment")[0],
                           "client_js_worker_mysql.mjs", outbox.source)


def book_while_killing(project, daemon, booked, *command, **environment):
    """`booked` says how many payments there are, and of how many amounts."""
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "payments"})
    environment["TALLY_ENDPOINT"] = daemon.endpoint
    workers = [start(project, *command, **environment) for _ in range(2)]
    for number in range(200):
        request = {"QueueUrl": "payments", "MessageBody": f"ann {number}", "MessageDeduplicationId": str(number)}
        assert daemon.call("AmazonSQS.SendMessage", request)[0] == 200
        if number % 100 == 50:
            daemon.kill9()
            daemon.start()
        elif number % 100 == 99:
            killed = workers.pop(0)
            killed.kill()
            killed.communicate()
            workers.append(start(project, *command, **environment))
    wait_until(lambda: booked()[1] == 200, 40)
    told = []
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        out, err = worker.communicate(timeout=20 * PATIENCE)
        assert (worker.returncode, out) == (0, ""), err
        told += err.splitlines()
    assert [line for line in told if not line.endswith(("trying again until it works", "answers again"))] == []
    assert booked() == (200, 200)
