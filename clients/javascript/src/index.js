export { failedUnits, withBatch } from "./batch.js";
export { createClient, errors, TallyError } from "./client.js";
export { AlreadyDone, once } from "./inbox.js";
export { Matcher } from "./matcher.js";
export { LeaseLost, Message } from "./message.js";
export { UnreadableReply } from "./reply.js";
export { Reject, Retry, Worker } from "./worker.js";
