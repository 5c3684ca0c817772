#!/usr/bin/env node
"use strict";
// tallyd with the same arguments, output, signals and exit status. It ends when this process does, even by SIGKILL.

const { spawn } = require("node:child_process");
const { findBinary, explainSpawn } = require("./binary.js");

function fail(error) {
  console.error(`tally-server: ${error.message}`);
  process.exit(1);
}

/* npx starts a shell that starts this, and passes signals to the shell, which ends and passes none on. Then this
 * process has another parent. */
function whenNpmEnds(action) {
  const parent = process.ppid;
  if (process.env.npm_command === undefined) return;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    action();
  }, 200);
}

function run(binary) {
  // A session of its own: Ctrl-C reaches it once, from here, not a second time from the terminal. Its standard input is
  // the pipe with which it ends; tallyd reads nothing from it.
  const child = spawn(binary, process.argv.slice(2), {
    stdio: ["pipe", "inherit", "inherit"],
    env: { TALLY_EXIT_WITH_STDIN: "on", ...process.env },
    detached: true,
  });
  child.on("error", (error) => fail(explainSpawn(binary, error)));
  child.stdin.on("error", () => {});
  const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];
  for (const signal of signals) process.on(signal, () => child.kill(signal));
  whenNpmEnds(() => child.kill("SIGTERM"));
  child.on("exit", (status, signal) => {
    if (signal === null) process.exit(status);
    signals.forEach((each) => process.removeAllListeners(each));
    process.kill(process.pid, signal);
  });
}

try {
  run(findBinary());
} catch (error) {
  fail(error);
}
