// The queues with what is in them, and the groups and dead letters that several pages ask for.
import { coversAll, find, look } from "./api.js";
import { clock, nameOf, now } from "./words.js";

const PAGE = 1000;
const IDLE_S = 60;

/** What costs more, asked only every so many seconds while a page is shown, and anew behind a button. */
export async function kept(visit, name, seconds, make) {
  visit.kept ??= new Map();
  const old = visit.kept.get(name);
  const age = old ? now() - old.at : -1; // below 0 as well where the clock was set back
  if (age >= 0 && age < seconds) return old.value;
  const value = await make();
  visit.kept.set(name, { at: now(), value });
  return value;
}

/** What waits for others is delayed, too, for SQS. On these pages each message stands in one column. */
export const waiting = ({ Blocked = 0 }) => Blocked;
export const delayed = (queue) => queue.Delayed - waiting(queue);

/** The age of the oldest message that can be delivered. */
export const oldest = (queue) => queue.OldestDeliverableAge;
export const isPaused = (queue) => Boolean(queue.Paused);

export const isAsked = (queue) =>
  queue.InFlight > 0 || queue.WaitingReceives > 0 || now() - queue.LastReceiveAt < IDLE_S;

/** Does nobody ask it for messages? In words, since when; an older server does not know. */
export function unasked(queue, name = "this queue") {
  if (queue?.SentPerSecond === undefined || isAsked(queue)) return null;
  const since = queue.LastReceiveAt ? clock(queue.LastReceiveAt) : "the server's start";
  return `nobody has asked ${name} for messages since ${since}`;
}

/** Up to `most` queues, the oldest message first. */
export async function byAge(signal, prefix, most = PAGE) {
  const reply = await look(
    "ListQueueStats",
    { SortBy: "age", MaxResults: most, QueueNamePrefix: prefix || undefined },
    signal,
  );
  const queues = reply?.Queues ?? [];
  return { queues, hasMore: queues.length === most };
}

/** Up to 200 queues, the oldest message in any state first. Behind 1,000 others nobody would see those from which
 *  nothing can be received, so they are asked for. An older server knows neither. */
export async function byOldest(signal) {
  const order = { SortBy: "oldest", MaxResults: 100 };
  const asked = [order, { ...order, Having: "nothing-visible" }];
  const told = await Promise.all(asked.map((members) => find("ListQueueStats", members, signal)));
  return [...new Map(told.flatMap((one) => one?.Queues ?? []).map((queue) => [queue.QueueName, queue])).values()];
}

/** The queue of that name; undefined: it is not there, or not for this caller. */
export async function statsOf(name, signal) {
  const told = await look("ListQueueStats", { QueueNamePrefix: name, MaxResults: 1 }, signal);
  return told?.Queues.find((one) => one.QueueName === name);
}

/** A group, with what its buttons need of its queue. DeadLetterQueue: null, there is none; undefined: nobody knows. */
export const inQueue = (group, QueueUrl, queue) => ({
  ...group,
  QueueUrl,
  QueueName: nameOf(QueueUrl),
  DeadLetterQueue: queue?.DeadLetterQueue ?? (queue && coversAll() ? null : undefined),
});

/** Names of dead-letter queues, with the queues that they take from. */
export function deadLetterQueues(queues) {
  const sources = new Map();
  for (const queue of queues)
    if (queue.DeadLetterQueue)
      sources.set(queue.DeadLetterQueue, [...(sources.get(queue.DeadLetterQueue) ?? []), queue.QueueName]);
  return sources;
}

export const total = (queues, member) => queues.reduce((sum, queue) => sum + (queue[member] ?? 0), 0);

/** The queues in which something stands still, wherever they are; an older server gives any, so `is` looks again. */
async function having(Having, is, signal) {
  const reply = await look("ListQueueStats", { Having, SortBy: "visible", MaxResults: 100 }, signal);
  return (reply?.Queues ?? []).filter(is);
}
export const pausedQueues = (signal) => having("pause", isPaused, signal);
export const heldQueues = (signal) => having("held-groups", (queue) => queue.HeldGroups > 0, signal);
export const fullDeadLetterQueues = (signal) => having("dead-letters", (queue) => queue.Sources > 0, signal);

/** The groups that are held: 20 at most of each of 20 queues. */
export async function heldGroups(signal) {
  const queues = (await heldQueues(signal)).slice(0, 20);
  const lists = await Promise.all(
    queues.map((queue) => look("ListGroups", { QueueUrl: queue.QueueUrl, State: "held", MaxResults: 20 }, signal)),
  );
  return lists.flatMap((reply, i) =>
    (reply?.Groups ?? []).map((group) => inQueue(group, queues[i].QueueUrl, queues[i])),
  );
}

/** Why messages of a queue failed, most first. */
export const failures = (QueueUrl, signal) => look("SummarizeFailures", { QueueUrl }, signal);
