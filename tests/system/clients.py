"""What the tests of real clients share: which of them are there, and queues looked at from the side."""

import pytest


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


def queue_counts(daemon, name):
    """(visible, in flight, delayed) of a queue."""
    kinds = ["", "NotVisible", "Delayed"]
    status, answer = daemon.call("AmazonSQS.GetQueueAttributes", {"QueueUrl": name, "AttributeNames": ["All"]})
    assert status == 200, answer
    return tuple(int(answer["Attributes"][f"ApproximateNumberOfMessages{kind}"]) for kind in kinds)
