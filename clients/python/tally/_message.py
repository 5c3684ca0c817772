"""A message that was received, and what it says of its lease."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

Value = str | int | float | bytes


class LeaseLost(Exception):
    """The message may be somebody else's by now. Raised by Message.check(); a Worker then leaves the message alone."""


class Message:
    """A message that a Worker has in hand. `raw` is the message as botocore's receive_message() gives it."""

    def __init__(self, queue: str, raw: Mapping[str, Any], lease_s: float = 0) -> None:
        self.queue = queue
        self.raw = raw
        self.is_lost = False
        self.held_until = math.inf
        self.renew(time.monotonic(), lease_s)

    @property
    def id(self) -> str:
        return self.raw["MessageId"]

    @property
    def body(self) -> str:
        return self.raw["Body"]

    @property
    def receipt_handle(self) -> str:
        return self.raw["ReceiptHandle"]

    @property
    def attributes(self) -> dict[str, str | bytes]:
        """The message attributes, with those of Tally. Numbers are text, as they were sent."""
        return plain_values(self.raw.get("MessageAttributes", {}))

    @property
    def group_id(self) -> str | None:
        return self._system.get("MessageGroupId")

    @property
    def receive_count(self) -> int:
        """Deliveries, this one included."""
        return int(self._system.get("ApproximateReceiveCount", 0))

    @property
    def sent_at(self) -> float:
        """Seconds since 1970."""
        return int(self._system.get("SentTimestamp", 0)) / 1000

    @property
    def fencing_token(self) -> int:
        """Grows with every delivery in the namespace, so what the handler writes to can refuse an older one."""
        return int(self.attributes.get("Tally.FencingToken", 0))

    @property
    def failure_reason(self) -> str | None:
        """Why the newest failed attempt failed."""
        reason = self.attributes.get("Tally.FailureReason")
        return reason if isinstance(reason, str) else None

    @property
    def is_dead_letter(self) -> bool:
        return "DeadLetterQueueSourceArn" in self._system

    @property
    def is_held(self) -> bool:
        """Is the message still this worker's alone? False: the lease was lost, or the server has not confirmed it in
        time, so that another worker may have the message, too."""
        return not self.is_lost and time.monotonic() < self.held_until

    def check(self) -> None:
        """Raises LeaseLost unless the message is held. For handlers that work long, between their steps."""
        if not self.is_held:
            raise LeaseLost(f"message {self.id}: the lease is over, so another worker may have it")

    def renew(self, asked_at: float, lease_s: float) -> None:
        """Notes a lease that was asked for then. It lasts nine tenths of its timeout at least. One that was over then
        stays over: another worker may have had the message in between, and a standard queue takes older handles."""
        self.beaten_at = asked_at
        if asked_at < self.held_until:
            self.held_until = asked_at + 0.9 * lease_s

    @property
    def _system(self) -> Mapping[str, str]:
        return self.raw.get("Attributes", {})


def attribute_values(attributes: Mapping[str, Value]) -> dict[str, dict[str, Any]]:
    """Message attributes as SQS takes them."""
    return {name: _attribute_value(value) for name, value in attributes.items()}


def plain_values(attributes: Mapping[str, Mapping[str, Any]]) -> dict[str, str | bytes]:
    """What they were made of. Numbers are text."""
    return {name: value.get("StringValue", value.get("BinaryValue")) for name, value in attributes.items()}


def _attribute_value(value: Value) -> dict[str, Any]:
    if isinstance(value, bytes):
        return {"DataType": "Binary", "BinaryValue": value}
    return {"DataType": "String" if isinstance(value, str) else "Number", "StringValue": str(value)}
