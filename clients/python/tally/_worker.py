"""A worker: takes messages from a queue and calls a function for each. It does what `tally work` does for commands.

Threads: run() watches, and ends the worker. It sends no request, so no server can hold it up. One thread takes
messages, one at a time, so that nothing waits here that another worker could do. One sends the heartbeats. Each message
has a thread of its own, in which its handler runs."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import logging
import math
import signal
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from ._client import CallError, Client, client as make_client, clock_fault, code_of, given, is_outage, pauses
from ._inbox import AlreadyDone
from ._message import LeaseLost, Message

log = logging.getLogger("tally.worker")

TICK_S = 0.1
RECEIVE_WAIT_S = 20
SHORT_WAIT_S = 1  # of a receive that must not last when the worker is to end
BEAT_MIN_S = 0.2
BEAT_WAIT_MIN_S = 2  # how long a heartbeat may take
BEAT_WAIT_MAX_S = 60
ATTEMPTS_MAX = 25  # of a message that always fails, unless somebody says otherwise
VISIBILITY_MAX_S = 43200
REASON_MAX = 1024  # bytes
BACKOFF = {"min": 1, "max": 900}  # where the queue has none: what always fails must not spin
BATCH_MAX = 10
LAZY_RESULTS = types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType


def _check_range(name: str, value: float | None, least: int, most: int) -> None:
    if value is not None and not least <= value <= most:
        raise ValueError(f"{name} must be {least} to {most}, not {value}")


class Retry(Exception):
    """Raised by a handler: the message is to be tried again, after so many seconds (0 to 43,200) if `after` is given.
    The attempt counts."""

    def __init__(self, reason: str = "to be tried again", *, after: float | None = None) -> None:
        super().__init__(reason)
        _check_range("after", after, 0, VISIBILITY_MAX_S)
        self.after = None if after is None else math.ceil(after)


class Reject(Exception):
    """Raised by a handler: the message can't be handled, now or later. It goes to the dead-letter queue, and is dropped
    if there is none."""


class Worker:
    """Calls handler(message) for each message of a queue, until it is told to stop.

    When the handler returns, the message is deleted. When it raises an exception, the attempt has failed, with the type
    and text of the exception as its reason. The message is tried again after its queue's Tally.Backoff, or, if it has
    none, after 1 s, 2 s, 4 s and so on up to 15 minutes, less or more by a fifth. When its attempts are over it goes
    to the dead-letter queue. Retry and Reject say otherwise; AlreadyDone, of once(), deletes the message.

    Each message is handled at least once: after a crash it comes again. While its handler runs it is hidden from other
    workers, however long that takes. If the lease is lost all the same, message.is_held is False and message.check()
    raises LeaseLost. On a FIFO queue the messages of a group are handled one after the other, in order.

    queue         its URL or bare name
    client        of client(); else client() makes one
    concurrency   handle up to so many messages at a time, each in a thread. More processors need more processes
    visibility    after a crash of this machine others get its messages so many seconds later (1 to 43,200)
    retry_after   a failed message is tried again so many seconds later; else later each time
    max_attempts  give a message up that failed so often, or sooner if the queue's RedrivePolicy says so; else that
                  policy decides, and without one it is 25 times; 0: no limit but the policy's. What is a dead letter
                  already is given up only if this says so
    dead_letter   the queue where messages go that are given up; else where the queue's RedrivePolicy says
    grace         when told to stop, running handlers may go on for so many seconds
    until_empty   stop when there is no message, and none is to come again that was here. A message comes again because
                  it failed, or because an answer of the server got lost. After a lost answer the worker stays until
                  `visibility` seconds are over, or the queue has no message, in flight or delayed or visible. Otherwise
                  it waits neither for delayed messages nor for those that other workers have
    """

    def __init__(self, queue: str, handler: Callable[[Message], object], *, client: Client | None = None,
                 concurrency: int = 1, visibility: int = 30, retry_after: int | None = None,
                 max_attempts: int | None = None, dead_letter: str | None = None, grace: float = 20,
                 until_empty: bool = False) -> None:
        _check_range("concurrency", concurrency, 1, 1000)
        _check_range("visibility", visibility, 1, VISIBILITY_MAX_S)
        _check_range("retry_after", retry_after, 0, VISIBILITY_MAX_S)
        _check_range("max_attempts", max_attempts, 0, 1000)
        if dead_letter == "":
            raise ValueError("dead_letter must name a queue, or be None")
        if not callable(handler):
            raise TypeError(f"handler must be a function, not {type(handler).__name__}")
        if _is_lazy(handler):
            raise TypeError("handler must be an ordinary function: one that is async, or that yields, would not run. "
                            "An ordinary one may call asyncio.run()")
        self.queue, self._handler, self._concurrency, self._visibility = queue, handler, concurrency, visibility
        self._retry_after, self._max_attempts, self._dead_letter = retry_after, max_attempts, dead_letter
        self._grace, self._until_empty = grace, until_empty
        client = client or make_client()
        once = {"total_max_attempts": 1}  # what is to be repeated is repeated here
        self._sqs = client.make("sqs", retries=once, read_timeout=RECEIVE_WAIT_S + 10,
                                max_pool_connections=concurrency + 1)
        self._tally = client.make("tally", retries=once, max_pool_connections=concurrency)
        self._beat_every_s = max(visibility / 3, BEAT_MIN_S)
        beat_wait_s = min(max(self._beat_every_s, BEAT_WAIT_MIN_S), BEAT_WAIT_MAX_S)
        self._beats = client.make("sqs", retries=once, read_timeout=beat_wait_s, connect_timeout=beat_wait_s)
        self._changed = threading.Condition()
        self._in_hand: set[Message] = set()  # guarded by _changed, and so is _working
        self._working: set[Message] = set()  # those whose handler runs: only they need heartbeats
        self._has_begun = False
        self._stops = 0
        self._has_ended = threading.Event()
        self._failure: Exception | None = None
        self._is_away = False
        self._retry_by = 0.0  # until then a message comes again that failed here
        self._lost_by = 0.0  # until then one may come again of which we don't know
        self._is_at_most_once = False
        self._attempts_of_queue = 0
        self._backoff_max_s = BACKOFF["max"]

    def run(self) -> None:
        """Works until stop() is called, or in the main thread until SIGTERM, SIGINT or SIGHUP comes. Then no message is
        begun, and running handlers may finish within the grace, which a second signal ends. A handler that still runs
        then loses its message: it comes again when its visibility timeout is over. Call run() once; a second call
        raises RuntimeError.

        While the server can't be reached the worker tries again, with longer and longer pauses; so it does while the
        clock here is more than 15 minutes off, so that no signature is good. Errors: ClientError if the server refuses
        to give messages, for example because the queue does not exist, or the secret is wrong.
        """
        if self._has_begun:
            raise RuntimeError("run() was called before: make another Worker")
        self._has_begun = True
        taker = threading.Thread(target=self._take_messages, name=f"tally {self.queue}", daemon=True)
        try:
            with _signals_call(self.stop):
                taker.start()
                threading.Thread(target=self._keep_leases, name=f"tally {self.queue} leases", daemon=True).start()
                self._watch(taker)
        finally:
            self.stop()
            self._has_ended.set()
        with self._changed:
            left = list(self._in_hand)
        for message in left:
            message.is_lost = True
            log.warning("message %s: its handler did not end in time, so it comes back in at most %d s", message.id,
                        self._visibility)
        if self._failure:
            raise self._failure

    def _watch(self, taker: threading.Thread) -> None:
        stop_by = None
        while stop_by is None or not self._is_over(stop_by, taker):
            if self._is_stopping and stop_by is None:
                stop_by = time.monotonic() + self._grace
            with self._changed:
                self._changed.notify_all()  # stop() may be called where it can't
                self._changed.wait(TICK_S)

    def stop(self) -> None:
        """Ends run() as a signal does, from any thread or signal handler. Returns at once. A second call ends the
        grace."""
        self._stops += 1

    @property
    def _is_stopping(self) -> bool:
        return self._stops > 0

    def _is_over(self, stop_by: float, taker: threading.Thread) -> bool:
        # What is received at most once can't be given back, so the last receive is waited for.
        is_idle = not self._in_hand and not (self._is_at_most_once and taker.is_alive())
        return is_idle or self._stops > 1 or time.monotonic() >= stop_by

    # --- taking messages ----------------------------------------------------------------------------------------------

    def _take_messages(self) -> None:
        try:
            self._ask_about_queue()
            while self._wait_for_room():
                self._take_message()
        except Exception as error:  # noqa: BLE001 run() raises it
            self._failure = error
            self.stop()

    def _ask_about_queue(self) -> None:
        reply = self._reach(self._sqs.get_queue_attributes, QueueUrl=self.queue, AttributeNames=["All"])
        attributes = reply.get("Attributes", {}) if reply else {}
        self._is_at_most_once = attributes.get("Tally.DeliveryMode") == "at-most-once"
        policy = json.loads(attributes.get("RedrivePolicy", "{}"))
        self._attempts_of_queue = int(policy.get("maxReceiveCount", 0))
        self._backoff_max_s = json.loads(attributes.get("Tally.Backoff", "{}")).get("max", BACKOFF["max"])

    def _wait_for_room(self) -> bool:
        """Until another message may be begun. False: none is to be begun any more."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._in_hand) < self._concurrency or self._is_stopping)
        return not self._is_stopping

    def _take_message(self) -> None:
        began_at = time.monotonic()
        reply = self._reach(self._receive)
        for raw in reply.get("Messages", []) if reply else []:
            message = Message(self.queue, raw, self._visibility)
            if self._is_stopping and not self._is_at_most_once:
                self._settle(message, self._give_back)
                continue
            with self._changed:
                earlier = [other for other in self._working if other.id == message.id]
            for other in earlier:  # its heartbeats would prolong the new lease
                self._lose(other, "it was delivered again")
            with self._changed:
                self._in_hand.add(message)
                self._working.add(message)
            threading.Thread(target=self._work, args=[message], name=f"tally {message.id}", daemon=True).start()
        if self._until_empty and reply is not None and not reply.get("Messages") and self._is_drained(began_at):
            self.stop()

    def _receive(self) -> dict[str, Any]:
        wait_s = self._receive_wait_s()
        try:
            return self._sqs.receive_message(
                QueueUrl=self.queue, MaxNumberOfMessages=1, WaitTimeSeconds=wait_s, VisibilityTimeout=self._visibility,
                AttributeNames=["All"], MessageAttributeNames=["All", "Tally.*"])
        except CallError:
            # The server may have given a message, or may give it yet, to nobody.
            self._note_loss(wait_s + self._visibility)
            raise

    def _receive_wait_s(self) -> int:
        if self._until_empty:
            return min(max(int(self._retry_by - time.monotonic()) + 1, SHORT_WAIT_S), RECEIVE_WAIT_S)
        return SHORT_WAIT_S if self._is_at_most_once else RECEIVE_WAIT_S

    def _is_drained(self, began_at: float) -> bool:
        with self._changed:
            if self._in_hand or began_at < self._retry_by:
                return False
        return began_at >= self._lost_by or not self._may_come_again()

    def _may_come_again(self) -> bool:
        """Is a message in flight, or in its back-off, or back since the receive that gave none? It may be the one that
        we don't know, or any other."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
                 "ApproximateNumberOfMessagesDelayed"]
        reply = self._reach(self._sqs.get_queue_attributes, QueueUrl=self.queue, AttributeNames=names)
        return reply is None or any(int(reply["Attributes"][name]) for name in names)

    # --- handling one -------------------------------------------------------------------------------------------------

    def _work(self, message: Message) -> None:
        try:
            settle = self._handle(message)
            with self._changed:
                self._working.discard(message)  # a heartbeat that comes now would undo what follows
            if settle and not self._is_at_most_once:
                self._settle(message, settle)
        finally:
            with self._changed:
                self._working.discard(message)
                self._in_hand.discard(message)
                self._changed.notify_all()

    def _handle(self, message: Message) -> Callable[[Message], None] | None:
        """Calls the handler. What is to become of the message then; None: it is left alone."""
        try:
            _refuse_unrun(self._handler(message))
        except AlreadyDone:
            return self._delete
        except LeaseLost as error:
            log.warning("%s", error)
            self._note_loss(self._visibility)
            return None
        except BaseException as error:  # noqa: BLE001 SystemExit in a handler is a failure, too
            if self._is_at_most_once or message.is_lost:
                log.warning("message %s: %s; %s", message.id, _reason(error),
                            "its lease was lost" if message.is_lost else
                            "its queue delivers at most once, so it is not tried again", exc_info=error)
                self._note_loss(self._visibility)
                return None
            return functools.partial(self._fail, error=error)
        return self._delete

    def _settle(self, message: Message, settle: Callable[[Message], None]) -> None:
        """Tells the server what becomes of a message; as often as it takes, until the worker stops."""
        try:
            settle(message)
        except CallError as error:
            if code_of(error) == "ReceiptHandleIsInvalid":
                log.warning("message %s: its lease is lost, so another worker may have it: %s", message.id, error)
                return
            log.warning("message %s: the server did not hear how it ended, so it comes back in at most %d s: %s",
                        message.id, self._visibility, error)
            self._note_return(self._visibility)

    def _delete(self, message: Message) -> None:
        self._reach(self._sqs.delete_message, is_last_word=True, QueueUrl=self.queue,
                    ReceiptHandle=message.receipt_handle)

    def _give_back(self, message: Message) -> None:
        self._reach(self._sqs.change_message_visibility, is_last_word=True, QueueUrl=self.queue,
                    ReceiptHandle=message.receipt_handle, VisibilityTimeout=0)

    def _fail(self, message: Message, error: BaseException) -> None:
        after = error.after if isinstance(error, Retry) else None
        after = self._retry_after if after is None else after
        tries = 0

        def ask(**members: Any) -> Any:
            nonlocal tries
            tries += 1
            return self._tally.fail_message(**members)

        try:
            told = self._reach(ask, is_last_word=True, **given(
                QueueUrl=self.queue, ReceiptHandle=message.receipt_handle, Reason=_reason(error), Backoff=BACKOFF,
                Final=isinstance(error, Reject) or None, RetryAfterSeconds=after,
                MaxAttempts=self._attempts_max(message), DeadLetterQueueUrl=self._dead_letter))
        except CallError as refusal:
            if tries > 1 and code_of(refusal) == "ReceiptHandleIsInvalid":
                # A FIFO queue answers so to the repeat of what it has done, when the first answer got lost.
                self._note_loss(self._backoff_max_s if after is None else after)
            raise
        if told["Outcome"] == "returned":
            self._note_return(told.get("RetryAfterSeconds", 0))
        # One line for each attempt, and where it happened once: with the last.
        is_traced = told["Outcome"] != "returned" or log.isEnabledFor(logging.DEBUG)
        is_expected = isinstance(error, (Retry, Reject))
        log.warning("message %s: %s; %s", message.id, _reason(error), _fate(told),
                    exc_info=error if is_traced and not is_expected else None)

    def _attempts_max(self, message: Message) -> int | None:
        # Who gets a dead letter wants it dealt with: it is not thrown away because it had its attempts elsewhere.
        if self._max_attempts is not None:
            return self._max_attempts or None
        return None if message.is_dead_letter else max(ATTEMPTS_MAX, self._attempts_of_queue)

    def _note_return(self, seconds: float) -> None:
        self._retry_by = max(self._retry_by, time.monotonic() + seconds)

    def _note_loss(self, seconds: float) -> None:
        """A message may be in flight that nobody handles. It comes again within so many seconds."""
        if not self._is_at_most_once:
            self._lost_by = max(self._lost_by, time.monotonic() + seconds)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def _keep_leases(self) -> None:
        try:
            while not self._has_ended.wait(TICK_S):
                self._heartbeat()
        except Exception as error:  # noqa: BLE001 run() raises it
            self._failure = error
            self.stop()

    def _heartbeat(self) -> None:
        if self._is_at_most_once:
            return
        now = time.monotonic()
        with self._changed:
            held = [message for message in self._working if not message.is_lost]
        for message in held:
            # This process stood still. A heartbeat now might change the lease of whoever has the message.
            if message.beaten_at + 0.9 * self._visibility <= now:
                self._lose(message, "its heartbeat came too late")
        due = [message for message in held if not message.is_lost and message.beaten_at + self._beat_every_s <= now]
        for at in range(0, len(due), BATCH_MAX):
            self._prolong(due[at : at + BATCH_MAX])

    def _prolong(self, messages: list[Message]) -> None:
        asked_at = time.monotonic()
        entries = [{"Id": str(index), "ReceiptHandle": message.receipt_handle, "VisibilityTimeout": self._visibility}
                   for index, message in enumerate(messages)]
        try:
            reply = self._beats.change_message_visibility_batch(QueueUrl=self.queue, Entries=entries)
        except CallError as error:
            self._tell_outage(error)
            reply = {}
        for sent in reply.get("Successful", []):
            messages[int(sent["Id"])].renew(asked_at, self._visibility)
        for failed in reply.get("Failed", []):
            if failed["SenderFault"]:
                self._lose(messages[int(failed["Id"])], failed.get("Message", failed["Code"]))
        for message in messages:
            message.beaten_at = time.monotonic()

    def _lose(self, message: Message, why: str) -> None:
        with self._changed:
            if message not in self._working:
                return  # its end crossed the heartbeat
            message.is_lost = True
        log.warning("message %s: its lease is lost, so another worker may have it: %s", message.id, why)

    # --- a server that is away ----------------------------------------------------------------------------------------

    def _reach(self, call: Callable[..., dict[str, Any]], is_last_word: bool = False, **parameters: Any) -> Any:
        """The reply, asked for until there is one. When the worker stops: None, or with is_last_word the error."""
        for pause in pauses():
            try:
                reply = call(**parameters)
            except CallError as error:
                if not is_outage(error) or self._is_stopping and is_last_word:
                    raise
                self._tell_outage(error)
            else:
                self._tell_reached()
                return reply
            with self._changed:
                if self._changed.wait_for(lambda: self._is_stopping, pause) and not is_last_word:
                    return None
        raise AssertionError("pauses never end")

    def _tell_outage(self, error: Exception) -> None:
        if not self._is_away and not self._is_stopping:
            said = clock_fault(error) or str(error).partition("\n")[0]  # behind it may stand bodies that were received
            log.warning("%s; trying again until it works", said)
        self._is_away = True

    def _tell_reached(self) -> None:
        if self._is_away:
            log.warning("the server answers again")
        self._is_away = False


def _is_lazy(function: object) -> bool:
    return (inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function))


def _refuse_unrun(result: object) -> None:
    """A coroutine or generator that a handler returns has not run yet, so the message must not pass for done."""
    if isinstance(result, LAZY_RESULTS):
        if isinstance(result, types.CoroutineType):
            result.close()  # or else Python warns
        raise TypeError(f"the handler returned a {type(result).__name__}, which did not run: "
                        f"a handler must do its work before it returns")


def _fate(told: dict[str, Any]) -> str:
    """What became of a failed message."""
    outcome = told["Outcome"]
    if outcome == "returned":
        most = f" of {told['MaxAttempts']}" if "MaxAttempts" in told else ""
        return f"attempt {told['Attempt']}{most}, next in {told.get('RetryAfterSeconds', 0):.0f} s"
    if outcome == "ignored":
        return "it had ended before"
    fates = {"dead-lettered": f"it is in queue {told.get('QueueName')} now",
             "dropped": "it is dropped: its queue has no dead-letter queue", "held": "its group is held"}
    return f"attempt {told.get('Attempt')} was the last, {fates[outcome]}"


def _reason(error: BaseException) -> str:
    """Type and text of an exception, as a message may contain them."""
    name, text = type(error).__qualname__, ""
    with contextlib.suppress(Exception):  # what a __str__ of somebody's does
        text = str(error)
    whole = text if isinstance(error, (Retry, Reject)) and text else f"{name}: {text}" if text else name
    sound = "".join(character if _may_stand(character) else "?" for character in whole[:REASON_MAX])
    return sound.encode()[:REASON_MAX].decode(errors="ignore")


def _may_stand(character: str) -> bool:
    is_control = character < " " and character not in "\t\n\r"
    return not is_control and not "\ud800" <= character <= "\udfff" and character not in "\ufffe\uffff"


@contextlib.contextmanager
def _signals_call(stop: Callable[[], None]) -> Iterator[None]:
    """In the main thread, which alone may say what signals do."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: stop())
              for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
