"""`archive = DIR`: what the log removes gets a name there first, and `tallyd --restore … --archive … --until` goes
back to any instant with it. docs/how-to/backup.md tells it; tests/system/test_backup.py has backups alone."""

import os
import pathlib
import shutil
import subprocess
import time

import pytest
from conftest import BIN, ROOT, Tally, clean_environment, wait_until, write_credentials
from small_disk import MIB, NoMount, small_disk
from test_auth import ask
from test_backup import NAMESPACE, TWO, bodies, ok, tallyd

# The least that these sizes may be: a segment for every 53 fillers, and a snapshot for every 45.
SMALL = ("--body-max", "64KiB", "--segment-size", "5MiB", "--snapshot-bytes", "2MiB", "--snapshot-growth", "0")
FILLER = "f" * 50000


def fill(daemon, count):
    """So many messages come and go: the log grows, and nothing of it lives."""
    for _ in range(count):
        ok(daemon, "AmazonSQS.SendMessage", QueueUrl="fill", MessageBody=FILLER)
    ok(daemon, "AmazonSQS.PurgeQueue", QueueUrl="fill")


def say(daemon, body, queue="q"):
    ok(daemon, "AmazonSQS.SendMessage", QueueUrl=queue, MessageBody=body)


def instant():
    """A time with nothing around it: what one turn of the server's loop takes has one time, that of its begin."""
    time.sleep(0.005)
    now = time.time()
    time.sleep(0.03)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03}Z"


def names(folder, ending="segment"):
    return sorted(path.name for path in (pathlib.Path(folder) / NAMESPACE).glob(f"*.{ending}"))


def start(daemon_factory, archive, *options):
    daemon = daemon_factory(*SMALL, "--archive", str(archive), *options).start()
    for queue in ("q", "fill"):
        ok(daemon, "AmazonSQS.CreateQueue", QueueName=queue)
    return daemon


def restore(daemon_factory, source, archive, until, *options):
    daemon = daemon_factory(*SMALL, *options)
    said = tallyd("--restore", source, "--archive", archive, "--until", until, "--to", daemon.data)
    return daemon, said


def held_at(daemon_factory, source, archive, until):
    daemon, _ = restore(daemon_factory, source, archive, until)
    daemon.start()
    held = bodies(daemon, "q")
    assert daemon.stop() == 0
    return held


def refuse(source, archive, until, to, status=2):
    said = tallyd("--restore", source, "--archive", archive, "--until", until, "--to", to, status=status)
    shutil.rmtree(to, ignore_errors=True)
    return said


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "archive"


def test_a_restore_to_any_instant_and_what_is_missing_is_named(daemon_factory, archive, tmp_path):
    before = instant()
    daemon = start(daemon_factory, archive)
    marks = []
    for number in range(5):
        say(daemon, f"m{number}")
        marks.append((instant(), [f"m{i}" for i in range(number + 1)]))
        fill(daemon, 70)
    ok(daemon, "AmazonSQS.PurgeQueue", QueueUrl="q")  # by accident
    marks.append((instant(), []))
    say(daemon, "late")
    fill(daemon, 110)
    wait_until(lambda: names(archive)[:2] == ["0000000000000000.segment", "0000000000500000.segment"])
    wait_until(lambda: len(names(archive, "snapshot")) >= 4)
    wait_until(lambda: not set(names(archive)) & set(names(daemon.data)), what="that only what has gone is there")
    Tally(daemon.endpoint)("backup", tmp_path / "b")
    after_backup = instant()
    say(daemon, "last")  # the segment of the backup does not end meanwhile
    running = refuse(daemon.data, archive, marks[0][0], tmp_path / "new")
    assert "belongs to another process" in running
    assert daemon.stop() == 0
    marks.append((instant(), ["last", "late"]))
    held_files = {path: path.read_bytes() for path in sorted(archive.rglob("*.s*"))}
    for until, held in marks:
        assert held_at(daemon_factory, daemon.data, archive, until) == held, until
    assert held_at(daemon_factory, tmp_path / "b", archive, marks[1][0]) == marks[1][1]
    assert {path: path.read_bytes() for path in sorted(archive.rglob("*.s*"))} == held_files
    assert "what is here of its log ends at" in refuse(tmp_path / "b", archive, after_backup, tmp_path / "new")
    assert "there was nothing to restore" in refuse(daemon.data, archive, before, tmp_path / "new")

    # What is not there is named; what is not needed is not asked for.
    first = archive / NAMESPACE / "0000000000000000.segment"
    first.rename(tmp_path / first.name)
    assert held_at(daemon_factory, daemon.data, archive, marks[5][0]) == []
    said = refuse(daemon.data, archive, marks[1][0], tmp_path / "new", status=1)
    assert "0000000000000000.segment is missing" in said, said
    said = refuse(daemon.data, archive, marks[0][0], tmp_path / "new")
    assert "no snapshot is that old" in said and "bring older files back" in said, said


def test_a_body_that_is_damaged_in_the_archive_is_told(daemon_factory, archive, tmp_path):
    daemon = start(daemon_factory, archive)
    say(daemon, "a body of its own")
    fill(daemon, 20)
    early = instant()
    fill(daemon, 50)
    until = instant()
    fill(daemon, 70)
    ok(daemon, "AmazonSQS.PurgeQueue", QueueUrl="q")
    fill(daemon, 110)
    late = instant()
    first = archive / NAMESPACE / "0000000000000000.segment"
    wait_until(first.exists, 20, "that the first segment is archived")
    assert daemon.stop() == 0
    held = first.read_bytes()
    first.write_bytes(held.replace(b"of its own", b"of its owm"))
    said = refuse(daemon.data, archive, until, tmp_path / "new", status=1)
    assert "lost: the body of message" in said and "but DAMAGED" in said and "Next: tallyd --data" not in said, said
    # On the way to the time: the archive is named, too, for the file is there.
    first.write_bytes(held[:500_000] + b"another log" + held[500_011:])
    said = refuse(daemon.data, archive, early, tmp_path / "new", status=1)
    assert f"{first.name} is damaged" in said and f"is in {first.parent}: look for the file there" in said, said
    # A copy that was cut off is called by its name.
    first.write_bytes(held[:1_000_000])
    for time_of in (early, until, late):
        said = refuse(daemon.data, archive, time_of, tmp_path / "new", status=1)
        assert f"{first.name} is damaged" in said and "expected 5242880 bytes, found 1000000" in said, said
    first.write_bytes(held)
    assert held_at(daemon_factory, daemon.data, archive, until) == ["a body of its own"]


def test_the_way_to_the_time_must_be_there_but_no_more(daemon_factory, archive, tmp_path):
    """A segment between is missing: times before it can be had, and times behind the next snapshot."""
    daemon = start(daemon_factory, archive)
    fill(daemon, 25)
    say(daemon, "early")
    early = instant()
    fill(daemon, 32)
    say(daemon, "between")
    between = instant()
    fill(daemon, 60)
    while names(daemon.data, "snapshot")[-1] < "0000000000a00000":  # the way to later begins behind what goes
        fill(daemon, 5)
    later = instant()
    ok(daemon, "AmazonSQS.PurgeQueue", QueueUrl="q")
    fill(daemon, 50)
    empty = instant()
    fill(daemon, 100)
    gone = archive / NAMESPACE / "0000000000500000.segment"
    wait_until(gone.exists)
    assert daemon.stop() == 0
    gone.unlink()
    assert held_at(daemon_factory, daemon.data, archive, early) == ["early"]
    assert held_at(daemon_factory, daemon.data, archive, empty) == []
    said = refuse(daemon.data, archive, between, tmp_path / "new", status=1)
    assert "0000000000500000.segment is missing" in said and "or give --until a time up to 20" in said, said
    said = refuse(daemon.data, archive, later, tmp_path / "new")  # "between" waited, and its body was there
    assert "bodies of messages" in said and "0000000000500000.segment is missing" in said, said


def test_a_restored_folder_is_no_larger_than_it_must_be(daemon_factory, archive, tmp_path):
    daemon = start(daemon_factory, archive)
    say(daemon, "first")
    fill(daemon, 400)
    wait_until(lambda: len(names(archive)) >= 2)
    until = instant()
    fill(daemon, 210)
    assert daemon.stop() == 0
    second, _ = restore(daemon_factory, daemon.data, archive, until)
    assert "0000000000000000.segment" in names(second.data), "the body of the first is in it"
    assert len(names(second.data)) <= 3 and len(names(second.data, "snapshot")) == 1
    assert second.start() and bodies(second, "q") == ["first"]


def test_a_kill_in_the_middle_of_removals_loses_nothing(daemon_factory, archive):
    daemon = start(daemon_factory, archive)
    marks = []
    for number in range(6):
        say(daemon, f"m{number}")
        marks.append((instant(), [f"m{i}" for i in range(number + 1)]))
        fill(daemon, 60)
        fill(daemon, 35 + number)  # a snapshot is due, and its removals are under way
        daemon.kill9()
        daemon.start()
    fill(daemon, 120)
    assert daemon.stop() == 0
    assert len(names(archive)) >= 3
    for until, held in marks[::2]:
        assert held_at(daemon_factory, daemon.data, archive, until) == held, until
    there = {int(name.split(".")[0], 16) for name in names(archive) + names(daemon.data)}
    assert there >= set(range(0, max(there), 5 * MIB)), "every segment that ever was"


def test_while_the_archive_takes_nothing_nothing_is_removed(daemon_factory, archive, tmp_path):
    daemon = start(daemon_factory, archive)
    say(daemon, "one")
    fill(daemon, 10)
    away = tmp_path / "away"
    archive.rename(away)
    archive.write_text("no folder")  # root may write everywhere, so rights don't help here
    fill(daemon, 250)
    daemon.wait_said("the archive")
    assert names(daemon.data)[:3] == [f"0000000000{start}00000.segment" for start in "05a"]
    said = [line for line in daemon.error_text().splitlines() if "the archive" in line]
    assert len(said) == 1, said
    assert "Not a directory" in said[0]
    events = ok(daemon, "Tally.FeedEvents", After=0)["Events"]
    assert any(event["Action"] == "ArchiveFailed" for event in events)
    assert bodies(daemon, "q") == ["one"]
    # It is made again where it is missing, and what was left comes in.
    archive.unlink()
    fill(daemon, 120)
    wait_until(lambda: "0000000000500000.segment" in names(archive))
    wait_until(lambda: "0000000000500000.segment" not in names(daemon.data))
    assert "0000000000000000.segment" in names(daemon.data), "the body of a message is in it"
    assert daemon.stop() == 0


def test_an_archive_that_can_not_be_is_refused_at_the_start(daemon_factory, archive, tmp_path):
    folder = daemon_factory().data
    elsewhere = pathlib.Path("/dev/shm") / f"tally-archive-{os.getpid()}"

    def refused(path, *words, status=1):
        return tallyd("--data", folder, "--listen", "127.0.0.1:0", "--archive", path, *words, status=status)

    if os.stat("/dev/shm").st_dev != tmp_path.stat().st_dev:
        try:
            elsewhere.mkdir()
            assert "Invalid cross-device link. It must be a folder on the file system of the data" in refused(elsewhere)
        finally:
            shutil.rmtree(elsewhere, ignore_errors=True)
    assert "it is the data folder itself" in refused(folder)
    assert "No such file or directory" in refused(tmp_path / "no" / "such")
    assert "it lies where tallyd removes files" in refused(folder / NAMESPACE)
    assert "it lies where tallyd removes files" in refused(folder / "before-0.1.0")
    said = refused(archive, "--log", "postgres://nobody@127.0.0.1:1/none", status=2)
    assert "must be empty where the log is in PostgreSQL" in said, said
    assert "needs a time" in tallyd("--restore", folder, "--archive", archive, "--to", tmp_path / "new", status=2)


def test_a_file_of_another_log_is_left_alone(daemon_factory, archive):
    """Two data folders have one archive: the second says so, and keeps its files."""
    (archive / NAMESPACE).mkdir(parents=True)
    other = archive / NAMESPACE / "0000000000000000.segment"
    other.write_text("of another")
    daemon = start(daemon_factory, archive)
    fill(daemon, 150)
    daemon.wait_said("needs an archive of its own")
    assert other.read_text() == "of another" and "0000000000000000.segment" in names(daemon.data)
    assert daemon.stop() == 0


def test_an_archive_of_another_data_folder_is_refused_at_the_start(daemon_factory, archive, tmp_path):
    daemon = start(daemon_factory, archive)
    fill(daemon, 150)
    wait_until(lambda: names(archive))
    other = ["--data", tmp_path / "other", "--listen", "127.0.0.1:0", "--archive", archive]
    said = tallyd(*other, status=1)
    assert f"is the archive of another data folder, {daemon.data}. Files of the two" in said, said
    for path in archive.rglob("*.s*"):
        path.unlink()  # as the line for cron does: nothing else tells whose it is
    assert "is the archive of another data folder" in tallyd(*other, status=1)
    assert "is the archive of another data folder" in tallyd(*other, "--check-config", status=1)
    assert daemon.stop() == 0

    # A restored folder goes on with the same names. So does a copy.
    second, _ = restore(daemon_factory, daemon.data, archive, instant())
    shutil.copytree(daemon.data, tmp_path / "copy")
    for folder, words in ((second.data, f", {daemon.data}. Files"), (tmp_path / "copy", ", of which this one is a")):
        assert words in tallyd(*SMALL, "--data", folder, "--listen", "127.0.0.1:0", "--archive", archive, status=1)
    # A folder that has only moved is the same, and so is one without its copy.
    daemon.data.rename(tmp_path / "moved")
    daemon.data = tmp_path / "moved"
    daemon.start()
    assert daemon.stop() == 0
    assert os.readlink(archive / "owner").endswith(f" {tmp_path / 'moved'}")
    assert "of which this one is a copy" in tallyd(
        *SMALL, "--data", tmp_path / "copy", "--listen", "127.0.0.1:0", "--archive", archive, status=1)
    # What is no mark of ours is nobody's.
    (archive / "owner").unlink()
    (archive / "owner").symlink_to("me")
    assert "is the archive of another data folder" in tallyd(
        *SMALL, "--data", daemon.data, "--listen", "127.0.0.1:0", "--archive", archive, status=1)
    (archive / "owner").unlink()
    daemon.start()
    assert daemon.stop() == 0


def test_check_config_says_of_an_archive_what_a_start_would_say(daemon_factory, archive, tmp_path):
    daemon = daemon_factory().start()
    assert daemon.stop() == 0

    def check(path, status=1):
        return tallyd("--check-config", "--data", daemon.data, "--archive", path, status=status)

    assert "nothing is wrong" in check(archive, 0) and "nothing is wrong" in check(daemon.data / "archive", 0)
    assert "nothing is wrong" in tallyd("--check-config", "--data", tmp_path / "new", "--archive", archive, status=0)
    new = f"{tmp_path}/new/"  # a start makes it, and the archive in it
    assert "nothing is wrong" in tallyd("--check-config", "--data", new, "--archive", f"{new}a")
    assert "it is the data folder itself" in check(daemon.data)
    assert "it lies where tallyd removes files" in check(daemon.data / NAMESPACE / "archive")
    assert "No such file or directory" in check(tmp_path / "no" / "such")
    assert "Not a directory" in check(daemon.data / "version")
    if os.stat("/dev/shm").st_dev != tmp_path.stat().st_dev:
        assert "Invalid cross-device link" in check("/dev/shm")
    assert not archive.exists() and not (daemon.data / "identity").exists()


def test_each_namespace_has_its_folder(daemon_factory, archive, tmp_path):
    credentials = ("--credentials", str(write_credentials(tmp_path, TWO)))
    daemon = daemon_factory(*SMALL, "--archive", str(archive), *credentials).start()

    def call(key, target, **body):
        answer = ask(daemon, "json", target, body, key, f"{key.lower()}-secret")
        assert answer.status == 200, answer.body

    for key in ("ONE", "TWO"):
        call(key, "AmazonSQS.CreateQueue", QueueName="q")
        call(key, "AmazonSQS.SendMessage", QueueUrl="q", MessageBody=key)
    until = instant()
    for key in ("ONE", "TWO"):
        call(key, "AmazonSQS.PurgeQueue", QueueUrl="q")
        for _ in range(150):
            call(key, "AmazonSQS.SendMessage", QueueUrl="q", MessageBody=FILLER)
        call(key, "AmazonSQS.PurgeQueue", QueueUrl="q")
    wait_until(lambda: sorted(path.name for path in archive.iterdir() if path.is_dir()) == [NAMESPACE, "000000000002"])
    assert daemon.stop() == 0
    second, said = restore(daemon_factory, daemon.data, archive, until, *credentials)
    assert said.count("1 queues, 1 messages") == 2 and "an archive of its own" in said
    assert sorted(path.name for path in second.data.iterdir() if path.is_dir()) == [NAMESPACE, "000000000002"]


def test_files_go_from_the_archive_meanwhile(daemon_factory, archive):
    """An operator moves and removes what is there while the server archives, as rsync --remove-source-files does."""
    daemon = start(daemon_factory, archive)
    say(daemon, "one")
    for turn in range(12):
        fill(daemon, 50)
        if turn % 3 == 2:
            shutil.rmtree(archive, ignore_errors=True)
        else:
            for path in sorted(archive.rglob("*.s*")):
                path.unlink()
    assert bodies(daemon, "q") == ["one"] and "the archive" not in daemon.error_text()
    daemon.kill9()
    assert daemon.start() and bodies(daemon, "q") == ["one"]
    assert daemon.stop() == 0


def test_the_lines_of_the_page(daemon_factory, archive, tmp_path):
    """docs/how-to/backup.md: the lines for cron, and the two restores."""
    page = (ROOT / "docs" / "how-to" / "backup.md").read_text()
    page = page[page.index("## Any instant: archive"):page.index("## A drill")]
    daemon = start(daemon_factory, archive)
    vault, backups = tmp_path / "vault", tmp_path / "backups"
    vault.mkdir()
    backups.mkdir()
    say(daemon, "one")
    until = instant()
    fill(daemon, 150)
    wait_until(lambda: names(archive))

    def run(line, status=0):
        for there, here in (("/var/lib/tally/archive", archive), ("/var/lib/tally-new", tmp_path / "new"),
                            ("/var/lib/tally ", f"{daemon.data} "), ("/mnt/vault", vault),
                            ("/tmp/then", tmp_path / "then"), ("/var/backups/tally", backups),
                            ("2026-11-30T03:05:00Z", until)):
            line = line.replace(there, str(here))
        environment = {**clean_environment(), "TALLY_ENDPOINT": daemon.endpoint, "PATH": f"{BIN}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == status, (line, done)

    move, remove = (line.split("  tally  ")[1] for line in page.splitlines() if "  tally  " in line)
    from_data, backup, from_backup = (line.strip() for line in page.splitlines() if line.startswith("    tally"))
    run(move)
    assert names(vault) and not names(archive)
    run(remove)
    assert names(vault), "they are young"
    run(backup)
    run(from_backup)
    fill(daemon, 10)
    assert daemon.stop() == 0
    run(move)
    run(from_data)
    run(from_data, 2)  # it is not empty
    for made in ("new", "then"):
        assert "messages 1" in tallyd("--verify", tmp_path / made)


def test_an_archive_that_fills_the_disk_stops_sends_and_nothing_else(daemon_factory, tmp_path):
    """What is archived keeps its room. Once it has been taken away, all goes on."""
    try:
        with small_disk(tmp_path / "disk", 96) as disk:
            archive = disk / "archive"
            daemon = daemon_factory(*SMALL, "--archive", str(archive), "--data", str(disk / "data")).start()
            for queue in ("q", "fill"):
                ok(daemon, "AmazonSQS.CreateQueue", QueueName=queue)
            say(daemon, "one")
            refused = None
            while refused is None:
                for _ in range(20):
                    status, answer = daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "fill", "MessageBody": FILLER})
                    refused = answer if status != 200 else refused
                ok(daemon, "AmazonSQS.PurgeQueue", QueueUrl="fill")
            assert "DiskIsFull" in refused["__type"], refused
            assert len(names(archive)) > 10 and bodies(daemon, "q") == ["one"]
            daemon.kill9()
            assert daemon.start() and bodies(daemon, "q") == ["one"]
            for path in archive.rglob("*.s*"):
                path.unlink()
            wait_until(lambda: daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "two"})[0] == 200)
            fill(daemon, 60)
            assert bodies(daemon, "q") == ["one", "two"] and daemon.stop() == 0
    except NoMount as why:
        pytest.skip(str(why))
