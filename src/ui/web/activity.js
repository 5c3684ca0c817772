// Who pressed what, and what did the server do?
import { h } from "./dom.js";
import { isThere, look } from "./api.js";
import { taskTable, tasksOf } from "./dead.js";
import { filters, heading, nothing, queueLink, section, table } from "./parts.js";
import { fullDeadLetterQueues, kept } from "./stats.js";
import { age, count, cut } from "./words.js";

const KEPT_MAX = 2000;
const SHOWN_MAX = 200;
const SLOW_S = 10;

const says = (event, query) =>
  (!query.kind || event.Kind === query.kind) &&
  (!query.who || event.AccessKeyId === query.who) &&
  (!query.word || JSON.stringify(event).toLowerCase().includes(query.word.toLowerCase()));

async function events(visit, signal) {
  visit.events ??= [];
  for (let i = 0; i < 10; i++) {
    const reply = await look("FeedEvents", { After: visit.after, MaxResults: 1000 }, signal);
    if (!reply) return;
    visit.events.push(...reply.Events);
    visit.hasMissed ||= Boolean(reply.Missed);
    visit.after = reply.Next;
    if (reply.Events.length < 1000) break;
  }
  visit.events.splice(0, visit.events.length - KEPT_MAX);
}

export default {
  title: () => "Activity",

  async load(_, visit, signal) {
    const queues = await kept(visit, "queues", SLOW_S, () => fullDeadLetterQueues(signal));
    const [tasks] = await Promise.all([tasksOf(queues, signal), isThere("FeedEvents") && events(visit, signal)]);
    return { tasks, list: visit.events };
  },

  draw({ tasks, list }, { query }, visit) {
    const shown = (list ?? [])
      .filter((event) => says(event, query))
      .toReversed()
      .slice(0, SHOWN_MAX);
    return [
      heading("Activity"),
      list &&
        filters(query, [
          ["kind", "Kind", ["", "audit", "server"]],
          ["who", "Access key", ""],
          ["word", "With the word", ""],
        ]),
      list &&
        section(
          "Events",
          `the newest first${visit.hasMissed ? "; some are missing" : ""}`,
          shown.length === 0
            ? nothing(
                list.length > 0
                  ? "No event fits the filter."
                  : "Nothing has happened since the server started: what people change and what the server does " +
                      "by itself stands here.",
              )
            : table(
                "Events",
                ["At", "What", ["Queue", "wide"], ["Who", "wide"], ["From", "wide"], "In words"],
                shown.map((event) => [
                  age(event.At),
                  [
                    h("span", { "data-row": true, tabindex: -1 }, event.Action ?? event.Kind),
                    " ",
                    event.Result && event.Result !== "OK" && h("span.bad", null, event.Result),
                  ],
                  event.QueueName && queueLink(event.QueueName),
                  event.AccessKeyId,
                  event.Address,
                  h("span", { dir: "auto" }, cut(event.Text ?? "", 400)),
                ]),
                shown.map((event) => String(event.Number)),
              ),
        ),
      section(
        "Move tasks",
        tasks.length > 0 && `${count(tasks.length)}, the newest first`,
        tasks.length > 0 ? taskTable(tasks) : nothing("No dead letters were moved back."),
      ),
    ];
  },
};
