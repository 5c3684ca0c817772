"""The client of Tally, a durable queue server that speaks the SQS protocol.

client()     Tally's actions and those of SQS, over botocore
Worker       calls a function for each message of a queue
batch()      sends messages that are counted together, with a message when all are done
failed_units()  which units of a batch failed, and why
once()       makes the effect of a message happen once, in a transaction of PostgreSQL, MySQL or SQLite
Matcher      finds the matches of a pool with a function of yours
"""

from ._batch import Batch, FailedUnit, batch, failed_units
from ._client import Client, client
from ._inbox import AlreadyDone, once
from ._matcher import Matcher
from ._message import LeaseLost, Message
from ._worker import Reject, Retry, Worker

__all__ = ["AlreadyDone", "Batch", "Client", "FailedUnit", "LeaseLost", "Matcher", "Message", "Reject", "Retry",
           "Worker", "batch", "client", "failed_units", "once"]
