"""What the examples about pools share: Tally's API, which is one POST, and the drawing of a picture. Python's standard
library."""

import json
import os
import time
import urllib.error
import urllib.request

SUFFIX = os.environ.get("TALLY_EXAMPLE_SUFFIX", "")


def post(target, **request):
    headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": target}
    question = urllib.request.Request(os.environ["TALLY_URL"], json.dumps(request).encode(), headers)
    try:
        with urllib.request.urlopen(question, timeout=60) as reply:
            return json.loads(reply.read() or b"{}")
    except urllib.error.HTTPError as refusal:
        raise SystemExit(f"{target}: {json.load(refusal).get('message')}") from None


def tally(action, **request):
    return post(f"Tally.{action}", **request)


def sqs(action, **request):
    return post(f"AmazonSQS.{action}", **request)


class Pool:
    """A pool with a result queue of its own."""

    def __init__(self, name, **rules):
        self.name = name + SUFFIX
        self.queue = sqs("CreateQueue", QueueName=f"{self.name}-matches")["QueueUrl"]
        tally("CreatePool", PoolName=self.name, ResultQueueUrl=self.queue, **rules)

    def call(self, action, **request):
        return tally(action, PoolName=self.name, **request)

    def offer(self, *tickets):
        return self.call("OfferTickets", Tickets=list(tickets))["Results"]

    def counts(self):
        return self.call("DescribePool")["Tickets"]

    def wait_until_quiet(self):
        """Until the matcher has nobody left to look for partners for."""
        deadline = time.monotonic() + 60
        while self.call("DescribePool")["Seeds"]:
            if time.monotonic() > deadline:
                raise TimeoutError("the matcher is still busy")
            time.sleep(0.01)

    def matches(self, wait=0):
        """Receives and deletes what is in the result queue: any SQS client can."""
        found = []
        while messages := sqs("ReceiveMessage", QueueUrl=self.queue, MaxNumberOfMessages=10,
                              WaitTimeSeconds=wait).get("Messages"):
            found += [json.loads(message["Body"]) for message in messages]
            sqs("DeleteMessageBatch", QueueUrl=self.queue, Entries=[
                {"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]} for at, message in enumerate(messages)])
            wait = 0
        return found


class Picture:
    """An SVG file of the few shapes that these examples need. It has a light and a dark theme, as the reader's
    browser wants it."""

    DARK = {"#fff": "#161b22", "#f7f7f4": "#1c2128", "#222": "#e6edf3", "#888": "#8b949e", "#bbb": "#57606a",
            "#ccc": "#444c56", "#ddd": "#373e47", "#e6e6e0": "#2d333b"}
    DARK_LINES = {"#1e8449": "#5fd389", "#2471a3": "#6cb6ff", "#b9770e": "#e8b93e", "#c0392b": "#ff8a80"}
    STYLE = (
        "text{font:14px sans-serif;fill:#222}.small{font-size:12px;fill:#555}.title{font-size:17px;font-weight:bold}\n"
        "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#a3adb8}\n"
        + "".join(f'[fill="{light}"]{{fill:{dark}}}[stroke="{light}"]{{stroke:{dark}}}' for light, dark in DARK.items())
        + "\n" + "".join(f'[stroke="{light}"]{{stroke:{dark}}}' for light, dark in DARK_LINES.items()) + "}")

    def __init__(self, width, height):
        self.size = width, height
        self.parts = []

    def add(self, name, content="", **attributes):
        words = "".join(f' {key.rstrip("_").replace("_", "-")}="{value}"' for key, value in attributes.items())
        self.parts.append(f"<{name}{words}>{content}</{name}>" if content != "" else f"<{name}{words}/>")

    def text(self, x, y, content, kind="", anchor="start"):
        self.add("text", str(content).replace("&", "&amp;").replace("<", "&lt;"), x=x, y=y, class_=kind,
                 text_anchor=anchor)

    def line(self, x1, y1, x2, y2, color, width=2, **more):
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=color, stroke_width=width, **more)

    def circle(self, x, y, radius, fill, **more):
        self.add("circle", cx=x, cy=y, r=radius, fill=fill, **more)

    def save(self, path):
        width, height = self.size
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                       f'height="{height}">\n'
                       f"<style>{self.STYLE}</style>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n")
            file.write("\n".join(self.parts) + "\n</svg>\n")
