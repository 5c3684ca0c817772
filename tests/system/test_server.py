"""How the server is: DescribeServer, without anything secret, and who asks; GET /live and GET /ready."""

import calendar
import json
import subprocess
import time

import pytest
from certificates import Certificate
from conftest import BIN, WRAPPER, clean_environment, free_port, wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import LEASED
from test_auth import OTHER, OURS, ask
from test_cluster_nodes import SECRET, node_of, secret  # noqa: F401 (a fixture)

CREDENTIALS = f"""
BOSS    boss-secret    {OURS}   read,write,admin
MINE    mine-secret    {OURS}   read              queues=mine-*,more-*
GUEST   guest-secret   {OTHER}  read,write,admin
"""


def describe(daemon, key=None):
    if key is None:
        status, answer = daemon.call("Tally.DescribeServer")
    else:
        signed = ask(daemon, "json", "Tally.DescribeServer", {}, key, f"{key.lower()}-secret")
        status, answer = signed.status, json.loads(signed.body)
    assert status == 200, answer
    return answer


def test_it_says_how_it_is(daemon_factory):
    begun = time.time()
    daemon = daemon_factory("--memory-max", "100MiB", "--snapshot-bytes", "64KiB", "--snapshot-growth", "1").start()
    url = daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})[1]["QueueUrl"]
    said = describe(daemon)
    assert said["Version"] in daemon.request("GET", "/health")[2].decode()
    assert begun - 1 < said["StartedAt"] <= said["Now"] + 1
    assert said["Memory"]["Max"] == 100 << 20 and 0 < said["Memory"]["Used"] < 1 << 20
    assert said["Disk"]["Used"] > 1 << 20 and said["Disk"]["Free"] > 0 and said["Disk"]["Room"] == "ample"
    assert said["Snapshot"] == {"IsFailing": False}
    assert said["Caller"] == {"Namespace": OURS, "Rights": ["read", "write", "admin"]}
    assert "Certificate" not in said and "Nodes" not in said and "Node" not in said

    def is_there():
        daemon.call("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "x" * 60000})
        return "LastAt" in describe(daemon)["Snapshot"]

    wait_until(is_there, what="a snapshot")
    assert describe(daemon)["Snapshot"]["Bytes"] > 0 and begun - 1 < describe(daemon)["Snapshot"]["LastAt"]
    daemon.restart()
    assert begun - 1 < describe(daemon)["Snapshot"]["LastAt"], "a restart knows it from the snapshot"
    assert daemon.stop() == 0


def test_the_configuration_in_force(daemon_factory):
    daemon = daemon_factory("--body-max", "3MiB").start()
    config = {row["Name"]: row for row in describe(daemon)["Config"]}
    assert config["body-max"] == {"Name": "body-max", "Value": "3MiB", "IsDefault": False}
    assert config["header-max"] == {"Name": "header-max", "Value": "16KiB", "IsDefault": True}
    assert daemon.stop() == 0


def test_a_certificate_says_when_it_expires(daemon_factory, tmp_path):
    certificate, port = Certificate(tmp_path), free_port()
    daemon = daemon_factory(*certificate.options(port)).start()
    end = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", certificate.certificate],
                         capture_output=True, text=True, check=True).stdout.strip().removeprefix("notAfter=")
    expires = calendar.timegm(time.strptime(end, "%b %d %H:%M:%S %Y %Z"))
    assert describe(daemon)["Certificate"]["ExpiresAt"] == expires
    assert daemon.stop() == 0


def test_who_asks_and_what_a_confined_credential_is_not_told(guarded):
    whole, confined = describe(guarded, "BOSS"), describe(guarded, "MINE")
    assert whole["Caller"] == {"AccessKeyId": "BOSS", "Namespace": OURS, "Rights": ["read", "write", "admin"]}
    assert confined["Caller"] == {"AccessKeyId": "MINE", "Namespace": OURS, "Rights": ["read"],
                                  "Queues": ["mine-*", "more-*"]}
    assert "Config" in whole and "Config" not in confined and "Memory" in confined
    assert describe(guarded, "GUEST")["Caller"]["Namespace"] == OTHER
    assert not any(f"{key}-secret" in str(whole) for key in ("boss", "mine", "guest"))


@pytest.mark.parametrize("form", ["user", "parameter"])
def test_nodes_and_no_secret(cluster, secret, form):  # noqa: F811
    if form == "user":
        uri = cluster.uri.replace("tally@", "tally:hunter2@")
    else:
        uri = cluster.uri + ("&" if "?" in cluster.uri else "?") + "password=hunter2"
    assert "hunter2" in uri
    one = node_of(cluster, "one", secret, lease=LEASED, uri=uri).start().wait_ready()
    two = node_of(cluster, "two", secret, lease=LEASED).start().wait_standing_by()
    wait_until(lambda: {node["State"] for node in describe(one).get("Nodes", [])} == {"alive"}
               and len(describe(one)["Nodes"]) == 2, what="both nodes")
    said = describe(one)
    assert said["Node"] == "one" and {node["Node"] for node in said["Nodes"]} == {"one", "two"}
    assert f"127.0.0.1:{two.port}" in {node["Address"] for node in said["Nodes"]}
    config = {row["Name"]: row["Value"] for row in said["Config"]}
    assert "host=127.0.0.1" in config["log"]
    assert "hunter2" not in str(said) and SECRET not in str(said)


def page(daemon, path):
    status, headers, body = daemon.request("GET", path)
    assert headers["content-type"] == "application/json"
    return status, json.loads(body)


def test_a_full_memory_leaves_it_live_and_ready(daemon_factory):
    daemon = daemon_factory("--memory-max", "100KiB").start()
    url = daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})[1]["QueueUrl"]
    while daemon.call("AmazonSQS.SendMessageBatch", {"QueueUrl": url, "Entries": [
            {"Id": str(i), "MessageBody": "x"} for i in range(10)]})[0] == 200:
        pass
    assert page(daemon, "/live") == (200, {"status": "live"})
    assert page(daemon, "/ready") == (200, {"status": "ready"})
    assert daemon.request("HEAD", "/live")[0] == 200
    assert daemon.request("POST", "/live", b"")[0] == 404
    assert daemon.stop() == 0


def test_a_node_that_stands_by_is_live_and_says_why_it_is_not_ready(cluster):  # noqa: F811
    one, two = cluster.pair(*LEASED)
    assert page(one, "/ready") == (200, {"status": "ready"})
    assert page(two, "/live") == (200, {"status": "live"})
    status, said = page(two, "/ready")
    assert status == 503 and said["status"] == "standby"
    assert said["reasons"] == [
        "Of 1 namespaces this node serves 0 and follows 1, and does not know who serves the others."]
    done = subprocess.run([*WRAPPER, BIN / "tally", "health", "--endpoint", two.endpoint], capture_output=True,
                          text=True, timeout=60, env=clean_environment(), check=False)
    assert done.returncode == 1 and done.stderr == f"tally: not ready: {said['reasons'][0]}\n"
