// The dashboard in a browser. test_ui.py starts it once and writes jobs, one a line: {scenario, endpoint, ids, secrets,
// …}. Each is answered by a line: {told}, or {error} if something was not as it must be. One browser serves them all.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const NARROW = { width: 360, height: 740 };
const COMMON = { width: 1280, height: 800 };
const ZOOMED = { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 }; // 1280 x 800 at 200 %
const NARROWEST = { width: 320, height: 512 }; // 1280 pixels at 400 %
const TABS_MAX = 12; // at the beginning of a page, and at its end
const DIALOGS_MAX = 4; // of a page
const PATIENCE_MS = 60000;

let job; // that is done now
let ids;
let endpoint;
let ui;

const pages = () => ({
  overview: "#/",
  queues: "#/queues",
  "queues-by-name": "#/queues?sort=name&prefix=m",
  queue: "#/queue/orders.fifo",
  "queue-of-dead-letters": "#/queue/mails-failed",
  "queue-hostile": "#/queue/hostile.fifo",
  "queue-filtered": "#/queue/orders.fifo?state=held",
  message: `#/message/${ids.held}`,
  "message-blocked": `#/message/${ids.blocked}`,
  "message-hostile": `#/message/${ids.markup}`,
  "message-huge": `#/message/${ids.huge}`,
  "message-deep": `#/message/${ids.deep}`,
  "in-flight": "#/in-flight",
  "dead-letters": "#/dead-letters",
  groups: "#/groups",
  group: "#/groups?queue=orders.fifo&group=customer-17",
  "groups-of-queue": "#/groups?queue=orders.fifo",
  batches: "#/batches",
  batch: "#/batch/night-42",
  schedules: "#/schedules",
  relays: "#/relays",
  relay: "#/relay/payments",
  pools: "#/pools",
  pool: "#/pool/couriers?ticket=ada",
  activity: "#/activity",
  server: "#/server",
  find: "#/find?q=customer-17",
  "queues-long": "#/queues?prefix=queue",
  "queue-long": `#/queue/${ids.longQueue}`,
  "queue-of-dead-letters-long": `#/queue/${ids.longDead}`,
  "message-long": `#/message/${ids.longHeld}`,
  "group-long": `#/groups?queue=${ids.longQueue}&group=${ids.longGroup}`,
  "batch-long": `#/batch/${ids.longBatch}`,
  "relay-long": `#/relay/${ids.longRelay}`,
  "pool-long": `#/pool/${ids.longPool}?ticket=${ids.longTicket}`,
  "find-long": `#/find?q=${ids.longQueue}`,
});

/** Pages that consist of what others show too. */
const VARIANTS = /^(queues-by-name|queue-filtered|queue-hostile|message-huge|message-deep|message-blocked|.*-long)$/;
const differentPages = () => Object.entries(pages()).filter(([name]) => !VARIANTS.test(name));

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer", "--disable-dev-shm-usage"],
});

/** A tab that notes what must not happen: errors, breaches of the policy, requests to anybody else. */
async function open(options = {}) {
  const context = await browser.newContext({ viewport: COMMON, ...options });
  const page = await context.newPage();
  page.wrong = [];
  page.asked = [];
  page.on("console", (message) => message.type() === "error" && page.wrong.push(message.text()));
  page.on("pageerror", (error) => page.wrong.push(`${error}\n${error.stack}`));
  page.on("dialog", (dialog) => page.wrong.push(`dialog: ${dialog.message()}`));
  page.on("request", (request) => {
    page.asked.push(request);
    if (!request.url().startsWith(endpoint)) page.wrong.push(`off-origin: ${request.url()}`);
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) =>
      console.error(`policy: ${event.violatedDirective} ${event.sourceFile}:${event.lineNumber}`),
    );
  });
  return page;
}

/** Shows a page and waits until it has its answer. */
async function show(page, hash) {
  if (page.url() === "about:blank") await page.goto(ui + hash);
  else await page.evaluate((to) => (location.hash = to), hash);
  await settled(page);
}

async function settled(page) {
  await page.waitForFunction(
    () => {
      const main = document.querySelector("#main");
      return main.ariaBusy === "false" && !main.querySelector(".trouble");
    },
    null,
    { timeout: PATIENCE_MS },
  );
}

const text = (page) => page.locator("main").innerText();

async function until(claim, what) {
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await claim())) {
    assert.ok(Date.now() < deadline, `${what} did not happen`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** One action, of another client. */
async function ask(action, members) {
  const headers = { "x-amz-target": action, "content-type": "application/x-amz-json-1.0" };
  const answer = await fetch(endpoint, { method: "POST", headers, body: JSON.stringify(members) });
  const said = await answer.text();
  assert.ok(answer.ok, `${action}: ${said}`);
  return said === "" ? {} : JSON.parse(said);
}

const target = (request) => request.headers()["x-amz-target"];
const isDryRun = (request) => Boolean(request.postData()?.includes('"DryRun":true'));

/** Answers in the server's place what `claim` says of. */
async function refuse(page, claim, code) {
  const body = JSON.stringify({ __type: `com.amazonaws.sqs#${code}`, message: "Refused by the test." });
  await page.route(
    (url) => url.pathname === "/",
    (route) => (claim(route.request()) ? route.fulfill({ status: 400, body }) : route.continue()),
  );
}

/** The browser tells of refused requests. */
const wrong = (page) => page.wrong.filter((line) => !/Failed to load resource.*(400|403)/.test(line));

async function assertFits(page, name) {
  const { wide, seen, who } = await page.evaluate(() => ({
    wide: document.documentElement.scrollWidth,
    seen: innerWidth,
    who: [...document.querySelectorAll("body *")]
      .filter((node) => node.getBoundingClientRect().right > innerWidth && !node.closest(".scroll"))
      .map((node) => node.outerHTML.slice(0, 100)),
  }));
  assert.ok(wide <= seen, `${name} is ${wide} pixels wide in a window of ${seen}: ${who.join("\n")}`);
}

/** What of the page, or of its dialog, can't be seen or pressed, by rules that hold for every page. */
async function whatIsHidden(page, isRowWhole) {
  const told = [await page.evaluate(whatScrolls, isRowWhole), await page.evaluate(whichTextsAreCut),
                await page.evaluate(whichControlsAreHidden)];
  return [...new Set(told.flat())];
}

/** The page and a dialog never scroll to the side, and on a narrow page no row does. */
function whatScrolls(isRowWhole) {
  const dialog = document.querySelector("dialog[open]");
  const boxes = [document.documentElement, ...(isRowWhole ? document.querySelectorAll(".scroll") : [])];
  return (dialog ? [...boxes, dialog] : boxes)
    .filter((box) => box.scrollWidth > box.clientWidth)
    .map((box) => `${box.nodeName} ${box.ariaLabel} scrolls by ${box.scrollWidth - box.clientWidth}`);
}

/** Text stands in its box, or scrolls in it, or is cut with an ellipsis and whole in a title. A short word stands in
 *  one line. */
function whichTextsAreCut() {
  const told = [];
  const of = (node) => `${node.nodeName} .${node.className} ${JSON.stringify(node.textContent.slice(0, 40))}`;
  const linesOf = (text, from, to) => {
    const range = document.createRange();
    range.setStart(text, from);
    range.setEnd(text, to);
    return [...range.getClientRects()].filter(({ width }) => width > 0);
  };
  const isBeyond = (line, box) => line.left < box.left - 1 || line.right > box.right + 1;
  const whoCuts = (box, lines) => {
    const { display, overflowX, textOverflow } = getComputedStyle(box);
    if (/auto|scroll/.test(overflowX) || box === document.body) return null;
    const isBox = !/^(inline|contents)$/.test(display);
    const isMarked = textOverflow === "ellipsis" && box.closest("[title]");
    const around = box.getBoundingClientRect();
    if (isBox && !isMarked && lines.some((line) => isBeyond(line, around))) return box;
    return whoCuts(box.parentElement, lines);
  };
  const root = document.querySelector("dialog[open]") ?? document.body;
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    const parent = text.parentElement;
    if (!parent.checkVisibility() || parent.closest(".vh, .skip, option, textarea")) continue;
    const cuts = whoCuts(parent, linesOf(text, 0, text.length));
    if (cuts) told.push(`text stands out of ${of(cuts)}`);
    if (parent.closest("pre, .json, .begin")) continue;
    for (const { 0: word, index } of text.data.matchAll(/(?<!\S)[\p{L}\p{N}.:,]{2,16}(?!\S)/gu))
      if (new Set(linesOf(text, index, index + word.length).map(({ top }) => Math.round(top))).size > 1)
        told.push(`${word} stands in two lines of ${of(parent)}`);
  }
  return told;
}

/** What can be pressed has 24 pixels at least, and stands alone where it is. Each choice of a list can be read. */
function whichControlsAreHidden() {
  const told = [];
  const of = (node) => `${node.nodeName} .${node.className} ${JSON.stringify(node.textContent.slice(0, 40))}`;
  const root = document.querySelector("dialog[open]") ?? document.body;
  const controls = [...root.querySelectorAll("button, input, select, textarea")].filter((one) => one.checkVisibility());
  const boxOf = (one) => one.getBoundingClientRect();
  const isOn = (a, b) => a.left < b.right && a.right > b.left && a.top < b.bottom && a.bottom > b.top;
  for (const one of controls) {
    one.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
    const box = boxOf(one);
    if (box.width < 24 || box.height < 24) told.push(`${of(one)} has ${box.width} x ${box.height}`);
    const there = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    if (!one.contains(there)) told.push(`${of(one)} is not reached`);
    for (const other of controls)
      if (other !== one && isOn(box, boxOf(other))) told.push(`${of(one)} stands on ${of(other)}`);
    const isHint = Boolean(one.placeholder) && one.value === "";
    if (isHint && getComputedStyle(one).textOverflow !== "ellipsis") told.push(`${one.placeholder} is cut`);
    if (one.nodeName !== "SELECT") continue;
    const { clientWidth } = one;
    one.style.maxWidth = "none"; // as wide as its longest choice
    if (one.clientWidth > clientWidth + 1) told.push(`a choice of ${one.name} is cut`);
    one.style.maxWidth = "";
  }
  scrollTo(0, 0);
  return told;
}

/** A cluster's nodes, which a single server has not. */
async function pretendNodes(page) {
  const name = "node-of-a-cluster-in-the-rack-behind-the-second-door-on-the-left";
  const nodes = [name, `${name}-too`].map((Node, i) => ({
    Node, Address: `${Node}.example.com:9325`, Version: "1.0.0", State: ["alive", "draining"][i], Owned: 999, Wanted: 1,
  }));
  await page.route((url) => url.pathname === "/", async (route) => {
    if (target(route.request()) !== "Tally.DescribeServer") return route.continue();
    const response = await route.fetch();
    return route.fulfill({ response, json: { ...(await response.json()), Nodes: nodes } });
  });
}

/** What axe finds on the page. */
async function whatAxeTells(page, name, rules) {
  const { violations } = await page.evaluate(
    // The first rows of a table stand for the others.
    (runOnly) =>
      axe.run(
        { exclude: ["tbody tr:nth-child(n + 5)"] },
        { resultTypes: ["violations"], runOnly, rules: runOnly ? {} : { "target-size": { enabled: true } } },
      ),
    rules,
  );
  const of = (node) => `${node.target} ${node.failureSummary}`;
  return violations.map((one) => `${name}: ${one.id}: ${one.nodes.map(of).slice(0, 3).join("; ")}`);
}

/** Whatever can be focused is reached by Tab, in the order of the page; it is seen, and seen to be in focus; and behind
 *  the last one Tab leaves the page itself. Of a long page its beginning and its end are walked. */
async function assertTabs(page, name) {
  const count = await page.evaluate(() => {
    const kinds = "a[href], button, input, select, textarea, [tabindex='0'], summary";
    window.reachable = [...document.querySelectorAll(`main :is(${kinds})`)].filter(
      (node) => !node.disabled && node.checkVisibility(),
    );
    document.getElementById("live").focus(); // the last before the page itself
    return window.reachable.length;
  });
  for (let i = 0; i < count; i++) {
    if (i === TABS_MAX && count > 2 * TABS_MAX) {
      i = count - TABS_MAX;
      await page.evaluate((at) => window.reachable[at].focus(), i - 1);
    }
    await page.keyboard.press("Tab");
    const seen = await page.evaluate((at) => {
      const node = document.activeElement;
      const { outlineStyle, outlineWidth } = getComputedStyle(node);
      const { left, right, top, bottom } = node.getBoundingClientRect();
      return { isNext: node === window.reachable[at], is: node.outerHTML.slice(0, 120),
               isIn: left < innerWidth && right > 0 && top < innerHeight && bottom > 0,
               not: window.reachable[at].outerHTML.slice(0, 120), outline: `${outlineStyle} ${outlineWidth}` };
    }, i);
    assert.ok(seen.isNext, `${name}: Tab ${i} goes to ${seen.is}, not to ${seen.not}`);
    assert.ok(seen.isIn, `${name}: ${seen.is} is in focus and out of sight`);
    assert.match(seen.outline, /^(solid|auto) [1-9]/, `${name}: ${seen.is} is not seen to be in focus`);
  }
  await page.keyboard.press("Tab");
  const isOut = await page.evaluate(() => !document.querySelector("main").contains(document.activeElement));
  assert.ok(isOut, `${name}: Tab does not leave the page`);
  assert.equal(await page.locator("[tabindex]:not([tabindex='0'], [tabindex='-1'])").count(), 0, name);
}

/** j and k walk along the rows. */
async function assertRows(page, name) {
  const rows = await page.locator("main [data-row]").count();
  const focused = () =>
    page.evaluate(() => [...document.querySelectorAll("[data-row]")].indexOf(document.activeElement));
  await page.evaluate(() => document.activeElement.blur());
  for (const [key, place] of [["j", 0], ["j", 1], ["k", 0]]) {
    if (rows <= place) continue;
    await page.keyboard.press(key);
    assert.equal(await focused(), place, `${key} on ${name}`);
  }
}

/** Each kind of dialog of the page, one after the other, opened by a key. Gives how many there are. */
async function openEach(page, check) {
  const buttons = page.locator("main button").filter({ hasText: "…" });
  const labels = [...new Set(await buttons.allInnerTexts())].slice(0, DIALOGS_MAX);
  for (const words of labels) {
    await buttons.filter({ hasText: words }).first().focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog");
    const isThere = async () => (await dialog.count()) > 0 && !/Asking the server/.test(await dialog.innerText());
    await until(isThere, "a dialog");
    await check(dialog, words);
    await page.keyboard.press("Escape");
    await until(async () => (await dialog.count()) === 0, "that Escape closes it");
    const back = await page.evaluate(() => document.activeElement.textContent);
    assert.equal(back, words, "the focus goes back to where the dialog came from");
  }
  return labels.length;
}

/** A dialog takes the focus and keeps it, and Tab reaches all that is in it. */
async function assertDialog(page, name, dialog, words) {
  const all = await dialog.locator("button:enabled, input, textarea, select, a[href]").count();
  const reached = new Set();
  for (let i = 0; i <= all + 1; i++) {
    const place = await page.evaluate(() => {
      const node = document.activeElement;
      if (node === document.body) return -1; // the browser's own bar
      const { outlineStyle, outlineWidth } = getComputedStyle(node);
      if (!/^(solid|auto) [1-9]/.test(`${outlineStyle} ${outlineWidth}`)) return node.outerHTML.slice(0, 120);
      const dialog = node.closest("dialog");
      return dialog ? [...dialog.querySelectorAll("*")].indexOf(node) : node.outerHTML.slice(0, 120);
    });
    assert.equal(typeof place, "number", `${name}: in the dialog of ${words} Tab leads out of it or unseen: ${place}`);
    if (place >= 0) reached.add(place);
    await page.keyboard.press("Tab");
  }
  assert.equal(reached.size, all, `${name}: Tab reaches ${reached.size} of ${all} in the dialog of ${words}`);
}

/** A picture of what is seen of the page, in the job's folder. */
async function keep(page, name) {
  const { withPalette } = await import("./palette.mjs");
  writeFileSync(`${job.folder}/${name}.png`, withPalette(await page.screenshot()));
}

const scenarios = {
  /** Under the page's own policy: each fits, and answers to the keyboard. Tells what the pages ask of the server. */
  async each_page_fits_and_is_walked_by_keys() {
    const page = await open({ reducedMotion: "reduce" });
    let dialogs = 0;
    for (const [name, hash] of Object.entries(pages())) {
      await show(page, hash);
      await page.keyboard.press("p"); // paused, so that rows stay where they are
      await assertFits(page, name);
      await assertTabs(page, name);
      await assertRows(page, name);
      dialogs += await openEach(page, (dialog, words) => assertDialog(page, name, dialog, words));
      await page.setViewportSize(NARROW);
      await assertFits(page, `${name}, narrow`);
      await page.setViewportSize(COMMON);
      const moving = await page.evaluate(() => document.getAnimations().length);
      assert.equal(moving, 0, `${name}: something moves for who wants less motion`);
      await page.keyboard.press("p");
    }
    assert.ok(dialogs >= 30, `${dialogs} dialogs were opened`);
    assert.notEqual(await page.title(), "1", "a text became markup");
    assert.equal(await page.locator("main img").count(), 0);
    assert.deepEqual(page.wrong, []);
    const asked = page.asked.filter((request) => request.method() === "POST");
    return asked.map((request) => [target(request), request.postData()]);
  },

  /** With the longest names, at 200 % and at 400 %, on each page and in each dialog. Themes differ in colours only. */
  async each_page_and_dialog_is_seen_whole_when_it_is_magnified() {
    const page = await open(ZOOMED);
    await pretendNodes(page);
    const told = [];
    const note = async (where, isRowWhole) => {
      const hidden = await whatIsHidden(page, isRowWhole);
      told.push(...hidden.map((words) => `${where}: ${words}`));
    };
    for (const [name, hash] of Object.entries(pages())) {
      await show(page, hash);
      await page.keyboard.press("p");
      for (const size of [ZOOMED.viewport, NARROWEST, COMMON]) {
        await page.setViewportSize(size);
        await page.evaluate(() => new Promise(requestAnimationFrame)); // in which the page draws itself anew
        const where = `${name}, ${size.width} wide`;
        await note(where, size !== COMMON);
        if (size === NARROWEST) await openEach(page, (_, words) => note(`${where}, ${words}`));
      }
      await page.setViewportSize(ZOOMED.viewport);
      await page.keyboard.press("p");
    }
    await page.keyboard.press("?");
    await note("the keys");
    assert.deepEqual(told, []);
    assert.deepEqual(page.wrong, []);
  },

  /** axe makes markup of text itself, so the policy is off. In the dark only the colours differ. */
  async each_page_is_accessible_in_light_and_dark() {
    const page = await open({ bypassCSP: true });
    const told = [];
    await show(page, "#/");
    await page.evaluate(axe);
    for (const [name, hash] of differentPages()) {
      await page.emulateMedia({ colorScheme: "light" });
      await show(page, hash);
      told.push(...(await whatAxeTells(page, `${name}, light`)));
      await page.emulateMedia({ colorScheme: "dark" });
      told.push(...(await whatAxeTells(page, `${name}, dark`, ["color-contrast"])));
    }
    assert.deepEqual(told, []);
  },

  /** A picture of each page in both themes, for docs/ui. */
  async pictures() {
    for (const colorScheme of ["light", "dark"]) {
      const page = await open({ colorScheme, viewport: { width: 1200, height: 700 } });
      for (const [name, hash] of Object.entries(job.pages)) {
        await page.setViewportSize({ width: 1200, height: 700 });
        await show(page, hash);
        await until(async () => !/Stop$/m.test(await text(page)), "the end of a search");
        const height = await page.evaluate(() => document.querySelector("footer").getBoundingClientRect().bottom);
        await page.setViewportSize({ width: 1200, height: Math.min(Math.ceil(height), 1000) });
        await keep(page, `${name}-${colorScheme}`);
      }
      assert.deepEqual(page.wrong, []);
    }
    const page = await open({ viewport: NARROW });
    await show(page, "#/");
    await keep(page, "overview-narrow");
  },

  /** What is read on each of these pages. */
  async texts_of_pages() {
    const page = await open();
    const told = {};
    for (const hash of job.pages) {
      await show(page, hash);
      told[hash] = await text(page);
    }
    assert.deepEqual(page.wrong, []);
    return told;
  },

  /** Dead letters come while somebody looks. */
  async a_page_grows_while_it_is_watched() {
    const page = await open();
    await show(page, "#/queue/mails-failed");
    await page.locator("tbody a[data-row][href^='#/message']").first().click();
    await until(async () => /It failed for good/.test(await text(page)), "the dead letter");
    const silence = /Nobody has asked mails for messages since [\d:]{8} UTC: sent back, it would wait there/;
    assert.match(await page.locator(".why").innerText(), silence);
    await show(page, "#/dead-letters?queue=mails-failed");
    const before = Number(/([\d,]+) messages, from mails/.exec(await text(page))[1]);
    await page.getByRole("button", { name: "Redrive 10 first…" }).first().click();
    const dialog = page.getByRole("dialog");
    const isWarned = async () => /They will wait there: nobody has asked mails for/.test(await dialog.innerText());
    await until(isWarned, "that nobody would take them");
    await page.keyboard.press("Escape");
    await ask("AmazonSQS.SendMessage", { QueueUrl: "mails", MessageBody: "{}" });
    const { Messages } = await ask("AmazonSQS.ReceiveMessage", { QueueUrl: "mails" });
    const { ReceiptHandle } = Messages[0];
    await ask("Tally.FailMessage", { QueueUrl: "mails", ReceiptHandle, Reason: "mailbox full", Final: true });
    await until(async () => (await text(page)).includes(`${before + 1} messages, from mails`), "that it says so");
    assert.match(await text(page), /mailbox full/);
    await show(page, "#/queue/mails");
    const isSaid = async () => (await text(page)).includes(`${before + 1} dead letters are in mails-failed`);
    await until(isSaid, "where its messages are");
    await show(page, "#/queue/mails-failed");
    await page.locator("tbody a[data-row][href^='#/message']").first().click();
    await until(async () => /It is a dead letter of mails; 1 of 3 attempts used/.test(await text(page)), "what it is");
    assert.equal(await page.locator(".why").getByRole("button", { name: "Redrive…" }).count(), 1);
    const life = await page.locator(".line").innerText();
    assert.ok(life.indexOf("received, attempt 1") < life.indexOf("dead-lettered from mails"), life);
    assert.deepEqual(page.wrong, []);
  },

  async a_queue_that_is_not_there_is_said() {
    const page = await open();
    await show(page, "#/queue/nowhere");
    assert.match(await text(page), /There is no queue nowhere, or this credential does not cover it/);
    await page.getByRole("link", { name: "All queues" }).click();
    await until(() => /#\/queues$/.test(page.url()), "the list of queues");
    assert.ok(page.wrong.every((text) => /status of 400/.test(text)), page.wrong); // the browser tells of refusals
  },

  /** A group that stands behind so many others that no list of groups shows it. */
  async a_held_group_is_found_wherever_it_stands() {
    const page = await open();
    await show(page, "#/groups?queue=shipments.fifo&group=parcel-lost");
    await until(async () => /The group is held/.test(await text(page)), "that it says so");
    assert.match(await text(page), /no such address/);
    assert.equal(await page.getByRole("button", { name: "Retry…" }).count(), 1);
    assert.deepEqual(page.wrong, []);
  },

  /** Attributes that nobody gave, and an expression that could not be worked out. */
  async a_ticket_says_what_it_lacks() {
    const page = await open();
    await ask("AmazonSQS.CreateQueue", { QueueName: "loads" });
    const Rules = [{ type: "differ", attr: "kind" }, { type: "expr", expr: "a.room / a.trips >= b.size" }];
    const Attributes = { kind: "str", room: "num", trips: "num", size: "num" };
    await ask("Tally.CreatePool", { PoolName: "vans", ResultQueueUrl: "loads", Attributes, Rules });
    const order = { room: 0, trips: 1, size: 2 };
    const Tickets = [
      { TicketId: "van", Attributes: { kind: "van", room: 4, trips: 2 } },
      { TicketId: "order", Attributes: { kind: "order", ...order } },
      { TicketId: "parked", Attributes: { kind: "parked", room: 4, trips: 0, size: 0 } },
      { TicketId: "bare", Attributes: order },
    ];
    await ask("Tally.OfferTickets", { PoolName: "vans", Tickets });
    const says = async (ticket, ...claims) => {
      await show(page, `#/pool/vans?ticket=${ticket}`);
      for (const claim of claims) assert.match(await page.locator(".why").first().innerText(), claim);
    };
    const rule = "expr(a.room / a.trips >= b.size)".replace(/[()./]/g, "\\$&");
    await says("van", new RegExp(`2 candidates rejected by ${rule}; 2 errors; this ticket has no size$`, "m"));
    await says("van", /1 candidate rejected by differ\(kind\); a candidate has no kind$/m);
    await says("order", new RegExp(`2 candidates rejected by ${rule}; 2 errors; a candidate has no size$`, "m"));
    await says("bare", /3 candidates rejected by differ\(kind\); this ticket has no kind$/m);
    await says("bare", /Rules now\s+differ\(kind\); this ticket has no kind$/m);
    await ask("Tally.CancelTickets", { PoolName: "vans", TicketIds: ["van", "bare"] });
    await says("order", new RegExp(`1 candidate rejected by ${rule}; 1 error$`, "m"));
    await ask("Tally.DeletePool", { PoolName: "vans" });
    assert.deepEqual(page.wrong, []);
  },

  /** From the overview alone, with four prepared causes. */
  async why_is_order_17_not_delivered() {
    const page = await open();
    await show(page, "#/");
    const held = await page.locator(".need").innerText();
    assert.match(held, /orders\.fifo group customer-17 is held: card declined/);
    assert.match(held, /16 messages wait behind it/);
    assert.match(held, /reports: its oldest message is \d+ min old and can't be received: 1 is blocked, 1 is delayed/);
    assert.equal(await page.locator('.need a[href="#/queue/reports?state=blocked"]').count(), 1);
    assert.match(held, /Message …\w+ of exports is held by export-2 for [^;]*; its lease ends in 11 h/);
    assert.match(held, /\d( or more)? queues have no worker: ([\w.-]+, ){4}[\w.-]+ and others\. Nobody asks them/);
    assert.doesNotMatch(held, /has no worker/);
    await page.locator(".need").getByRole("link", { name: "customer-17" }).click();
    await until(async () => /Its messages, in order/.test(await text(page)), "the group");
    assert.match(await text(page), /The group is held for/);
    assert.equal(await page.getByRole("link", { name: "Show the group" }).count(), 0, "it is this page");
    await page.locator(`a[href="#/message/${ids.held}"]`).first().click();
    await until(async () => /Why it is not delivered/.test(await text(page)), "the message");
    assert.match(await text(page), /Its group is held since .*card declined/);
    assert.match(await text(page), /"order": 17/);
    assert.match(await text(page), /Retry or Skip lets it go on\. Cancel the rest ends this message too/);

    await show(page, `#/message/${ids.blocked}`);
    const waits = /It waits for message …\w+ in queue orders\.fifo, which is held\./;
    await until(async () => waits.test(await text(page)), "what it waits for");
    assert.equal(await page.locator('.why a[href="#/queue/orders.fifo"]').count(), 1);
    const silence = /^Nobody has asked this queue for messages since the server's start\.$/;
    assert.match(await page.locator(".why li").nth(1).innerText(), silence, "the second cause");
    await show(page, `#/message/${ids.head}`);
    assert.match(await text(page), /16 messages wait behind it in group customer-17/);
    await show(page, `#/message/${ids.blocked}`);
    await page.locator(".why li a").first().click();
    await until(async () => page.url().endsWith(ids.held), "the link of the cause");

    await show(page, `#/message/${ids.delayed}`);
    assert.match(await text(page), /It is delayed until [\d:]{8} UTC, in \d+ min/);
    assert.match(await page.locator(".why li").nth(1).innerText(), silence);
    assert.match(await page.locator(".line").innerText(), /in \d+ min[^]*becomes visible/);
    await show(page, "#/in-flight?queue=orders.fifo");
    await page.locator("tbody [data-row]").click();
    await until(async () => /Fencing token/.test(await text(page)), "the message in flight");
    assert.match(await page.locator(".why").innerText(), /^Where it is\s+It is in flight since [^(]* held by pay-7/);
    assert.match(await page.locator(".line").innerText(), /becomes visible, unless it is deleted before/);
    await show(page, `#/message/${ids.paused}`);
    assert.match(await text(page), /The queue is paused; Resume lets it go on/);
    await show(page, "#/queue/thumbnails");
    await page.getByRole("button", { name: "Resume" }).click();
    await until(async () => (await page.locator("#said").innerText()).includes("delivers again"), "Resume");
    await show(page, `#/message/${ids.paused}`);
    await until(async () => /Nothing keeps it back/.test(await text(page)), "that it is ready");
    assert.match(await text(page), /But nobody has asked this queue for messages since the server's start/);
    await show(page, "#/queue/thumbnails");
    assert.match(await text(page), /Nothing keeps it, but nobody has asked this queue for messages since/);
    await show(page, `#/message/${ids.last}`);
    const lastUnit = /The last unit of the batch is …\w+\. It is in flight since .* held by export-2/;
    await until(async () => lastUnit.test(await text(page)), "who has what it waits for");
    assert.equal(await page.locator(`.why a[href="#/message/${ids.long}"]`).count(), 1);
    await show(page, "#/find?q=order+nowhere");
    const noText = /No message .*these words.* Bodies are searched as they were sent; try one word of it/;
    await until(async () => noText.test(await text(page)), "that it looks through all");
    await show(page, `#/find?q=${"many+".repeat(17)}`);
    assert.match(await text(page), /Of the text only the first 16 words were looked for/);
    await show(page, "#/message/order-17");
    await until(async () => /No message of this id is known/.test(await text(page)), "that nobody knows it");
    assert.deepEqual(page.wrong, []);
  },

  async a_relay_says_for_how_long_it_is_as_it_is() {
    const page = await open();
    await show(page, "#/relay/payments");
    assert.match(await text(page), /payments\s+active for [\d.]+ (s|min)\b/);
    await show(page, "#/relay/billing-hook");
    assert.match(await text(page), /billing-hook\s+blocked for \d+ min\b[^]*Why it is blocked\s+can't reach/);
    assert.deepEqual(page.wrong, []);
  },

  /** Each message stands in one column, and a column says what its filter lists. */
  async columns_count_each_message_once() {
    const page = await open();
    await show(page, "#/queue/reports");
    assert.match(await text(page), /Visible\s+0\s+In flight\s+0\s+Delayed\s+1\s+Waits for others\s+1\s+Polls/);
    for (const state of ["delayed", "blocked"]) {
      await show(page, `#/queue/reports?state=${state}`);
      assert.equal(await page.locator("tbody tr").count(), 1, state);
    }
    await show(page, "#/queue/reports?state=held");
    assert.match(await text(page), /No message fits the filter\./);
    await show(page, "#/queues?prefix=reports");
    const row = await page.locator("tbody tr").first().innerText();
    const names = await page.locator("thead th").allInnerTexts();
    const cells = row.split("\t").map((cell) => cell.trim());
    assert.deepEqual(["Visible", "In flight", "Delayed", "Waits for others"].map((name) => cells[names.indexOf(name)]),
                     ["0", "0", "1", "1"]);
    assert.equal(cells[names.indexOf("Last receive")], "never");
    await show(page, "#/queue/orders.fifo");
    assert.match(await text(page), /Visible\s+\d+\s+also behind others of their group/);
    assert.deepEqual(page.wrong, []);
  },

  /** At 200 % a row shows what it is about and its button without scrolling to the side. */
  async rows_are_seen_whole_at_200_percent() {
    const page = await open(ZOOMED);
    const list = ["#/queue/orders.fifo", "#/queue/resize", "#/in-flight", "#/dead-letters", "#/queues?prefix=r",
                  "#/groups", "#/find?q=customer-17", "#/relay/payments"];
    for (const hash of list) {
      await show(page, hash);
      const { height, over, cut } = await page.evaluate(() => ({
        height: document.querySelector("header").offsetHeight,
        over: [...document.querySelectorAll(".scroll")].map((one) => one.scrollWidth - one.clientWidth),
        cut: [...document.querySelectorAll("td .begin, td button")].filter(
          (one) => one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().right > innerWidth,
        ).length,
      }));
      assert.ok(height <= 90, `the header takes ${height} of 400 pixels`);
      assert.ok(over.length > 0 && Math.max(...over) <= 0, `${hash} scrolls to the side by ${over}`);
      assert.equal(cut, 0, `${hash}: bodies and buttons are cut`);
    }
    await show(page, "#/queue/resize");
    assert.match(await page.locator("tbody tr.below").first().innerText(), /"image": "IMG_\d+\.jpg", "widths": \[320,/);
    await page.setViewportSize(COMMON);
    await until(async () => (await page.locator("tbody tr.below").count()) === 0, "the wide table");
    await page.setViewportSize(ZOOMED.viewport);
    await show(page, "#/server");
    const current = page.locator('nav [aria-current="page"]');
    assert.ok((await current.boundingBox()).x < ZOOMED.viewport.width - 40, "the page of now is seen among the others");
    assert.deepEqual(page.wrong, []);
  },

  /** It looks through all queues, those first that are called like a word of it, until somebody stops it. */
  async a_search_goes_on_through_all_queues() {
    const QueueUrl = "zz-last";
    await ask("AmazonSQS.CreateQueue", { QueueName: QueueUrl });
    await ask("AmazonSQS.SendMessage", { QueueUrl, MessageBody: "a needle", MessageDeduplicationId: "order-98765" });
    const page = await open();
    const asked = () => page.asked.filter((request) => target(request) === "Tally.FindMessage");
    const isOver = async () => /Looked through all: [\d,]+ of [\d,]+ queues, [\d,]+ messages\./.test(await text(page));
    await show(page, "#/find?q=order-98765");
    assert.match(await text(page), /Messages with this id[^]*zz-last[^]*a needle/, "at once, as each queue is asked");
    await show(page, "#/find?q=needle");
    await until(isOver, "the end of the search");
    assert.match(await text(page), /Messages with this text[^]*zz-last[^]*a needle/);
    const [, through, all] = /all: ([\d,]+) of ([\d,]+) queues/.exec(await text(page));
    assert.equal(through, all);

    let delay = 0;
    await page.route((url) => url.pathname === "/", async (route) => {
      if (delay > 0 && target(route.request()) === "Tally.FindMessage")
        await new Promise((resolve) => setTimeout(resolve, delay));
      await route.continue().catch(() => {}); // the page may have gone on to another
    });
    await show(page, "#/find?q=order-17"); // which nobody remembers any more
    assert.match(await text(page), /Messages with this id[^]*orders\.fifo/);
    const before = asked().length;
    delay = 100;
    await show(page, "#/find?q=order+nowhere");
    const first = asked().slice(before).map((request) => JSON.parse(request.postData()).QueueUrl).filter(Boolean);
    assert.match(first[0], /orders\.fifo$/);
    assert.equal(first.length, 1, "what was found is shown before the next call");
    const isOnItsWay = /Looked through [\d,]+ of [\d,]+ queues.* so far\. Nothing was found yet/;
    await until(async () => isOnItsWay.test(await text(page)), "how far it is");
    assert.doesNotMatch(await text(page), /No message has/, "nothing is said of what was not looked at");
    await page.getByRole("button", { name: "Stop" }).click();
    await until(async () => /Stopped: looked through/.test(await text(page)), "that it stops");
    await page.waitForTimeout(4 * delay);
    const stopped = asked().length;
    await page.waitForTimeout(6500);
    assert.equal(asked().length, stopped, "a search that was stopped asks nothing");
    assert.doesNotMatch(await page.locator("#live").innerText(), /No answer/, "who asks nothing waits for no answer");
    await page.getByRole("button", { name: "Go on" }).click();
    await until(() => asked().length > stopped + 2, "that it goes on");
    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { get: () => true, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await page.waitForTimeout(10 * delay);
    const hidden = asked().length;
    await page.waitForTimeout(10 * delay);
    assert.equal(asked().length, hidden, "a hidden tab asks nothing");
    delay = 0;
    await page.evaluate(() => {
      delete document.hidden;
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await until(isOver, "that it goes on where it was");
    assert.match(await text(page), /No message has these words/);
    await show(page, "#/find?q=%22order+nowhere%22");
    await show(page, "#/queues");
    assert.equal(await page.locator("#find-text").inputValue(), "", "what was looked for is gone with its page");
    await page.waitForTimeout(300);
    const left = asked().length;
    await page.waitForTimeout(500);
    assert.equal(asked().length, left, "a search ends with its page");
    assert.deepEqual(page.wrong, []);
  },

  async keys_lead_from_page_to_page() {
    const page = await open();
    await show(page, "#/");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    await show(page, "#/queues?sort=name");
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await until(async () => page.url().includes("#/queue/"), "Enter");
    await settled(page);
    await page.keyboard.press("Escape");
    await until(async () => page.url().includes("#/queues"), "Escape");
    await page.keyboard.press("?");
    assert.ok(await page.getByRole("dialog").isVisible());
    await page.keyboard.press("Escape");
    await until(async () => (await page.getByRole("dialog").count()) === 0, "Escape of the dialog");
    await page.keyboard.press("/");
    await page.keyboard.type("customer-17");
    await page.keyboard.press("Enter");
    await until(async () => /Group customer-17 in orders\.fifo/.test(await text(page)), "what is found");
    assert.deepEqual(page.wrong, []);
  },

  /** A row in focus stays so while the page asks again; a filter is in the address; a hidden tab asks nothing. */
  async it_asks_again_without_disturbing() {
    const page = await open();
    await show(page, "#/queue/orders.fifo");
    await page.keyboard.press("j");
    const before = await page.evaluate(() => document.activeElement.outerHTML);
    const asked = page.asked.length;
    await until(() => page.asked.length > asked + 2, "that it asks again");
    assert.equal(await page.evaluate(() => document.activeElement.outerHTML), before);
    await page.locator("select[name=state]").selectOption("held");
    await until(() => page.url().endsWith("#/queue/orders.fifo?state=held"), "the filter in the address");
    await settled(page);
    await show(page, "#/batch/night-42");
    await page.locator("select[name=state]").selectOption({ value: "all" });
    await until(async () => (await page.locator("tbody tr").count()) === 5, "units in all states");
    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { get: () => true, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await page.waitForTimeout(500);
    const hidden = page.asked.length;
    await page.waitForTimeout(2500);
    assert.equal(page.asked.length, hidden, "a hidden tab asks nothing");
    await page.evaluate(() => {
      delete document.hidden;
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await until(() => page.asked.length > hidden, "that a tab which is seen again asks");
    await page.keyboard.press("p");
    await until(async () => (await page.locator("#live").innerText()).startsWith("Paused"), "the pause");
    assert.deepEqual(page.wrong, []);
  },

  /** A page that is loaded while the server is away comes to life when it is back. */
  async it_waits_for_a_server_that_starts() {
    const page = await open();
    await page.route("**/ui/config", (route) => route.abort());
    await page.goto(ui);
    await until(async () => /does not answer/.test(await text(page)), "that nobody answers is said");
    await page.evaluate(() => (location.hash = "#/queues?prefix=orders"));
    await page.keyboard.press("p");
    await page.unroute("**/ui/config");
    await until(async () => (await text(page)).includes("orders.fifo"), "the queues");
    assert.deepEqual(page.wrong.filter((line) => !line.includes("Failed to load resource")), []);
  },

  /** Red is what can't be undone. */
  async what_would_end_is_said_and_red() {
    const page = await open();
    const dialog = page.getByRole("dialog");
    const isRed = async (name) => {
      const button = page.getByRole("button", { name }).first();
      return button.evaluate((node) => node.classList.contains("do"));
    };
    const said = async (name) => {
      await page.getByRole("button", { name }).click();
      await until(async () => !/Asking the server/.test(await dialog.innerText()), "what would happen");
      const words = await dialog.innerText();
      await page.keyboard.press("Escape");
      return words;
    };
    await show(page, `#/message/${ids.held}`);
    const rest = await said("Cancel the rest…");
    assert.match(rest, /16 messages behind it are cancelled.* The message of this page is among them: it ends too/);
    assert.match(await said("Delete…"), /This would end:\s+1 message$/m);
    assert.deepEqual([await isRed("Skip…"), await isRed("Cancel the rest…")], [false, true]);
    await show(page, `#/message/${ids.head}`);
    assert.match(await text(page), /Retry tries this message again\. Skip and Cancel the rest give it up/);
    assert.doesNotMatch(await said("Cancel the rest…"), /The message of this page/);
    await show(page, `#/message/${ids.long}`);
    assert.equal(await isRed("Take it back…"), false);
    await show(page, "#/batch/invoices-11");
    assert.equal(await isRed("Cancel…"), true);
    assert.match(await said("Cancel…"), /1 unit of 1 batch/);
    assert.deepEqual(page.wrong, []);
  },

  async a_button_says_what_would_happen() {
    const page = await open();
    await show(page, "#/groups?queue=orders.fifo&group=customer-17");
    await page.getByRole("button", { name: "Skip…" }).click();
    const dialog = page.getByRole("dialog");
    await until(async () => /The head …\w+ goes to orders-failed\.fifo/.test(await dialog.innerText()), "the words");
    assert.match(await dialog.innerText(), /16 messages behind it go on/);
    assert.doesNotMatch(await dialog.innerText(), /This would touch|\b0 messages/);
    const ground = (name) =>
      dialog.getByRole("button", { name }).evaluate((node) => getComputedStyle(node).backgroundColor);
    assert.notEqual(await ground("Skip it"), await ground("Leave it"), "which one does it is seen");
    await dialog.getByRole("button", { name: "Leave it" }).click();
    assert.match(await text(page), /The group is held/, "nothing is done by looking");
    await page.getByRole("button", { name: "Skip…" }).click();
    await dialog.getByRole("button", { name: "Skip it" }).click();
    await until(async () => !/The group is held/.test(await text(page)), "that the group goes on");

    await show(page, "#/queue/resize");
    await page.getByRole("button", { name: "Purge…" }).click();
    const purge = dialog.getByRole("button", { name: "Purge" });
    assert.ok(await purge.isDisabled());
    await dialog.getByLabel("Type").fill("resiz");
    assert.ok(await purge.isDisabled(), "the whole name");
    await dialog.getByLabel("Type").fill("resize");
    await purge.click();
    await until(async () => /The queue is empty|No message/.test(await text(page)), "the purge");
    assert.deepEqual(page.wrong, []);
  },

  async a_button_stays_off_if_what_would_happen_is_not_known() {
    const page = await open();
    await refuse(page, isDryRun, "InvalidParameterValue");
    await show(page, "#/queue/resize");
    await page.getByRole("button", { name: "Purge…" }).click();
    const dialog = page.getByRole("dialog");
    await until(async () => /Refused by the test/.test(await dialog.innerText()), "the refusal");
    await dialog.getByLabel("Type").fill("resize");
    assert.ok(await dialog.getByRole("button", { name: "Purge" }).isDisabled());
    assert.deepEqual(wrong(page), []);
  },

  /** While a cluster comes to a newer version, an older node may own the namespace. It would act on a dry run. */
  async an_owner_that_does_not_describe_itself_gets_no_dry_run() {
    const page = await open();
    let isOlder = false;
    const claim = (request) => isOlder && target(request) === "Tally.DescribeServer";
    await refuse(page, claim, "UnknownOperationException");
    await show(page, "#/queue/resize");
    isOlder = true;
    await page.getByRole("button", { name: "Purge…" }).click();
    const dialog = page.getByRole("dialog");
    await until(async () => /All \d+ messages of resize end/.test(await dialog.innerText()), "the words");
    await dialog.getByRole("button", { name: "Leave it" }).click();
    await page.reload();
    await until(async () => /Messages/.test(await text(page)), "the page");
    await show(page, "#/dead-letters");
    const all = page.getByRole("button", { name: "Redrive all…" });
    await until(async () => (await all.count()) > 0, "the button of older servers");
    assert.equal(await page.getByRole("button", { name: /first…/ }).count(), 0, "filters are of newer servers");
    assert.ok(!page.asked.some(isDryRun));
    assert.deepEqual(wrong(page), []);
  },

  async an_edit_keeps_the_ends_of_lines() {
    const page = await open();
    await show(page, `#/message/${ids.crlf}`);
    await page.getByRole("button", { name: "Edit and resend…" }).click();
    const dialog = page.getByRole("dialog");
    assert.equal(await dialog.getByLabel("Body").inputValue(), "one\ntwo\n");
    await dialog.getByLabel("Body").fill("one\nthree\n");
    await dialog.getByRole("button", { name: "Send it" }).click();
    await until(() => !page.url().endsWith(ids.crlf), "the copy");
    const sent = page.asked.find((request) => target(request) === "Tally.ReplaceMessage");
    assert.equal(JSON.parse(sent.postData()).MessageBody, "one\r\nthree\r\n");
    await show(page, `#/message/${ids.mixed}`);
    await until(async () => /can't be edited here: its line ends are mixed/.test(await text(page)), "the reason");
    assert.equal(await page.getByRole("button", { name: "Edit and resend…" }).count(), 0);
    assert.deepEqual(page.wrong, []);
  },

  async bodies_are_shown_exactly_and_never_obeyed() {
    const page = await open();
    await show(page, `#/message/${ids.exact}`);
    await until(async () => /12345678901234567890/.test(await text(page)), "all digits of a number");
    await page.getByRole("button", { name: "Bytes" }).click();
    await until(async () => /000000 {2}7b 22 6e/.test(await text(page)), "its bytes");
    await page.getByRole("button", { name: "Hidden" }).click();
    await until(async () => !/1234567890/.test(await text(page)), "that it is hidden");
    await show(page, `#/message/${ids.markup}`);
    assert.ok(
      !/onerror="document/.test(await page.locator("section", { hasText: "Body" }).last().innerText()),
      "hidden stays hidden",
    );
    await page.getByRole("button", { name: "Text" }).click();
    await until(async () => (await text(page)).includes('<img src=x onerror="document.title=1">'), "the text");
    await show(page, `#/message/${ids.huge}`);
    await page.getByRole("button", { name: /Read all/ }).click();
    await until(async () => /Show the other 9/.test(await text(page)), "a part of the large body");
    await show(page, "#/queue/hostile.fifo");
    await until(async () => /‹U\+202E›evil‹U\+202C›/.test(await text(page)), "that what turns a text is named");
    assert.notEqual(await page.title(), "1");
    assert.deepEqual(page.wrong, []);
  },

  async signed_pages() {
    const page = await open();
    await page.goto(`${ui}#/queues`);
    await until(async () => /Sign in/.test(await text(page)), "the way to sign in");
    await settled(page);
    await assertTabs(page, "sign-in");
    await page.setViewportSize(NARROWEST);
    assert.deepEqual(await whatIsHidden(page, true), []);
    await page.setViewportSize(COMMON);
    const signIn = async (key, secret) => {
      await page.getByLabel("Access key").fill(key);
      await page.getByLabel("Secret").fill(secret);
      await page.getByRole("main").getByRole("button", { name: "Sign in" }).click();
    };
    await signIn("AKIAOPS", "wrong");
    await until(async () => (await page.getByRole("alert").count()) > 0, "the refusal");
    page.wrong.length = 0; // the browser tells of refused requests
    await signIn("AKIAOPS", job.secrets.AKIAOPS);
    await until(async () => /There is no queue yet/.test(await text(page)), "the page that was asked for");
    assert.match(page.url(), /#\/queues$/);
    await settled(page);
    await page.evaluate(() => {
      const real = Date.now;
      Date.now = () => real() - 3600000;
    });
    const asked = page.asked.length;
    await until(() => page.asked.length > asked + 3, "that it asks with a clock that has jumped");
    assert.match(page.url(), /#\/queues$/, "a jump of the clock signs nobody out");
    const kept = await page.evaluate(() => JSON.stringify({ ...sessionStorage, ...localStorage }) + document.cookie);
    assert.ok(!kept.includes(job.secrets.AKIAOPS) && kept.includes("AKIAOPS"), "only the key of the day is kept");
    for (const request of page.asked) {
      const sent = request.url() + JSON.stringify(request.headers()) + request.postData();
      assert.ok(!sent.includes(job.secrets.AKIAOPS));
    }
    await show(page, "#/server");
    await until(
      async () => /You may\s+admin, write, read|You may\s+read, write, admin/.test(await text(page)),
      "all rights",
    );

    await page.getByRole("button", { name: "Sign out" }).click();
    await until(async () => /Sign in/.test(await text(page)), "that it is signed out");
    await signIn("AKIALOOK", job.secrets.AKIALOOK);
    await until(async () => page.url().endsWith("#/"), "the overview");
    await show(page, "#/server");
    await until(async () => /You may\s+read\b(?!,)/.test(await text(page)), "the right of who only looks");
    await page.reload();
    await until(async () => /You may\s+read\b/.test(await text(page)), "that a reload stays signed in");
    assert.deepEqual(wrong(page), []);
  },

  /** What `tally ui` prints. The key is out of the address before anything is asked. */
  async signed_by_address() {
    const { AKIAOPS: ours, AKIALOOK: theirs } = job.addresses;
    const hash = (address) => address.slice(address.indexOf("#"));
    const isSignedInAs = (key) =>
      until(async () => (await page.locator("footer").innerText()).includes(`Signed in as ${key} `), key);
    const page = await open();
    await page.route("**/ui/config", async (asked) => {
      assert.ok(!page.url().includes("#k="), page.url());
      await asked.continue();
    });
    await page.goto(ours);
    await isSignedInAs("AKIAOPS");
    assert.equal(page.url(), `${ui}#/`);
    await page.evaluate((next) => (location.hash = next), hash(theirs)); // in a page that is there already
    await isSignedInAs("AKIALOOK");
    await show(page, "#/server");
    await until(async () => /You may\s+read\b(?!,)/.test(await text(page)), "the right of the other key");
    await page.evaluate((next) => (location.hash = next), "#k=AKIAOPS&d=today&s=nothing");
    await until(async () => page.url() === `${ui}#/`, "that nonsense leaves the address too");
    await isSignedInAs("AKIALOOK");
    await page.evaluate((next) => (location.hash = next), hash(ours).replace(/d=\d+/, "d=20200101"));
    await until(async () => /was of another day/.test(await text(page)), "why it does not sign in");
    const keys = [ours, theirs].map((address) => /s=(\w{64})/.exec(address)[1]);
    for (const request of page.asked)
      for (const key of keys)
        assert.ok(!(request.url() + JSON.stringify(request.headers()) + request.postData()).includes(key));
    assert.deepEqual(page.wrong, []);
  },

  async signed_read_only() {
    const page = await open();
    for (const [name, hash] of differentPages()) {
      await show(page, hash);
      const buttons = await page.locator("main button").allInnerTexts();
      const changing = buttons.filter((words) =>
        /Pause|Resume|Purge|Delete|Retry|Skip|Cancel|Redrive|Send|Drop|Edit/.test(words),
      );
      assert.deepEqual(changing, [], name);
    }
    assert.match(await page.locator("footer").innerText(), /only shows/);
    assert.deepEqual(page.wrong, []);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  job = JSON.parse(line);
  ({ ids, endpoint } = job);
  ui = `${endpoint}/ui/`;
  let answer;
  try {
    answer = { told: await scenarios[job.scenario]() };
  } catch (error) {
    answer = { error: error.stack };
  }
  for (const context of browser.contexts()) await context.close();
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
