// Who waits for whom, for how long, and why does nobody fit?
import { h } from "./dom.js";
import { find, look, may } from "./api.js";
import { facts, filters, heading, none, nothing, pages, queueLink, section, stats, table } from "./parts.js";
import { row, to } from "./route.js";
import { age, count, cut, nameOf, plural, span, utc } from "./words.js";

export const pools = {
  title: () => "Pools",
  load: ({ query }, visit, signal) =>
    look(
      "ListPools",
      { Prefix: query.prefix || undefined, MaxResults: 200, NextToken: query.from || undefined },
      signal,
    ),
  draw(reply, { query }) {
    const list = reply?.Pools ?? [];
    return [
      heading("Pools"),
      filters(query, [["prefix", "Name begins with", ""]]),
      section(
        "Pools",
        "by name",
        list.length === 0
          ? nothing(none(reply, query.prefix, "tally pool create"))
          : table(
              "Pools",
              ["Pool", ["Waiting", "number"], ["Version of the rules", "number"]],
              list.map((one) => [
                row(to("pool", one.PoolName), h("bdi", null, one.PoolName)),
                count(one.Waiting),
                one.RulesVersion,
              ]),
              list.map((one) => one.PoolName),
            ),
      ),
      pages(query, reply?.NextToken),
    ];
  },
};

/** OfferedAt and ExpiresAt of tickets are milliseconds or seconds, as the feed says them. */
const seconds = (value) => (value > 1e11 ? value / 1000 : value);
const wait = (milliseconds) => span((milliseconds ?? 0) / 1000);

/** A reject's name in words, where it is no rule. */
const REASONS = { need: "what this ticket needs", "their-need": "what they need themselves" };

/** "; WHO no ATTRIBUTE, ATTRIBUTE", or nothing. */
const lacks = (who, names) =>
  names?.length > 0 && [`; ${who} has no `, names.map((name, i) => [i > 0 && ", ", h("code", null, name)])];

/** What a rule rejects, and what it could not judge. An error without a missing attribute is one of arithmetic. */
const rejection = (one) =>
  h(
    "li",
    null,
    `${plural(one.Count, "candidate")} rejected by `,
    REASONS[one.Rule] ?? h("code", null, one.Rule),
    one.Errors > 0 && `; ${plural(one.Errors, "error")}`,
    lacks("this ticket", one.Lacks),
    lacks("a candidate", one.CandidatesLack),
  );

function drawTicket(told, id) {
  if (!told) return h("section", null, nothing("There is no ticket ", h("bdi", null, id), ", or it is forgotten."));
  return h(
    "section.why",
    null,
    h("h2", null, "Why ticket ", h("bdi", null, id), " waits"),
    h(
      "p",
      null,
      `It is ${told.Status}.`,
      told.Candidates !== undefined &&
        ` Of ${plural(told.Candidates, "candidate")} ${count(told.Fits)} ` +
          `fit${told.Complete === false ? ", as far as the server looked" : ""}.`,
    ),
    told.Rejects?.length > 0 && h("ol", null, told.Rejects.map(rejection)),
    facts([
      ["Level", told.Level],
      [
        "Rules now",
        told.Rules?.map((one) =>
          h(
            "div",
            null,
            h("code", null, one.Rule),
            one.Value !== undefined && `: ${one.Value}`,
            lacks("this ticket", one.Lacks),
          ),
        ),
      ],
      ["Its rules widen", told.NextStepAt && age(seconds(told.NextStepAt))],
      ["Expires", told.ExpiresAt && age(seconds(told.ExpiresAt))],
      ["Proposals that failed", told.Conflicts > 0 && count(told.Conflicts)],
    ]),
  );
}

export const pool = {
  title: ({ name }) => `Pool ${name}`,
  async load({ name, query }, visit, signal) {
    const [told, page, ticket] = await Promise.all([
      find("DescribePool", { PoolName: name }, signal),
      find("ListTickets", { PoolName: name, MaxResults: 50, NextToken: query.from || undefined }, signal),
      query.ticket && find("ExplainTicket", { PoolName: name, TicketId: query.ticket }, signal),
    ]);
    return { told, page, ticket };
  },
  draw({ told, page, ticket }, { name, query }) {
    if (!told)
      return h(
        "section",
        null,
        nothing("There is no pool ", h("bdi", null, name), ", or it is out of this credential's reach."),
      );
    const tickets = page?.Tickets ?? [];
    const waited = told.WaitedMs ?? {};
    return [
      heading(h("bdi", null, name), [`matcher: ${told.Matcher}`]),
      query.ticket && drawTicket(ticket, query.ticket),
      section(
        "Now",
        "since the server started",
        stats([
          ["Waiting", count(told.Tickets.Waiting), told.Tickets.Held > 0 && `${count(told.Tickets.Held)} held`],
          waited.Max > 0 && ["Half waited", wait(waited.P50)],
          waited.Max > 0 && ["One of ten waited", `${wait(waited.P90)} or more`],
          waited.Max > 0 && ["One of a hundred", `${wait(waited.P99)} or more`],
          ["Matches", count(told.Matches)],
          ["Expired", count(told.Tickets.Expired)],
        ]),
      ),
      told.Warnings?.length > 0 &&
        h(
          "section.why",
          null,
          told.Warnings.map((one) => h("p", null, one)),
        ),
      section(
        "Tickets that wait",
        "in no order",
        filters(query, [["ticket", "Explain ticket", "its id"]], "Explain"),
        !may("ListTickets")
          ? nothing("To see tickets needs the right read, which this credential lacks.")
          : tickets.length === 0
            ? nothing(page?.NextToken ? "None so far: go on." : "No ticket waits.")
            : table(
                "Tickets",
                ["Ticket", "Offered", "Expires", ["Level", "number"], ["Weight", "number wide"], "Attributes"],
                tickets.map((one) => [
                  row(to("pool", name, { ticket: one.TicketId }), h("bdi", null, cut(one.TicketId, 60))),
                  age(seconds(one.OfferedAt)),
                  one.ExpiresAt && age(seconds(one.ExpiresAt)),
                  one.Level,
                  one.Weight,
                  h(
                    "code",
                    { title: utc(seconds(one.OfferedAt)) },
                    h("bdi", null, cut(JSON.stringify(one.Attributes ?? {}), 120)),
                  ),
                ]),
              ),
        pages(query, page?.NextToken),
      ),
      section(
        "Rules",
        `version ${told.RulesVersion}`,
        facts([
          ["Size", told.Size],
          ["Pick", told.Pick && h("code", null, told.Pick)],
          ["Results go to", queueLink(nameOf(told.ResultQueueUrl))],
          ["Expired ones go to", told.OnExpiryQueueUrl && queueLink(nameOf(told.OnExpiryQueueUrl))],
          ["Confirm within", told.ConfirmSeconds > 0 && `${told.ConfirmSeconds} s`],
          [
            "How they are searched",
            told.Plan && h("code", null, typeof told.Plan === "string" ? told.Plan : JSON.stringify(told.Plan)),
          ],
        ]),
        (told.Rules ?? []).length > 0 &&
          h("pre", { tabindex: 0 }, told.Rules.map((one) => JSON.stringify(one)).join("\n")),
      ),
    ];
  },
};
