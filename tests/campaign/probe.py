#!/usr/bin/python3
"""Reads the ports of nodes, one a line, and prints for each when the node has first answered a request. It is one that
writes, so PostgreSQL has acknowledged it. A process of its own, for in that of the load it would wait for its turn.

    probe.py QUEUE

Times are those of CLOCK_MONOTONIC, which all processes share."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

from wire import Connection, Lost  # noqa: E402

PAUSE = 0.002
PATIENCE = 300  # seconds; a node that takes longer is none to wait for


def first_answer(port, queue):
    give_up_at = time.monotonic() + PATIENCE
    with Connection(port, 60) as line:
        while time.monotonic() < give_up_at:
            try:
                if line.call("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": "probe"}).status == 200:
                    return time.monotonic()
            except Lost:
                pass
            time.sleep(PAUSE)
    sys.exit(f"the node on port {port} has answered nothing for {PATIENCE} s")


for asked in sys.stdin:
    print(first_answer(int(asked), sys.argv[1]), flush=True)
