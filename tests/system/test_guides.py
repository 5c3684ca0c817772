"""What guides tell a reader to type that test_pages.py does not, and a load for a program of theirs."""

import json
import os
import re
import socket
import subprocess
import threading
import time

import pytest
from conftest import BIN, PATIENCE, ROOT, clean_environment, wait_until


def blocks_of(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_guide_to_amazon_sqs_works(daemon, postgres, tmp_path):
    """Up to the endpoint: test_relay_sqs.py has queues at the other end."""
    postgres.sql("CREATE DATABASE shop")
    uri = postgres.uri.replace("/postgres", "/shop")
    environment = clean_environment(TALLY_ENDPOINT=daemon.endpoint, PATH=f"{BIN}:{os.environ['PATH']}",
                                    PGHOST="127.0.0.1", PGPORT=str(postgres.port), PGUSER="tally")

    def run(commands, text=None):
        done = subprocess.run(["sh", "-ec", commands.replace("postgres:///shop", uri)], capture_output=True, text=True,
                              input=text, timeout=120 * PATIENCE, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    text = (ROOT / "docs/how-to/relay-to-sqs.md").read_text()
    (tmp_path / "aws.key").write_text("AKIDEXAMPLE\nsecret\n")
    (create,), (send,) = blocks_of(text, "sh"), blocks_of(text, "sql")
    run(create)
    run("psql -X -q -v ON_ERROR_STOP=1 shop", send)
    assert run("psql -X -A -t -c 'SELECT body FROM to_aws.outbox' shop") == '{"order": 17}\n'
    assert [line.split()[1] for line in run("tally relay list").splitlines()] == ["to-aws"]


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


def test_the_matcher_of_the_guide_finds_each_pair_once(daemon, tmp_path):
    (matcher,) = blocks_of((ROOT / "docs/how-to/matcher-of-your-own.md").read_text(), "python matcher.py")
    (tmp_path / "matcher.py").write_text(matcher.replace("http://127.0.0.1:9324", daemon.endpoint))
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "tens"})
    daemon.call("Tally.CreatePool", {"PoolName": "tens", "Attributes": {"n": "num"}, "Matcher": "external",
                                     "ResultQueueUrl": "tens"})
    matchers = [subprocess.Popen(["/usr/bin/python3", "-B", "matcher.py", str(part), "2"], cwd=tmp_path)
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


# --- a server that dies within its answer -----------------------------------------------------------------------------

TORN = [b"", b"HTTP", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{",
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"]
REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("page, name", [("celery-batches", "batches.py"), ("matcher-of-your-own", "matcher.py")])
def test_the_tally_of_a_recipe_asks_until_it_has_an_answer(page, name, monkeypatch):
    (recipe,) = blocks_of((ROOT / f"docs/how-to/{page}.md").read_text(), f"python {name}")
    imports = re.search(r"^import .*$", recipe, re.MULTILINE)[0]
    function = re.search(r"^def tally\(.*?(?=\n\n|\Z)", recipe, re.MULTILINE | re.DOTALL)[0]
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            for part in [*TORN, WHOLE, REFUSED]:
                with listener.accept()[0] as connection:
                    connection.recv(65536)
                    connection.sendall(part)

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        own = {"SERVER": f"http://{address}"}
        exec(f"{imports}\n{function}".replace("127.0.0.1:9324", address), own)
        assert own["tally"]("FeedTickets") == {}
        with pytest.raises(Exception, match="Bad Request|{}"):
            own["tally"]("FeedTickets")
