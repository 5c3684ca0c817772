// Finds one thing by what a person has of it: an id, a name, a group, a text in it, a word of a failure.
import { h } from "./dom.js";
import { find, may } from "./api.js";
import { batchLink, groupLink, heading, messageTable, nothing, queueLink, section } from "./parts.js";
import { row, to } from "./route.js";
import { begin, go, isId, progress } from "./search.js";
import { count, nameOf, plural, quoted } from "./words.js";

function noText(q) {
  const isOne = !/\s/.test(q);
  const words = isOne ? "this word" : "these words";
  return `No message has ${words}. Bodies are searched as they were sent${isOne ? "" : "; try one word of it"}. `;
}

/** How far the search is, and its button. */
function drawProgress(search, isEmpty, visit) {
  const told = progress(search);
  const isOver = search.left.length === 0;
  const stop = () => {
    search.isStopped = true;
    visit.draw();
  };
  const goOn = () => {
    go(search, visit, visit.signal);
    visit.draw();
  };
  const notes = [...search.notes].map((words) => ` ${words}`);
  if (isOver) return told && h("p.soft", { role: "status" }, `Looked through all: ${told.words}.`, notes);
  return h(
    "section.progress",
    null,
    h(
      "p",
      { role: "status" },
      search.trouble && h("span.bad", null, `${search.trouble} `),
      search.isStopped ? "Stopped: looked " : "Looked ",
      told ? `through ${told.words} so far.` : "at a part so far.",
      isEmpty && " Nothing was found yet.",
      notes,
    ),
    h("progress", { max: 1, value: told?.part ?? null, "aria-label": "How far the search is" }),
    search.isStopped
      ? h("button", { type: "button", onclick: goOn }, "Go on")
      : h("button", { type: "button", onclick: stop }, "Stop"),
  );
}

export default {
  isStill: true,
  title: ({ query }) => `Find ${query.q ?? ""}`,

  async load({ query }, visit, signal) {
    const q = (query.q ?? "").trim();
    if (isId(q)) {
      const told = await find("ExplainMessage", { MessageId: q.toLowerCase() }, signal);
      if (told && told.State !== "unknown") return { id: q.toLowerCase() };
    }
    if (/^https?:\/\//.test(q)) return { queue: nameOf(q) };
    const search = await begin(q, signal);
    visit.signal = signal; // of the newest search: an older one ends with it
    go(search, visit, signal);
    return search;
  },

  draw(data, { query }, visit) {
    if (data.id) location.replace(to("message", data.id));
    if (data.queue) location.replace(to("queue", data.queue));
    if (data.id || data.queue) return nothing("Found.");
    const { q, batches, schedules, pools, groups, given, texts, reasons, queues } = data;
    const names = [...data.names];
    const links = (title, list) =>
      list.length > 0 &&
      section(
        title,
        null,
        h(
          "ul.links",
          null,
          list.map((one) => h("li", null, one)),
        ),
      );
    const all = [names, batches, schedules, pools, groups, given, texts, reasons];
    const isEmpty = all.every((list) => list.length === 0);
    return [
      heading(["Find ", quoted(query.q ?? "")]),
      drawProgress(data, isEmpty, visit),
      given.length > 0 &&
        section(
          "Messages with this id",
          null,
          given.some((one) => one.State === "ended") && h("p.more", null, "What has ended is only remembered."),
          messageTable(given, null, "Messages with this id", queues),
        ),
      texts.length > 0 &&
        section(
          "Messages with this text",
          "all words in the body, or in an attribute",
          messageTable(texts, null, "With this text", queues),
        ),
      groups.map((one) =>
        section(
          ["Group ", groupLink(one.queue, query.q), " in ", queueLink(one.queue)],
          one.hasMore && `the first ${count(one.messages.length)}`,
          messageTable(one.messages, one.queue, `Group in ${one.queue}`, queues),
        ),
      ),
      links(
        "Queues",
        names.map((name) => queueLink(name, true)),
      ),
      links(
        "Batches",
        batches.map((id) => batchLink(id, true)),
      ),
      links(
        "Schedules",
        schedules.map((one) => row(to("schedules", "", { prefix: one.Name }), one.Name)),
      ),
      links(
        "Pools",
        pools.map((one) => row(to("pool", one.PoolName), one.PoolName)),
      ),
      links(
        "Failures",
        reasons.map((one) => [
          row(to("queue", one.queue, { reason: one.Reason }), quoted(one.Reason, 200)),
          ` ${plural(one.Count, "message")} in ${one.queue}`,
        ]),
      ),
      isEmpty &&
        data.left.length === 0 &&
        h(
          "section",
          null,
          nothing(
            may("FindMessage") ? noText(q) : "Nothing is known by that. ",
            "Looked at: message ids, deduplication and outbox ids, texts, groups and failures of queues, names of " +
              "queues, batches, schedules and pools.",
          ),
        ),
    ];
  },
};
