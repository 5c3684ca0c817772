"""The service model of Tally's actions (models/tally), a client made from it, and what judges a daemon by it.

    client = ModelClient(daemon.endpoint)             # .call("CreateBatch", BatchId="a"): through botocore
    client.refused("SealBatch", BatchId="none")       # the name of the error; its shape is checked, too
    client.sent, client.seen                          # {(shape, member)}: in requests that succeeded, in replies
    for path, request in model.beyond("CreateBatch", {"BatchId": "a"}, done): ...   # with a value that is not allowed

Each reply is read as it came over the wire: no member that the model does not know, none of a wrong type, none missing
that is required, no value outside its enum or range."""

import json
import pathlib
import re

from conftest import ROOT

MODELS = ROOT / "models"
FOLDER = MODELS / "tally" / "2026-11-30"
KEYS = {"aws_access_key_id": "any", "aws_secret_access_key": "thing"}
LARGEST = 70000  # longer texts and lists are not tried
NUMBERS = {"integer": int, "long": int, "double": (int, float), "timestamp": (int, float)}
TYPES = {**NUMBERS, "string": str, "blob": str, "boolean": bool, "list": list, "map": dict, "structure": dict}


def read(name):
    return json.loads((FOLDER / name).read_text())


class Model:
    def __init__(self, path=FOLDER / "service-2.json"):
        self.json = json.loads(pathlib.Path(path).read_text())
        self.operations, self.shapes = self.json["operations"], self.json["shapes"]

    def parts(self, name):
        """The shapes that a shape is made of."""
        shape = self.shapes[name]
        inner = [shape[part] for part in ["member", "key", "value"] if part in shape]
        return [ref["shape"] for ref in [*shape.get("members", {}).values(), *inner]]

    def reachable(self, *names):
        found, left = set(), [name for name in names if name]
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += self.parts(name)
        return found

    def side(self, action, side):
        return self.operations[action].get(side, {}).get("shape")

    def members(self, side):
        """{(shape, member)} of all requests ("input") or replies ("output")."""
        shapes = self.reachable(*(self.side(action, side) for action in self.operations))
        return {(name, member) for name in shapes for member in self.shapes[name].get("members", {})}

    def faults(self, name, value, path="", noted=None):
        """What is wrong with a value of a shape, in sentences; `noted` gets the members that are there."""
        shape = self.shapes[name]
        kind = shape["type"]
        if shape.get("document"):
            return
        if not isinstance(value, TYPES[kind]) or (kind in NUMBERS and isinstance(value, bool)):
            yield f"{path} is {value!r} and no {kind}"
        elif kind == "structure":
            yield from self.faults_of_members(name, value, path, noted)
        elif kind == "list":
            for index, item in enumerate(value):
                if item is not None or not shape.get("sparse"):
                    yield from self.faults(shape["member"]["shape"], item, f"{path}[{index}]", noted)
        elif kind == "map":
            for key, item in value.items():
                yield from self.faults(shape["value"]["shape"], item, f"{path}.{key}", noted)
        if isinstance(value, TYPES[kind]):
            yield from self.faults_of_value(shape, value, path)

    def faults_of_members(self, name, value, path, noted):
        members = self.shapes[name]["members"]
        for member in value.keys() - members.keys():
            yield f"{path}.{member} is not in the model"
        for member in set(self.shapes[name].get("required", [])) - value.keys():
            yield f"{path}.{member} is missing"
        for member in value.keys() & members.keys():
            if noted is not None:
                noted.add((name, member))
            yield from self.faults(members[member]["shape"], value[member], f"{path}.{member}", noted)

    @staticmethod
    def faults_of_value(shape, value, path):
        size = value if isinstance(value, (int, float)) else len(value)
        if "enum" in shape and value not in shape["enum"]:
            yield f"{path} is {value!r} and none of {shape['enum']}"
        if not shape.get("min", size) <= size <= shape.get("max", size):
            yield f"{path} is {value!r} and not within {shape.get('min')} and {shape.get('max')}"
        if "pattern" in shape and not re.fullmatch(shape["pattern"], value):
            yield f"{path} is {value!r} and does not match {shape['pattern']}"

    # --- values beyond what a shape allows ----------------------------------------------------------------------------

    def beyond(self, action, parameters, done):
        """(shape, member, the request with a value of that member that its shape forbids), for each such value. Members
        in `done`, a set of (shape, member), had their turn and are passed over."""
        return self._beyond(self.side(action, "input"), parameters, done)

    def _beyond(self, name, value, done):
        shape = self.shapes[name]
        if shape["type"] == "structure" and isinstance(value, dict):
            for member in value.keys() & shape.get("members", {}).keys():
                inner = shape["members"][member]["shape"]
                for at, wrong in self._beyond_of_member(name, member, inner, value[member], done):
                    yield at, {**value, member: wrong}
        elif shape["type"] == "list" and len(value) == 1:
            for at, wrong in self._beyond(shape["member"]["shape"], value[0], done):
                yield at, [wrong]

    def _beyond_of_member(self, name, member, inner, value, done):
        if (name, member) not in done:
            done.add((name, member))
            must = member in self.shapes[name].get("required", [])
            yield from (((name, member), wrong) for wrong in forbidden(self.shapes[inner], value, must))
        yield from self._beyond(inner, value, done)


def forbidden(shape, value, must):
    """Empty text may also mean that a member is absent, if it may be."""
    kind, least, most = shape["type"], shape.get("min"), shape.get("max")
    if "enum" in shape:
        yield "none-of-these"
    elif kind in NUMBERS:
        yield from [least - 1] if least is not None else []
        yield from [most + 1] if most is not None else []
    elif kind == "list":
        yield from [[]] if least else []
        yield from [value[:1] * (most + 1)] if most and most <= LARGEST else []
    elif kind == "string":
        yield from [""] if least and must else []
        yield from ["x" * (most + 1)] if most and most <= LARGEST else []
        yield from ["\u00e9 "] if "pattern" in shape else []


class ModelClient:
    def __init__(self, endpoint, unchecked=False, **keys):
        import boto3
        import botocore.config
        import botocore.loaders
        import botocore.session

        session = botocore.session.Session(profile=None)
        session.register_component("data_loader", botocore.loaders.create_loader(str(MODELS)))
        # What a test wants to send wrongly must get as far as the daemon.
        config = botocore.config.Config(retries={"max_attempts": 0}, parameter_validation=not unchecked)
        self.boto = boto3.Session(botocore_session=session, region_name="eu-central-1", **{**KEYS, **keys}).client(
            "tally", endpoint_url=endpoint, config=config)
        self.model = Model()
        self.sent, self.seen, self.errors = set(), set(), set()
        self.boto.meta.events.register("before-call.tally", self._note_request)
        self.boto.meta.events.register("response-received.tally", self._note_reply)
        self.request = self.reply = None

    def _note_request(self, params, **_):
        self.request = json.loads(params["body"] or "{}")

    def _note_reply(self, response_dict, **_):
        if response_dict is not None:  # else there was no answer
            self.reply, self.head = json.loads(response_dict["body"] or "{}"), response_dict["headers"]

    def method(self, action):
        from botocore import xform_name

        return getattr(self.boto, xform_name(action))

    def call(self, action, **parameters):
        """One that must succeed: its reply as JSON, as it came."""
        self.method(action)(**parameters)
        request, reply = self.model.side(action, "input"), self.model.side(action, "output")
        assert not list(self.model.faults(request, self.request, action, self.sent))
        faults = list(self.model.faults(reply, self.reply, action, self.seen)) if reply else self.reply
        assert not faults, f"{action} {parameters}: {faults}"
        return self.reply

    def refused(self, action, **parameters):
        """One that must fail: the name of its error, which the model knows with this status and this code."""
        try:
            self.method(action)(**parameters)
        except self.boto.exceptions.ClientError as error:
            name, answer = type(error).__name__, error.response
        else:
            raise AssertionError(f"{action} {parameters} was not refused")
        assert {"shape": name} in self.model.operations[action]["errors"], f"{action} does not name {name}: {answer}"
        told = self.model.shapes[name]["error"]
        side = "Sender" if told["senderFault"] else "Receiver"
        assert told["httpStatusCode"] == answer["ResponseMetadata"]["HTTPStatusCode"]
        assert self.head["x-amzn-query-error"] == f"{told['code']};{side}"
        assert self.reply["__type"] == f"com.tally#{name}" and self.reply["message"]
        self.errors.add(name)
        return name
