#!/usr/bin/python3
"""The campaign of every action: a daemon built with sanitizers gets random requests of all actions, in both wire forms,
on several connections and in several namespaces. Queues, batches, pools, schedules and relays are deleted in the
middle; clients go away; the daemon is killed or stopped every few seconds, its clock jumps ahead, its time zones go
away, its memory is short, and its segments are small, so that it cleans and takes snapshots.

    make campaign-asan SECONDS=3600
    tests/campaign/asan_campaign.py --seconds 60 --seed 7 --tallyd build/asan/src/tallyd

Standard output: how often each action was called and how often it went well, then one line of JSON. Exit status 0: no
sanitizer had anything to say, the daemon never ended by itself, each reply could be read, and each action went well at
least once."""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--seconds", type=float, default=60)
arguments.add_argument("--seed", type=int, default=None, help="what is asked for; not when it arrives (default: drawn)")
arguments.add_argument("--tallyd", default="build/asan/src/tallyd")
OPTIONS = arguments.parse_args()
os.environ["TALLY_BIN"] = str(pathlib.Path(OPTIONS.tallyd).resolve().parent)

import every_action  # noqa: E402
import sqs  # noqa: E402
from clock import Clock  # noqa: E402
from conftest import Daemon, wait_until  # noqa: E402
from every_action import Memory, Tour, bulk, draw  # noqa: E402
from signing import signed_headers  # noqa: E402
from webhook import Receiver  # noqa: E402
from wire import Connection, Lost  # noqa: E402

THREADS = 4
ROUNDS_OF_A_FOLDER = 6
REPORT = re.compile(r"runtime error: |Sanitizer|assertion failed|Segmentation|ABORTING|out of memory")
KEYS = {"ONE": "000000000000", "TWO": "111111111111", "THREE": "222222222222"}
SIZES = ("--body-max", "256KiB", "--segment-size", "6MiB", "--snapshot-bytes", "512KiB", "--snapshot-growth", "1")


class Fault(Exception):
    """What must not be: it ends the campaign."""


class Over(Exception):
    """A call of a tour was refused, maybe for a reason that the campaign has made itself."""


class Counts:
    def __init__(self):
        self.lock = threading.Lock()
        self.called, self.good = collections.Counter(), collections.Counter()
        self.refusals = collections.defaultdict(collections.Counter)
        self.faults = []

    def note(self, action, code):
        with self.lock:
            self.called[action] += 1
            if code is None:
                self.good[action] += 1
            else:
                self.refusals[action][code] += 1

    def fault(self, text):
        with self.lock:
            self.faults.append(text)


class Client:
    """One connection, for one thread. The key says in which namespace; None: the daemon asks nobody."""

    def __init__(self, campaign, chance):
        self.campaign, self.chance = campaign, chance
        self.line = Connection(campaign.daemon.port, seconds=60)

    def bytes_of(self, action, parameters, key):
        is_query = action.startswith("AmazonSQS.") and self.chance.random() < 0.35
        name = action.split(".", 1)[1]
        body = sqs.form(name, parameters) if is_query else json.dumps(parameters)
        headers = {"Host": "127.0.0.1",
                   "Content-Type": "application/x-www-form-urlencoded" if is_query else "application/x-amz-json-1.0"}
        if not is_query:
            headers["X-Amz-Target"] = action
        if key is not None:
            headers = signed_headers("/", body, headers, key, f"{key}-secret",
                                     at=time.time() + self.campaign.clock.seconds)
        lines = "".join(f"{field}: {value}\r\n" for field, value in headers.items())
        body = body.encode()
        return is_query, b"POST / HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n" % (lines.encode(), len(body)) + body

    def read(self, action, is_query):
        """(code or None, what it says)"""
        answer = self.line.answer()
        if answer.status == 500:
            raise Fault(f"{action}: {answer.body[:500]!r}")
        try:
            if is_query:
                return None, sqs.read(action.split(".", 1)[1], answer)
            told = answer.json()
            return (None, told) if answer.status == 200 else (told["__type"].split("#")[-1], told)
        except sqs.Refused as refusal:
            return refusal.code, {"message": refusal.message}
        except (ValueError, AssertionError, KeyError, SyntaxError) as error:
            raise Fault(f"{action}: a reply that can't be read, {error!r}: {answer.body[:500]!r}") from error

    def ask(self, requests, is_patient=False):
        """Some requests at once: their codes and answers, in order."""
        written = [(action, *self.bytes_of(action, parameters, key)) for action, parameters, key in requests]
        self.line.write(b"".join(data for _, _, data in written))
        if not is_patient and self.chance.random() < 0.02:
            self.line.close()  # somebody who goes away, maybe while he waits
            raise Lost
        answers = []
        for action, is_query, _ in written:
            code, told = self.read(action, is_query)
            self.campaign.counts.note(action, code)
            answers.append((code, told))
        return answers


class Campaign:
    def __init__(self, folder, seed):
        self.folder, self.chance = pathlib.Path(folder), random.Random(seed)
        self.seed, self.counts, self.clock, self.hook = seed, Counts(), Clock(), Receiver()
        self.hook.answer = lambda hit: "close"
        self.hook.start()
        self.zones = self.folder / "zones"
        os.environ.update(self.clock.environment)
        # The reports go where we look for them, whatever the caller has set.
        os.environ["ASAN_OPTIONS"] = "detect_leaks=1:abort_on_error=0:exitcode=99:verify_asan_link_order=0"
        os.environ["UBSAN_OPTIONS"] = "print_stacktrace=1"
        os.environ["TZDIR"] = str(self.zones)
        self.daemon, self.memories, self.rounds, self.kills, self.tours = None, {}, 0, 0, collections.Counter()
        self.cleaned, self.snapshots = 0, 0  # rounds of cleaning; rounds of ours that ended with a snapshot

    # --- clients ------------------------------------------------------------------------------------------------------

    def work(self, number, until):
        chance = random.Random(f"{self.seed} {self.rounds} {number}")
        client = Client(self, chance)
        while time.monotonic() < until and not self.counts.faults:
            try:
                if number == 0 and self.takes_tour:
                    self.takes_tour = False
                    self.tour(client, chance)
                self.step(client, chance, bulk if number == 1 and chance.random() < 0.5 else draw)
            except (Lost, OSError):
                client.line.close()
                if self.daemon.process is None or self.daemon.process.poll() is not None:
                    return
            except Fault as fault:
                self.counts.fault(str(fault))
        client.line.close()

    def step(self, client, chance, draw_one):
        if chance.random() < 0.005:
            self.daemon.request("GET", "/metrics")
        requests = []
        for _ in range(chance.choice([1, 1, 1, 2, 5])):
            key = chance.choice(list(self.memories))
            requests.append((*draw_one(chance, self.memories[key]), key))
        for (action, parameters, key), (code, told) in zip(requests, client.ask(requests)):
            if code is None:
                self.memories[key].learn(action, parameters, told)

    def tour(self, client, chance):
        key = chance.choice(list(self.memories))

        def call(action, parameters):
            ((code, told),) = client.ask([(action, parameters, key)], is_patient=True)
            if code is not None:
                raise Over(f"{action}: {code} {told}")
            return told

        def wait(claim):
            return wait_until(claim, 10, "the tour's relay")

        try:
            Tour(call, self.memories[key], f"tour-{self.rounds}", self.hook.url).run(wait)
            self.tours["whole"] += 1
        except (AssertionError, KeyError, IndexError, ValueError, Over, Lost) as error:
            self.tours[repr(error)[:300]] += 1
            client.line.close()

    # --- the daemon ---------------------------------------------------------------------------------------------------

    def begin_folder(self):
        """A daemon of its own, with one namespace or several."""
        if self.daemon is not None:
            shutil.rmtree(self.daemon.folder)
        folder = self.folder / f"daemon-{self.rounds}"
        folder.mkdir()
        self.daemon = Daemon(folder)
        self.plain = list(SIZES) + self.daemon.options[-2:]
        self.has_keys = self.rounds % (2 * ROUNDS_OF_A_FOLDER) == 0
        names = KEYS if self.has_keys else {None: KEYS["ONE"]}
        self.memories = {key: Memory(namespace) for key, namespace in names.items()}
        if self.has_keys:
            file = folder / "credentials"
            file.write_text("".join(f"{key}  {key}-secret  {namespace}  read,write,admin\n"
                                    for key, namespace in KEYS.items()))
            file.chmod(0o600)
            self.plain += ["--credentials", str(file)]

    def begin_round(self):
        if self.rounds % ROUNDS_OF_A_FOLDER == 0:
            self.begin_folder()
        chance = self.chance
        is_short = self.rounds % 3 == 2
        self.daemon.options = [*self.plain, "--memory-max", f"{chance.choice([2, 3, 5])}MiB" if is_short else "off"]
        self.daemon.options += chance.choice([[], ["--in-flight-max", "20"], ["--purge-interval", "on"],
                                              ["--reply-memory-max", "1MiB"]])
        self.takes_tour = not is_short
        # Ahead only: a daemon whose clock was set back goes on from its log's time, and believes no signature.
        self.clock.set(self.clock.seconds + chance.choice([0, 0, 30, 90, 4000, 100000]))
        shutil.rmtree(self.zones, ignore_errors=True)
        if self.rounds % 4 != 3:
            (self.zones / "Europe").mkdir(parents=True)
            for name in "UTC", "Europe/Berlin":
                shutil.copy(f"/usr/share/zoneinfo/{name}", self.zones / name)
        try:
            self.daemon.start()
        except AssertionError as error:
            raise Fault(f"the daemon does not start: {error}") from error
        if self.rounds == 0:
            self.look_at_actions()

    def look_at_actions(self):
        """The actions that there are, as the daemon says."""
        text = self.daemon.request("GET", "/metrics")[2].decode()
        self.actions = sorted(set(re.findall(r'tally_calls_total\{[^}]*action="([^"]+)"', text)))
        forgotten = set(self.actions) ^ set(every_action.DRAWS)
        if forgotten:
            raise Fault(f"every_action.py and the daemon differ in: {', '.join(sorted(forgotten))}")

    def report(self):
        """What a sanitizer said, from its first line on, or None."""
        text = self.daemon.error_text()
        found = REPORT.search(text)
        return text[max(0, text.rfind("\n", 0, found.start())) :][:6000] if found else None

    def end_round(self):
        status = self.daemon.process.poll()
        if status is not None:
            raise Fault(
                f"the daemon ended by itself, status {status}: {self.report() or self.daemon.error_text()[-3000:]}")
        metrics = self.daemon.request("GET", "/metrics")[2].decode()
        self.cleaned += sum(int(count)
                            for count in re.findall(r"^tally_cleaning_rounds_total\S* (\d+)", metrics, re.MULTILINE))
        self.snapshots += any(self.daemon.data.rglob("*.snapshot"))
        if self.rounds % 2 == 0:
            self.daemon.kill9()
            self.kills += 1
        else:
            status = self.daemon.stop(seconds=60)
            if status != 0:
                raise Fault(
                    f"a clean stop ended with status {status}: {self.report() or self.daemon.error_text()[-3000:]}")
        if self.report():
            raise Fault(self.report())

    def run_round(self, seconds):
        self.begin_round()
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self.work, args=(number, until)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        self.daemon.process.send_signal(signal.SIGHUP)
        for thread in threads:
            thread.join()
        self.end_round()
        self.rounds += 1

    def run(self, seconds):
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end and not self.counts.faults:
                self.run_round(min(self.chance.uniform(2, 6), max(2, end - time.monotonic())))
        except Fault as fault:
            self.counts.fault(str(fault))
        finally:
            self.hook.stop()
            if self.daemon is not None:
                self.daemon.kill9()
        for action in getattr(self, "actions", []):
            if self.counts.good[action] == 0:
                self.counts.fault(
                    f"{action} never went well: {dict(self.counts.refusals[action])}; tours: {dict(self.tours)}")


def main():
    seed = OPTIONS.seed if OPTIONS.seed is not None else random.SystemRandom().randrange(1 << 32)
    folder = tempfile.mkdtemp(prefix="tally-campaign-")
    campaign = Campaign(folder, seed)
    started = time.monotonic()
    campaign.run(OPTIONS.seconds)
    counts = campaign.counts
    for action in getattr(campaign, "actions", []):
        print(f"{action:45} {counts.called[action]:9,} called {counts.good[action]:9,} good")
    for fault in counts.faults:
        print(f"FAULT: {fault}")
    print(json.dumps({"seed": seed, "seconds": round(time.monotonic() - started), "rounds": campaign.rounds,
                      "kills": campaign.kills,
                      "cleaned": campaign.cleaned, "snapshots": campaign.snapshots, "tours": campaign.tours["whole"],
                      "calls": sum(counts.called.values()), "good": sum(counts.good.values()),
                      "faults": len(counts.faults)}))
    if counts.faults:
        sys.exit(f"the folder {folder} is left as it is")
    print("no report")
    shutil.rmtree(folder, ignore_errors=True)


main()
