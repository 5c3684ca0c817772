// One tab of the dashboard that goes through all pages, again and again, while the server is killed and comes back.
// node look_pages.mjs ENDPOINT QUEUE; SIGTERM ends it, and it prints {"shown": N, "wrong": []} as its last line.
import { chromium } from "playwright-core";

const [endpoint, queue] = process.argv.slice(2);
const HASHES = ["#/", "#/queues", "#/queues?sort=name", `#/queue/${queue}`, `#/queue/${queue}?state=in-flight`,
  "#/in-flight", "#/dead-letters", "#/groups", `#/groups?queue=${queue}&group=g1`, "#/batches", "#/batch/b",
  "#/schedules", "#/relays", "#/relay/r", "#/pools", "#/pool/p?ticket=t", "#/activity", "#/server", "#/find?q=g1"];
const told = { shown: 0, wrong: [] };
let isOver = false;
process.on("SIGTERM", () => (isOver = true));

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  handleSIGTERM: false,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const page = await (await browser.newContext()).newPage();
page.on("pageerror", (error) => told.wrong.push(`${error}\n${error.stack}`));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
// What the page asks must be what only reads: a button is never pressed.
const CHANGES = /^(AmazonSQS|Tally)\.(Send|Receive|Delete|Change|Create|Put|Purge|Start|Replace|Commit|Release|Cancel)/;
page.on("request", (request) => {
  const target = request.headers()["x-amz-target"] ?? "";
  if (CHANGES.test(target) && !request.postData()?.includes('"DryRun":true')) told.wrong.push(`it asks for ${target}`);
});

while (!isOver && told.wrong.length < 10) {
  for (const hash of HASHES) {
    if (isOver) break;
    try {
      if (!page.url().startsWith(endpoint)) await page.goto(`${endpoint}/ui/${hash}`, { timeout: 5000 });
      else await page.evaluate((to) => (location.hash = to), hash);
      await pause(150);
      // Now and then the page is read anew, and now and then it shows the first message of its list.
      if (Math.random() < 0.1) await page.reload({ timeout: 5000 });
      const message = page.locator('#main a[href^="#/message/"]').first();
      if (Math.random() < 0.5 && (await message.count()) > 0) await message.click({ timeout: 2000 });
      const text = await page.locator("#main").innerText({ timeout: 5000 });
      told.shown += text !== "" ? 1 : 0;
    } catch {
      await pause(200); // the server is away
    }
  }
}
console.log(JSON.stringify(told));
await browser.close();
process.exit(0);
