"""Writes orders with their messages, some of which are rolled back, while relays and workers are killed; then counts
the shipments."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

from shop import call, connect

CUSTOMERS = 8
ORDERS = 40  # of each customer
SUFFIX = os.environ["TALLY_EXAMPLE_SUFFIX"]
TALLY = os.environ["TALLY"]

path = sys.argv[1]
database = connect(path)
database.executescript(
    subprocess.run([TALLY, "relay", "schema", "--type", "sqlite"], capture_output=True, check=True, text=True).stdout)
# The effect: on purpose without a unique key, so that an order that was shipped twice would be seen.
database.executescript("""
    CREATE TABLE orders (customer INTEGER, number INTEGER, PRIMARY KEY (customer, number));
    CREATE TABLE shipment (id INTEGER PRIMARY KEY, customer INTEGER, number INTEGER);""")
queue = f"shipping{SUFFIX}.fifo"
call("CreateQueue", QueueName=queue, Attributes={"FifoQueue": "true"})


class Process:
    """One that is started again when it is killed."""

    def __init__(self, *command):
        self.command = command
        self.environment = {**os.environ, "TALLY_ENDPOINT": os.environ["TALLY_URL"]}
        self.start()

    def start(self):
        self.state = ""
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True, env=self.environment)
        threading.Thread(target=self.read, args=(self.process,), daemon=True).start()

    def read(self, process):
        for line in process.stdout:
            self.state = line.split(": ", 1)[1]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.start()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def wait_until(claim, what, seconds=90):
    deadline = time.monotonic() + seconds
    while not (value := claim()):
        if time.monotonic() > deadline:
            sys.exit(f"{what} did not happen within {seconds} s")
        time.sleep(0.05)
    return value


def one(statement):
    return database.execute(statement).fetchone()[0]


def take_order(customer, number):
    """The order and its message are committed together, or neither is."""
    database.execute("BEGIN IMMEDIATE")
    database.execute("INSERT INTO orders VALUES (?, ?)", (customer, number))
    database.execute(
        "INSERT INTO tally_outbox (queue, group_id, body) VALUES (?, ?, json_object('customer', ?, 'number', ?))",
        (queue, f"customer-{customer}", customer, number))
    is_good = random.random() < 0.9
    database.execute("COMMIT" if is_good else "ROLLBACK")
    return is_good


relays = [Process(TALLY, "relay", "run", "--source", f"sqlite:{path}", "--sink", "queue", "--lease", "1", "--name",
                  f"relay-{i}")
          for i in (1, 2)]
workers = [Process(sys.executable, "-B", str(pathlib.Path(__file__).with_name("worker.py")), path, queue)
           for _ in range(3)]
active = lambda: next((relay for relay in relays if relay.state.startswith("active")), None)
rolled_back = 0
try:
    for number in range(ORDERS):
        for customer in range(CUSTOMERS):
            rolled_back += not take_order(customer, number)
        time.sleep(0.05)
        if number % 10 == 5:
            wait_until(active, "a relay at work").kill()
            random.choice(workers).kill()
    left = lambda: sum(int(count) for count in call("GetQueueAttributes", QueueUrl=queue, AttributeNames=[
        "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"])["Attributes"].values())
    wait_until(lambda: one("SELECT count(*) FROM tally_outbox") == 0, "an empty outbox")
    wait_until(lambda: left() == 0, "the last shipment")
finally:
    for process in workers + relays:
        process.stop()

orders, shipments = one("SELECT count(*) FROM orders"), one("SELECT count(*) FROM shipment")
shipped = one(
    "SELECT count(*) FROM (SELECT DISTINCT customer, number FROM shipment JOIN orders USING (customer, number))")
late = one("SELECT count(*) FROM (SELECT number < lag(number) OVER (PARTITION BY customer ORDER BY id) AS is_late FROM "
           "shipment) WHERE is_late")
parked = one("SELECT count(*) FROM tally_dead")
print(f"{orders} orders of {CUSTOMERS} customers were committed, {rolled_back} rolled back; "
      f"{ORDERS // 10} times relay and worker were killed.")
print(f"""
in the database   {shipments} shipments of {shipped} orders, {late} out of a customer's order, {parked} rows parked
as it should be   {orders} shipments of {orders} orders, 0 out of a customer's order, 0 rows parked
""")
is_good = shipments == shipped == orders > 0 and late == parked == 0
print("Each committed order shipped once, none that was rolled back." if is_good else "That is WRONG.")
sys.exit(not is_good)
