"""What the disk can do to the real daemon: flipped bits in each kind of record, lost and shortened files, a second
daemon on the folder, no room, writes and flushes that fail. Each ends with exit status 1 and a message that names file
and offset, says what was expected and what to do; nothing acknowledged is lost, and a refusal leaves the folder as it
was."""

import collections
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import threading
import time

import pytest
from conftest import BIN, PATIENCE, WRAPPER, clean_environment, wait_until
from disk import start_failing
from wire import Connection, some

SEGMENT = 5 << 20
OPTIONS = ["--body-max", "64KiB", "--segment-size", "5MiB"]
SNAPSHOTS = ["--snapshot-bytes", "1MiB"]
EVENTS = {  # kind: name, as docs/internals/formats/events.md lists them
    1: "founded", 2: "restarted",
    10: "queue_created", 11: "queue_set", 12: "queue_purged", 13: "queue_deleted",
    20: "sent", 21: "received", 22: "visibility_changed", 23: "ended", 24: "dead_lettered",
    30: "batch_created", 31: "units_counted", 32: "units_added", 33: "unit_ended", 34: "xor_applied",
    35: "batch_sealed", 36: "batch_fired", 37: "batch_deleted",
}  # fmt: skip
ADVICE = "Restore the whole folder from a backup or a replica"


# --- Worlds -----------------------------------------------------------------------------------------------------------


class World:
    """A daemon with a connection, and what its clients were told."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.line = Connection(daemon.port)
        self.folder = daemon.data / "000000000000"
        self.acknowledged = {}  # MessageId: body

    def sqs(self, action, **body):
        return self.line.ok(f"AmazonSQS.{action}", body)

    def tally(self, action, **body):
        return self.line.ok(f"Tally.{action}", body)

    def queue(self, name, **attributes):
        return self.sqs("CreateQueue", QueueName=name, Attributes=attributes)["QueueUrl"]

    def send(self, url, body):
        self.acknowledged[self.sqs("SendMessage", QueueUrl=url, MessageBody=body)["MessageId"]] = body

    def fill(self, url, count, size=60000):
        for number in range(count):
            self.send(url, f"{number} " + "x" * size)

    def drain(self, url, limit=sys.maxsize):
        """Every message there is: {MessageId: body}."""
        found = {}
        while len(found) < limit:
            messages = (
                self.sqs("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600).get("Messages"))
            if not messages:
                break
            for message in messages:
                assert message["MessageId"] not in found
                found[message["MessageId"]] = message["Body"]
        return found

    def stop(self):
        self.line.close()
        assert self.daemon.stop() == 0

    def files(self, ending):
        return sorted(path for path in self.folder.iterdir() if path.name.endswith(ending))


def fingerprint(folder):
    """Names and contents of a folder, but for the lock, whose text is the last owner, unfinished snapshots, those kept
    in reserve, and the segment that is made ahead of time."""
    contents = {path.name: path.read_bytes()
                for path in sorted(folder.iterdir()) if path.name != "lock" and path.suffix not in (".tmp", ".reserve")}
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()
            if any(content[:4096]) or not content}


def run_to_end(daemon, *options, environment=None, seconds=60, **more):
    """Starts the daemon on its folder where it must end by itself: (exit status, what it said)."""
    command = [*WRAPPER, str(BIN / "tallyd"), "--listen", f"127.0.0.1:{daemon.port}", "--data", str(daemon.data)]
    done = subprocess.run(
        [*command, *daemon.options, *options],
        capture_output=True,
        text=True,
        timeout=seconds * PATIENCE,
        env=clean_environment(**(environment or {})),
        **more,
    )
    assert "ready" not in done.stdout
    return done.returncode, done.stderr


def refusal(world, path, *words, offset=None):
    """The daemon refuses the folder: status 1, the file, the offset, each of `words`, and nothing is changed."""
    before = fingerprint(world.folder)
    status, said = run_to_end(world.daemon)
    assert status == 1, f"{status}: {said}"
    assert str(path) in said, said
    if offset is not None:
        assert f"at offset {offset}" in said, said
    for word in words:
        assert word in said, f"no {word!r} in: {said}"
    assert f'"tallyd --verify {world.folder}"' in said and f'"tallyd --salvage {world.folder} --to NEW"' in said, said
    assert len(said.strip().splitlines()) == 1, said
    assert fingerprint(world.folder) == before
    return said


@contextlib.contextmanager
def flipped(path, offset, bit=3):
    """A bit of a file is other than it was, for a while."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ (1 << bit)]))
    yield
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(bytes([byte]))


Frame = collections.namedtuple("Frame", "offset kind sequence size payload")


def frames_of(path):
    """The frames of a segment, as docs/internals/formats/log.md says."""
    data = path.read_bytes()
    frames = []
    offset = 512
    while offset < len(data) and data[offset : offset + 4] == b"TLYF":
        kind = data[offset + 5]
        payload_size, _, _, sequence = struct.unpack_from("<IIQQ", data, offset + 8)
        payload = data[offset + 64 : offset + 64 + payload_size]
        size = (64 + payload_size + 511) // 512 * 512
        frames.append(Frame(offset, kind, sequence, size, payload))
        offset += size
    return frames


def events_of(frame):
    """(kind, offset in the file, size) of each event of a frame."""
    at = 0
    while at < len(frame.payload):
        kind, size = struct.unpack_from("<BI", frame.payload, at)
        yield kind, frame.offset + 64 + at, 5 + size
        at += 5 + size
    assert at == len(frame.payload)


@pytest.fixture
def make_world(daemon_factory):
    worlds = []

    def make(*options):
        worlds.append(World(daemon_factory(*OPTIONS, *options).start()))
        return worlds[-1]

    yield make
    for world in worlds:
        world.line.close()


def play_every_event(world):
    """Does everything once, so that each kind of event is in the log."""
    world.line.close()
    world.daemon.restart()
    queue, dead, other = world.queue("q"), world.queue("dead"), world.queue("other")
    policy = {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": 1}
    world.sqs("SetQueueAttributes", QueueUrl=queue, Attributes={"RedrivePolicy": json.dumps(policy)})
    world.sqs("SendMessage", QueueUrl=queue, MessageBody="poison")
    world.sqs("ReceiveMessage", QueueUrl=queue, VisibilityTimeout=0)
    world.sqs("ReceiveMessage", QueueUrl=queue)
    (message,) = world.sqs("ReceiveMessage", QueueUrl=dead)["Messages"]
    world.sqs("ChangeMessageVisibility", QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=60)
    world.sqs("DeleteMessage", QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"])
    world.sqs("SendMessage", QueueUrl=other, MessageBody="a")
    world.sqs("PurgeQueue", QueueUrl=other)
    world.sqs("DeleteQueue", QueueUrl=other)
    world.tally("CreateBatch", BatchId="b", OnComplete={"QueueUrl": queue})
    world.tally("AddUnits", BatchId="b", Count=1)
    world.tally("AddUnits", BatchId="b", Units=["x"])
    world.tally("SealBatch", BatchId="b")
    world.tally("CompleteUnits", BatchId="b", Units=[{"Unit": "0"}, {"Unit": "x"}])
    world.tally("DeleteBatch", BatchId="b")
    world.tally("CreateBatch", BatchId="xor", Tracking="xor")
    world.tally("XorUnits", BatchId="xor", Value="0" * 15 + "1", RequestToken="t")
    for number in range(5):
        world.send(dead, f"kept {number}")
    return dead


# --- Bits -------------------------------------------------------------------------------------------------------------


def test_a_flipped_bit_in_each_kind_of_event(make_world):
    world = make_world()
    kept = play_every_event(world)
    world.stop()
    (segment,) = world.files(".segment")[:1]
    frames = frames_of(segment)
    found = {kind: (frame, offset, size) for frame in reversed(frames) for kind, offset, size in events_of(frame)}
    assert sorted(found) == sorted(EVENTS), f"not in the log: {[EVENTS[kind] for kind in set(EVENTS) - set(found)]}"
    for kind, (frame, offset, size) in some(sorted(found.items())):
        for place in some([offset, offset + size - 1]):
            with flipped(segment, place):
                refusal(world, segment, f"frame {frame.sequence}", "wrong checksum", ADVICE, offset=frame.offset)
    world.daemon.start()
    assert world.drain(kept) == world.acknowledged
    world.stop()


HEADER_FIELDS = {0: "magic", 4: "version", 5: "kind", 6: "reserved", 8: "payload size", 12: "body checksum",
                 16: "epoch", 24: "sequence", 32: "position", 40: "time", 48: "zero sectors", 52: "reserved",
                 60: "checksum"}  # fmt: skip


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_a_flipped_bit_in_each_field_of_a_frame_header(make_world, which):
    world = make_world()
    kept = play_every_event(world)
    world.stop()
    (segment,) = world.files(".segment")[:1]
    frames = frames_of(segment)
    frame = frames[{"first": 0, "middle": len(frames) // 2, "last": -1}[which]]
    for field in some(HEADER_FIELDS):
        with flipped(segment, frame.offset + field):
            refusal(world, segment, "expected a frame, found bytes that are none", ADVICE, offset=frame.offset)
    # In the padding behind the events, too.
    with flipped(segment, frame.offset + frame.size - 1):
        refusal(world, segment, f"frame {frame.sequence}", "wrong checksum", offset=frame.offset)
    world.daemon.start()
    assert world.drain(kept) == world.acknowledged
    world.stop()


def test_a_lost_sector_within_the_log_is_no_torn_tail(make_world):
    world = make_world()
    play_every_event(world)
    world.stop()
    (segment,) = world.files(".segment")[:1]
    frames = frames_of(segment)
    for frame in [frames[0], frames[len(frames) // 2]]:
        copy = segment.read_bytes()
        segment.write_bytes(copy[: frame.offset] + bytes(512) + copy[frame.offset + 512 :])
        refusal(world, segment, f"expected frame {frame.sequence}, found none", "stands behind it", ADVICE,
                offset=frame.offset)
        segment.write_bytes(copy)


def test_a_torn_tail_is_cut_and_nothing_more(make_world):
    """What a crash leaves is no damage: the last frame without one of its sectors, or nothing but garbage of it."""
    world = make_world()
    url = world.queue("q")
    for number in range(3):
        world.send(url, f"{number} " + "x" * 3000)
    world.stop()
    (segment,) = world.files(".segment")[:1]
    last = frames_of(segment)[-1]
    whole = segment.read_bytes()
    for sector in some(range(last.size // 512)):
        at = last.offset + sector * 512
        segment.write_bytes(whole[:at] + bytes(512) + whole[at + 512 :])
        world.daemon.start()
        found = world.drain(url)
        assert len(found) == 2 and found.items() <= world.acknowledged.items()
        world.stop()


@pytest.fixture
def rolled_world(make_world):
    """Three segments, and messages in each that are not deleted; no snapshot."""
    world = make_world("--snapshot-bytes", "0")
    world.url = world.queue("q")
    world.fill(world.url, 110)
    world.stop()
    assert len(world.files(".segment")) >= 3 and not world.files(".snapshot")
    return world


def test_a_flipped_bit_in_each_field_of_a_segment_header(rolled_world):
    world = rolled_world
    for segment in world.files(".segment")[:2]:
        for field in some([0, 4, 8, 16, 24, 32, 40, 100, 508]):
            with flipped(segment, field):
                refusal(world, segment, "the segment's header has a wrong checksum", ADVICE, offset=0)
    end = frames_of(world.files(".segment")[0])[-1]
    assert end.kind == 2
    with flipped(world.files(".segment")[0], end.offset + 24):
        refusal(world, world.files(".segment")[0], "expected a frame, found bytes that are none", offset=end.offset)
    world.daemon.start()
    assert world.drain(world.url) == world.acknowledged
    world.stop()


def test_a_truncated_or_lengthened_segment(rolled_world):
    world = rolled_world
    for segment in some(world.files(".segment")[:3]):
        whole = segment.read_bytes()
        for size in some([SEGMENT // 2, SEGMENT - 1, 512]):
            os.truncate(segment, size)
            refusal(world, segment, "the segment is truncated", f"expected {SEGMENT} bytes, found {size}", ADVICE,
                    offset=size)
        segment.write_bytes(whole + bytes(512))
        refusal(world, segment, "too long", ADVICE, offset=SEGMENT + 512)
        segment.write_bytes(whole)
    world.daemon.start()
    assert world.drain(world.url) == world.acknowledged
    world.stop()


def test_a_missing_segment(rolled_world):
    world = rolled_world
    used = [path for path in world.files(".segment") if frames_of(path)]
    for segment in some(used):
        aside = world.folder.parent / "aside"
        segment.rename(aside)
        refusal(world, segment, "this segment is missing", ADVICE, offset=0)
        aside.rename(segment)
    world.daemon.start()
    assert world.drain(world.url) == world.acknowledged
    world.stop()


def test_a_segment_of_another_folder(rolled_world, make_world):
    other = make_world("--snapshot-bytes", "0")
    url = other.queue("q")
    other.fill(url, 110, size=59999)
    other.stop()
    first, second = rolled_world.files(".segment")[:2]
    shutil.copy(other.folder / second.name, second)
    refusal(rolled_world, second, "it does not continue the segment before it", ADVICE, offset=0)
    shutil.copy(other.folder / first.name, second)
    refusal(rolled_world, second, "a file of another folder?", ADVICE, offset=0)


# --- Snapshots --------------------------------------------------------------------------------------------------------


@pytest.fixture
def snapshot_world(make_world):
    """Old messages in the first segment, a snapshot that covers it, newer messages behind."""
    world = make_world(*SNAPSHOTS)
    world.url, world.waste = world.queue("q"), world.queue("waste")
    world.send(world.url, "first " + "a" * 3000)
    world.send(world.url, "second " + "b" * 3000)

    def covers_the_first_segment():
        for _ in range(20):
            world.sqs("SendMessage", QueueUrl=world.waste, MessageBody="x" * 60000)
        world.sqs("PurgeQueue", QueueUrl=world.waste)
        return any(int(path.name[:16], 16) > SEGMENT for path in world.files(".snapshot"))

    wait_until(covers_the_first_segment, 60, "a snapshot behind the first segment")
    world.send(world.url, "third")
    world.stop()
    world.snapshot = world.files(".snapshot")[-1]
    for older in world.files(".snapshot")[:-1]:
        older.unlink()  # published, but the stop came before it was removed
    assert (world.folder / f"{0:016x}.segment").exists(), "the old messages keep their segment"
    return world


def test_a_flipped_bit_in_each_part_of_a_snapshot(snapshot_world):
    world = snapshot_world
    size = world.snapshot.stat().st_size
    (block_size,) = struct.unpack_from("<I", world.snapshot.read_bytes(), 64 + 8)
    assert size == 64 + 20 + block_size + 32
    places = [
        (range(0, 64, 8), 0, "the snapshot's header has a wrong checksum"),
        (range(64, 84, 4), 64, "block 0 of the snapshot has a damaged header"),
        (range(84, 84 + block_size, max(1, block_size // 8)), 84,
         f"block 0 of the snapshot, {block_size} bytes, has a wrong checksum"),
        (range(size - 32, size, 4), size - 32, "the snapshot's trailer is missing or has a wrong checksum"),
    ]
    for places_of_part, offset, words in places:
        for place in some(places_of_part):
            with flipped(world.snapshot, place):
                refusal(world, world.snapshot, words, ADVICE, offset=offset)
    world.daemon.start()
    assert world.drain(world.url) == world.acknowledged
    world.stop()


def test_a_truncated_lengthened_or_missing_snapshot(snapshot_world):
    world = snapshot_world
    whole = world.snapshot.read_bytes()
    for size in some([0, 63, 84, len(whole) // 2, len(whole) - 1]):
        world.snapshot.write_bytes(whole[:size])
        refusal(world, world.snapshot, ADVICE)
    world.snapshot.write_bytes(whole + bytes(40))
    refusal(world, world.snapshot, ADVICE)
    world.snapshot.write_bytes(whole)
    aside = world.folder.parent / "aside"
    world.snapshot.rename(aside)
    gap = min(int(path.name[:16], 16) for path in world.files(".segment") if int(path.name[:16], 16) > 0)
    missing = [start for start in range(0, gap, SEGMENT) if not (world.folder / f"{start:016x}.segment").exists()]
    if missing:  # what the snapshot stood for is gone with it
        refusal(world, world.folder / f"{missing[0]:016x}.segment", "this segment is missing", ADVICE, offset=0)
    aside.rename(world.snapshot)
    world.daemon.start()
    assert world.drain(world.url) == world.acknowledged
    world.stop()


def test_a_page_that_the_disk_does_not_give_is_no_end(snapshot_world):
    """A segment that becomes shorter behind its map stands for one with unreadable sectors: to touch them is SIGBUS."""
    world = snapshot_world
    segment = world.folder / f"{0:016x}.segment"
    whole = segment.read_bytes()
    world.daemon.start()
    (first,) = world.sqs("ReceiveMessage", QueueUrl=world.url)["Messages"]  # it is mapped now
    assert first["Body"].startswith("first aaaa")
    os.truncate(segment, whole.index(b"second") // 4096 * 4096)
    time.sleep(1.1)  # for so long may be remembered that the pages were there
    found = world.drain(world.url)
    assert sorted(body.split(" ")[0] for body in found.values()) == ["third"]
    assert "tally_contents_damaged_total 1" in world.daemon.request("GET", "/metrics")[2].decode()
    world.stop()
    segment.write_bytes(whole)


def test_an_old_segment_that_messages_need_is_missing(snapshot_world):
    world = snapshot_world
    segment = world.folder / f"{0:016x}.segment"
    segment.rename(world.folder.parent / "aside")
    refusal(world, segment, "offset 0: this segment is missing although waiting messages have their bodies in it",
            "from a backup")
    (world.folder.parent / "aside").rename(segment)
    os.truncate(segment, SEGMENT - 512)
    refusal(world, segment, "the segment is truncated", ADVICE, offset=SEGMENT - 512)


def test_the_content_of_an_old_message_is_damaged(snapshot_world):
    """A bit in a body that a snapshot covers: found when it is read; that message can't be received, the others go
    on."""
    world = snapshot_world
    segment = world.folder / f"{0:016x}.segment"
    at = segment.read_bytes().index(b"first aaaa") + 100
    with flipped(segment, at):
        world.daemon.start()
        answer = world.line.call("AmazonSQS.ReceiveMessage", {"QueueUrl": world.url})
        assert answer.status == 500
        assert answer.json()["__type"] == "com.amazon.coral.service#InternalFailure"
        assert answer.header("x-amzn-query-error") == "InternalFailure;Receiver"
        text = answer.json()["message"]
        assert "could not be read back" in text and f"{segment.name}" in text and "offset" in text and "backup" in text
        found = world.drain(world.url)
        assert sorted(body.split(" ")[0] for body in found.values()) == ["second", "third"]
        assert "tally_contents_damaged_total 1" in world.daemon.request("GET", "/metrics")[2].decode()
        # With others in the same request, the others come.
        world.send(world.url, "fourth")
        assert [body for body in world.drain(world.url).values()] == ["fourth"]
        world.stop()
    # The file put back from a backup: the message is as it was, when its lease is over.
    world.daemon.start()
    counts = world.sqs("GetQueueAttributes", QueueUrl=world.url, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "4"
    world.stop()


# --- Two daemons ------------------------------------------------------------------------------------------------------


def test_two_daemons_on_one_folder(make_world, daemon_factory):
    world = make_world()
    url = world.queue("q")
    second = daemon_factory(*OPTIONS)
    second.data = world.daemon.data
    status, said = run_to_end(second)
    assert status == 1
    assert f"The folder {world.folder} belongs to another process (pid {world.daemon.pid})" in said, said
    assert "Stop that one, or use another folder" in said
    world.send(url, "still served")
    world.stop()
    second.start()
    line = Connection(second.port)
    assert len(line.ok("AmazonSQS.ReceiveMessage", {"QueueUrl": url})["Messages"]) == 1
    line.close()
    assert second.stop() == 0


def test_the_lock_that_a_killed_owner_left_to_its_child_is_waited_for(make_world):
    """A child that writes a snapshot has a copy of the lock and dies a moment after its owner."""
    world = make_world()
    world.line.close()
    owner = world.daemon.pid
    world.daemon.kill9()
    with open(world.folder / "lock", "r+") as lock:
        assert int(lock.read()) == owner
        fcntl.flock(lock, fcntl.LOCK_EX)
        timer = threading.Timer(1.5, lambda: fcntl.flock(lock, fcntl.LOCK_UN))
        timer.start()
        began_at = time.monotonic()
        world.daemon.start()
        assert time.monotonic() - began_at >= 1.4
        timer.join()
    world.stop()


# --- No room, failing writes and flushes ------------------------------------------------------------------------------


def send_until_lost(world, url, size=60000, limit=2000):
    """Sends until the daemon has lost its log, and says so; what was acknowledged is kept in mind. Its exit status."""
    with pytest.raises(AssertionError, match="503 .*This server has lost its log"):
        for number in range(limit):
            world.send(url, f"{number} " + "x" * size)
    status = world.daemon.process.wait(60 * PATIENCE)
    world.daemon.kill9()
    return status


def check_all_there(world, url):
    """Everything acknowledged is served, and at most the one message besides whose reply was lost."""
    found = world.drain(url)
    assert world.acknowledged.items() <= found.items(), f"lost {len(world.acknowledged.keys() - found.keys())}"
    assert len(found) <= len(world.acknowledged) + 1


@contextlib.contextmanager
def small_tmpfs(folder, size):
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("no right to mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk(daemon_factory, tmp_path):
    """What grows is refused, and nothing is lost; more of it in test_full_disk.py."""
    with small_tmpfs(tmp_path / "small", "24m") as folder:
        daemon = daemon_factory(*OPTIONS)
        daemon.data = folder / "data"
        world = World(daemon.start())
        url = world.queue("q")
        answer = None
        for number in range(2000):
            answer = world.line.call("AmazonSQS.SendMessage",
                                     {"QueueUrl": url, "MessageBody": f"{number} " + "x" * 60000})
            if answer.status != 200:
                break
            world.acknowledged[answer.json()["MessageId"]] = f"{number} " + "x" * 60000
        assert answer.status == 503 and answer.json()["__type"] == "com.tally#DiskIsFull"
        assert "bytes free, and disk-min-free is" in answer.json()["message"]
        world.line.close()
        daemon.kill9()
        daemon.start()
        # With room it goes on.
        subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
        wait_until(lambda: re.search(r"^tally_disk_level\S* 0$", daemon.request("GET", "/metrics")[2].decode(), re.M),
                   20, "room")
        world.send(url, "there is room again")
        check_all_there(world, url)
        world.stop()


def test_a_full_disk_from_the_beginning(daemon_factory, tmp_path):
    with small_tmpfs(tmp_path / "tiny", "2m") as folder:
        daemon = daemon_factory(*OPTIONS)
        daemon.data = folder / "data"
        status, said = run_to_end(daemon)
        assert status == 1
        assert "failed: No space left on device. Make room on this file system." in said, said
        assert re.search(r"needs a segment to go on with, about \d+ bytes, and \d+ are free: make room for \d+ more\.",
                         said), said
        assert str(daemon.data / "000000000000") in said


def test_a_snapshot_is_taken_though_the_disk_is_full(daemon_factory, tmp_path):
    with small_tmpfs(tmp_path / "small", "32m") as folder:
        daemon = daemon_factory(*OPTIONS, *SNAPSHOTS)
        daemon.data = folder / "data"
        world = World(daemon.start())
        url = world.queue("q")
        world.fill(url, 5)
        hog = folder / "hog"
        with open(hog, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass
        for _ in range(4000):
            world.sqs("ReceiveMessage", QueueUrl=url, VisibilityTimeout=0)
        wait_until(lambda: world.files(".snapshot"), what="a snapshot")
        assert "no snapshot was taken" not in daemon.error_text()
        world.line.close()
        daemon.kill9()
        daemon.start()
        check_all_there(world, url)
        world.stop()


def test_a_limit_on_the_size_of_files(make_world):
    """RLIMIT_FSIZE: a write behind it fails, and must not kill by a signal."""
    world = make_world()
    url = world.queue("q")
    world.fill(url, 5)
    world.stop()
    limit = 2 << 20
    daemon = world.daemon
    command = [*WRAPPER, str(BIN / "tallyd"), "--listen", f"127.0.0.1:{daemon.port}", "--data", str(daemon.data)]
    daemon.errors = open(daemon.folder / "tallyd.err", "ab")
    daemon.process = subprocess.Popen(
        [*command, *daemon.options],
        stdout=subprocess.PIPE,
        stderr=daemon.errors,
        env=clean_environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert daemon.process.stdout.readline().startswith(b"tallyd ready")
    assert send_until_lost(world, url) == 1
    said = daemon.error_text()
    found = re.search(
        rf"writing \d+ bytes at offset (\d+) of {world.folder}/{0:016x}\.segment failed: File too large", said)
    assert found and int(found[1]) <= limit, said
    daemon.start()
    check_all_there(world, url)
    world.stop()


FAULTS = {
    "write": ({"FAIL_CALL": "pwrite", "FAIL_AFTER": 5},
              r"writing \d+ bytes at offset \d+ of {file} failed: Input/output error"),
    "write-torn": ({"FAIL_CALL": "pwrite", "FAIL_AFTER": 5, "FAIL_SHORT": 1},
                   r"writing \d+ bytes at offset \d+ of {file} failed: Input/output error"),
    "write-full": ({"FAIL_CALL": "pwrite", "FAIL_AFTER": 5, "FAIL_ERRNO": errno.ENOSPC},
                   r"writing \d+ bytes at offset \d+ of {file} failed: No space left on device\. Make room"),
    "flush": ({"FAIL_CALL": "fdatasync", "FAIL_AFTER": 5},
              r"writing \d+ bytes at offset \d+ of {file} failed: Input/output error"),
    "next-segment": ({"FAIL_CALL": "fallocate", "FAIL_AFTER": 0},
                     r"allocating \d+ bytes at offset 0 of {file} failed: Input/output error"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_write_or_flush_ends_the_process(make_world, fault):
    """A failed flush is never repeated: what the disk then holds is unknown until it is read again."""
    variables, pattern = FAULTS[fault]
    world = make_world("--snapshot-bytes", "0")
    url = world.queue("q")
    world.fill(url, 20)
    world.stop()
    ready = start_failing(world.daemon, FAIL_SUFFIX=".segment", **variables)
    assert ready.startswith("tallyd ready"), world.daemon.error_text()
    assert send_until_lost(world, url) == 1
    said = world.daemon.error_text()
    file = rf"{re.escape(str(world.folder))}/[0-9a-f]{{16}}\.segment"
    assert re.search(pattern.format(file=file), said), said
    world.daemon.start()
    check_all_there(world, url)
    world.stop()


def test_a_new_data_folder_is_made_durable_in_its_parent(daemon_factory):
    """Else a power cut could take the folder, with all that was acknowledged since the first start."""
    daemon = daemon_factory(*OPTIONS)
    for folder in (daemon.folder, daemon.data):
        assert start_failing(daemon, FAIL_SUFFIX=folder, FAIL_CALL="fsync") == ""
        assert daemon.process.wait(60 * PATIENCE) == 1
        daemon.kill9()
        assert "syncing the parent of" in daemon.error_text()
    assert daemon.start().stop() == 0


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_disk_that_fails_at_the_start(make_world, call):
    world = make_world()
    url = world.queue("q")
    world.fill(url, 3)
    world.stop()
    assert start_failing(world.daemon, FAIL_SUFFIX=".segment", FAIL_CALL=call) == ""
    assert world.daemon.process.wait(60 * PATIENCE) == 1
    world.daemon.kill9()
    assert f"{world.folder}/{0:016x}.segment failed: Input/output error" in world.daemon.error_text()
    world.daemon.start()
    check_all_there(world, url)
    world.stop()


SNAPSHOT_FAULTS = {
    "write": {"FAIL_CALL": "pwrite", "FAIL_SUFFIX": ".snapshot.tmp"},
    "flush": {"FAIL_CALL": "fdatasync", "FAIL_SUFFIX": ".snapshot.tmp"},
    "rename": {"FAIL_CALL": "renameat", "FAIL_SUFFIX": ".snapshot.tmp"},
    "folder": {"FAIL_CALL": "fsync", "FAIL_SUFFIX": "000000000000", "FAIL_AFTER": 1},
}


@pytest.mark.parametrize("fault", SNAPSHOT_FAULTS)
def test_a_snapshot_that_fails_is_reported_and_the_log_goes_on(make_world, fault):
    world = make_world(*SNAPSHOTS)
    url = world.queue("q")
    world.fill(url, 3)
    world.stop()
    assert start_failing(world.daemon, **SNAPSHOT_FAULTS[fault]).startswith("tallyd ready"), world.daemon.error_text()
    world.fill(url, 30)
    world.daemon.wait_said("no snapshot was taken, the log goes on", 20)
    assert str(world.folder) in world.daemon.error_text()
    world.fill(url, 3)
    world.line.close()
    world.daemon.kill9()
    world.daemon.start()
    check_all_there(world, url)
    world.stop()
