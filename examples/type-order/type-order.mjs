// Sends posts to one queue and their comments to another, lets workers of both run side by side while some are
// killed, and checks that no comment was created before its post.
import { readFileSync, writeFileSync } from "node:fs";
import { GetQueueAttributesCommand } from "@aws-sdk/client-sqs";
import { countMessages, createQueue, sendAll, sleep, sqs, tally, waitUntil, Workers } from "../common/tally.mjs";

const [done] = process.argv.slice(2);
const POSTS = 60;
const COMMENTS = 4; // of each post
const KILLS = 10;

const posts = await createQueue("posts");
const comments = await createQueue("comments");

// All that there is to it: of the messages of one group, whichever queue they are in, creations of posts come first.
await tally("PutTypeOrder", { Name: "blog", Types: ["create-post", "create-comment"] });

function job(type, post, number) {
  return {
    MessageBody: JSON.stringify({ type, post, number }),
    MessageGroupId: `post-${post}`,
    MessageAttributes: { "Tally.Type": { DataType: "String", StringValue: type } },
  };
}

writeFileSync(done, "");
const script = new URL("worker.mjs", import.meta.url);
const authors = new Workers(script, 2, [posts, done]);
const readers = new Workers(script, 4, [comments, done]); // more of them, so comments would overtake posts everywhere
for (let post = 1; post <= POSTS; post++) {
  await sendAll(posts, [job("create-post", post)]);
  await sendAll(
    comments,
    Array.from({ length: COMMENTS }, (_, index) => job("create-comment", post, index + 1)),
  );
}
console.log(`${POSTS} posts and ${POSTS * COMMENTS} comments are in two queues; workers of both run side by side.`);

// Comments that nobody can take yet, because their post is not there; SQS calls that delayed.
async function countWaiting() {
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl: comments, AttributeNames: ["All"] }));
  return Number(Attributes.ApproximateNumberOfMessagesDelayed);
}

let waiting = 0;
for (let i = 0; i < KILLS; i++) {
  await sleep(250);
  (i % 2 === 0 ? authors : readers).kill();
  waiting = Math.max(waiting, await countWaiting());
}
await waitUntil(async () => (await countMessages(posts)) + (await countMessages(comments)) === 0, "the last comment");
authors.stop();
readers.stop();

// Every line of the file is "POST" or "POST COMMENT", in the order in which they were created.
const lines = readFileSync(done, "utf8").trim().split("\n");
const created = new Set();
let early = 0;
for (const line of lines) {
  const [post, comment] = line.split(" ");
  if (comment !== undefined && !created.has(post)) {
    early++;
    console.log(`comment ${comment} of post ${post} was created before its post   <-- WRONG`);
  }
  created.add(line);
}
const count = (name) => (authors.counts[name] ?? 0) + (readers.counts[name] ?? 0);
console.log(
  `${count("killed")} workers were killed, ${count("failed")} attempts failed. Up to ${waiting} comments waited.`,
);
const isComplete = created.size === POSTS * (COMMENTS + 1);
if (!isComplete) console.log(`Only ${created.size} of ${POSTS * (COMMENTS + 1)} were created   <-- WRONG`);
console.log(early === 0 ? "No comment was created before its post." : `${early} comments were created too early.`);
await tally("DeleteTypeOrder", { Name: "blog" });
process.exit(early === 0 && isComplete ? 0 : 1);
