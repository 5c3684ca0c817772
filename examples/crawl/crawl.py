"""Crawls a site from its front page, with workers that are killed, and waits for the one completion message."""

import json
import os
import pathlib
import random
import subprocess
import sys
import time

from pages import Tally, visit

WORKERS = 4
SECONDS_MAX = 900
page_count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
suffix = os.environ.get("TALLY_EXAMPLE_SUFFIX", "")
batch = f"crawl-{time.time_ns()}"
tally = Tally()


def create_queue(name, **attributes):
    return tally.call("AmazonSQS.CreateQueue", QueueName=name + suffix, Attributes=attributes)["QueueUrl"]


def take(queue, wait):
    """Receives and deletes what is there."""
    messages = tally.call("AmazonSQS.ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=wait).get("Messages", [])
    for message in messages:
        tally.call("AmazonSQS.DeleteMessage", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return [json.loads(message["Body"]) for message in messages]


def start_worker():
    script = pathlib.Path(__file__).with_name("worker.py")
    return subprocess.Popen([sys.executable, "-B", script, queue, batch, str(page_count)])


# A page that is found again, by whomever, is the same message: the queue knows its id for ever.
queue = create_queue("pages", **{"Tally.DeduplicationWindow": "-1"})
done = create_queue("crawled")
# One unit is known. With it the batch is sealed: from then on only its own units let others join.
tally.call("Tally.CreateBatch", BatchId=batch, Total=1, OnComplete={"QueueUrl": done})
tally.call("AmazonSQS.SendMessage", **visit(queue, batch, 0))
print(f"One page of {page_count:,} is known, and its batch is sealed.", flush=True)

workers = [start_worker() for _ in range(WORKERS)]
completions, killed, failed, told, start = [], 0, 0, 0, time.monotonic()
try:
    while not completions and time.monotonic() - start < SECONDS_MAX:
        completions += take(done, 1)
        victim = random.randrange(WORKERS)
        failed += workers[victim].poll() is not None  # by itself: that is a fault
        workers[victim].kill()
        workers[victim].wait()
        killed += 1
        workers[victim] = start_worker()
        counts = tally.call("Tally.DescribeBatch", BatchId=batch)
        if time.monotonic() - start > told:
            print(f"  {counts['Total']:,} pages are known, {counts['Succeeded']:,} have been crawled", flush=True)
            told = time.monotonic() - start + 3
    completions += take(done, 2)  # a second one would be delivered now
finally:
    for worker in workers:
        worker.kill()
        worker.wait()

counts = tally.call("Tally.DescribeBatch", BatchId=batch)
print(f"\n{killed} workers were killed, in {time.monotonic() - start:.0f} s.")
print(f"The batch has {counts['Total']:,} units, of which {counts['Succeeded']:,} succeeded, and is {counts['State']}.")
print(f"Completion messages: {len(completions)}")
is_good = (len(completions) == 1 and failed == 0
           and counts["Total"] == counts["Succeeded"] == completions[0]["total"] == page_count)
print("It grew from one, and completed once." if is_good else "That is WRONG.")
sys.exit(0 if is_good else 1)
