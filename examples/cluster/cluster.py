"""Starts a cluster and its clients, does what happens to machines, and counts what clients have sent and received."""

import json
import pathlib
import signal
import sys
import threading
import time

from clients import LATE, LOST, SCHEMA, TWICE, UNITS, Database, Sender, Tenant
from servers import Cluster, Postgres, wait_until

TENANTS = [Tenant("ash", "000000000001"), Tenant("elm", "000000000002"), Tenant("oak", "000000000003")]


class Board(threading.Thread):
    """Prints each second what clients see, and between these lines what happens to the servers."""

    def __init__(self, cluster, clients, path):
        super().__init__(daemon=True)
        self.cluster, self.clients, self.database = cluster, clients, Database(path)
        self.began, self.is_ending = time.monotonic(), False
        self.lock = threading.Lock()
        self.counts, self.completed = [0, 0, 0], 0
        self.longest = 0

    def say(self, what):
        with self.lock:
            passed = int(time.monotonic() - self.began)
            print(f" {passed // 60}:{passed % 60:02}  {what.rstrip()}", flush=True)

    def run(self):
        names = "".join(f"{tenant.name:6}" for tenant in TENANTS)
        print(f" time    sent  received  repeated  longest wait    {names.rstrip()}", flush=True)
        while not self.is_ending:
            time.sleep(1)
            self.say(self.line())
            for tenant in self.newly_completed():
                self.say(f"the batch of {tenant} is complete")

    def line(self):
        counts = [self.count("sent"), self.count("received"), sum(client.repeated for client in self.clients)]
        sent, received, repeated = (now - before for now, before in zip(counts, self.counts))
        self.counts = counts
        wait = max(client.take_wait() for client in self.clients)
        self.longest = max(self.longest, wait)
        owners = "".join(f"{owner:6}" for owner in self.owners())
        return f"{sent:6}{received:10}{repeated:10}{wait:12.2f} s    {owners}"

    def newly_completed(self):
        tenants = self.database.column("SELECT tenant FROM completed ORDER BY rowid")[self.completed:]
        self.completed += len(tenants)
        return tenants

    def count(self, table):
        return self.database.one(f"SELECT count(*) FROM {table}")

    def owners(self):
        """The node that serves each tenant. "-": none does at the moment, "?": PostgreSQL has no answer."""
        status = self.cluster.status()
        namespaces = [status.get(tenant.namespace) for tenant in TENANTS]
        return ["?" if one is None else one["Node"] if one["Connected"] else "-" for one in namespaces]


def kill_a_node(cluster, say):
    node = cluster.nodes["two"]
    node.kill()
    say("kill -9 of node two")
    time.sleep(4)
    node.start()
    say("node two is back")


def stop_a_node(cluster, say):
    node = cluster.nodes["one"]
    node.pause()
    say("node one is stopped for 5 s, as a machine that hangs")
    time.sleep(5)
    node.go_on()
    say("node one goes on")


def kill_the_primary(cluster, say):
    """A standby must be left for the one that is promoted: without any, it acknowledges nothing."""
    dead = cluster.primary
    dead.kill()
    say(f"kill -9 of PostgreSQL's primary, {dead.name}")
    time.sleep(1)
    cluster.primary = max(cluster.standbys(), key=Postgres.received)
    cluster.primary.promote()
    say(f"{cluster.primary.name} has the most of what {dead.name} wrote, and is promoted; the other one follows it")
    dead.copy(cluster.log)
    dead.start()
    say(f"{dead.name} is back, as a standby")


def restart_a_node(cluster, say):
    node = cluster.nodes["three"]
    cluster.command("drain", "three")
    say("node three is drained")
    wait_until(lambda: cluster.has_nothing("three"), "the drain")
    node.end()
    say("node three has nothing left, and is restarted")
    node.start()
    cluster.command("uncordon", "three")
    say("node three may have namespaces again")


def rest(cluster, seconds):
    wait_until(cluster.is_placed, "that each namespace is where it belongs")
    time.sleep(seconds)


def finish(clients, database):
    """Senders end first. Receivers go on until all is there, and for a second in which something might come twice."""
    senders = [client for client in clients if isinstance(client, Sender)]
    receivers = [client for client in clients if client not in senders]
    for client in senders:
        client.is_ending = True
    for client in senders:
        client.join(120)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if database.one(LOST) == 0 and database.one("SELECT count(*) FROM completed") >= len(TENANTS):
            break
        time.sleep(0.1)
    time.sleep(1)
    for client in receivers:
        client.is_ending = True
    for client in receivers:
        client.join(10)


def judge(database, longest):
    sent, received = (database.one(f"SELECT count(*) FROM {table}") for table in ("sent", "received"))
    lost, twice, late = map(database.one, (LOST, TWICE, LATE))
    reports = [json.loads(report) for report in database.column("SELECT report FROM completed")]
    tenants = database.column("SELECT tenant FROM completed ORDER BY tenant")
    print(f"\n{len(TENANTS)} batches of {UNITS} units, and {len(reports)} completion messages.")
    print(f"Sent {sent:,}, received {received:,}, lost {lost}, twice {twice}, out of order {late}; "
          f"longest wait of a client {longest:.1f} s.")
    is_good = (lost == twice == late == 0 and sent == received > 0 and tenants == [tenant.name for tenant in TENANTS]
               and all(report["succeeded"] == UNITS for report in reports))
    print("Nothing lost, nothing twice." if is_good else "That is WRONG.")
    return is_good


def main(binaries, programs, folder, calm, pause):
    path = folder / "clients.db"
    database = Database(path)
    database.connection.executescript(SCHEMA)
    cluster = Cluster(binaries, programs, folder)
    try:
        print("Starting PostgreSQL: db1, the primary, and its standbys db2 and db3", flush=True)
        cluster.start_postgres()
        print("Starting Tally: nodes one, two and three", flush=True)
        cluster.start_nodes("".join(tenant.credential for tenant in TENANTS))
        print("Starting clients of the tenants ash, elm and oak. Each second: what they sent and received, how often\n"
              "they asked again, how long one waited at most, and which node serves each tenant.\n", flush=True)
        urls = [node.url for node in cluster.nodes.values()]
        clients = []
        for at, tenant in enumerate(TENANTS):
            tenant.prepare(cluster.binaries / "tally", urls[0])
            clients += tenant.clients(urls[at:] + urls[:at], path, pause)
        board = Board(cluster, clients, path)
        for thread in [*clients, board]:
            thread.start()
        for fault in (kill_a_node, stop_a_node, kill_the_primary, restart_a_node):
            rest(cluster, calm)
            fault(cluster, board.say)
        rest(cluster, calm)
        finish(clients, database)
        board.is_ending = True
        board.join()
        return judge(database, board.longest)
    finally:
        cluster.stop()


def end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # `run` gets it, too, and says SIGTERM
    folders = [pathlib.Path(word).resolve() for word in sys.argv[1:4]]
    sys.exit(not main(*folders, *map(float, sys.argv[4:6])))
