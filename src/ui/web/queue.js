// What is in a queue, in which order does it come, and why does the rest not come?
import { h } from "./dom.js";
import { call, can, find, look, may } from "./api.js";
import { withBodies } from "./body.js";
import { chart } from "./chart.js";
import { reasonTable, redriveAllButton, redriveButton, taskTable, tasksOf, withSamples } from "./dead.js";
import { button, foresee, plain } from "./dialog.js";
import { facts, filters, heading, messageTable, nothing, pages, queueLink, section, stats } from "./parts.js";
import { link, to } from "./route.js";
import { isWithheld } from "./queues.js";
import { delayed, failures, isPaused, kept, oldest, statsOf, waiting } from "./stats.js";
import { age, aged, bytes, count, nameOf, plural, rate, span } from "./words.js";

const SLOW_S = 10;
const STATES = [
  "",
  "ready",
  ["in-flight", "in flight"],
  "delayed",
  ["blocked", "blocked, also by its group or a pause"],
  "held",
];

// --- what can be done -----------------------------------------------------------------------------------------------

function pauseButton({ QueueUrl, QueueName, ...queue }) {
  const action = isPaused(queue) ? "ResumeQueue" : "PauseQueue";
  return (
    can(action) &&
    plain(isPaused(queue) ? "Resume" : "Pause", async () => {
      await call(action, { QueueUrl });
      return isPaused(queue)
        ? `${QueueName} delivers again.`
        : `${QueueName} is paused: sends and deletes go on, deliveries stop until Resume.`;
    })
  );
}

function endingButton(action, label, queue, words) {
  const members = { QueueUrl: queue.QueueUrl };
  return (
    can(action) &&
    button(
      `${label}…`,
      () => ({
        title: `${label} ${queue.QueueName}`,
        button: label,
        typed: queue.QueueName,
        about: foresee(action, members, words, "These would end:"),
        doing: async () => {
          await call(action, members);
          if (action === "DeleteQueue") location.hash = to("queues");
          return action === "DeleteQueue" ? `${queue.QueueName} is deleted.` : `${queue.QueueName} is purged.`;
        },
      }),
      true,
    )
  );
}

function buttons(queue, isTarget) {
  const all = queue.Visible + queue.InFlight + queue.Delayed;
  return [
    isTarget && redriveButton(queue),
    isTarget && redriveAllButton(queue),
    pauseButton(queue),
    endingButton(
      "PurgeQueue",
      "Purge",
      queue,
      `All ${plural(all, "message")} of ${queue.QueueName} end. Units of batches among them fail, and what ` +
        `waits for them hears of a failure. This can't be undone.`,
    ),
    endingButton(
      "DeleteQueue",
      "Delete",
      queue,
      `The queue and its ${plural(all, "message")} end. This can't be undone.`,
    ),
  ];
}

// --- attributes in words --------------------------------------------------------------------------------------------

function parsed(text) {
  try {
    return JSON.parse(text ?? "null");
  } catch {
    return null;
  }
}

function rates(text) {
  const limit = parsed(text);
  if (!limit) return null;
  return Object.entries(limit)
    .map(([of, { rate: each, burst }]) => `${of}: ${each}/s, ${burst ?? Math.ceil(each)} at once`)
    .join("; ");
}

function attributeFacts(attributes, sources) {
  const redrive = parsed(attributes.RedrivePolicy);
  const backoff = parsed(attributes["Tally.Backoff"]);
  const delay = Number(attributes.DelaySeconds);
  return facts([
    ["Visibility timeout", span(Number(attributes.VisibilityTimeout))],
    ["Kept for", span(Number(attributes.MessageRetentionPeriod))],
    ["Delay", delay > 0 && span(delay)],
    [
      "After failures",
      redrive && [
        `${plural(Number(redrive.maxReceiveCount), "attempt")}, then to `,
        queueLink(redrive.deadLetterTargetArn.split(":").pop()),
      ],
    ],
    [
      "Dead letters of",
      sources.length > 0 && sources.slice(0, 20).map((url, i) => [i > 0 && ", ", queueLink(nameOf(url))]),
    ],
    ["When a group's head fails for good", attributes["Tally.OnGroupFailure"]],
    ["Back-off", backoff && `${backoff.min} to ${backoff.max} s, times ${backoff.factor}`],
    ["Rate", rates(attributes["Tally.RateLimit"])],
    [
      "In flight of one group",
      attributes["Tally.GroupConcurrency"] > 0 && `${attributes["Tally.GroupConcurrency"]} at most`,
    ],
    ["Delivery", attributes["Tally.DeliveryMode"] === "at-most-once" && "at most once"],
    ["Old receipt handles", attributes["Tally.StaleReceipts"]],
    [
      "Deduplication window",
      attributes["Tally.DeduplicationWindow"] &&
        (attributes["Tally.DeduplicationWindow"] === "-1"
          ? "for ever"
          : span(Number(attributes["Tally.DeduplicationWindow"]))),
    ],
    ["Largest message", attributes.MaximumMessageSize && bytes(Number(attributes.MaximumMessageSize))],
    ["Made", attributes.CreatedTimestamp && [age(Number(attributes.CreatedTimestamp)), " ago"]],
    ["ARN", h("code", null, attributes.QueueArn)],
  ]);
}

// --- the page -------------------------------------------------------------------------------------------------------

async function loadSlowly(name, queue, visit, signal) {
  const [reply, sources] = await Promise.all([
    look("GetQueueAttributes", { QueueUrl: name, AttributeNames: ["All"] }, signal),
    look("ListDeadLetterSourceQueues", { QueueUrl: name }, signal),
  ]);
  const isTarget = sources?.queueUrls?.length > 0;
  const { DeadLetterQueue } = queue;
  const reasons = isTarget || queue.InFlight + queue.Delayed > 0 ? await failures(name, signal) : null;
  await withSamples([reasons], visit, signal);
  return {
    dead: DeadLetterQueue && (await statsOf(DeadLetterQueue, signal)),
    attributes: reply?.Attributes ?? {},
    sources: sources?.queueUrls ?? [],
    reasons,
    tasks: isTarget ? await tasksOf([queue], signal) : [],
  };
}

export default {
  title: ({ name }) => name,

  async load({ name, query }, visit, signal) {
    const period = query.chart === "day" ? 60 : 5;
    const asked = {
      QueueUrl: name,
      MaxResults: 50,
      State: query.state || undefined,
      MessageGroupId: query.group || undefined,
      Reason: query.reason || undefined,
      BatchId: query.batch || undefined,
      OlderThan: Number(query.older) > 0 ? Number(query.older) : undefined,
      NextToken: query.from || undefined,
    };
    const queue = await statsOf(name, signal);
    if (!queue) return {};
    const [page, series, slow] = await Promise.all([
      look("ListMessages", asked, signal).then((list) => withBodies(list, asked, visit, signal)),
      find("GetSeries", { QueueUrl: name, Period: period, Points: period === 5 ? 720 : 1440 }, signal),
      kept(visit, "slow", SLOW_S, () => loadSlowly(name, queue, visit, signal)),
    ]);
    return { queue, page, series, slow };
  },

  draw({ queue, page, series, slow }, { name, query }) {
    if (!queue)
      return h(
        "section",
        null,
        nothing(
          "There is no queue ",
          h("bdi", null, name),
          ", or this credential does not cover it. ",
          link(to("queues"), "All queues"),
        ),
      );
    const isTarget = slow.sources.length > 0;
    return [
      heading(
        h("bdi", null, name),
        [
          name.endsWith(".fifo") ? "FIFO" : "standard",
          isPaused(queue) && "paused",
          isTarget && "dead letters",
          queue.HeldGroups > 0 && `${plural(queue.HeldGroups, "group")} held`,
        ],
        buttons(queue, isTarget),
      ),
      section(
        "Now",
        null,
        stats([
          [
            "Oldest",
            aged(oldest(queue) ?? queue.OldestMessageAge) || "none",
            isWithheld(queue) && "can't be received now",
          ],
          ["Visible", count(queue.Visible), queue.Groups > 0 && "also behind others of their group"],
          ["In flight", count(queue.InFlight)],
          ["Delayed", count(delayed(queue))],
          waiting(queue) > 0 && ["Waits for others", count(waiting(queue))],
          [
            "Polls",
            count(queue.WaitingReceives),
            queue.WaitingReceives + queue.InFlight === 0 && queue.Visible > 0 && "nobody asks for messages",
          ],
          ["In", `${rate(queue.SentPerSecond)}/s`],
          ["Out", `${rate(queue.DeletedPerSecond)}/s`, `${rate(queue.FailedPerSecond)}/s failed`],
          queue.Groups > 0 && ["Groups", link(to("groups", "", { queue: name }), count(queue.Groups))],
        ]),
      ),
      series &&
        section(
          series.Period === 60 ? "Last day" : "Last hour",
          link(
            to("queue", name, { ...query, chart: series.Period === 60 ? "" : "day" }),
            series.Period === 60 ? "the last hour" : "the last day",
          ),
          h(
            "div.charts",
            null,
            chart(
              "In and out",
              [
                { name: "sent", points: series.Sent, kind: "wait" },
                { name: "deleted", points: series.Deleted, kind: "good" },
              ],
              series.Period,
            ),
            chart(
              "Waiting",
              [
                { name: "visible", points: series.Visible },
                { name: "in flight", points: series.InFlight, kind: "wait" },
              ],
              series.Period,
            ),
            chart("Oldest message", [{ name: "age", points: series.OldestAge, kind: "warn" }], series.Period, span),
            chart("Failed", [{ name: "failed", points: series.Failed, kind: "bad" }], series.Period),
          ),
        ),
      slow.reasons?.Reasons.length > 0 &&
        section(
          "Why messages failed",
          slow.reasons.IsComplete ? "most first" : `of the ${count(slow.reasons.Looked)} oldest`,
          reasonTable(queue, slow.reasons, isTarget),
        ),
      slow.tasks.length > 0 && section("Move tasks", "the newest first", taskTable(slow.tasks)),
      drawMessages(page, name, query, slow.dead, queue),
      section("How it works", null, attributeFacts(slow.attributes, slow.sources)),
    ];
  },
};

/** The dead-letter queue may be that of others too. */
const elsewhere = ({ QueueName, Visible }) => [
  ` ${plural(Visible, "dead letter is", "dead letters are")} in `,
  queueLink(QueueName),
  ".",
];

function drawMessages(page, name, query, dead, queue) {
  if (!page)
    return section(
      "Messages",
      null,
      nothing(may("ListMessages") ? "" : "To see messages needs the right read, which this credential lacks."),
    );
  const isFiltered = ["state", "group", "reason", "batch", "older"].some((key) => query[key]);
  return section(
    "Messages",
    "the oldest first; looking changes nothing",
    filters(query, [
      ["state", "State", STATES],
      ["group", "Group", "its whole name"],
      ["reason", "Reason begins with", ""],
      ["batch", "Batch", "its id"],
      ["older", "Older than (s)", ""],
    ]),
    page.Messages.length > 0
      ? messageTable(page.Messages, name, undefined, [queue])
      : nothing(
          page.NextToken
            ? "None so far: the server looked at 10,000 messages. Go on."
            : isFiltered
              ? "No message fits the filter."
              : ["The queue is empty.", dead?.Visible > 0 && elsewhere(dead)],
        ),
    pages(query, page.NextToken),
  );
}
