"""The inbox of a consumer: which messages have had their effect, in the database of the effect."""

from __future__ import annotations

import inspect
import itertools
import sqlite3
import threading
import time
from collections.abc import Mapping
from typing import Any

from ._inbox_mysql import has_savepoint, note_in_mysql
from ._message import Message

IDLE, ACTIVE, IN_TRANSACTION, IN_ERROR = 0, 1, 2, 3  # the status of a connection of libpq
USES_MAX = 1000  # connections that are kept in mind
END_WAIT_S = 60  # for the end of another thread's transaction
END_LOOK_S = 0.05


class AlreadyDone(Exception):
    """The effect of the message is committed. Roll back, and delete the message; a Worker does that by itself."""


def once(connection: Any, message: Message | Mapping[str, Any] | str, *, consumer: str = "",
         schema: str = "tally") -> None:
    """Notes in the connection's transaction that the message had its effect, or raises AlreadyDone if it had before.

    Call it first, then do the effect, then commit, all in one transaction. So the effect happens once, however often
    the message is delivered. While another transaction holds the same message, the call waits for its end.

    connection  of psycopg, psycopg2, sqlite3, PyMySQL or mysqlclient (MySQLdb). It must not be in autocommit, or be in
                a transaction already. Each thread needs one of its own: the commit or rollback of one would end the
                transaction of the other
    message     what a Worker gives, a message of receive_message(), or an id: Tally.OutboxId if the message has that
                attribute, else its MessageId. A plain message must have been received with MessageAttributeNames All
    consumer    tells apart two consumers of one database that both are to act
    schema      what `tally relay schema --schema` was told. That command makes the tables

    Errors: AlreadyDone; ValueError in autocommit, because the note would be committed without the effect; TypeError
    for another kind of connection; the driver's errors. At REPEATABLE READ or SERIALIZABLE the driver raises a
    SerializationFailure if another worker commits first: try the transaction again. In MySQL that goes for a deadlock
    (error 1213) and a time-out (1205), and the note needs an effect that does not commit: CREATE, ALTER and such do.

    RuntimeError if the same delivery was noted in this transaction before: who tries again must roll back first.
    Nothing is committed then, so it is no AlreadyDone.

    RuntimeError, too, if the connection is in a transaction in which another thread has called once(). It comes when
    that transaction has ended, after 60 seconds at most. From then on once() refuses the connection. Only in PostgreSQL
    and SQLite this is found out.
    """
    if not schema.isidentifier():
        raise ValueError(f"schema must be a name, not {schema!r}")
    inbox = _inbox_of(connection)
    message_id = _id_of(message)
    use = _use_of(connection)
    noted = (schema, consumer, message_id, _delivery_of(message))
    with use.lock:
        if not use.is_by_two(inbox):
            inbox.check_transaction()
            use.check_again(inbox, noted)
            use.begin(message_id)
            if inbox.note(schema, message_id, consumer, use.mark):
                use.noted = noted
                return
            raise AlreadyDone(f"the effect of message {message_id} is committed")
    use.refuse(inbox)  # without the lock: the other thread may call once() again before it ends its transaction


def _id_of(message: Message | Mapping[str, Any] | str) -> str:
    if isinstance(message, str):
        return message
    raw = message.raw if isinstance(message, Message) else message
    return raw.get("MessageAttributes", {}).get("Tally.OutboxId", {}).get("StringValue") or raw["MessageId"]


def _delivery_of(message: Message | Mapping[str, Any] | str) -> str:
    """Two messages may have one id. Of a plain id it is not known whether it is that of another one."""
    raw = message.raw if isinstance(message, Message) else message
    return raw if isinstance(raw, str) else raw.get("ReceiptHandle") or raw["MessageId"]


class _Use:
    """Who called once() last with a connection, so that two threads in one transaction are found out."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.thread, self.message_id, self.mark = threading.current_thread(), "", ""
        self.noted: tuple[str, ...] = ()  # what the last call noted; nothing, if it found it noted
        self.shared: Any = None  # the connection, once two threads were in one transaction. So it keeps its id()
        self.why = ""

    def begin(self, message_id: str) -> None:
        self.thread, self.message_id = threading.current_thread(), message_id
        self.mark = f"tally_once_{next(_marks)}"
        self.noted = ()

    def check_again(self, inbox: _Inbox, noted: tuple[str, ...]) -> None:
        """A worker would delete the message for an AlreadyDone, and what is undone then never happens."""
        if noted == self.noted and inbox.is_in(self.mark):
            raise RuntimeError(f"once() was called for message {self.message_id} in this transaction before, and "
                               f"nothing of it is committed. Roll back before you try again")

    def is_by_two(self, inbox: _Inbox) -> bool:
        here = threading.current_thread()
        if self.shared is None and self.mark and self.thread is not here and inbox.has_mark(self.mark):
            if not self.thread.is_alive():
                inbox.leave_mark(self.mark)
                raise RuntimeError(f"the connection is still in the transaction of message {self.message_id}, whose "
                                   f"thread has ended: a handler must commit or roll back before it ends")
            self.shared = inbox.connection
            self.why = (f"two threads use this connection: {self.thread.name!r} was in the transaction of message "
                        f"{self.message_id} when {here.name!r} called once(). Make a connection in each thread. once() "
                        f"takes this one no more")
        return self.shared is not None

    def refuse(self, inbox: _Inbox) -> None:
        """Our caller will roll back now. That must not be in the middle of the other thread's transaction."""
        end = time.monotonic() + END_WAIT_S
        is_other = self.thread is not threading.current_thread()
        while is_other and self.thread.is_alive() and inbox.is_in_transaction() and time.monotonic() < end:
            time.sleep(END_LOOK_S)
        raise RuntimeError(self.why)


_uses: dict[int, _Use] = {}  # by the id() of a connection: one of sqlite3 can't be referred to weakly
_uses_lock = threading.Lock()
_marks = itertools.count()


def _use_of(connection: Any) -> _Use:
    with _uses_lock:
        use = _uses.pop(id(connection)) if id(connection) in _uses else _Use()
        _uses[id(connection)] = use  # the latest stands last
        if len(_uses) > USES_MAX:
            del _uses[next(key for key, use in _uses.items() if use.shared is None)]
        return use


class _Sqlite:
    """A mark is a savepoint, which ends with its transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def check_transaction(self) -> None:
        db = self.connection
        is_autocommit = db.isolation_level is None or getattr(db, "autocommit", None) is True
        if is_autocommit and not db.in_transaction:
            raise ValueError('once() needs a transaction: execute("BEGIN IMMEDIATE") first')

    def note(self, schema: str, message_id: str, consumer: str, mark: str) -> bool:
        try:
            done = self.connection.execute(
                f"INSERT INTO {schema}_inbox(consumer, message_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (consumer, message_id))
            return done.rowcount == 1
        finally:
            self.leave_mark(mark)

    def leave_mark(self, mark: str) -> None:
        if self.connection.in_transaction:
            self.connection.execute(f"SAVEPOINT {mark}")

    def has_mark(self, mark: str) -> bool:
        """Takes the mark away."""
        if not self.connection.in_transaction:
            return False
        try:
            self.connection.execute(f"RELEASE {mark}")
        except sqlite3.OperationalError:  # no such savepoint
            return False
        return True

    def is_in(self, mark: str) -> bool:
        is_there = self.has_mark(mark)
        if is_there:
            self.leave_mark(mark)
        return is_there

    def is_in_transaction(self) -> bool:
        return self.connection.in_transaction


class _Postgres:
    """A mark is a setting, which ends with its transaction."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def check_transaction(self) -> None:
        if self.connection.autocommit and self.connection.info.transaction_status == IDLE:
            raise ValueError("once() needs a transaction: the connection is in autocommit")

    def note(self, schema: str, message_id: str, consumer: str, mark: str) -> bool:
        # CASE says in which order: the mark is there also when the effect is committed already.
        return self._is_true(f"CASE WHEN set_config('tally.once', %s, true) <> '' THEN {schema}.once(%s, %s) END",
                             mark, message_id, consumer)

    def leave_mark(self, mark: str) -> None:
        """It is there still."""

    def has_mark(self, mark: str) -> bool:
        is_sound = self.connection.info.transaction_status in (ACTIVE, IN_TRANSACTION)
        return is_sound and self._is_true("current_setting('tally.once', true) = %s", mark)

    def is_in(self, mark: str) -> bool:
        return self.has_mark(mark)

    def is_in_transaction(self) -> bool:
        return self.connection.info.transaction_status in (ACTIVE, IN_TRANSACTION, IN_ERROR)

    def _is_true(self, condition: str, *values: str) -> bool:
        with self.connection.cursor() as cursor:
            # The number of rows is the answer: what a row looks like is the connection's choice.
            cursor.execute(f"SELECT 1 WHERE {condition}", values)
            return cursor.rowcount == 1


class _Mysql:
    """A mark is a savepoint. Two threads in one transaction are not found out: the drivers allow no two."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def check_transaction(self) -> None:
        """note() does it."""

    def note(self, schema: str, message_id: str, consumer: str, mark: str) -> bool:
        return note_in_mysql(self.connection, schema, message_id, consumer, mark)

    def leave_mark(self, mark: str) -> None:
        """It is there still."""

    def has_mark(self, mark: str) -> bool:
        return False

    def is_in(self, mark: str) -> bool:
        return has_savepoint(self.connection, mark)

    def is_in_transaction(self) -> bool:
        return False


_Inbox = _Sqlite | _Postgres | _Mysql


def _inbox_of(connection: Any) -> _Inbox:
    modules = {kind.__module__.split(".")[0] for kind in type(connection).__mro__}
    if isinstance(connection, sqlite3.Connection):
        return _Sqlite(connection)
    if modules & {"psycopg", "psycopg2"} and not inspect.iscoroutinefunction(connection.commit):
        return _Postgres(connection)
    if modules & {"pymysql", "MySQLdb"}:
        return _Mysql(connection)
    kind = type(connection).__qualname__
    raise TypeError(f"once() takes a connection of psycopg, psycopg2, sqlite3, PyMySQL or mysqlclient, not {kind}")
