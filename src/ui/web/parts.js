// What several pages show: why a message waits, rows of messages, states, facts, pages of a list.
import { h, hidden, isShown } from "./dom.js";
import { link, row, to, change } from "./route.js";
import { unasked } from "./stats.js";
import { age, bytes, count, cut, nameOf, now, quoted, span } from "./words.js";

const KINDS = {
  ready: "good",
  "dead letter": "bad",
  "in-flight": "wait",
  delayed: "wait",
  blocked: "warn",
  held: "bad",
  ended: "",
  unknown: "",
  active: "good",
  standby: "",
  starting: "",
  paused: "warn",
  failed: "bad",
  succeeded: "good",
  busy: "wait",
  open: "wait",
  sealed: "wait",
  completed: "",
  cancelled: "",
  expired: "bad",
  outstanding: "wait",
  RUNNING: "wait",
  COMPLETED: "good",
  CANCELLED: "",
  FAILED: "bad",
};

export const state = (name, words = name?.replace("-", " ")) =>
  h("span.state", null, h("span.dot", { class: KINDS[name] ?? "", "aria-hidden": true }), words);

/** "ready" is said of what the next receive takes. Of a dead letter nobody wants that. */
export const stateOf = ({ State, DeadLetterQueueSource }) =>
  state(DeadLetterQueueSource && State === "ready" ? "dead letter" : State);

export const chip = (...children) => h("span.chip", null, ...children);

export const shortId = (id) => (/^[0-9a-f-]{36}$/.test(id) ? `…${id.slice(-12)}` : cut(id, 40));

export const messageLink = (id, isRow) =>
  (isRow ? row : link)(to("message", id), h("code", { title: id }, shortId(id)));

export const queueLink = (name, isRow) => (isRow ? row : link)(to("queue", name), h("bdi", null, name));

export const groupLink = (queue, group) => link(to("queue", queue, { group }), h("bdi", null, cut(group, 60)));

export const batchLink = (id, isRow) => (isRow ? row : link)(to("batch", id), h("bdi", null, cut(id, 60)));

/** What the server says of a held group; a page of one message knows more (message.js). */
export const RELEASED = /ReleaseGroup lets it go on\.$/;

const HELPS = {
  GroupHeld: [RELEASED, "Retry or Skip lets the group go on."],
  GroupPaused: ["ResumeGroup", "Resume"],
  QueuePaused: ["ResumeQueue", "Resume"],
};

/** The server's sentence for a person at this page: with buttons instead of actions, with how long it takes, and
 *  without the fencing token, which stands among the details. */
function words({ Code, Text, Until }) {
  const left = Until - now();
  return Text.replace(...(HELPS[Code] ?? [/ \(delivery \d+\)/, ""]))
    .replace(/(\d\d:\d\d:\d\d)Z/g, "$1 UTC")
    .replace(/until ([-\d]+ )?[\d:]+ UTC/, (until) => (left > 0 ? `${until}, in ${span(left)}` : until));
}

/** The sentence of a cause, in which what it names is a link. */
export function cause(why, queue, group) {
  const links = [];
  if (why.MessageId) links.push([why.MessageId, messageLink(why.MessageId)]);
  if (why.BatchId) links.push([`'${why.BatchId}'`, batchLink(why.BatchId)]);
  if (why.QueueName) links.push([`queue ${why.QueueName}`, ["queue ", queueLink(why.QueueName)]]);
  const nodes = linked(words(why), links);
  const page = to("groups", "", { queue, group });
  if (/^Group(Held|Paused|Concurrency|Rate)$/.test(why.Code) && queue && !location.hash.startsWith(page))
    nodes.push(" ", link(page, "Show the group"));
  if (/^Queue(Paused|Rate)$/.test(why.Code) && queue) nodes.push(" ", link(to("queue", queue), "Show the queue"));
  return h("span", { dir: "auto" }, nodes);
}

/** The text with links in the place of words in it; what does not stand in it is put behind. */
function linked(text, links) {
  let nodes = [text];
  for (const [words, node] of links) {
    const at = nodes.findIndex((part) => typeof part === "string" && part.includes(words));
    if (at < 0) {
      nodes.push(" ", node);
      continue;
    }
    const cutAt = nodes[at].indexOf(words);
    nodes.splice(at, 1, nodes[at].slice(0, cutAt), node, nodes[at].slice(cutAt + words.length));
  }
  return nodes.map((part) => (typeof part === "string" ? cut(part, 400) : part));
}

/** Why is it where it is, in a line? stats: of its queue, if they are known. */
export function whyLine(message, queue, stats) {
  const [first] = message.Why ?? [];
  if (first)
    return cause(
      { ...first, Text: first.Text.replace(/^It is in flight since/, "Since") }, // the state stands beside it
      queue,
      message.MessageGroupId,
    );
  const silence = unasked(!message.DeadLetterQueueSource && stats);
  const words = silence ? `Nothing keeps it, but ${silence}.` : "Nothing keeps it: the next receive may take it.";
  return h("span.soft", null, message.State === "ready" ? words : "");
}

/** What a worker calls itself, else its access key or address. */
export const holderWords = ({ Worker, AccessKeyId, Address }) =>
  h("b", null, h("bdi", null, Worker ?? AccessKeyId ?? Address));

/** Does a cause say who has the message? */
export const namesHolder = (Why) => (Why ?? []).some((why) => /, held by /.test(why.Text));

/** Has the newest attempt failed, and does the cause not say why? */
function tellsMore({ FailureReason, Why }) {
  return FailureReason !== undefined && !(Why ?? []).some((why) => why.Text.includes(FailureReason));
}

/** The beginning of a body. */
export const begin = (body) => body && h("code.begin", null, h("bdi", null, cut(body.replace(/\s+/g, " "), 100)));

/** queues: the stats that the page has. */
export function messageTable(messages, queue, label = "Messages", queues = []) {
  const statsOf = ({ QueueUrl }) => queues.find((one) => one?.QueueName === (queue ?? nameOf(QueueUrl)));
  const isOneGroup = messages.length > 1 && new Set(messages.map((one) => one.MessageGroupId)).size === 1;
  return table(
    label,
    [
      "Sent",
      "Message",
      ["Queue", "wide"],
      "State",
      ["Group", "wide"],
      ["Body", "below"],
      ["Attempts", "number wide"],
      ["Why", "below"],
    ],
    messages.map((message) => [
      age(message.SentAt),
      messageLink(message.MessageId, true),
      !queue && message.QueueUrl && queueLink(nameOf(message.QueueUrl)),
      stateOf(message),
      !isOneGroup &&
        message.MessageGroupId &&
        groupLink(queue ?? nameOf(message.QueueUrl), message.MessageGroupId),
      begin(message.Body),
      count(message.ReceiveCount),
      [
        whyLine(message, queue, statsOf(message)),
        message.Holder && !namesHolder(message.Why) && h("div.soft", null, "Held by ", holderWords(message.Holder)),
        tellsMore(message) && h("div.soft", null, "Last failure: ", quoted(message.FailureReason)),
      ],
    ]),
  );
}

export const isNarrow = matchMedia("(max-width: 1000px)");
export const isTiny = matchMedia("(max-width: 480px)");
const BESIDE_MAX = 2; // columns on a tiny page
const says = (cell) => [cell].flat(Infinity).some((one) => isShown(one) && one !== "");

const isNothing = (cell) => !says(cell) || /^0(\.0)?$/.test(cell);

/** On a narrow page a row has a second line. There stand the columns "wide", each with its name, unless it is 0; and
 *  the columns "below", each in a line of its own. What a row is about, and its buttons, are seen without scrolling: on
 *  a tiny page all but two columns stand there. */
function lineBelow(cells, below, width, key) {
  const isLine = ({ name, kind }) => /below/.test(kind) || name === "";
  const wide = below.filter((column) => !isLine(column) && !isNothing(cells[column.at]));
  const named = wide.map(({ name, at }) => [h("span.pair", null, h("span.soft", null, `${name} `), cells[at]), " "]);
  const lines = below.filter((column) => isLine(column) && says(cells[column.at]));
  return (
    (named.length > 0 || lines.length > 0) &&
    h(
      "tr.below",
      { "data-key": key && `${key} below` },
      h(
        "td",
        { colspan: width },
        named.length > 0 && h("div", null, named),
        lines.map(({ at }) => h("div", null, cells[at])),
      ),
    )
  );
}

/** head: names, or [name, class]; rows: lists of cells. A column in which nothing stands is left out. The table scrolls
 *  by itself where the page is too narrow. */
export function table(label, head, rows, keys) {
  const columns = head.map((one) => [one].flat()).map(([name, kind], at) => ({ name, kind, at }));
  const isBelow = ({ kind }) => isNarrow.matches && /wide|below/.test(kind);
  const used = columns.filter(({ at }) => rows.some((cells) => says(cells[at])));
  const beside = used.filter((column) => !isBelow(column)).slice(0, isTiny.matches ? BESIDE_MAX : undefined);
  const below = used.filter((column) => !beside.includes(column));
  const names = beside.map(({ name, kind }) =>
    h("th", { scope: "col", class: kind }, name || hidden("What can be done")),
  );
  const line = (cells, i) => [
    h(
      "tr",
      { "data-key": keys?.[i] },
      beside.map(({ kind, at }) => h("td", { class: kind }, cells[at])),
    ),
    lineBelow(cells, below, beside.length, keys?.[i]),
  ];
  return h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": label },
    h("table", null, h("thead", null, h("tr", null, names)), h("tbody", null, rows.map(line))),
  );
}

export function section(title, note, ...children) {
  return h("section", null, h("h2", null, h("span", null, title), note && h("small", null, note)), ...children);
}

/** Why a list is empty. */
export function none(reply, isFiltered, command) {
  if (reply?.NextToken) return "None so far: go on.";
  return isFiltered ? "None fits the filter." : ["There is none yet: ", h("code", null, command), " makes one."];
}

export const nothing = (...words) => h("p.nothing", null, ...words);

export function facts(pairs) {
  return h(
    "dl.facts",
    null,
    pairs
      .filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false)
      .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}

export function stats(cells) {
  return h(
    "dl.stats",
    null,
    cells
      .filter(Boolean)
      .map(([name, value, note, kind]) =>
        h("div", null, h("dt", null, name), h("dd", { class: kind }, value), h("dd.note", null, note ?? "")),
      ),
  );
}

/** Are sends refused? Already when the disk is short of room, not only when the reserve is spent. */
export const isFull = (disk) => disk?.Room === "short" || disk?.Room === "spent";

export const diskStat = (disk) =>
  disk && [
    "Disk",
    bytes(disk.Used),
    `${bytes(disk.Free)} free${isFull(disk) ? ": sends are refused now" : ""}`,
    isFull(disk) ? "bad" : "",
  ];

export function heading(title, chips = [], actions = []) {
  return h(
    "div.head",
    null,
    h("h1", null, title),
    chips.filter(Boolean).map((one) => chip(one)),
    h("div.acts", null, actions.filter(Boolean)),
  );
}

/** Beginning and next page; the address has the place. */
export function pages(query, next) {
  if (!query.from && !next) return null;
  return h(
    "p.pages",
    null,
    query.from && h("button", { type: "button", onclick: () => change({ from: "" }) }, "From the beginning"),
    next && h("button", { type: "button", onclick: () => change({ from: next }) }, "Go on"),
  );
}

/** Choices and texts that filter a list: [name, label, choices or placeholder]; a choice may be [value, words]. They
 *  change the address. */
export function filters(query, fields, label = "Filter") {
  const submit = (event) => {
    event.preventDefault();
    const said = {};
    for (const [name] of fields) said[name] = event.currentTarget.elements[name].value.trim();
    change({ from: "", ...said });
  };
  return h(
    "form.filters",
    {
      onsubmit: submit,
      onchange: (event) => event.target.nodeName === "SELECT" && event.currentTarget.requestSubmit(),
    },
    fields.map(([name, label, what]) =>
      h("label", null, h("span", null, label), field(name, what, query[name] ?? "")),
    ),
    h("button", { type: "submit" }, label),
  );
}

function field(name, what, value) {
  if (!Array.isArray(what))
    return h("input", { name, value, placeholder: what, autocomplete: "off", spellcheck: "false" });
  return h(
    "select",
    { name, value: value || [what[0]].flat()[0] },
    what.map((one) => [one].flat()).map(([one, words = one]) => h("option", { value: one }, words || "all")),
  );
}
