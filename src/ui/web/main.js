// The frame around the pages: which one is shown, when it asks the server again, and the keys.
//
// A page is { title(route), load(route, visit, signal), draw(data, route, visit) }. What load() gives is drawn, every
// two seconds, while the tab is seen and nobody has paused it.
import { begin, describe, forgetCaller, needsSigning, Refusal, server, signer, Silence } from "./api.js";
import { h, morph } from "./dom.js";
import { route, to } from "./route.js";
import { forget, keepFromAddress } from "./sign.js";
import { now, utc } from "./words.js";

import activity from "./activity.js";
import { batch, batches } from "./batches.js";
import dead from "./dead.js";
import find from "./find.js";
import flight from "./flight.js";
import groups from "./groups.js";
import message from "./message.js";
import overview from "./overview.js";
import { pool, pools } from "./pools.js";
import queue from "./queue.js";
import queues from "./queues.js";
import { relay, relays } from "./relays.js";
import { isNarrow, isTiny } from "./parts.js";
import schedules from "./schedules.js";
import node from "./node.js";
import signIn from "./signin.js";

const PAGES = {
  "": overview,
  queues,
  queue,
  message,
  "in-flight": flight,
  "dead-letters": dead,
  groups,
  batches,
  batch,
  schedules,
  relays,
  relay,
  pools,
  pool,
  activity,
  server: node,
  find,
  "sign-in": signIn,
};
const NAV = [
  ["", "Overview"],
  ["queues", "Queues", ["queue", "message"]],
  ["in-flight", "In flight"],
  ["dead-letters", "Dead letters"],
  ["groups", "Groups"],
  ["batches", "Batches", ["batch"]],
  ["schedules", "Schedules"],
  ["relays", "Relays", ["relay"]],
  ["pools", "Pools", ["pool"]],
  ["activity", "Activity"],
  ["server", "Server"],
];
const NAMING = ["queue", "group", "ticket", "q"]; // members of the query that say of what the page is
const POLL_MS = 2000;
const DESCRIBE_S = 10;

const main = document.getElementById("main");
const live = document.getElementById("live");
const findText = document.getElementById("find-text");

let shown = null; // { page, route, visit, data }
let timer = 0;
let asking = null; // the AbortController of the load that runs
let isPaused = false;
let answeredAt = 0;
let describedAt = 0;
let trouble = null;
let opened = 0; // so many addresses, of which one may go back to the former

// --- asking and drawing ---------------------------------------------------------------------------------------------

function draw() {
  const { page, route: at, visit, data } = shown;
  const nodes = [trouble && h("section.trouble", { role: "alert" }, h("p", null, trouble))];
  if (data !== undefined) nodes.push(page.draw(data, at, visit));
  else if (!trouble) nodes.push(h("p.nothing", null, "Asking the server…"));
  morph(main, h("main", null, nodes));
  drawLive();
}

function drawLive() {
  const isOld = answeredAt > 0 && now() - answeredAt > 3 * (POLL_MS / 1000);
  const behind = isOld && !isPaused && !document.hidden && !isAnswered();
  live.className = isPaused ? "paused" : behind ? "behind" : "";
  const time = answeredAt > 0 ? utc(answeredAt).slice(11) : "…";
  live.textContent = isPaused ? `Paused at ${time}` : behind ? `No answer since ${time}` : time;
}

async function ask() {
  clearTimeout(timer);
  asking?.abort();
  const mine = (asking = new AbortController());
  const here = shown;
  const begun = performance.now();
  try {
    if (here.page !== signIn && now() - describedAt > DESCRIBE_S) {
      await describe(mine.signal);
      describedAt = now();
      drawFrame();
    }
    const data = await here.page.load(here.route, here.visit, mine.signal);
    if (mine.signal.aborted || here !== shown) return;
    here.data = data;
    main.ariaBusy = "false";
    answeredAt = now();
    trouble = null;
  } catch (error) {
    if (mine.signal.aborted || here !== shown) return;
    if (error instanceof Refusal && error.isUnsigned && needsSigning()) {
      askToSign(error);
      return;
    }
    trouble = error instanceof Silence && here.data !== undefined ? null : error.message;
    if (!(error instanceof Silence || error instanceof Refusal)) {
      draw();
      throw error;
    }
  } finally {
    if (asking === mine) again(performance.now() - begun);
  }
  draw();
}

/** A page that asks once has its answer. */
const isAnswered = () => shown !== null && Boolean(shown.page.isStill) && shown.data !== undefined;

/** Asks, if the page still asks. */
function goOn() {
  if (isAnswered()) drawLive();
  else ask();
}

/** Asks the less often the longer an answer takes. */
function again(took) {
  clearTimeout(timer);
  if (!isPaused && !document.hidden && !shown.page.isStill) timer = setTimeout(ask, Math.max(POLL_MS, 4 * took));
}

function askToSign(error) {
  forget();
  forgetCaller();
  describedAt = 0;
  location.hash = to("sign-in", "", { back: location.hash, why: error.code === "NotSignedIn" ? "" : error.message });
}

// --- the frame ------------------------------------------------------------------------------------------------------

function drawFrame() {
  const { page } = route();
  morph(
    document.getElementById("nav"),
    h(
      "nav",
      null,
      NAV.map(([name, words, also = []]) =>
        h("a", { href: to(name), "aria-current": page === name || also.includes(page) ? "page" : null }, words),
      ),
    ),
  );
  const who = signer();
  const version = server.described?.Version ?? server.config.Version;
  morph(
    document.getElementById("foot"),
    h(
      "footer",
      null,
      h("span", null, `Tally ${version}`),
      server.config.Ui === "read-only" && h("span", null, "This dashboard only shows (ui = read-only)."),
      needsSigning() &&
        who !== null &&
        h(
          "span",
          null,
          `Signed in as ${who.accessKey} `,
          h("button", { type: "button", onclick: signOut }, "Sign out"),
        ),
      h("span", null, h("kbd", null, "?"), " lists the keys"),
    ),
  );
}

/** On a narrow page the list of pages goes on to the side. */
function showCurrent() {
  const nav = document.getElementById("nav");
  const current = nav.querySelector("[aria-current]");
  nav.scrollLeft = current === null ? 0 : current.offsetLeft - nav.offsetLeft - nav.clientWidth / 2;
}

function signOut() {
  forget();
  forgetCaller();
  describedAt = 0;
  location.hash = to("sign-in");
}

function open() {
  opened++;
  const at = route();
  const page = Object.hasOwn(PAGES, at.page)
    ? PAGES[at.page]
    : {
        title: () => "Not here",
        load: async () => 0,
        isStill: true,
        draw: () => h("p.nothing", null, "The dashboard has no such page. ", h("a", { href: "#/" }, "Overview")),
      };
  const isSame = shown !== null && shown.page === page && shown.route.name === at.name;
  const isAlike = isSame && NAMING.every((key) => shown.route.query[key] === at.query[key]);
  const isFirst = shown === null;
  shown = {
    page,
    route: at,
    visit: isSame ? shown.visit : { draw: () => draw(), ask: () => ask(), isPaused: () => isPaused },
    data: isAlike ? shown.data : undefined,
  };
  trouble = null;
  main.ariaBusy = "true"; // what stands there is not yet of this address
  document.title = `${page.title(at)} · Tally`;
  findText.value = at.page === "find" ? (at.query.q ?? "") : "";
  drawFrame();
  showCurrent();
  if (!isSame) {
    main.replaceChildren();
    if (!isFirst) main.focus();
    scrollTo(0, 0);
  }
  draw();
  ask();
}

// --- keys -----------------------------------------------------------------------------------------------------------

const KEYS = [
  ["/", "find"],
  ["?", "this list"],
  ["j, k", "the next and the one before"],
  ["Enter", "open it"],
  ["Escape", "close, or go back"],
  ["p", "pause this page"],
  ["r", "refresh"],
];

function showKeys() {
  const dialog = h(
    "dialog",
    { "aria-labelledby": "keys-title", onclose: () => dialog.remove() },
    h("h2", { id: "keys-title" }, "Keys"),
    h(
      "dl.keys",
      null,
      KEYS.map(([key, words]) => h("div", null, h("dt", null, h("kbd", null, key)), h("dd", null, words))),
    ),
    h("p.buttons", null, h("button", { type: "button", onclick: () => dialog.close() }, "Close")),
  );
  document.body.append(dialog);
  dialog.showModal();
}

function walk(step) {
  const rows = [...main.querySelectorAll("[data-row]")];
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + step))]?.focus();
}

function pause() {
  isPaused = !isPaused;
  if (isPaused) {
    clearTimeout(timer);
    drawLive();
  } else if (shown !== null) goOn();
}

const ACTIONS = {
  "/": () => findText.select(),
  "?": showKeys,
  j: () => walk(1),
  k: () => walk(-1),
  p: pause,
  r: () => ask(),
  Escape: () => (opened > 1 ? history.back() : (location.hash = "#/")),
};

document.addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.nodeName);
  const isOurs = shown !== null && !document.querySelector("dialog[open]");
  if (!isOurs || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping && event.key === "Escape") event.target.blur();
  if (isTyping || !ACTIONS[event.key]) return;
  event.preventDefault();
  ACTIONS[event.key]();
});

document.getElementById("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const q = findText.value.trim();
  if (q !== "") location.hash = to("find", "", { q });
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
live.addEventListener("click", pause);
document.addEventListener("tally-changed", () => {
  shown.visit.kept?.clear();
  ask();
});
for (const width of [isNarrow, isTiny]) width.addEventListener("change", () => shown !== null && draw());
setInterval(drawLive, 1000);

/** An address that signs in is another caller's. */
function openAddress() {
  if (keepFromAddress()) {
    forgetCaller();
    describedAt = 0;
  }
  open();
}

/** Shows nothing before the server has said what it is. A server that starts, or starts again, is waited for. */
function start() {
  begin().then(
    () => {
      window.addEventListener("hashchange", openAddress);
      document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : isPaused || goOn()));
      open();
    },
    (error) => {
      main.replaceChildren(h("p.nothing", null, `The server does not answer: ${error.message}`));
      setTimeout(start, POLL_MS);
    },
  );
}
keepFromAddress();
start();
