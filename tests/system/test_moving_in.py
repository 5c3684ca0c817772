"""docs/how-to/moving-in.md: each script of the page, word for word, with the real server that it reads from. It is
killed, and run again, and each message is there once."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest
from clients import needs, needs_celery
from clock import Clock
from conftest import BIN, IS_BARE, PATIENCE, ROOT, clean_environment, wait_until
from old_systems import Beanstalkd, RabbitMQ, Redis
from queues import count_messages
from test_export import bodies, listed
from wire import SCALE, scaled

DOCUMENT = (ROOT / "docs/how-to/moving-in.md").read_text()
MODULES = pathlib.Path(__file__).with_name("node_modules")


SIDEKIQS_RETRIES = re.search(r"^\| retries: 25 in 21 days \|.*`(--max-attempts [^`]+)`", DOCUMENT, re.MULTILINE)[1]


def has_module(name):
    return importlib.util.find_spec(name) is not None


class Move:
    """What the page says to type of a system: its script, and the command that runs it into the import."""

    def __init__(self, daemon, folder, heading):
        part = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", DOCUMENT, re.DOTALL | re.MULTILINE)[1]
        self.name = re.search(r"`(\w+\.(?:py|mjs))`", part)[1]
        script = re.search(r"```(?:python|js)\n(.*?)```", part, re.DOTALL)[1]
        self.command = re.search(r"```bash\n(.*?)```", part, re.DOTALL)[1]
        self.folder, self.daemon = folder, daemon
        (folder / self.name).write_text(script)
        self.type(re.search(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL)[1])

    def type(self, commands, status=0):
        done = subprocess.run(["bash", "-euc", commands], cwd=self.folder, capture_output=True, text=True, check=False,
                              timeout=60 * PATIENCE, env=clean_environment(
                                  TALLY_ENDPOINT=self.daemon.endpoint, PATH=f"{BIN}:/usr/bin:{os.environ['PATH']}"))
        assert done.returncode == status, commands + done.stdout + done.stderr
        return done

    def run(self, **words):
        """With other words for those of the page."""
        command = self.command
        for old, new in words.items():
            assert old.strip("_") in command
            command = command.replace(old.strip("_"), str(new))
        return self.type(command)

    def run_cut(self, lines, **words):
        """The script dies after so many lines, as by a kill; the import goes on with what it has."""
        runs = self.command
        self.command = runs.replace(" | ", f" | head -n {lines} | ").replace("set -o pipefail", "")
        said = self.run(**words).stdout
        self.command = runs
        assert said == f"sent {lines}, known 0\n"


@pytest.fixture
def redis(tmp_path):
    needs(Redis.is_there(), "redis-server")
    needs(has_module("redis"), "python3-redis")
    server = Redis(tmp_path / "redis").start()
    yield server
    server.stop()


def test_a_list_of_redis_moves_in(daemon, tmp_path, redis):
    move = Move(daemon, tmp_path, "Redis lists")
    expected = [f"job {number}" for number in range(1200)] + ["twice", "ä\n", "twice"]
    redis.client.lpush("jobs", *expected)
    move.run_cut(1100, _6379=redis.port)
    assert move.run(_6379=redis.port).stdout == "sent 103, known 1100\n"
    assert bodies(daemon, "jobs") == expected
    redis.client.lpush("jobs", "came later", "twice")
    assert move.run(_6379=redis.port).stdout == "sent 2, known 1203\n"
    assert redis.client.llen("jobs") == 1205 and count_messages(daemon, "jobs") == 1205
    redis.client.lpush("jobs", b"\xff\x00")
    failed = move.type(move.command.replace("6379", str(redis.port)), status=1)
    assert "UnicodeDecodeError" in failed.stderr and failed.stdout == "sent 0, known 1205\n"


def test_a_stream_of_redis_moves_in(daemon, tmp_path, redis):
    move = Move(daemon, tmp_path, "Redis streams")
    with redis.client.pipeline() as pipeline:
        for number in range(2300):
            pipeline.xadd("orders", {"n": number, "what": "ä"})
        pipeline.execute()
    redis.client.xgroup_create("orders", "shipping", "0")
    taken = redis.client.xreadgroup("shipping", "me", {"orders": ">"}, count=1200)[0][1]
    redis.client.xack("orders", "shipping", *[name for name, _ in taken[:90]])
    move.run_cut(1500, _6379=redis.port)
    assert move.run(_6379=redis.port).stdout == "sent 710, known 1500\n"
    assert [json.loads(body)["n"] for body in bodies(daemon, "jobs")] == [str(number) for number in range(90, 2300)]
    assert json.loads(bodies(daemon, "jobs")[0])["what"] == "ä"
    assert move.run(_6379=redis.port, shipping="").stdout == "sent 90, known 2210\n"


def test_the_jobs_of_beanstalkd_move_in(daemon, tmp_path):
    needs(Beanstalkd.is_there(), "beanstalkd")
    move = Move(daemon, tmp_path, "beanstalkd")
    server = Beanstalkd(tmp_path / "beanstalkd").start()
    try:
        server.ask("use other", "put 1 0 60 5\r\nother", "use mails", *[
            f"put {number % 5} 0 60 {len(str(number))}\r\n{number}" for number in range(600)],
            "put 1 500 60 5\r\nlater", "put 1 5000 60 8\r\nmuch lat")
        answers = server.ask("watch mails", "reserve")
        assert answers[-1][0] == "RESERVED"
        move.run_cut(400, _11300=server.port)
        done = move.run(_11300=server.port)
        assert done.stdout == "sent 201, known 400\n" and "1 jobs are due later" in done.stderr
        assert bodies(daemon, "jobs") == [*(str(number) for number in range(600)), "later"]
        left = next(one for one in listed(daemon, "jobs") if one["Body"] == "later")["Why"][0]["Until"] - time.time()
        assert 450 < left < 501
        assert move.run(_11300=server.port).stdout == "sent 0, known 601\n"
    finally:
        server.stop()


@pytest.mark.skipif(not IS_BARE or SCALE < 0.5, reason="RabbitMQ takes 10 s to start; ./test long plays it")
def test_the_messages_of_rabbitmq_move_in(daemon, tmp_path):
    needs(has_module("pika"), "python3-pika")
    if not RabbitMQ.is_there():
        pytest.skip("./setup bench brings rabbitmq-server")
    import pika

    move = Move(daemon, tmp_path, "RabbitMQ")
    server = RabbitMQ(tmp_path / "rabbitmq").start()
    try:
        channel = server.connect().channel()
        channel.queue_declare("orders", durable=True)
        for number in range(scaled(600)):
            properties = pika.BasicProperties(message_id=f"m-{number}") if number % 2 else None
            channel.basic_publish("", "orders", str(number).encode(), properties)
        channel.basic_publish("", "orders", b"0")
        move.run_cut(400, _5672=server.port)
        assert move.run(_5672=server.port).stdout == "sent 201, known 400\n"
        assert sorted(bodies(daemon, "jobs")) == sorted([*(str(number) for number in range(600)), "0"])
        assert move.run(_5672=server.port).stdout == "sent 0, known 601\n"
    finally:
        server.stop()


def test_the_jobs_of_bullmq_move_in(daemon, tmp_path, redis):
    needs((MODULES / "bullmq").exists(), "bullmq")
    move = Move(daemon, tmp_path, "BullMQ")
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "fill.mjs").write_text("""
        import { Queue, Worker } from "bullmq";
        const connection = { host: "127.0.0.1", port: Number(process.argv[2]), maxRetriesPerRequest: null };
        const queue = new Queue("mails", { connection });
        const jobs = Array.from({ length: 1500 }, (_, n) => ({ name: "mail", data: { n, ä: "ä" } }));
        await queue.addBulk(jobs);
        await queue.add("mail", { n: "first" }, { priority: 1, jobId: "mine" });
        await queue.add("mail", { n: "soon" }, { delay: 400_000 });
        await queue.add("mail", { n: "late" }, { delay: 4_000_000 });
        const worker = new Worker("mails", null, { connection });
        await worker.getNextJob("token");
        await worker.close();
        await queue.close();
    """)
    move.type(f"node fill.mjs {redis.port}")
    move.run_cut(1200, _6379=redis.port)
    done = move.run(_6379=redis.port)
    assert done.stdout == "sent 302, known 1200\n" and "1 jobs are due later" in done.stderr
    found = [json.loads(body) for body in bodies(daemon, "jobs")]
    assert sorted(str(job["data"]["n"]) for job in found) == sorted([*map(str, range(1500)), "first", "soon"])
    assert {job["name"] for job in found} == {"mail"} and found[0]["data"]["ä"] == "ä"
    soon = next(one for one in listed(daemon, "jobs") if '"soon"' in one["Body"])
    assert soon["State"] == "delayed" and 350 < soon["Why"][0]["Until"] - time.time() < 401


def test_the_jobs_of_sidekiq_move_in(daemon, tmp_path, redis):
    """What waits, what is to be tried again, and what is due soon. What another queue has, and the dead, stay."""
    needs(shutil.which("ruby") and pathlib.Path("/usr/share/doc/ruby-sidekiq").exists(), "ruby-sidekiq")
    move = Move(daemon, tmp_path, "Sidekiq")
    (tmp_path / "fill.rb").write_text("""
        require "sidekiq"
        class Mail
          include Sidekiq::Worker
          sidekiq_options queue: "mails"
        end
        Sidekiq.configure_client { |config| config.redis = { url: "redis://127.0.0.1:#{ARGV[0]}/0" } }
        Sidekiq::Client.push_bulk("class" => Mail, "args" => (0...1500).map { |n| [n, "ä"] })
        Mail.set(queue: "other").perform_async("other")
        Mail.perform_in(400, "soon")
        Mail.perform_in(4000, "late")
        Mail.set(queue: "other").perform_in(400, "other")
    """)
    move.type(f"ruby fill.rb {redis.port}")
    (failed,) = redis.client.lrange("queue:mails", 0, 0)
    again = json.loads(failed) | {"jid": "again", "args": ["again"], "retry_count": 3, "error_message": "no"}
    redis.client.zadd("retry", {json.dumps(again): time.time() - 1})
    redis.client.zadd("dead", {json.dumps(again | {"jid": "dead"}): time.time()})
    move.run_cut(1200, _6379=redis.port)
    done = move.run(_6379=redis.port)
    assert done.stdout == "sent 302, known 1200\n" and "1 jobs are due later" in done.stderr
    found = [json.loads(body) for body in bodies(daemon, "jobs")]
    assert {job["class"] for job in found} == {"Mail"}
    assert [job["args"] for job in found] == [*([n, "ä"] for n in range(1500)), ["again"], ["soon"]]
    soon = next(one for one in listed(daemon, "jobs") if '"soon"' in one["Body"])
    assert soon["State"] == "delayed" and 350 < soon["Why"][0]["Until"] - time.time() < 401
    assert move.run(_6379=redis.port).stdout == "sent 0, known 1502\n"


CELERY = """
import json, os, sys
from celery import Celery
app = Celery("tasks", broker=sys.argv[1] if __name__ == "__main__" else os.environ["BROKER"])
@app.task(name="note")
def note(number):
    with open("effects", "a") as effects:
        effects.write(f"{number}\\n")
if __name__ == "__main__":
    for number in range(int(sys.argv[2])):
        note.apply_async((number,), priority=9 if number % 5 == 0 else 0)
"""


def test_the_tasks_of_celery_move_in_and_run(daemon, tmp_path, redis):
    """Sent to a broker of Redis; run once by a worker that has the settings of the page."""
    needs_celery()
    count = scaled(300, least=40)
    move = Move(daemon, tmp_path, "Celery")
    (tmp_path / "tasks.py").write_text(CELERY)
    move.type(f"/usr/bin/python3 tasks.py redis://127.0.0.1:{redis.port} {count}")
    (taken,) = redis.client.lrange("celery", -1, -1)
    redis.client.rpop("celery")  # a worker has reserved it
    redis.client.hset("unacked", "tag", json.dumps([json.loads(taken), "", "celery"]))
    redis.client.hset("unacked", "another", json.dumps([json.loads(taken), "", "other"]))
    move.run_cut(count // 2, _6379=redis.port)
    assert move.run(_6379=redis.port).stdout == f"sent {count - count // 2}, known {count // 2}\n"
    settings = re.search(r"^## Celery$.*?```ini\n(.*?)```", DOCUMENT, re.DOTALL | re.MULTILINE)[1]
    settings = settings.replace("127.0.0.1:9324", f"127.0.0.1:{daemon.port}").replace("KEY:SECRET", "any:thing")
    (tmp_path / "celeryconfig.py").write_text(settings)
    worker = subprocess.Popen(
        ["/usr/bin/python3", "-m", "celery", "-A", "tasks", "--config", "celeryconfig", "worker", "--pool", "solo",
         "--without-gossip", "--without-mingle", "--without-heartbeat"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=clean_environment(BROKER=f"sqs://any:thing@127.0.0.1:{daemon.port}//", AWS_CONFIG_FILE="/dev/null",
                              PYTHONDONTWRITEBYTECODE="1"))
    try:
        ran = lambda: (tmp_path / "effects").read_text().split()  # noqa: E731
        wait_until(lambda: (tmp_path / "effects").exists() and len(ran()) >= count, 60, "the last task")
        wait_until(lambda: count_messages(daemon, "jobs") == 0, 20, "the last delete")
        assert sorted(map(int, ran())) == list(range(count))
    finally:
        worker.kill()
        worker.wait()


def test_what_stands_for_the_retries_of_sidekiq_ends_in_the_dead_letter_queue(daemon_factory):
    """And not before, when the message is too old."""
    clock, daemon = Clock(), daemon_factory()
    with clock.around():
        daemon.start()
    subprocess.run([BIN / "tally", "queue", "create", "jobs", "--dead-letter", "dead", *SIDEKIQS_RETRIES.split()],
                   env=clean_environment(TALLY_ENDPOINT=daemon.endpoint), check=True, timeout=60 * PATIENCE)
    daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "jobs", "MessageBody": "job"})
    for attempt in range(1, 26):
        status, reply = daemon.call("AmazonSQS.ReceiveMessage", {"QueueUrl": "jobs", "WaitTimeSeconds": 5})
        assert reply.get("Messages"), f"attempt {attempt} was not made, after {clock.spent / 86400:.1f} days"
        failed = {"QueueUrl": "jobs", "ReceiptHandle": reply["Messages"][0]["ReceiptHandle"]}
        told = daemon.call("Tally.FailMessage", failed)[1]
        clock.spend(told.get("RetryAfterSeconds", 0) + 1)
    assert told["Outcome"] == "dead-lettered"
    assert 6 <= clock.spent / 86400 <= 8
