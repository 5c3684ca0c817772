// Finds one thing by what a person has of it: an id, a name, a group, a word of a failure.
import { h } from "./dom.js";
import { find, look, may } from "./api.js";
import { batchLink, groupLink, heading, messageTable, nothing, queueLink, section } from "./parts.js";
import { row, to } from "./route.js";
import { byAge, deadLetterQueues } from "./stats.js";
import { nameOf, plural, quoted } from "./words.js";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const PLAIN = /^[\x21-\x7e]{1,128}$/; // what group and deduplication ids consist of
const QUEUES_MAX = 30;

async function each(queues, ask) {
  const told = await Promise.all(queues.slice(0, QUEUES_MAX).map((queue) => ask(queue)));
  return told.flatMap((one) => one ?? []);
}

/** Messages by an id that somebody gave them: deduplication id, outbox id. */
async function byGivenId(q, queues, signal) {
  if (!PLAIN.test(q) || !may("FindMessage")) return [];
  const outbox = UUID.test(q) ? ((await find("FindMessage", { OutboxId: q }, signal))?.Messages ?? []) : [];
  const given = await each(
    queues,
    async ({ QueueUrl }) => (await find("FindMessage", { QueueUrl, MessageDeduplicationId: q }, signal))?.Messages,
  );
  return [...outbox, ...given];
}

async function byGroup(q, queues, signal) {
  if (!PLAIN.test(q)) return [];
  const having = queues.filter((queue) => queue.Groups > 0);
  return each(having, async ({ QueueUrl, QueueName }) => {
    const page = await find("ListMessages", { QueueUrl, MessageGroupId: q, MaxResults: 100 }, signal);
    return page?.Messages.length > 0
      ? [{ queue: QueueName, messages: page.Messages, hasMore: Boolean(page.NextToken) }]
      : [];
  });
}

async function byReason(q, queues, signal) {
  const word = q.toLowerCase();
  const targets = deadLetterQueues(queues);
  const dead = queues.filter((queue) => targets.has(queue.QueueName) && queue.Visible > 0).slice(0, 10);
  return each(dead, async ({ QueueUrl, QueueName }) => {
    const told = (await look("SummarizeFailures", { QueueUrl }, signal)) ?? (await fromMessages(QueueUrl, signal));
    return told.Reasons.filter((one) => one.Reason.toLowerCase().includes(word)).map((one) => ({
      ...one,
      queue: QueueName,
    }));
  });
}

async function fromMessages(QueueUrl, signal) {
  const page = await look("ListMessages", { QueueUrl, MaxResults: 1000 }, signal);
  const reasons = new Map();
  for (const { FailureReason } of page?.Messages ?? [])
    if (FailureReason) reasons.set(FailureReason, (reasons.get(FailureReason) ?? 0) + 1);
  return { Reasons: [...reasons].map(([Reason, Count]) => ({ Reason, Count })) };
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
    if (q.startsWith("http")) return { queue: nameOf(q) };
    const { queues } = await byAge(signal);
    const [named, batches, schedules, pools, groups, given, reasons] = await Promise.all([
      look("ListQueueStats", { QueueNamePrefix: q, MaxResults: 50 }, signal),
      PLAIN.test(q) && find("ListBatches", { Prefix: q, MaxResults: 20 }, signal),
      find("ListSchedules", { Prefix: q, MaxResults: 20 }, signal),
      find("ListPools", { Prefix: q, MaxResults: 20 }, signal),
      byGroup(q, queues, signal),
      byGivenId(q, queues, signal),
      byReason(q, queues, signal),
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
      reasons,
    };
  },

  draw(data, { query }) {
    if (data.id) location.replace(to("message", data.id));
    if (data.queue) location.replace(to("queue", data.queue));
    if (data.id || data.queue) return nothing("Found.");
    const { names, ids, schedules, pools, groups, given, reasons } = data;
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
    const isEmpty = [names, ids, schedules, pools, groups, given, reasons].every((list) => list.length === 0);
    return [
      heading(["Find ", quoted(query.q ?? "")]),
      given.length > 0 &&
        section(
          "Messages with this id",
          null,
          given.some((one) => one.State === "ended") && h("p.more", null, "What has ended is only remembered."),
          messageTable(given, null, "Messages with this id"),
        ),
      groups.map((one) =>
        section(
          ["Group ", groupLink(one.queue, query.q), " in ", queueLink(one.queue)],
          one.hasMore && "the first 100",
          messageTable(one.messages, one.queue, `Group in ${one.queue}`),
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
            "Nothing is known by that. Looked at: message ids, deduplication and outbox ids, groups and " +
              "failures of queues, names of queues, batches, schedules and pools.",
          ),
        ),
    ];
  },
};
