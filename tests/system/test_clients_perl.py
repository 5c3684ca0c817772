"""Amazon::SQS::Simple for Perl, unmodified: forms that name a target too, and a Host without a port."""

import pathlib
import re
import subprocess

import pytest
from clients import KEY, SECRET, needs
from conftest import PATIENCE, clean_environment

PROGRAM = pathlib.Path(__file__).resolve().parent / "sqs_life.pl"


def run(endpoint, scenario):
    return subprocess.run(
        ["/usr/bin/perl", PROGRAM, endpoint, scenario],
        capture_output=True,
        text=True,
        timeout=60 * PATIENCE,
        env=clean_environment(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET),
    )


@pytest.fixture(autouse=True)
def module_is_there():
    done = subprocess.run(["/usr/bin/perl", "-MAmazon::SQS::Simple", "-e1"], capture_output=True)
    needs(done.returncode == 0, "libamazon-sqs-simple-perl")


@pytest.fixture
def endpoint(daemon_factory):
    """Of a daemon that knows how its queue URLs begin, because this client leaves the port out of Host.

    It has no credentials: the module signs for the service that the first part of the host's name says, "127" here."""
    daemon = daemon_factory()
    daemon.options += ["--public-url", daemon.endpoint]
    daemon.start()
    yield daemon.endpoint
    assert daemon.stop() == 0


@pytest.mark.parametrize("scenario", re.findall(r"^    (\w+) => sub", PROGRAM.read_text(), re.MULTILINE))
def test_amazon_sqs_simple(endpoint, scenario):
    done = run(endpoint, scenario)
    assert done.returncode == 0, done.stdout + done.stderr
