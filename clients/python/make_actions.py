#!/usr/bin/python3
"""Prints tally/_actions.pyi: Tally's actions as typed methods, made from the service model.

    ./make_actions.py >tally/_actions.pyi"""

import json
import pathlib
import re
import textwrap

from botocore import xform_name

[PATH] = pathlib.Path(__file__).parent.glob("tally/models/tally/*/service-2.json")
MODEL = json.loads(PATH.read_text())
SIMPLE = {"string": "str", "integer": "int", "long": "int", "double": "float", "boolean": "bool", "blob": "bytes",
          "timestamp": "datetime | float"}
HEAD = '''# Made by make_actions.py from the service model.
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

class Actions:
    exceptions: Any
    meta: Any
    def get_waiter(self, waiter_name: str) -> Any: ...
    def get_paginator(self, operation_name: str) -> Any: ...'''


def type_of(name):
    shape = MODEL["shapes"][name]
    if shape.get("document"):
        return "Any"
    if "enum" in shape:
        return f"Literal[{', '.join(json.dumps(word) for word in shape['enum'])}]"
    if shape["type"] == "list":
        return f"Sequence[{type_of(shape['member']['shape'])}]"
    if shape["type"] == "map":
        return f"Mapping[str, {type_of(shape['value']['shape'])}]"
    return SIMPLE.get(shape["type"], "Mapping[str, Any]")


def method(action, operation):
    shape = MODEL["shapes"][operation["input"]["shape"]]
    needed = shape.get("required", [])
    members = sorted(shape["members"].items(), key=lambda item: item[0] not in needed)
    words = [f"{member}: {type_of(ref['shape'])}{'' if member in needed else ' = ...'}" for member, ref in members]
    names = ", ".join(word.replace(" ", "\0") for word in ["self", *["*"][:len(words)], *words])
    head = textwrap.wrap(f"def\0{xform_name(action)}({names})\0->\0dict[str,\0Any]:", 112, break_long_words=False,
                         break_on_hyphens=False, subsequent_indent=" " * 8)
    said = re.sub("<[^>]*>", "", operation["documentation"])
    lines = [line.replace("\0", " ") for line in head] + textwrap.wrap(
        f'"""{said}"""', 112, initial_indent="    ", subsequent_indent="    ")
    return "\n".join("    " + line for line in lines)


print("\n".join([HEAD, *(method(*item) for item in sorted(MODEL["operations"].items()))]))
