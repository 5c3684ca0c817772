// A matcher: reads the feed of a pool, and proposes the groups that a function finds among the tickets that wait.
import { createHash } from "node:crypto";
import { createClient } from "./client.js";
import { isOutage, limited, pause, pauses } from "./outage.js";

const FEED_WAIT_S = 20;
const ANSWER_MS = 10_000; // how long an answer may take, besides that wait
const PROPOSALS_MAX = 100;

// Why a member of a proposal is of no use as we know it: undefined is a member that was matched. One that waits again,
// or in a newer version, comes in the feed.
const GONE = new Set([undefined, "matched", "held", "cancelled", "expired", "stale", "unknown"]);

export class Matcher {
  #find;
  #client;
  #log;
  #parts;
  #waiting = new Map(); // TicketId -> ticket, the oldest offer first; perhaps behind the server
  #next = 0;
  #ownParts = new Set();
  #refused = new Set(); // proposals that can't become matches
  #stopping = new AbortController();

  constructor({ pool, find, client, part = 0, parts = 1, log = (text) => console.error(text) }) {
    if (!(0 <= part && part < parts && parts <= 64))
      throw new RangeError(`part must be 0 to parts - 1, and parts 1 to 64, not ${part} and ${parts}`);
    this.pool = pool;
    this.#find = find;
    this.#client = client ?? createClient();
    this.#log = log;
    this.#parts = { Part: part, Parts: parts };
  }

  async run() {
    let wait = pauses();
    while (!this.#isStopping) {
      try {
        await this.match();
        wait = pauses();
      } catch (error) {
        if (this.#isStopping) return;
        if (!isOutage(error)) throw error;
        this.#log(`${error.message}; trying again until it works`);
        await pause(wait.next().value, this.#stopping.signal);
      }
    }
  }

  stop() {
    this.#stopping.abort();
  }

  get #isStopping() {
    return this.#stopping.signal.aborted;
  }

  async match(wait = FEED_WAIT_S) {
    await this.#follow(wait);
    let count = 0;
    for (let known = ""; ; ) {
      const proposals = await this.#proposals();
      const now = `${this.#waiting.size} ${this.#refused.size}`;
      if (proposals.length === 0 || now === known) return count;
      known = now;
      for (let at = 0; at < proposals.length; at += PROPOSALS_MAX)
        count += await this.#propose(proposals.slice(at, at + PROPOSALS_MAX));
      await this.#follow(0);
    }
  }

  #ask(method, request, wait = 0) {
    const call = (abortSignal) => this.#client[method]({ PoolName: this.pool, ...request }, { abortSignal });
    return limited(wait * 1000 + ANSWER_MS, this.#stopping.signal, call);
  }

  /** Reads the feed to its end. */
  async #follow(wait) {
    for (;;) {
      const request = { From: this.#next, WaitTimeSeconds: wait, ...this.#parts };
      const { Events, Next, SeedParts, Resync } = await this.#ask("feedTickets", request, wait);
      if (Resync) await this.#readAll();
      for (const event of Events) this.#learn(event);
      this.#next = Next;
      this.#ownParts = new Set(SeedParts);
      if (Events.length === 0) return;
      wait = 0;
    }
  }

  /** The feed doesn't reach back so far, as after a restart of the server. */
  async #readAll() {
    const tickets = [];
    let page = {};
    do {
      page = await this.#ask("listTickets", { Parts: this.#parts.Parts, NextToken: page.NextToken });
      tickets.push(...page.Tickets);
    } while (page.NextToken !== undefined);
    tickets.sort((a, b) => a.OfferedAt - b.OfferedAt);
    this.#waiting = new Map(tickets.map((ticket) => [ticket.TicketId, ticket]));
  }

  #learn(event) {
    const known = this.#waiting.get(event.TicketId);
    if (event.Type === "rules") this.#refused.clear();
    else if (event.Type === "retire") this.#waiting.delete(event.TicketId);
    else if (event.Type === "widen" && known) known.Level = event.Level;
    else if (event.Type === "offer" && !(event.Version < known?.Version)) this.#waiting.set(event.TicketId, event);
  }

  /** Of the groups that are found: those that are ours, and were not refused for good. */
  async #proposals() {
    const proposals = [];
    for await (const group of await this.#find([...this.#waiting.values()]))
      if (this.#ownParts.has(group[0]?.Part)) proposals.push(proposalOf(group));
    return proposals.filter(({ ProposalId }) => !this.#refused.has(ProposalId));
  }

  async #propose(proposals) {
    const { Results } = await this.#ask("proposeMatches", { Proposals: proposals });
    Results.forEach(({ Status, Members: faults = [], Why }, index) => {
      const { ProposalId, Members } = proposals[index];
      for (const member of Status === "matched" ? Members : faults)
        if (GONE.has(member.Why)) this.#waiting.delete(member.TicketId);
      if (Status !== "invalid" && Status !== "key-reused") return;
      this.#refused.add(ProposalId);
      this.#log(`pool ${this.pool}: a proposal is ${Status}: ${Why ?? JSON.stringify(faults)}`);
    });
    return Results.filter(({ Status }) => Status === "matched").length;
  }
}

/** Named by its members, so that a repeat after a lost answer, or of another matcher, gets the same match. */
function proposalOf(group) {
  const Members = group.map(({ TicketId, Version }) => ({ TicketId, Version }));
  const text = Members.map(({ TicketId, Version }) => `${TicketId}\0${Version}`).join("\0");
  return { ProposalId: createHash("sha256").update(text).digest("hex"), Members };
}
