"""What holds of every outbox before a sink that remembers nothing; `outbox` is one in SQLite or in MySQL."""

import threading
import time

from conftest import PATIENCE, wait_until
from relay import numbered


def check_what_may_have_arrived_is_listed(relays, outbox, receiver):
    """What is about to be sent stands in tally_intent before it leaves; the next owner finds it there and does not
    guess."""
    may_answer = threading.Event()
    may_answer.set()
    receiver.answer = lambda hit: may_answer.wait(30) and 204
    first = relays(outbox.source, receiver.url, "--mode", "at-most-once", "--lease", 1, name="first")
    first.wait_for("active")
    outbox.send(numbered("row", 5))
    outbox.wait_until_empty()
    may_answer.clear()
    outbox.send(["doubted"])
    wait_until(lambda: "doubted" in receiver.bodies())
    first.kill9()
    may_answer.set()
    relays(outbox.source, receiver.url, "--mode", "at-most-once", "--lease", 1, name="second").wait_for("active")
    outbox.send(numbered("later", 5))
    outbox.wait_until_empty()
    assert outbox.ask("SELECT body, is_doubted FROM tally_dead") == [("doubted", 1)]
    wait_until(lambda: outbox.count("tally_intent") == 0, what="the end of all intents")
    assert sorted(receiver.bodies()) == sorted(numbered("row", 5) + ["doubted"] + numbered("later", 5))


def check_an_owner_that_outlived_its_lease(relays, outbox, receiver, answer):
    """The first owner is stopped between its request and its answer, another one takes over and is at the same rows
    when the first goes on: with an answer that would make it delete them, or park them, and with rows behind them that
    it would note. All stands as the new owner left it."""
    is_over = threading.Event()
    is_frozen = threading.Event()
    own = []  # of the first relay

    def reply(hit):
        if len(own) < 3:
            own.append(hit)
        if hit in own:
            is_frozen.wait(60)
            return answer  # heard only when it goes on
        is_over.wait(60)
        return 200

    receiver.answer = reply
    first = relays(outbox.source, receiver.url, "--lease", 1, "--timeout", 30, name="first")
    first.wait_for("active")
    bodies = numbered("row", 3)
    outbox.send(bodies)
    wait_until(lambda: len(receiver.hits) == 3, what="the requests of the first")
    outbox.freeze_outside(first)
    is_frozen.set()
    second = relays(outbox.source, receiver.url, "--lease", 1, "--timeout", 30, name="second")
    second.wait_for("active")
    wait_until(lambda: len(receiver.hits) == 6, what="the requests of the second")
    outbox.send(["behind"])
    wait_until(lambda: len(receiver.hits) == 7, what="the row behind")

    def everything():
        return [outbox.ask(f"SELECT * FROM {table} ORDER BY 1, 2")
                for table in ("tally_outbox", "tally_intent", "tally_lease", "tally_dead")]

    before = everything()
    assert len(before[0]) == 4 and before[3] == []
    first.thaw()
    first.wait_for("standby")
    time.sleep(0.5 * PATIENCE)
    assert everything() == before
    assert len(receiver.hits) == 7, "nor does it send anything"
    is_over.set()
    outbox.wait_until_empty()
    assert outbox.count("tally_dead") == 0 and first.epoch == 1
    assert all(any(hit.answered == 200 for hit in receiver.hits[3:] if hit.body.decode() == body)
               for body in [*bodies, "behind"])
