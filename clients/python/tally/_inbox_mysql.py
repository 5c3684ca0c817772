"""The inbox in MySQL and MariaDB, through PyMySQL or mysqlclient (MySQLdb)."""

from __future__ import annotations

from typing import Any

NO_SUCH_SAVEPOINT = 1305  # an error of the server


def note_in_mysql(connection: Any, schema: str, message_id: str, consumer: str, mark: str) -> bool:
    if connection.get_autocommit() and not _is_in_transaction(connection):
        raise ValueError("once() needs a transaction: the connection is in autocommit")
    with connection.cursor() as cursor:
        cursor.execute(f"CALL {schema}_once(%s, %s, @tally_is_first)", (message_id, consumer))
        # That there is a row is the answer: what it looks like is the connection's choice.
        cursor.execute("SELECT 1 FROM DUAL WHERE @tally_is_first")
        is_first = bool(cursor.fetchall())
        cursor.execute(f"SAVEPOINT {mark}")
        return is_first


def has_savepoint(connection: Any, name: str) -> bool:
    """Is it of the transaction that the connection is in?"""
    with connection.cursor() as cursor:
        is_there = _release(cursor, name)
        if is_there:
            cursor.execute(f"SAVEPOINT {name}")
        return is_there


def _is_in_transaction(connection: Any) -> bool:
    """Outside of a transaction a savepoint is gone with its statement. No driver's word is the same as another's."""
    with connection.cursor() as cursor:
        cursor.execute("SAVEPOINT tally_once")
        return _release(cursor, "tally_once")


def _release(cursor: Any, name: str) -> bool:
    """False: there is no such savepoint."""
    try:
        cursor.execute(f"RELEASE SAVEPOINT {name}")
    except Exception as error:
        if error.args[:1] == (NO_SUCH_SAVEPOINT,):
            return False
        raise
    return True
