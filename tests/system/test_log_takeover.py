"""The log in PostgreSQL: nodes that end, are stopped or are cut off, and the next that takes over."""

import struct
import time

from conftest import wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import (LEASE, LEASED, SMALL, TAKEOVER, Traffic, answer_of, await_takeover, create_queue, drain, send, serves,
                  texts)
from nodes import PatientLine
from wire import Connection, request_bytes


def asks_of_old_state(queue):
    """Requests that an owner of the past could answer from what it remembers."""
    return [request_bytes("AmazonSQS.GetQueueAttributes", {"QueueUrl": queue, "AttributeNames": ["All"]}),
            request_bytes("AmazonSQS.ReceiveMessage", {"QueueUrl": queue, "MaxNumberOfMessages": 10}),
            request_bytes("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": "to the old owner"}),
            request_bytes("AmazonSQS.ListQueues", {})]


def test_K2_F17_an_owner_that_was_stopped_answers_nobody_and_stands_by(cluster):
    owner, other = cluster.pair(*LEASED)
    line = cluster.line()
    create_queue(line, "mark")
    traffic = Traffic(cluster)
    time.sleep(0.5)
    asking = [Connection(owner.port).open() for _ in asks_of_old_state("mark")]
    assert asking[-1].call("AmazonSQS.ListQueues", {}).status == 200
    owner.pause()
    stopped_at = time.monotonic()
    for connection, request in zip(asking, asks_of_old_state("mark")):
        connection.write(request)
    took = await_takeover(other, traffic.jobs, stopped_at, LEASE + 1)
    assert took > 0.9 * LEASE, "it was taken over before its lease had ended"
    send(Connection(other.port), "mark", ["new"])
    time.sleep(max(0, stopped_at + 10 * LEASE - time.monotonic()))
    owner.resume()
    statuses = [answer_of(connection) for connection in asking]
    assert set(statuses) <= {0, 503}, statuses
    owner.wait_standing_by()
    assert owner.process.poll() is None
    traffic.check()
    traffic.finish()
    assert cluster.head()[0] == 2, owner.error_text() + other.error_text()
    assert drain(Connection(other.port), "mark") == ["new"]
    killed_at = time.monotonic()
    other.kill9()  # and the old one is a stand-by like any other
    await_takeover(owner, traffic.jobs, killed_at)


def test_an_idle_owner_keeps_its_log_for_many_leases(cluster):
    owner, other = cluster.node("one", "--lease", "500ms"), cluster.node("two", "--lease", "500ms")
    owner.start().wait_ready()
    other.start().wait_standing_by()
    time.sleep(2.5)
    assert owner.is_ready() and other.health() == "standby" and cluster.head() == (1, "one"), owner.error_text()
    assert len([text for text in owner.lines if "ready" in text]) == 1


def test_K3_an_owner_that_is_cut_off_from_postgresql_is_taken_over_and_stands_by_when_it_is_back(cluster, proxy):
    owner = cluster.node("one", *LEASED, uri=proxy.uri(cluster.uri)).start().wait_ready()
    other = cluster.node("two", *LEASED).start().wait_standing_by()
    traffic = Traffic(cluster, has_load=False)
    time.sleep(0.5)
    proxy.freeze()
    cut_at = time.monotonic()
    await_takeover(other, traffic.jobs, cut_at, LEASE + 1)
    assert not serves(owner, traffic.jobs)
    time.sleep(LEASE)
    proxy.thaw()
    owner.wait_standing_by()
    traffic.check()
    traffic.finish()
    killed_at = time.monotonic()
    other.kill9()
    await_takeover(owner, traffic.jobs, killed_at)


def test_K3_an_owner_alone_that_is_cut_off_serves_again_when_it_is_back(cluster, proxy):
    owner = cluster.node("one", *LEASED, uri=proxy.uri(cluster.uri)).start().wait_ready()
    traffic = Traffic(cluster, has_load=False)
    time.sleep(0.3)
    proxy.freeze()
    time.sleep(2 * LEASE)
    assert not serves(owner, traffic.jobs)
    proxy.thaw()
    wait_until(lambda: serves(owner, traffic.jobs), what="that it serves again")
    for _ in range(3):
        time.sleep(0.2)
        proxy.cut()
    traffic.check()
    traffic.finish()


def test_K5_a_standby_that_was_cut_off_reads_what_it_missed_before_it_serves(cluster, proxy):
    owner = cluster.node("one", *LEASED).start().wait_ready()
    other = cluster.node("two", *LEASED, uri=proxy.uri(cluster.uri)).start().wait_standing_by()
    traffic = Traffic(cluster, has_load=False)
    time.sleep(0.3)
    proxy.freeze()
    time.sleep(3 * LEASE)
    killed_at = time.monotonic()
    owner.kill9()
    time.sleep(0.2)
    proxy.thaw()
    await_takeover(other, traffic.jobs, killed_at, 2 * LEASE + 2)
    traffic.finish()


def test_F16_of_ten_that_stand_by_one_takes_over_and_the_others_go_on_reading(cluster):
    options = ("--lease", f"{2 * LEASE}s", "--body-max", "64KiB", "--segment-size", "5MiB")
    nodes = [cluster.node(f"n{number}", *options).start() for number in range(11)]
    wait_until(lambda: sum(node.is_ready() for node in nodes) == 1, what="one that serves")
    cluster.wait_level(nodes)
    line = PatientLine(nodes)
    jobs = create_queue(line)
    for number in range(3):
        line.ok("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": f"m{number}"})
        (owner,) = [node for node in nodes if node.is_ready()]
        epoch = cluster.head()[0]
        if number == 1:
            owner.pause()  # here their leases end at the same time, and nobody is given the lock
        else:
            owner.kill9()
        nodes.remove(owner)
        wait_until(lambda: [node for node in nodes if node.is_ready()], what="another one")
        cluster.wait_level(nodes)
        assert cluster.head()[0] == epoch + 1, "more than one has sealed the log"
        assert len([node for node in nodes if node.is_ready()]) == 1
        assert all(node.process.poll() is None and node.error_text() == "" for node in nodes)
        line = PatientLine(nodes)
    assert sorted(drain(line, jobs)) == texts("m", 3)


def test_F09_K20_a_standby_follows_through_snapshots_and_trimming_and_one_that_slept_begins_again(cluster):
    owner, other = cluster.pair(*SMALL)
    third = cluster.node("three", *SMALL).start().wait_standing_by()
    traffic = Traffic(cluster, has_load=False)
    big = create_queue(cluster.line(), "big")
    line = Connection(owner.port)

    def churn(count):
        for number in range(count):
            send(line, big, [f"c{number} " + "y" * 60000])
        line.ok("AmazonSQS.PurgeQueue", {"QueueUrl": big})

    def first_segment():
        return cluster.sql("SELECT min(name) FROM tally_log.file WHERE name LIKE '%%.segment'")[0][0]

    churn(60)
    third.pause()
    before = first_segment()
    for _ in range(20):
        churn(50)
        if first_segment() > before:
            break
    churn(100)
    assert first_segment() > before, "nothing was trimmed"
    third.resume()
    send(line, big, ["last"])
    killed_at = time.monotonic()
    owner.kill9()
    await_takeover(other, big, killed_at)
    traffic.check()
    owner.start().wait_standing_by()
    time.sleep(0.5)
    other.kill9()
    wait_until(lambda: serves(owner, big) or serves(third, big), TAKEOVER + 2, "the second takeover")
    traffic.check()
    traffic.finish()
    assert drain(PatientLine(cluster.nodes), big) == ["last"]
    for node in cluster.nodes:
        assert node is other or node.process.poll() is None, node.error_text()


def test_F09_a_segment_that_ends_and_is_removed_while_a_standby_reads_is_not_taken_for_read(cluster, proxy):
    options = (*SMALL, "--lease", "10s")
    owner = cluster.node("one", *options).start().wait_ready()
    other = cluster.node("two", *options, uri=proxy.uri(cluster.uri)).start().wait_standing_by()
    line = Connection(owner.port)
    jobs, big = create_queue(line), create_queue(line, "big")

    def segments():
        return cluster.sql("SELECT id FROM tally_log.file WHERE name LIKE '%%.segment' ORDER BY name")

    def churn_until(claim):
        for _ in range(100):
            send(line, big, [f"c{number} " + "y" * 60000 for number in range(10)])
            line.ok("AmazonSQS.PurgeQueue", {"QueueUrl": big})
            if claim():
                return
        raise AssertionError("it did not come to that")

    def hold_reads_of(segment):
        """The statements that read a file begin their parameters with its id."""
        proxy.hold(struct.pack("!iq", 8, segment))
        wait_until(proxy.is_held.is_set, what=f"that the stand-by reads file {segment}")

    churn_until(lambda: len(segments()) == 2)  # the second one is made ahead of time
    (first,), (second,) = segments()
    hold_reads_of(second)
    churn_until(lambda: cluster.sql("SELECT count(*) FROM tally_log.chunk WHERE file = %s", second)[0][0] > 20)
    send(line, jobs, texts("m", 10))
    hold_reads_of(first)  # it has read frames of the second one by now, and takes this one for ended
    churn_until(lambda: (first,) not in segments())
    wait_until(lambda: cluster.sql("SELECT count(*) FROM tally_log.chunk WHERE file = %s", first) == [(0,)], 20,
               "that all of it is gone")
    proxy.release()
    send(line, jobs, ["last"])
    owner.kill9()
    other.wait_ready()
    assert sorted(drain(Connection(other.port), jobs)) == sorted([*texts("m", 10), "last"])
