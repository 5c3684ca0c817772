// Relays in processes of their own, as an operator would run them: one works, the others stand by, and some are killed.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { sleep, waitUntil } from "./tally.mjs";

export class Relays {
  killed = 0;

  constructor(count, source, sink, options = [], name = "relay-") {
    this.name = name;
    this.command = ["relay", "run", "--source", source, "--sink", sink, ...options];
    this.running = Array.from({ length: count }, (_, index) => this.start(index));
    process.on("exit", () => this.running.forEach((relay) => relay.kill("SIGKILL"))); // leaves nothing behind
  }

  // Starts one that is started again when it ends.
  start(index) {
    const relay = spawn(process.env.TALLY, [...this.command, "--name", `${this.name}${index + 1}`], {
      env: { ...process.env, TALLY_ENDPOINT: process.env.TALLY_URL },
      stdio: ["ignore", "pipe", "inherit"],
    });
    relay.state = "starting";
    createInterface({ input: relay.stdout }).on("line", (line) => (relay.state = line.replace(/^relay \S+: /, "")));
    relay.on("exit", () => {
      if (this.running[index] === relay) this.running[index] = this.start(index);
    });
    return relay;
  }

  active() {
    return this.running.find(({ state }) => state.startsWith("active"));
  }

  // kill -9 of the one that works, whatever it has in hand.
  async killActive() {
    await waitUntil(() => this.active(), "a relay at work");
    this.killed++;
    const relay = this.active();
    relay.state = "killed";
    relay.kill("SIGKILL");
  }

  async stop() {
    const relays = this.running;
    this.running = [];
    for (const relay of relays) relay.kill("SIGTERM");
    while (relays.some(({ exitCode, signalCode }) => exitCode === null && signalCode === null)) await sleep(20);
  }
}
