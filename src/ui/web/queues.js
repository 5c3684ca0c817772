// Which queue is behind, and does anybody work?
import { look } from "./api.js";
import { filters, heading, nothing, pages, queueLink, section, chip, table } from "./parts.js";
import { byAge, deadLetterQueues, heldGroups, isPaused, kept, oldest } from "./stats.js";
import { age, aged, count, plural, rate } from "./words.js";

export const OLD_S = 600;
const SHOWN_MAX = 200;

/** The columns that the server knows something of. */
const COLUMNS = [
  [
    "Oldest",
    "number",
    (queue, isTarget) =>
      aged(oldest(queue), { class: oldest(queue) > OLD_S && !isPaused(queue) && !isTarget ? "bad" : null }),
  ],
  ["Visible", "number", (queue) => count(queue.Visible)],
  ["In flight", "number", (queue) => count(queue.InFlight)],
  ["Delayed", "number wide", (queue) => count(queue.Delayed)],
  ["Blocked", "number", (queue) => queue.Blocked !== undefined && count(queue.Blocked)],
  ["In/s", "number", (queue) => queue.SentPerSecond !== undefined && rate(queue.SentPerSecond)],
  ["Out/s", "number", (queue) => queue.DeletedPerSecond !== undefined && rate(queue.DeletedPerSecond)],
  ["Failed/s", "number wide", (queue) => queue.FailedPerSecond !== undefined && rate(queue.FailedPerSecond)],
  ["Receives that wait", "number wide", (queue) => count(queue.WaitingReceives)],
  ["Last receive", "number wide", (queue) => queue.LastReceiveAt !== undefined && age(queue.LastReceiveAt)],
  ["Dead letters go to", "wide", (queue) => queue.DeadLetterQueue && queueLink(queue.DeadLetterQueue)],
];

export function queueTable(label, queues, { held = [], targets = new Map() } = {}) {
  const columns = COLUMNS.filter(([, , cell]) =>
    queues.some((queue) => {
      const made = cell(queue);
      return made !== false && made !== undefined;
    }),
  );
  const chips = (queue) => {
    const groups = queue.HeldGroups ?? held.filter((group) => group.QueueName === queue.QueueName).length;
    return [
      groups > 0 && chip(plural(groups, "group"), " held"),
      isPaused(queue) && chip("paused"),
      targets.has(queue.QueueName) && chip("dead letters"),
    ]
      .filter(Boolean)
      .map((one) => [" ", one]);
  };
  return table(
    label,
    ["Queue", ...columns.map(([name, kind]) => [name, kind])],
    queues.map((queue) => [
      [queueLink(queue.QueueName, true), chips(queue)],
      ...columns.map(([, , cell]) => cell(queue, targets.has(queue.QueueName))),
    ]),
    queues.map((queue) => queue.QueueName),
  );
}

export default {
  title: () => "Queues",

  async load({ query }, visit, signal) {
    if (query.sort !== "name") {
      const told = await byAge(signal, query.prefix, SHOWN_MAX);
      const isTold = told.queues.every((queue) => queue.HeldGroups !== undefined);
      return { ...told, held: isTold ? [] : await kept(visit, "held", 10, () => heldGroups(told.queues, signal)) };
    }
    const reply = await look(
      "ListQueueStats",
      {
        SortBy: "name",
        MaxResults: SHOWN_MAX,
        QueueNamePrefix: query.prefix || undefined,
        NextToken: query.from || undefined,
      },
      signal,
    );
    return { queues: reply?.Queues ?? [], next: reply?.NextToken, held: [] };
  },

  draw({ queues, hasMore, next, held }, { query }) {
    const note =
      `${plural(queues.length, "queue")} ` +
      `shown${hasMore ? ", the oldest message first; filter by name for others" : ""}`;
    return [
      heading("Queues"),
      filters(query, [
        ["prefix", "Name begins with", "orders-"],
        ["sort", "Order", ["age", "name"]],
      ]),
      section(
        "Queues",
        note,
        queues.length > 0
          ? queueTable("Queues", queues, { held, targets: deadLetterQueues(queues) })
          : nothing(
              query.prefix
                ? "No queue's name begins so."
                : "There is no queue yet: the first CreateQueue or tally queue create makes one.",
            ),
      ),
      pages(query, next),
    ];
  },
};
