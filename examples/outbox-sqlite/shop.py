"""What writer and workers share: the database, and Tally's API, which is one POST."""

import json
import os
import sqlite3
import urllib.request


def connect(path):
    database = sqlite3.connect(path, timeout=10, isolation_level=None)  # we say BEGIN and COMMIT ourselves
    database.execute("PRAGMA journal_mode = WAL")
    return database


def call(action, **request):
    headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{action}"}
    question = urllib.request.Request(os.environ["TALLY_URL"], json.dumps(request).encode(), headers)
    with urllib.request.urlopen(question, timeout=60) as reply:
        return json.loads(reply.read() or b"{}")
