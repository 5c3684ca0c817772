"""Outboxes in PostgreSQL for the tests of relays: one server for a file of tests, and a database of its own for each
test, or a schema of its own, which is made faster and has another name than the usual one.

    outbox = Outbox(server)                            # in a schema: Outbox(server, prefix="box"); outbox.schema
    outbox.uri, outbox.sql(…), outbox.one(…)           # statements say "tally." whatever the schema's name is
    outbox.connect(role="app"), outbox.begin()
    outbox.send("orders", "body-1", group="k")         # in a transaction of its own; the uid
    outbox.send_all("orders", bodies, group_of)        # one transaction; the uids. A group, or what says it of a body
    outbox.fill("orders", 1000, groups=10)             # bodies 0, 1, …: for check_once() and check_order() of relay.py
    outbox.count(), outbox.wait_until_empty(), outbox.dead(), outbox.intents()
"""

import contextlib
import itertools
import json

import psycopg2

from conftest import wait_until
from relay import install_outbox, outbox_count

NUMBERS = itertools.count(1)


class Outbox:
    def __init__(self, server, prefix=None, encoding="UTF8"):
        self.server = server
        number = next(NUMBERS)
        if prefix:
            self.name, self.schema = "postgres", f"{prefix}{number}"
        else:
            self.name, self.schema = f"outbox{number}", "tally"
            server.sql(f"CREATE DATABASE {self.name} ENCODING {encoding} TEMPLATE template0")
        self.uri = server.uri.replace("/postgres", f"/{self.name}")
        install_outbox(self, self.schema)

    def connect(self, role="tally", **options):
        connection = psycopg2.connect(self.uri.replace("tally@", f"{role}@"), **options)
        connection.autocommit = True
        return connection

    def begin(self):
        """A connection for transactions: .cursor().execute(…), .commit(), .rollback()"""
        return psycopg2.connect(self.uri)

    def sql(self, statement, *values, role="tally"):
        with contextlib.closing(self.connect(role)) as connection, connection.cursor() as cursor:
            cursor.execute(statement.replace("tally.", f"{self.schema}."), values or None)
            return cursor.fetchall() if cursor.description else None

    def one(self, statement, *values, role="tally"):
        return self.sql(statement, *values, role=role)[0][0]

    def send(self, queue, body, group=None):
        return self.one("SELECT tally.send(%s, %s, %s)", queue, body, group)

    def send_all(self, queue, bodies, group=None, dedup=None, attributes=None, delay=0):
        with contextlib.closing(self.begin()) as connection, connection.cursor() as cursor:
            uids = []
            for body in bodies:
                own = group(body) if callable(group) else group
                cursor.execute(f"SELECT {self.schema}.send(%s, %s, %s, %s, %s, %s)",
                               (queue, body, own, dedup, json.dumps(attributes or {}), delay))
                uids.append(cursor.fetchone()[0])
            connection.commit()
        return uids

    def fill(self, queue, count, groups=1, first=0, prefix=""):
        """Rows of one transaction; the bodies. They are in no group if there are to be none."""
        self.sql("INSERT INTO tally.outbox (queue, group_id, body) SELECT %s, 'g' || n %% nullif(%s, 0), "
                 "%s || n::text AS text FROM generate_series(%s::int, %s::int) n ORDER BY n",
                 queue, groups, prefix, first, first + count - 1)
        return [f"{prefix}{n}" for n in range(first, first + count)]

    def bodies(self, count):
        return [str(n) for n in range(count)]

    def count(self):
        return outbox_count(self)

    def wait_until_empty(self, seconds=20):
        wait_until(lambda: self.count() == 0, seconds, "an empty outbox")

    def dead(self):
        return self.sql("SELECT body, is_doubted, error FROM tally.dead ORDER BY id")

    def intents(self):
        return self.sql("SELECT epoch, seq, cardinality(ids) FROM tally.intent ORDER BY epoch, seq")

    def wait_for_no_intent(self):
        wait_until(lambda: self.intents() == [], what="the end of the last intent")

    def age_intents(self, minutes):
        self.sql("UPDATE tally.intent SET started = started - %s * interval '1 minute'", minutes)

    def lease(self):
        """(epoch, process of the owner)"""
        return self.sql("SELECT epoch, pid FROM tally.lease")[0]
