"""A daemon as a shop in trouble has it: a million messages in 5,000 queues, and on each page of the dashboard something
that needs a person.

    shop = Shop(daemon, clock)                  # a daemon that was started with that clock
    shop.fill(1_000_000, queues=5000)           # as fast as the daemon takes them
    shop.get_into_trouble(), shop.get_hostile(), shop.get_long()
    shop.live_an_hour()                         # or with a few customers, and so with charts that say something
    shop.ids["held"]                            # of messages that tests look at
    shop.close()
"""

import http.server
import itertools
import json
import math
import random
import socket
import threading
import time

from conftest import wait_until
from wire import Connection, request_bytes

KINDS = ["orders", "mails", "invoices", "stock", "search"]
IN_A_CALL = 10
UNANSWERED_MAX = 32  # requests; the daemon takes 64 of a connection
HOSTILE = '<img src=x onerror="document.title=1">'
RIGHT_TO_LEFT = "‮evil‬ שלום <b>\"quoted'</b> &amp;"
ARN = "arn:aws:sqs:us-east-1:000000000000:"


NUMBERS = itertools.count(1)
CUSTOMERS = {"checkout": 9, "receipts": 6, "search-index": 14, "stock.fifo": 4, "invoices": 3, "newsletter": 1}


def long(word, size=80):
    """A name of that size."""
    return (word + "_" + "abcdefghij" * size)[:size]


def send_ten(queue, first=0):
    """A SendMessageBatch as bytes; on a FIFO queue each message has a group of its own."""
    entries = []
    for number in range(first, first + IN_A_CALL):
        body = json.dumps({"sku": 1000 + number % 10, "change": "price"})
        entry = {"Id": str(number - first), "MessageBody": body}
        if queue.endswith(".fifo"):
            entry |= {"MessageGroupId": f"parcel-{number}", "MessageDeduplicationId": str(number)}
        entries.append(entry)
    return request_bytes("AmazonSQS.SendMessageBatch", {"QueueUrl": queue, "Entries": entries})


class Payments(http.server.BaseHTTPRequestHandler):
    """A receiver of web hooks that hangs up before it answers: whether the call took effect, nobody knows."""

    def do_POST(self):  # noqa: N802
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_):
        pass


class Shop:
    def __init__(self, daemon, clock):
        self.daemon = daemon
        self.clock = clock
        self.ids = {}
        self.called_at = 0
        self.chance = random.Random(17)
        self.is_closed = threading.Event()
        self.connection = Connection(daemon.port)
        self.payments = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Payments)
        self.payments.daemon_threads = True
        threading.Thread(target=self.payments.serve_forever, daemon=True).start()

    def close(self):
        self.is_closed.set()
        self.payments.shutdown()
        self.payments.server_close()
        self.connection.close()

    def _become(self, seconds):
        """So far from the machine's clock; time goes forward only."""
        if seconds > self.clock.seconds:
            self.connection.close()  # else the daemon closes it, which has heard nothing for so long
            self.clock.spend(seconds - self.clock.seconds)

    # --- calls --------------------------------------------------------------------------------------------------------

    def call(self, target, **members):
        if time.monotonic() > self.called_at + 20:
            self.connection.close()  # before the daemon does, which has heard nothing for so long
        self.called_at = time.monotonic()
        answer = self.connection.call(target, members)
        assert answer.status == 200, (target, members, answer.body)
        return answer.json()

    def create(self, name, dead=None, **attributes):
        if dead:
            attributes["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": ARN + dead, "maxReceiveCount": 3})
        if name.endswith(".fifo"):
            attributes["FifoQueue"] = "true"
        self.call("AmazonSQS.CreateQueue", QueueName=name, Attributes=attributes)

    def send(self, queue, body, attributes=None, **members):
        body = body if isinstance(body, str) else json.dumps(body)
        attributes = {name: {"DataType": "String", "StringValue": value} for name, value in (attributes or {}).items()}
        if queue.endswith(".fifo"):
            members.setdefault("MessageDeduplicationId", f"{queue}-{body}"[:128].replace(" ", "_"))
        return self.call("AmazonSQS.SendMessage", QueueUrl=queue, MessageBody=body, MessageAttributes=attributes,
                         **members)["MessageId"]

    def receive(self, queue, count=1, worker=None, **members):
        """As a worker of that name does."""
        data = json.dumps({"QueueUrl": queue, "MaxNumberOfMessages": count, **members})
        headers = {"X-Amz-Target": "AmazonSQS.ReceiveMessage"}
        if worker:
            headers["X-Tally-Worker"] = worker
        status, _, body = self.daemon.request("POST", "/", data, headers)
        assert status == 200, body
        return json.loads(body).get("Messages", [])

    def fail(self, queue, reason, count=1, worker=None):
        for message in self.receive(queue, count, worker):
            self.call("Tally.FailMessage", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], Reason=reason,
                      Final=True)

    # --- very many ----------------------------------------------------------------------------------------------------

    def _write_all(self, requests):
        """Many requests at once over one connection; each must be answered with 200."""
        written = answered = 0
        requests = list(requests)
        while answered < len(requests):
            piece = requests[written : answered + UNANSWERED_MAX]
            self.connection.write(b"".join(piece))
            written += len(piece)
            while answered < written - UNANSWERED_MAX // 2 or (written == len(requests) and answered < written):
                answer = self.connection.answer()
                assert answer.status == 200, answer.body
                answered += 1

    def fill(self, messages, queues):
        """Half of the messages stand in one queue, a fiftieth in groups of a FIFO queue, the others all over."""
        names = [f"shop{i // len(KINDS):04}-{KINDS[i % len(KINDS)]}" for i in range(queues)]
        self._write_all(request_bytes("AmazonSQS.CreateQueue", {"QueueName": name}) for name in [*names, "events"])
        self.create("shipments.fifo", **{"Tally.OnGroupFailure": "hold"})
        calls = messages // IN_A_CALL
        grouped = calls // 50
        each = max(1, (calls // 2 - grouped) // queues)
        sends = [send_ten(name) for name in names]
        self._write_all(request for request in sends for _ in range(each))
        self._write_all([send_ten("events")] * (calls - grouped - each * queues))
        self._write_all(send_ten("shipments.fifo", call * IN_A_CALL) for call in range(grouped))
        self.send("shipments.fifo", {}, {"Tally.Priority": "9"}, MessageGroupId="parcel-lost")
        self.fail("shipments.fifo", "no such address", 1, "parcel-3")

    def live_an_hour(self):
        """What customers and workers do, in steps of five seconds; meanwhile things go wrong."""
        troubles = self._troubles()
        for name in CUSTOMERS:
            self.create(name)
        for seconds in range(3600, 0, -5):
            self._become(-seconds)
            while troubles and troubles[0][0] >= seconds:
                troubles.pop(0)[1]()
            if seconds == 90:
                self._have_messages()
            self.live(seconds)
        self._become(0)
        self._doubt()

    def live(self, seconds=0):
        """Five seconds of customers and workers. Those of receipts rest for a while, half an hour ago and now."""
        wave = 1.2 + math.sin(seconds / 300) + 0.4 * math.sin(seconds / 35)
        for name, usual in CUSTOMERS.items():
            self._sell(name, max(0, round(usual * wave * self.chance.uniform(0.6, 1.4) / 2)))
            if name != "receipts" or 20 < seconds < 1500 or seconds > 1900:
                self._work(name)

    def live_on(self):
        """As it was, until close()."""
        other = Shop(self.daemon, self.clock)

        def run():
            while not self.is_closed.wait(5):
                other.live()
            other.close()

        threading.Thread(target=run, daemon=True).start()

    def _sell(self, name, count):
        entries = [{"Id": str(i), "MessageBody": json.dumps({"order": 40000 + i})} for i in range(min(10, count))]
        if name.endswith(".fifo"):
            for entry in entries:
                entry |= {"MessageGroupId": f"sku-{self.chance.randrange(900)}",
                          "MessageDeduplicationId": str(next(NUMBERS))}
        if entries:
            self.call("AmazonSQS.SendMessageBatch", QueueUrl=name, Entries=entries)

    def _work(self, name):
        taken = self.call("AmazonSQS.ReceiveMessage", QueueUrl=name, MaxNumberOfMessages=10).get("Messages", [])
        if taken and name == "receipts" and self.chance.random() < 0.1:
            self.call("Tally.FailMessage", QueueUrl=name, ReceiptHandle=taken.pop()["ReceiptHandle"],
                      Reason="421 try again later")
        if taken:
            self.call("AmazonSQS.DeleteMessageBatch", QueueUrl=name, Entries=[
                {"Id": str(i), "ReceiptHandle": one["ReceiptHandle"]} for i, one in enumerate(taken)])

    # --- what is wrong ------------------------------------------------------------------------------------------------

    def get_into_trouble(self):
        """On each page something that needs a person; the oldest began an hour ago."""
        self._become(-3600)
        for seconds, go_wrong in self._troubles():
            self._become(-seconds)
            go_wrong()
        self._become(-90)
        self._have_messages()
        self._become(0)
        self._doubt()  # behind the last jump of the clock, which a call that is under way would take for a timeout

    def _troubles(self):
        """When, in seconds before now, and what."""
        return [(54 * 60, self._hold_orders), (41 * 60, self._stop_resizing), (41 * 60, self._open_batches),
                (20 * 60, self._block_a_relay), (20 * 60, self._match), (10 * 60, self._fail_mails),
                (10 * 60, self._schedule)]

    def _have_messages(self):
        """Workers have some, for an hour."""
        self.ids["delayed"] = self.send("reports", {"report": "later"}, DelaySeconds=900)
        self.receive("resize", 1, "image-7", VisibilityTimeout=3600)
        self.receive("orders.fifo", 1, "pay-7", VisibilityTimeout=3600)
        self.create("exports")
        self.create("invoices")
        self.call("Tally.CreateBatch", BatchId="invoices-11", Total=2)
        self.call("Tally.AddUnits", BatchId="invoices-11", Units=["head"])
        self.call("Tally.CompleteUnits", BatchId="invoices-11", Units=[{"Unit": "head"}])
        self.ids["long"] = self.send("exports", {"export": "november"}, {"Tally.Batch": "invoices-11"})
        self.ids["last"] = self.send("invoices", {"invoices": 11}, {"Tally.After": "batch:invoices-11"})
        self.receive("exports", 1, "export-2", VisibilityTimeout=43200)

    def _hold_orders(self):
        """Order 17 stands in a group that is held; and the same order is in three other kinds of trouble."""
        self.create("orders-failed.fifo")
        self.create("orders.fifo", "orders-failed.fifo", **{"Tally.OnGroupFailure": "hold"})
        for number in range(14, 31):
            order = {"order": number, "customer": "customer-17", "amount": {"currency": "EUR", "cents": 4210 + number}}
            sent = self.send("orders.fifo", order, {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-01"},
                             MessageGroupId="customer-17", MessageDeduplicationId=f"order-{number}")
            if number == 17:
                self.ids["held"] = sent
            elif number == 14:
                self.ids["head"] = sent
        self.send("orders.fifo", {"order": 3}, MessageGroupId="customer-9")
        for message in self.receive("orders.fifo", 1, "pay-2"):
            self.call("Tally.FailMessage", QueueUrl="orders.fifo", ReceiptHandle=message["ReceiptHandle"],
                      Reason="card declined", Final=True)
        self.create("reports")
        self.create("thumbnails")
        self.ids["blocked"] = self.send("reports", {"report": "orders of the day"},
                                        {"Tally.After": f"message:{self.ids['held']}"})
        self.ids["paused"] = self.send("thumbnails", {"image": "IMG_2041.jpg"})
        self.call("Tally.PauseQueue", QueueUrl="thumbnails")

    def _stop_resizing(self):
        self.create("resize")
        for number in range(9):
            self.send("resize", {"image": f"IMG_{2050 + number}.jpg", "widths": [320, 640, 1280]})

    def _open_batches(self):
        self.call("Tally.CreateBatch", BatchId="night-42", Total=6, OnComplete={"QueueUrl": "reports"})
        self.call("Tally.AddUnits", BatchId="night-42", Units=["eu", "us", "asia"])
        self.ids["unit"] = self.send("resize", {"image": "IMG_2099.jpg"}, {"Tally.Batch": "night-42"})
        self.call("Tally.CreateBatch", BatchId="night-42-mails", Total=40, Parent="night-42")
        self.call("Tally.AddUnits", BatchId="night-42-mails", Count=40)
        self.call("Tally.CompleteUnits", BatchId="night-42-mails", Units=[{"Unit": str(i)} for i in range(31)])
        self.call("Tally.CompleteUnits", BatchId="night-42",
                  Units=[{"Unit": "eu"}, {"Unit": "us", "Status": "failed", "Detail": "exit status 3"}])
        self.call("Tally.CreateBatch", BatchId="night-41", Total=5)
        self.call("Tally.AddUnits", BatchId="night-41", Count=5)
        self.call("Tally.CompleteUnits", BatchId="night-41", Units=[{"Unit": str(i)} for i in range(5)])

    def _block_a_relay(self):
        self._relay("billing-hook", "http://127.0.0.1:9/hooks")
        wait_until(lambda: self.call("Tally.DescribeRelay", RelayName="billing-hook")["State"] == "blocked",
                   what="a blocked relay")

    def _doubt(self):
        """What a receiver that hangs up leaves."""
        self._relay("payments", f"http://127.0.0.1:{self.payments.server_port}/paid", Mode="at-most-once")
        wait_until(lambda: len(self.call("Tally.ListDoubts", RelayName="payments")["Doubts"]) == 3, what="three doubts")

    def _relay(self, name, url, **sink):
        self.create(f"{name}-out")
        for number in range(3):
            self.send(f"{name}-out", {"invoice": 7001 + number})
        self.call("Tally.CreateRelay", RelayName=name, Source={"Type": "queue", "QueueUrl": f"{name}-out"},
                  Sink={"Type": "http", "Url": url, **sink})

    def _match(self):
        self.create("tours")
        self.call("Tally.CreatePool", PoolName="couriers", ResultQueueUrl="tours",
                  Attributes={"kind": "str", "zone": "str", "km": "num"},
                  Rules=[{"type": "differ", "attr": "kind"}, {"type": "equal", "attr": "zone"},
                         {"type": "near", "attr": "km", "max": 5}])
        tickets = [("ada", "courier", "north", 2), ("parcel-881", "parcel", "south", 3),
                   ("parcel-882", "parcel", "south", 9)]
        self.call("Tally.OfferTickets", PoolName="couriers", Tickets=[
            {"TicketId": name, "Attributes": {"kind": kind, "zone": zone, "km": km}}
            for name, kind, zone, km in tickets])

    def _fail_mails(self):
        self.create("mails-failed")
        self.create("mails", "mails-failed")
        for number in range(12):
            self.send("mails", {"to": f"customer-{number}@example.com", "template": "receipt"})
        self.fail("mails", "550 mailbox unavailable", 10, "mail-1")
        self.fail("mails", "connection reset by peer", 1, "mail-2")
        self.fail("mails", "550 mailbox unavailable", 1, "mail-1")

    def fail_one_more(self):
        self.send("mails", {"to": "one-more@example.com"})
        self.fail("mails", "550 mailbox unavailable", 1, "mail-1")

    def _schedule(self):
        nightly = {"TimeZone": "Europe/Berlin", "QueueUrl": "reports", "MessageBody": "{}"}
        self.call("Tally.PutSchedule", Name="nightly-report", Cron="0 3 * * *", **nightly)
        self.create("stock-checks")
        often = {**nightly, "QueueUrl": "stock-checks"}
        self.call("Tally.PutSchedule", Name="stock-check", Cron="*/2 * * * *", **often)
        self.call("Tally.PutSchedule", Name="newsletter", Cron="0 9 * * 1", **nightly, CatchUp="none")
        self.call("Tally.PauseSchedule", Name="newsletter")

    def get_hostile(self):
        """Names and bodies that want to be markup, or to turn the page round."""
        self.create("hostile-failed")
        self.create("hostile", "hostile-failed")
        self.ids["huge"] = self.send("hostile", {"text": "x" * 1_000_000}, {"huge": RIGHT_TO_LEFT})
        self.ids["deep"] = self.send("hostile", "[" * 5000 + "1" + "]" * 5000)
        self.ids["exact"] = self.send(
            "hostile", '{"number": 12345678901234567890, "list": [1, {"a": "b"}], "markup": "<img>"}')
        self.ids["crlf"] = self.send("hostile", "one\r\ntwo\r\n")
        self.ids["mixed"] = self.send("hostile", "one\r\ntwo\n")
        self.call("Tally.PauseQueue", QueueUrl="hostile")
        self.call("Tally.CreateBatch", BatchId='<b>"x"\'&amp;', Total=3)
        self.create("hostile.fifo", **{"Tally.OnGroupFailure": "hold"})
        self.ids["markup"] = self.send("hostile.fifo", HOSTILE, {"a.b": HOSTILE, "rtl": RIGHT_TO_LEFT},
                                       MessageGroupId='<img/onerror=">', MessageDeduplicationId="\"'><script>")
        self.fail("hostile.fifo", HOSTILE + RIGHT_TO_LEFT)
        self.call("Tally.OfferTickets", PoolName="couriers", Tickets=[
            {"TicketId": '<b>"bob', "Attributes": {"kind": "courier", "zone": HOSTILE, "km": 1}}])

    def get_long(self):
        """Names as long as they may be, in which no line can be broken; and large numbers."""
        self.ids |= {"longQueue": long("queue", 75) + ".fifo", "longDead": long("dead"), "longPool": long("pool"),
                     "longGroup": long("group", 128), "longBatch": long("batch", 128),
                     "longTicket": long("ticket", 128), "longRelay": long("relay", 73)}
        self.create(long("dead"))
        self.create(long("source"), long("dead"))
        self.send(long("source"), long("failed", 3000))
        self.fail(long("source"), long("reason", 1000), 1, long("worker", 128))
        self._open_long_batches()
        self._hold_long()
        self.call("Tally.PutSchedule", Name=long("schedule"), QueueUrl=long("source"), MessageBody="{}",
                  Cron="1,2,3,4,5,6,7,8,9,10,11,12,13,14,15 0 1 1 *", TimeZone="America/Argentina/ComodRivadavia")
        self.call("Tally.CreatePool", PoolName=long("pool"), ResultQueueUrl="tours", Attributes={
            long("attribute"): "str"}, Rules=[{"type": "equal", "attr": long("attribute")}])
        self.call("Tally.OfferTickets", PoolName=long("pool"), Tickets=[
            {"TicketId": long("ticket", 128), "Attributes": {long("attribute"): long("value", 200)}},
            {"TicketId": long("other", 128), "Attributes": {long("attribute"): "another"}}])
        self._doubt_long()

    def _open_long_batches(self):
        batch = self.ids["longBatch"]
        self.call("Tally.CreateBatch", BatchId=long("all", 128), Total=100_000_000)
        self.call("Tally.CreateBatch", BatchId=batch, Total=100_000_000, Parent=long("all", 128),
                  OnComplete={"QueueUrl": long("source")})
        self.call("Tally.AddUnits", BatchId=batch, Units=[long("unit", 128), long("failed", 128)])
        self.call("Tally.CompleteUnits", BatchId=batch, Units=[
            {"Unit": long("failed", 128), "Status": "failed", "Detail": long("detail", 900)}])

    def _hold_long(self):
        queue, batch = self.ids["longQueue"], self.ids["longBatch"]
        self.create(queue, **{"Tally.OnGroupFailure": "hold"})
        attributes = {long("attribute"): long("value", 900), "Tally.Batch": batch}
        for word in ("first", "second"):
            self.ids["longHeld"] = self.send(queue, long(word, 3000), attributes, MessageGroupId=long("group", 128),
                                             MessageDeduplicationId=long(word, 128))
        self.send(queue, {long("key", 200): {long("key", 200): [long("value", 3000), 12345678901234567890]}},
                  {"Tally.After": f"batch:{batch}"}, MessageGroupId=long("after", 128))
        self.fail(queue, long("reason", 1000), 1, long("worker", 128))
        self.send(queue, long("third"), MessageGroupId=long("other", 128))
        self.receive(queue, 1, long("worker", 128), VisibilityTimeout=3600)

    def _doubt_long(self):
        queue, relay = long("out", 75) + ".fifo", self.ids["longRelay"]
        self.create(queue)
        for number in range(3):
            self.send(queue, long("row", 300), MessageGroupId=long(f"group{number}", 128),
                      MessageDeduplicationId=long(f"row{number}", 128))
        address = f"http://127.0.0.1:{self.payments.server_port}/{long('paid', 300)}"
        self.call("Tally.CreateRelay", RelayName=relay, Source={"Type": "queue", "QueueUrl": queue},
                  Sink={"Type": "http", "Url": address, "Mode": "at-most-once"})
        wait_until(lambda: len(self.call("Tally.ListDoubts", RelayName=relay)["Doubts"]) == 3, what="three doubts")
