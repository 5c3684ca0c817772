"""`tally backup`, `tallyd --verify` and `tallyd --restore`: a backup of all namespaces at one instant, and what a
restore turns back and what it does not. tests/campaign/backup_campaign.py does it under load and kills;
docs/how-to/backup.md tells it."""

import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import pytest
from conftest import BIN, PATIENCE, ROOT, WRAPPER, Tally, clean_environment, wait_until, write_credentials
from small_disk import Hog, NoMount, small_disk
from test_auth import ask

NAMESPACE = "000000000000"
TWO = """
ONE   one-secret   000000000000  read,write,admin
TWO   two-secret   000000000002  read,write,admin
PART  part-secret  000000000000  read,write,admin  queues=mine-*
"""


def tallyd(*words, status=0):
    command = [*WRAPPER, str(BIN / "tallyd"), *(str(word) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120 * PATIENCE, env=clean_environment(),
                          check=False)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def ok(daemon, target, **body):
    status, answer = daemon.call(target, body)
    assert status == 200, answer
    return answer


def send(daemon, body, queue="q.fifo"):
    return ok(daemon, "AmazonSQS.SendMessage", QueueUrl=queue, MessageBody=body, MessageGroupId="g",
              MessageDeduplicationId=body)


def receive(daemon, queue="q.fifo", **more):
    answer = ok(daemon, "AmazonSQS.ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1,
                MessageAttributeNames=["Tally.*"], **more)
    return answer.get("Messages", [])


def token(message):
    return int(message["MessageAttributes"]["Tally.FencingToken"]["StringValue"])


def bodies(daemon, queue="q.fifo"):
    listed = ok(daemon, "Tally.ListMessages", QueueUrl=queue, Body="full", MaxResults=1000)
    return sorted(message["Body"] for message in listed["Messages"])


@pytest.fixture
def busy(daemon):
    """A daemon with a FIFO queue, a relay and a pool, and a Tally."""
    ok(daemon, "AmazonSQS.CreateQueue", QueueName="q.fifo", Attributes={"FifoQueue": "true"})
    ok(daemon, "AmazonSQS.CreateQueue", QueueName="to")
    ok(daemon, "Tally.CreatePool", PoolName="pool", ResultQueueUrl="to", Size=2, Matcher="external")
    ok(daemon, "Tally.CreateRelay", RelayName="relay", Source={"Type": "queue", "QueueUrl": "to"},
       Sink={"Type": "http", "Url": "http://127.0.0.1:1/"})
    return daemon


def restored(daemon_factory, backup, *words):
    second = daemon_factory()
    said = tallyd("--restore", backup, "--to", second.data, *words)
    return second.start(), said


def test_a_restored_server_has_what_was_and_gives_no_number_twice(busy, daemon_factory, tmp_path):
    first, tally = busy, Tally(busy.endpoint)
    send(first, "one")
    old = receive(first, VisibilityTimeout=0)
    ok(first, "Tally.OfferTickets", PoolName="pool", Tickets=[{"TicketId": "a"}])
    said = tally.json("backup", tmp_path / "b")[0]
    assert said["Queues"] == 2 and said["Messages"] == 1 and said["Folder"] == str(tmp_path / "b")
    # The first server goes on: what it gives out now must not come again.
    late = send(first, "two")
    lately = receive(first, VisibilityTimeout=30)
    ok(first, "Tally.OfferTickets", PoolName="pool", Tickets=[{"TicketId": "b"}])
    feed = ok(first, "Tally.FeedTickets", PoolName="pool", From=0)["Next"]
    first.stop()
    assert "clean. queues 2, messages 1 " in tallyd("--verify", tmp_path / "b")
    second, told = restored(daemon_factory, tmp_path / "b")
    assert "2 queues, 1 messages" in told and "relays are paused: 1." in told and "tally relay resume" in told
    assert bodies(second) == ["one"]
    # A receipt of a delivery that the restored server does not know fits nothing, before and after the next one.
    gone = {"QueueUrl": "q.fifo", "ReceiptHandle": lately[0]["ReceiptHandle"]}
    assert second.call("AmazonSQS.DeleteMessage", gone)[1]["__type"].endswith("#ReceiptHandleIsInvalid")
    new = receive(second)
    assert token(new[0]) > token(lately[0]) > token(old[0])
    assert second.call("AmazonSQS.DeleteMessage", gone)[1]["__type"].endswith("#ReceiptHandleIsInvalid")
    again = send(second, "two")
    assert int(again["SequenceNumber"]) > int(late["SequenceNumber"]) and again["MessageId"] != late["MessageId"]
    ok(second, "Tally.OfferTickets", PoolName="pool", Tickets=[{"TicketId": "c"}])
    fed = ok(second, "Tally.FeedTickets", PoolName="pool", From=feed)
    assert fed["Resync"] and fed["Next"] > feed
    assert ok(second, "Tally.DescribeRelay", RelayName="relay")["Paused"] is True
    events = ok(second, "Tally.FeedEvents", After=0)["Events"]
    assert any(event["Action"] == "Restored" and "restored from a backup" in event["Text"] for event in events)
    # What the restored server says of deliveries is no jump.
    delivered = re.search(rb"^tally_messages_delivered_total (\d+)", second.request("GET", "/metrics")[2], re.M)
    assert delivered is None or int(delivered[1]) < 100
    assert second.restart() and bodies(second) == ["one", "two"]


def test_all_namespaces_are_of_one_instant_and_whoever_is_confined_may_not(daemon_factory, tmp_path):
    daemon = daemon_factory("--credentials", str(write_credentials(tmp_path, TWO))).start()

    def call(key, target, body=None):
        answer = ask(daemon, "json", target, body or {}, key, f"{key.lower()}-secret")
        return answer.status, json.loads(answer.body) if answer.body else {}

    for key in ("ONE", "TWO"):
        assert call(key, "AmazonSQS.CreateQueue", {"QueueName": "q"})[0] == 200
        assert call(key, "AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": key})[0] == 200
    assert call("PART", "Tally.StartBackup")[1]["__type"].endswith("#AccessDeniedException")
    begun = call("ONE", "Tally.StartBackup")[1]
    assert begun["State"] == "running"
    found = wait_until(lambda: (said := call("TWO", "Tally.DescribeBackup")[1])["State"] != "running" and said)
    assert found["State"] == "finished" and found["BackupId"] == begun["BackupId"], found
    folder = pathlib.Path(found["Folder"])
    manifest = json.loads((folder / "backup.json").read_text())
    assert [ns["name"] for ns in manifest["namespaces"]] == [NAMESPACE, "000000000002"]
    assert [ns["messages"] for ns in manifest["namespaces"]] == [1, 1]
    assert folder.stat().st_mode & 0o077 == 0
    assert call("ONE", "Tally.DeleteBackup", {"BackupId": begun["BackupId"]})[0] == 200
    wait_until(lambda: not any(folder.parent.iterdir()), 20, "that it has gone")
    assert [line.split(": ", 1)[1] for line in daemon.audit() if "Backup" in line and "PART" not in line] == [
        "StartBackup: OK", f"DeleteBackup {begun['BackupId']}: OK"]


def test_a_tar_and_a_copy_on_another_disk_are_the_same_backup(busy, tmp_path):
    tally = Tally(busy.endpoint)
    send(busy, "one")
    tar = tally("backup", "-").stdout
    subprocess.run(["tar", "-x", "-C", str(tmp_path)], input=tar, check=True)
    (unpacked,) = tmp_path.glob("2*-*")
    assert "its manifest is right" in tallyd("--verify", unpacked)
    other = pathlib.Path("/dev/shm") / f"tally-backup-{os.getpid()}"
    if os.access("/dev/shm", os.W_OK) and os.stat("/dev/shm").st_dev != busy.data.stat().st_dev:
        half = other.with_name(other.name + ".unfinished")
        try:
            half.mkdir()
            assert f"{half} is there: a tally backup is at work there, or was killed" in tally(
                "backup", other, status=5).err
            half.rmdir()
            tally("backup", other)
            assert "its manifest is right" in tallyd("--verify", other)
            wait_until(lambda: not any((busy.data / "backups").iterdir()), 20, "that the server's copy has gone")
        finally:
            subprocess.run(["rm", "-rf", str(other), str(half)], check=True)


def test_up_to_a_time(busy, daemon_factory, tmp_path):
    send(busy, "one")
    time.sleep(0.1)
    between = time.time()
    time.sleep(0.1)
    send(busy, "two")
    Tally(busy.endpoint)("backup", tmp_path / "b")
    until = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(between)) + f".{int(between % 1 * 1000):03}Z"
    second, said = restored(daemon_factory, tmp_path / "b", "--until", until)
    assert bodies(second) == ["one"]
    assert "messages" in said
    for text, words in (("yesterday", "it must be a time as"), ("2026-02-30T00:00Z", "it must be a time as"),
                        ("2999-01-01T00:00:00Z", "the backup ends at"),
                        ("2001-01-01T00:00:00+01:00", "there was nothing to restore")):
        said = tallyd("--restore", tmp_path / "b", "--to", tmp_path / "new", "--until", text, status=2)
        assert words in said, said


def test_what_is_wrong_is_refused_with_words(busy, daemon_factory, tmp_path):
    tally = Tally(busy.endpoint)
    send(busy, "one")
    tally("backup", tmp_path / "b")
    assert "exists already" in tally("backup", tmp_path / "b", status=2).err
    assert "File name too long" in tally("backup", tmp_path / ("b" * 300), status=2).err
    assert "can't be made" in tallyd("--restore", tmp_path / "b", "--to", tmp_path / "no" / "such", status=2)
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    assert "is not empty" in tallyd("--restore", tmp_path / "b", "--to", full, status=2)
    assert "is no backup" in tallyd("--restore", full, "--to", tmp_path / "new", status=2)
    assert "lies in" in tallyd("--restore", tmp_path / "b", "--to", tmp_path / "b" / "new", status=2)
    # Nobody serves from a backup: numbers would come twice.
    refused = tallyd("--data", tmp_path / "b", "--listen", "127.0.0.1:0", status=2)
    assert "is a backup" in refused and f"tallyd --restore {tmp_path / 'b'} --to NEW" in refused
    manifest = tmp_path / "b" / "backup.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"format": 1', '"format": 2'))
    assert "has format 2" in tallyd("--restore", tmp_path / "b", "--to", tmp_path / "new", status=2)
    manifest.write_text(text.replace('"version": "', '"version": "9').replace('"dataFormat": ', '"dataFormat": 9'))
    for words in (["--verify", tmp_path / "b"], ["--restore", tmp_path / "b", "--to", tmp_path / "new"]):
        said = tallyd(*words, status=2)
        assert "is a backup of a later version: made by tallyd 9" in said and "DAMAGED" not in said, said
    # Of two entries with one name one is wrong.
    once = json.loads(text)
    inner = once["namespaces"][0]
    for twice, name in ((once | {"namespaces": [inner, inner]}, NAMESPACE),
                        (once | {"namespaces": [inner | {"files": inner["files"] * 2}]},
                         f"{NAMESPACE}/{inner['files'][0]['name']}")):
        manifest.write_text(json.dumps(twice))
        for words in (["--verify", tmp_path / "b"], ["--restore", tmp_path / "b", "--to", tmp_path / "new"]):
            assert f"is damaged: it names {name} twice" in tallyd(*words, status=1)
    # What nobody writes into would be waited for without an end.
    for put in (os.mkfifo, os.mkdir):
        manifest.unlink()
        put(manifest)
        for words in (["--verify", tmp_path / "b"], ["--restore", tmp_path / "b", "--to", tmp_path / "new"]):
            assert "backup.json can't be read: it is no ordinary file." in tallyd(*words, status=2)
        manifest.rename(tmp_path / put.__name__)
        manifest.touch()
    manifest.write_text(text)
    (segment,) = (tmp_path / "b" / NAMESPACE).glob("*.segment")
    with open(segment, "r+b") as file:
        file.seek(700)
        byte = file.read(1)
        file.seek(700)
        file.write(bytes([byte[0] ^ 1]))
    for words in (["--verify", tmp_path / "b"], ["--restore", tmp_path / "b", "--to", tmp_path / "new"]):
        assert "it was changed" in tallyd(*words, status=1)
    # A log takes no links, and would be empty.
    segment.rename(tmp_path / "elsewhere")
    segment.symlink_to(tmp_path / "elsewhere")
    for words in (["--verify", tmp_path / "b"], ["--restore", tmp_path / "b", "--to", tmp_path / "new"]):
        assert "is no ordinary file" in tallyd(*words, status=1)
    assert not (tmp_path / "new").exists()


def test_what_a_killed_restore_left_is_not_served(daemon_factory, tmp_path):
    first = daemon_factory("--credentials", str(write_credentials(tmp_path, TWO))).start()
    first.stop()
    (first.data / "000000000002").rename(first.data / "000000000002.unfinished")  # it had named the other one already
    with pytest.raises(AssertionError):
        first.start()
    assert "a restore or a salvage into it did not come to its end" in first.all_error_text()
    assert not (first.data / "000000000002").exists()
    assert "did not come to its end" in tallyd("--verify", first.data, status=2)


def test_what_has_a_name_of_its_own_beside_the_servers_backups_stays(busy, tmp_path):
    tally, backups = Tally(busy.endpoint), busy.data / "backups"
    backups.mkdir()
    (backups / "note").write_text("mine")
    tally("backup", backups / "2026-11-30")
    ok(busy, "Tally.StartBackup")  # as by a tally that is killed then
    wait_until(lambda: ok(busy, "Tally.DescribeBackup")["State"] == "finished")
    assert busy.restart() and ok(busy, "Tally.DescribeBackup")["State"] == "finished"
    tally("backup", tmp_path / "b")
    wait_until(lambda: {path.name for path in backups.iterdir()} == {"note", "2026-11-30"}, 20, "what is left")
    assert "its manifest is right" in tallyd("--verify", backups / "2026-11-30")


def test_a_short_disk_is_told_what_a_killed_tool_left(busy):
    ok(busy, "Tally.StartBackup")
    left = wait_until(lambda: ok(busy, "Tally.DescribeBackup").get("Folder"))
    busy.stop()
    busy.options += ["--disk-min-free", "1000000GiB"]
    busy.start()
    status, answer = busy.call("Tally.StartBackup", {})
    assert status == 503 and f"remove {left} if no tally backup copies it" in answer["message"], answer
    ok(busy, "Tally.DeleteBackup", BackupId=pathlib.Path(left).name)
    wait_until(lambda: not pathlib.Path(left).exists())
    status, answer = busy.call("Tally.StartBackup", {})
    assert status == 503 and "remove" not in answer["message"], answer


def test_an_end_that_was_lost_before_the_backup_is_damage(busy, tmp_path):
    """Its files have the checksums that the manifest says, and nothing in them is wrong: there is just less."""
    send(busy, "one")
    time.sleep(0.01)
    before = time.time()
    time.sleep(0.01)
    send(busy, "two")
    send(busy, "lost-one")
    segment = next((busy.data / NAMESPACE).glob("*.segment"))
    at = segment.read_bytes().rfind(b"lost-one") // 512 * 512
    with open(segment, "r+b") as file:  # as a disk does that says too early that it has written
        file.seek(at)
        file.write(bytes(segment.stat().st_size - at))
    Tally(busy.endpoint)("backup", tmp_path / "b")
    said = tallyd("--verify", tmp_path / "b", status=1)
    assert "its manifest is right" in said and "DAMAGED" in said, said
    assert re.search(r"lost: frames \d+ to \d+: the manifest says that the log goes on to there", said), said
    said = tallyd("--restore", tmp_path / "b", "--to", tmp_path / "all", status=1)
    assert "the manifest says that it goes on: what came last is lost" in said and "Restored" not in said, said
    early = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(before)) + f".{int(before % 1 * 1000):03}Z"
    tallyd("--restore", tmp_path / "b", "--until", early, "--to", tmp_path / "early")


def test_a_full_disk_keeps_nothing_of_a_backup(daemon_factory, tmp_path):
    """There is no room for the file that locks a folder, either."""
    try:
        with small_disk(tmp_path / "disk", 192) as disk, small_disk(tmp_path / "target", 8) as target:
            daemon = daemon_factory("--data", str(disk / "data")).start()
            ok(daemon, "AmazonSQS.CreateQueue", QueueName="q")
            for _ in range(100):
                ok(daemon, "AmazonSQS.SendMessage", QueueUrl="q", MessageBody="x" * 100_000)
            said = Tally(daemon.endpoint)("backup", target / "b", status=5).err
            assert "No space left on device" in said and not list(target.glob("b*")), said
            begun = ok(daemon, "Tally.StartBackup")["BackupId"]
            left = wait_until(lambda: ok(daemon, "Tally.DescribeBackup").get("Folder"))
            with Hog(disk) as hog:
                hog.wait_until_full()
                ok(daemon, "Tally.DeleteBackup", BackupId=begun)
                wait_until(lambda: not list(pathlib.Path(left).parent.iterdir()), 20, "that it has gone")
    except NoMount as why:
        pytest.skip(str(why))


class OfAnother(http.server.BaseHTTPRequestHandler):
    """A server on which another tool's backup has replaced this one's."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        is_begin = self.headers["X-Amz-Target"].endswith("StartBackup")
        self.send_response(200 if is_begin else 400)
        body = json.dumps({"BackupId": "ours", "State": "running"} if is_begin else {
            "__type": "com.tally#BackupDoesNotExist", "message": "There is no backup 'ours'."}).encode()
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_a_backup_that_another_one_replaced_is_told_as_that(tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), OfAnother) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = Tally(f"http://127.0.0.1:{server.server_port}")("backup", tmp_path / "b", status=1).err
        server.shutdown()
    assert "the backup ours has gone: another one began" in said, said
    assert not (tmp_path / "b").exists()


def test_a_folder_that_cannot_be_read_is_told_and_left_empty(busy, tmp_path):
    """As from another machine: the tool sees another file system than the server."""
    hidden = ["unshare", "--mount", "--map-root-user", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"',
              str(busy.data / "backups")]
    (busy.data / "backups").mkdir()
    tally = Tally(busy.endpoint)
    done = subprocess.run([*hidden, *tally.command("backup", tmp_path / "b")], capture_output=True, text=True,
                          timeout=60 * PATIENCE, env=tally.environment, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert done.returncode == 5 and "on the server's machine" in done.stderr, done.stderr
    assert not (tmp_path / "b").exists()
    wait_until(lambda: not any((busy.data / "backups").iterdir()), 20, "that the server's copy has gone")


def test_the_drill_under_load_and_kills(tmp_path):
    """A slice of make campaign-backup: three rounds, the third with a kill."""
    campaign = ROOT / "tests" / "campaign" / "backup_campaign.py"
    ended = subprocess.run(
        [sys.executable, "-B", campaign, "--rounds", "3", "--messages", "2000", "--folder", str(tmp_path)],
        capture_output=True, text=True, timeout=100 * PATIENCE, env={**clean_environment(), "TALLY_BIN": str(BIN)},
        check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counted = json.loads(ended.stdout)
    assert counted["judged"] >= 2 and counted["killed"] == 1, counted
