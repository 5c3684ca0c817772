"""The log in PostgreSQL: servers, roles, poolers and databases that are not safe for it."""

import contextlib
import re
import shutil
import time

import pytest
from conftest import wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import await_takeover, create_queue, drain, send, serves, texts
from nodes import Cluster
from postgres import Postgres
from test_log_tools import tally
from test_relay_postgres import bouncer  # noqa: F401 (a fixture)
from wire import Connection, Lost


@contextlib.contextmanager
def altered(server, name, value):
    server.sql(f"ALTER SYSTEM SET {name} = '{value}'")
    server.sql("SELECT pg_reload_conf()")
    wait_until(lambda: server.sql(f"SHOW {name}")[0][0] == value, what=name)
    try:
        yield
    finally:
        server.sql(f"ALTER SYSTEM RESET {name}")
        server.sql("SELECT pg_reload_conf()")


def test_K19_unsafe_settings_are_refused_by_name(cluster):
    with altered(cluster.server, "full_page_writes", "off"):
        status, said = cluster.node("one").run_to_end()
    assert status == 1 and "full_page_writes is off" in said and "full_page_writes = on" in said
    status, said = cluster.node("two", "--log-replicas", "1").run_to_end()
    assert status == 1 and "synchronous_standby_names is empty" in said
    cluster.node("three").start().wait_ready()


@pytest.mark.parametrize("password", ["100%sure-hunter", "hunter@2hunter", "hunter/2hunter"])
def test_a_connection_string_that_can_not_be_read_is_refused_and_its_password_not_repeated(cluster, tmp_path, password):
    uri = cluster.uri.replace("tally@", f"tally:{password}@")
    status, said = cluster.node("one", uri=uri).run_to_end()
    assert status == 1 and "The connection string of the log" in said and "written %40" in said
    status, printed, refused = tally("cluster", "status", "--log", uri, folder=tmp_path)
    assert status == 1 and "The connection string of the log" in refused
    assert "hunter" not in said + printed + refused


def test_a_server_without_fsync_is_refused(tmp_path):
    server = Postgres(tmp_path / "unsafe").start()
    try:
        status, said = Cluster(server, tmp_path).node("one").run_to_end()
        assert status == 1 and "fsync is off" in said and "fsync = on" in said
    finally:
        server.stop("immediate")
        shutil.rmtree(server.folder, ignore_errors=True)


def test_F20_F21_K19_what_a_role_has_set_for_itself_is_overridden(cluster):
    role = f"role_of_{cluster.database}"
    cluster.sql(f"CREATE ROLE {role} LOGIN")
    for setting in ("client_min_messages = error", "default_transaction_isolation = 'repeatable read'",
                    "synchronous_commit = off", "statement_timeout = 500", "lock_timeout = 500",
                    "default_transaction_deferrable = on", "search_path = nowhere", "bytea_output = 'escape'"):
        cluster.sql(f"ALTER ROLE {role} SET {setting}")
    cluster.sql("DROP SCHEMA tally_log CASCADE")
    cluster.sql(f"ALTER DATABASE {cluster.database} OWNER TO {role}")
    cluster.uri = cluster.uri.replace("tally@", f"{role}@")
    cluster.init()
    owner, other = cluster.pair()
    line = cluster.line()
    jobs = create_queue(line)
    send(line, jobs, texts("m", 20))
    killed_at = time.monotonic()
    owner.kill9()
    await_takeover(other, jobs, killed_at)
    assert sorted(drain(Connection(other.port), jobs)) == sorted(texts("m", 20))
    kept = cluster.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", role)[0][0]
    assert kept >= 1


def test_F18_F29_another_owner_of_the_same_epoch_and_another_server_are_refused(cluster):
    node = cluster.node("one").start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    send(line, jobs, ["first"])
    cluster.sql("UPDATE tally_log.head SET owner = gen_random_uuid(), node = 'restored'")
    with pytest.raises(Lost):
        line.ok("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": "to nobody"})
    assert "of node restored, and this node had sealed" in wait_until(node.error_text, what="that it says so")
    wait_until(lambda: serves(node, jobs), what="that it takes the log again")
    send(Connection(node.port), jobs, ["second"])
    assert sorted(drain(Connection(node.port), jobs)) == ["first", "second"]
    node.stop()
    cluster.sql("UPDATE tally_log.head SET system_id = 7")
    (node.folder / "tallyd.err").write_text("")
    status, said = node.run_to_end()
    assert status == 1 and "system identifier 7" in said and "system_id = NULL" in said
    (advice,) = re.findall(r"UPDATE tally_log\.head SET system_id = NULL WHERE log = '\w+';", said)
    cluster.sql(advice)
    node.start().wait_ready()


def test_K19_a_pooler_is_refused(cluster, bouncer):
    for mode in ("transaction", "session"):
        uri = cluster.uri.replace(f":{cluster.server.port}/", f":{bouncer(mode)}/")
        status, said = cluster.node(mode, uri=uri).run_to_end()
        assert status == 1 and "pooler" in said, said
