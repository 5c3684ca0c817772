// Where is order 17, why is it stuck, who has it, and what waits for it?
import { h } from "./dom.js";
import { call, can, find, may } from "./api.js";
import { modes, show } from "./body.js";
import { redriveOne } from "./dead.js";
import { button, foresee } from "./dialog.js";
import { takeBackButton } from "./flight.js";
import { findGroup, releaseButtons } from "./groups.js";
import {
  batchLink,
  cause,
  facts,
  groupLink,
  heading,
  holderWords,
  messageLink,
  namesHolder,
  nothing,
  queueLink,
  RELEASED,
  section,
  shortId,
  state,
  stateOf,
  table,
  whyLine,
} from "./parts.js";
import { to } from "./route.js";
import { inQueue, kept, statsOf, unasked } from "./stats.js";
import { age, bytes, clock, count, nameOf, now, plural, quoted, utc, visible } from "./words.js";

const READ_MAX = 65536;
const SLOW_S = 10;

// --- what can be done -----------------------------------------------------------------------------------------------

/** Which line ends has it? A textarea makes LF of all. null: they are mixed or bare CR, and can't be put back. */
function lineEnd(text) {
  if (!text.includes("\r")) return "\n";
  return /\r(?!\n)|(?<!\r)\n/.test(text) ? null : "\r\n";
}

function deleteButton(message) {
  const members = { QueueUrl: message.QueueUrl, MessageIds: [message.MessageId] };
  return (
    can("DeleteMessages") &&
    button(
      "Delete…",
      () => ({
        title: "Delete this message",
        button: "Delete it",
        about: foresee(
          "DeleteMessages",
          members,
          "The message ends, unless somebody receives it before: what is in flight stays. If it is a unit of a " +
            "batch, the unit fails. This can't be undone.",
          "This would end:",
        ),
        doing: async () => {
          await call("DeleteMessages", members);
          return "The message is being deleted.";
        },
      }),
      true,
    )
  );
}

function editButton(message, content) {
  if (!can("ReplaceMessage") || content?.Body === undefined) return null;
  const end = lineEnd(content.Body);
  return (
    end !== null &&
    button("Edit and resend…", () => ({
      title: "Edit and resend",
      button: "Send it, and end the old one",
      isDanger: false,
      about: h(
        "p",
        null,
        "The changed copy goes to ",
        queueLink(message.DeadLetterQueueSource ?? nameOf(message.QueueUrl)),
        message.DeadLetterQueueSource ? ", where this one failed, as a new message" : " as a new message",
        ", and this one ends, in one record: there is never both, nor neither.",
      ),
      form: h(
        "p",
        null,
        h("label", { for: "body" }, "Body"),
        h("textarea", { id: "body", rows: 12, value: content.Body, spellcheck: "false" }),
      ),
      doing: async (dialog) => {
        const reply = await call("ReplaceMessage", {
          QueueUrl: message.QueueUrl,
          MessageId: message.MessageId,
          MessageBody: dialog.querySelector("#body").value.replaceAll("\n", end),
        });
        location.hash = to("message", reply.MessageId);
        return "The changed copy is sent.";
      },
    }))
  );
}

// --- why ------------------------------------------------------------------------------------------------------------

/** Of which queue, after how many attempts, and what sends it back. */
function drawDead({ message, attempts }) {
  const redrive = redriveOne(message.QueueUrl, message.MessageId);
  return [
    h(
      "p",
      null,
      "It is a dead letter of ",
      queueLink(message.DeadLetterQueueSource),
      attempts > 0 && `; ${count(message.ReceiveCount)} of ${plural(attempts, "attempt")} used`,
      message.LastReceivedAt !== undefined && ["; last received ", age(message.LastReceivedAt), " ago"],
      message.FailureReason && ["; the last failure: ", quoted(message.FailureReason, 400)],
      ".",
      redrive && " Redrive sends it back.",
    ),
    redrive && h("p.buttons", null, redrive),
  ];
}

/** Of a message in a held group: what each button would do to it. */
function released(why, { HeadMessageId }, id) {
  const words =
    HeadMessageId === id
      ? "Retry tries this message again. Skip and Cancel the rest give it up."
      : "Retry or Skip lets it go on. Cancel the rest ends this message too.";
  return why.Code === "GroupHeld" ? { ...why, Text: why.Text.replace(RELEASED, words) } : why;
}

/** The one that the batch waits for. */
const drawLastUnit = ({ MessageId, BatchId, Why, ...told }) =>
  h(
    "p",
    null,
    "The last unit of the batch is ",
    BatchId ? ["batch ", batchLink(BatchId)] : messageLink(MessageId),
    ". ",
    Why?.length > 0 ? cause(Why[0]) : told.State === "ready" && whyLine(told),
  );

/** Nobody asks for messages where it would be received next: that keeps it back too, whatever else does. */
function drawSilence({ message, queue, source }) {
  const isDead = message.DeadLetterQueueSource !== undefined;
  const silence = isDead ? unasked(source, source?.QueueName) : unasked(queue);
  const isWaiting = /^(ready|delayed|blocked|held)$/.test(message.State);
  if (!silence || !isWaiting) return null;
  const words = silence[0].toUpperCase() + silence.slice(1);
  return h("li", null, isDead ? `${words}: sent back, it would wait there.` : `${words}.`);
}

function titleOf({ State }, isDead, isGood) {
  if (isGood) return "Nothing keeps it back";
  if (isDead) return "It failed for good";
  return /^(ended|unknown|in-flight)$/.test(State) ? "Where it is" : "Why it is not delivered";
}

/** What stands behind the head of its group. */
const isHeadOf = (group, { QueueUrl }, id) =>
  nameOf(QueueUrl).endsWith(".fifo") && group?.HeadMessageId === id && group.Messages > 1;

function drawWhy(data, id) {
  const { message, queue, group, dependents, lastUnit } = data;
  const name = nameOf(message.QueueUrl);
  const causes = (message.Why ?? []).filter((why) => !(message.DeadLetterQueueSource && why.Code === "Returned"));
  const isDead = message.DeadLetterQueueSource !== undefined;
  const isGood = message.State === "ready" && causes.length === 0 && !isDead;
  const silence = unasked(queue);
  return h(
    "section.why",
    { class: isGood ? "good" : message.State === "held" || isDead ? "bad" : "" },
    h("h2", null, titleOf(message, isDead, isGood)),
    isDead && drawDead(data),
    isGood &&
      h(
        "p",
        null,
        "The next receive of ",
        queueLink(name),
        " may take it. ",
        silence
          ? h("b", null, `But ${silence}.`)
          : queue?.WaitingReceives === 0
            ? h("b", null, "No receive waits now: every worker is busy, or none asks.")
            : `${plural(queue?.WaitingReceives ?? 0, "receive waits", "receives wait")} there now.`,
      ),
    !isGood &&
      h(
        "ol",
        null,
        causes.map((why) =>
          h(
            "li",
            null,
            cause(group?.State === "held" ? released(why, group, id) : why, name, message.MessageGroupId),
          ),
        ),
        drawSilence(data),
      ),
    lastUnit && drawLastUnit(lastUnit),
    message.State === "unknown" &&
      causes.length === 0 &&
      h(
        "p",
        null,
        "No message of this id is known. It never was, it ended long ago, or it is in a queue that this " +
          "credential does not cover.",
      ),
    message.State === "ended" &&
      causes.length === 0 &&
      h("p", null, "It has ended, so long ago that nobody remembers how."),
    message.Holder &&
      !namesHolder(causes) &&
      h(
        "p",
        null,
        "It is held by ",
        holderWords(message.Holder),
        message.Holder.Address && ` at ${message.Holder.Address}`,
        ".",
      ),
    message.State === "in-flight" &&
      can("DeleteMessages") &&
      h("p.soft", null, "What is in flight can't be deleted or edited."),
    isHeadOf(group, message, id) &&
      h(
        "p",
        null,
        plural(group.Messages - 1, "message waits", "messages wait"),
        " behind it in group ",
        groupLink(name, message.MessageGroupId),
        ".",
      ),
    dependents?.Dependents.length > 0 &&
      h(
        "p",
        null,
        `${plural(dependents.Dependents.length, "message waits", "messages wait")} for this one`,
        dependents.NextToken && " or more",
        ".",
      ),
    group?.State === "held" &&
      h(
        "p.buttons",
        null,
        releaseButtons(group, ["retry", "skip", "cancel-rest"], id),
        h("span.soft", null, " Each says first what would happen."),
      ),
  );
}

// --- its life -------------------------------------------------------------------------------------------------------

function events({ message, content }) {
  const by = content?.SenderId && ["by ", h("code", null, content.SenderId)];
  const list = [
    [message.SentAt, "", ["sent ", by, message.BodySize !== undefined && `, ${bytes(message.BodySize)}`]],
  ];
  if (message.BatchId) list.push([message.SentAt, "", ["a unit of batch ", batchLink(message.BatchId)]]);
  if (message.FirstReceivedAt !== undefined && message.ReceiveCount > 1)
    list.push([message.FirstReceivedAt, "", "received for the first time"]);
  if (message.LastReceivedAt !== undefined)
    list.push([message.LastReceivedAt, "", `received, attempt ${count(message.ReceiveCount)}`]);
  if (message.FailureReason)
    list.push([undefined, "bad", ["the newest attempt failed: ", quoted(message.FailureReason, 600)]]);
  if (message.DeadLetterQueueSource)
    list.push([undefined, "bad", ["dead-lettered from ", queueLink(message.DeadLetterQueueSource)]]);
  for (const why of message.Why ?? [])
    if (why.Code === "GroupHeld" && why.Since) list.push([why.Since, "bad", "its group was held"]);
  return list;
}

const CHANGES = {
  Delayed: "becomes visible",
  BackOff: "becomes visible",
  InFlight: "becomes visible, unless it is deleted before",
  GroupHead: "the head of its group becomes visible, unless it has ended",
  GroupRate: "the rate of its group lets the next one through",
  QueueRate: "the rate of the queue lets the next one through",
  Message: "what it waits for becomes visible, unless it has ended",
};

function drawLife(data) {
  const { message } = data;
  if (message.SentAt === undefined) return null;
  const next = (message.Why ?? []).find((why) => why.Until > now() && CHANGES[why.Code]);
  const line = (at, kind, words) => [
    h(
      "dt",
      null,
      at === undefined
        ? ""
        : h("time", { datetime: new Date(at * 1000).toISOString(), title: utc(at) }, clock(at)),
    ),
    h("dd", { class: kind }, words),
  ];
  return section(
    "Its life",
    null,
    h(
      "dl.line",
      null,
      events(data).map((one) => line(...one)),
      h("dt", null, "now"),
      h("dd.wait", null, stateOf(message), message.ReceiveCount === 0 && ", never delivered"),
      next && [h("dt", null, age(next.Until)), h("dd", null, CHANGES[next.Code])],
    ),
  );
}

// --- the page -------------------------------------------------------------------------------------------------------

/** Attributes and body: once, and of a large message when a person asks. */
async function loadContent(id, message, visit, signal) {
  if (!may("GetMessage") || message.QueueUrl === undefined || visit.content) return;
  const preview = await find("GetMessage", { MessageId: id, Body: "preview" }, signal);
  const isSmall = preview?.BodySize <= READ_MAX;
  visit.content =
    isSmall || visit.wants ? await find("GetMessage", { MessageId: id, Body: "full" }, signal) : preview;
  visit.isWhole = isSmall || visit.wants;
}

const tokenOf = ({ Why }) => (Why ?? []).find((why) => why.Code === "InFlight")?.Delivery;

/** How many attempts the queue gives a message, as far as this caller may know. */
const attemptsOf = (QueueUrl, visit, signal) =>
  QueueUrl &&
  kept(visit, "attempts", SLOW_S, async () => {
    const told = await find("GetQueueAttributes", { QueueUrl, AttributeNames: ["RedrivePolicy"] }, signal);
    return Number(JSON.parse(told?.Attributes?.RedrivePolicy ?? "{}").maxReceiveCount ?? 0);
  });

/** The last unit of a batch that the message waits for, and why that has not ended. */
async function lastUnitOf({ Why = [] }, signal) {
  const wait = Why.find(({ Code, Remaining }) => Code === "Batch" && Remaining === 1);
  if (!wait) return null;
  const asked = { BatchId: wait.BatchId, State: "outstanding", MaxResults: 1 };
  const unit = (await find("ListUnits", asked, signal))?.Units[0];
  if (!unit?.MessageId) return unit?.BatchId && unit;
  return { ...(await find("ExplainMessage", { MessageId: unit.MessageId }, signal)), MessageId: unit.MessageId };
}

export default {
  title: ({ name }) => `Message ${shortId(name)}`,

  async load({ name: id }, visit, signal) {
    const message = may("GetMessage")
      ? await call("GetMessage", { MessageId: id, Body: "none" }, signal)
      : await call("ExplainMessage", { MessageId: id }, signal);
    await loadContent(id, message, visit, signal);
    const QueueUrl = message.QueueUrl;
    const [queue, source, group, dependents, attempts, lastUnit] = await Promise.all([
      QueueUrl && statsOf(nameOf(QueueUrl), signal),
      message.DeadLetterQueueSource && statsOf(message.DeadLetterQueueSource, signal),
      QueueUrl && message.MessageGroupId && findGroup(QueueUrl, message.MessageGroupId, undefined, signal),
      message.State === "unknown" ? null : find("ListDependents", { MessageId: id, MaxResults: 100 }, signal),
      attemptsOf(message.DeadLetterQueueSource, visit, signal),
      lastUnitOf(message, signal),
    ]);
    return {
      message,
      queue,
      source,
      dependents,
      attempts,
      lastUnit,
      content: visit.content,
      group: group && inQueue(group, QueueUrl, queue),
    };
  },

  draw(data, { name: id }, visit) {
    const { message, content } = data;
    const queue = message.QueueUrl && nameOf(message.QueueUrl);
    return [
      heading(
        [queue && [queueLink(queue), " / "], h("code", { title: id }, shortId(id))],
        [
          stateOf(message),
          message.MessageGroupId && ["group ", groupLink(queue, message.MessageGroupId)],
          message.BatchId && ["batch ", batchLink(message.BatchId)],
        ],
        queue && [
          message.State === "in-flight" &&
            takeBackButton(message.QueueUrl, message.MessageId, tokenOf(message), message.Holder),
          message.State !== "in-flight" && [
            editButton(message, visit.isWhole ? content : null),
            deleteButton(message),
          ],
        ],
      ),
      drawWhy(data, id),
      h("div.two", null, drawLife(data), drawBody(data, visit)),
      drawDependents(data.dependents),
      queue &&
        section(
          "Details",
          null,
          facts([
            ["MessageId", h("code", null, id)],
            ["Queue", queueLink(queue)],
            ["Attempts", count(message.ReceiveCount)],
            ["Fencing token", tokenOf(message)],
            ["Deduplication id", content?.MessageDeduplicationId && h("bdi", null, content.MessageDeduplicationId)],
            ["Sender", content?.SenderId],
            ["Trace", content?.AWSTraceHeader && h("code", null, content.AWSTraceHeader)],
            ...Object.entries(content?.MessageAttributes ?? {}).map(([name, value]) => [
              h("bdi", null, name),
              attribute(value),
            ]),
          ]),
        ),
    ];
  },
};

const attribute = (value) => [
  h(
    "bdi",
    null,
    visible(value.StringValue ?? `${bytes(Math.floor((value.BinaryValue ?? "").length * 0.75))} of bytes`),
  ),
  " ",
  h("span.soft", null, value.DataType),
];

function drawBody({ message, content }, visit) {
  if (message.QueueUrl === undefined && content === undefined) return null;
  if (!may("GetMessage"))
    return section("Body", null, nothing("To see bodies needs the right read, which this credential lacks."));
  if (message.IsDamaged || content?.IsDamaged)
    return section(
      "Body",
      null,
      nothing("The log can't be read there: the content is lost. docs/how-to/damage.md says what can be done."),
    );
  if (content?.Body === undefined) return null;
  const whole = {
    isWanted: visit.isUncut,
    want: () => {
      visit.isUncut = true;
      visit.draw();
    },
  };
  const readAll = () => {
    visit.wants = true;
    visit.content = undefined;
    visit.ask();
  };
  return section(
    "Body",
    [bytes(content.BodySize), " ", modes(visit.draw)],
    show(content.Body, visit.isWhole, whole),
    !visit.isWhole &&
      h(
        "p.more",
        null,
        `The first ${bytes(256)}. `,
        h("button", { type: "button", onclick: readAll }, `Read all ${bytes(content.BodySize)}`),
      ),
    can("ReplaceMessage") &&
      visit.isWhole &&
      lineEnd(content.Body) === null &&
      h(
        "p.more",
        null,
        "It can't be edited here: its line ends are mixed or bare CR, and a text field makes LF of all of them.",
      ),
    navigator.clipboard &&
      visit.isWhole &&
      h(
        "p.more",
        null,
        h("button", { type: "button", onclick: () => navigator.clipboard.writeText(content.Body) }, "Copy"),
      ),
  );
}

function drawDependents(dependents) {
  if (!dependents || dependents.Dependents.length === 0) return null;
  return section(
    "What waits for it",
    dependents.NextToken && "the first 100",
    table(
      "What waits for it",
      ["Message", "Queue", "State"],
      dependents.Dependents.map((one) => [
        messageLink(one.MessageId, true),
        queueLink(nameOf(one.QueueUrl)),
        state(one.State),
      ]),
    ),
  );
}
