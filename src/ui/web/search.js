// Looks through everything for one thing: a call at a time, with a rest behind each, as long as the page is seen and
// nobody has stopped it. What it finds, and how far it is, stands in the search.
import { find, look, may } from "./api.js";
import { inLists } from "./body.js";
import { byAge, failures, fullDeadLetterQueues, heldQueues } from "./stats.js";
import { count, plural } from "./words.js";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const PLAIN = /^[\x21-\x7e]{1,128}$/; // what group and deduplication ids consist of
const LIKELY_MAX = 30; // queues that are looked into first
const CALLS_MAX = 5; // for each of them
const SHOWN_MAX = 100;
const NAMES_MAX = 100;
const PAGE = 1000;
const AT_ONCE = 8; // small calls
const WORDS_MAX = 16; // of a text
const TEXT_MAX = 256; // bytes
const REST_MS = 10;
const DRAW_MS = 300;

export const isId = (q) => UUID.test(q);

// --- which queues first ---------------------------------------------------------------------------------------------

/** The words of it that a queue may be named after: without numbers, and without the s of many. */
const namingWords = (q) =>
  q
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .map((word) => word.replace(/(?<=...)s$/, ""))
    .filter((word) => word.length > 2 && /\p{L}/u.test(word));

/** How much of the name is one of the words, from 0 to 2: more where it begins so. */
function resemblance(name, words) {
  const lower = name.toLowerCase();
  const parts = words.map((word) => (lower.includes(word) ? word.length / lower.length + lower.startsWith(word) : 0));
  return Math.max(0, ...parts);
}

/** The queues whose name resembles a word, then those with held groups, and then those with the oldest messages. */
async function likelyQueues(q, signal) {
  const words = namingWords(q);
  const named = words.slice(0, 4).map(async (word) => {
    const told = await look("ListQueueStats", { QueueNamePrefix: word, MaxResults: 50 }, signal);
    return told?.Queues ?? [];
  });
  const [held, old, ...alike] = await Promise.all([heldQueues(signal), byAge(signal), ...named]);
  const all = [...new Map([...alike.flat(), ...held, ...old.queues].map((one) => [one.QueueName, one])).values()];
  const rank = new Map(all.map((one) => [one, resemblance(one.QueueName, words)]));
  return all.toSorted((a, b) => rank.get(b) - rank.get(a));
}

// --- what is found --------------------------------------------------------------------------------------------------

function add(list, messages) {
  const known = new Set(list.map((one) => one.MessageId));
  list.push(...(messages ?? []).filter((one) => !known.has(one.MessageId)));
}

/** As many words as a server looks for. */
function someWords(search) {
  const words = search.q.split(/\s+/);
  const isTooMuch = () => words.length > WORDS_MAX || new TextEncoder().encode(words.join(" ")).length > TEXT_MAX;
  if (!isTooMuch()) return search.q;
  while (words.length > 1 && isTooMuch()) words.pop();
  search.notes.add(`Of the text only the first ${plural(words.length, "word")} were looked for.`);
  return words.join(" ");
}

/** Along all queues, or one; each step is a call. `way`: where it is, for who reads how far the search is. */
async function* messages(search, members, list, way, signal, callsMax = Infinity) {
  for (let i = 0, NextToken; i < callsMax; i++) {
    const reply = await find("FindMessage", { ...members, Body: inLists(), NextToken }, signal);
    add(list, reply?.Messages);
    way.messages += reply?.Looked ?? 0;
    way.queues = reply?.QueuesLooked;
    way.of = reply?.QueueCount;
    if (list.length >= SHOWN_MAX) search.notes.add(`The first ${SHOWN_MAX} messages are shown; more words find fewer.`);
    if (!reply || reply.IsComplete || list.length >= SHOWN_MAX) return;
    ({ NextToken } = reply);
    yield;
  }
}

/** Along the queues that come first, and not to the end of large ones. */
async function* likelyMessages(search, members, list, signal) {
  for (const { QueueUrl, Visible, InFlight, Delayed } of search.queues.slice(0, LIKELY_MAX)) {
    if (Visible + InFlight + Delayed === 0 || list.length >= SHOWN_MAX) continue;
    yield* messages(search, { ...members, QueueUrl }, list, {}, signal, CALLS_MAX);
    yield;
  }
}

/** The group of that name in one queue: found directly, and its first messages then. */
async function groupIn(search, { QueueUrl, QueueName }, signal) {
  search.grouped.add(QueueName);
  const told = await find("ListGroups", { QueueUrl, MessageGroupId: search.q }, signal);
  if (!told?.Groups.some((one) => one.MessageGroupId === search.q)) return;
  const asked = { QueueUrl, MessageGroupId: search.q, Body: inLists(), MaxResults: SHOWN_MAX };
  const page = await find("ListMessages", asked, signal);
  if (page?.Messages.length > 0)
    search.groups.push({ queue: QueueName, messages: page.Messages, hasMore: Boolean(page.NextToken) });
}

/** Can it be a group's name, and may the queue have that group? */
const mayHaveGroup = (search) => (queue) =>
  PLAIN.test(search.q) && queue.Groups > 0 && !search.grouped.has(queue.QueueName);

async function likelyGroups(search, signal) {
  const having = search.queues.filter(mayHaveGroup(search)).slice(0, LIKELY_MAX);
  await Promise.all(having.map((queue) => groupIn(search, queue, signal)));
}

/** Names with the text in them, wherever, and groups of that name. */
async function* queuesByName(search, signal) {
  for (let NextToken; ; ) {
    const page = await look("ListQueueStats", { MaxResults: PAGE, NextToken }, signal);
    const queues = page?.Queues ?? [];
    for (const { QueueName } of queues)
      if (search.names.size < NAMES_MAX && QueueName.toLowerCase().includes(search.q.toLowerCase()))
        search.names.add(QueueName);
    const having = queues.filter(mayHaveGroup(search));
    for (let i = 0; i < having.length; i += AT_ONCE) {
      yield;
      await Promise.all(having.slice(i, i + AT_ONCE).map((queue) => groupIn(search, queue, signal)));
    }
    ({ NextToken } = page ?? {});
    if (!NextToken) return;
    yield;
  }
}

async function* reasons(search, signal) {
  const word = search.q.toLowerCase();
  for (const { QueueUrl, QueueName: queue } of await fullDeadLetterQueues(signal)) {
    yield;
    const told = await failures(QueueUrl, signal);
    if (told?.IsComplete === false) search.notes.add(`Failures were counted in a part of ${queue} only.`);
    const alike = (told?.Reasons ?? []).filter((one) => one.Reason.toLowerCase().includes(word));
    search.reasons.push(...alike.map((one) => ({ ...one, queue })));
  }
}

/** What is small, and comes at once. */
async function lists(search, signal) {
  const { q } = search;
  const [named, batches, schedules, pools] = await Promise.all([
    look("ListQueueStats", { QueueNamePrefix: q, MaxResults: 50 }, signal),
    PLAIN.test(q) && find("ListBatches", { Prefix: q, MaxResults: 20 }, signal),
    find("ListSchedules", { Prefix: q, MaxResults: 20 }, signal),
    find("ListPools", { Prefix: q, MaxResults: 20 }, signal),
  ]);
  for (const { QueueName } of named?.Queues ?? []) search.names.add(QueueName);
  search.batches = (batches?.Batches ?? []).map((one) => one.BatchId);
  search.schedules = schedules?.Schedules ?? [];
  search.pools = pools?.Pools ?? [];
}

// --- going on -------------------------------------------------------------------------------------------------------

/** Begins a search: what comes at once is in it, and go() finds the rest. */
export async function begin(q, signal) {
  const search = { q, names: new Set(), groups: [], given: [], texts: [], reasons: [], notes: new Set(), ways: [] };
  search.grouped = new Set(); // queues in which the group was looked for
  [search.queues] = await Promise.all([likelyQueues(q, signal), lists(search, signal)]);
  await likelyGroups(search, signal);
  const way = () => {
    search.ways.push({ messages: 0 });
    return search.ways.at(-1);
  };
  const steps = [queuesByName(search, signal), reasons(search, signal)];
  if (may("FindMessage") && q !== "") {
    const along = (members, list) =>
      steps.push(likelyMessages(search, members, list, signal), messages(search, members, list, way(), signal));
    if (UUID.test(q)) along({ OutboxId: q }, search.given);
    if (PLAIN.test(q)) along({ MessageDeduplicationId: q }, search.given);
    along({ Text: someWords(search) }, search.texts);
  }
  await Promise.all(steps.map(async (step) => (step.isOver = (await step.next()).done)));
  search.left = steps.filter((step) => !step.isOver);
  return search;
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A page that nobody sees, or that is paused, waits. */
async function untilSeen(visit, signal) {
  while (!signal.aborted && (document.hidden || visit.isPaused())) await sleep(DRAW_MS);
}

/** Goes on with it, a step of each in turn, until it is over or stopped. The server rests for twice as long as it has
 *  worked, so others keep most of its time. */
export async function go(search, visit, signal) {
  search.isStopped = false;
  search.trouble = null;
  let drawnAt = performance.now();
  while (search.left.length > 0 && !search.isStopped && !signal.aborted) {
    await untilSeen(visit, signal);
    const step = search.left.shift();
    const begun = performance.now();
    try {
      if (!(await step.next()).done) search.left.push(step);
    } catch (error) {
      if (signal.aborted) return;
      search.trouble = error.message;
      search.isStopped = true;
    }
    const ended = performance.now();
    if (ended - drawnAt > DRAW_MS && !signal.aborted) {
      visit.draw();
      drawnAt = ended;
    }
    await sleep(Math.max(REST_MS, 2 * (ended - begun)));
  }
  if (!signal.aborted) visit.draw();
}

/** How far it is: that of the way that is least far. "120 of 5,000 queues, 24,000 messages" */
export function progress({ ways, left }) {
  const part = ({ queues, of }) => (of > 0 ? queues / of : 0);
  const way = ways.toSorted((a, b) => part(a) - part(b))[0];
  if (!way) return null;
  const messages = plural(way.messages, "message");
  if (way.of === undefined) return { words: messages, part: left.length > 0 ? undefined : 1 };
  return { words: `${count(way.queues)} of ${plural(way.of, "queue")}, ${messages}`, part: part(way) };
}
