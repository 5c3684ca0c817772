"""PostgreSQL on two machines of netns.py: a primary, and a synchronous standby to which it fails over.

    pair = StandbyPair(folder, [network.host(), network.host()], client=network.host(), max_connections="500").start()
    pair.uri                          # for libpq, from any machine of the network: both
    pair.fail_over(1.5)               # the primary is killed; after so many seconds the standby is the primary
    pair.primary                      # of the two servers, the one that takes writes
    pair.wait_synchronous()           # until the standby has all that is acknowledged
    pair.sql("SELECT 1"), pair.connect(), pair.create_database("name")    # as seen from the client's machine
    pair.stop()

One that was killed is made anew, as a copy of the new primary, and follows that one. Until it has all, the primary
waits for nobody, so the pair takes writes again as soon as the standby is promoted. Nothing is lost by that as long as
nothing else fails before wait_synchronous() returns."""

import contextlib
import shutil
import time

import psycopg2
from conftest import PATIENCE, wait_until
from postgres import DistantPostgres


class Server(DistantPostgres):
    def __init__(self, folder, host, settings):
        super().__init__(folder, host)
        self.settings.update(settings)

    def follow(self, primary):
        """Makes it a standby, and loses what it has."""
        shutil.rmtree(self.data, ignore_errors=True)
        return self.stand_by(primary.host.address, primary.port)


class StandbyPair:
    def __init__(self, folder, hosts, client, **settings):
        settings = {"wal_retrieve_retry_interval": "100", **settings}
        self.primary, self.standby = (Server(folder / f"db{number}", host, settings)
                                      for number, host in enumerate(hosts, 1))
        self.servers = [self.primary, self.standby]
        self.client = client
        hosts = ",".join(f"{server.host.address}:{server.port}" for server in self.servers)
        self.uri = f"postgresql://tally@{hosts}/postgres"

    def start(self):
        self.primary.start()
        self._follow()
        return self

    def _follow(self):
        self.standby.follow(self.primary)
        self._wait_for_standby("state = 'streaming'")
        self._have_commits_wait_for("'*'")
        self.wait_synchronous()

    def _wait_for_standby(self, claim):
        wait_until(lambda: self.primary.sql(f"SELECT count(*) FROM pg_stat_replication WHERE {claim} "
                                            "AND application_name = 'walreceiver'") == [(1,)],
                   what=f"a standby with {claim}")

    def wait_synchronous(self):
        self._wait_for_standby("state = 'streaming' AND sync_state = 'sync'")

    def _have_commits_wait_for(self, names):
        self.primary.sql(f"ALTER SYSTEM SET synchronous_standby_names = {names}")
        self.primary.sql("SELECT pg_reload_conf()")

    def fail_over(self, after=0):
        self.primary.kill9()
        time.sleep(after)
        self.primary, self.standby = self.standby, self.primary
        self.primary.sql("SELECT pg_promote()")
        self._have_commits_wait_for("''")
        self._follow()

    def try_to_connect(self, **options):
        """To the one that takes writes, if there is one."""
        with self.client.inside():
            connection = psycopg2.connect(self.uri, target_session_attrs="read-write", connect_timeout=2, **options)
        connection.autocommit = True
        return connection

    def connect(self, **options):
        deadline = time.monotonic() + 30 * PATIENCE
        while True:
            try:
                return self.try_to_connect(**options)
            except psycopg2.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def sql(self, statement, *values):
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else None

    def create_database(self, name):
        self.sql(f"CREATE DATABASE {name}")

    def log_text(self):
        return "\n".join(server.log_text() for server in self.servers)

    def stop(self):
        for server in self.servers:
            with contextlib.suppress(AssertionError):
                server.stop("immediate")
            shutil.rmtree(server.folder, ignore_errors=True)
