"""Outboxes in PostgreSQL for the tests of relays: one server for a file of tests, and a database of its own for each test.

    outbox = Outbox(server)
    outbox.uri, outbox.sql(…), outbox.connect()
    outbox.send("orders", "body-1", group="k")         # in a transaction of its own; the uid
    outbox.fill("orders", 1000, groups=10)             # bodies 0, 1, …: as check_once() and check_order() of relay.py want them
"""

import itertools

import psycopg2

from conftest import wait_until
from relay import install_outbox, outbox_count

NUMBERS = itertools.count(1)


class Outbox:
    def __init__(self, server):
        self.server = server
        self.name = f"outbox{next(NUMBERS)}"
        server.sql(f"CREATE DATABASE {self.name}")
        self.uri = server.uri.replace("/postgres", f"/{self.name}")
        install_outbox(self)

    def connect(self, **options):
        connection = psycopg2.connect(self.uri, **options)
        connection.autocommit = True
        return connection

    def begin(self):
        """A connection for transactions: .cursor().execute(…), .commit(), .rollback()"""
        return psycopg2.connect(self.uri)

    def sql(self, statement, *values):
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement, values or None)
                return cursor.fetchall() if cursor.description else None
        finally:
            connection.close()

    def one(self, statement, *values):
        return self.sql(statement, *values)[0][0]

    def send(self, queue, body, group=None):
        return self.one("SELECT tally.send(%s, %s, %s)", queue, body, group)

    def fill(self, queue, count, groups=1, first=0):
        """Rows of one transaction; the bodies that arrive are those of bodies(count)."""
        self.sql("INSERT INTO tally.outbox (queue, group_id, body) SELECT %s, 'g' || n %% %s, n::text AS text "
                 "FROM generate_series(%s::int, %s::int) n ORDER BY n", queue, groups, first, first + count - 1)

    def bodies(self, count):
        return [str(n) for n in range(count)]

    def count(self):
        return outbox_count(self)

    def wait_until_empty(self, seconds=20):
        wait_until(lambda: self.count() == 0, seconds, "an empty outbox")

    def lease(self):
        """(epoch, process of the owner)"""
        return self.sql("SELECT epoch, pid FROM tally.lease")[0]
