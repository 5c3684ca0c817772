// bench/dashboards.mjs PORT QUEUE SECONDS: what ten open dashboards ask for in so many seconds.
//
// Each asks what its page asks, by the page's own load(), and as often as the page does (src/ui/web/main.js): it draws
// nothing. Prints [milliseconds, action, body] of each request, as JSON, once all of them have been open for a while.
const [port, queue, seconds] = process.argv.slice(2);
const POLL_MS = 2000;
const DESCRIBE_S = 10;
const OF_QUEUE = `queue/${queue}`;
const SHOWN = ["", "", "", "queues", "queues", OF_QUEUE, OF_QUEUE, "in-flight", "dead-letters", "groups"];
const MODULES = { "": "overview", "in-flight": "flight", "dead-letters": "dead" };

const asked = [];
const now = () => performance.now();
const browserFetch = globalThis.fetch;
globalThis.fetch = (path, options) => {
  if (options.method === "POST") asked.push([now(), options.headers["x-amz-target"], options.body]);
  return browserFetch(new URL(path, `http://127.0.0.1:${port}/ui/`), options);
};
globalThis.matchMedia = () => ({ matches: false });
globalThis.location = { host: `127.0.0.1:${port}`, hash: "" };
const kept = new Map();
const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
Object.assign(globalThis, { sessionStorage: storage, localStorage: storage });

const web = new URL("../src/ui/web/", import.meta.url);
const { begin, describe } = await import(new URL("api.js", web));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function show(shown, visit) {
  const [page, name] = shown.split("/");
  const { default: shows } = await import(new URL(`${MODULES[page] ?? page}.js`, web));
  for (let describedAt = -Infinity; ; ) {
    const begun = now();
    if (begun - describedAt > DESCRIBE_S * 1000) {
      await describe();
      describedAt = begun;
    }
    await shows.load({ page, name, query: {} }, visit, undefined);
    await sleep(Math.max(POLL_MS, 4 * (now() - begun)));
  }
}

await begin();
SHOWN.forEach(async (shown, at) => {
  await sleep((at * DESCRIBE_S * 1000) / SHOWN.length);
  await show(shown, {});
});
await sleep(DESCRIBE_S * 1000);
const from = now();
await sleep(seconds * 1000);
const of = asked.filter(([at]) => at >= from).map(([at, ...request]) => [at - from, ...request]);
process.stdout.write(JSON.stringify(of), () => process.exit(0));
