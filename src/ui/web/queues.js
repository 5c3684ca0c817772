// Which queue is behind, and does anybody work?
import { h, hidden } from "./dom.js";
import { look } from "./api.js";
import { filters, heading, nothing, pages, queueLink, section, chip, table } from "./parts.js";
import { byAge, deadLetterQueues, delayed, isPaused, kept, oldest, waiting } from "./stats.js";
import { age, aged, count, plural, rate } from "./words.js";

export const OLD_S = 600;
const SHOWN_MAX = 200;
const MANY_S = 10;

/** There are messages, and none of them can be received now. */
export const isWithheld = (queue) => oldest(queue) === undefined && queue.OldestMessageAge !== undefined;

/** The age of the oldest message that can be received; where there is none, of the oldest, marked. */
export function oldestCell(queue, more) {
  if (!isWithheld(queue)) return aged(oldest(queue), more);
  const title = "nothing can be received now";
  return h("span.soft", { title }, aged(queue.OldestMessageAge), " *", hidden(title));
}

/** What " *" in the column Oldest means, if it stands there. */
const noteOf = (queues) =>
  queues.some(isWithheld) &&
  h("p.more", null, "* nothing of this queue can be received now");

/** [name, class, cell] */
const COLUMNS = [
  [
    "Oldest",
    "number",
    (queue, isTarget) =>
      oldestCell(queue, { class: oldest(queue) > OLD_S && !isPaused(queue) && !isTarget ? "bad" : null }),
  ],
  ["Visible", "number", (queue) => count(queue.Visible)],
  ["In flight", "number", (queue) => count(queue.InFlight)],
  ["Delayed", "number wide", (queue) => count(delayed(queue))],
  ["Waits for others", "number wide", (queue) => count(waiting(queue))],
  ["In/s", "number wide", (queue) => rate(queue.SentPerSecond)],
  ["Out/s", "number wide", (queue) => rate(queue.DeletedPerSecond)],
  ["Failed/s", "number wide", (queue) => rate(queue.FailedPerSecond)],
  ["Polls", "number wide", (queue) => count(queue.WaitingReceives)],
  ["Last receive", "number wide", (queue) => age(queue.LastReceiveAt) || "never"],
  ["Dead letters to", "wide", (queue) => queue.DeadLetterQueue && queueLink(queue.DeadLetterQueue)],
];

export function queueTable(label, queues, targets) {
  const chips = (queue) =>
    [
      queue.HeldGroups > 0 && chip(plural(queue.HeldGroups, "group"), " held"),
      isPaused(queue) && chip("paused"),
      targets.has(queue.QueueName) && chip("dead letters"),
    ]
      .filter(Boolean)
      .map((one) => [" ", one]);
  return [
    table(
      label,
      ["Queue", ...COLUMNS],
      queues.map((queue) => [
        [queueLink(queue.QueueName, true), chips(queue)],
        ...COLUMNS.map(([, , cell]) => cell(queue, targets.has(queue.QueueName))),
      ]),
      queues.map((queue) => queue.QueueName),
    ),
    noteOf(queues),
  ];
}

export default {
  title: () => "Queues",

  async load({ query }, visit, signal) {
    if (query.sort !== "name") {
      const seconds = visit.hasMore ? MANY_S : 0; // to put many in order costs the server milliseconds
      const told = await kept(visit, query.prefix, seconds, () => byAge(signal, query.prefix, SHOWN_MAX));
      visit.hasMore = told.hasMore;
      return told;
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
    return { queues: reply?.Queues ?? [], next: reply?.NextToken };
  },

  draw({ queues, hasMore, next }, { query }) {
    const note =
      `${plural(queues.length, "queue")} ` +
      `shown${hasMore ? ", the oldest message first; filter by name for others" : ""}`;
    return [
      heading("Queues"),
      filters(query, [
        ["prefix", "Name begins with", "any"],
        ["sort", "Order", ["age", "name"]],
      ]),
      section(
        "Queues",
        note,
        queues.length > 0
          ? queueTable("Queues", queues, deadLetterQueues(queues))
          : nothing(
              query.prefix
                ? "No queue has a name that begins with this."
                : "There is no queue yet: the first CreateQueue or tally queue create makes one.",
            ),
      ),
      pages(query, next),
    ];
  },
};
