"""Batches: messages that are counted together."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from ._client import CallError, Client, code_of, given
from ._message import Value, attribute_values, plain_values

ENTRIES_MAX = 10
REQUEST_MAX = 1 << 20
Target = str | Mapping[str, Any]


class Batch:
    """A batch that is open: send() and add() give it units. Made by batch()."""

    def __init__(self, client: Client, batch_id: str) -> None:
        self.client, self.id = client, batch_id
        self._run, self._numbers = uuid.uuid4().hex, itertools.count()
        self._keys: set[str] | None = None  # of the external units, once the batch is known to be sealed

    def send(self, queue: str, body: str, *, group: str | None = None, dedup: str | None = None,
             delay: int | None = None, attributes: Mapping[str, Value] | None = None) -> str:
        """Sends a message that is a unit: it ends when the message is deleted, or has failed. Returns its MessageId.

        delay is in seconds, up to 900. Without `dedup` the message gets a MessageDeduplicationId of this call, so that
        a request which is repeated after a lost answer adds one unit. Give your own if the program may be run again.
        Errors: those of SendMessage, and BatchSealed; ValueError if `dedup` is empty.
        """
        entry = self._entry(body, dedup, attributes) | given(MessageGroupId=group, DelaySeconds=delay)
        with _tallys_errors(self.client):
            return self.client.sqs.send_message(QueueUrl=queue, **entry)["MessageId"]

    def send_all(self, queue: str, bodies: Iterable[str], *, group: str | None = None,
                 dedup: Callable[[str], str] | None = None,
                 attributes: Mapping[str, Value] | None = None) -> list[str]:
        """send() for each body, ten in a request. Returns the MessageIds, in order.

        dedup(body) is the MessageDeduplicationId of a body. Give it if the program may be run again.
        Errors: those of SendMessageBatch, and that of the first message which the server refused. The messages before
        it are units then, and so may be those behind it. ValueError if dedup(body) is None or empty.
        """
        entries = (self._entry(body, _id_from(dedup, body) if dedup else None, attributes) | given(MessageGroupId=group)
                   for body in bodies)
        return [sent for some in _portions(entries) for sent in self._send_some(queue, some)]

    def add(self, *keys: str) -> int:
        """Adds external units, which complete_units() of the client ends. Returns how many were new.

        It may be repeated, also when the batch is sealed and the units are in it. An earlier run may have sealed it, or
        the last unit of its total, whose answer got lost. To see which units are in it, a sealed batch is read once: a
        request for each 1,000 of its units. Errors: those of AddUnits and ListUnits. BatchSealed: at least one key is
        new, and nothing was added.
        """
        if not keys:
            return 0
        try:
            return self.client.add_units(BatchId=self.id, Units=list(keys))["Added"]
        except ClientError as error:
            if code_of(error) != "BatchSealed":
                raise
            unknown = [key for key in dict.fromkeys(keys) if key not in self._external_keys()]
            if not unknown:
                return 0
            error.add_note(f"Not in the batch {self.id}: {len(unknown)} of these units, the first is {unknown[0]!r}. "
                           f"What sealed it had other units. New units need a batch of their own.")
            raise

    def _external_keys(self) -> set[str]:
        """Those of a batch that is sealed. It loses none of them."""
        if self._keys is None:
            pages = self.client.get_paginator("list_units").paginate(BatchId=self.id)
            self._keys = {unit["Unit"] for page in pages for unit in page["Units"]
                          if "MessageId" not in unit and "BatchId" not in unit}
        return self._keys

    def _entry(self, body: str, dedup: str | None, attributes: Mapping[str, Value] | None) -> dict[str, Any]:
        if dedup is not None and not dedup:
            raise ValueError("dedup must not be empty: without it the message could be sent twice")
        return {"MessageBody": body,
                "MessageDeduplicationId": dedup or f"{self._run}-{next(self._numbers)}",
                "MessageAttributes": attribute_values({**(attributes or {}), "Tally.Batch": self.id})}

    def _send_some(self, queue: str, entries: list[dict[str, Any]]) -> list[str]:
        numbered = [{"Id": str(index), **entry} for index, entry in enumerate(entries)]
        with _tallys_errors(self.client):
            reply = self.client.sqs.send_message_batch(QueueUrl=queue, Entries=numbered)
            for failed in reply.get("Failed", []):
                raise ClientError({"Error": failed}, "SendMessageBatch")
        sent = {entry["Id"]: entry["MessageId"] for entry in reply["Successful"]}
        return [sent[entry["Id"]] for entry in numbered]


def _id_from(dedup: Callable[[str], str], body: str) -> str:
    """A missing id must not pass for one that was left out: the message would be sent twice."""
    made = dedup(body)
    if not made:
        raise ValueError(f"dedup() returned {made!r} for the body {body[:100]!r}: it must return a text, the same in "
                         f"each run")
    return made


@contextlib.contextmanager
def _tallys_errors(client: Client) -> Iterator[None]:
    """An error that only Tally has, such as BatchSealed, is of its class. The client of SQS knows none of them."""
    try:
        yield
    except ClientError as error:
        kind = client.exceptions.from_code(error.response["Error"]["Code"])
        raise kind(error.response, error.operation_name) from None


def _portions(entries: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """What fits one request each."""
    some: list[dict[str, Any]] = []
    size = 0
    for entry in entries:
        own = _size(entry)
        if some and (len(some) == ENTRIES_MAX or size + own > REQUEST_MAX):
            yield some
            some, size = [], 0
        some.append(entry)
        size += own
    if some:
        yield some


def _size(entry: dict[str, Any]) -> int:
    """What SQS counts: the body, and names, types and values of the attributes."""
    values = entry["MessageAttributes"]
    texts = [entry["MessageBody"], *values, *(value["DataType"] for value in values.values())]
    texts += [value["StringValue"] for value in values.values() if "StringValue" in value]
    blobs = [value["BinaryValue"] for value in values.values() if "BinaryValue" in value]
    return sum(len(text.encode()) for text in texts) + sum(map(len, blobs))


@contextlib.contextmanager
def batch(client: Client, batch_id: str | None = None, *, on_complete: Target | None = None,
          on_success: Target | None = None, on_first_failure: Target | None = None, total: int | None = None,
          parent: str | None = None, expires_after: int | None = None,
          retention: int | None = None) -> Iterator[Batch]:
    """Makes a batch, or opens it again; the block adds its units; the end of the block seals it.

    on_complete, on_success, on_first_failure: a queue, or a dict with QueueUrl, MessageBody, MessageGroupId and
    MessageAttributes. It gets one message when all units have ended, when all have succeeded, or when the first has
    failed. expires_after and retention are in seconds.

    With a batch_id of yours the call may be repeated with the same arguments, so that a program which was killed can be
    run again. Then give each message a deduplication id, the same in each run: a unit that is there already is not
    sent again. Keys of add() are such ids by themselves. An exception leaves the batch as it is, for it may be an
    earlier run's. Without a batch_id it is a UUID, and an exception cancels the batch, with its units.

    A batch that is left open waits for its seal until expires_after. Errors: those of CreateBatch and SealBatch. A new
    unit of a batch that is sealed is refused with BatchSealed.
    """
    is_ours = batch_id is None
    batch_id = str(uuid.uuid4()) if batch_id is None else batch_id
    client.create_batch(**given(
        BatchId=batch_id, OnComplete=_target(on_complete), OnSuccess=_target(on_success),
        OnFirstFailure=_target(on_first_failure), Total=total, Parent=parent, ExpiresAfterSeconds=expires_after,
        RetentionSeconds=retention))
    try:
        yield Batch(client, batch_id)
    except BaseException as error:
        if is_ours:
            _cancel(client, batch_id, error)
        elif code_of(error) != "BatchSealed":  # that batch is well, and is not to be ended
            error.add_note(f"The batch {batch_id} is left as it is. Run this again with the same deduplication ids, or "
                           f"end it: tally batch cancel {batch_id}")
        raise
    try:
        client.seal_batch(BatchId=batch_id)
    except CallError as error:
        is_gone = code_of(error) == "BatchDoesNotExist"
        if is_gone and total is not None:
            return  # the last unit sealed it, it completed, and its retention is over
        if not is_gone:
            error.add_note(f"The units of the batch {batch_id} are added, and perhaps it is not sealed. Seal it: "
                           f"tally batch seal {batch_id}")
        raise


def _cancel(client: Client, batch_id: str, error: BaseException) -> None:
    try:
        client.cancel_batch(BatchId=batch_id)
    except CallError as why:
        error.add_note(f"The batch {batch_id} could not be cancelled: {why}")


@dataclasses.dataclass(frozen=True)
class FailedUnit:
    """A unit that failed. What the server no longer knows is None."""

    key: str
    """An external unit's key, a child's BatchId, or the MessageId of a message."""
    message_id: str | None
    """That of its dead letter."""
    body: str | None
    reason: str | None
    """The newest FailureReason of its attempts, or the Detail of CompleteUnits."""
    attributes: Mapping[str, str | bytes]
    """Those with which the message was sent."""


def failed_units(client: Client, batch_id: str) -> Iterator[FailedUnit]:
    """The units of a batch that failed, in the order in which they were added, with what their dead letters say.

    A dead letter that was deleted, or that expired, leaves a unit without body and reason. Asks once for each message.
    Errors: those of ListUnits and GetMessage, such as BatchDoesNotExist. Needs the right `read`.
    """
    for page in client.get_paginator("list_units").paginate(BatchId=batch_id, State="failed"):
        for unit in page["Units"]:
            message_id = unit.get("MessageId")
            letter = client.get_message(MessageId=message_id) if message_id else {}
            yield FailedUnit(unit["Unit"], message_id, letter.get("Body"),
                             letter.get("FailureReason", unit.get("Detail")),
                             plain_values(letter.get("MessageAttributes", {})))


def _target(target: Target | None) -> Mapping[str, Any] | None:
    return {"QueueUrl": target} if isinstance(target, str) else target
