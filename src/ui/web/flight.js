// Who holds what, since when, until when?
import { h } from "./dom.js";
import { call, can, find, takesDryRun } from "./api.js";
import { button } from "./dialog.js";
import {
  filters,
  groupLink,
  heading,
  holderWords,
  messageLink,
  nothing,
  pages,
  queueLink,
  section,
  table,
} from "./parts.js";
import { age, count, nameOf, plural } from "./words.js";

function holder({ Holder }) {
  if (!Holder) return h("span.soft", null, "not known");
  const { Worker, AccessKeyId, Address } = Holder;
  return [
    holderWords(Holder),
    Worker && AccessKeyId && ` ${AccessKeyId}`,
    (Worker || AccessKeyId) && Address && h("div.soft", null, Address),
  ];
}

const OUTCOMES = {
  returned: () => "It is visible again at once, and this attempt counts.",
  "dead-lettered": ({ DeadLetterQueueUrl }) => [
    "That was its last attempt: the next receive that meets it moves it to ",
    DeadLetterQueueUrl ? queueLink(nameOf(DeadLetterQueueUrl)) : "the dead-letter queue",
    ".",
  ],
  held: () => "That was its last attempt: its group is held then.",
};

async function foretell(members, holder) {
  const told = (await takesDryRun("ReleaseMessage")) && (await call("ReleaseMessage", { ...members, DryRun: true }));
  return [
    told && h("p", null, OUTCOMES[told.Outcome]?.(told) ?? told.Outcome),
    h(
      "p",
      null,
      "It is taken from ",
      holder ? holderWords(holder) : "whoever has it",
      ", who is not told. End a worker that hangs first: on a standard queue it may still delete the message.",
    ),
  ];
}

/** Of a message in flight, from the delivery with that token and no later one. */
export function takeBackButton(QueueUrl, MessageId, FencingToken, holder) {
  const members = { QueueUrl, MessageId, FencingToken };
  return (
    can("ReleaseMessage") &&
    FencingToken !== undefined &&
    button(
      "Take it back…",
      () => ({
        title: "Take this message back",
        button: "Take it back",
        about: foretell(members, holder),
        doing: async () => {
          await call("ReleaseMessage", members);
          return "The message is taken back.";
        },
      }),
    )
  );
}

export default {
  title: () => "In flight",

  load: ({ query }, visit, signal) =>
    find(
      "ListInFlight",
      {
        QueueUrl: query.queue || undefined,
        AccessKeyId: query.key || undefined,
        Worker: query.worker || undefined,
        MaxResults: 200,
        NextToken: query.from || undefined,
      },
      signal,
    ),

  draw(reply, { query }) {
    const messages = reply?.Messages ?? [];
    return [
      heading("In flight"),
      filters(query, [
        ["queue", "Queue", "any"],
        ["key", "Access key", "any"],
        ["worker", "Worker", "any"],
      ]),
      section(
        "Messages in flight",
        `${plural(messages.length, "message")} shown`,
        messages.length > 0
          ? table(
              "In flight",
              [
                "Message",
                ["Queue", "wide"],
                ["Group", "wide"],
                ["Held by", "wide"],
                ["Since", "wide"],
                "Comes back",
                ["Attempts", "number wide"],
                "",
              ],
              messages.map((message) => {
                const queue = nameOf(message.QueueUrl);
                return [
                  messageLink(message.MessageId, true),
                  queueLink(queue),
                  message.MessageGroupId && groupLink(queue, message.MessageGroupId),
                  holder(message),
                  age(message.ReceivedAt),
                  age(message.VisibleAt),
                  count(message.ReceiveCount),
                  takeBackButton(message.QueueUrl, message.MessageId, message.FencingToken, message.Holder),
                ];
              }),
              messages.map((message) => message.MessageId),
            )
          : nothing(
              reply === null
                ? "The server does not know such a queue, or this credential may not see messages."
                : reply.NextToken
                  ? "None so far: go on."
                  : "No message is in flight.",
            ),
      ),
      pages(query, reply?.NextToken),
    ];
  },
};
