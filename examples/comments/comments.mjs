// Sends the comments of many posts, lets workers publish them while some are killed, and checks the order of each post.
import { readFileSync } from "node:fs";
import { countMessages, createQueue, sendAll, sleep, waitUntil, Workers } from "../common/tally.mjs";

const [published] = process.argv.slice(2);
const POSTS = 20;
const COMMENTS = 15; // of each post
const KILLS = 10;

const queue = await createQueue("comments.fifo", {
  "Tally.Backoff": '{"min": 1, "max": 5}', // a failed comment is tried again after 1 s, 2 s, 4 s, 5 s …
});

// Round robin over the posts, as they come in from many users at once.
const comments = [];
for (let number = 1; number <= COMMENTS; number++)
  for (let post = 1; post <= POSTS; post++)
    comments.push({
      MessageBody: JSON.stringify({ post, number }),
      MessageGroupId: `post-${post}`, // one line for each post
      MessageDeduplicationId: `post-${post}/comment-${number}`,
    });
await sendAll(queue, comments);
console.log(`${comments.length} comments of ${POSTS} posts are in the queue; six workers publish them.`);

const workers = new Workers(new URL("worker.mjs", import.meta.url), 6, [queue, published]);
for (let i = 0; i < KILLS; i++) {
  await sleep(300);
  workers.kill();
}
await waitUntil(async () => (await countMessages(queue)) === 0, "the last comment");
workers.stop();

// Every line of the file is "POST NUMBER", in the order of publication.
const orders = new Map();
for (const line of readFileSync(published, "utf8").trim().split("\n")) {
  const [post, number] = line.split(" ").map(Number);
  orders.set(post, [...(orders.get(post) ?? []), number]);
}
let twice = 0;
let wrong = 0;
for (let post = 1; post <= POSTS; post++) {
  const order = orders.get(post) ?? [];
  const once = order.filter((number, index) => number !== order[index - 1]);
  const isInOrder = once.length === COMMENTS && once.every((number, index) => number === index + 1);
  twice += order.length - once.length;
  wrong += isInOrder ? 0 : 1;
  console.log(`post ${String(post).padStart(2)}: ${order.join(" ")}${isInOrder ? "" : "   <-- WRONG"}`);
}
console.log(`\n${workers.counts.killed} workers were killed, ${workers.counts.failed ?? 0} attempts failed.`);
if (twice > 0)
  console.log(
    `Published twice: ${twice}. A worker died between publishing and deleting; examples/exactly-once closes that gap.`,
  );
console.log(wrong === 0 ? `All ${POSTS} posts are in order.` : `${wrong} posts are NOT in order.`);
process.exit(wrong === 0 ? 0 : 1);
