/* What the peers' programs share: options, time, output. */
import { parseArgs } from "node:util";

/* The command line, with these defaults; a default that is a number makes the option one. */
export function options(defaults) {
  const names = Object.fromEntries(Object.keys(defaults).map((name) => [name, { type: "string" }]));
  const { values } = parseArgs({ options: names });
  return Object.fromEntries(
    Object.entries(defaults).map(([name, value]) => [
      name,
      name in values ? (typeof value === "number" ? Number(values[name]) : values[name]) : value,
    ]),
  );
}

/* Seconds, from some moment on. */
export function now() {
  return performance.now() / 1000;
}

export function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

export function print(result) {
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
