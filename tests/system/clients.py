"""What the tests of real clients share: which of them are there, and queues looked at from the side."""

import contextlib
import email.utils
import importlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import time
import urllib.request

import pytest
from certificates import Certificate
from clock import Clock
from conftest import PATIENCE, clean_environment, free_port, wait_until

HERE = pathlib.Path(__file__).resolve().parent


def distribution():
    """For example "debian 12"."""
    with open("/etc/os-release") as lines:
        pairs = dict(line.strip().split("=", 1) for line in lines if "=" in line)
    return f"{pairs.get('ID', '')} {pairs.get('VERSION_ID', '')}".replace('"', "")


def needs(is_there, package):
    """Skips the test where the distribution has no such package; on Debian 12, which has all of them, it fails."""
    if is_there:
        return
    if distribution() == "debian 12":
        pytest.fail(f"{package} is missing: run ./setup test")
    pytest.skip(f"{distribution()} has no package {package}")


def needs_celery():
    for module, package in [("celery", "python3-celery"), ("kombu", "python3-kombu"), ("pycurl", "python3-pycurl")]:
        try:
            importlib.import_module(module)
        except ImportError:
            needs(False, package)


@contextlib.contextmanager
def mysql_server():
    """A MariaDB for the test, which is skipped where there is none."""
    is_there = importlib.util.find_spec("pymysql") and shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
    needs(is_there, "mariadb-server or python3-pymysql")
    from mysql_server import MysqlServer

    server = MysqlServer().start()
    try:
        yield server
    finally:
        server.kill9()


class Guarded:
    """A daemon with the key FRONT, whose secret is `secret`, and with a clock of its own."""

    def __init__(self, daemon_factory, folder):
        (folder / "credentials").write_text("FRONT secret 000000000000 read,write,admin\n")
        self.clock = Clock()
        with self.clock.around():
            self.daemon = daemon_factory("--credentials", folder / "credentials").start()
        self.endpoint = self.daemon.endpoint

    def set_clock(self, seconds):
        """So far from the machine's. The daemon looks at its clock for the header Date once a second."""
        self.clock.set(seconds)

        def is_told():
            with urllib.request.urlopen(f"{self.endpoint}/health") as answer:
                date = email.utils.parsedate_to_datetime(answer.headers["Date"]).timestamp()
            return abs(date - time.time() - seconds) < 60

        wait_until(is_told, 20)


def hold_until_visible(daemon, queue):
    """For HttpProxy.watch: who asks for the counts of the queue while a message is in flight learns them when its lease
    is over."""
    def watch(target, body):
        if target == "AmazonSQS.GetQueueAttributes" and queue_counts(daemon, queue)[1]:
            wait_until(lambda: queue_counts(daemon, queue)[0] == 1, 20)

    return watch


KEY, SECRET = "any", "thing"  # what all clients here sign with


class SecureDaemon:
    """A daemon that serves HTTPS, and only those who sign with KEY and SECRET: .daemon .endpoint .certificate"""

    def __init__(self, daemon_factory, folder):
        (folder / "credentials").write_text(f"{KEY} {SECRET} 000000000000 read,write,admin\n")
        port = free_port()
        self.certificate = Certificate(folder)
        self.daemon = daemon_factory("--credentials", folder / "credentials", *self.certificate.options(port)).start()
        self.endpoint = f"https://localhost:{port}"
        self.environment = {
            "AWS_CA_BUNDLE": str(self.certificate.certificate),
            "NODE_EXTRA_CA_CERTS": str(self.certificate.certificate),
        }


def queue_counts(daemon, name):
    """(visible, in flight, delayed) of a queue."""
    kinds = ["", "NotVisible", "Delayed"]
    status, answer = daemon.call("AmazonSQS.GetQueueAttributes", {"QueueUrl": name, "AttributeNames": ["All"]})
    assert status == 200, answer
    return tuple(int(answer["Attributes"][f"ApproximateNumberOfMessages{kind}"]) for kind in kinds)


def scenarios_of(script):
    """The names of the scenarios of a program for Node.js."""
    return re.findall(r"^  async (\w+)\(\)", (HERE / script).read_text(), re.MULTILINE)


def run_node(script, package, endpoint, scenario, **environment):
    """Runs one scenario of a program for Node.js, which uses that package from npm, to its good end."""
    assert shutil.which("node"), "node is missing: run ./setup test"
    assert (HERE / "node_modules" / package).exists(), f"{package} is missing: run ./setup test"
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}
    done = subprocess.run(
        ["node", str(HERE / script), endpoint, scenario],
        capture_output=True,
        text=True,
        timeout=120 * PATIENCE,
        env=clean_environment(**keys, **environment),
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
