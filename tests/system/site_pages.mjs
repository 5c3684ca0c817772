// The site in a browser. test_site.py starts it once and writes jobs, one a line: {scenario, http, file, …}. Each is
// answered by a line: {told}, or {error} if something was not as it must be. One browser serves them all.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PHONE = { width: 375, height: 740 };
const DESK = { width: 1280, height: 800 };
const PATIENCE_MS = 60000;
const KINDS = ["index.html", "docs/index.html", "docs/tutorials/first-batch.html", "docs/problems/last-job-done.html",
  "docs/reference/actions/CreateBatch.html", "docs/explanation/guarantees.html", "docs/how-to/dashboard.html"];

let job; // that is done now

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer", "--disable-dev-shm-usage"],
});

/** A tab that notes what must not happen: errors, files that are missing, requests to anybody else. */
async function open(path, { base = job.http, ...options } = {}) {
  const context = await browser.newContext({ viewport: DESK, ...options });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.wrong = [];
  page.on("console", (message) => message.type() === "error" && page.wrong.push(message.text()));
  page.on("pageerror", (error) => page.wrong.push(`${error}\n${error.stack}`));
  page.on("request", (request) => {
    const isOurs = request.url().startsWith(base) || /^(data|blob):/.test(request.url());
    if (!isOurs) page.wrong.push(`off-origin: ${request.url()}`);
  });
  await page.goto(base + path, { timeout: PATIENCE_MS });
  return page;
}

/** Goes to a page of the site, which must be there. */
async function go(page, path) {
  const answer = await page.goto(job.http + path, { timeout: PATIENCE_MS });
  assert.equal(answer.status(), 200, path);
}

const theme = (page) => page.locator("body").getAttribute("data-md-color-scheme");

/** The file names of the pictures of the text that are to be seen and have arrived. */
const pictures = (page) =>
  page.waitForFunction(() => {
    const seen = [...document.querySelectorAll("article img")].filter((image) => image.checkVisibility());
    const isThere = seen.length > 0 && seen.every((image) => image.complete && image.naturalWidth > 0);
    return isThere && seen.map((image) => image.src.split("/").at(-1));
  }).then((found) => found.jsonValue());

/** What the search finds, best first. */
async function found(page, words) {
  await page.locator(".md-search__input").click();
  await page.keyboard.type(words);
  const links = page.locator(".md-search-result__item > a, .md-search-result__item > details > a");
  await links.first().waitFor({ state: "attached" });
  const paths = await links.evaluateAll((all) => all.map((link) => new URL(link.href).pathname));
  return paths.slice(0, 5);
}

const scenarios = {
  /** The texts of all pages in one, because a page itself takes a hundred times as long; then some pages themselves. */
  async fits_a_phone() {
    const page = await open("index.html", { viewport: PHONE });
    const wide = await page.evaluate(async (paths) => {
      const wide = [];
      const article = document.querySelector("article");
      const parser = new DOMParser();
      for (const path of paths) {
        const text = parser.parseFromString(await (await fetch(path)).text(), "text/html").querySelector("article");
        for (const image of text.querySelectorAll("img"))
          image.src = new URL(image.getAttribute("src"), new URL(path, location.href));
        article.replaceChildren(...text.childNodes);
        if (document.documentElement.scrollWidth > innerWidth) wide.push(path);
      }
      return wide;
    }, job.pages);
    assert.deepEqual(wide, []);
    for (const path of KINDS) {
      await go(page, path);
      const [width, full] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
      assert.ok(full <= width, path);
    }
    assert.deepEqual(page.wrong, []);
  },

  /** At 200 % a desk has 640 pixels: a picture fits, and a button to copy is not written over. */
  async shows_whole_pictures_and_buttons_when_zoomed() {
    const page = await open("docs/explanation/batches.html", { viewport: { width: 640, height: 400 } });
    await pictures(page);
    const cut = await page.evaluate(() =>
      [...document.querySelectorAll(".picture")]
        .filter((one) => one.scrollWidth > one.clientWidth)
        .map((one) => one.querySelector("img").src),
    );
    assert.deepEqual(cut, []);
    await go(page, "docs/reference/actions/ExplainTicket.html");
    const button = page.locator(".md-clipboard").first();
    const ground = await button.evaluate((node) => getComputedStyle(node).backgroundColor);
    assert.match(ground, /^rgb\(/, "what is under the button does not shine through");
    assert.deepEqual(page.wrong, []);
  },

  async searches() {
    for (const base of [job.http, job.file]) {
      const page = await open("docs/tutorials/first-batch.html", { base });
      assert.match((await found(page, "CreateBatch"))[0], /\/actions\/CreateBatch\.html$/, base);
      await page.goto(`${base}index.html`);
      assert.ok((await found(page, "last job")).some((path) => path.endsWith("/problems/last-job-done.html")), base);
      await page.locator(".md-search-result__item a").first().click();
      await page.waitForURL(/last|job/);
      assert.deepEqual(page.wrong, []);
      await page.context().close();
    }
  },

  /** Whatever was typed before the search had its worker and its index. */
  async searches_what_was_typed_early() {
    const page = await open("index.html");
    let release;
    const held = new Promise((resolve) => (release = resolve));
    await page.route("**/workers/search*.js", (route) => held.then(() => route.continue()));
    await page.goto(`${job.http}docs/tutorials/first-batch.html`);
    const index = page.waitForResponse("**/search_index.js");
    await page.locator(".md-search__input").click();
    await page.keyboard.type("Create");
    await (await index).finished();
    await page.waitForFunction(() => globalThis.__search.index.then(() => true));
    const rest = found(page, "Batch");
    await new Promise((resolve) => setTimeout(resolve, 300));
    release();
    assert.match((await rest)[0], /\/actions\/CreateBatch\.html$/);
    assert.deepEqual(page.wrong, []);
  },

  async copies() {
    const page = await open("docs/tutorials/first-batch.html");
    const copy = async (block) => {
      await block.scrollIntoViewIfNeeded();
      await block.locator("xpath=ancestor::pre").locator("button").click();
      return page.evaluate(() => navigator.clipboard.readText());
    };
    const terminal = page.locator(".language-console code").first();
    assert.equal(await copy(terminal), "tallyd --data ./tally-data");
    const file = page.locator(".language-sh code").first();
    assert.equal((await copy(file)).trim(), (await file.textContent()).trim());
    assert.deepEqual(page.wrong, []);
  },

  /** The system's theme until the switch was used, and then that of the switch; pictures go with it. */
  async switches() {
    for (const [colorScheme, first, then] of [["light", "default", "slate"], ["dark", "slate", "default"]]) {
      const page = await open("index.html", { colorScheme });
      const name = { default: "last-unit-light.svg", slate: "last-unit-dark.svg" };
      assert.equal(await theme(page), first);
      assert.deepEqual(await pictures(page), [name[first]]);
      await page.locator("[data-md-component=palette] label:visible").click();
      assert.equal(await theme(page), then);
      assert.deepEqual(await pictures(page), [name[then]]);
      await go(page, "docs/explanation/batches.html");
      assert.equal(await theme(page), then, "on the next page");
      const end = { default: "-light.svg", slate: "-dark.svg" }[then];
      assert.ok((await pictures(page)).every((one) => one.endsWith(end)));
      assert.deepEqual(page.wrong, []);
      await page.context().close();
    }
  },

  async is_accessible() {
    for (const colorScheme of ["light", "dark"]) {
      const page = await open("index.html", { colorScheme });
      for (const path of KINDS) {
        await go(page, path);
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
        const told = violations.map((rule) => `${rule.id}: ${rule.nodes.map((node) => node.html).join("\n  ")}`);
        assert.equal(told.join("\n"), "", `${path}, ${colorScheme}`);
      }
      assert.deepEqual(page.wrong, []);
      await page.context().close();
    }
  },

  /** Wherever the page that is missing would have been. */
  async leads_home_from_a_page_that_is_missing() {
    for (const path of ["no-such-page.html", "docs/how-to/no/such/page.html"]) {
      const page = await open(path);
      page.wrong = page.wrong.filter((line) => !/404/.test(line));
      await page.waitForFunction((home) => document.querySelector("a").href === home, `${job.http}index.html`);
      await page.getByRole("link", { name: "All pages" }).click();
      await page.getByRole("heading", { name: "All pages" }).waitFor();
      page.wrong = page.wrong.filter((line) => !/404/.test(line));
      assert.deepEqual(page.wrong, []);
      await page.context().close();
    }
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  job = JSON.parse(line);
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
