"""A connection to a Tally server: clients of botocore, made from the service model that stands beside this file."""

from __future__ import annotations

import email.utils
import functools
import json
import os
import pathlib
import random
import socket
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import botocore
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError, IncompleteReadError
from botocore.parsers import ResponseParserError

if TYPE_CHECKING:
    from ._actions import Actions
else:
    Actions = object

ENDPOINT = "http://127.0.0.1:9324"
MODELS = pathlib.Path(__file__).with_name("models")
PAUSE_MAX_S = 5.0
BAD_SIGNATURES = "SignatureDoesNotMatch", "InvalidSignatureException"
WRONG_TIMES = "Signature expired: ", "Signature not yet current: "  # so begin these errors then, in Amazon's words


class Client(Actions):
    """Calls a Tally server. Made by client(); threads may share it.

    Each action of Tally is a method under the name that botocore gives it: CreateBatch is create_batch(). It takes the
    action's members as keywords and returns its reply as a dict. get_waiter(), get_paginator() and exceptions are
    there, too. `sqs` is the client of the actions that SQS has, such as sqs.send_message().

    A queue is named by its URL or by its bare name, wherever a QueueUrl is asked for.
    """

    sqs: Any

    def __init__(self, session: Any, name: str | None, config: Config, **options: Any) -> None:
        self._session, self._name, self._config, self._options = session, name, config, options
        self._tally = self.make("tally")
        self.sqs = self.make("sqs")

    if not TYPE_CHECKING:  # there a misspelled action is to be found
        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            return getattr(self._tally, name)

    def make(self, service: str, **config: Any) -> Any:
        """Another client of botocore for the same server: "tally" or "sqs", with other values of botocore's Config."""
        made = self._session.create_client(service, config=self._config.merge(Config(**config)), **self._options)
        made.meta.events.register("before-call.sqs.ReceiveMessage", self._name_worker)
        made.meta.events.register("after-call", _refuse_strangers)
        made.meta.events.register("after-call", _refuse_torn_reply)
        made._make_api_call = _know_strangers(made._make_api_call)  # behind each method; no event precedes the parser
        return made

    def _name_worker(self, params: dict[str, Any], **_: Any) -> None:
        params["headers"]["X-Tally-Worker"] = self._name or f"{socket.gethostname()}/{os.getpid()}"


def client(endpoint: str | None = None, *, session: Any = None, region: str | None = None,
           access_key: str | None = None, secret_key: str | None = None, ca_file: str | None = None,
           name: str | None = None, config: Config | None = None) -> Client:
    """A client of the server at `endpoint`, a URL. No request is sent yet.

    endpoint    else the variable TALLY_ENDPOINT, else http://127.0.0.1:9324
    session     a session of botocore or boto3; else a new one, which finds what AWS's tools are configured with
    region      what requests are signed for; else the session's, else us-east-1
    access_key  a credential of the server, with its secret_key; else the session's. Without any, requests are not
                signed, which a server without --credentials takes
    ca_file     PEM: who may vouch for an https:// server; else TALLY_CA_FILE, else the system's
    name        what this worker calls itself for `tally inflight`: 1 to 128 characters of ASCII; else HOST/PROCESS
    config      a Config of botocore: timeouts, retries, connections
    """
    if session is None:
        session = botocore.session.Session()
        session.get_component("credential_provider").remove("iam-role")  # it would ask AWS's network, for seconds
    session = getattr(session, "_session", session)  # of boto3's
    loader = session.get_component("data_loader")
    if str(MODELS) not in loader.search_paths:
        loader.search_paths.append(str(MODELS))
    own = Config(max_pool_connections=50)
    if access_key is None and session.get_credentials() is None:
        own = own.merge(Config(signature_version=botocore.UNSIGNED))
    return Client(
        session, name, own.merge(config) if config else own,
        endpoint_url=endpoint or os.environ.get("TALLY_ENDPOINT") or ENDPOINT,
        region_name=region or session.get_config_variable("region") or "us-east-1",
        aws_access_key_id=access_key, aws_secret_access_key=secret_key,
        verify=ca_file or os.environ.get("TALLY_CA_FILE") or None)


def _know_strangers(call: Callable[[str, dict[str, Any]], Any]) -> Callable[[str, dict[str, Any]], Any]:
    """botocore's parsers fail with an error of Python on some answers of something else in the server's place."""

    @functools.wraps(call)
    def call_knowing(action: str, members: dict[str, Any]) -> Any:
        try:
            return call(action, members)
        except (KeyError, UnicodeDecodeError) as error:
            raise ResponseParserError(f"what answered {action} is not Tally: its reply can't be read") from error

    return call_knowing


def _refuse_strangers(http_response: Any, model: Any, **_: Any) -> None:
    """Each reply of Tally has an id of its request. What comes without it, with whatever status, is of something else
    in its place, such as a proxy's page."""
    if "x-amzn-RequestId" not in http_response.headers:
        raise ResponseParserError(f"what answered {model.name} is not Tally: status {http_response.status_code}")


def _refuse_torn_reply(http_response: Any, model: Any, **_: Any) -> None:
    """A server that is killed may tear its reply. botocore takes half an object of JSON for an empty one."""
    content, declared = http_response.content, http_response.headers.get("Content-Length")
    if http_response.status_code >= 300 or http_response.headers.get("Content-Encoding"):
        return
    if declared and len(content) < int(declared):
        raise IncompleteReadError(actual_bytes=len(content), expected_bytes=int(declared))
    if content and model.metadata["protocol"] == "json":
        try:
            json.loads(content)
        except ValueError as error:
            raise ResponseParserError(f"The reply of {model.name} is no JSON: {error}") from None


def given(**members: Any) -> dict[str, Any]:
    """Members of a request, without those that were left out."""
    return {name: value for name, value in members.items() if value is not None}


def is_outage(error: Exception) -> bool:
    """Did the server not answer, or say that it can't now? Then the same request may succeed later."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        is_away = status >= 500 or error.response["Error"]["Code"].endswith("OverLimit")
        return is_away or clock_fault(error) != ""
    return isinstance(error, (ConnectionError, HTTPClientError, IncompleteReadError, ResponseParserError))


def clock_fault(error: Exception) -> str:
    """Is the signature refused for its time alone? Then what is wrong with the clock here, else "". The server looks at
    the time first, so the secret may be wrong, too."""
    said = error.response["Error"].get("Message", "") if isinstance(error, ClientError) else ""
    if code_of(error) not in BAD_SIGNATURES or not said.startswith(WRONG_TIMES):
        return ""
    date = error.response["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    try:
        ahead_s = time.time() - email.utils.parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return f"the clock here differs from that of the server: {said}"
    way = "ahead of" if ahead_s > 0 else "behind"
    return f"the clock here is {abs(ahead_s) / 60:.0f} minutes {way} that of the server, which allows 15: set it right"


def code_of(error: BaseException) -> str:
    """The error's code, such as ReceiptHandleIsInvalid; "" if no server has answered with one."""
    return error.response["Error"]["Code"] if isinstance(error, ClientError) else ""


def pauses() -> Iterator[float]:
    """Seconds to wait between attempts while the server is away: longer and longer, each another one."""
    longest = 0.1
    while True:
        longest = min(2 * longest, PAUSE_MAX_S)
        yield random.uniform(longest / 2, longest)


CallError = (BotoCoreError, ClientError, ResponseParserError)
