"""`tallyd --verify` and `tallyd --salvage` on folders of the real daemon that were damaged on purpose.

The daemon refuses the folder and names both commands (test_damage.py says where else); --verify says where it is
damaged; --salvage makes a folder that the daemon serves; what was acknowledged and is not in its list is there, byte
for byte."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess

import pytest
from conftest import BIN, PATIENCE, ROOT, WRAPPER, clean_environment, wait_until
from pages import Page
# noqa: F401
from test_damage import SEGMENT, World, flipped, frames_of, make_world, refusal, rolled_world, snapshot_world

NAMESPACE = "000000000000"


# --- The commands -----------------------------------------------------------------------------------------------------


def tallyd(*words, before=()):
    """Runs it to its end: (exit status, standard output, standard error)."""
    command = [*before, *WRAPPER, str(BIN / "tallyd"), *(str(word) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120 * PATIENCE, env=clean_environment())
    return done.returncode, done.stdout, done.stderr


def everything(folder):
    """Names, sizes, times and contents of all files below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode,
                                                content)
    return found


def report_of(new):
    lines = (new / NAMESPACE / "salvage-report.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def names(notes, *kinds):
    return {note["name"] for note in notes if note["kind"] in kinds and "name" in note}


def salvage(world, expected=None):
    """Salvages the world's folder; nothing in it is changed. Returns the new data folder and its report."""
    data, new = world.daemon.data, world.daemon.folder / "new"
    before = everything(data)
    status, said, complaint = tallyd("--salvage", data, "--to", new)
    assert everything(data) == before
    assert status in ([0, 1] if expected is None else [expected]), (said, complaint)
    notes = report_of(new)
    assert ("Something is lost." in said) == (status == 1) and f"Next: tallyd --data {new}" in said
    assert tallyd("--verify", new)[0] == 0, tallyd("--verify", new)
    return new, notes


def serve(world, new):
    """The daemon goes on with the new folder."""
    shutil.move(world.daemon.data, world.daemon.folder / "damaged")
    shutil.move(new, world.daemon.data)
    world.daemon.start()


def judge(world, new, notes, queues):
    """What was acknowledged and is not in the list is there; what is there was acknowledged."""
    serve(world, new)
    found = {}
    for queue in queues:
        found |= world.drain(queue)
    lost = names(notes, "message", "content")
    unknown = any(note["kind"] in ("message", "founding") and "name" not in note for note in notes)
    for identity, body in world.acknowledged.items():
        assert found.get(identity) == body or identity in lost or unknown, (identity, body[:20], notes[:10])
    assert all(world.acknowledged.get(identity) == body for identity, body in found.items())
    world.stop()
    return found


def overwrite(path, offset, content):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(content)


# --- What --verify says -----------------------------------------------------------------------------------------------


def test_verify_calls_a_sound_folder_clean_and_changes_nothing(rolled_world):
    world = rolled_world
    before = everything(world.daemon.data)
    for folder in [world.daemon.data, world.folder]:
        status, said, _ = tallyd("--verify", folder)
        assert status == 0 and f"{world.folder}: clean. queues 1, messages 110 (visible 110," in said, said
    assert everything(world.daemon.data) == before
    status, said, _ = tallyd("--salvage", world.folder, "--to", world.daemon.folder / "new")
    assert status == 0 and "Nothing is lost." in said
    assert len(judge(world, world.daemon.folder / "new", [], [world.url])) == 110


def test_verify_and_salvage_refuse_a_folder_that_a_daemon_has(make_world):
    world = make_world()
    world.send(world.queue("q"), "a")
    for words in [["--verify", world.daemon.data],
                  ["--salvage", world.daemon.data, "--to", world.daemon.folder / "new"]]:
        status, said, complaint = tallyd(*words)
        assert status == 2 and f"belongs to another process (pid {world.daemon.pid})" in said + complaint, (said,
            complaint)
    world.stop()


def test_what_a_crash_leaves_is_clean(make_world):
    world = make_world()
    url = world.queue("q")
    for number in range(3):
        world.send(url, f"{number} " + "x" * 3000)
    world.stop()
    (segment,) = world.files(".segment")[:1]
    last = frames_of(segment)[-1]
    overwrite(segment, last.offset + 1024, bytes(512))
    for name in ["0000000000001000.snapshot.tmp", f"{SEGMENT:016x}.segment.tmp"]:
        (world.folder / name).write_bytes(b"unfinished")
    before = everything(world.daemon.data)
    status, said, _ = tallyd("--verify", world.daemon.data)
    assert status == 0 and "messages 2 " in said, said
    assert everything(world.daemon.data) == before


def test_a_folder_that_is_none_is_said_to_be_none(make_world):
    world = make_world()
    world.stop()
    empty, new = world.daemon.folder / "empty", world.daemon.folder / "new"
    empty.mkdir()
    for folder, words in [(empty, "holds no namespace"),
                          (world.daemon.folder / "absent", "can't be read: No such file")]:
        status, _, complaint = tallyd("--verify", folder)
        assert status == 2 and words in complaint, complaint
        status, _, complaint = tallyd("--salvage", folder, "--to", new)
        assert status == 2 and words in complaint and not new.exists(), complaint
    new.mkdir()
    (new / "something").touch()
    status, _, complaint = tallyd("--salvage", world.daemon.data, "--to", new)
    assert status == 2 and "is not empty" in complaint
    for words, told in [
        (["--salvage", world.daemon.data], "--salvage needs a new folder to write into"),
        (["--to", new], "there is no --salvage"),
        (["--verify"], "--verify needs a folder"),
        (["--verify", "a", "--salvage", "b", "--to", "c"], "do not go together"),
    ]:
        status, _, complaint = tallyd(*words)
        assert status == 2 and told in complaint, complaint


def test_the_new_folder_does_not_lie_in_the_damaged_one(make_world):
    world = make_world()
    world.send(world.queue("q"), "a")
    world.stop()
    data = world.daemon.data
    before = everything(data)
    for folder, new in [(data, data / "new"), (world.folder, world.folder / "new"), (data, world.folder / "new")]:
        status, _, complaint = tallyd("--salvage", folder, "--to", new)
        assert status == 2 and f"{new} lies in {folder}, which is only read" in complaint, complaint
    assert everything(data) == before


def test_namespaces_get_their_new_folders_together_or_not_at_all(make_world):
    world = make_world()
    world.send(world.queue("q"), "a")
    world.stop()
    data, new = world.daemon.data, world.daemon.folder / "new"
    other = data / "000000000001"
    shutil.copytree(world.folder, other)
    with open(other / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as a daemon that has it
        status, said, complaint = tallyd("--salvage", data, "--to", new)
    assert status == 2 and "belongs to another process" in complaint and "Next" not in said, (said, complaint)
    assert [path.name for path in new.iterdir()] == [f"{NAMESPACE}.unfinished"]
    shutil.rmtree(new)
    status, said, complaint = tallyd("--salvage", data, "--to", new)
    assert status == 0, (said, complaint)
    assert sorted(path.name for path in new.iterdir() if path.is_dir()) == [NAMESPACE, other.name]


def test_a_log_of_zeros_is_not_called_empty(make_world):
    world = make_world()
    world.send(world.queue("q"), "a")
    world.stop()
    for start in [0, SEGMENT]:  # the second one was made ahead of time, and a killed daemon leaves it
        (world.folder / f"{start:016x}.segment").write_bytes(bytes(SEGMENT))
    status, said, _ = tallyd("--verify", world.daemon.data)
    assert status == 1 and "tallyd does not start on it" in said and "lost: the key of the namespace" in said, said
    _, notes = salvage(world, expected=1)
    assert {"founding", "gap", "message"} <= {note["kind"] for note in notes}


# --- Damage of each kind ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 4096, 100_000])
def test_the_rest_of_the_only_segment_is_no_measure_for_new_ones(make_world, left):
    """Truncated, without a header and without a snapshot: the daemon starts on what was saved all the same."""
    world = make_world()
    world.send(world.queue("q"), "a")
    world.stop()
    first, *others = world.files(".segment")
    for path in [*others, *world.files(".snapshot")]:
        path.unlink()
    first.write_bytes(bytes(left))
    (world.folder / f"{4096:016x}.snapshot").write_bytes(bytes(4096))
    new, _ = salvage(world, expected=1)
    serve(world, new)
    assert world.daemon.call("AmazonSQS.ListQueues")[0] == 200


def segments_with_frames(world):
    return [path for path in world.files(".segment") if frames_of(path)]


def a_frame_header(world):
    segment = segments_with_frames(world)[1]
    overwrite(segment, frames_of(segment)[3].offset, os.urandom(64))
    return segment


def a_payload(world):
    segment = segments_with_frames(world)[0]
    frame = frames_of(segment)[20]
    overwrite(segment, frame.offset + 200, os.urandom(64))
    return segment


def a_segment_header(world):
    segment = segments_with_frames(world)[1]
    overwrite(segment, 8, os.urandom(64))
    return segment


def a_missing_segment(world):
    segment = segments_with_frames(world)[1]
    segment.unlink()
    return segment


def a_segment_of_zeros(world):
    segment = segments_with_frames(world)[1]
    segment.write_bytes(bytes(SEGMENT))
    return segment


def a_truncated_segment(world):
    segment = segments_with_frames(world)[1]
    os.truncate(segment, SEGMENT // 2 + 100)
    return segment


def two_gaps(world):
    segment = a_frame_header(world)
    overwrite(segments_with_frames(world)[0], frames_of(segments_with_frames(world)[0])[9].offset + 100,
              os.urandom(3000))
    return segment


KINDS = [a_frame_header, a_payload, a_segment_header, a_missing_segment, a_segment_of_zeros, a_truncated_segment,
         two_gaps]


@pytest.mark.parametrize("damage", KINDS)
def test_what_is_not_in_the_list_is_there(rolled_world, damage):
    world = rolled_world
    segment = damage(world)
    status, said, _ = tallyd("--verify", world.daemon.data)
    assert status == 1 and segment.name in said and "tallyd does not start on it" in said, said
    assert f"tallyd --salvage {world.daemon.data} --to NEW" in said
    refusal(world, segments_with_frames(world)[0].parent)
    new, notes = salvage(world)
    found = judge(world, new, notes, [world.url])
    is_whole = damage is a_segment_header
    assert (len(found) == 110) == is_whole and len(found) >= 110 - 2 * 85
    gone = [note for note in notes if note["kind"] == "message"]
    assert is_whole or len(found) + len(gone) >= 110
    assert names(notes, "may-repeat") <= set(world.acknowledged)


def test_a_damaged_body_costs_that_message_alone(snapshot_world):
    """It stands before the snapshot, so the daemon starts; --verify finds it all the same."""
    world = snapshot_world
    segment = world.folder / f"{0:016x}.segment"
    with flipped(segment, segment.read_bytes().index(b"first aaaa") + 100):
        status, said, _ = tallyd("--verify", world.daemon.data)
        assert status == 1 and "lost: the body of message" in said and "tallyd starts on it." in said, said
        new, notes = salvage(world, expected=1)
        (lost,) = names(notes, "content")
        assert world.acknowledged[lost].startswith("first")
    found = judge(world, new, notes, [world.url])
    assert sorted(body.split(" ")[0] for body in found.values()) == ["second", "third"]


def test_a_damaged_snapshot_costs_nothing_while_the_log_tells_it_all(make_world):
    world = make_world("--snapshot-bytes", "1MiB")
    url = world.queue("q")
    world.fill(url, 40)
    wait_until(lambda: world.files(".snapshot"), what="a snapshot")
    world.stop()
    for snapshot in world.files(".snapshot"):
        overwrite(snapshot, 100, os.urandom(64))
    if not (world.folder / f"{0:016x}.segment").exists():
        pytest.skip("the first segment has gone already")
    assert tallyd("--verify", world.daemon.data)[0] == 1
    new, notes = salvage(world, expected=0)
    assert names(notes, "message", "content", "may-repeat") == set()
    assert len(judge(world, new, notes, [url])) == len(world.acknowledged)


def test_a_damaged_snapshot_and_no_beginning(snapshot_world):
    """Queues get their names from the part of the snapshot that can be read, or are named anew: the bodies are there in
    any case."""
    world = snapshot_world
    overwrite(world.snapshot, 100, os.urandom(64))
    (world.folder / f"{0:016x}.segment").unlink()
    assert tallyd("--verify", world.daemon.data)[0] == 1
    new, notes = salvage(world, expected=1)
    assert "founding" in {note["kind"] for note in notes}
    serve(world, new)
    queues = world.sqs("ListQueues").get("QueueUrls", [])
    assert queues and all(url.rsplit("/", 1)[1].startswith("salvaged") for url in queues)
    found = {}
    for url in queues:
        found |= world.drain(url)
    assert "third" in found.values()
    world.stop()


def test_a_folder_on_a_read_only_mount_can_be_salvaged(rolled_world):
    world = rolled_world
    a_payload(world)
    data, new = world.daemon.data, world.daemon.folder / "new"
    mounted = ["unshare", "-m", "sh", "-c",
               'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && shift 0; exec "$@"', str(data)]
    if subprocess.run([*mounted, "sh", "-c", f'! touch "{data}/x" 2>/dev/null'], capture_output=True).returncode != 0:
        pytest.skip("no mount can be made here")
    assert tallyd("--verify", data, before=mounted)[0] == 1
    assert tallyd("--salvage", data, "--to", new, before=mounted)[0] == 1
    judge(world, new, report_of(new), [world.url])


# --- What hangs on what is lost ---------------------------------------------------------------------------------------


def test_a_batch_that_may_lack_a_unit_waits_for_a_person(make_world):
    world = make_world()
    jobs, done = world.queue("jobs"), world.queue("done")
    world.tally("CreateBatch", BatchId="b", OnComplete={"QueueUrl": done})
    unit = {"Tally.Batch": {"DataType": "String", "StringValue": "b"}}
    for number in range(3):
        world.sqs("SendMessage", QueueUrl=jobs, MessageBody=f"unit {number} " + "x" * 600, MessageAttributes=unit)
    world.stop()
    (segment,) = world.files(".segment")[:1]
    overwrite(segment, segment.read_bytes().index(b"unit 1 xxx") + 100, os.urandom(64))
    new, notes = salvage(world, expected=1)
    assert names(notes, "batch") == {"b"}
    serve(world, new)
    world.tally("SealBatch", BatchId="b")
    for message in world.sqs("ReceiveMessage", QueueUrl=jobs, MaxNumberOfMessages=10)["Messages"]:
        world.sqs("DeleteMessage", QueueUrl=jobs, ReceiptHandle=message["ReceiptHandle"])
    assert world.tally("DescribeBatch", BatchId="b")["State"] == "sealed"
    assert "Messages" not in world.sqs("ReceiveMessage", QueueUrl=done)
    world.tally("CompleteUnits", BatchId="b", Units=[{"Unit": "tally-salvage"}])
    assert world.tally("DescribeBatch", BatchId="b")["State"] == "completed"
    assert len(world.sqs("ReceiveMessage", QueueUrl=done)["Messages"]) == 1
    world.stop()


def test_a_handle_and_a_token_from_before_the_damage_are_not_given_twice(make_world):
    world = make_world()
    url = world.queue("q")
    for number in range(5):
        world.send(url, f"{number} " + "x" * 600)
    (held,) = world.sqs("ReceiveMessage", QueueUrl=url, VisibilityTimeout=600)["Messages"]
    world.stop()
    (segment,) = world.files(".segment")[:1]
    overwrite(segment, frames_of(segment)[-1].offset + 64, os.urandom(64))  # the receive
    new, notes = salvage(world, expected=1)
    assert held["MessageId"] in names(notes, "may-repeat")
    serve(world, new)
    again = world.sqs("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600)["Messages"]
    (same,) = [message for message in again if message["MessageId"] == held["MessageId"]]
    assert same["ReceiptHandle"] != held["ReceiptHandle"]
    # The handle of the lost receive is an older one of this message and of no other, and ends it.
    world.line.call("AmazonSQS.DeleteMessage", {"QueueUrl": url, "ReceiptHandle": held["ReceiptHandle"]})
    counts = world.sqs("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "4"
    world.stop()


def test_the_page_about_damage_can_be_typed(daemon_factory, tmp_path):
    """docs/how-to/damage.md, on a folder that was damaged where the page has it."""
    world = World(daemon_factory().start())
    url = world.queue("jobs")
    world.tally("CreateBatch", BatchId="nightly", OnComplete={"QueueUrl": url})
    for number in range(30):
        world.send(url, f"job {number}")
    world.stop()
    segment = world.folder / "0000000000000000.segment"
    (frame,) = (frame for frame in frames_of(segment) if frame.offset == 9728)
    overwrite(segment, frame.offset + 64, bytes([frame.payload[0] ^ 8]))
    shutil.move(world.daemon.data, tmp_path / "d")
    with Page(ROOT / "docs/how-to/damage.md", tmp_path) as page:
        page.type_all()
