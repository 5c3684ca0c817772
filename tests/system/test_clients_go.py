"""The AWS SDK for Go, version 2, as distributions have it: that of Debian 12 speaks Query, later ones speak JSON."""

import pathlib
import shutil
import subprocess

from clients import KEY, SECRET, needs
from conftest import PATIENCE, ROOT, clean_environment

SOURCES = pathlib.Path("/usr/share/gocode")
SDK = SOURCES / "src/github.com/aws/aws-sdk-go-v2/service/sqs"


def build():
    """The program, made anew where its source is newer; without modules, so that nothing is fetched."""
    needs(shutil.which("go"), "golang-go")
    needs(SDK.exists(), "golang-github-aws-aws-sdk-go-v2-dev")
    folder = ROOT / "build/go"
    program, source = folder / "sqs_life", ROOT / "tests/system/sqs_life.go"
    settings = {"GO111MODULE": "off", "GOPATH": str(SOURCES), "GOCACHE": str(folder / "cache"), "GOFLAGS": ""}
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["go", "build", "-o", program, source],
        capture_output=True,
        text=True,
        timeout=600 * PATIENCE,
        env=clean_environment(**settings),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return program


def test_the_sdk_for_go(daemon):
    """Lives, batches, FIFO, typed errors, and a message with ten attributes that is sent on as it came."""
    done = subprocess.run(
        [build(), daemon.endpoint],
        capture_output=True,
        text=True,
        timeout=120 * PATIENCE,
        env=clean_environment(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET),
    )
    assert (done.returncode, done.stdout) == (0, "good\n"), done.stdout + done.stderr
