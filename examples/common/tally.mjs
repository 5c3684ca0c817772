// What the examples share: a client of the AWS SDK, Tally's own actions, and worker processes that come and go.
import { fork } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { CreateQueueCommand, GetQueueAttributesCommand, SendMessageBatchCommand, SQSClient } from "@aws-sdk/client-sqs";

export { sleep };

// The unmodified SDK; only the endpoint is another one, and any credentials do.
export const sqs = new SQSClient({
  endpoint: process.env.TALLY_URL,
  region: "us-east-1",
  credentials: { accessKeyId: "any", secretAccessKey: "any" },
});

// A worker process that has lost the one that started it has nothing left to do.
process.on("disconnect", () => process.exit());

// What SQS lacks is one POST away. Throws an Error whose name is the error's code.
export async function tally(action, request) {
  const reply = await fetch(process.env.TALLY_URL, {
    method: "POST",
    headers: { "Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": `Tally.${action}` },
    body: JSON.stringify(request),
  });
  const text = await reply.text();
  const answer = text === "" ? {} : JSON.parse(text);
  if (!reply.ok)
    throw Object.assign(new Error(`${action}: ${answer.message}`), { name: answer.__type.split("#").pop() });
  return answer;
}

// Makes a queue and returns its URL. FIFO queues are those whose name ends with .fifo. On a server that was there
// before (see start.sh) each run has queues of its own.
export async function createQueue(name, attributes = {}) {
  name = name.replace(/(\.fifo)?$/, `${process.env.TALLY_EXAMPLE_SUFFIX}$1`);
  const fifo = name.endsWith(".fifo") ? { FifoQueue: "true" } : {};
  const { QueueUrl } = await sqs.send(
    new CreateQueueCommand({ QueueName: name, Attributes: { ...fifo, ...attributes } }),
  );
  return QueueUrl;
}

// Sends many messages, ten a request; returns what the server said of each.
export async function sendAll(QueueUrl, messages) {
  const sent = [];
  for (let start = 0; start < messages.length; start += 10) {
    const Entries = messages.slice(start, start + 10).map((message, index) => ({ Id: String(index), ...message }));
    const { Successful = [], Failed = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
    if (Failed.length > 0) throw new Error(`${Failed[0].Code}: ${Failed[0].Message}`);
    sent.push(...Successful.sort((a, b) => a.Id - b.Id));
  }
  return sent;
}

// How many messages a queue holds, in flight and delayed included.
export async function countMessages(QueueUrl) {
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] }));
  return (
    Number(Attributes.ApproximateNumberOfMessages) +
    Number(Attributes.ApproximateNumberOfMessagesNotVisible) +
    Number(Attributes.ApproximateNumberOfMessagesDelayed)
  );
}

// Waits until claim() is true; an example that hangs must say so.
export async function waitUntil(claim, what, seconds = 90) {
  const deadline = Date.now() + seconds * 1000;
  while (!(await claim())) {
    if (Date.now() > deadline) throw new Error(`${what} did not happen within ${seconds} s`);
    await sleep(100);
  }
}

// `count` processes of a script, which are replaced when they end, and ill-treated on request.
export class Workers {
  counts = { killed: 0, frozen: 0 }; // and what the workers report with process.send({ count: "name" })

  constructor(script, count, args = []) {
    this.script = script;
    this.args = args;
    this.running = Array.from({ length: count }, () => this.start());
  }

  start() {
    const worker = fork(this.script, this.args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    worker.on("message", ({ count }) => (this.counts[count] = (this.counts[count] ?? 0) + 1));
    worker.on("exit", (code) => {
      const index = this.running.indexOf(worker);
      if (index < 0) return;
      if (code !== null && code !== 0)
        // a fault of its own: say so, once, instead of starting it for ever
        this.failure ??= new Error(`a worker ended with status ${code}`);
      else this.running[index] = this.start();
    });
    return worker;
  }

  any() {
    if (this.failure) throw this.failure;
    return this.running[Math.floor(Math.random() * this.running.length)];
  }

  // kill -9: whatever it has in hand is neither finished nor given back.
  kill() {
    this.counts.killed++;
    this.any().kill("SIGKILL");
  }

  // Stands still longer than its messages are hidden from others, and then goes on as if nothing had happened.
  async freeze(milliseconds) {
    const worker = this.any();
    this.counts.frozen++;
    worker.kill("SIGSTOP");
    await sleep(milliseconds);
    worker.kill("SIGCONT");
  }

  stop() {
    const workers = this.running;
    this.running = [];
    for (const worker of workers) {
      worker.kill("SIGCONT");
      worker.kill("SIGKILL");
    }
  }
}
