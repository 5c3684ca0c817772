"""The inbox in MySQL and MariaDB, through PyMySQL or mysqlclient (MySQLdb)."""

from __future__ import annotations

from typing import Any

NO_SUCH_SAVEPOINT = 1305  # an error of the server


def note_in_mysql(connection: Any, schema: str, message_id: str, consumer: str) -> bool:
    if connection.get_autocommit() and not _is_in_transaction(connection):
        raise ValueError("once() needs a transaction: the connection is in autocommit")
    with connection.cursor() as cursor:
        cursor.execute(f"CALL {schema}_once(%s, %s, @tally_is_first)", (message_id, consumer))
        # That there is a row is the answer: what it looks like is the connection's choice.
        cursor.execute("SELECT 1 FROM DUAL WHERE @tally_is_first")
        return bool(cursor.fetchall())


def _is_in_transaction(connection: Any) -> bool:
    """Outside of a transaction a savepoint is gone with its statement. No driver's word is the same as another's."""
    with connection.cursor() as cursor:
        cursor.execute("SAVEPOINT tally_once")
        try:
            cursor.execute("RELEASE SAVEPOINT tally_once")
        except Exception as error:
            if error.args[:1] == (NO_SUCH_SAVEPOINT,):
                return False
            raise
        return True
