"""Batches: messages that are counted together."""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from ._client import CallError, Client, given
from ._message import Value, attribute_values

ENTRIES_MAX = 10
REQUEST_MAX = 1 << 20
Target = str | Mapping[str, Any]


class Batch:
    """A batch that is open: send() and add() give it units. Made by batch()."""

    def __init__(self, client: Client, batch_id: str) -> None:
        self.client, self.id = client, batch_id
        self._run, self._numbers = uuid.uuid4().hex, itertools.count()

    def send(self, queue: str, body: str, *, group: str | None = None, dedup: str | None = None,
             delay: int | None = None, attributes: Mapping[str, Value] | None = None) -> str:
        """Sends a message that is a unit: it ends when the message is deleted, or has failed. Returns its MessageId.

        delay is in seconds, up to 900. Without `dedup` the message gets a MessageDeduplicationId of this call, so that
        a request which is repeated after a lost answer adds one unit. Give your own if the program may be run again.
        Errors: those of SendMessage, and BatchSealed.
        """
        entry = self._entry(body, dedup, attributes) | given(MessageGroupId=group, DelaySeconds=delay)
        return self.client.sqs.send_message(QueueUrl=queue, **entry)["MessageId"]

    def send_all(self, queue: str, bodies: Iterable[str], *, group: str | None = None,
                 attributes: Mapping[str, Value] | None = None) -> list[str]:
        """send() for each body, ten in a request. Returns the MessageIds, in order.

        Errors: those of SendMessageBatch, and that of the first message which the server refused. The messages before
        it are units then, and so may be those behind it.
        """
        entries = (self._entry(body, None, attributes) | given(MessageGroupId=group) for body in bodies)
        return [sent for some in _portions(entries) for sent in self._send_some(queue, some)]

    def add(self, *keys: str) -> int:
        """Adds external units, which complete_units() of the client ends. Returns how many were new.
        Errors: those of AddUnits. It may be repeated."""
        return self.client.add_units(BatchId=self.id, Units=list(keys))["Added"]

    def _entry(self, body: str, dedup: str | None, attributes: Mapping[str, Value] | None) -> dict[str, Any]:
        return {"MessageBody": body,
                "MessageDeduplicationId": dedup or f"{self._run}-{next(self._numbers)}",
                "MessageAttributes": attribute_values({**(attributes or {}), "Tally.Batch": self.id})}

    def _send_some(self, queue: str, entries: list[dict[str, Any]]) -> list[str]:
        numbered = [{"Id": str(index), **entry} for index, entry in enumerate(entries)]
        reply = self.client.sqs.send_message_batch(QueueUrl=queue, Entries=numbered)
        for failed in reply.get("Failed", []):
            raise ClientError({"Error": failed}, "SendMessageBatch")
        sent = {entry["Id"]: entry["MessageId"] for entry in reply["Successful"]}
        return [sent[entry["Id"]] for entry in numbered]


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
    """Makes a batch; the block adds its units; the end of the block seals it. An exception cancels it, with its units.

    on_complete, on_success, on_first_failure: a queue, or a dict with QueueUrl, MessageBody, MessageGroupId and
    MessageAttributes. It gets one message when all units have ended, when all have succeeded, or when the first has
    failed. expires_after and retention are in seconds. A process that is killed leaves the batch open: expires_after
    ends it. batch_id is a UUID if it is left out. Errors: those of CreateBatch and SealBatch.
    """
    batch_id = batch_id or str(uuid.uuid4())
    client.create_batch(**given(
        BatchId=batch_id, OnComplete=_target(on_complete), OnSuccess=_target(on_success),
        OnFirstFailure=_target(on_first_failure), Total=total, Parent=parent, ExpiresAfterSeconds=expires_after,
        RetentionSeconds=retention))
    try:
        yield Batch(client, batch_id)
    except BaseException as error:
        try:
            client.cancel_batch(BatchId=batch_id)
        except CallError as why:
            error.add_note(f"The batch {batch_id} could not be cancelled: {why}")
        raise
    client.seal_batch(BatchId=batch_id)


def _target(target: Target | None) -> Mapping[str, Any] | None:
    return {"QueueUrl": target} if isinstance(target, str) else target
