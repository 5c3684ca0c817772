// Is a relay blocked, why, and which rows are in doubt?
import { h } from "./dom.js";
import { call, can, find, look } from "./api.js";
import { button, plain } from "./dialog.js";
import { facts, heading, nothing, queueLink, section, state, table } from "./parts.js";
import { row, to } from "./route.js";
import { age, count, plural, quoted, span } from "./words.js";

const end = ({ Type, QueueUrl, Url, Connection }) => Url ?? `${Type} ${QueueUrl ?? Connection ?? ""}`;
const lag = ({ Lag }) => (Lag ? `${plural(Lag.Rows, "row")}${Lag.Seconds > 0 ? `, ${span(Lag.Seconds)}` : ""}` : "");

function pauseButton({ RelayName, Paused }) {
  const action = Paused ? "ResumeRelay" : "PauseRelay";
  return (
    can(action) &&
    plain(Paused ? "Resume" : "Pause", async () => {
      await call(action, { RelayName });
      return `Relay ${RelayName} is ${Paused ? "resumed" : "paused: rows stay in its source"}.`;
    })
  );
}

export const relays = {
  title: () => "Relays",
  load: (_, visit, signal) => look("ListRelays", { MaxResults: 1000 }, signal),
  draw(reply) {
    const list = reply?.Relays ?? [];
    return [
      heading("Relays"),
      section(
        "Relays",
        "by name",
        reply === null
          ? nothing("Relays are for credentials without queues=.")
          : list.length === 0
            ? nothing("There is no relay: tally relay create makes one.")
            : table(
                "Relays",
                [
                  "Relay",
                  "State",
                  ["Since", "wide"],
                  "Behind",
                  ["Parked", "number wide"],
                  ["In doubt", "number"],
                  ["From and to", "wide"],
                  ["Last error", "below"],
                  "",
                ],
                list.map((one) => [
                  row(to("relay", one.RelayName), h("bdi", null, one.RelayName)),
                  state(one.State),
                  age(one.Since),
                  lag(one),
                  count(one.Parked),
                  count(one.InDoubt),
                  [h("span", null, end(one.Source)), h("div.soft", null, "→ ", end(one.Sink))],
                  [one.LastError && quoted(one.LastError), one.Warning && h("div.warn", null, one.Warning)],
                  pauseButton(one),
                ]),
                list.map((one) => one.RelayName),
              ),
      ),
    ];
  },
};

const RESOLVE = {
  send: [
    "Send…",
    "Send the row",
    "The row is delivered, perhaps for the second time, under its Uid and behind those that are there. A " +
      "receiver that knows the Uid passes over it.",
  ],
  drop: [
    "Drop…",
    "Drop the row",
    "The row leaves its source and is never sent. If it was not delivered, it is lost. This can't be undone.",
  ],
};

function resolveButton(RelayName, doubt, Action) {
  const [label, title, words] = RESOLVE[Action];
  return button(
    label,
    () => ({
      title: `${title} ${doubt.Id}`,
      button: title,
      isDanger: Action === "drop",
      about: h("p", null, words),
      doing: async () => {
        await call("ResolveDoubt", { RelayName, Uid: doubt.Uid, Action });
        return `Row ${doubt.Id}: ${Action} is noted; it is done within about a second.`;
      },
    }),
    Action === "drop",
  );
}

export const relay = {
  title: ({ name }) => `Relay ${name}`,
  async load({ name }, visit, signal) {
    const [told, doubts] = await Promise.all([
      find("DescribeRelay", { RelayName: name }, signal),
      find("ListDoubts", { RelayName: name, MaxResults: 100 }, signal),
    ]);
    return { told, doubts: doubts?.Doubts ?? [] };
  },
  draw({ told, doubts }, { name }) {
    if (!told)
      return h(
        "section",
        null,
        nothing("There is no relay ", h("bdi", null, name), ", or this credential may not see relays."),
      );
    const isStuck = told.State === "blocked" || told.State === "failed";
    return [
      heading(
        h("bdi", null, name),
        [state(told.State, [told.State, told.Since && [" for ", age(told.Since)]])],
        [pauseButton(told)],
      ),
      isStuck &&
        h(
          "section.why.bad",
          null,
          h("h2", null, `Why it is ${told.State}`),
          h(
            "p",
            null,
            quoted(told.LastError ?? "No reason is known.", 1000),
            " It tries again by itself.",
          ),
        ),
      told.Warning && h("section.why", null, h("p", null, told.Warning)),
      section(
        "How far",
        null,
        facts([
          ["Behind", lag(told)],
          ["Delivered", count(told.Delivered)],
          ["Duplicates", count(told.Duplicates)],
          ["Retries", count(told.Retries)],
          ["Takeovers", count(told.Takeovers)],
          ["Position", count(told.Position)],
          ["Epoch", told.Epoch],
          ["Order", told.Order],
          ["Source", end(told.Source)],
          ["Sink", end(told.Sink)],
          ["Last error", told.LastError && [quoted(told.LastError, 400), " ", age(told.LastErrorAt), " ago"]],
        ]),
      ),
      section(
        "Rows that wait for a person",
        doubts.length > 0 && "the oldest first, 100 at most",
        doubts.length === 0
          ? nothing("None is parked or in doubt.")
          : table(
              "Rows that wait for a person",
              ["Row", "Since", "Queue", ["Group", "wide"], "Why", ""],
              doubts.map((doubt) => [
                [
                  h("span", { "data-row": true, tabindex: -1 }, h("code", { title: doubt.Uid }, String(doubt.Id))),
                  " ",
                  h("span", { class: doubt.IsInDoubt ? "bad" : "soft" }, doubt.IsInDoubt ? "in doubt" : "refused"),
                ],
                age(doubt.Since),
                doubt.QueueName && queueLink(doubt.QueueName),
                doubt.MessageGroupId && h("bdi", null, doubt.MessageGroupId),
                quoted(doubt.Error, 240),
                can("ResolveDoubt") &&
                  h("span.acts", null, resolveButton(name, doubt, "send"), resolveButton(name, doubt, "drop")),
              ]),
              doubts.map((doubt) => String(doubt.Id)),
            ),
      ),
    ];
  },
};
