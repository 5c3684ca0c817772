"""What nodes and idle namespaces cost PostgreSQL: the measured figures of docs/internals/scaling.md.

    /usr/bin/python3 -B tests/placement/cost.py beats NODES NAMESPACES [SECONDS]
    /usr/bin/python3 -B tests/placement/cost.py open NAMESPACES [SECONDS]
    /usr/bin/python3 -B tests/placement/cost.py rest NAMESPACES [SECONDS]

beats: so many nodes that only register (nodes.c), beside so many namespaces that nobody has. open, rest: a node with so
many namespaces that nobody uses, with a lease of 3 s, all of them open or all at rest; and what the first request of
one takes that is at rest."""

import os
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

import test_auth  # noqa: E402
from conftest import wait_until  # noqa: E402
from nodes import Cluster  # noqa: E402
from postgres import Postgres  # noqa: E402
from test_auth import ok  # noqa: E402
from test_cluster_namespaces import facts  # noqa: E402
from test_cluster_nodes import Nodes, make_logs  # noqa: E402

CONNECTED = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'tallyd%%' AND datname = current_database()"


def run_ns(process):
    """What all its threads have had of the processor; ticks would be too coarse for so little."""
    total = 0
    for thread in pathlib.Path(f"/proc/{process}/task").iterdir():
        total += int((thread / "schedstat").read_text(encoding="ascii").split()[0])
    return total


def private_kb(process):
    lines = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


class Meter:
    """What was used since it was made: by PostgreSQL's processes for the nodes, and of its WAL."""

    def __init__(self, cluster, count):
        self.cluster, self.count = cluster, count
        self.processes = [process for (process,) in cluster.sql(CONNECTED)]
        cluster.sql("CHECKPOINT")
        time.sleep(5)  # the first change of each page behind it is a whole page
        self.start = self._read()

    def _read(self):
        (at,), = self.cluster.sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
        return float(self.cluster.sql(self.count)[0][0]), float(at), sum(run_ns(one) for one in self.processes)

    def differences(self):
        return [end - start for end, start in zip(self._read(), self.start)]


def measure_beats(cluster, nodes, namespaces, seconds):
    make_logs(cluster, namespaces)
    running = Nodes(cluster, "n", nodes)
    wait_until(lambda: running.is_ready, 600, "the nodes")
    time.sleep(5)
    meter = Meter(cluster, "SELECT sum(n) FROM (SELECT max(number) AS n FROM tally_log.node_beat GROUP BY node) s")
    own = run_ns(running.process.pid)
    time.sleep(seconds)
    own = run_ns(running.process.pid) - own
    beats, wal, used = meter.differences()
    running.stop()
    print(f"{nodes} nodes, {namespaces} namespaces: {beats / seconds:.1f} beats/s; a beat takes {wal / beats:.0f} "
          f"bytes of WAL, {used / beats / 1e6:.2f} ms of a core in PostgreSQL, {own / beats / 1e6:.2f} ms in the node")


def start_node(cluster, folder, namespaces, rest_after):
    lines = "".join(f"K{number:012}  the-secret  {number:012}  read,write,admin\n" for number in range(namespaces))
    credentials, secret = folder / "credentials", folder / "secret"
    credentials.write_text(lines, encoding="ascii")
    secret.write_text("0123456789abcdef0123456789abcdef\n", encoding="ascii")
    for path in credentials, secret:
        path.chmod(0o600)
    node = cluster.node("one", "--segment-size", "5MiB", "--body-max", "64KiB", "--credentials", credentials,
                        "--cluster-secret", secret, "--rest-after", rest_after)
    node.options += ["--advertise", f"127.0.0.1:{node.port}"]
    return node.start().wait_ready(600)


def measure_open(cluster, folder, namespaces, seconds):
    node = start_node(cluster, folder, namespaces, "0s")
    wait_until(lambda: facts(node)["served"] == namespaces, 600, "that all are open")
    time.sleep(8)
    meter = Meter(cluster, "SELECT sum(number) FROM tally_log.beat")
    own = run_ns(node.pid)
    time.sleep(seconds)
    own = run_ns(node.pid) - own
    beats, wal, used = meter.differences()
    kilobytes = sorted(private_kb(process) for process in meter.processes)
    print(f"{namespaces} open namespaces: {len(kilobytes)} connections of {kilobytes[len(kilobytes) // 2]} KB, "
          f"{private_kb(node.pid) // 1024} MB in the node; a second: {beats / seconds:.0f} signs of life, "
          f"{wal / seconds / 1024:.0f} KB of WAL, {used / seconds / 1e6:.0f} ms of a core in PostgreSQL, "
          f"{own / seconds / 1e6:.0f} ms in the node")
    node.kill9()


def first_request_ms(node, number):
    began = time.monotonic()
    ok(node, f"K{number:012}", "CreateQueue", {"QueueName": "jobs"})
    return (time.monotonic() - began) * 1000


def measure_rest(cluster, folder, namespaces, seconds):
    test_auth.SECRETS = {f"K{number:012}": "the-secret" for number in range(namespaces)}
    began = time.monotonic()
    node = start_node(cluster, folder, namespaces, "5m")
    ready = time.monotonic() - began
    time.sleep(3)
    meter = Meter(cluster, "SELECT 0")
    own = run_ns(node.pid)
    time.sleep(seconds)
    own = run_ns(node.pid) - own
    used = meter.differences()[2]
    threads = len(list(pathlib.Path(f"/proc/{node.pid}/task").iterdir()))
    print(f"{namespaces} namespaces at rest: ready after {ready:.1f} s, {private_kb(node.pid) // 1024} MB and "
          f"{threads} threads in the node, {len(meter.processes)} connections; a second: "
          f"{own / seconds / 1e6:.0f} ms of a core in the node, {used / seconds / 1e6:.0f} ms in PostgreSQL")
    took = sorted(first_request_ms(node, number) for number in range(0, namespaces, max(1, namespaces // 50)))
    print(f"the first request of one: {took[len(took) // 2]:.0f} ms, at most {took[-1]:.0f} ms, of {len(took)}")
    node.kill9()


def main():
    what, *numbers = sys.argv[1:]
    os.environ.setdefault("CI", "false")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        server = Postgres(folder / "postgres", fsync="on", max_connections="1000").start()
        try:
            cluster = Cluster(server, folder)
            if what == "beats":
                nodes, namespaces, seconds = [*map(int, numbers), 20][:3]
                measure_beats(cluster, nodes, namespaces, seconds)
            else:
                namespaces, seconds = [*map(int, numbers), 20][:2]
                measure = {"open": measure_open, "rest": measure_rest}[what]
                measure(cluster, folder, namespaces, seconds)
        finally:
            server.stop("immediate")


if __name__ == "__main__":
    main()
