// Calls Tally's actions for test_client_js.py: a line of JSON in, {action, input}; a line of JSON out, the reply. What
// JSON has no type for is tagged: {"$date": seconds} and {"$bytes": base64}.
import { createInterface } from "node:readline";
import { createClient } from "@tally-queue/client";

const client = createClient();

function untagged(_, value) {
  return value?.$bytes === undefined ? value : new Uint8Array(Buffer.from(value.$bytes, "base64"));
}

function tagged(value) {
  if (value instanceof Date) return { $date: value.getTime() / 1000 };
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString("base64") };
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(tagged);
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, tagged(part)]));
}

for await (const line of createInterface({ input: process.stdin })) {
  const { action, input } = JSON.parse(line, untagged);
  const method = action[0].toLowerCase() + action.slice(1);
  try {
    const { $metadata, ...reply } = await client[method](input);
    console.log(JSON.stringify({ status: $metadata.httpStatusCode, reply: tagged(reply) }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
