"""What README.md tells a newcomer to type, word for word."""

import json
import os
import pathlib
import re
import subprocess
import time

from clients import needs, needs_celery
from conftest import BIN, PATIENCE, ROOT, clean_environment, wait_until


def commands_of(first, last):
    """The shell commands of the README's sections from the one heading to the other."""
    text = (ROOT / "README.md").read_text()
    part = text[text.index(first) : text.index(last)]
    blocks = re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
    assert blocks
    return "set -e\n" + "\n".join(blocks)


def test_the_first_commands_end_a_batch_of_which_a_unit_fails(daemon, tmp_path):
    text = (ROOT / "README.md").read_text()
    commands = re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1]
    assert "tally batch create night-42" in commands
    started = time.monotonic()
    done = subprocess.run(
        ["sh", "-ec", commands],
        capture_output=True,
        text=True,
        timeout=60 * PATIENCE,
        cwd=tmp_path,
        env=clean_environment(TALLY_ENDPOINT=daemon.endpoint, PATH=f"{BIN}:{os.environ['PATH']}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - started < 15 * PATIENCE
    completion = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert (completion["status"], completion["succeeded"], completion["failed"]) == ("failed", 2, 1)
    why = "It was returned 3 times, last failure: exit status 1; it was dead-lettered and is in queue dead now."
    assert done.stdout.endswith(f"why         {why}\n")
    assert len((done.stdout + done.stderr).splitlines()) < 20


def test_the_commands_about_order_and_about_exactly_once_work(daemon, tmp_path):
    done = subprocess.run(
        ["sh", "-c", commands_of("## Order, at last", "## The outbox, at last")],
        capture_output=True,
        text=True,
        timeout=120 * PATIENCE,
        cwd=tmp_path,
        env=clean_environment(TALLY_ENDPOINT=daemon.endpoint, PATH=f"{BIN}:{os.environ['PATH']}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines.index("post-17: first!") < lines.index("post-17: second!") and "post-18: hello" in lines
    assert "why         It waits for batch 'night-44', which has not completed." in lines
    assert lines.count("write the report") == 1 and lines[-1] == "paid: order 17"
    assert done.stderr.count("a duplicate of message") == 1


def test_the_outbox_of_the_readme_works(daemon, postgres):
    from relay import drain, wait_until_empty

    postgres.sql("CREATE DATABASE shop")
    text = (ROOT / "README.md").read_text()
    send, receive = re.findall(
        r"```sql\n(.*?)```", text[text.index("## The outbox, at last") : text.index("## Matched once, at last")],
        re.DOTALL)
    uri = postgres.uri.replace("/postgres", "/shop")
    assert "postgres:///shop" in text
    commands = commands_of("## The outbox, at last", "## Matched once, at last").replace("postgres:///shop", uri)
    environment = clean_environment(TALLY_ENDPOINT=daemon.endpoint, PATH=f"{BIN}:{os.environ['PATH']}",
                                    PGHOST="127.0.0.1", PGPORT=str(postgres.port), PGUSER="tally")
    done = subprocess.run(["sh", "-c", commands], capture_output=True, text=True, timeout=120 * PATIENCE,
                          env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    postgres.uri = uri
    postgres.sql("CREATE TABLE orders (id int); CREATE TABLE shipments (id int)")
    postgres.sql(send)
    postgres.sql(send.replace("COMMIT", "ROLLBACK").replace("17", "18"))

    def receive_one():
        _, answer = daemon.call("AmazonSQS.ReceiveMessage",
                                {"QueueUrl": "shipping.fifo", "WaitTimeSeconds": 1, "AttributeNames": ["All"],
                                 "MessageAttributeNames": ["All"]})
        return answer.get("Messages")

    message = wait_until(receive_one, what="the message")[0]
    assert message["Body"] == "ship order 17" and message["Attributes"]["MessageGroupId"] == "customer-4"
    ids = {"OUTBOX ID": message["MessageAttributes"]["Tally.OutboxId"]["StringValue"],
           "RECEIPT HANDLE": message["ReceiptHandle"]}
    for placeholder, value in ids.items():
        receive = receive.replace(placeholder, value)
    postgres.sql(receive)
    wait_until_empty(postgres)
    assert postgres.sql("SELECT id FROM shipments") == [(17,)]
    assert postgres.sql("SELECT tally.once(%s)", ids["OUTBOX ID"]) == [(False,)]
    assert drain(daemon, "shipping.fifo") == []


def blocks_of(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_guide_to_relays_works(daemon, postgres, tmp_path):
    from relay import drain, wait_until_empty

    postgres.sql("CREATE DATABASE shop")
    uri = postgres.uri.replace("/postgres", "/shop")
    text = (ROOT / "docs" / "relays.md").read_text()
    text = text[text.index("## An outbox in five minutes") : text.index("## Options")]
    environment = clean_environment(TALLY_ENDPOINT=daemon.endpoint, PATH=f"{BIN}:{os.environ['PATH']}",
                                    PGHOST="127.0.0.1", PGPORT=str(postgres.port), PGUSER="tally")

    def run(commands, text=None):
        done = subprocess.run(["sh", "-ec", commands.replace("postgres:///shop", uri)], capture_output=True, text=True,
                              input=text, timeout=120 * PATIENCE, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    outbox, sqlite, sqs, hook, move = blocks_of(text, "sh")
    send, receive = blocks_of(text, "sql")
    psql = "psql -X -q -t -A -v ON_ERROR_STOP=1 shop"
    run(outbox)
    uid = run(psql, send).strip()
    message = json.loads(run("tally receive shipping.fifo --wait 10 --json"))
    assert "`tally receive shipping.fifo --wait 10 --json`" in text
    assert message["MessageAttributes"]["Tally.OutboxId"]["StringValue"] == uid and message["Body"] == '{"order": 17}'
    receive = receive.replace("OUTBOX ID", uid).replace("RECEIPT HANDLE", message["ReceiptHandle"])
    assert run(psql, receive).split() == ["t"]
    postgres.uri = uri
    wait_until_empty(postgres)
    assert run(psql, "SELECT state FROM orders") == "shipped\n" and drain(daemon, "shipping.fifo") == []
    assert run(psql, receive).split() == ["f"]

    uid = run(sqlite).split()[-1]
    (message,) = drain(daemon, "shipping", 1)
    assert message.body == "a lamp" and message.uid == uid
    (tmp_path / "aws.key").write_text("AKIDEXAMPLE\nsecret\n")
    run(sqs)
    run(hook)
    run(move)  # test_relay_sqs_source.py has a queue at the other end
    assert run("tally relay list").count("\n") == 4


def test_the_pool_of_the_readme_works(daemon, tmp_path):
    done = subprocess.run(
        ["sh", "-c", commands_of("## Matched once, at last", "## Five problems")],
        capture_output=True,
        text=True,
        timeout=120 * PATIENCE,
        cwd=tmp_path,
        env=clean_environment(TALLY_ENDPOINT=daemon.endpoint, PATH=f"{BIN}:{os.environ['PATH']}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    matches = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert sorted(sorted(member["ticket"] for member in match["members"]) for match in matches) == [
        ["A", "B"], ["C", "E"], ["D", "F"]]
    assert re.search(r"^state +waiting$", done.stdout, re.MULTILINE)


def receive_matches(daemon, queue, count):
    """So many matches, each as the names of its tickets."""
    found = []

    def receive():
        _, answer = daemon.call(
            "AmazonSQS.ReceiveMessage", {"QueueUrl": queue, "WaitTimeSeconds": 1, "MaxNumberOfMessages": 10})
        found.extend(sorted(member["ticket"] for member in json.loads(message["Body"])["members"])
                     for message in answer.get("Messages", []))
        return len(found) >= count

    wait_until(receive, what=f"{count} matches")
    return found


def test_the_guide_to_pools_works(daemon, tmp_path):
    text = (ROOT / "docs" / "pools.md").read_text()
    duel, curl, tens, start, simulate = blocks_of(text, "sh")
    (matcher,) = blocks_of(text, "python")
    environment = clean_environment(TALLY_ENDPOINT=daemon.endpoint, PATH=f"{BIN}:/usr/bin:{os.environ['PATH']}",
                                    PYTHONDONTWRITEBYTECODE="1")

    def run(commands):
        commands = commands.replace("http://127.0.0.1:9324", daemon.endpoint)
        done = subprocess.run(["sh", "-ec", commands], capture_output=True, text=True, timeout=60 * PATIENCE,
                              cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    told = run(duel)
    match = json.loads(next(line for line in told.splitlines() if line.startswith('{"pool"')))
    assert sorted(member["ticket"] for member in match["members"]) == ["ann", "cid"]
    assert re.search(r"^ticket +ben$", told, re.MULTILINE) and re.search(r"^state +waiting$", told, re.MULTILINE)
    run(curl)
    assert receive_matches(daemon, "duels", 1) == [["ben", "dan"]]
    simulated = json.loads(run(simulate).splitlines()[0])
    assert simulated["t"] == 12 and sorted(member["ticket"] for member in simulated["members"]) == ["ann", "ben"]

    assert "http://127.0.0.1:9324/" in matcher and start.count("python3 matcher.py") == 2
    (tmp_path / "matcher.py").write_text(matcher.replace("http://127.0.0.1:9324", daemon.endpoint))
    run(tens)
    matchers = [subprocess.Popen(["/usr/bin/python3", "matcher.py", str(part), "2"], cwd=tmp_path, env=environment)
                for part in range(2)]
    try:
        numbers = list(range(10)) * 6
        tickets = [{"TicketId": f"t{at}", "Attributes": {"n": number}} for at, number in enumerate(numbers)]
        for at in range(0, len(tickets), 7):
            status, answer = daemon.call("Tally.OfferTickets", {"PoolName": "tens", "Tickets": tickets[at : at + 7]})
            assert status == 200, answer
        found = receive_matches(daemon, "tens", 27)  # each but the zeros
        assert all(matcher.poll() is None for matcher in matchers)
    finally:
        for process in matchers:
            process.kill()
            process.wait()
    assert all(sum(numbers[int(name[1:])] for name in pair) == 10 for pair in found)
    assert len({name for pair in found for name in pair}) == 54


def snippets(language):
    """The README's code of that language about SDKs, in its order."""
    text = (ROOT / "README.md").read_text()
    part = text[text.index("## Use it from the SDK you have") : text.index("## Order, at last")]
    return re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL)


class Reader:
    """Somebody who copies the README's snippets into files, but for the port."""

    def __init__(self, daemon, folder):
        self.endpoint = daemon.endpoint
        self.folder = folder
        path = f"/usr/bin:{os.environ['PATH']}"
        self.environment = clean_environment(PATH=path, PYTHONDONTWRITEBYTECODE="1", AWS_CONFIG_FILE="/dev/null")

    def write(self, name, text):
        assert "http://127.0.0.1:9324" in text or "@127.0.0.1:9324" in text
        (self.folder / name).write_text(text.replace("127.0.0.1:9324", self.endpoint.split("//")[1]))

    def run(self, *words):
        timeout = 60 * PATIENCE
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, cwd=self.folder,
                              env=self.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, *words):
        log = open(self.folder / "worker.log", "wb")
        return subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder, env=self.environment)


def test_the_snippets_for_sdks_work(daemon, tally, tmp_path):
    """A message each by the AWS CLI, boto3 and the SDK for JavaScript, all units of one batch, which then completes."""
    needs(pathlib.Path("/usr/bin/aws").exists(), "awscli")
    reader = Reader(daemon, tmp_path)
    tally("queue", "create", "done")
    create, cli, seal = snippets("sh")
    python, _ = snippets("python")
    (javascript,) = snippets("js")
    (tmp_path / "node_modules").symlink_to(ROOT / "tests" / "system" / "node_modules")
    for name, text, command in [
        ("create.sh", create, ["sh", "-e"]),
        ("cli.sh", cli, ["sh", "-e"]),
        ("send.py", python, ["/usr/bin/python3"]),
        ("send.mjs", javascript, ["node"]),
        ("seal.sh", seal, ["sh", "-e"]),
    ]:
        reader.write(name, text)
        reader.run(*command, name)
    bodies = tally("receive", "jobs", "--max", "10", "--delete").out.split()
    assert bodies == ["resize:1.png", "resize:2.png", "resize:3.png"]
    assert tally.json("receive", "done", "--delete")[0]["Body"].count("night-43") == 1


def test_the_celery_project_works(daemon, tmp_path):
    needs_celery()
    reader = Reader(daemon, tmp_path)
    reader.write("tasks.py", snippets("python")[1])
    celery = ["/usr/bin/python3", "-m", "celery"]
    worker = reader.start(*celery, "-A", "tasks", "worker", "--concurrency", "1")
    try:
        reader.run("/usr/bin/python3", "-c", "import tasks; tasks.resize.delay('1.png')")
        wait_until(lambda: "resized 1.png" in (tmp_path / "worker.log").read_text(), what="the task")
    finally:
        worker.terminate()
        worker.wait(90)  # it ends its long poll first
