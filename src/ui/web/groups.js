// Which customer's line is blocked, by what, and what helps?
import { h } from "./dom.js";
import { call, can, find, look } from "./api.js";
import { withBodies } from "./body.js";
import { button, foresee, plain } from "./dialog.js";
import {
  filters,
  heading,
  messageLink,
  messageTable,
  nothing,
  pages,
  queueLink,
  section,
  state,
  table,
} from "./parts.js";
import { link, row, to } from "./route.js";
import { byAge, heldGroups, inQueue, kept, statsOf } from "./stats.js";
import { age, count, nameOf, plural, quoted } from "./words.js";

const SLOW_S = 10;

// --- what can be done -----------------------------------------------------------------------------------------------

function where({ DeadLetterQueue: name }) {
  if (name) return `goes to ${name}`;
  return name === null
    ? "is dropped, because the queue has no dead-letter queue"
    : "goes to the dead-letter queue, or is dropped if the queue has none";
}

const head = ({ HeadMessageId }) => ["The head", HeadMessageId && [" ", messageLink(HeadMessageId)]];

/** What waits behind the head, and what becomes of it. */
function behind({ Messages }, does, doMany) {
  if (Messages < 2) return `the group ${does}: nothing waits behind the head`;
  return `${plural(Messages - 1, "message")} behind it ${Messages === 2 ? does : doMany}`;
}

const RELEASES = {
  retry: {
    label: "Retry…",
    title: "Retry the head of",
    button: "Retry it",
    words: (group) => [
      head(group),
      " is tried again: delivered at once, with a fresh set of attempts. If it succeeds, ",
      behind(group, "goes on", "go on"),
      "; if it fails again, the group is held again.",
    ],
  },
  skip: {
    label: "Skip…",
    title: "Skip the head of",
    button: "Skip it",
    words: (group) => [
      head(group),
      ` ${where(group)}. Then `,
      behind(group, "goes on", "go on"),
      ". A dead letter can be redriven later.",
    ],
  },
  "cancel-rest": {
    label: "Cancel the rest…",
    title: "Cancel what waits in",
    button: "Cancel them",
    isDanger: true,
    words: (group, id) => [
      head(group),
      ` ${where(group)}, and `,
      behind(group, "is cancelled", "are cancelled"),
      ": never delivered, and as units of batches cancelled. ",
      id && id !== group.HeadMessageId && h("b", null, "The message of this page is among them: it ends too. "),
      "This can't be undone.",
    ],
  },
};

/** Of a held group with QueueUrl. id: the message of the page on which they stand. */
export function releaseButtons(group, kinds = ["retry", "skip"], id = undefined) {
  if (!can("ReleaseGroup")) return [];
  return kinds.map((kind) => {
    const release = RELEASES[kind];
    const members = { QueueUrl: group.QueueUrl, MessageGroupId: group.MessageGroupId, Action: kind };
    return button(
      release.label,
      () => ({
        title: `${release.title} ${group.MessageGroupId} in ${group.QueueName}`,
        about: foresee("ReleaseGroup", members, release.words(group, id)),
        button: release.button,
        isDanger: Boolean(release.isDanger),
        doing: async () => {
          await call("ReleaseGroup", members);
          return `Group ${group.MessageGroupId} is released (${kind}).`;
        },
      }),
      Boolean(release.isDanger),
    );
  });
}

function pauseButton({ QueueUrl, MessageGroupId }, isPaused) {
  const action = isPaused ? "ResumeGroup" : "PauseGroup";
  if (!can(action)) return null;
  return plain(isPaused ? "Resume" : "Pause", async () => {
    await call(action, { QueueUrl, MessageGroupId });
    return `Group ${MessageGroupId} is ${isPaused ? "resumed" : "paused: nothing of it is delivered until Resume"}.`;
  });
}

// --- the page -------------------------------------------------------------------------------------------------------

function groupTable(groups, hasQueue) {
  return table(
    "Groups",
    [
      ...(hasQueue ? [] : [["Queue", "wide"]]),
      "Group",
      "State",
      ["Since", "wide"],
      ["Messages", "number"],
      ["In flight", "number wide"],
      ["Why", "below"],
      "",
    ],
    groups.map((group) => [
      ...(hasQueue ? [] : [queueLink(group.QueueName)]),
      row(
        to("groups", "", { queue: group.QueueName, group: group.MessageGroupId }),
        h("bdi", null, group.MessageGroupId),
      ),
      [state(group.State), group.Paused && group.State !== "paused" && " · paused"],
      group.Since !== undefined && age(group.Since),
      count(group.Messages),
      count(group.InFlight),
      [group.Reason && quoted(group.Reason), group.HeadMessageId && [" head ", messageLink(group.HeadMessageId)]],
      h(
        "span.acts",
        null,
        group.State === "held"
          ? releaseButtons(group, ["retry", "skip", "cancel-rest"])
          : pauseButton(group, group.Paused),
      ),
    ]),
    groups.map((group) => `${group.QueueName} ${group.MessageGroupId}`),
  );
}

/** A group of the queue in that state, or in any. null: there is none, so it has no messages and is not paused;
 *  undefined: nobody knows, as an older server lists all groups and does not come to it. */
export async function findGroup(QueueUrl, MessageGroupId, State, signal) {
  const reply = await find("ListGroups", { QueueUrl, MessageGroupId, State }, signal);
  const group = reply?.Groups.find((one) => one.MessageGroupId === MessageGroupId);
  return group ?? (!reply || reply.NextToken ? undefined : null);
}

async function loadOne(query, visit, signal) {
  const QueueUrl = query.queue;
  const MessageGroupId = query.group;
  const asked = { QueueUrl, MessageGroupId, MaxResults: 50, NextToken: query.from || undefined };
  const [page, group, queue] = await Promise.all([
    find("ListMessages", asked, signal).then((list) => withBodies(list, asked, visit, signal)),
    findGroup(QueueUrl, MessageGroupId, undefined, signal),
    statsOf(nameOf(QueueUrl), signal),
  ]);
  return { one: group && inQueue(group, QueueUrl, queue), page, queue };
}

function drawOne({ one, page, queue }, query) {
  const messages = page?.Messages ?? [];
  const named = { QueueUrl: query.queue, MessageGroupId: query.group };
  const isUnknown = one === undefined;
  return [
    heading(
      [queueLink(query.queue), " / group ", h("bdi", null, query.group)],
      [
        one && state(one.State),
        one && plural(one.Messages, "message"),
        one?.InFlight > 0 && `${count(one.InFlight)} in flight`,
        one?.Paused && one.State !== "paused" && state("paused"),
      ],
      [
        ...(one?.State === "held" ? releaseButtons(one, ["retry", "skip", "cancel-rest"]) : []),
        (isUnknown || !one?.Paused) && pauseButton(named, false),
        (isUnknown || one?.Paused) && pauseButton(named, true),
      ],
    ),
    isUnknown &&
      h(
        "section",
        null,
        nothing("It is not among the groups that were looked at. Whether it is held or paused is not known."),
      ),
    one?.State === "held" &&
      h(
        "section.why.bad",
        null,
        h(
          "p",
          null,
          h("b", null, "The group is held"),
          " for ",
          age(one.Since),
          ": ",
          one.Reason ? quoted(one.Reason, 400) : "its head failed for good",
          ". ",
          one.HeadMessageId && ["Its head is ", messageLink(one.HeadMessageId), "."],
          ` ${plural(Math.max(0, one.Messages - 1), "message waits", "messages wait")} behind it.`,
        ),
      ),
    page &&
      section(
        "Its messages, in order",
        plural(messages.length, "message shown", "messages shown"),
        messages.length > 0
          ? messageTable(messages, query.queue, "Messages of the group", [queue])
          : nothing("No message of this group is in the queue."),
      ),
    pages(query, page?.NextToken),
  ];
}

export default {
  title: ({ query }) => (query.group ? `Group ${query.group}` : "Groups"),

  async load({ query }, visit, signal) {
    if (query.queue && query.group) return loadOne(query, visit, signal);
    if (query.queue) {
      const QueueUrl = query.queue;
      const [reply, queue] = await Promise.all([
        look(
          "ListGroups",
          { QueueUrl, State: query.state || undefined, MaxResults: 100, NextToken: query.from || undefined },
          signal,
        ),
        statsOf(nameOf(QueueUrl), signal),
      ]);
      return {
        groups: (reply?.Groups ?? []).map((group) => inQueue(group, QueueUrl, queue)),
        next: reply?.NextToken,
      };
    }
    const { queues } = await kept(visit, "queues", SLOW_S, () => byAge(signal));
    return {
      groups: await heldGroups(signal),
      queues: queues.filter((queue) => queue.Groups > 0).slice(0, 50),
    };
  },

  draw(data, { query }) {
    if (data.page !== undefined) return drawOne(data, query);
    return [
      heading("Groups"),
      filters(query, [
        ["queue", "Queue", "its name"],
        ["state", "State", ["", "held", "paused", "ready", "busy"]],
      ]),
      section(
        query.queue ? "Groups" : "Groups that are held",
        plural(data.groups.length, "group shown", "groups shown"),
        data.groups.length > 0
          ? groupTable(data.groups, Boolean(query.queue))
          : nothing(
              query.queue
                ? "No group of this queue fits the filter."
                : "No group is held. Name a queue to see its groups.",
            ),
      ),
      pages(query, data.next),
      data.queues?.length > 0 &&
        section(
          "Queues with groups",
          null,
          h(
            "ul.links",
            null,
            data.queues.map((queue) =>
              h(
                "li",
                null,
                link(to("groups", "", { queue: queue.QueueName }), h("bdi", null, queue.QueueName)),
                ` ${plural(queue.Groups, "group")}`,
              ),
            ),
          ),
        ),
    ];
  },
};
