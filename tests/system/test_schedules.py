"""Schedules and a time zone that goes away from under the daemon: nothing is lost by it, and everybody is told."""

import datetime
import shutil
import time

import pytest
from clock import Clock
from conftest import Tally, wait_until

BERLIN = "/usr/share/zoneinfo/Europe/Berlin"
URL = "http://127.0.0.1/000000000000/jobs"


@pytest.fixture
def zones(tmp_path, monkeypatch):
    """A folder of time-zone data in which a test may do as it likes, for daemons that start here."""
    folder = tmp_path / "zones"
    (folder / "Europe").mkdir(parents=True)
    shutil.copy(BERLIN, folder / "Europe" / "Berlin")
    monkeypatch.setenv("TZDIR", str(folder))
    return folder


def ok(daemon, action, **parameters):
    status, answer = daemon.call(action if "." in action else f"AmazonSQS.{action}", parameters)
    assert status == 200, answer
    return answer


def metric(daemon, name):
    lines = daemon.request("GET", "/metrics")[2].decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def start_at(daemon, clock, seconds):
    """The daemon's clock shows this at its start, and goes on from there."""
    clock.set(seconds - time.time())
    with clock.around():
        daemon.start()


def test_a_schedule_outlives_restarts_without_its_time_zone(daemon_factory, zones):
    clock = Clock()
    daemon = daemon_factory()
    day = datetime.datetime(2031, 11, 20, tzinfo=datetime.timezone.utc).timestamp()
    due = day + 11.5 * 3600  # 12:30 in Berlin, in winter
    start_at(daemon, clock, day + 11 * 3600)
    ok(daemon, "CreateQueue", QueueName="jobs")
    put = {"Name": "report", "Cron": "30 12 * * *", "TimeZone": "Europe/Berlin", "QueueUrl": URL, "MessageBody": "go"}
    assert ok(daemon, "Tally.PutSchedule", **put)["NextAt"] == due
    assert "Warning" not in ok(daemon, "Tally.DescribeSchedule", Name="report")
    assert daemon.stop() == 0

    (zones / "Europe" / "Berlin").unlink()
    for restart in range(3):  # none of them writes down that it will never be due again
        start_at(daemon, clock, day + 12 * 3600 + restart * 300)
        wait_until(lambda: metric(daemon, "tally_schedules_waiting_for_zone") == 1, what="the schedule to be due")
        shown = ok(daemon, "Tally.DescribeSchedule", Name="report")
        assert shown["NextAt"] == due and "LastAt" not in shown
        assert f"Europe/Berlin can't be read from {zones}" in shown["Warning"]
        assert ok(daemon, "Tally.ListSchedules")["Schedules"][0]["Warning"] == shown["Warning"]
        assert ok(daemon, "ReceiveMessage", QueueUrl=URL) == {}
        said = "schedule 'report' is due and waits: its time zone Europe/Berlin"
        wait_until(lambda: daemon.error_text().count(said) == restart + 1, what="one more line about it")
        assert daemon.call("Tally.PutSchedule", {**put, "Name": "other"})[0] == 400
        tally = Tally(daemon.endpoint)
        assert "can't be read" in tally("schedule", "show", "report").out
        assert tally("schedule", "list").out.rstrip().endswith("Europe/Berlin (its time zone can't be read)")
        if restart == 1:
            daemon.kill9()
        else:
            assert daemon.stop() == 0

    shutil.copy(BERLIN, zones / "Europe" / "Berlin")
    start_at(daemon, clock, day + 13 * 3600)
    (message,) = ok(daemon, "ReceiveMessage", QueueUrl=URL, WaitTimeSeconds=20, AttributeNames=["All"])["Messages"]
    assert message["Attributes"]["MessageDeduplicationId"] == f"report/{due:.0f}"
    shown = ok(daemon, "Tally.DescribeSchedule", Name="report")
    assert (shown["LastAt"], shown["NextAt"]) == (due, due + 86400) and "Warning" not in shown
    assert metric(daemon, "tally_schedules_waiting_for_zone") == 0
    assert ok(daemon, "ReceiveMessage", QueueUrl=URL) == {}
    assert daemon.stop() == 0


def test_a_time_zone_that_was_read_is_kept_until_the_next_start(daemon_factory, zones):
    daemon = daemon_factory().start()
    ok(daemon, "CreateQueue", QueueName="jobs")
    put = {"Cron": "* * * * *", "TimeZone": "Europe/Berlin", "QueueUrl": URL, "MessageBody": "go"}
    ok(daemon, "Tally.PutSchedule", Name="first", **put)
    shutil.rmtree(zones)
    ok(daemon, "Tally.PutSchedule", Name="second", **put)
    assert "Warning" not in ok(daemon, "Tally.DescribeSchedule", Name="second")
    assert daemon.stop() == 0
