#!/usr/bin/env python3
"""Books payments in SQLite, each once, however often its message comes. Any number of these may run, and be killed.

    worker.py QUEUE DATABASE        TALLY_ENDPOINT says where the server is

The body of a message is the account and the amount: "ann 30". Make the tables once:
    tally relay schema --type sqlite | sqlite3 DATABASE
    sqlite3 DATABASE 'CREATE TABLE payment (account TEXT, amount INTEGER)'"""

import logging
import sqlite3
import sys

import tally

queue, database = sys.argv[1:]


def book(message):
    try:
        account, amount = message.body.split()
        amount = int(amount)
    except ValueError:
        raise tally.Reject(f"not an account and an amount: {message.body!r}") from None
    with sqlite3.connect(database, timeout=20) as db:  # commits at the end, and rolls back on an exception
        tally.once(db, message)
        db.execute("INSERT INTO payment VALUES (?, ?)", (account, amount))


logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)
tally.Worker(queue, book, concurrency=4, visibility=5).run()
