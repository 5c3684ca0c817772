// Who holds what, since when, until when?
import { h } from "./dom.js";
import { find } from "./api.js";
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
        ["queue", "Queue", "orders"],
        ["key", "Access key", ""],
        ["worker", "Worker", ""],
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
