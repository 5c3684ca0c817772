// How far is a batch, what is missing, and why is it not done?
import { h } from "./dom.js";
import { call, can, find, look } from "./api.js";
import { button, foresee } from "./dialog.js";
import {
  batchLink,
  facts,
  filters,
  heading,
  messageLink,
  none,
  nothing,
  pages,
  queueLink,
  section,
  state,
  table,
  whyLine,
} from "./parts.js";
import { age, count, cut, nameOf, plural, quoted } from "./words.js";

const WHYS_MAX = 20;

const bar = (batch) =>
  batch.Total > 0 &&
  h("progress", {
    value: String(batch.Total - batch.Remaining),
    max: String(batch.Total),
    "aria-label": "units that have ended",
  });

const stateOf = (batch) =>
  state(batch.Status ?? batch.State, batch.Status ? `completed: ${batch.Status}` : batch.State);

export const batches = {
  title: () => "Batches",

  load: ({ query }, visit, signal) =>
    look(
      "ListBatches",
      {
        State: query.state || undefined,
        Prefix: query.prefix || undefined,
        MaxResults: 100,
        NextToken: query.from || undefined,
      },
      signal,
    ),

  draw(reply, { query }) {
    const list = reply?.Batches ?? [];
    return [
      heading("Batches"),
      filters(query, [
        ["state", "State", ["", "open", "sealed", "completed"]],
        ["prefix", "Id begins with", ""],
      ]),
      section(
        "Batches",
        "in order of creation",
        list.length > 0
          ? table(
              "Batches",
              [
                "Batch",
                "State",
                "Done",
                ["Failed", "number wide"],
                ["Outstanding", "number wide"],
                ["Made", "wide"],
                ["Completed", "wide"],
              ],
              list.map((batch) => [
                batchLink(batch.BatchId, true),
                stateOf(batch),
                [bar(batch), ` ${count(batch.Total - batch.Remaining)} of ${count(batch.Total)}`],
                count(batch.Failed),
                count(batch.Remaining),
                age(batch.CreatedAt),
                age(batch.CompletedAt),
              ]),
              list.map((batch) => batch.BatchId),
            )
          : nothing(none(reply, query.state || query.prefix, "tally batch create")),
      ),
      pages(query, reply?.NextToken),
    ];
  },
};

/** Of the first units that are messages and outstanding: why does each wait? */
async function whys(units, signal) {
  const asked = units.filter((unit) => unit.MessageId && unit.State === "outstanding").slice(0, WHYS_MAX);
  const told = await Promise.all(asked.map((unit) => look("ExplainMessage", { MessageId: unit.MessageId }, signal)));
  return new Map(asked.map((unit, i) => [unit.MessageId, told[i]]));
}

function cancelButton(name) {
  const members = { BatchId: name };
  return (
    can("CancelBatch") &&
    button(
      "Cancel…",
      () => ({
        title: `Cancel batch ${cut(name, 80)}`,
        button: "Cancel the batch",
        about: foresee(
          "CancelBatch",
          members,
          "Its outstanding units are cancelled: their messages are never delivered. The batch completes with " +
            "status cancelled. This can't be undone.",
          "These would end:",
        ),
        doing: async () => {
          await call("CancelBatch", members);
          return "The batch is cancelled.";
        },
      }),
      true,
    )
  );
}

const targets = (batch) =>
  ["OnComplete", "OnSuccess", "OnFirstFailure"].map((name) => [
    name,
    batch[name] && queueLink(nameOf(batch[name].QueueUrl ?? batch[name])),
  ]);

export const batch = {
  title: ({ name }) => `Batch ${name}`,

  async load({ name, query }, visit, signal) {
    const told = await find("DescribeBatch", { BatchId: name }, signal);
    const units =
      told &&
      told.Tracking !== "xor" &&
      (await find(
        "ListUnits",
        {
          BatchId: name,
          State: query.state === "all" ? undefined : (query.state ?? "outstanding"),
          MaxResults: 50,
          NextToken: query.from || undefined,
        },
        signal,
      ));
    return { told, units, why: units ? await whys(units.Units, signal) : new Map() };
  },

  draw({ told, units, why }, { name, query }) {
    if (!told)
      return h(
        "section",
        null,
        nothing("There is no batch ", h("bdi", null, name), ", or it is out of this credential's reach."),
      );
    const list = units?.Units ?? [];
    return [
      heading(
        ["Batch ", h("bdi", null, cut(name, 80))],
        [stateOf(told)],
        [told.State !== "completed" && cancelButton(name)],
      ),
      section(
        "How far",
        `${plural(told.Remaining, "unit")} outstanding`,
        h("p.wideBar", null, bar(told)),
        facts([
          ["Units", count(told.Total)],
          ["Succeeded", count(told.Succeeded)],
          ["Failed", count(told.Failed)],
          ["Cancelled", count(told.Cancelled)],
          ["Outstanding", count(told.Remaining)],
          ["Made", [age(told.CreatedAt), " ago"]],
          ["Sealed", told.SealedAt && [age(told.SealedAt), " ago"]],
          ["Completed", told.CompletedAt && [age(told.CompletedAt), " ago"]],
          ["Expires", told.ExpiresAt && age(told.ExpiresAt)],
          ["Tracking", told.Tracking],
          ["A unit of", told.Parent && batchLink(told.Parent)],
          ...targets(told),
          ["Completion message", told.CompletionMessageId && messageLink(told.CompletionMessageId)],
        ]),
      ),
      told.State === "open" &&
        told.Remaining === 0 &&
        h(
          "section.why",
          null,
          h(
            "p",
            null,
            h("b", null, "Nothing is outstanding, and it is open."),
            " It completes when it is sealed, or when as many units have joined as its Total says.",
          ),
        ),
      units &&
        section(
          "Units",
          "in order of registration",
          filters({ state: "outstanding", ...query }, [
            ["state", "State", ["outstanding", "succeeded", "failed", "cancelled", "all"]],
          ]),
          list.length > 0
            ? table(
                "Units",
                ["Unit", "State", "Why"],
                list.map((unit) => {
                  const reason = why.get(unit.MessageId);
                  return [
                    unit.BatchId
                      ? ["batch ", batchLink(unit.BatchId, true)]
                      : unit.MessageId
                        ? messageLink(unit.MessageId, true)
                        : h("bdi", null, cut(unit.Unit, 100)),
                    state(unit.State),
                    [
                      reason && [state(reason.State), ": ", whyLine(reason)],
                      unit.Detail && quoted(unit.Detail),
                      !reason &&
                        !unit.MessageId &&
                        unit.State === "outstanding" &&
                        h(
                          "span.soft",
                          null,
                          unit.BatchId ? "the child batch has not ended" : "nobody has reported it by CompleteUnits",
                        ),
                    ],
                  ];
                }),
              )
            : nothing(units.NextToken ? "None so far: go on." : "No unit fits the filter."),
          pages(query, units.NextToken),
        ),
    ];
  },
};
