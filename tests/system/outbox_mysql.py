"""Outboxes in MariaDB for the tests of relays, each in a database of its own on one server.

    outbox = MysqlOutbox(server)                       # and with a table effect(name)
    outbox.source                                      # for --source
    outbox.send(["a", "b"], "orders", group="k")       # in a transaction of its own. A group, or what says it of a body
    with outbox.transaction() as db: send(db, ["c"])   # in one of the application's
    outbox.ask("SELECT …", value), outbox.connect()
    outbox.count(), outbox.count("tally_dead"), outbox.wait_until_empty()
"""

import contextlib
import itertools

from conftest import wait_until
from relay import outbox_schema

NUMBERS = itertools.count(1)


class MysqlOutbox:
    def __init__(self, server):
        self.server = server
        self.name = f"outbox{next(NUMBERS)}"
        self.source = server.url(self.name)
        server.sql(f"CREATE DATABASE {self.name}")
        self.install()
        self.ask("CREATE TABLE effect (name TEXT)")

    def install(self, *options):
        """As a user would, who sees nothing of it."""
        assert self.server.client(self.name, outbox_schema("mysql", *options)) == (0, "", "")

    def connect(self, **options):
        return self.server.connect(self.name, **options)

    def ask(self, sql, *values):
        return self.server.sql(sql, *values, database=self.name)

    def send(self, bodies, queue="orders", group=None):
        with self.transaction() as db:
            send(db, bodies, queue, group)

    @contextlib.contextmanager
    def transaction(self):
        with contextlib.closing(self.connect()) as db:
            db.begin()
            try:
                yield db
            except BaseException:
                db.rollback()
                raise
            db.commit()

    def count(self, table="tally_outbox"):
        return self.ask(f"SELECT count(*) FROM {table}")[0][0]

    def wait_until_empty(self, seconds=20):
        wait_until(lambda: self.count() == 0, seconds, "an empty outbox")

    def freeze_outside(self, relay):
        """As SqliteOutbox has it: here the server ends a transaction in which a relay is frozen (R23)."""
        relay.freeze()

    def highest_id(self):
        """That was ever drawn."""
        return self.ask("SELECT auto_increment - 1 FROM information_schema.tables WHERE table_schema = %s "
                        "AND table_name = 'tally_outbox'", self.name)[0][0]


def send(db, bodies, queue="orders", group=None):
    with db.cursor() as cursor:
        cursor.executemany("INSERT INTO tally_outbox(queue, group_id, body) VALUES (%s, %s, %s)",
                           [(queue, group(body) if callable(group) else group, body) for body in bodies])


def run(db, sql, *values):
    with db.cursor() as cursor:
        cursor.execute(sql, values or None)
        return list(cursor.fetchall())
