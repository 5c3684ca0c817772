// What is this server, with which configuration, and how near is it to its limits?
import { h } from "./dom.js";
import { read, server } from "./api.js";
import { diskStat, facts, heading, nothing, queueLink, section, stats, table } from "./parts.js";
import { age, bytes, count, span } from "./words.js";

const PARTS = ["Wait", "Decide", "Flush", "Write"]; // of a slow request, in milliseconds

const share = (used, most) =>
  most > 0
    ? [
        h("meter", {
          min: "0",
          max: String(most),
          value: String(used),
          high: String(most * 0.85),
          "aria-label": "of its limit",
        }),
        ` ${Math.round((100 * used) / most)} % of ${bytes(most)}`,
      ]
    : "no limit";

function drawNodes(nodes) {
  const names = [...new Set(nodes.flatMap((node) => Object.keys(node)))];
  return section(
    "Nodes",
    "of the cluster",
    table(
      "Nodes",
      names.map((name) => [name, name === "Address" ? "wide" : ""]),
      nodes.map((node) => names.map((name) => value(node[name], name === "Node" || name === "Address"))),
    ),
  );
}

function value(told, isName) {
  if (typeof told === "number" && told > 1e9) return age(told);
  if (told !== null && typeof told === "object") return h("code", null, JSON.stringify(told));
  if (told === undefined) return "";
  return isName ? h("code", null, told) : String(told);
}

function drawSlow(list) {
  return section(
    "Slow requests",
    "the newest first",
    table(
      "Slow requests",
      ["At", "Action", "Queue", ["Took", "number"], "Where", ["Who", "wide"], ["Request", "wide"]],
      list.map((one) => [
        age(one.At),
        h("span", { "data-row": true, tabindex: -1 }, one.Action),
        one.QueueName && queueLink(one.QueueName),
        `${count(one.Milliseconds)} ms`,
        PARTS.filter((key) => one[key] > 0)
          .map((key) => `${key.toLowerCase()} ${count(one[key])} ms`)
          .join(", "),
        one.AccessKeyId,
        h("code", null, one.RequestId),
      ]),
    ),
  );
}

export default {
  title: () => "Server",

  async load(_, visit, signal) {
    return { health: await read("/health", signal) };
  },

  draw({ health }) {
    const told = server.described;
    const { Memory, Disk, Snapshot, Certificate } = told ?? {};
    const config = told?.Config ?? [];
    return [
      heading("Server", [health.status]),
      section(
        "Now",
        null,
        stats([
          ["Version", told?.Version ?? health.version],
          told?.Node && ["Node", told.Node],
          told?.StartedAt && [
            "Up for",
            age(told.StartedAt),
            told.RecoverySeconds !== undefined && `recovered in ${span(told.RecoverySeconds)}`,
          ],
          ["Connections", count(health.connections)],
          Memory && ["Memory", bytes(Memory.Used), share(Memory.Used, Memory.Max)],
          diskStat(Disk),
        ]),
      ),
      section(
        "Facts",
        null,
        facts([
          ["Must stay free on the disk", Disk?.MinFree > 0 && bytes(Disk.MinFree)],
          [
            "Last snapshot",
            Snapshot &&
              (Snapshot.IsFailing
                ? h("span.bad", null, "failing")
                : Snapshot.LastAt
                  ? [age(Snapshot.LastAt), " ago"]
                  : "none yet"),
          ],
          ["Certificate expires", Certificate && age(Certificate.ExpiresAt)],
          [
            "Namespaces",
            health.namespaces !== undefined && `${count(health.served)} of ${count(health.namespaces)} served here`,
          ],
          [
            "Credentials",
            server.config.HasCredentials ? "each request is signed" : "none: open to whoever reaches it",
          ],
          ["This dashboard", `ui = ${server.config.Ui}`],
          ["You may", [...server.rights].join(", ") || "look only"],
        ]),
      ),
      told?.Nodes?.length > 0 && drawNodes(told.Nodes),
      told?.SlowRequests?.length > 0 && drawSlow(told.SlowRequests),
      config.length > 0 &&
        section(
          "Configuration",
          "in force; secrets are left out",
          table(
            "Configuration",
            ["Key", "Value", ""],
            config
              .toSorted((a, b) => a.IsDefault - b.IsDefault)
              .map((one) => [
                h("code", null, one.Name),
                h("code", null, String(one.Value)),
                one.IsDefault ? h("span.soft", null, "default") : "set",
              ]),
          ),
        ),
      !told && h("section", null, nothing("More is in the daemon's own words: tallyd --print-config, and /metrics.")),
    ];
  },
};
