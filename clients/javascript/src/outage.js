// A server that is away.
import { setTimeout as sleep } from "node:timers/promises";

const PAUSE_MAX_MS = 5000;

/** Did the server not answer, or say that it can't now? Then the same request may succeed later. */
export function isOutage(error) {
  const status = error.$metadata?.httpStatusCode;
  if (status !== undefined) return status >= 500 || error.name === "OverLimit";
  return ["AbortError", "TimeoutError"].includes(error.name) || /^(E[A-Z]+|EAI_AGAIN)$/.test(error.code ?? "");
}

/** Milliseconds to wait between attempts while the server is away: longer and longer, each another one. */
export function* pauses() {
  for (let longest = 200; ; longest = Math.min(2 * longest, PAUSE_MAX_MS)) yield longest * (0.5 + Math.random() / 2);
}

/** True after so many milliseconds, false as soon as the signal aborts. */
export function pause(ms, signal) {
  return sleep(ms, true, { signal }).catch(() => false);
}

/** call(signal), whose signal aborts after so many milliseconds, or with `outer`. */
export async function limited(ms, outer, call) {
  const limit = new AbortController();
  const end = () => limit.abort();
  const timer = setTimeout(end, ms);
  outer?.addEventListener("abort", end);
  if (outer?.aborted) end();
  try {
    return await call(limit.signal);
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener("abort", end);
  }
}
