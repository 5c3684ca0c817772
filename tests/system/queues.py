"""Queues of a daemon: made, filled and counted in one line each.

    make_queue(daemon, "orders.fifo", VisibilityTimeout="5")   # a FIFO queue, as its name says; the name
    count_messages(daemon, "orders")                           # whatever they are at; 0 where there is no queue
    count_visible(daemon, "orders")                            # what a consumer would get at once
"""


def make_queue(daemon, name, **attributes):
    if name.endswith(".fifo"):
        attributes["FifoQueue"] = "true"
    status, answer = daemon.call("AmazonSQS.CreateQueue", {"QueueName": name, "Attributes": attributes})
    assert status == 200, answer
    return name


def count_messages(daemon, queue):
    status, answer = daemon.call("AmazonSQS.GetQueueAttributes", {"QueueUrl": queue, "AttributeNames": ["All"]})
    if status != 200:
        assert "QueueDoesNotExist" in answer["__type"], answer
        return 0
    return sum(int(answer["Attributes"]["ApproximateNumberOfMessages" + state])
               for state in ("", "NotVisible", "Delayed"))


def count_visible(daemon, queue):
    attributes = (
        daemon.call("AmazonSQS.GetQueueAttributes", {"QueueUrl": queue, "AttributeNames": ["All"]})[1]["Attributes"])
    return int(attributes["ApproximateNumberOfMessages"])
