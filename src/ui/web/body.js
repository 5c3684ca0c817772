// A message's body, which anybody may have written: as JSON that folds, as text, as bytes, or not at all.
import { h } from "./dom.js";
import { look } from "./api.js";
import { bytes, count, cut, plural, visible } from "./words.js";

const KEPT = "tally-body";
const TEXT_MAX = 65536;
const HEX_MAX = 16384;
const NODES_MAX = 2000;
const DEPTH_MAX = 30;
const KNOWN_MAX = 5000;
const CALLS_MAX = 5; // a page that reads contents may be short
const MODES = [
  ["json", "JSON"],
  ["text", "Text"],
  ["hex", "Bytes"],
  ["hidden", "Hidden"],
];

export const mode = () => localStorage.getItem(KEPT) ?? "json";

/** What lists ask of bodies. */
export const inLists = () => (mode() === "hidden" ? "none" : "preview");

/** Adds to the messages of a list the beginning of their bodies. Each is asked for once: it does not change. */
export async function withBodies(page, members, visit, signal) {
  if (!page || mode() === "hidden") return page;
  visit.bodies ??= new Map();
  if (visit.bodies.size > KNOWN_MAX) visit.bodies.clear();
  let { NextToken } = members;
  for (let i = 0; i < CALLS_MAX && page.Messages.some((one) => !visit.bodies.has(one.MessageId)); i++) {
    const reply = await look("ListMessages", { ...members, Body: "preview", NextToken }, signal);
    for (const one of reply?.Messages ?? []) visit.bodies.set(one.MessageId, one.Body);
    NextToken = reply?.NextToken;
    if (!NextToken) break;
  }
  for (const one of page.Messages) one.Body = visit.bodies.get(one.MessageId);
  return page;
}

/** The buttons that choose how bodies are shown, on this computer. */
export function modes(redraw) {
  return h(
    "span.modes",
    { role: "group", "aria-label": "Show the body as" },
    MODES.map(([name, words]) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(mode() === name),
          onclick: () => {
            localStorage.setItem(KEPT, name);
            redraw();
          },
        },
        words,
      ),
    ),
  );
}

const pre = (...children) => h("pre", { dir: "auto", tabindex: 0 }, ...children);

export function show(text, isWhole, whole) {
  const left = text.length - TEXT_MAX;
  switch (mode()) {
    case "hidden":
      return h("p.nothing", null, "Hidden.");
    case "hex":
      return pre(hexDump(text));
    case "json": {
      const tree = isWhole && text.length <= 16 * TEXT_MAX ? jsonTree(text) : null;
      if (tree) return h("div.json", { tabindex: 0 }, tree);
    }
  }
  return [
    pre(visible(left > 0 && !whole.isWanted ? text.slice(0, TEXT_MAX) : text)),
    left > 0 &&
      !whole.isWanted &&
      h(
        "p.more",
        null,
        h("button", { type: "button", onclick: whole.want }, `Show the other ${count(left)} characters`),
      ),
  ];
}

function hexDump(text) {
  const all = new TextEncoder().encode(text);
  const lines = [];
  for (let at = 0; at < Math.min(all.length, HEX_MAX); at += 16) {
    const row = [...all.subarray(at, at + 16)];
    const digits = row
      .map((byte) => byte.toString(16).padStart(2, "0"))
      .join(" ")
      .padEnd(48);
    const letters = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits} ${letters}`);
  }
  if (all.length > HEX_MAX) lines.push(`… ${bytes(all.length - HEX_MAX)} more`);
  return lines.join("\n");
}

// --- JSON -----------------------------------------------------------------------------------------------------------

/** Made of the text itself, so that numbers keep all their digits. null: it is no JSON, or only a word. */
function jsonTree(text) {
  try {
    if (typeof JSON.parse(text) !== "object") return null;
  } catch {
    return null;
  }
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+/g);
  const reader = { tokens, at: 0, nodes: 0 };
  return readValue(reader, 0);
}

const letters = (token) =>
  token.startsWith('"') ? h("span.string", null, h("bdi", null, cut(token, 2000))) : h("span.number", null, token);

function readValue(reader, depth, key) {
  const token = reader.tokens[reader.at++];
  if (token !== "{" && token !== "[") return [key, letters(token)];
  if (depth > DEPTH_MAX) {
    reader.at--;
    skipValue(reader, "[");
    return [key, "…"];
  }
  const end = token === "{" ? "}" : "]";
  const entries = [];
  let size = 0;
  while (reader.tokens[reader.at] !== end) {
    if (reader.tokens[reader.at] === ",") reader.at++;
    size++;
    if (++reader.nodes > NODES_MAX) skipValue(reader, token);
    else entries.push(readEntry(reader, token, depth));
  }
  reader.at++;
  if (size === 0) return [key, `${token}${end}`];
  const hiddenCount = size - entries.length;
  return h(
    "details",
    { open: depth < 3 },
    h(
      "summary",
      null,
      key,
      `${token} `,
      h("span.soft", null, plural(size, token === "{" ? "member" : "item")),
      ` ${end}`,
    ),
    h(
      "div.in",
      null,
      entries,
      hiddenCount > 0 && h("div.soft", null, `… ${count(hiddenCount)} more; Text shows them`),
    ),
  );
}

function readEntry(reader, opening, depth) {
  if (opening === "[") return h("div", null, readValue(reader, depth + 1));
  const key = reader.tokens[reader.at];
  reader.at += 2; // the key and its colon
  return h("div", null, readValue(reader, depth + 1, [h("span.key", null, h("bdi", null, cut(key, 200))), ": "]));
}

function skipValue(reader, opening) {
  if (opening === "{") reader.at += 2;
  let open = 0;
  do {
    const token = reader.tokens[reader.at++];
    if (token === "{" || token === "[") open++;
    if (token === "}" || token === "]") open--;
  } while (open > 0);
}
