"""How clients find the server: by ElasticMQ's settings, by AWS's own host names, under several names, through a
proxy."""

import http.client
import json
import os
import shutil
import subprocess
import urllib.parse

import pytest
from clients import needs, run_node
from conftest import clean_environment, free_port, wait_until

boto3 = pytest.importorskip("boto3")
from botocore.config import Config  # noqa: E402
from botocore.exceptions import ClientError  # noqa: E402

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


@pytest.fixture(autouse=True)
def no_settings_of_the_user(tmp_path, monkeypatch):
    for name in ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"]:
        monkeypatch.setenv(name, str(tmp_path / "none"))


def client(endpoint, region="us-east-1", **more):
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
    return boto3.client("sqs", endpoint_url=endpoint, region_name=region, **keys, **more)


def passes_a_message(sqs, url):
    sent = sqs.send_message(QueueUrl=url, MessageBody="hello")["MessageId"]
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return message["MessageId"] == sent


def test_q10_q12_a_program_that_was_set_up_for_elasticmq(daemon):
    """Endpoint, region and keys of ElasticMQ's README, and the queue URLs that its versions gave out."""
    endpoint = f"http://localhost:{daemon.port}"
    keys = {"aws_secret_access_key": "x", "aws_access_key_id": "x"}
    sqs = boto3.resource("sqs", endpoint_url=endpoint, region_name="elasticmq", use_ssl=False, **keys)
    made = sqs.create_queue(QueueName="queue1", Attributes={"VisibilityTimeout": "10"})
    assert made.url == f"{endpoint}/000000000000/queue1"
    queue = sqs.get_queue_by_name(QueueName="queue1")
    for url in [
        queue.url,
        f"http://localhost:{daemon.port}/queue/queue1",
        f"http://localhost:{daemon.port}/000000000000/queue1",
        f"http://localhost:{daemon.port}/queue/elasticmq/000000000000/queue1",
        "https://sqs.eu-central-1.amazonaws.com/000000000000/queue1",
        "queue1",
    ]:
        assert passes_a_message(sqs.meta.client, url), url
    queue.send_message(MessageBody="left", MessageAttributes={"a": {"DataType": "String", "StringValue": "b"}})
    (message,) = queue.receive_messages(MessageAttributeNames=["All"], WaitTimeSeconds=1)
    assert message.body == "left" and message.message_attributes["a"]["StringValue"] == "b"
    message.delete()
    for url in ["http://nowhere", f"{endpoint}/111111111111/queue1", f"{endpoint}/000000000000/Queue1", "nothing", "/"]:
        with pytest.raises(ClientError) as caught:
            sqs.meta.client.send_message(QueueUrl=url, MessageBody="lost")
        assert caught.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue", url


@pytest.mark.parametrize("host",
                         ["sqs.eu-west-1.amazonaws.com", "eu-west-1.queue.amazonaws.com", "queue.amazonaws.com"])
def test_q11_host_names_of_aws(daemon_factory, host):
    """A client that believes it speaks to AWS and has Tally for its HTTP proxy: absolute request targets, AWS's
    Host."""
    daemon = daemon_factory("--allow-host", host).start()
    sqs = client(f"http://{host}", "eu-west-1", config=Config(proxies={"http": daemon.endpoint}))
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    assert url == f"http://{host}/000000000000/q"
    assert passes_a_message(sqs, url)


def test_q11_each_client_gets_a_url_that_it_can_use(daemon):
    for host in ["127.0.0.1", "localhost"]:
        endpoint = f"http://{host}:{daemon.port}"
        sqs = client(endpoint, "moon-east-9")
        assert sqs.create_queue(QueueName="q")["QueueUrl"] == f"{endpoint}/000000000000/q"
        assert sqs.get_queue_url(QueueName="q")["QueueUrl"] == f"{endpoint}/000000000000/q"
        assert sqs.list_queues()["QueueUrls"] == [f"{endpoint}/000000000000/q"]


def test_q1_q10_q14_requests_on_paths_and_errors_between_good_ones_on_one_connection(daemon):
    """JSON by POST on a queue's URL with its header in lower case, as the SDKs for PHP and Ruby write it."""
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port)

    def ask(body, path="/000000000000/q", method="POST", **headers):
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()

    send = {"x_amz_target": "AmazonSQS.SendMessage", "content_type": "application/x-amz-json-1.0"}
    for _ in range(40):
        status, kind, body = ask(json.dumps({"QueueUrl": "q", "MessageBody": "a"}), **send)
        assert (status, kind) == (200, "application/x-amz-json-1.0") and json.loads(body)["MD5OfMessageBody"]
        status, kind, body = ask(json.dumps({"QueueUrl": "q"}), **send)
        assert (status, kind) == (400, "application/x-amz-json-1.0") and "MissingRequiredParameter" in body
        form = {"content_type": "application/x-www-form-urlencoded; charset=utf-8"}
        status, kind, body = ask("Action=SendMessage&MessageBody=b", **form)
        assert (status, kind) == (200, "text/xml") and "<MD5OfMessageBody>" in body
        status, kind, body = ask("Action=CreateQueue&QueueName=q", **form)
        assert status == 400 and "<Code>InvalidAction</Code>" in body
        status, kind, body = ask("", method="GET")
        assert status == 404 and body.startswith("<UnknownOperationException/>")
    # this one and the daemon.call()
    assert "tally_http_connections_accepted_total 2\n" in ask("", "/metrics", "GET")[2]


def test_q9_presigned_urls(daemon):
    """Whoever has the URL needs no SDK: generate_presigned_url() of a boto3 that speaks Query."""
    sqs = client(daemon.endpoint)
    if sqs.meta.service_model.metadata["protocol"] != "query":
        pytest.skip("this boto3 speaks JSON, of which there are no presigned requests")
    url = sqs.create_queue(QueueName="q")["QueueUrl"]

    def fetch(name, **parameters):
        signed = urllib.parse.urlsplit(sqs.generate_presigned_url(name, {"QueueUrl": url, **parameters}))
        status, headers, body = daemon.request("GET", f"{signed.path}?{signed.query}")
        assert (status, headers["Content-Type"]) == (200, "text/xml"), body
        return body.decode()

    text = "a&b = ü+%20"
    attributes = {"n": {"DataType": "Number", "StringValue": "1"}}
    assert "<MD5OfMessageAttributes>" in fetch("send_message", MessageBody=text, MessageAttributes=attributes)
    assert "<Body>a&amp;b = ü+%20</Body>" in fetch("receive_message", AttributeNames=["All"], VisibilityTimeout=0)
    assert "<Name>VisibilityTimeout</Name>" in fetch("get_queue_attributes", AttributeNames=["All"])
    assert fetch("purge_queue").count("RequestId") == 2
    assert "<Message>" not in fetch("receive_message")


# --- Behind a proxy -------------------------------------------------------------------------------------------------


class Proxy:
    """nginx before a daemon: everything under `path` goes there, with the settings given."""

    def __init__(self, folder, daemon, port, path="/", *settings):
        self.folder = folder
        self.port = port
        lines = [f"proxy_pass http://127.0.0.1:{daemon.port}/;", "proxy_http_version 1.1;", *settings]
        names = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        (folder / "nginx.conf").write_text(f"""
            {"user root;" if os.geteuid() == 0 else ""}
            daemon off;
            worker_processes 1;
            pid {folder}/nginx.pid;
            error_log {folder}/error.log;
            events {{ worker_connections 200; }}
            http {{
                access_log off;
                client_max_body_size 10m;
                {"".join(f"{name}_temp_path {folder}/{name};" for name in names)}
                server {{ listen 127.0.0.1:{port}; location {path} {{ {" ".join(lines)} }} }}
            }}""")

    def start(self):
        command = [NGINX, "-p", str(self.folder), "-c", str(self.folder / "nginx.conf"), "-e",
                   str(self.folder / "error.log")]
        self.process = subprocess.Popen(command, env=clean_environment())
        wait_until(self.is_open, what="nginx")

    def is_open(self):
        assert self.process.poll() is None, (self.folder / "error.log").read_text()
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        try:
            connection.connect()
            return True
        except OSError:
            return False
        finally:
            connection.close()

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture
def start_proxy(tmp_path):
    needs(NGINX, "nginx-light")
    proxies = []

    def start(*arguments):
        proxies.append(Proxy(tmp_path, *arguments))
        proxies[-1].start()

    yield start
    for proxy in proxies:
        proxy.stop()


@pytest.mark.parametrize("path", ["", "/mq"])
def test_q11_a_public_url_behind_nginx(daemon_factory, start_proxy, path):
    """Another port, and for one of them a path: queue URLs are the proxy's, whatever Host the daemon sees."""
    port = free_port()
    public = f"http://localhost:{port}{path}"
    daemon = daemon_factory("--public-url", public).start()
    start_proxy(daemon, port, f"{path}/")
    sqs = client(f"http://127.0.0.1:{port}{path}/")
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    assert url == f"{public}/000000000000/q"
    assert passes_a_message(sqs, url)
    assert client(daemon.endpoint).get_queue_url(QueueName="q")["QueueUrl"] == url
    run_node("sdk_life.mjs", "@aws-sdk/client-sqs", public, "q11_queue_urls_as_endpoints")
    assert daemon.stop() == 0


def test_q11_nginx_that_hands_the_host_on_needs_no_public_url(daemon, start_proxy):
    port = free_port()
    start_proxy(daemon, port, "/", "proxy_set_header Host $http_host;")
    sqs = client(f"http://localhost:{port}")
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    assert url == f"http://localhost:{port}/000000000000/q"
    assert passes_a_message(sqs, url)
