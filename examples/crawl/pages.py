"""The site, which nobody knows whole: a page names its links, among them many that others name too. And Tally's API,
which is one POST."""

import http.client
import json
import os
import urllib.parse

FAN = 8


def links(page, pages):
    """The pages below this one, the one above it, and the front page."""
    below = [link for link in range(FAN * page + 1, FAN * page + FAN + 1) if link < pages]
    return below + [(page - 1) // FAN, 0] if page > 0 else below


class Refused(Exception):
    """The server's answer is an error; `code` is its name."""

    def __init__(self, action, answer):
        super().__init__(f"{action}: {answer.get('message')}")
        self.code = answer["__type"].split("#")[1]


class Tally:
    """A connection that is kept open."""

    def __init__(self):
        address = urllib.parse.urlsplit(os.environ["TALLY_URL"])
        self.line = http.client.HTTPConnection(address.hostname, address.port, timeout=60)

    def call(self, action, **request):
        headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": action}
        self.line.request("POST", "/", json.dumps(request), headers)
        reply = self.line.getresponse()
        answer = json.loads(reply.read() or b"{}")
        if reply.status != 200:
            raise Refused(action, answer)
        return answer


def visit(queue, batch, page):
    """The message that asks for a page: a unit of the batch, and for ever the same one, whoever sends it."""
    return {
        "QueueUrl": queue,
        "MessageBody": str(page),
        "MessageDeduplicationId": f"{batch}/{page}",
        "MessageAttributes": {"Tally.Batch": {"DataType": "String", "StringValue": batch}},
    }
