// Finds one thing by what a person has of it: an id, a name, a group, a text in it, a word of a failure.
import { h } from "./dom.js";
import { find, look, may } from "./api.js";
import { inLists } from "./body.js";
import { batchLink, groupLink, heading, messageTable, nothing, queueLink, section } from "./parts.js";
import { row, to } from "./route.js";
import { byAge, failures, fullDeadLetterQueues, heldQueues } from "./stats.js";
import { count, nameOf, plural, quoted } from "./words.js";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const PLAIN = /^[\x21-\x7e]{1,128}$/; // what group and deduplication ids consist of
const QUEUES_MAX = 30;
const CALLS_MAX = 5;
const SHOWN_MAX = 100;
const WORDS_MAX = 16; // of a text
const TEXT_MAX = 256; // bytes

/** What is asked of each queue. `parts` notes where not all was looked at: parts.add("30 of 40 queues for groups"). */
async function each(queues, ask, parts, what, most = QUEUES_MAX) {
  if (queues.length > most) parts.add(`${most} of ${plural(queues.length, "queue")} for ${what}`);
  const told = await Promise.all(queues.slice(0, most).map((queue) => ask(queue)));
  return told.flatMap((one) => one ?? []);
}

async function messages(members, signal, parts, where, what = "ids") {
  const found = [];
  for (let i = 0, NextToken; i < CALLS_MAX; i++) {
    const reply = await find("FindMessage", { ...members, Body: inLists(), NextToken }, signal);
    found.push(...(reply?.Messages ?? []));
    if (!reply || reply.IsComplete) return found;
    NextToken = reply.NextToken;
  }
  parts.add(`the oldest messages of ${where} for ${what}`);
  return found;
}

/** Messages by an id that somebody gave them: deduplication id, outbox id. */
async function byGivenId(q, queues, signal, parts) {
  if (!PLAIN.test(q) || !may("FindMessage")) return [];
  const outbox = UUID.test(q) ? await messages({ OutboxId: q }, signal, parts, "all queues") : [];
  const given = await each(
    queues,
    ({ QueueUrl, QueueName }) => messages({ QueueUrl, MessageDeduplicationId: q }, signal, parts, QueueName),
    parts,
    "ids",
  );
  return [...outbox, ...given];
}

/** As many words as a server looks for. */
function someWords(q, parts) {
  const words = q.split(/\s+/);
  const isTooMuch = () => words.length > WORDS_MAX || new TextEncoder().encode(words.join(" ")).length > TEXT_MAX;
  if (!isTooMuch()) return q;
  while (words.length > 1 && isTooMuch()) words.pop();
  parts.add(`the first ${plural(words.length, "word")} for texts`);
  return words.join(" ");
}

async function byText(q, queues, signal, parts) {
  if (q === "" || !may("FindMessage")) return [];
  const Text = someWords(q, parts);
  const ask = ({ QueueUrl, QueueName }) => messages({ QueueUrl, Text }, signal, parts, QueueName, "texts");
  return (await each(queues, ask, parts, "texts")).slice(0, SHOWN_MAX);
}

async function byGroup(q, queues, signal, parts) {
  if (!PLAIN.test(q)) return [];
  const having = queues.filter((queue) => queue.Groups > 0);
  const ask = async ({ QueueUrl, QueueName }) => {
    const page = await find("ListMessages", { QueueUrl, MessageGroupId: q, Body: inLists(), MaxResults: 100 }, signal);
    if (page?.NextToken && page.Messages.length === 0) parts.add(`the oldest messages of ${QueueName} for groups`);
    return page?.Messages.length > 0
      ? [{ queue: QueueName, messages: page.Messages, hasMore: Boolean(page.NextToken) }]
      : [];
  };
  return each(having, ask, parts, "groups");
}

async function byReason(q, signal, parts) {
  const word = q.toLowerCase();
  const dead = await fullDeadLetterQueues(signal);
  const ask = async ({ QueueUrl, QueueName }) => {
    const told = await failures(QueueUrl, signal);
    if (told?.IsComplete === false) parts.add(`a part of ${QueueName} for failures`);
    return told?.Reasons.filter((one) => one.Reason.toLowerCase().includes(word)).map((one) => ({
      ...one,
      queue: QueueName,
    }));
  };
  return each(dead, ask, parts, "failures", 10);
}

function drawParts(parts) {
  return h(
    "section",
    null,
    h(
      "p.more",
      null,
      `Not all was looked at: only ${parts.slice(0, 5).join(", ")}${parts.length > 5 ? " and so on" : ""}. `,
      h("code", null, "tally find --text TEXT"),
      " looks through all, and ",
      h("code", null, "--queue QUEUE --dedup ID"),
      " through a whole queue for an id.",
    ),
  );
}

function noText(q, parts) {
  const isOne = !/\s/.test(q);
  const words = isOne ? "this word" : "these words";
  return (
    (parts.length > 0 ? `No message with ${words} was found. ` : `No message has ${words}. `) +
    `Bodies are searched as they were sent${isOne ? "" : "; try one word of it"}. `
  );
}

export default {
  isStill: true,
  title: ({ query }) => `Find ${query.q ?? ""}`,

  async load({ query }, visit, signal) {
    const q = (query.q ?? "").trim();
    if (UUID.test(q)) {
      const told = await find("ExplainMessage", { MessageId: q.toLowerCase() }, signal);
      if (told && told.State !== "unknown") return { id: q.toLowerCase() };
    }
    if (/^https?:\/\//.test(q)) return { queue: nameOf(q) };
    const [held, { queues: old, hasMore }] = await Promise.all([heldQueues(signal), byAge(signal)]);
    const queues = [...new Map([...held, ...old].map((queue) => [queue.QueueName, queue])).values()];
    const parts = new Set();
    if (hasMore) parts.add(`the ${count(queues.length)} queues with the oldest messages`);
    const [named, batches, schedules, pools, groups, given, texts, reasons] = await Promise.all([
      look("ListQueueStats", { QueueNamePrefix: q, MaxResults: 50 }, signal),
      PLAIN.test(q) && find("ListBatches", { Prefix: q, MaxResults: 20 }, signal),
      find("ListSchedules", { Prefix: q, MaxResults: 20 }, signal),
      find("ListPools", { Prefix: q, MaxResults: 20 }, signal),
      byGroup(q, queues, signal, parts),
      byGivenId(q, queues, signal, parts),
      byText(q, queues, signal, parts),
      byReason(q, signal, parts),
    ]);
    const inside = queues.filter((queue) => queue.QueueName.toLowerCase().includes(q.toLowerCase()));
    const names = [...new Set([...(named?.Queues ?? []), ...inside].map((queue) => queue.QueueName))].slice(0, 100);
    const ids = (batches?.Batches ?? []).map((one) => one.BatchId);
    return {
      q,
      names,
      ids,
      schedules: schedules?.Schedules ?? [],
      pools: pools?.Pools ?? [],
      groups,
      given,
      texts,
      reasons,
      parts: [...parts],
      queues,
    };
  },

  draw(data, { query }) {
    if (data.id) location.replace(to("message", data.id));
    if (data.queue) location.replace(to("queue", data.queue));
    if (data.id || data.queue) return nothing("Found.");
    const { q, names, ids, schedules, pools, groups, given, texts, reasons, parts, queues } = data;
    const links = (title, list) =>
      list.length > 0 &&
      section(
        title,
        null,
        h(
          "ul.links",
          null,
          list.map((one) => h("li", null, one)),
        ),
      );
    const isEmpty = [names, ids, schedules, pools, groups, given, texts, reasons].every((list) => list.length === 0);
    return [
      heading(["Find ", quoted(query.q ?? "")]),
      given.length > 0 &&
        section(
          "Messages with this id",
          null,
          given.some((one) => one.State === "ended") && h("p.more", null, "What has ended is only remembered."),
          messageTable(given, null, "Messages with this id", queues),
        ),
      texts.length > 0 &&
        section(
          "Messages with this text",
          "all words in the body, or in an attribute",
          messageTable(texts, null, "With this text", queues),
        ),
      groups.map((one) =>
        section(
          ["Group ", groupLink(one.queue, query.q), " in ", queueLink(one.queue)],
          one.hasMore && `the first ${count(one.messages.length)}`,
          messageTable(one.messages, one.queue, `Group in ${one.queue}`, queues),
        ),
      ),
      links(
        "Queues",
        names.map((name) => queueLink(name, true)),
      ),
      links(
        "Batches",
        ids.map((id) => batchLink(id, true)),
      ),
      links(
        "Schedules",
        schedules.map((one) => row(to("schedules", "", { prefix: one.Name }), one.Name)),
      ),
      links(
        "Pools",
        pools.map((one) => row(to("pool", one.PoolName), one.PoolName)),
      ),
      links(
        "Failures",
        reasons.map((one) => [
          row(to("queue", one.queue, { reason: one.Reason }), quoted(one.Reason, 200)),
          ` ${plural(one.Count, "message")} in ${one.queue}`,
        ]),
      ),
      isEmpty &&
        h(
          "section",
          null,
          nothing(
            may("FindMessage") ? noText(q, parts) : "Nothing is known by that. ",
            "Looked at: message ids, deduplication and outbox ids, texts, groups and failures of queues, names of " +
              "queues, batches, schedules and pools.",
          ),
        ),
      parts.length > 0 && drawParts(parts),
    ];
  },
};
