#!/usr/bin/env python3
"""A job of many messages, worked on by four threads, and its report, which comes once, after the last message.

    batch.py [COUNT]                TALLY_ENDPOINT says where the server is"""

import json
import sys
import uuid

import tally

count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
job = f"squares-{uuid.uuid4().hex[:8]}"
client = tally.client()
numbers, reports = f"{job}-numbers", f"{job}-reports"
for queue in (numbers, reports):
    client.sqs.create_queue(QueueName=queue)

with tally.batch(client, job, on_complete=reports, expires_after=3600) as batch:
    batch.send_all(numbers, (str(number) for number in range(count)))

squares = []
worker = tally.Worker(numbers, lambda message: squares.append(int(message.body) ** 2), client=client, concurrency=4,
                      until_empty=True)
worker.run()


def report(message):
    told = json.loads(message.body)
    print(f"{told['status']}: {told['succeeded']} of {told['total']}, the sum of their squares is {sum(squares)}")


tally.Worker(reports, report, client=client, until_empty=True).run()
for queue in (numbers, reports):
    client.sqs.delete_queue(QueueUrl=queue)
