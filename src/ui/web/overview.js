// Is anything wrong, since when, and what helps? The worst first, as sentences.
import { h } from "./dom.js";
import { find, look, server } from "./api.js";
import { chart } from "./chart.js";
import { releaseButtons } from "./groups.js";
import { batchLink, diskStat, holderWords, isFull, messageLink, queueLink, section, stats } from "./parts.js";
import { queueTable, OLD_S } from "./queues.js";
import { redriveButton } from "./dead.js";
import { link, row, to } from "./route.js";
import {
  byAge,
  byOldest,
  deadLetterQueues,
  delayed,
  failures,
  fullDeadLetterQueues,
  heldGroups,
  isAsked,
  isPaused,
  kept,
  oldest,
  pausedQueues,
  total,
  waiting,
} from "./stats.js";
import { age, aged, bytes, count, nameOf, now, plural, quoted, rate, span } from "./words.js";

const IDLE_S = 60;
const LONG_S = 3600; // so long with one worker, or so much of a lease left, is not usual
const FOLD_MIN = 3;
const SLOW_S = 10;
const WORST_MAX = 100;
const KIND_MAX = 5;
const MINUTE = 12; // periods of a series
const LAST_TROUBLE = "tally-last-trouble";
const BAD = 2;
const WARN = 1;

/** The message that one worker has had for longest, if it is long, or if its lease goes on for so long. Looks into the
 *  few queues with the oldest messages, at the oldest ones. */
async function longestInFlight(queues, signal) {
  const some = queues
    .filter((queue) => queue.InFlight > 0)
    .toSorted((a, b) => b.OldestMessageAge - a.OldestMessageAge)
    .slice(0, KIND_MAX);
  const ask = ({ QueueUrl }) => find("ListInFlight", { QueueUrl, MaxResults: 100 }, signal);
  const told = await Promise.all(some.map(ask));
  return told
    .flatMap((reply) => reply?.Messages ?? [])
    .filter(({ ReceivedAt, VisibleAt }) => now() - ReceivedAt > LONG_S || VisibleAt - now() > LONG_S)
    .toSorted((a, b) => a.ReceivedAt - b.ReceivedAt)[0];
}

async function loadSlowly(signal) {
  const [{ queues, hasMore }, oldestOnes, paused, dead, held, relays, schedules, batches] = await Promise.all([
    byAge(signal),
    byOldest(signal),
    pausedQueues(signal),
    fullDeadLetterQueues(signal),
    heldGroups(signal),
    look("ListRelays", { MaxResults: 100 }, signal),
    look("ListSchedules", { MaxResults: 1000 }, signal),
    look("ListBatches", { State: "sealed", MaxResults: 100 }, signal),
  ]);
  const [inFlight, ...reasons] = await Promise.all([
    longestInFlight([...new Map([...queues, ...oldestOnes].map((one) => [one.QueueName, one])).values()], signal),
    ...dead.slice(0, KIND_MAX).map((queue) => failures(queue.QueueUrl, signal)),
  ]);
  return {
    queues,
    hasMore,
    oldestOnes,
    paused,
    targets: new Set([...dead.map((queue) => queue.QueueName), ...deadLetterQueues(queues).keys()]),
    held,
    inFlight,
    relays: relays?.Relays ?? [],
    schedules: schedules?.Schedules ?? [],
    batches: batches?.Batches ?? [],
    dead: dead.map((queue, i) => ({ queue, reasons: reasons[i] })),
  };
}

// --- what needs a person --------------------------------------------------------------------------------------------

const needsOfGroups = ({ held }) =>
  held.map((group) => ({
    level: BAD,
    name: `${group.QueueName} ${group.MessageGroupId}`,
    since: group.Since,
    words: [
      queueLink(group.QueueName),
      " group ",
      row(
        to("groups", "", { queue: group.QueueName, group: group.MessageGroupId }),
        h("bdi", null, group.MessageGroupId),
      ),
      " is held: ",
      group.Reason ? quoted(group.Reason) : "its head failed for good",
      ". ",
      group.Messages > 1
        ? `${plural(group.Messages - 1, "message waits", "messages wait")} behind it.`
        : "Nothing waits behind it.",
    ],
    acts: releaseButtons(group),
  }));

const needOfPaused = (queue) =>
  queue.Visible > 0 && {
    level: WARN,
    name: queue.QueueName,
    since: oldest(queue) === undefined ? undefined : now() - oldest(queue),
    words: [
      queueLink(queue.QueueName, true),
      ` is paused: ${plural(queue.Visible, "message waits", "messages wait")}.`,
    ],
  };

function needOfQueue(queue, targets) {
  const waited = oldest(queue);
  if (isPaused(queue) || targets.has(queue.QueueName) || waited === undefined || queue.Visible === 0) return false;
  const words = [queueLink(queue.QueueName, true)];
  const since = now() - waited;
  if (!isAsked(queue) && waited > IDLE_S) {
    words.push(` has no worker: its oldest message has waited ${span(waited)}, and nobody asks for messages`);
    words.push(queue.LastReceiveAt ? [". The last receive was ", age(queue.LastReceiveAt), " ago", "."] : ".");
    return { level: BAD, name: queue.QueueName, since, words, waited };
  }
  if (waited <= OLD_S) return false;
  words.push(
    ` is behind: its oldest message is ${span(waited)} old; ${count(queue.Visible)} wait, ` +
      `${count(queue.InFlight)} are in flight.`,
  );
  return { level: WARN, name: queue.QueueName, since, words };
}

/** Nobody can get its oldest message, and nothing of that age: it is in flight, blocked or delayed. */
function needOfWithheld(queue, targets) {
  const age = queue.OldestMessageAge ?? 0;
  const { QueueName: name, InFlight, HeldGroups } = queue;
  if (age <= OLD_S || oldest(queue) > OLD_S || isPaused(queue) || HeldGroups > 0 || targets.has(name)) return false;
  const waits = [
    [InFlight, "in-flight", "in flight"],
    [waiting(queue), "blocked", "blocked"],
    [delayed(queue), "delayed", "delayed"],
    [oldest(queue) === undefined ? queue.Visible : 0, "blocked", "behind others of its group"],
  ].filter(([some]) => some > 0);
  return {
    level: WARN,
    name,
    since: now() - age,
    words: [
      queueLink(name, true),
      `: its oldest message is ${span(age)} old and can't be received: `,
      waits.map(([some, state, words], i) => [
        i > 0 && ", ",
        link(to("queue", name, { state }), `${count(some)} ${some === 1 ? "is" : "are"} ${words}`),
      ]),
      ".",
    ],
  };
}

function needOfInFlight(one) {
  const left = one.VisibleAt - now();
  return {
    level: WARN,
    since: one.ReceivedAt,
    words: [
      "Message ",
      messageLink(one.MessageId, true),
      " of ",
      queueLink(nameOf(one.QueueUrl)),
      " is held by ",
      one.Holder ? holderWords(one.Holder) : "somebody",
      ` for ${span(now() - one.ReceivedAt)}`,
      left > 0 && `; its lease ends in ${span(left)}`,
      ".",
    ],
  };
}

/** Is it all that its queue has? Then that it is in flight says everything. */
const isOnly = (one, { QueueName, Visible, InFlight, Delayed }) =>
  one && nameOf(one.QueueUrl) === QueueName && Visible + InFlight + Delayed === 1;

function saying(some, all) {
  if (some < all) return `${count(some)} say`;
  return some > 1 ? "all say" : "it says";
}

const needsOfDead = ({ dead }) =>
  dead.map(({ queue, reasons }) => {
    const [first] = reasons?.Reasons ?? [];
    return {
      level: WARN,
      name: queue.QueueName,
      since: first?.NewestAt,
      words: [
        `${plural(queue.Visible, "dead letter")} in `,
        row(to("dead-letters", "", { queue: queue.QueueName }), h("bdi", null, queue.QueueName)),
        first ? [`: ${saying(first.Count, queue.Visible)} `, quoted(first.Reason), "."] : ".",
      ],
      acts: [redriveButton(queue)],
    };
  });

function needOfRelay(relay) {
  const name = row(to("relay", relay.RelayName), h("bdi", null, relay.RelayName));
  if (relay.State === "blocked" || relay.State === "failed")
    return {
      level: BAD,
      since: relay.Since,
      words: ["Relay ", name, ` is ${relay.State}: `, quoted(relay.LastError ?? "no reason is known"), "."],
    };
  if (relay.Parked > 0)
    return {
      level: WARN,
      words: [
        "Relay ",
        name,
        ` has ${plural(relay.Parked, "parked row")}, ${count(relay.InDoubt)} of them in doubt: a person decides.`,
      ],
    };
  if (relay.Warning) return { level: WARN, words: ["Relay ", name, ": ", quoted(relay.Warning)] };
  if (relay.Lag?.Seconds > IDLE_S && relay.State === "active")
    return {
      level: WARN,
      since: now() - relay.Lag.Seconds,
      words: [
        "Relay ",
        name,
        ` is slow: ${plural(relay.Lag.Rows, "row")} behind, the oldest for ${span(relay.Lag.Seconds)}.`,
      ],
    };
  return false;
}

function needOfBatch(batch) {
  const left = batch.ExpiresAt - now();
  const words = ["Batch ", batchLink(batch.BatchId, true)];
  if (left < 3600 && batch.Remaining > 0)
    return {
      level: WARN,
      since: batch.CreatedAt,
      words: [...words, ` expires in ${span(left)}, with ${plural(batch.Remaining, "unit")} outstanding.`],
    };
  if (batch.Failed > 0)
    return {
      level: WARN,
      since: batch.CreatedAt,
      words: [
        ...words,
        ` will not succeed: ${plural(batch.Failed, "unit has", "units have")} failed, ${count(batch.Remaining)} ` +
          `are outstanding.`,
      ],
    };
  return false;
}

function needsOfServer(described) {
  const needs = [];
  const page = row(to("server"), "The server");
  const { Memory, Disk, Snapshot, Certificate } = described ?? {};
  if (Memory?.Max > 0 && Memory.Used > 0.85 * Memory.Max)
    needs.push({
      level: BAD,
      words: [page, ` uses ${bytes(Memory.Used)} of memory; at ${bytes(Memory.Max)} (memory-max) sends are refused.`],
    });
  if (isFull(Disk))
    needs.push({
      level: BAD,
      words: [
        page,
        `'s disk has ${bytes(Disk.Free)} free, and ${bytes(Disk.MinFree)} must stay free (disk-min-free): sends are ` +
          `refused now.`,
      ],
    });
  if (Snapshot?.IsFailing)
    needs.push({
      level: BAD,
      since: Snapshot.LastAt,
      words: [page, " can't take snapshots: nothing comes free on its disk meanwhile."],
    });
  if (Certificate && Certificate.ExpiresAt - now() < 14 * 86400)
    needs.push({ level: WARN, words: [page, "'s certificate expires ", age(Certificate.ExpiresAt), "."] });
  return needs;
}

const needOfSchedule = (one) =>
  one.Warning && {
    level: WARN,
    words: [
      "Schedule ",
      row(to("schedules", "", { prefix: one.Name }), h("bdi", null, one.Name)),
      ": ",
      quoted(one.Warning),
    ],
  };

const minute = ({ since }) => (since === undefined ? Infinity : Math.floor(since / 60));
const compare = (a, b) => (a === b ? 0 : a < b ? -1 : 1);

const named = (need, name) => need && { ...need, name };

/** A second more or less moves nothing: a button would slip from under the mouse. */
const byWorst = (a, b) =>
  b.level - a.level || compare(minute(a), minute(b)) || compare(a.name ?? "", b.name ?? "");

/** The worst of one kind, and a line for the others: 5,000 queues without a worker must not hide one held group. */
function some(list, others, page) {
  const all = list.filter(Boolean).toSorted(byWorst);
  const left = all.length - KIND_MAX;
  if (left <= 1) return all;
  const [{ level, since }] = all.slice(KIND_MAX);
  const words = [`${count(left)} other ${others}. `, link(to(page), "Look")];
  return [...all.slice(0, KIND_MAX), { level, since, words }]; // behind those that it counts
}

/** Queues without a worker: a row each, or, of more than a few, one row in which the worst stand. */
function folded(list, hasMore) {
  const all = list.toSorted(byWorst);
  if (all.length < FOLD_MIN) return all;
  const [{ level, since, waited }] = all;
  const words = [
    `${count(all.length)}${hasMore ? " or more" : ""} queues have no worker: `,
    all.slice(0, KIND_MAX).map((need, i) => [i > 0 && ", ", queueLink(need.name, i === 0)]),
    all.length > KIND_MAX && [" and ", link(to("queues"), "others")],
    `. Nobody asks them for messages; the oldest has waited ${span(waited)}.`,
  ];
  return [{ level, since, words }];
}

function needs({ queues, slow }) {
  const ofRelays = new Set(slow.relays.flatMap((one) => [nameOf(one.Source.QueueUrl), `${one.RelayName}-parked`]));
  const isNotOfRelay = (queue) => !ofRelays.has(queue.QueueName); // their relay says it
  const late = queues
    .filter(isNotOfRelay)
    .map((queue) => needOfQueue(queue, slow.targets))
    .filter(Boolean);
  const ofLevel = (level) => late.filter((need) => need.level === level);
  const withheld = slow.oldestOnes
    .filter((queue) => isNotOfRelay(queue) && !isOnly(slow.inFlight, queue))
    .map((queue) => needOfWithheld(queue, slow.targets));
  return [
    ...needsOfServer(server.described),
    ...some(needsOfGroups(slow), "groups are held", "groups"),
    ...some(slow.relays.map((one) => named(needOfRelay(one), one.RelayName)), "relays need somebody", "relays"),
    ...folded(ofLevel(BAD), slow.hasMore),
    ...(slow.inFlight ? [needOfInFlight(slow.inFlight)] : []),
    ...some(withheld, "queues have messages that can't be received", "queues"),
    ...some(ofLevel(WARN), "queues are behind", "queues"),
    ...some(slow.paused.map(needOfPaused), "queues are paused", "queues"),
    ...some(needsOfDead(slow), "queues have dead letters", "dead-letters"),
    ...some(slow.schedules.map((one) => named(needOfSchedule(one), one.Name)), "schedules have a warning", "schedules"),
    ...some(slow.batches.map((one) => named(needOfBatch(one), one.BatchId)), "batches need somebody", "batches"),
  ].toSorted((a, b) => b.level - a.level); // and of one level as they stand here: kind by kind
}

function drawNeeds(list) {
  if (list.length === 0) {
    const last = Number(sessionStorage.getItem(LAST_TROUBLE));
    return h(
      "p.calm",
      null,
      "Nothing needs you.",
      last > 0 && h("span.soft", null, " The last time something did was ", age(last), " ago, in this tab."),
    );
  }
  sessionStorage.setItem(LAST_TROUBLE, String(Math.floor(now())));
  return h(
    "ul.need",
    null,
    list.map(({ level, words, since, acts = [] }) =>
        h(
          "li",
          null,
          h("span.dot", { class: level === BAD ? "bad" : "warn", "aria-hidden": true }),
          h("span.words", null, h("span.vh", null, level === BAD ? "Urgent: " : "Soon: "), words),
          h("span.since", null, since !== undefined && age(since)),
          h("span.acts", null, acts),
        ),
      ),
  );
}

// --- the page -------------------------------------------------------------------------------------------------------

/** Of all queues, however many there are; without series of those that are known. */
function wholeOf({ queues, series }) {
  const last = (points) => points?.findLast((value) => value !== null);
  const each = (points) =>
    points && points.slice(-MINUTE).reduce((sum, value) => sum + value, 0) / (MINUTE * series.Period);
  const knows = queues.some((queue) => queue.SentPerSecond !== undefined);
  return {
    visible: last(series?.Visible) ?? total(queues, "Visible"),
    inFlight: last(series?.InFlight) ?? total(queues, "InFlight"),
    sent: each(series?.Sent) ?? (knows ? total(queues, "SentPerSecond") : undefined),
    deleted: each(series?.Deleted) ?? (knows ? total(queues, "DeletedPerSecond") : undefined),
  };
}

/** What is not visible yet, and why. */
function notYet(queues) {
  const others = queues.reduce((sum, queue) => sum + waiting(queue), 0);
  return `${count(total(queues, "Delayed") - others)} delayed${others > 0 ? `, ${count(others)} wait for others` : ""}`;
}

function drawStats({ queues, series, slow }) {
  const whole = wholeOf({ queues, series });
  const worst = queues.find((queue) => !isPaused(queue) && !slow.targets.has(queue.QueueName));
  const { Memory, Disk } = server.described ?? {};
  const waited = worst && oldest(worst);
  const share = ({ Used, Max }) => (Max > 0 ? `${Math.round((100 * Used) / Max)} % of its bound` : "");
  return stats([
    [
      "Oldest waiting",
      waited === undefined ? "none" : aged(waited),
      waited !== undefined && queueLink(worst.QueueName),
      waited > OLD_S ? "bad" : "",
    ],
    whole.sent !== undefined && ["In", `${rate(whole.sent)}/s`],
    whole.deleted !== undefined && ["Out", `${rate(whole.deleted)}/s`],
    ["Visible", count(whole.visible), notYet(queues)],
    ["In flight", count(whole.inFlight), plural(total(queues, "WaitingReceives"), "receive waits", "receives wait")],
    Memory && ["Memory", bytes(Memory.Used), share(Memory)],
    diskStat(Disk),
  ]);
}

export default {
  title: () => "Overview",

  async load(_, visit, signal) {
    const [series, slow] = await Promise.all([
      find("GetSeries", { Period: 5, Points: 720 }, signal),
      kept(visit, "slow", SLOW_S, () => loadSlowly(signal)),
    ]);
    // To put many in order costs the server milliseconds: they are as old as what else is asked for more rarely.
    const isLarge = slow.queues.length > WORST_MAX;
    const worst = isLarge ? [] : (await byAge(signal, "", WORST_MAX)).queues;
    const names = new Set(worst.map((queue) => queue.QueueName));
    return {
      queues: [...worst, ...slow.queues.filter((queue) => !names.has(queue.QueueName))],
      hasMore: slow.hasMore,
      series,
      slow,
    };
  },

  draw(data) {
    const list = needs(data);
    const { queues, hasMore, series, slow } = data;
    const isLong = queues.length > 12;
    return [
      h("h1.vh", null, "Overview"),
      section("What needs you", list.length > 0 && "worst first", drawNeeds(list)),
      h("section", null, h("h2.vh", null, "The whole"), drawStats(data)),
      series &&
        section(
          "Last hour",
          "messages in 5 seconds",
          h(
            "div.charts",
            null,
            chart(
              "In and out",
              [
                { name: "sent", points: series.Sent, kind: "wait" },
                { name: "deleted", points: series.Deleted, kind: "good" },
              ],
              series.Period,
            ),
            chart(
              "Failed",
              [
                { name: "failed", points: series.Failed, kind: "warn" },
                { name: "dead-lettered", points: series.DeadLettered, kind: "bad" },
              ],
              series.Period,
            ),
          ),
        ),
      section(
        "Queues",
        isLong
          ? `by oldest message · ${count(queues.length)}${hasMore ? " or more" : ""}, 12 shown`
          : "by oldest message",
        queues.length > 0
          ? queueTable("Queues by oldest message", queues.slice(0, 12), slow.targets)
          : h("p.nothing", null, "There is no queue yet."),
        isLong && h("p.more", null, link(to("queues"), "All queues")),
      ),
    ];
  },
};
