"""Onlookers: they ask a daemon for everything that only reads, with all filters, cursors and bodies, and for all dry
runs, while it is killed and started again.

    onlookers = Onlookers(port, "campaign.fifo", tally="build/bin/tally")
    onlookers.start(threads=3, pages=True)
    onlookers.stop()            # afterwards: .good, .faults

The actions that only read are those of src/api/actions.c, and the dry runs those of the model and of
docs/reference/sqs-actions.md. Each must have gone well when it is over."""

import collections
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "tests" / "system" / "look_pages.mjs"
ACCOUNT = "000000000000"
PLAIN_PAGES = ("/metrics", "/live", "/ready", "/health", "/ui/", "/ui/config")
STATES = ("ready", "delayed", "in-flight", "blocked", "held")
SEEN_MAX = 200
OTHERS = {  # what a load of one queue does not have, so that there is something to look at
    "AmazonSQS.CreateQueue": {"QueueName": "results"},
    "Tally.CreateBatch": {"BatchId": "b"},
    "Tally.AddUnits": {"BatchId": "b", "Units": ["x", "y"]},
    "Tally.PutTypeOrder": {"Name": "o", "Types": ["t1", "t2"]},
    "Tally.PutSchedule": {"Name": "s", "Cron": "0 0 30 2 *", "QueueUrl": "results", "MessageBody": "never"},
    "Tally.CreatePool": {"PoolName": "p", "ResultQueueUrl": "results", "Attributes": {"n": "num"},
                         "Matcher": "external"},
    "Tally.OfferTickets": {"PoolName": "p", "Tickets": [{"TicketId": "t", "Attributes": {"n": 1}}]},
    "Tally.CreateRelay": {"RelayName": "r", "Source": {"Type": "queue", "QueueUrl": "results", "LeaseSeconds": 60},
                          "Sink": {"Type": "queue", "QueueUrl": "elsewhere"}},
    "Tally.PauseRelay": {"RelayName": "r"},
}


def reading_actions():
    text = (ROOT / "src/api/actions.c").read_text()
    rows = re.findall(r'\{"((?:AmazonSQS|Tally)\.\w+)"([^}]*)\}', text)
    return {target for target, row in rows if "GROWTH_READS" in row}


def dry_runs():
    """Their names, without the service."""
    model = json.loads((ROOT / "models/tally/2026-11-30/service-2.json").read_text())
    own = {name for name, operation in model["operations"].items()
           if "DryRun" in model["shapes"][operation["input"]["shape"]]["members"]}
    lines = (ROOT / "docs/reference/sqs-actions.md").read_text().splitlines()
    return own | {line.split("|")[1].strip() for line in lines if line.startswith("| ") and "DryRun?" in line}


def looks(queue, chance, seen):
    """{action: [parameters, …]}: what is asked, drawn anew."""
    def some(kind, default):
        values = seen[kind]
        return chance.choice(values) if values else default

    def page(**members):
        token = some(("token", json.dumps(members, sort_keys=True)), None)
        return {**members, "MaxResults": chance.randrange(1, 100), **({"NextToken": token} if token else {})}

    at, arn = {"QueueUrl": queue}, f"arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}"
    message = some("message", "00000000-0000-8000-8000-000000000000")
    group = {"MessageGroupId": some("group", "g1")}
    dry, task = {"DryRun": True}, {"SourceArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:dead.fifo"}
    ticket = {"PoolName": "p", "TicketId": "t"}
    batch, relay = {"BatchId": "b"}, {"RelayName": "r"}
    return {
        "AmazonSQS.GetQueueUrl": [{"QueueName": queue}],
        "AmazonSQS.ListQueues": [page(), page(QueueNamePrefix="c")],
        "AmazonSQS.GetQueueAttributes": [{**at, "AttributeNames": ["All"]}],
        "AmazonSQS.ListQueueTags": [at],
        "AmazonSQS.ListDeadLetterSourceQueues": [{"QueueUrl": "dead.fifo"}],
        "AmazonSQS.ListMessageMoveTasks": [{**task, "MaxResults": 10}],
        "Tally.DescribeBatch": [batch],
        "Tally.ListBatches": [page(), page(Prefix="b"), page(State="open")],
        "Tally.ListUnits": [page(**batch), page(**batch, State="outstanding")],
        "Tally.ListTypeOrders": [{}],
        "Tally.DescribeSchedule": [{"Name": "s"}],
        "Tally.ListSchedules": [{}],
        "Tally.DescribeRelay": [relay],
        "Tally.ListRelays": [{}],
        "Tally.ListDoubts": [relay],
        "Tally.ListGroups": [page(**at), *(page(**at, State=state) for state in ("held", "busy", "ready", "paused"))],
        "Tally.ExplainMessage": [{**at, "MessageId": message}],
        "Tally.GetMessage": [{"MessageId": message}],
        "Tally.ListMessages": [
            *(page(**at, State=state, Body=body) for state in STATES for body in ("none", "preview", "full")),
            page(**at, Body="full"), page(**at, **group), page(**at, OlderThan=1), page(**at, Reason="no")],
        "Tally.GetSeries": [{**at, "Period": 5, "Points": 9}, {"Period": 60}],
        "Tally.ListInFlight": [page(), page(**at), page(Worker="nobody")],
        "Tally.ListDependents": [page(MessageId=message), page(**batch)],
        "Tally.ListQueueStats": [page(), page(SortBy="age"), page(SortBy="oldest"), page(SortBy="visible"),
                                 page(SortBy="name")],
        "Tally.FindMessage": [
            {"MessageId": message}, {**at, "MessageDeduplicationId": "g1-0"},
            {**at, "Producer": "p0", "Sequence": 1}, {"OutboxId": "00000000-0000-0000-0000-000000000005"}],
        "Tally.SummarizeFailures": [at],
        "Tally.DescribeServer": [{}],
        "Tally.DescribeBackup": [{}],
        "Tally.FeedEvents": [{"After": 0}, {"After": 2**53, "WaitTimeSeconds": 1}],
        "Tally.DescribePool": [{"PoolName": "p"}],
        "Tally.ListPools": [page()],
        "Tally.GetTicket": [ticket],
        "Tally.ListTickets": [page(PoolName="p")],
        "Tally.CountTickets": [{"PoolName": "p"}],
        "Tally.ExplainTicket": [ticket],
        # dry runs
        "AmazonSQS.StartMessageMoveTask": [{**task, **dry}, {**task, "Reason": "no", **dry}],
        "Tally.DeleteMessages": [{**at, "MessageIds": [message], **dry}, {**at, "SentAfter": 1, **dry},
                                 {**at, **group, **dry}],
        "AmazonSQS.PurgeQueue": [{**at, **dry}],
        "AmazonSQS.DeleteQueue": [{**at, **dry}],
        "Tally.ReleaseGroup": [{**at, **group, "Action": action, **dry} for action in ("retry", "skip", "cancel-rest")],
        "Tally.ReleaseMessage": [{"MessageId": message, **dry}],
        "Tally.CancelBatch": [{**batch, **dry}],
    }


# Which may be refused all the time: no group of the load is ever held, what is in flight is soon deleted, and there is
# no backup.
NEVER_GOOD = {"Tally.ReleaseGroup", "Tally.ReleaseMessage", "Tally.DescribeBackup"}


class Onlookers:
    def __init__(self, port, queue, tally):
        self.port, self.queue, self.tally = port, queue, str(tally)
        self.lock, self.over = threading.Lock(), threading.Event()
        self.called, self.good, self.faults = collections.Counter(), collections.Counter(), []
        self.refusals = collections.defaultdict(collections.Counter)
        self.threads, self.browser = [], None

    def start(self, threads, pages):
        work = [self.look] * threads + [self.run_programs]
        self.threads = [threading.Thread(target=self.keep_on, args=(one, number)) for number, one in enumerate(work)]
        for thread in self.threads:
            thread.start()
        if pages:
            self.browser = subprocess.Popen(["node", str(PAGES), f"http://127.0.0.1:{self.port}", self.queue],
                                            stdout=subprocess.PIPE, text=True, env={
                                                **os.environ, "CHROMIUM": shutil.which("chromium")})

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        if self.browser is not None:
            self.browser.terminate()
            lines = self.browser.communicate()[0].splitlines()
            told = json.loads(lines[-1]) if lines else {"shown": 0, "wrong": []}  # it had not begun
            self.good["pages"] += told["shown"]
            self.faults += told["wrong"]

    def missing(self):
        """What has not gone well yet, and how it was refused."""
        return {action: dict(self.refusals[action]) for action in sorted(self.looked_at())
                if self.good[action] == 0 and action not in NEVER_GOOD}

    def looked_at(self):
        """An action that is added, and that looks() does not have, is among them."""
        rows = set(looks(self.queue, random.Random(0), collections.defaultdict(list)))
        names = {action.split(".")[1] for action in rows}
        return rows | reading_actions() | (dry_runs() - names)

    def keep_on(self, work, number):
        """While the daemon is away everything fails, and is tried again."""
        chance = random.Random(number)
        while not self.over.is_set():
            try:
                work(chance)
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
            except Exception as error:  # noqa: BLE001
                self.fault(f"{work.__name__}: {error!r}")
                return

    def fault(self, text):
        with self.lock:
            self.faults.append(text)

    def note(self, action, refusal):
        with self.lock:
            self.called[action] += 1
            if refusal is None:
                self.good[action] += 1
            else:
                self.refusals[action][refusal] += 1

    def ask(self, line, action, parameters):
        line.request("POST", "/", json.dumps(parameters), {
            "X-Amz-Target": action, "Content-Type": "application/x-amz-json-1.0"})
        answer = line.getresponse()
        told = json.loads(answer.read() or b"{}")
        if answer.status == 500:
            self.fault(f"{action} {parameters}: {told}")
        self.note(action, None if answer.status == 200 else told["__type"].split("#")[-1])
        return told

    def make_others(self):
        """Once, and before anybody looks. What a lost answer has made is there."""
        while not self.over.is_set():
            try:
                line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                self.ask(line, "AmazonSQS.CreateQueue", {"QueueName": "dead.fifo", "Attributes": {"FifoQueue": "true"}})
                policy = {"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:dead.fifo", "maxReceiveCount": 9}
                self.ask(line, "AmazonSQS.CreateQueue", {"QueueName": "source.fifo", "Attributes": {
                    "FifoQueue": "true", "RedrivePolicy": json.dumps(policy)}})
                for action, parameters in OTHERS.items():
                    self.ask(line, action, parameters)
                line.close()
                return
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)

    def look(self, chance):
        """On one connection until it breaks."""
        seen = collections.defaultdict(lambda: collections.deque(maxlen=SEEN_MAX))
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self.over.is_set():
            drawn = [(action, parameters) for action, many in looks(self.queue, chance, seen).items()
                     for parameters in many]
            chance.shuffle(drawn)
            for action, parameters in drawn:
                self.learn(seen, parameters, self.ask(line, action, parameters))
                if self.over.is_set():
                    return
            for path in PLAIN_PAGES:
                line.request("GET", path)
                line.getresponse().read()
                self.note(path, None)

    @staticmethod
    def learn(seen, parameters, told):
        for message in told.get("Messages", []) if isinstance(told.get("Messages"), list) else []:
            seen["message"].append(message["MessageId"])
            if "MessageGroupId" in message:
                seen["group"].append(message["MessageGroupId"])
        asked = {name: value for name, value in parameters.items() if name not in ("MaxResults", "NextToken")}
        tokens = seen["token", json.dumps(asked, sort_keys=True)]
        tokens.clear()
        if "NextToken" in told:
            tokens.append(told["NextToken"])

    def run_programs(self, chance):
        words = chance.choice([
            ["top", "--once"], ["top", "--once", "--sort", "failed", "--json"], ["status"], ["status", "--json"],
            ["messages", self.queue, "--body", "full", "--limit", "50"],
            ["messages", self.queue, "--state", "in-flight", "--json"],
            ["find", "--queue", self.queue, "--dedup", "g2-1"], ["queue", "list"], ["group", "list", self.queue],
            ["inflight"], ["failures", self.queue]])
        endpoint = f"http://127.0.0.1:{self.port}"
        ended = subprocess.run([self.tally, *words, "--endpoint", endpoint], capture_output=True, text=True,
                               timeout=120, check=False)
        if ended.returncode not in (0, 1, 3):
            self.fault(f"tally {' '.join(words)}: status {ended.returncode}: {ended.stderr}")
        self.note(f"tally {words[0]}", None if ended.returncode in (0, 1) else "no answer")
        self.over.wait(0.3)
