"""The Celery application of test_clients_celery.py: its tasks, its worker's settings, and the program that sends them.

    python3 -m celery -A celery_tasks worker …
    python3 celery_tasks.py FIRST COUNT             sends the tasks FIRST to FIRST + COUNT - 1

BROKER    sqs://KEY:SECRET@HOST:PORT//, what a Celery project sets as broker_url
QUEUES    a JSON object of name and URL: kombu's predefined_queues; empty: it creates its queues
SECURE    set: HTTPS
EFFECTS   a folder; each task that runs adds a line to a file there
"""

import json
import os
import pathlib
import sys

from celery import Celery

VISIBILITY_SECONDS = 15
QUEUES = json.loads(os.environ.get("QUEUES") or "{}")

app = Celery("tasks", broker=os.environ["BROKER"])
app.conf.update(
    broker_transport_options={
        "region": "us-east-1",
        "is_secure": "SECURE" in os.environ,
        "visibility_timeout": VISIBILITY_SECONDS,
        "wait_time_seconds": 5,
        "queue_name_prefix": "" if QUEUES else "shop-",
        "predefined_queues": {
            name: {"url": url, "access_key_id": "any", "secret_access_key": "thing"} for name, url in QUEUES.items()
        },
    },
    broker_connection_max_retries=None,
    task_default_queue="default",
    task_routes={"early": {"queue": "early"}, "late": {"queue": "late"}, "later": {"queue": "late"}},
    task_ignore_result=True,
    worker_enable_remote_control=False,  # kombu has no fanout over SQS
    worker_prefetch_multiplier=4,
)


def record(kind, number):
    """The task's effect: one line, by one write."""
    path = pathlib.Path(os.environ["EFFECTS"]) / str(os.getpid())
    with open(path, "ab", buffering=0) as effects:
        effects.write(f"{kind} {number}\n".encode())


@app.task(name="early", acks_late=False)
def early(number):
    """Deleted from its queue when it begins."""
    record("early", number)


@app.task(name="late", acks_late=True)
def late(number):
    """Deleted from its queue when it has ended."""
    record("late", number)


@app.task(name="later", acks_late=True)
def later(number):
    """The same, and sent with a countdown."""
    record("later", number)


@app.task(name="forward", acks_late=True)
def forward(number, here, there):
    """Sends a message on as it came, with the client of SQS that kombu uses."""
    with app.connection_for_read() as connection:
        sqs = connection.default_channel.sqs()
        (message,) = sqs.receive_message(QueueUrl=here, MessageAttributeNames=["All"], WaitTimeSeconds=5)["Messages"]
        sqs.send_message(QueueUrl=there, MessageBody=message["Body"], MessageAttributes=message["MessageAttributes"])
        sqs.delete_message(QueueUrl=here, ReceiptHandle=message["ReceiptHandle"])
    record("forward", number)


def send(number):
    """Every hundredth task is due in three seconds; of the others, every third is acknowledged early. If there is a
    FIFO queue, every seventh goes there."""
    if "line.fifo" in QUEUES and number % 7 == 0:
        late.apply_async((number,), queue="line.fifo", MessageGroupId=f"customer-{number % 4}")
    elif number % 100 == 0:
        later.apply_async((number,), countdown=3)
    elif number % 3 == 0:
        early.delay(number)
    else:
        late.delay(number)


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    for each in range(first, first + count):
        send(each)
