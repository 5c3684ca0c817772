// What is sent next by the clock, and what was missed?
import { h } from "./dom.js";
import { call, can, look } from "./api.js";
import { plain } from "./dialog.js";
import { filters, heading, messageLink, none, nothing, pages, queueLink, section, state, table } from "./parts.js";
import { age, nameOf } from "./words.js";

function pauseButton({ Name, Paused }) {
  const action = Paused ? "ResumeSchedule" : "PauseSchedule";
  return (
    can(action) &&
    plain(Paused ? "Resume" : "Pause", async () => {
      await call(action, { Name });
      return `Schedule ${Name} is ${Paused ? "resumed; nothing is made up for" : "paused"}.`;
    })
  );
}

const fireButton = ({ Name }) =>
  can("FireSchedule") &&
  plain("Fire now", async () => {
    const { MessageId } = await call("FireSchedule", { Name });
    return `Schedule ${Name} has sent its message now: ${MessageId}.`;
  });

export default {
  title: () => "Schedules",

  load: ({ query }, visit, signal) =>
    look(
      "ListSchedules",
      { Prefix: query.prefix || undefined, MaxResults: 200, NextToken: query.from || undefined },
      signal,
    ),

  draw(reply, { query }) {
    const list = reply?.Schedules ?? [];
    return [
      heading("Schedules"),
      filters(query, [["prefix", "Name begins with", ""]]),
      section(
        "Schedules",
        "by name",
        list.length > 0
          ? table(
              "Schedules",
              [
                "Schedule",
                "Next",
                "When",
                ["Queue", "wide"],
                ["Last", "wide"],
                ["Last message", "wide"],
                ["Missed ones", "wide"],
                "",
              ],
              list.map((one) => [
                [
                  h("span", { "data-row": true, tabindex: -1 }, h("bdi", null, one.Name)),
                  one.Warning && h("div.warn", null, one.Warning),
                ],
                one.Paused ? state("paused") : one.NextAt === undefined ? "never" : age(one.NextAt),
                [h("code", null, one.Cron), " ", h("span.soft", null, one.TimeZone)],
                queueLink(nameOf(one.QueueUrl)),
                age(one.LastAt),
                one.LastMessageId && messageLink(one.LastMessageId),
                { one: "one message for all", none: "none", all: "each, up to 1,000" }[one.CatchUp],
                h("span.acts", null, fireButton(one), pauseButton(one)),
              ]),
              list.map((one) => one.Name),
            )
          : nothing(none(reply, query.prefix, "tally schedule put")),
      ),
      pages(query, reply?.NextToken),
    ];
  },
};
