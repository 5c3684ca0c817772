"use strict";
// A server for a test: startTally().

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const http = require("node:http");
const os = require("node:os");
const { TallyError, findBinary, explainSpawn, explainExit } = require("./binary.js");

const NAMESPACE = "000000000000";
const STDERR_KEPT = 64 * 1024;
const STOP_MS = 10_000;
const AT_ONCE = 32; // requests of reset(): the server makes them durable together

// --- The process -----------------------------------------------------------------------------------------------------

/** Without what the user has set for another tallyd. */
function environment() {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith("TALLY_"));
  return { ...Object.fromEntries(own), TMPDIR: os.tmpdir() };
}

/* How the server ends with this process: it holds the other end of the pipe that is the server's standard input, and
 * the kernel closes that however this process ends. A handler of "exit" would miss SIGKILL, and
 * prctl(PR_SET_PDEATHSIG) follows a thread, so that the server would end with the worker thread of a test runner. The
 * server removes its folder itself, because nobody else is left to do so. It has a session of its own: a signal to the
 * group of the test runner, Ctrl-C say, must not end it before its clients. */
function launch(binary, flags) {
  const child = spawn(binary, flags, { stdio: ["pipe", "pipe", "pipe"], env: environment(), detached: true });
  child.stdin.on("error", () => {}); // it has ended
  for (const handle of [child, child.stdin, child.stdout, child.stderr]) handle.unref();
  return child;
}

/** Whether the options say where the data is: then nothing is removed here. */
function isFolderGiven({ options = [] }) {
  return options.some((flag) => /^--(data|temporary-data)(=|$)/.test(flag));
}

function flagsOf({ options = [], port = 0, region }) {
  return [
    ...["--listen", `127.0.0.1:${port}`, "--exit-with-stdin", "on"],
    ...(isFolderGiven({ options }) ? [] : ["--temporary-data", "on"]),
    ...(region === undefined ? [] : ["--region", region]),
    ...options,
  ];
}

/** Resolves with what the line says that tallyd writes when it serves. */
function untilReady(child, binary, timeout) {
  return new Promise((resolve, reject) => {
    let stdout = "";
    let stderr = "";
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      const text = `tallyd did not serve within ${timeout} ms. It said:\n${stderr}`;
      reject(new TallyError("START_FAILED", text, { stderr }));
    }, timeout);
    child.ref();
    child.stderr.on("data", (data) => (stderr = (stderr + data).slice(-STDERR_KEPT)));
    child.stdout.on("data", (data) => {
      if (stdout === null) return;
      stdout += data;
      const ready = /tallyd ready on (\S+).* data=(.*) queues=\d+ messages=\d+.*\n/.exec(stdout);
      if (ready === null) return;
      stdout = null;
      clearTimeout(timer);
      child.unref();
      resolve({ endpoint: ready[1], folder: ready[2] });
    });
    child.on("error", (error) => {
      clearTimeout(timer);
      reject(explainSpawn(binary, error));
    });
    // "close", not "exit": all that it has said is here then.
    child.on("close", (status, signal) => {
      clearTimeout(timer);
      reject(explainExit(signal ?? `status ${status}`, stderr));
    });
  });
}

function untilEnded(child) {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve();
    child.ref();
    child.once("exit", resolve);
  });
}

async function end(child, folder, isOurs) {
  const ended = untilEnded(child);
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
  child.stdin.end();
  await ended;
  clearTimeout(timer);
  if (isOurs) fs.rmSync(folder, { recursive: true, force: true }); // nothing is left, unless it had to be killed
}

// --- Requests --------------------------------------------------------------------------------------------------------

function call(endpoint, action, members) {
  const body = JSON.stringify(members);
  const headers = { "Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": `AmazonSQS.${action}` };
  return new Promise((resolve, reject) => {
    const request = http.request(endpoint, { method: "POST", headers, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (data) => (text += data));
      response.on("error", reject);
      response.on("end", () => {
        if (response.statusCode === 200) return resolve(text === "" ? {} : JSON.parse(text));
        reject(new TallyError("REQUEST_FAILED", `${action} met ${response.statusCode}: ${text}`));
      });
    });
    request.on("error", reject);
    request.end(body);
  });
}

function createQueue(endpoint, spec) {
  const { name, attributes = {}, tags } = typeof spec === "string" ? { name: spec } : spec;
  const fifo = name.endsWith(".fifo") ? { FifoQueue: "true" } : {};
  return call(endpoint, "CreateQueue", { QueueName: name, Attributes: { ...fifo, ...attributes }, tags });
}

async function inTurn(items, action) {
  for (let at = 0; at < items.length; at += AT_ONCE) await Promise.all(items.slice(at, at + AT_ONCE).map(action));
}

/* One after the other: a queue may name an earlier one as its dead-letter queue. */
async function createQueues(endpoint, queues) {
  for (const spec of queues) await createQueue(endpoint, spec);
}

async function deleteQueues(endpoint) {
  for (;;) {
    const { QueueUrls: urls = [] } = await call(endpoint, "ListQueues", { MaxResults: 1000 });
    if (urls.length === 0) return;
    await inTurn(urls, (url) => call(endpoint, "DeleteQueue", { QueueUrl: url }));
  }
}

// --- The whole -------------------------------------------------------------------------------------------------------

async function startTally(options = {}) {
  const { queues = [], region = "us-east-1", timeout = 30_000 } = options;
  const binary = options.binary ?? findBinary();
  const child = launch(binary, flagsOf(options));
  const { endpoint, folder } = await untilReady(child, binary, timeout);
  let stopped;
  const stop = () => (stopped ??= end(child, folder, !isFolderGiven(options)));
  try {
    await createQueues(endpoint, queues);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    endpoint,
    port: Number(new URL(endpoint).port),
    region,
    credentials: { accessKeyId: "tally", secretAccessKey: "tally" },
    pid: child.pid,
    queueUrl: (name) => `${endpoint}/${NAMESPACE}/${name}`,
    async reset() {
      await deleteQueues(endpoint);
      await createQueues(endpoint, queues);
    },
    stop,
    ...(Symbol.asyncDispose ? { [Symbol.asyncDispose]: stop } : {}),
  };
}

module.exports = { startTally, TallyError };
