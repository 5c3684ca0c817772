// bench/dashboards.mjs PORT QUEUE: ten open dashboards without their browsers.
//
// Each asks what its page asks, by the page's own load(), and as often as the page does (src/ui/web/main.js): it draws
// nothing. Prints how many requests they sent, when it is told to end.
const [port, queue] = process.argv.slice(2);
const POLL_MS = 2000;
const DESCRIBE_S = 10;
const OF_QUEUE = `queue/${queue}`;
const SHOWN = ["", "", "", "queues", "queues", OF_QUEUE, OF_QUEUE, "in-flight", "dead-letters", "groups"];
const MODULES = { "": "overview", "in-flight": "flight", "dead-letters": "dead" };

let requests = 0;
const browserFetch = globalThis.fetch;
globalThis.fetch = (path, options) => {
  requests++;
  return browserFetch(new URL(path, `http://127.0.0.1:${port}/ui/`), options);
};
globalThis.matchMedia = () => ({ matches: false });
globalThis.location = { host: `127.0.0.1:${port}`, hash: "" };
const kept = new Map();
const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
Object.assign(globalThis, { sessionStorage: storage, localStorage: storage });

const web = new URL("../src/ui/web/", import.meta.url);
const { begin, describe } = await import(new URL("api.js", web));

async function show(shown, visit) {
  const [page, name] = shown.split("/");
  const { default: shows } = await import(new URL(`${MODULES[page] ?? page}.js`, web));
  const now = () => performance.now();
  for (let describedAt = -Infinity; ; ) {
    const begun = now();
    if (begun - describedAt > DESCRIBE_S * 1000) {
      await describe();
      describedAt = begun;
    }
    await shows.load({ page, name, query: {} }, visit, undefined);
    await new Promise((resolve) => setTimeout(resolve, Math.max(POLL_MS, 4 * (now() - begun))));
  }
}

process.on("SIGTERM", () => {
  console.log(requests);
  process.exit(0);
});
await begin();
console.log("open");
await Promise.all(
  SHOWN.map(async (shown, at) => {
    await new Promise((resolve) => setTimeout(resolve, (at * DESCRIBE_S * 1000) / SHOWN.length));
    await show(shown, {});
  }),
);
