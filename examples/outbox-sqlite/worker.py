"""Ships orders: the effect, the inbox and the ack in one transaction. There is no DeleteMessage: a relay deletes what
was acked."""

import json
import random
import sys
import time

from shop import call, connect


def ship(database, message):
    order = json.loads(message["Body"])
    message_id = message["MessageAttributes"]["Tally.OutboxId"]["StringValue"]
    database.execute("BEGIN IMMEDIATE")
    is_first = database.execute(
        "INSERT INTO tally_inbox (message_id) VALUES (?) ON CONFLICT DO NOTHING RETURNING 1", (message_id,)).fetchall()
    if is_first:
        database.execute("INSERT INTO shipment (customer, number) VALUES (?, ?)", (order["customer"], order["number"]))
    database.execute("INSERT INTO tally_outbox (kind, body) VALUES (1, ?)", (message["ReceiptHandle"],))
    database.execute("COMMIT")


path, queue = sys.argv[1:]
database = connect(path)
while True:
    answer = call("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=1, WaitTimeSeconds=5, VisibilityTimeout=3,
                  MessageAttributeNames=["Tally.OutboxId"])
    for message in answer.get("Messages", []):
        time.sleep(random.random() * 0.02)  # the work
        ship(database, message)
