"""Outboxes in SQLite for the tests of relays, each in a file of its own, as an application has them.

    outbox = SqliteOutbox(tmp_path / "app.db")         # and with a table effect(name)
    outbox.source                                      # for --source
    outbox.send(["a", "b"], "orders", group="k")       # in a transaction of its own. A group, or what says it of a body
    with outbox.transaction() as db: send(db, ["c"])   # in one of the application's
    outbox.ask("SELECT …", value), outbox.connect()
    outbox.count(), outbox.count("tally_dead"), outbox.wait_until_empty()
"""

import contextlib
import itertools
import pathlib
import sqlite3
import time

from conftest import wait_until
from relay import outbox_schema


class SqliteOutbox:
    def __init__(self, path, mode="WAL"):
        self.path = pathlib.Path(path)
        self.source = f"sqlite:{path}"
        self.numbers = itertools.count(1)
        with contextlib.closing(self.connect()) as db:
            db.execute(f"PRAGMA journal_mode = {mode}")
            db.executescript(outbox_schema("sqlite"))
            db.execute("CREATE TABLE effect (name TEXT)")

    def connect(self):
        return sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)

    def ask(self, sql, *values):
        with contextlib.closing(self.connect()) as db:
            return db.execute(sql, values).fetchall()

    def send(self, bodies, queue="orders", group=None):
        with self.transaction() as db:
            send(db, bodies, queue, group)

    def is_locked(self):
        """Is a transaction that writes under way?"""
        with contextlib.closing(sqlite3.connect(self.path, timeout=0, isolation_level=None)) as db:
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
        return False

    def freeze_outside(self, relay):
        """Freezes the relay where it holds no lock of the database: one that it is frozen with keeps everybody waiting,
        for as long."""
        relay.freeze()
        while self.is_locked():
            relay.thaw()
            time.sleep(0.01)
            relay.freeze()

    @contextlib.contextmanager
    def transaction(self):
        with contextlib.closing(self.connect()) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def count(self, table="tally_outbox"):
        return self.ask(f"SELECT count(*) FROM {table}")[0][0]

    def wait_until_empty(self, seconds=20):
        wait_until(lambda: self.count() == 0, seconds, "an empty outbox")


def send(db, bodies, queue="orders", group=None):
    db.executemany("INSERT INTO tally_outbox(queue, group_id, body) VALUES (?, ?, ?)",
                   [(queue, group(body) if callable(group) else group, body) for body in bodies])
