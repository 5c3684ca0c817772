"""What authentication costs: a verification alone. bench/run --only auth."""

import json
import os
import statistics
import subprocess

from harness import report
from harness.order import Part
from harness.servers import RunFailed

VERIFY_US = 3


class Auth(Part):
    """The verifier in a program of its own (bench/sigv4.c): a request with a body of 200 bytes."""

    key = "auth"
    title = "signatures"

    def run(self, setting, tell):
        tell("verifying signatures")
        command = [os.path.join(os.path.dirname(setting.load), "sigv4"), "--seconds", str(setting.seconds)]
        if setting.load_core is not None:
            command += ["--core", str(setting.load_core)]
        for _ in range(setting.runs):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0:
                raise RunFailed(done.stderr.strip() or f"sigv4 ended with status {done.returncode}")
            self.results.setdefault("verify", []).append(json.loads(done.stdout))

    def rows(self, setting):
        runs = self.results.get("verify", [])
        header, query = (statistics.median(run[name] for run in runs) if runs else None
                         for name in ("header_us", "query_us"))
        return [report.row("verification of a signature", header, "us", "presigned, in the query string", query, "us",
                           at_most=VERIFY_US, bar_on_value=True, problem=self.problem)]


PARTS = [Auth]
