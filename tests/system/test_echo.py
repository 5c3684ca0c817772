"""Whatever bytes a request has, and wherever a reply repeats them: replies are ASCII heads and bodies that strict
readers take."""

import json
import re
import socket
import urllib.parse
import xml.etree.ElementTree as tree

import pytest
from conftest import PATIENCE, ROOT
from wire import SCALE, some

NAMESPACE = "000000000000"

# Bytes that are no text: alone, cut off, overlong, surrogates, beyond Unicode; and those that are but that XML can't
# have.
NO_TEXT = [b"\xff", b"\x80", b"\xc3", b"\xe2\x82", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
           b"\xff\x80\x80\x80", b"\xf8\x88\x80\x80\x80"]
ODD_TEXT = [b"\x01", b"\x1f", b"\x7f", "\ufffe".encode(), "\uffff".encode(), "\x85".encode(), "😀".encode(), b"]]>",
            b"<&\"'>"]
CREDENTIALS = f"BOSS secret-of-BOSS {NAMESPACE} read,write,admin\n"


def all_actions():
    return re.findall(r'"((?:AmazonSQS|Tally)\.\w+)"', (ROOT / "src/api/actions.c").read_text())


class Reply:
    """Read strictly: anything wrong raises."""

    def __init__(self, line):
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.more(line)
        head, body = data.split(b"\r\n\r\n", 1)
        self.head = head.decode("ascii")
        assert all(" " <= character <= "~" or character in "\r\n" for character in self.head), head
        lines = self.head.split("\r\n")
        assert all(re.fullmatch(r"[\w-]+: \S.*", line) for line in lines[1:]), head
        self.status = int(lines[0].split(" ")[1])
        fields = dict(line.split(": ", 1) for line in lines[1:])
        while len(body) < int(fields["Content-Length"]):
            body += self.more(line)
        self.body = body.decode("utf-8", "strict")
        kind = fields.get("Content-Type", "")
        if kind.startswith("text/xml") or kind.startswith("application/xml"):
            tree.fromstring(body)
        elif "json" in kind and body:
            json.loads(self.body)
        self.is_last = fields.get("Connection") == "close"

    @staticmethod
    def more(line):
        piece = line.recv(65536)
        assert piece, "the daemon closed the connection in the middle"
        return piece


# Of the members of an action. Each is played with some of the bytes, and another one with others.
PARTS = 1 if SCALE >= 1 else 3


def requests(bad, turn):
    """Requests with these bytes at every place that a reply might repeat, each with where it is."""
    escaped = urllib.parse.quote_from_bytes(bad).encode()
    length = b"Content-Length: %d\r\n"

    def http(target=b"/", body=b"", method=b"POST", host=b"localhost", *lines):
        head = b"".join(line + b"\r\n" for line in (b"Host: " + host, *lines))
        return method + b" " + target + b" HTTP/1.1\r\n" + head + length % len(body) + b"\r\n" + body

    def with_line(line, body=b'{"QueueUrl":"q","MessageBody":"a"}', target=b"AmazonSQS.SendMessage"):
        return http(b"/", body, b"POST", b"localhost", b"X-Amz-Target: " + target, line)

    yield "Host", http(b"/", b"Action=CreateQueue&QueueName=q", b"POST", b"a" + bad)
    yield "Host of JSON", http(b"/", b'{"QueueName":"q"}', b"POST", bad + b"a", b"X-Amz-Target: AmazonSQS.CreateQueue")
    yield "authority of the target", http(b"http://a" + bad + b"/", b"Action=ListQueues", b"POST", b"a" + bad)
    yield "method", http(b"/", b"", b"GET" + bad)
    yield "path", http(b"/" + bad, b"Action=GetQueueUrl")
    yield "path, escaped", http(f"/{NAMESPACE}/".encode() + escaped, b"Action=PurgeQueue")
    yield "path of a queue", http(f"/{NAMESPACE}/".encode() + bad, b"Action=SendMessage&MessageBody=a")
    yield "query string", http(b"/?Action=" + bad, b"")
    yield "query string, escaped", http(b"/?Action=" + escaped + b"&" + escaped + b"=a", b"")
    yield "action", http(b"/", b"Action=" + bad)
    yield "action, escaped", http(b"/", b"Action=" + escaped)
    yield "field", http(b"/", b"Action=SendMessage&QueueUrl=q&MessageBody=a&" + bad + b"=b")
    yield "target", with_line(b"X: y", b"{}", b"AmazonSQS." + bad)
    yield "target of our own", with_line(b"X: y", b"{}", b"Tally." + bad)
    yield "trace header", with_line(b"X-Amzn-Trace-Id: Root=" + bad)
    yield "Content-Type", with_line(b"Content-Type: " + bad)
    yield "Expect", with_line(b"Expect: " + bad)
    yield "Origin", with_line(b"Origin: http://" + bad)
    yield "Sec-Fetch-Site", with_line(b"Sec-Fetch-Site: " + bad)
    yield "Transfer-Encoding", http(b"/", b"", b"POST", b"localhost", b"Transfer-Encoding: " + bad)
    yield "name of a header", with_line(bad + b": a")
    for value in (
        bad,
        b"AWS4-HMAC-SHA256 Credential=" + bad
        + b"/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0",
        b"AWS4-HMAC-SHA256 Credential=BOSS/20260101/" + bad + b"/sqs/aws4_request, SignedHeaders=host, Signature=0",
        b"AWS4-HMAC-SHA256 Credential=BOSS/20260101/us-east-1/" + bad
        + b"/aws4_request, SignedHeaders=host, Signature=0",
        b"AWS4-HMAC-SHA256 Credential=BOSS/20260101/us-east-1/sqs/" + bad + b", SignedHeaders=host, Signature=0",
        b"AWS4-HMAC-SHA256 Credential=BOSS/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host;x-amz-target;" + bad
        + b", Signature=0",
        b"AWS4-HMAC-SHA256 Credential=BOSS/20260101/us-east-1/sqs/aws4_request, "
        b"SignedHeaders=host;x-amz-target, Signature=" + bad,
        b"AWS4-HMAC-SHA256 " + bad + b"=a, Credential=BOSS/20260101/us-east-1/sqs/aws4_request",
    ):
        for date in (b"20260101T000000Z", bad):
            yield "Authorization", http(b"/", b"{}", b"POST", b"localhost", b"X-Amz-Target: AmazonSQS.ListQueues",
                                        b"X-Amz-Date: " + date,
                                        b"Authorization: " + value)
    for name in ("Algorithm", "Credential", "Date", "SignedHeaders", "Expires", "Signature", "Security-Token"):
        for text in (bad, escaped):
            yield f"X-Amz-{name}", http(b"/?Action=ListQueues&X-Amz-Algorithm=AWS4-HMAC-SHA256"
                                        b"&X-Amz-Credential=BOSS%2F20260101%2Fus-east-1%2Fsqs%2Faws4_request"
                                        b"&X-Amz-SignedHeaders=host&X-Amz-Signature=0&X-Amz-"
                                        + name.encode() + b"=" + text, b"", b"GET")
    members = ["QueueUrl", "QueueName", "MessageBody", "ReceiptHandle", "BatchId", "Units", "Name", "Cron", "PoolName",
               "RelayName", "TicketId", "TicketIds", "MessageId", "NextToken", "MessageGroupId", "Attributes",
               "AttributeNames", "Entries", "Label", "TaskHandle", "Publisher", "TypeOrderName", "Types", "Tags",
               "TagKeys", "SourceArn", "Source", "Sink", "Rules", "OnComplete", "Tickets", "Filter"]
    for number, target in enumerate(all_actions()):
        for member in members[(number + turn) % PARTS::PARTS]:
            texts = (b'"' + bad + b'"', b'["' + bad + b'"]', b'{"' + bad + b'":"' + bad + b'"}',
                     b'[{"Id":"' + bad + b'","a":"b"}]')
            text = texts[(len(target) + len(member)) % len(texts)]
            yield f"{member} of {target}", with_line(b"X: y", b'{"%s":%s,"QueueUrl":"q"}' % (member.encode(), text),
                target.encode())
        name = target.split(".")[1].encode()
        if target.startswith("AmazonSQS."):
            for field in (b"QueueUrl", b"QueueName", b"ReceiptHandle", b"Attribute.1.Name", b"AttributeName.1",
                          b"Label", b"Tag.1.Key",
                          name + b"RequestEntry.1.Id", b"SourceArn", b"MessageBody", b"MessageAttribute.1.Name",
                          b"VisibilityTimeout"):
                yield f"{field} of {name}", http(b"/",
                    b"Action=%s&%s=%s&Tag.1.Value=%s&Attribute.1.Value=%s" % (name, field, escaped, escaped, escaped))
                yield f"{field} of {name}, raw", http(b"/", b"Action=%s&%s=%s" % (name, field, bad))


def wrong_replies(port, bad, turn):
    wrong, line = [], None
    for where, request in requests(bad, turn):
        if line is None:
            line = socket.create_connection(("127.0.0.1", port), 20 * PATIENCE)
        line.sendall(request)
        try:
            if Reply(line).is_last:
                line.close()
                line = None
        except (AssertionError, UnicodeDecodeError, ValueError, tree.ParseError) as error:
            wrong.append((where, bad, str(error)[:200]))
            line.close()
            line = None
    return wrong


@pytest.mark.parametrize("has_credentials", [False, True])
def test_no_bytes_of_a_request_make_a_reply_that_strict_readers_refuse(daemon_factory, tmp_path, has_credentials):
    options = []
    if has_credentials:
        (tmp_path / "credentials").write_text(CREDENTIALS)
        (tmp_path / "credentials").chmod(0o600)
        options = ["--credentials", tmp_path / "credentials"]
    daemon = daemon_factory(*options).start()
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    wrong = [failure for turn, bad in enumerate(some(NO_TEXT + ODD_TEXT))
             for failure in wrong_replies(daemon.port, bad, turn)]
    assert wrong == []
    assert daemon.stop() == 0
