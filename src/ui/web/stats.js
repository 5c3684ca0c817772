// The queues with what is in them: asked once for several pages.
import { coversAll, look } from "./api.js";
import { nameOf, now } from "./words.js";

const PAGE = 1000;

/** What costs more, asked only every so many seconds while a page is shown, and anew behind a button. */
export async function kept(visit, name, seconds, make) {
  visit.kept ??= new Map();
  const old = visit.kept.get(name);
  if (old && now() - old.at < seconds) return old.value;
  const value = await make();
  visit.kept.set(name, { at: now(), value });
  return value;
}

/** The age of the oldest message that can be delivered, where the server knows that; else of the oldest of all. */
export const oldest = (queue) => (queue.HeldGroups === undefined ? queue.OldestMessageAge : queue.OldestDeliverableAge);
export const isPaused = (queue) => Boolean(queue.Paused);

/** Up to `most` queues, the oldest message first. */
export async function byAge(signal, prefix, most = PAGE) {
  const reply = await look(
    "ListQueueStats",
    { SortBy: "age", MaxResults: most, QueueNamePrefix: prefix || undefined },
    signal,
  );
  const queues = (reply?.Queues ?? []).toSorted((a, b) => (oldest(b) ?? -1) - (oldest(a) ?? -1));
  return { queues, hasMore: Boolean(reply?.NextToken) };
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

/** The groups that are held, of the queues that may have some: 20 queues at most are asked. */
export async function heldGroups(queues, signal) {
  const asked = queues.filter((queue) => (queue.HeldGroups ?? queue.Groups) > 0).slice(0, 20);
  const lists = await Promise.all(
    asked.map((queue) => look("ListGroups", { QueueUrl: queue.QueueUrl, State: "held", MaxResults: 20 }, signal)),
  );
  return lists.flatMap((reply, i) =>
    (reply?.Groups ?? []).map((group) => inQueue(group, asked[i].QueueUrl, asked[i])),
  );
}

/** Why messages of a queue failed, most first. Where the server does not count, from the 1,000 oldest messages. */
export async function failures(QueueUrl, signal) {
  const told = await look("SummarizeFailures", { QueueUrl }, signal);
  if (told) return told;
  const page = await look("ListMessages", { QueueUrl, MaxResults: PAGE }, signal);
  if (!page) return null;
  const reasons = new Map();
  for (const { FailureReason, SentAt, MessageId } of page.Messages) {
    if (FailureReason === undefined) continue;
    const one = reasons.get(FailureReason) ?? {
      Reason: FailureReason,
      Count: 0,
      OldestAt: SentAt,
      NewestAt: SentAt,
      MessageIds: [],
    };
    one.Count++;
    one.OldestAt = Math.min(one.OldestAt, SentAt);
    one.NewestAt = Math.max(one.NewestAt, SentAt);
    if (one.MessageIds.length < 3) one.MessageIds.push(MessageId);
    reasons.set(FailureReason, one);
  }
  const Reasons = [...reasons.values()].toSorted((a, b) => b.Count - a.Count);
  return {
    Reasons,
    Looked: page.Messages.length,
    Failed: Reasons.reduce((sum, one) => sum + one.Count, 0),
    IsComplete: !page.NextToken,
  };
}
