"""What a backup costs those who send meanwhile: bench/run --only backup."""

import concurrent.futures
import json
import os
import random
import statistics
import time

from harness import measure, report
from harness.look import Caller, Turns
from harness.order import Bench, Part
from harness.servers import RunFailed


class Pause(Part):
    """Sends at a steady rate, with backups and without, by turns in one load: how long the longest takes."""

    key = "backup"
    title = "sends while a backup is made"
    RATE = 2_000  # sends a second
    PAIRS = 15  # of turns with a backup and without in a run
    REST_S = 0.3  # after a turn: what it left for the disk is not the next one's

    def run(self, setting, tell):
        with Bench(setting, "bench") as bench:
            tell(f"{setting.messages:,} messages")
            bench.fill(setting.messages)
            measure.snapshot_wait(bench.server)
            for turn in range(setting.turns):
                tell(f"sends beside backups, and without, run {turn + 1} of {setting.turns}")
                self.sends(setting, bench)

    def sends(self, setting, bench):
        pairs = max(1, round(self.PAIRS * min(1.0, setting.seconds)))
        path = os.path.join(setting.folder, "latencies")
        caller = Caller(bench.server)
        took_s = self.backup(caller)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            seconds = setting.warm_up + 2 * pairs * (1.5 * took_s + self.REST_S) + 1
            load = pool.submit(bench.load, "http-send", "--rate", self.RATE, "--warm-up", 0, "--seconds", seconds,
                               "--latencies", path)
            time.sleep(setting.warm_up)
            spans = {"with": [], "without": []}
            for _ in range(pairs):
                for kind in random.sample(("with", "without"), 2):
                    begun_s, turns = time.monotonic(), Turns(bench.server)
                    if kind == "with":
                        took_s = self.backup(caller)
                        self.note("seconds of a backup", took_s)
                    else:
                        time.sleep(took_s)
                    spans[kind].append((begun_s, time.monotonic()))
                    self.note(f"turn {kind}", turns.longest_ms())
                    time.sleep(self.REST_S)
            load.result()
        for kind, of_kind in spans.items():
            self.note(kind, measure.percentiles_us(measure.latencies_during(path, of_kind)))
        os.remove(path)

    @staticmethod
    def backup(caller):
        """Makes one, and deletes it; the seconds that it took."""
        begun_s = time.monotonic()
        made = json.loads(caller.call("Tally.StartBackup", {}))
        one = {"BackupId": made["BackupId"]}
        while made["State"] == "running":
            time.sleep(0.01)
            made = json.loads(caller.call("Tally.DescribeBackup", one))
        if made["State"] != "finished":
            raise RunFailed(f"a backup could not be made: {made}")
        caller.call("Tally.DeleteBackup", one)
        return time.monotonic() - begun_s

    def rows(self, setting):
        def of_runs(kind, which, choose):
            found = [run[which] / 1000 for run in self.results.get(kind, []) if run[which]]
            return choose(found) if found else None

        found = []
        for key, which, choice, choose in (("p99", "p99", "median", statistics.median),
                                           ("p999", "p99.9", "median", statistics.median),
                                           ("max", "the longest", "median", statistics.median),
                                           ("max", "the longest", "worst", max)):
            # A disk that stands still now and then does so in a run or two, with backups or without.
            bar = {"at_most": report.PAUSE_MS, "bar_on_value": True} if choice == "median" else {}
            found.append(report.row(f"sends while backups are made: {which}, {choice} of {setting.turns} runs",
                                    of_runs("with", key, choose), "ms", "without", of_runs("without", key, choose),
                                    "ms", problem=self.problem, **bar))
        with_it, without = (max(self.results.get(f"turn {kind}", [None])) for kind in ("with", "without"))
        found.append(report.row("no turn of the loop was above", with_it, "ms", "without backups", without, "ms",
                                at_most=report.PAUSE_MS, bar_on_value=True, problem=self.problem))
        found.append(report.row("a backup takes", self.median_of("seconds of a backup"), "s", problem=self.problem))
        return found


PARTS = [Pause]
