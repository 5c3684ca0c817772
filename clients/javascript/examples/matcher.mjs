// Pairs players of a pool whose ratings are at most 100 apart. Several of these share the work.
//
//   node matcher.mjs POOL [PART PARTS]      TALLY_ENDPOINT says where the server is
import { Matcher } from "@tally-queue/client";

const [pool, part = "0", parts = "1"] = process.argv.slice(2);

/** Each ticket in one pair at most. Neighbours by rating are the closest. */
function* find(tickets) {
  const sorted = [...tickets].sort(byRating);
  for (let at = 0; at + 1 < sorted.length; at++) {
    const [one, other] = sorted.slice(at, at + 2);
    if (other.Attributes.rating - one.Attributes.rating > 100) continue;
    yield [one, other];
    at++;
  }
}

const byRating = (one, other) => one.Attributes.rating - other.Attributes.rating;

const matcher = new Matcher({ pool, find, part: Number(part), parts: Number(parts) });
process.once("SIGTERM", () => matcher.stop());
await matcher.run();
