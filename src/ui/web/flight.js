// Who holds what, since when, until when?
import { h } from "./dom.js";
import { find, isThere, look, may } from "./api.js";
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
import { byAge, kept } from "./stats.js";
import { age, count, nameOf, plural } from "./words.js";

const QUEUES_MAX = 10;

/** The same from lists of messages, where the server can't say who holds them. */
async function fromMessages(query, visit, signal) {
  if (!may("ListMessages")) return null;
  const { queues } = await kept(visit, "queues", 10, () => byAge(signal));
  const asked = queues
    .filter((queue) => queue.InFlight > 0 && (!query.queue || queue.QueueName === query.queue))
    .slice(0, QUEUES_MAX);
  const lists = await Promise.all(
    asked.map((queue) =>
      look("ListMessages", { QueueUrl: queue.QueueUrl, State: "in-flight", MaxResults: 100 }, signal),
    ),
  );
  const Messages = lists.flatMap((reply, i) =>
    (reply?.Messages ?? []).map((message) => {
      const lease = (message.Why ?? []).find((why) => why.Code === "InFlight");
      return {
        ...message,
        QueueUrl: asked[i].QueueUrl,
        ReceivedAt: message.LastReceivedAt,
        VisibleAt: lease?.Until,
        FencingToken: lease?.Delivery,
      };
    }),
  );
  return { Messages };
}

function holder({ Holder }) {
  if (!Holder) return h("span.soft", null, "not known");
  const { Worker, AccessKeyId, Address } = Holder;
  return [
    holderWords(Holder),
    Worker && AccessKeyId && ` ${AccessKeyId}`,
    (Worker || AccessKeyId) && Address && h("div.soft", null, Address),
  ];
}

export default {
  title: () => "In flight",

  async load({ query }, visit, signal) {
    if (!isThere("ListInFlight")) return fromMessages(query, visit, signal);
    return find(
      "ListInFlight",
      {
        QueueUrl: query.queue || undefined,
        AccessKeyId: query.key || undefined,
        Worker: query.worker || undefined,
        MaxResults: 200,
        NextToken: query.from || undefined,
      },
      signal,
    );
  },

  draw(reply, { query }) {
    const messages = reply?.Messages ?? [];
    return [
      heading("In flight"),
      filters(query, [
        ["queue", "Queue", "orders"],
        ...(isThere("ListInFlight")
          ? [
              ["key", "Access key", ""],
              ["worker", "Worker", ""],
            ]
          : []),
      ]),
      section(
        "Messages that somebody has",
        `${plural(messages.length, "message")} shown`,
        messages.length > 0
          ? table(
              "In flight",
              [
                "Message",
                "Queue",
                ["Group", "wide"],
                "Held by",
                "Since",
                "Comes back",
                ["Attempt", "number"],
                ["Delivery", "number wide"],
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
                  message.FencingToken,
                ];
              }),
              messages.map((message) => message.MessageId),
            )
          : nothing(
              reply === null
                ? "The server does not know such a queue, or this credential may not see messages."
                : reply.NextToken
                  ? "None so far: go on."
                  : "Nobody has a message.",
            ),
      ),
      pages(query, reply?.NextToken),
    ];
  },
};
