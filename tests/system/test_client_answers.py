"""Workers of the clients, before whose server something stands that answers in its place, or spoils its answers."""

import contextlib
import functools
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading

import pytest
from bad_answers import BAD_ANSWERS
from clients import Guarded, hold_until_visible, queue_counts
from conftest import IS_BARE, PATIENCE, ROOT, Daemon, clean_environment, wait_until
from http_proxy import HttpProxy
from javascript import make_project, start
from relay import outbox_schema

pytestmark = pytest.mark.skipif(not IS_BARE, reason="the clients are the same, whatever the server runs in")

# For each queue and its endpoint a worker, until standard input ends. A message fails once, after two heartbeats, and
# succeeds then. Each line tells a queue and what happened.
JAVASCRIPT = """
    import { setTimeout as sleep } from "node:timers/promises";
    import { createClient, Worker } from "@tally-queue/client";
    const tell = (...words) => console.log(JSON.stringify(words));
    const workers = process.argv.slice(1).map((argument) => {
      const [queue, endpoint] = argument.split(" ");
      async function handler({ body, failureReason }) {
        if (failureReason !== undefined) return tell(queue, "done", body);
        await sleep(2500);
        throw new Error("not now");
      }
      const log = (text) => tell(queue, "told", text);
      const client = createClient({ endpoint });
      const worker = new Worker({ queue, handler, client, visibility: 3, retryAfter: 0, log });
      worker.run().then(() => tell(queue, "ended", ""), (error) => tell(queue, "ended", String(error)));
      return worker;
    });
    process.stdin.on("end", () => workers.forEach((worker) => worker.stop())).resume();
"""
PYTHON = """if True:
    import json, logging, sys, threading, time, tally

    def tell(*words):
        sys.stdout.write(json.dumps(words) + "\\n")

    class Log(logging.Handler):
        def emit(self, record):
            tell(record.threadName.split()[1], "told", record.getMessage())

    logging.getLogger("tally.worker").addHandler(Log())
    logging.getLogger("tally.worker").propagate = False

    def work(queue, worker):
        try:
            worker.run()
            tell(queue, "ended", "")
        except Exception as error:
            tell(queue, "ended", repr(error))

    def start(queue, endpoint):
        def handle(message):
            if message.failure_reason:
                return tell(queue, "done", message.body)
            time.sleep(2.5)
            raise ValueError("not now")

        worker = tally.Worker(queue, handle, client=tally.client(endpoint), visibility=3, retry_after=0)
        threading.Thread(target=work, args=[queue, worker]).start()
        return worker

    workers = [start(*argument.split()) for argument in sys.argv[1:]]
    sys.stdin.read()
    for worker in workers:
        worker.stop()
"""
ACTIONS = ["AmazonSQS.GetQueueAttributes", "AmazonSQS.ReceiveMessage", "AmazonSQS.DeleteMessage", "Tally.FailMessage"]
BEATS = {"javascript": "AmazonSQS.ChangeMessageVisibility", "python": "AmazonSQS.ChangeMessageVisibilityBatch"}
ATTEMPTS = {"javascript": 3, "python": 1}  # of the SDK in a worker
BODY = "m is a secret"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    daemon = Daemon(tmp_path_factory.mktemp("shared")).start()
    yield daemon
    assert daemon.stop() == 0, daemon.error_text()


def start_workers(language, project, arguments):
    if language == "javascript":
        return start(project, "--input-type=module", "-e", JAVASCRIPT, *arguments)
    environment = clean_environment(PYTHONDONTWRITEBYTECODE="1", AWS_ACCESS_KEY_ID="any", AWS_SECRET_ACCESS_KEY="any",
                                    PYTHONPATH=f"{ROOT / 'clients' / 'python'}:{os.environ.get('PYTHONPATH', '')}")
    return subprocess.Popen([sys.executable, "-c", PYTHON, *arguments], env=environment, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


CASES = [(language, name) for language in BEATS for name in BAD_ANSWERS
         if (language, name) != ("python", "a changed body")]  # botocore looks at no checksum


@pytest.fixture(scope="module")
def outcomes(project, running):
    """By language what work_behind_all() returns, which runs once."""
    return functools.cache(lambda language: work_behind_all(language, project, running))


def work_behind_all(language, project, running):
    """By name of each bad answer: what a worker told that got it instead of some answers of each kind, and how many of
    each kind it got. And by None how the process of these workers ended."""
    targets = [*ACTIONS, BEATS[language]]
    proxies = {}
    with contextlib.ExitStack() as stack:
        for number, (make, _, is_reset) in enumerate(BAD_ANSWERS.values()):
            queue = f"{language}-{number}"
            running.call("AmazonSQS.CreateQueue", {"QueueName": queue})
            running.call("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": BODY})
            proxies[queue] = stack.enter_context(contextlib.closing(HttpProxy(running.port)))
            proxies[queue].spoil(make, ATTEMPTS[language], *targets, is_reset=is_reset)
        process = start_workers(language, project, [f"{queue} {proxy.endpoint}" for queue, proxy in proxies.items()])
        with contextlib.suppress(AssertionError):  # of what failed each test tells its part
            wait_until(lambda: all(queue_counts(running, queue) == (0, 0, 0) for queue in proxies), 120)
        out, err = process.communicate(timeout=20 * PATIENCE)
    told = [json.loads(line) for line in out.splitlines()]
    return {name: ([words for queue, *words in told if queue == f"{language}-{number}"],
                   [proxies[f"{language}-{number}"].spoiled[target] for target in targets])
            for number, name in enumerate(BAD_ANSWERS)} | {None: (process.returncode, err)}


@pytest.mark.parametrize("language, name", CASES)
def test_an_answer_of_somebody_else_is_a_server_that_is_away(outcomes, language, name):
    """Nobody but the server ends a worker or a lease."""
    told, spoiled = outcomes(language)[name]
    assert [words for kind, words in told if kind == "ended"] == [""]
    assert [words for kind, words in told if kind == "done"] == [BODY]
    text = "\n".join(words for kind, words in told if kind == "told")
    assert min(spoiled) >= 1
    assert "secret" not in text and "lease is lost" not in text, text
    assert "trying again until it works\nthe server answers again" in text


@pytest.mark.parametrize("language", BEATS)
def test_their_process_ends_well(outcomes, language):
    assert outcomes(language)[None] == (0, "")


def test_a_worker_in_javascript_says_what_answered(outcomes):
    told = {name: [words for kind, words in outcomes("javascript")[name][0] if kind == "told"] for name in BAD_ANSWERS}
    for name, answer in BAD_ANSWERS.items():
        assert answer.words in "\n".join(told[name]), name
    for name, words in [
        ("a page", "status 200, text/html: Bad Gateway"),
        ("a redirect", "status 302 to https://login.example/, text/html: Bad Gateway"),
        ("429 in JSON", 'status 429, application/json: {"message":"Too Many Requests"}'),
    ]:
        assert f"what answered is not Tally: {words}; trying again until it works" in told[name]


# --- what a worker in JavaScript does besides -------------------------------------------------------------------------


@pytest.fixture
def queue(daemon):
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    return "q"


def send(daemon, *bodies):
    for body in bodies:
        assert daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": body})[0] == 200


def begin(project, endpoint, program, **environment):
    head = 'import { createClient, errors, Matcher, UnreadableReply, Worker } from "@tally-queue/client";'
    return start(project, "--input-type=module", "-e", head + program, TALLY_ENDPOINT=endpoint, **environment)


def end(process, seconds=20):
    """What it printed, out and err, when it has ended well within that time."""
    out, err = process.communicate(timeout=seconds * PATIENCE)
    assert process.returncode == 0, out + err
    return out, err


def test_a_call_behind_a_proxy_throws_what_answered_and_is_sent_again(project, queue, http_proxy):
    program = """
        const client = createClient();
        const caught = (error) => console.log(error instanceof UnreadableReply, error.status, error.message);
        await client.listBatches().catch(caught);
        await client.sqs.listQueues().catch(caught);
        console.log((await client.listBatches()).Batches.length, (await client.sqs.listQueues()).QueueUrls.length);
        await client.describeBatch({ BatchId: "b" }).catch(({ name }) => console.log(name));
        await client.sqs.getQueueUrl({ QueueName: "gone" }).catch(({ name }) => console.log(name));
    """
    http_proxy.spoil(BAD_ANSWERS["a page of 502"].make, 3, "Tally.ListBatches", "AmazonSQS.ListQueues")
    http_proxy.spoil(BAD_ANSWERS["a page"].make, 2, "Tally.DescribeBatch", "AmazonSQS.GetQueueUrl")
    said = "true 502 what answered is not Tally: status 502, text/html: Bad Gateway\n"
    assert end(begin(project, http_proxy.endpoint, program)) == (
        f"{said}{said}0 1\nBatchDoesNotExist\nQueueDoesNotExist\n", "")


def test_a_matcher_behind_a_proxy_goes_on(project, daemon, queue, http_proxy):
    daemon.call("Tally.CreatePool", {"PoolName": "p", "ResultQueueUrl": queue, "Attributes": {"n": "num"},
                                     "Matcher": "external"})
    daemon.call("Tally.OfferTickets", {"PoolName": "p", "Tickets": [
        {"TicketId": f"t{n}", "Attributes": {"n": n}} for n in range(2)]})
    http_proxy.spoil(BAD_ANSWERS["a page of 404"].make, 3, "Tally.FeedTickets", "Tally.ProposeMatches")
    program = 'await new Matcher({ pool: "p", find: (tickets) => (tickets.length > 1 ? [tickets] : []) }).run();'
    process = begin(project, http_proxy.endpoint, program)
    wait_until(lambda: queue_counts(daemon, queue)[0] == 1, 20)
    process.terminate()
    process.communicate()
    assert min(http_proxy.spoiled[target] for target in ("Tally.FeedTickets", "Tally.ProposeMatches")) >= 1


def test_the_server_itself_ends_a_worker(project, daemon_factory, tmp_path):
    (tmp_path / "credentials").write_text("FRONT secret 000000000000 read,write,admin\n")
    daemon = daemon_factory("--credentials", tmp_path / "credentials").start()
    program = """
        const credentials = (secretAccessKey) => ({ accessKeyId: "FRONT", secretAccessKey });
        const [client, stranger] = ["secret", "guess"].map((word) => createClient({ credentials: credentials(word) }));
        const end = (client) => new Worker({ queue: "q", handler() {}, client }).run().catch(({ name }) => name);
        console.log(await end(client));
        await client.sqs.createQueue({ QueueName: "q" });
        console.log(await end(stranger));
        const isWaiting = async () => (await client.listQueueStats()).Queues[0].WaitingReceives === 1;
        const ended = end(client);
        while (!(await isWaiting()));
        await client.sqs.deleteQueue({ QueueUrl: "q" });
        console.log(await ended);
    """
    out, err = end(begin(project, daemon.endpoint, program), 30)
    assert (out, err) == ("QueueDoesNotExist\nSignatureDoesNotMatch\nQueueDoesNotExist\n", "")


def test_a_clock_that_is_off_ends_no_worker(project, daemon_factory, tmp_path):
    """The SDK signs with the server's time, which it learns from the header Date; also when that jumps."""
    guarded = Guarded(daemon_factory, tmp_path)
    program = """
        import { once } from "node:events";
        const client = createClient({ credentials: { accessKeyId: "FRONT", secretAccessKey: "secret" } });
        await client.sqs.createQueue({ QueueName: "q" });
        await client.sqs.sendMessage({ QueueUrl: "q", MessageBody: "m" });
        async function handler({ body, receiveCount }) {
          console.log("had", body);
          if (receiveCount > 1) return worker.stop();
          await once(process.stdin, "data");
          throw new Error("not now");
        }
        const worker = new Worker({ queue: "q", handler, client, retryAfter: 0 });
        await worker.run();
        process.stdin.destroy();
    """
    guarded.set_clock(3600)
    process = begin(project, guarded.endpoint, program)
    assert process.stdout.readline() == "had m\n"
    guarded.set_clock(-3600)
    process.stdin.write("go on\n")
    process.stdin.flush()
    out, err = end(process)
    assert out == "had m\n" and "not now; attempt 1 of 25" in err and "did not hear" not in err


MOST_ONCE = """
    const worker = new Worker({ queue: "q", handler: ({ body }) => console.log("had", body), grace: GRACE });
    process.on("SIGTERM", () => console.log("stopping"));
    await worker.run();
    process.exit();
"""


@pytest.mark.parametrize("grace, signals", [(1, 1), (60, 2)])
def test_a_worker_at_most_once_ends_within_its_grace(project, daemon, queue, http_proxy, grace, signals):
    """Its receive is waited for, because what comes with it comes only once; but no longer."""
    daemon.call("AmazonSQS.SetQueueAttributes", {
        "QueueUrl": queue, "Attributes": {"Tally.DeliveryMode": "at-most-once"}})
    http_proxy.keep("AmazonSQS.ReceiveMessage")
    process = begin(project, http_proxy.endpoint, MOST_ONCE.replace("GRACE", str(grace)))
    wait_until(lambda: http_proxy.kept == 1, 20)
    for _ in range(signals):
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stopping\n"
    assert end(process, 4) == ("", "the server did not answer within the grace: if it gave out a message meanwhile, "
                                   "that one is lost\n")


def test_a_worker_at_most_once_that_stops_handles_what_its_last_receive_brings(project, daemon, queue, http_proxy):
    daemon.call("AmazonSQS.SetQueueAttributes", {
        "QueueUrl": queue, "Attributes": {"Tally.DeliveryMode": "at-most-once"}})
    asked, go_on = threading.Event(), threading.Event()

    def watch(target, body):
        if target == "AmazonSQS.ReceiveMessage":
            asked.set()
            go_on.wait(10)

    http_proxy.watch = watch
    process = begin(project, http_proxy.endpoint, MOST_ONCE.replace("GRACE", "20"))
    assert asked.wait(20)
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "stopping\n"
    send(daemon, "m")
    go_on.set()
    assert end(process) == ("had m\n", "")


def test_credentials_that_never_come_do_not_hold_up_the_end(project, daemon, queue):
    program = """
        const client = createClient({ credentials: () => new Promise(() => setTimeout(() => {}, 60_000)) });
        const worker = new Worker({ queue: "q", handler() {}, client });
        setTimeout(() => worker.stop(), 200);
        await worker.run();
        console.log("ended");
        process.exit();
    """
    assert end(begin(project, daemon.endpoint, program), 10) == ("ended\n", "")


def test_a_server_that_is_silent_is_told_with_the_time(project, daemon, queue, http_proxy):
    send(daemon, "m")
    http_proxy.keep("AmazonSQS.ChangeMessageVisibility")
    program = """
        const handler = () => new Promise((resolve) => setTimeout(resolve, 5000));
        await new Worker({ queue: "q", handler, visibility: 6, untilEmpty: true }).run();
    """
    assert end(begin(project, http_proxy.endpoint, program)) == (
        "", "no reply within 2 s; trying again until it works\nthe server answers again\n")


# --- until the queue is empty -----------------------------------------------------------------------------------------

DRAIN = """
    const handler = ({ body }) => console.log("had", body);
    await new Worker({ queue: "q", handler, visibility: VISIBILITY, untilEmpty: true }).run();
"""


@pytest.mark.parametrize("count", [1, 3])  # the SDK repeats it, and does not any more
def test_a_worker_waits_for_what_a_lost_reply_had_in_it(project, daemon, queue, http_proxy, count):
    send(daemon, "m")
    http_proxy.lose("AmazonSQS.ReceiveMessage", count)
    out, err = end(begin(project, http_proxy.endpoint, DRAIN.replace("VISIBILITY", "8")), 40)
    assert out == "had m\n"
    assert re.search(r"^a reply was lost, perhaps with a message: waiting up to [2-9] s for it$", err, re.MULTILINE)


def test_a_worker_takes_a_lost_message_whose_lease_has_just_ended(project, daemon, queue, http_proxy):
    send(daemon, "m")
    http_proxy.lose("AmazonSQS.ReceiveMessage")
    http_proxy.watch = hold_until_visible(daemon, queue)
    assert end(begin(project, http_proxy.endpoint, DRAIN.replace("VISIBILITY", "3")), 40)[0] == "had m\n"


@pytest.mark.parametrize("options", ["", "retryAfter: 3,"])
def test_a_worker_waits_for_what_failed_when_the_reply_got_lost(project, daemon, http_proxy, options):
    """A FIFO queue refuses the repeat, because it has taken the failure."""
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q.fifo", "Attributes": {
        "FifoQueue": "true", "Tally.Backoff": '{"min": 3, "max": 3}'}})
    daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "q.fifo", "MessageBody": "m", "MessageGroupId": "g",
                                          "MessageDeduplicationId": "m"})
    http_proxy.lose("Tally.FailMessage")
    program = """
        const handler = ({ receiveCount }) => {
          console.log(receiveCount);
          if (receiveCount === 1) throw new Error("busy");
        };
        await new Worker({ queue: "q.fifo", handler, visibility: 1, OPTIONS untilEmpty: true }).run();
    """
    assert end(begin(project, http_proxy.endpoint, program.replace("OPTIONS", options)), 40)[0] == "1\n2\n"


def test_a_worker_does_not_wait_for_a_failed_message_that_another_one_has(project, daemon, queue):
    send(daemon, "m")
    program = """
        const { sqs } = createClient();
        async function handler({ receiptHandle: ReceiptHandle }) {
          await sqs.changeMessageVisibility({ QueueUrl: "q", ReceiptHandle, VisibilityTimeout: 0 });
          console.log((await sqs.receiveMessage({ QueueUrl: "q", VisibilityTimeout: 300 })).Messages.length);
          throw new Error("not now");
        }
        await new Worker({ queue: "q", handler, untilEmpty: true }).run();
        process.exit();
    """
    out, err = end(begin(project, daemon.endpoint, program), 20)
    assert out == "1\n" and "did not hear" not in err


def test_a_worker_does_not_wait_when_a_lost_reply_had_nothing_in_it(project, daemon, queue, http_proxy):
    http_proxy.lose("AmazonSQS.ReceiveMessage", 3)
    out, err = end(begin(project, http_proxy.endpoint, DRAIN.replace("VISIBILITY", "40000")), 20)
    assert (out, "perhaps" in err) == ("", False)


def test_a_worker_does_not_wait_for_others_when_no_reply_was_lost(project, daemon, queue, http_proxy):
    send(daemon, "m")
    daemon.call("AmazonSQS.ReceiveMessage", {"QueueUrl": queue, "VisibilityTimeout": 300})
    assert end(begin(project, http_proxy.endpoint, DRAIN.replace("VISIBILITY", "300")), 10) == ("", "")


# --- kills ------------------------------------------------------------------------------------------------------------

BOOK = """
    import { once } from "@tally-queue/client";
    import pg from "pg";
    const db = new pg.Pool();
    const effect = (body) => (connection) => connection.query("INSERT INTO payment VALUES ($1)", [body]);
    const handler = (message) => once(db, message, effect(message.body));
    await new Worker({ queue: "q", handler, concurrency: 4, visibility: 2 }).run();
    await db.end();
"""


def test_each_effect_happens_once_behind_a_bad_proxy_whoever_is_killed(project, daemon, queue, http_proxy, server):
    """Every fourth reply to the workers is a bad one, while daemon and workers are killed with -9."""
    server.sql("CREATE DATABASE bad_proxy")
    environment = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "tally", "PGDATABASE": "bad_proxy"}
    connection = server.connect(dbname="bad_proxy")
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute(outbox_schema("postgres") + "CREATE TABLE payment (number text)")
    chance = random.Random(29)
    makes = [answer.make for answer in BAD_ANSWERS.values()]

    def spoil(head, body):
        return chance.choice(makes)(head, body) if chance.random() < 0.25 else head + body

    http_proxy.spoil(spoil, 10**9, *ACTIONS, BEATS["javascript"])
    workers = [begin(project, http_proxy.endpoint, BOOK, **environment) for _ in range(2)]
    for number in range(120):
        send(daemon, f"m{number}")
        if number % 40 == 20:
            daemon.kill9()
            daemon.start()
        elif number % 40 == 39:
            killed = workers.pop(0)
            killed.kill()
            killed.communicate()
            workers.append(begin(project, http_proxy.endpoint, BOOK, **environment))

    def booked():
        cursor.execute("SELECT count(*), count(DISTINCT number) FROM payment")
        return cursor.fetchone()

    wait_until(lambda: booked()[1] == 120 and queue_counts(daemon, queue) == (0, 0, 0), 120)
    http_proxy.spoil(lambda head, body: head + body, 10**9, *ACTIONS)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        assert end(worker, 40)[0] == ""
    assert booked() == (120, 120)
    connection.close()
