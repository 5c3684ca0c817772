"""The inbox of a consumer: which messages have had their effect, in the database of the effect."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from ._inbox_mysql import note_in_mysql
from ._message import Message

IDLE = 0  # the status of a connection of libpq that is in no transaction


class AlreadyDone(Exception):
    """The effect of the message is committed. Roll back, and delete the message; a Worker does that by itself."""


def once(connection: Any, message: Message | Mapping[str, Any] | str, *, consumer: str = "",
         schema: str = "tally") -> None:
    """Notes in the connection's transaction that the message had its effect, or raises AlreadyDone if it had before.

    Call it first, then do the effect, then commit, all in one transaction. So the effect happens once, however often
    the message is delivered. While another transaction holds the same message, the call waits for its end.

    connection  of psycopg, psycopg2, sqlite3, PyMySQL or mysqlclient (MySQLdb). It must not be in autocommit, or be in
                a transaction already. Each thread needs one of its own: a rollback of another thread would undo the
                note, too
    message     what a Worker gives, a message of receive_message(), or an id: Tally.OutboxId if the message has that
                attribute, else its MessageId. A plain message must have been received with MessageAttributeNames All
    consumer    tells apart two consumers of one database that both are to act
    schema      what `tally relay schema --schema` was told. That command makes the tables

    Errors: AlreadyDone; ValueError in autocommit, because the note would be committed without the effect; TypeError
    for another kind of connection; the driver's errors. At REPEATABLE READ or SERIALIZABLE the driver raises a
    SerializationFailure if another worker commits first: try the transaction again. In MySQL that goes for a deadlock
    (error 1213) and a time-out (1205), and the note needs an effect that does not commit: CREATE, ALTER and such do.
    """
    if not schema.isidentifier():
        raise ValueError(f"schema must be a name, not {schema!r}")
    if not _note_for(connection)(connection, schema, _id_of(message), consumer):
        raise AlreadyDone(f"the effect of message {_id_of(message)} is committed")


def _id_of(message: Message | Mapping[str, Any] | str) -> str:
    if isinstance(message, str):
        return message
    raw = message.raw if isinstance(message, Message) else message
    return raw.get("MessageAttributes", {}).get("Tally.OutboxId", {}).get("StringValue") or raw["MessageId"]


def _note_for(connection: Any) -> Callable[[Any, str, str, str], bool]:
    """What notes a message there, and says whether it is the first time."""
    modules = {kind.__module__.split(".")[0] for kind in type(connection).__mro__}
    if isinstance(connection, sqlite3.Connection):
        return _note_in_sqlite
    if modules & {"psycopg", "psycopg2"}:
        return _note_in_postgres
    if modules & {"pymysql", "MySQLdb"}:
        return note_in_mysql
    kind = type(connection).__qualname__
    raise TypeError(f"once() takes a connection of psycopg, psycopg2, sqlite3, PyMySQL or mysqlclient, not {kind}")


def _note_in_sqlite(connection: sqlite3.Connection, schema: str, message_id: str, consumer: str) -> bool:
    is_autocommit = connection.isolation_level is None or getattr(connection, "autocommit", None) is True
    if is_autocommit and not connection.in_transaction:
        raise ValueError('once() needs a transaction: execute("BEGIN IMMEDIATE") first')
    done = connection.execute(f"INSERT INTO {schema}_inbox(consumer, message_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
                              (consumer, message_id))
    return done.rowcount == 1


def _note_in_postgres(connection: Any, schema: str, message_id: str, consumer: str) -> bool:
    if connection.autocommit and connection.info.transaction_status == IDLE:
        raise ValueError("once() needs a transaction: the connection is in autocommit")
    with connection.cursor() as cursor:
        # The number of rows is the answer: what a row looks like is the connection's choice.
        cursor.execute(f"SELECT 1 WHERE {schema}.once(%s, %s)", (message_id, consumer))
        return cursor.rowcount == 1
