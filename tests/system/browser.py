"""Debian's Chromium, driven by a program for Node.js that takes jobs. test_ui.py and test_site.py share it."""

import json
import pathlib
import shutil
import subprocess

from clients import HERE, needs
from conftest import PATIENCE, clean_environment

CHROMIUM = shutil.which("chromium")
IS_SNAP = CHROMIUM is not None and "snap" in pathlib.Path(CHROMIUM).resolve().parts


class Browser:
    """Chromium with a script in front of it, for all tests of a file. A job is a line: {scenario, …}. It is answered by
    a line: {told}, or {error} if something was not as it must be."""

    def __init__(self, script):
        needs(CHROMIUM is not None and not IS_SNAP, "chromium")
        assert shutil.which("node"), "node is missing: run ./setup test"
        assert (HERE / "node_modules/playwright-core").exists(), "playwright-core is missing: run ./setup test"
        self.process = subprocess.Popen(["node", HERE / script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=clean_environment(CHROMIUM=CHROMIUM))

    def run(self, scenario, **job):
        """What the scenario tells, at its good end."""
        self.process.stdin.write(json.dumps({"scenario": scenario, **job}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer.get("told")

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait(60 * PATIENCE) == 0
