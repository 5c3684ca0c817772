"""What the guides to relays and to pools tell a reader to type, with ids and addresses of the reader's own put in."""

import json
import os
import re
import subprocess

import pytest

from conftest import BIN, PATIENCE, ROOT, clean_environment, wait_until


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
    run(psql, receive)
    postgres.uri = uri
    wait_until_empty(postgres)
    assert run(psql, "SELECT state FROM orders") == "shipped\n" and drain(daemon, "shipping.fifo") == []
    with pytest.raises(AssertionError, match="already done"):
        run(psql, receive)

    uid = run(sqlite).split()[-1]
    (message,) = drain(daemon, "shipping", 1)
    assert message.body == "a lamp" and message.uid == uid
    (tmp_path / "aws.key").write_text("AKIDEXAMPLE\nsecret\n")
    run(sqs)
    run(hook)
    run(move)  # test_relay_sqs_source.py has a queue at the other end
    assert run("tally relay list").count("\n") == 4


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
