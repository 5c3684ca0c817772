// What failed, with what error, and what happens when it is tried again?
import { h } from "./dom.js";
import { call, can, find, hasFilters, look, takesFilters } from "./api.js";
import { mode } from "./body.js";
import { button, foresee, plain } from "./dialog.js";
import { begin, filters, heading, messageLink, nothing, queueLink, section, state, table } from "./parts.js";
import { row, to } from "./route.js";
import { failures, fullDeadLetterQueues, kept, statsOf, unasked } from "./stats.js";
import { age, count, nameOf, plural, quoted } from "./words.js";

const FIRST = 10;
const SLOW_S = 10;
const SHOWN_MAX = 20; // queues
const SAMPLES_MAX = 20; // bodies
const TARGETS_MAX = 5;

/** The ARN of a queue; the region in it may be any. */
export const arnOf = (queueUrl) => `arn:aws:sqs:us-east-1:${queueUrl.split("/").at(-2)}:${nameOf(queueUrl)}`;

/** Of the queues that messages go back to: those that nobody asks. */
async function idleTargets({ Queues = [] }) {
  const names = Queues.slice(0, TARGETS_MAX).map(({ QueueUrl }) => nameOf(QueueUrl));
  const told = await Promise.all(names.map((name) => statsOf(name)));
  const silences = told.map((queue, i) => unasked(queue, names[i])).filter(Boolean);
  return silences.map((words) => h("p", null, "They will wait there: ", h("bdi", null, words), "."));
}

function redrive(queue, title, filter, words, rate) {
  const members = { SourceArn: arnOf(queue.QueueUrl), ...filter };
  return {
    title,
    button: "Redrive",
    isDanger: false,
    about: foresee("StartMessageMoveTask", members, words, "The server would move:", idleTargets),
    form:
      rate &&
      h(
        "p",
        null,
        h("label", { for: "rate" }, "At most so many a second (1 to 500; empty: as fast as it goes)"),
        h("input", { id: "rate", name: "rate", inputmode: "numeric", pattern: "[0-9]*", value: "10" }),
      ),
    doing: async (dialog) => {
      const number = Number(dialog.querySelector("#rate")?.value ?? 0);
      if (Object.keys(filter).length > 0 && !(await takesFilters()))
        throw new Error("Nothing is moved: the server that has the queue now is older and would move all of them.");
      await call("StartMessageMoveTask", number > 0 ? { ...members, MaxNumberOfMessagesPerSecond: number } : members);
      return `A task moves dead letters of ${queue.QueueName} back. Stop it under Dead letters.`;
    },
  };
}

const BACK =
  "Each goes back to the queue that it failed in, and is tried again with a receive count of 0. What was moved " +
  "stays moved when the task is stopped.";

const isFew = (all) => all <= FIRST;

/** Ten first, where the server can choose; else all. */
export function redriveButton(queue, reason, all = queue.Visible) {
  if (!can("StartMessageMoveTask") || all === 0) return null;
  const only = reason === undefined ? {} : { Reason: reason };
  const said = reason === undefined ? "" : " with this reason";
  if (!hasFilters()) return reason === undefined ? redriveAllButton(queue) : null;
  const some = Math.min(FIRST, all);
  return button(`Redrive ${some}${isFew(all) ? "" : " first"}…`, () =>
    redrive(
      queue,
      `Redrive ${plural(some, "dead letter")} of ${queue.QueueName}`,
      { ...only, MaxMessages: some },
      `The oldest${said} first. ${BACK}`,
    ),
  );
}

export function redriveAllButton(queue, reason, all = queue.Visible) {
  if (!can("StartMessageMoveTask") || (reason !== undefined && !hasFilters())) return null;
  if (hasFilters() && isFew(all)) return null; // the other button has all of them
  const only = reason === undefined ? {} : { Reason: reason };
  return button(reason === undefined ? "Redrive all…" : "Redrive these…", () =>
    redrive(
      queue,
      `Redrive dead letters of ${queue.QueueName}`,
      only,
      `All ${reason === undefined ? "of them" : "with this reason"}, the oldest first. ${BACK}`,
      true,
    ),
  );
}

export function redriveOne(queueUrl, MessageId) {
  if (!can("StartMessageMoveTask") || !hasFilters()) return null;
  const queue = { QueueUrl: queueUrl, QueueName: nameOf(queueUrl) };
  return button("Redrive…", () =>
    redrive(
      queue,
      "Redrive this message",
      { MessageIds: [MessageId] },
      "It goes back to the queue that it failed in, and is tried again with a receive count of 0.",
    ),
  );
}

// --- tasks ----------------------------------------------------------------------------------------------------------

export async function tasksOf(queues, signal) {
  const lists = await Promise.all(
    queues
      .slice(0, 20)
      .map((queue) => look("ListMessageMoveTasks", { SourceArn: arnOf(queue.QueueUrl), MaxResults: 10 }, signal)),
  );
  return lists.flatMap((reply) => reply?.Results ?? []).toSorted((a, b) => b.StartedTimestamp - a.StartedTimestamp);
}

export function taskTable(tasks) {
  return table(
    "Move tasks",
    ["Began", "From", "To", "State", "Moved", ""],
    tasks.map((task) => {
      const moved = task.ApproximateNumberOfMessagesMoved ?? 0;
      const all = task.ApproximateNumberOfMessagesToMove ?? 0;
      return [
        age(task.StartedTimestamp / 1000),
        queueLink(task.SourceArn.split(":").pop()),
        task.DestinationArn ? queueLink(task.DestinationArn.split(":").pop()) : "where each failed",
        [
          state(task.Status, `${task.Kind ?? "move"}: ${task.Status.toLowerCase()}`),
          task.FailureReason && h("div.bad", null, task.FailureReason),
        ],
        [
          h("progress", { value: String(moved), max: String(Math.max(1, all)), "aria-label": "moved" }),
          ` ${count(moved)} of ${count(all)}`,
          task.Refused > 0 && h("div.warn", null, `${plural(task.Refused, "message")} had to stay`),
        ],
        task.TaskHandle &&
          task.Status === "RUNNING" &&
          can("CancelMessageMoveTask") &&
          plain("Stop", async () => {
            const reply = await call("CancelMessageMoveTask", { TaskHandle: task.TaskHandle });
            return (
              `The task is stopped; it has moved ` +
              `${plural(reply.ApproximateNumberOfMessagesMoved ?? 0, "message")}.`
            );
          }),
      ];
    }),
  );
}

// --- the page -------------------------------------------------------------------------------------------------------

/** Notes in the first reasons how the body of an example begins. Each is asked for once: it does not change. */
export async function withSamples(lists, visit, signal) {
  if (mode() === "hidden") return;
  visit.samples ??= new Map();
  const reasons = lists.flatMap((told) => told?.Reasons ?? []).slice(0, SAMPLES_MAX);
  const note = async (one) => {
    const [MessageId] = one.MessageIds;
    if (!visit.samples.has(MessageId))
      visit.samples.set(MessageId, (await find("GetMessage", { MessageId, Body: "preview" }, signal))?.Body);
    one.Body = visit.samples.get(MessageId);
  };
  await Promise.all(reasons.map(note));
}

/** isDead: these are dead letters, so they can be redriven. */
export function reasonTable(queue, told, isDead) {
  const acts = ({ Reason, Count }) => [redriveButton(queue, Reason, Count), redriveAllButton(queue, Reason, Count)];
  return table(
    `Reasons in ${queue.QueueName}`,
    [["Count", "number"], "Reason", "Newest", ["Oldest", "wide"], ["For example", "below"], ""],
    told.Reasons.map((one) => [
      count(one.Count),
      row(to("queue", queue.QueueName, { reason: one.Reason.slice(0, 1000) }), quoted(one.Reason, 160)),
      age(one.NewestAt),
      age(one.OldestAt),
      [one.MessageIds.slice(0, 2).map((id) => [messageLink(id), " "]), mode() !== "hidden" && begin(one.Body)],
      isDead && h("span.acts", null, acts(one)),
    ]),
  );
}

function drawQueue({ queue, told, sources }) {
  const note =
    `${plural(queue.Visible + queue.Delayed, "message")}, from ` +
    `${sources.length > 0 ? sources.join(", ") : "queues that are gone"}`;
  const silent = told && (told.WithoutReason ?? told.Looked - told.Failed);
  const rest = silent > 0 ? `${count(silent)} have no reason: whoever received them did not call FailMessage.` : "";
  return h(
    "section",
    { "data-key": queue.QueueName },
    h(
      "h2",
      null,
      h("span", null, queueLink(queue.QueueName)),
      h("small", null, note),
      h("span.acts", null, redriveButton(queue), hasFilters() && redriveAllButton(queue)),
    ),
    told === null
      ? nothing("Reasons are in messages: this credential lacks the right read.")
      : told.Reasons.length > 0
        ? reasonTable(queue, told, true)
        : nothing(queue.Visible > 0 ? "None of these messages has a reason." : "Empty."),
    told &&
      (rest || !told.IsComplete) &&
      h("p.more", null, rest, !told.IsComplete && ` Of the ${count(told.Looked)} oldest; there are more.`),
  );
}

async function loadSlowly(query, visit, signal) {
  const all = query.queue ? [await statsOf(query.queue, signal)] : await fullDeadLetterQueues(signal);
  const dead = all.filter(Boolean).slice(0, SHOWN_MAX);
  const of = (ask) => Promise.all(dead.map(({ QueueUrl }) => ask(QueueUrl)));
  const [told, sources] = await Promise.all([
    of((QueueUrl) => failures(QueueUrl, signal)),
    of((QueueUrl) => find("ListDeadLetterSourceQueues", { QueueUrl, MaxResults: 20 }, signal)),
  ]);
  await withSamples(told, visit, signal);
  return {
    hasMore: all.length > SHOWN_MAX,
    dead: dead.map((queue, i) => ({ queue, told: told[i], sources: (sources[i]?.queueUrls ?? []).map(nameOf) })),
  };
}

export default {
  title: () => "Dead letters",

  async load({ query }, visit, signal) {
    const slow = await kept(visit, `slow ${query.queue}`, SLOW_S, () => loadSlowly(query, visit, signal));
    return { ...slow, tasks: await tasksOf(slow.dead.map(({ queue }) => queue), signal) };
  },

  draw({ dead, hasMore, tasks }, { query }) {
    return [
      heading("Dead letters"),
      filters(query, [["queue", "Only of queue", "any"]]),
      dead.length === 0 &&
        h(
          "section",
          null,
          query.queue ? nothing("There is no such queue.") : h("p.calm", null, "No dead-letter queue has a message."),
        ),
      dead.map(drawQueue),
      hasMore && nothing(`These are the ${SHOWN_MAX} with the most messages. Name a queue to see another one.`),
      tasks.length > 0 && section("Move tasks", "the newest first", taskTable(tasks)),
    ];
  },
};
