// Calls of a Tally server. Each action is a command of the AWS SDK's own client for SQS, so connections, signatures,
// credentials and repeats are the SDK's. Only the bytes are ours: JSON, of which actions.js says where it has no type.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { $Command, SQS, SQSServiceException } from "@aws-sdk/client-sqs";
import { actions, errorNames, shapes } from "./actions.js";
import { readReply } from "./reply.js";

const ENDPOINT = "http://127.0.0.1:9324";
const CONNECTIONS_MAX = 1000; // a worker that waits for a message takes one, and must not hold up the heartbeats
const STAND_IN = { accessKeyId: "any", secretAccessKey: "any" };

/** An error that the server answered. */
export class TallyError extends SQSServiceException {
  constructor({ name, message, code = name, $metadata }) {
    const status = $metadata.httpStatusCode;
    super({ name, message, $fault: status >= 500 ? "server" : "client", $metadata });
    Object.setPrototypeOf(this, new.target.prototype); // the SDK's constructor has set its own
    this.code = code;
    this.status = status;
  }
}

/** The class of each error, by its name. */
export const errors = Object.fromEntries(
  Object.keys(errorNames).map((name) => [name, { [name]: class extends TallyError {} }[name]]),
);

class Client {
  constructor(sqs) {
    this.sqs = sqs;
    this.each = {};
    for (const [method, { action, pages, ...more }] of Object.entries(actions)) {
      const Command = commandOf(action, more);
      this[method] = (input, options) => sqs.send(new Command(input), options);
      if (pages !== undefined) this.each[method] = (input) => itemsOf(this[method], pages, input);
    }
  }

  /** Closes the connections. */
  destroy() {
    this.sqs.destroy();
  }
}

export function createClient({ endpoint, caFile, name, ...config } = {}) {
  const ca = caFile ?? process.env.TALLY_CA_FILE;
  const sockets = { keepAlive: true, maxSockets: CONNECTIONS_MAX };
  const sqs = new SQS({
    region: "us-east-1",
    endpoint: endpoint ?? process.env.TALLY_ENDPOINT ?? ENDPOINT,
    requestHandler: { httpAgent: sockets, httpsAgent: { ...sockets, ...(ca ? { ca: readFileSync(ca) } : {}) } },
    ...config,
  });
  if (config.credentials === undefined) sqs.config.credentials = orStandIn(sqs.config.credentials);
  const place = { relation: "after", toMiddleware: "deserializerMiddleware", name: "tallyReply" };
  sqs.middlewareStack.addRelativeTo(readReply(sqs.config.streamCollector), place);
  sqs.middlewareStack.add(nameWorker(name ?? `${hostname()}/${process.pid}`), { step: "build", name: "tallyWorker" });
  return new Client(sqs);
}

/** A server without --credentials looks at no signature, so where nobody has configured a key any one will do. */
function orStandIn(chain) {
  let standIn;
  return async (options) => {
    if (standIn !== undefined) return standIn;
    try {
      return await chain(options);
    } catch (error) {
      if (!/^Could not load credentials from any provider/.test(error.message)) throw error;
      return (standIn = STAND_IN);
    }
  };
}

const nameWorker = (name) => (next, context) => (args) => {
  if (context.commandName === "ReceiveMessageCommand") args.request.headers["x-tally-worker"] = name;
  return next(args);
};

async function* itemsOf(method, pages, input = {}) {
  let page = {};
  do {
    page = await method({ ...input, ...(page.NextToken && { NextToken: page.NextToken }) });
    yield* page[pages];
  } while (page.NextToken !== undefined);
}

// --- commands --------------------------------------------------------------------------------------------------------

/** A command, whose middlewares stand where those of the SDK's commands would. */
function commandOf(action, { token, input, output }) {
  const place = (step, name) => ({ step, name, override: true });
  const applyTo = (config) => (stack) => {
    stack.add((next) => next, place("serialize", "endpointV2Middleware")); // others name it as their neighbour
    stack.add((next) => async (args) => {
      const request = await requestOf(config, action, toJson(input, withToken(token, args.input)));
      return next({ ...args, request });
    }, place("serialize", "serializerMiddleware"));
    stack.add((next) => async (args) => {
      const { response } = await next(args);
      return { response, output: replyOf(response, output) };
    }, place("deserialize", "deserializerMiddleware"));
  };
  return $Command
    .classBuilder()
    .m((Command, stack, config) => [{ applyToStack: applyTo(config) }])
    .s("Tally", action)
    .n("SQSClient", `${action}Command`)
    .f(undefined, undefined)
    .build();
}

/** A request that is sent again by the SDK must be known to be the same. */
function withToken(token, input) {
  return token === undefined || input[token] !== undefined ? input : { ...input, [token]: randomUUID() };
}

async function requestOf(config, action, body) {
  const { protocol, hostname, port, path } = await config.endpoint();
  const headers = { "content-type": "application/x-amz-json-1.0", "x-amz-target": `Tally.${action}` };
  return { method: "POST", protocol, hostname, port, path, query: {}, headers, body: JSON.stringify(body) };
}

function replyOf(response, output) {
  const { statusCode, headers, body } = response;
  const $metadata = { httpStatusCode: statusCode, requestId: headers["x-amzn-requestid"] };
  const text = new TextDecoder().decode(body);
  if (statusCode >= 300) {
    // In its Date the SDK finds the server's time, where the clock here is off: then it signs and sends again.
    throw Object.defineProperty(errorOf(text, headers, $metadata), "$response", { value: response });
  }
  return { ...fromJson(output, text === "" ? {} : JSON.parse(text)), $metadata };
}

function errorOf(text, headers, $metadata) {
  let told = {};
  try {
    told = JSON.parse(text);
  } catch {
    // A request that is no SQS at all, such as one that is too long, is answered in XML.
  }
  const name = told.__type?.split("#").pop() ?? "UnknownError";
  const code = headers["x-amzn-query-error"]?.split(";")[0];
  const message = told.message ?? `HTTP status ${$metadata.httpStatusCode}: ${text.slice(0, 200)}`;
  return new (errors[name] ?? TallyError)({ name, message, code, $metadata });
}

// --- what JSON has no type for ---------------------------------------------------------------------------------------

const toJson = (shape, value) => convert(shape, value, { date: secondsOf, bytes: base64Of });
const fromJson = (shape, value) => convert(shape, value, { date: dateOf, bytes: bytesOf });

const secondsOf = (date) => (date instanceof Date ? date.getTime() / 1000 : date);
const base64Of = (bytes) => Buffer.from(bytes).toString("base64");
const dateOf = (seconds) => new Date(Math.round(seconds * 1000));
const bytesOf = (text) => new Uint8Array(Buffer.from(text, "base64"));

/** A value of a shape, with each date and each string of bytes in another form. */
function convert(shape, value, scalars) {
  if (shape === undefined || value === undefined || value === null) return value;
  if (shape in scalars) return scalars[shape](value);
  const parts = shapes[shape];
  if (Array.isArray(value)) return value.map((item) => convert(parts["*"], item, scalars));
  return Object.fromEntries(
    Object.entries(value).map(([name, part]) => [name, convert(parts["*"] ?? parts[name], part, scalars)]),
  );
}
