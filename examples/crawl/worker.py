"""Takes pages, finds their links, and lets these join the batch before its pages end. It may be killed at any
moment."""

import sys

from pages import Refused, Tally, links, visit

SENDS_MAX = 10  # of one Commit


def crawl(tally, queue, batch, pages):
    reply = tally.call("AmazonSQS.ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=5,
                       VisibilityTimeout=5)
    taken = reply.get("Messages", [])
    if not taken:
        return
    held = [{"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"]} for message in taken]
    found = sorted({link for message in taken for link in links(int(message["Body"]), pages)})
    # More links than a Commit takes: the first ones join while the pages are held, the last ones as the pages end.
    while len(found) > SENDS_MAX:
        part, found = found[:SENDS_MAX], found[SENDS_MAX:]
        tally.call("Tally.Commit", Holds=held, Sends=[visit(queue, batch, page) for page in part])
    tally.call("Tally.Commit", Deletes=held, Sends=[visit(queue, batch, page) for page in found])


def main(queue, batch, pages):
    tally = Tally()
    while True:
        try:
            crawl(tally, queue, batch, pages)
        except Refused as refusal:
            # Another worker has one of the pages by now: nothing was done, and they come again.
            if refusal.code != "ReceiptHandleIsInvalid":
                raise


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
