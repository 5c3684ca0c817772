// A server that is away.
import { setTimeout as sleep } from "node:timers/promises";
import { UnreadableReply } from "./reply.js";

const PAUSE_MAX_MS = 5000;

const LINE_FAULT = /^(E[A-Z]+|EAI_AGAIN|HPE_[A-Z_]+)$/; // of Node.js, where HPE_… is what came and is no HTTP
const WRONG_CHECKSUM = /^Invalid MD5 checksum/; // of the SDK, which has no name for it

/** Did the server not answer, or say that it can't now? Then the same request may succeed later. */
export function isOutage(error) {
  if (error instanceof UnreadableReply || WRONG_CHECKSUM.test(error.message)) return true;
  const status = error.$metadata?.httpStatusCode;
  if (status !== undefined) return status >= 500 || error.name === "OverLimit";
  return ["AbortError", "TimeoutError"].includes(error.name) || LINE_FAULT.test(error.code ?? "");
}

/** Milliseconds to wait between attempts while the server is away: longer and longer, each another one. */
export function* pauses() {
  for (let longest = 200; ; longest = Math.min(2 * longest, PAUSE_MAX_MS)) yield longest * (0.5 + Math.random() / 2);
}

/** True after so many milliseconds, false as soon as the signal aborts. */
export function pause(ms, signal) {
  return sleep(ms, true, { signal }).catch(() => false);
}

/** call(signal), whose signal aborts after so many milliseconds, or with `outer`. Then it is not waited for any longer,
 *  because what gives the SDK its credentials, for example, knows no signal. */
export async function limited(ms, outer, call) {
  const limit = new AbortController();
  let end, timer;
  const over = new Promise((_, reject) => {
    const endWith = (error) => {
      reject(error);
      limit.abort();
    };
    end = () => endWith(new DOMException("the request was given up", "AbortError"));
    timer = setTimeout(() => endWith(new DOMException(`no reply within ${ms / 1000} s`, "TimeoutError")), ms);
  });
  outer?.addEventListener("abort", end);
  if (outer?.aborted) end();
  try {
    return await Promise.race([call(limit.signal), over]);
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener("abort", end);
  }
}
