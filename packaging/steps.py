"""The steps of a check: a line for each on standard output, PASS or FAIL, and at the end "N passed, N failed". What was
said meanwhile is in a log."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "fresh"))
from fresh import Failed, last_line  # noqa: E402


class Steps:
    def __init__(self, folder):
        """The folder is emptied; it has the log."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.log = open(folder / "log", "w")
        self.passed = self.failed = 0

    def run(self, *command, **more):
        """What it said; anything but status 0 is a failure."""
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, **more)
        print(f"\n=== {' '.join(map(str, command))}\n{done.stdout}", file=self.log, flush=True)
        if done.returncode != 0:
            raise Failed(f"{command[0]}: status {done.returncode}; {last_line(done.stdout)}")
        return done.stdout

    def take(self, what, action):
        """One step and its line; False if it failed."""
        began = time.monotonic()
        try:
            verdict, detail = "PASS", action()
            self.passed += 1
        except (Failed, OSError, ValueError, subprocess.SubprocessError) as failure:
            verdict, detail = "FAIL", f"{failure} (all of it: {os.path.relpath(self.log.name, ROOT)})"
            self.failed += 1
        print(f"{verdict}  {what:<32} {time.monotonic() - began:5.0f} s  {detail}", flush=True)
        return verdict == "PASS"

    def fail(self, what, failure):
        def raise_it():
            raise failure

        self.take(what, raise_it)

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(self.failed > 0)
