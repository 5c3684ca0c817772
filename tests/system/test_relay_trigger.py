"""Triggers that write into an outbox, those of docs/how-to/outbox-on-your-table.md: what the page says of the
application that knows nothing of them. That the page can be typed as it stands is in test_pages.py."""

import contextlib
import json
import sqlite3
import subprocess
import threading

import psycopg2.errors
import pymysql
import pytest

from conftest import BIN, ROOT, wait_until
from mysql_server import MysqlServer
from outbox_mysql import MysqlOutbox
from pages import blocks_of
from queues import make_queue
from relay import check_once, drain


def files_of(page):
    return {kind.partition(" ")[2]: text for kind, text in blocks_of((ROOT / "docs" / page).read_text())}


FILES = files_of("how-to/outbox-on-your-table.md")


def schema(kind):
    return subprocess.run([BIN / "tally", "relay", "schema", "--type", kind], capture_output=True, text=True,
                          check=True).stdout


@pytest.fixture
def shop(postgres):
    postgres.sql("CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL,"
                 " status text NOT NULL DEFAULT 'new')")
    postgres.sql(schema("postgres"))
    postgres.sql(FILES["orders-to-tally.sql"])
    return postgres


def messages(shop):
    return [json.loads(body) for (body,) in shop.sql("SELECT body FROM tally.outbox ORDER BY id")]


def count(shop, table):
    return shop.sql(f"SELECT count(*) FROM {table}")[0][0]


def test_a_role_without_rights_to_the_outbox_sends_by_the_trigger(shop):
    shop.sql("CREATE ROLE webapp; GRANT SELECT, INSERT, UPDATE ON orders TO webapp")
    shop.sql("SET ROLE webapp; INSERT INTO orders (customer) VALUES ('Ann');"
             " UPDATE orders SET status = 'paid'; UPDATE orders SET status = 'paid'; UPDATE orders SET customer = 'x'")
    assert messages(shop) == [{"order": 1, "status": "new"}, {"order": 1, "status": "paid"}]


def test_the_trigger_of_the_problem_page_needs_no_right_of_the_application_either(postgres):
    postgres.sql("CREATE TABLE orders (id bigserial PRIMARY KEY, customer_id int NOT NULL, what text NOT NULL)")
    postgres.sql(schema("postgres"))
    postgres.sql(files_of("problems/row-and-message.md")["trigger.sql"])
    postgres.sql("CREATE ROLE service; GRANT INSERT ON orders TO service;"
                 " GRANT USAGE ON SEQUENCE orders_id_seq TO service")
    postgres.sql("SET ROLE service; INSERT INTO orders (customer_id, what) VALUES (4, 'a lamp')")
    assert messages(postgres) == [{"id": 1, "what": "a lamp", "customer_id": 4}]


def test_a_role_of_its_own_that_makes_the_trigger_needs_the_rights_that_the_page_names(postgres):
    postgres.sql(schema("postgres"))
    postgres.sql("CREATE ROLE migrations; CREATE ROLE service; GRANT CREATE, USAGE ON SCHEMA public TO migrations;"
                 " SET ROLE migrations; CREATE TABLE orders (id int, status text DEFAULT 'new');"
                 " GRANT INSERT ON orders TO service")
    postgres.sql("SET ROLE migrations; " + FILES["orders-to-tally.sql"])
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        postgres.sql("SET ROLE service; INSERT INTO orders VALUES (1)")
    postgres.sql("GRANT USAGE ON SCHEMA tally TO migrations; GRANT EXECUTE ON FUNCTION tally.send TO migrations")
    postgres.sql("SET ROLE service; INSERT INTO orders VALUES (1)")
    assert messages(postgres) == [{"order": 1, "status": "new"}]


def test_a_group_of_a_text_is_its_hash_and_without_one_a_message_is_alone_in_its_group(shop, daemon, relays):
    """As docs/how-to/outbox-on-your-table.md says of the application's statement that fails."""
    make_queue(daemon, "orders.fifo")
    send = "SELECT tally.send('orders.fifo', '1', group_id => 'customer-' || {})"
    with pytest.raises(psycopg2.errors.CheckViolation):
        shop.sql(send.format("'Ann Miller'"))
    for group in ("md5(coalesce('Ann Miller', ''))", "md5(coalesce(NULL, ''))", "NULL", "NULL"):
        shop.sql(send.format(group))
    relays(shop.uri, "queue", "--lease", 1)
    groups = [message.group for message in drain(daemon, "orders.fifo", 4)]
    assert len(set(groups)) == 4 and sum(group.startswith("customer-") for group in groups) == 2


def test_a_renamed_column_fails_the_insert_until_the_function_is_replaced(shop):
    shop.sql("ALTER TABLE orders RENAME status TO state")
    with pytest.raises(psycopg2.errors.UndefinedColumn):
        shop.sql("INSERT INTO orders (customer) VALUES ('Ann')")
    function = FILES["orders-to-tally.sql"].partition("CREATE TRIGGER")[0]
    shop.sql(function.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").replace("NEW.status", "NEW.state"))
    shop.sql("INSERT INTO orders (customer) VALUES ('Ann')")
    assert [message["status"] for message in messages(shop)] == ["new"]


def test_old_orders_in_parts_are_sent_once_if_all_that_tell_of_them_give_one_id(shop, daemon, relays):
    """And an id that comes back is no message: both as the page has it."""
    assert daemon.call("AmazonSQS.CreateQueue", {"QueueName": "orders.fifo", "Attributes": {
        "FifoQueue": "true", "Tally.DeduplicationWindow": "-1"}})[0] == 200
    part = ("SELECT tally.send('orders.fifo', id::text, group_id => 'order-' || id, dedup_id => 'order-' || id)"
            " FROM generate_series({}, {}) id")
    for first, last in ((1, 20), (11, 30), (1, 30)):
        shop.sql(part.format(first, last))
    relays(shop.uri, "queue", "--lease", 1)
    wait_until(lambda: count(shop, "tally.outbox") == 0, what="an empty outbox")
    check_once(drain(daemon, "orders.fifo", 30), [str(number) for number in range(1, 31)])
    shop.sql(part.format(7, 7))
    wait_until(lambda: count(shop, "tally.outbox") == 0, what="an empty outbox")
    assert drain(daemon, "orders.fifo") == []


def test_orders_that_were_there_are_sent_once_beside_those_that_come(shop):
    """Writers go on while the trigger is made and what was there is sent: none is missed, none is sent twice."""
    shop.sql("DROP TRIGGER orders_insert_to_tally ON orders; INSERT INTO orders (customer)"
             " SELECT 'old' FROM generate_series(1, 300)")
    is_over = threading.Event()

    def write():
        with contextlib.closing(shop.connect()) as connection, connection.cursor() as cursor:
            while not is_over.is_set():
                cursor.execute("INSERT INTO orders (customer) VALUES ('new')")

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    try:
        wait_until(lambda: count(shop, "orders") >= 330, what="new orders")
        shop.sql(FILES["with-old-orders.sql"])
        with pytest.raises(psycopg2.errors.DuplicateObject):  # a second time by mistake
            shop.sql(FILES["with-old-orders.sql"])
        sent = count(shop, "orders")
        wait_until(lambda: count(shop, "orders") >= sent + 30, what="newer orders")
    finally:
        is_over.set()
        for writer in writers:
            writer.join()
    orders = [number for (number,) in shop.sql("SELECT id FROM orders ORDER BY id")]
    assert sorted(message["order"] for message in messages(shop)) == orders


@pytest.fixture
def corner(tmp_path):
    database = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL,"
                     " status TEXT NOT NULL DEFAULT 'new')")
    database.executescript(schema("sqlite"))
    database.executescript(FILES["orders-to-tally-sqlite.sql"])
    yield database
    database.close()


@pytest.mark.parametrize("word", ["", "OR IGNORE", "OR ABORT"])
def test_an_order_whose_message_is_refused_fails_with_it(corner, word):
    """SQLite takes OR IGNORE for the statements of triggers, too."""
    with pytest.raises(sqlite3.IntegrityError):
        corner.execute(f"INSERT {word} INTO orders (customer, status) VALUES ('Ann', ?)", ("x" * (1 << 20),))
    assert corner.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    corner.execute(f"INSERT {word} INTO orders (customer) VALUES ('Ann')")
    assert corner.execute("SELECT count(*) FROM tally_outbox").fetchone() == (1,)


def test_a_replaced_order_counts_as_a_new_one(corner):
    for status in ("new", "paid"):
        corner.execute("INSERT OR REPLACE INTO orders (id, customer, status) VALUES (7, 'Ann', ?)", (status,))
    bodies = [json.loads(body) for (body,) in corner.execute("SELECT body FROM tally_outbox ORDER BY id")]
    assert bodies == [{"order": 7, "status": "new"}, {"order": 7, "status": "paid"}]


@pytest.fixture(scope="module")
def mariadb():
    server = MysqlServer().start()
    yield server
    server.kill9()


@pytest.fixture
def market(mariadb):
    outbox = MysqlOutbox(mariadb)
    outbox.ask("CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, customer TEXT NOT NULL,"
               " status VARCHAR(200) NOT NULL DEFAULT 'new')")
    assert mariadb.client(outbox.name, FILES["orders-to-tally-mysql.sql"]) == (0, "", "")
    return outbox


def bodies_of(market):
    return [json.loads(body) for (body,) in market.ask("SELECT body FROM tally_outbox ORDER BY id")]


def test_a_user_of_mysql_without_rights_to_the_outbox_sends_by_the_trigger(market):
    market.ask("CREATE USER webapp IDENTIFIED BY 'x'")
    market.ask("GRANT SELECT, INSERT, UPDATE, DELETE ON orders TO webapp")
    with contextlib.closing(market.connect(user="webapp", password="x")) as db, db.cursor() as cursor:
        cursor.execute("INSERT INTO orders (customer) VALUES ('Ann')")
        for change in ("status = 'paid'", "status = 'paid'", "customer = 'x'"):
            cursor.execute(f"UPDATE orders SET {change}")
        cursor.execute("REPLACE INTO orders (id, customer, status) VALUES (1, 'Ann', 'again')")
    assert bodies_of(market) == [{"order": 1, "status": status} for status in ("new", "paid", "again")]


@pytest.mark.parametrize("word", ["", "IGNORE"])
def test_an_order_of_mysql_whose_message_is_refused_fails_with_it(market, word):
    """Also where the application says IGNORE, which is not for the statements of triggers."""
    market.ask("ALTER TABLE tally_outbox ADD CONSTRAINT strict CHECK (body NOT LIKE '%refused%')")
    for statement in (f"INSERT {word} INTO orders (customer, status) VALUES ('Ann', 'refused')",
                      f"UPDATE {word} orders SET status = 'refused'"):
        if statement.startswith("UPDATE"):
            market.ask("INSERT INTO orders (customer) VALUES ('Ann')")
        with pytest.raises(pymysql.err.Error, match="strict"):
            market.ask(statement)
    assert market.ask("SELECT status FROM orders") == [("new",)] and market.count() == 1


def test_orders_of_mysql_that_were_there_are_sent_once_beside_those_that_come(market):
    """Writers go on while the trigger is made and what was there is sent: none is missed, none is sent twice."""
    market.ask("DROP TRIGGER orders_insert_to_tally")
    market.ask("INSERT INTO orders (customer) SELECT 'old' FROM seq_1_to_300")
    is_over = threading.Event()

    def write():
        with contextlib.closing(market.connect()) as db, db.cursor() as cursor:
            while not is_over.is_set():
                cursor.execute("INSERT INTO orders (customer) VALUES ('new')")

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    try:
        wait_until(lambda: market.count("orders") >= 330, what="new orders")
        assert market.server.client(market.name, FILES["with-old-orders-mysql.sql"]) == (0, "", "")
        sent = market.count("orders")
        wait_until(lambda: market.count("orders") >= sent + 30, what="newer orders")
    finally:
        is_over.set()
        for writer in writers:
            writer.join()
    orders = [number for (number,) in market.ask("SELECT id FROM orders ORDER BY id")]
    assert sorted(body["order"] for body in bodies_of(market)) == orders
